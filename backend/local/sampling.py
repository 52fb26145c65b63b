"""The sampler chain, in the order of llama.cpp's tools."""

from collections.abc import Sequence
from ctypes import c_float
from math import isfinite

from llama_cpp import llama_cpp as lib

from backend.local.llama import Context
from backend.settings import LARGEST, SamplingSettings

MIN_KEEP = 1

NUMBERS = (
    "temp",
    "top_p",
    "min_p",
    "typical_p",
    "xtc_probability",
    "xtc_threshold",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
)


def sampling_fault(settings: SamplingSettings) -> str | None:
    """Why nothing can be sampled with these settings, in a sentence; None where they are fine."""
    for name in NUMBERS:
        number: float = getattr(settings, name)
        if not isfinite(c_float(number).value):
            return f"{name} is {number}, which is no number to sample with; give a finite one"
    if c_float(settings.repeat_penalty).value <= 0:
        return f"repeat_penalty is {settings.repeat_penalty}; give a number that is more than 0"
    for name in ("top_k", "repeat_last_n"):
        count: int = getattr(settings, name)
        if abs(count) > LARGEST:
            return f"{name} is {count}, which is too large"
    return None


class Sampler:
    """Chooses tokens from the logits of a context.

    Args:
        settings: Sampling settings; `seed` must be drawn already unless sampling is greedy.
        n_vocab: Tokens of the model's vocabulary.
        n_ctx: Tokens that the context holds.

    Attributes:
        looks_back: Tokens that the penalties look back on.
    """

    def __init__(self, settings: SamplingSettings, n_vocab: int, n_ctx: int) -> None:
        self._chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
        last_n = settings.repeat_last_n
        penalizes = (
            settings.repeat_penalty != 1.0
            or settings.presence_penalty != 0.0
            or settings.frequency_penalty != 0.0
        )
        self.looks_back = (n_ctx if last_n < 0 else min(last_n, n_ctx)) if penalizes else 0
        if self.looks_back:
            self._add(
                lib.llama_sampler_init_penalties(
                    n_vocab,
                    self.looks_back,
                    settings.repeat_penalty,
                    settings.frequency_penalty,
                    settings.presence_penalty,
                )
            )
        if settings.temp <= 0:
            self._add(lib.llama_sampler_init_greedy())
            return
        seed = settings.seed or 0
        self._add(lib.llama_sampler_init_top_k(settings.top_k))
        self._add(lib.llama_sampler_init_typical(settings.typical_p, MIN_KEEP))
        self._add(lib.llama_sampler_init_top_p(settings.top_p, MIN_KEEP))
        self._add(lib.llama_sampler_init_min_p(settings.min_p, MIN_KEEP))
        self._add(
            lib.llama_sampler_init_xtc(
                settings.xtc_probability, settings.xtc_threshold, MIN_KEEP, seed
            )
        )
        self._add(lib.llama_sampler_init_temp(settings.temp))
        self._add(lib.llama_sampler_init_dist(seed))

    def _add(self, sampler: object) -> None:
        lib.llama_sampler_chain_add(self._chain, sampler)

    def accept_prompt(self, tokens: Sequence[int]) -> None:
        """Let the penalties see the end of the prompt."""
        for token in tokens[max(0, len(tokens) - self.looks_back) :]:
            lib.llama_sampler_accept(self._chain, token)

    def sample(self, context: Context) -> int:
        """The next token, from the last logits; the chain takes note of it."""
        return int(lib.llama_sampler_sample(self._chain, context.pointer, -1))

    def close(self) -> None:
        """Free the chain."""
        lib.llama_sampler_free(self._chain)
