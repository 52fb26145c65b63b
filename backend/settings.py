"""The settings of an engine and of sampling, named as llama.cpp names them."""

from math import inf
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType


class Limits(NamedTuple):
    """The least and the most that a number may be; with `above` it must be more than the least."""

    least: float
    most: float
    above: bool = False


LARGEST = (1 << 31) - 1
"""What llama.cpp's counts can hold."""

MOST_THREADS = 512
"""llama.cpp takes no more (`GGML_MAX_N_THREADS`)."""

LIMITS = {
    "n_ctx": Limits(1, LARGEST),
    "n_batch": Limits(1, LARGEST),
    "n_ubatch": Limits(1, LARGEST),
    "n_threads": Limits(1, MOST_THREADS),
    "n_threads_batch": Limits(1, MOST_THREADS),
    "n_gpu_layers": Limits(-1, LARGEST),
    "top_k": Limits(0, LARGEST),
    "top_p": Limits(0, 1),
    "min_p": Limits(0, 1),
    "typical_p": Limits(0, 1),
    "xtc_probability": Limits(0, 1),
    "xtc_threshold": Limits(0, 1),
    "repeat_penalty": Limits(0, inf, above=True),
    "repeat_last_n": Limits(-1, LARGEST),
    "seed": Limits(0, (1 << 32) - 1),
    "max_tokens": Limits(0, LARGEST),
}
"""Ranges of the settings that have one."""


class EngineSettings(msgspec.Struct, frozen=True):
    """How a model is loaded. Defaults follow llama.cpp's tools.

    Attributes:
        n_ctx: Tokens the context holds; None: the trained context up to 8192, less where
            memory is short.
        n_batch: Most tokens in one decode call.
        n_ubatch: Most tokens in one compute step.
        n_threads: Threads of decode; None: the usable physical cores.
        n_threads_batch: Threads of prefill; None: as `n_threads`.
        n_gpu_layers: Layers to offload; -1: all where the build can.
        flash_attn: Flash attention; `auto` leaves it to llama.cpp.
        type_k, type_v: Types of the KV cache.
        swa_full: Keep all cells of sliding-window layers.
    """

    n_ctx: int | None = None
    n_batch: int = 2048
    n_ubatch: int = 512
    n_threads: int | None = None
    n_threads_batch: int | None = None
    n_gpu_layers: int = -1
    flash_attn: Literal["auto", "on", "off"] = "auto"
    type_k: str = "f16"
    type_v: str = "f16"
    swa_full: bool = False


class SamplingSettings(msgspec.Struct, frozen=True):
    """How tokens are chosen. Defaults follow llama.cpp's tools.

    Attributes:
        temp: Temperature; 0 or less is greedy.
        top_k: Candidates kept; 0 keeps all.
        top_p: Smallest set of candidates that has this probability together; 1 is off.
        min_p: Least probability, relative to the likeliest candidate; 0 is off.
        typical_p: Locally typical sampling; 1 is off.
        xtc_probability: Chance that the likeliest candidates are left out; 0 is off.
        xtc_threshold: Probability from which a candidate counts as one of the likeliest.
        repeat_penalty: 1 is off.
        repeat_last_n: Tokens that the penalties look back on; 0 is off, -1 the whole context.
        presence_penalty, frequency_penalty: 0 is off.
        seed: Seed of the random choice; None draws one, which the record then names.
        max_tokens: Most tokens to sample; None: until the model ends or the context is full.
        stop: Texts that end the answer and are left out of it.
    """

    temp: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    typical_p: float = 1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()


class SamplingChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """The sampling settings that somebody chose: a user, a chat, a model's maker.

    What is `UNSET` is left to whoever is asked next, in the end to `SamplingSettings`.
    """

    temp: float | UnsetType = UNSET
    top_k: int | UnsetType = UNSET
    top_p: float | UnsetType = UNSET
    min_p: float | UnsetType = UNSET
    typical_p: float | UnsetType = UNSET
    xtc_probability: float | UnsetType = UNSET
    xtc_threshold: float | UnsetType = UNSET
    repeat_penalty: float | UnsetType = UNSET
    repeat_last_n: int | UnsetType = UNSET
    presence_penalty: float | UnsetType = UNSET
    frequency_penalty: float | UnsetType = UNSET
    seed: int | UnsetType | None = UNSET
    max_tokens: int | UnsetType | None = UNSET
    stop: tuple[str, ...] | UnsetType = UNSET

    @property
    def chosen(self) -> dict[str, Any]:
        """What was chosen, by name."""
        values = msgspec.structs.asdict(self)
        return {name: value for name, value in values.items() if value is not UNSET}

    def over(self, below: "SamplingChoice") -> "SamplingChoice":
        """This choice, and where it is silent another."""
        return msgspec.structs.replace(below, **self.chosen)

    def settled(self) -> SamplingSettings:
        """All settings: what was chosen, and llama.cpp's defaults."""
        return SamplingSettings(**self.chosen)
