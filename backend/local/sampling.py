"""The sampler chain, in the order of llama.cpp's tools."""

from collections.abc import Iterable
from math import isfinite

from llama_cpp import llama_cpp as lib

from backend.local.llama import Context
from backend.settings import SamplingSettings

PENALTY_LAST_N = 64
"""Tokens that the repeat penalty looks back on: llama.cpp's default."""

MIN_KEEP = 1


def sampling_fault(settings: SamplingSettings) -> str | None:
    """Why nothing can be sampled with these settings, in a sentence; None where they are fine."""
    for name in ("temp", "top_p", "min_p", "repeat_penalty"):
        number: float = getattr(settings, name)
        if not isfinite(number):
            return f"{name} is {number}, which is no number to sample with; give a finite one"
    return None


class Sampler:
    """Chooses tokens from the logits of a context.

    Args:
        settings: Sampling settings; `seed` must be drawn already unless sampling is greedy.
        n_vocab: Tokens of the model's vocabulary.
    """

    def __init__(self, settings: SamplingSettings, n_vocab: int) -> None:
        self._chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
        self._penalties = settings.repeat_penalty != 1.0
        if self._penalties:
            self._add(
                lib.llama_sampler_init_penalties(
                    n_vocab, PENALTY_LAST_N, settings.repeat_penalty, 0.0, 0.0
                )
            )
        if settings.temp <= 0:
            self._add(lib.llama_sampler_init_greedy())
            return
        self._add(lib.llama_sampler_init_top_k(settings.top_k))
        self._add(lib.llama_sampler_init_top_p(settings.top_p, MIN_KEEP))
        self._add(lib.llama_sampler_init_min_p(settings.min_p, MIN_KEEP))
        self._add(lib.llama_sampler_init_temp(settings.temp))
        self._add(lib.llama_sampler_init_dist(settings.seed or 0))

    def _add(self, sampler: object) -> None:
        lib.llama_sampler_chain_add(self._chain, sampler)

    def accept_prompt(self, tokens: Iterable[int]) -> None:
        """Let the repeat penalty see the end of the prompt."""
        if self._penalties:
            for token in tokens:
                lib.llama_sampler_accept(self._chain, token)

    def sample(self, context: Context) -> int:
        """The next token, from the last logits; the chain takes note of it."""
        return int(lib.llama_sampler_sample(self._chain, context.pointer, -1))

    def close(self) -> None:
        """Free the chain."""
        lib.llama_sampler_free(self._chain)
