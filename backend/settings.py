"""The settings of an engine and of sampling, named as llama.cpp names them."""

from typing import Literal

import msgspec


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
        repeat_penalty: 1 is off.
        seed: Seed of the random choice; None draws one, which the record then names.
        max_tokens: Most tokens to sample; None: until the model ends or the context is full.
        stop: Texts that end the answer and are left out of it.
    """

    temp: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    seed: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
