"""A typed face for the part of llama.cpp's C API that phasescope uses.

Everything here runs in the child process. Pointers never leave this package.
"""

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path

import llama_cpp
from llama_cpp import llama_cpp as lib

from backend.protocol import PerfCounters
from backend.settings import EngineSettings

KV_TYPES = {
    "f32": 0,
    "f16": 1,
    "q4_0": 2,
    "q4_1": 3,
    "q5_0": 6,
    "q5_1": 7,
    "q8_0": 8,
    "iq4_nl": 20,
    "bf16": 30,
}
"""ggml's numbers of the cache types."""

FLASH_ATTN = {"auto": -1, "off": 0, "on": 1}

ATTR_UNKNOWN = 1 << 0
ATTR_CONTROL = 1 << 3
ATTR_USER_DEFINED = 1 << 4
ATTR_LSTRIP = 1 << 7
ATTR_RSTRIP = 1 << 8

ABORTED = 2
"""What `llama_decode` returns when an abort callback ended it."""

VOCAB_SPM = 1


class LlamaError(Exception):
    """llama.cpp refused something; the text is one sentence."""


def binding_version() -> str:
    """Name and version of the binding that carries llama.cpp."""
    return f"llama-cpp-python {llama_cpp.__version__}"


def system_info() -> str:
    """The processor features and backends of this build of llama.cpp."""
    info: bytes = lib.llama_print_system_info()
    return info.decode("utf-8", errors="replace").strip(" |")


def supports_gpu_offload() -> bool:
    """Whether this build can put layers on a GPU."""
    return bool(lib.llama_supports_gpu_offload())


class Model:
    """A loaded model.

    Args:
        path: The GGUF file (or the first of its shards).
        settings: Only `n_gpu_layers` counts here.
        on_progress: Called with the loaded share, 0 to 1; False ends the load.

    Raises:
        LlamaError: The load was ended or failed.
    """

    def __init__(
        self, path: Path, settings: EngineSettings, on_progress: Callable[[float], bool]
    ) -> None:
        params = lib.llama_model_default_params()
        self.n_gpu_layers = settings.n_gpu_layers if supports_gpu_offload() else 0
        params.n_gpu_layers = self.n_gpu_layers
        progress = lib.llama_progress_callback(lambda share, _data: on_progress(share))
        params.progress_callback = progress
        pointer = lib.llama_model_load_from_file(str(path).encode(), params)
        if not pointer:
            raise LlamaError("llama.cpp could not load the model")
        self.pointer = pointer
        self.n_swa = int(lib.llama_model_n_swa(pointer))
        self.recurrent = bool(lib.llama_model_is_recurrent(pointer))
        self.hybrid = bool(lib.llama_model_is_hybrid(pointer))
        self.n_layer = int(lib.llama_model_n_layer(pointer))
        if self.n_gpu_layers < 0:
            self.n_gpu_layers = self.n_layer + 1

    def close(self) -> None:
        """Free the weights."""
        lib.llama_model_free(self.pointer)


class Context:
    """A context: compute buffers and the KV cache of one sequence.

    Args:
        model: The model it runs.
        n_ctx: Tokens asked for; llama.cpp may round up (`self.n_ctx` is what it made).
        settings: Batch sizes, threads, cache types and flash attention.
        n_threads: Threads of decode.
        n_threads_batch: Threads of prefill.

    Raises:
        LlamaError: llama.cpp could not make it.
    """

    def __init__(
        self,
        model: Model,
        n_ctx: int,
        settings: EngineSettings,
        *,
        n_threads: int,
        n_threads_batch: int,
    ) -> None:
        params = lib.llama_context_default_params()
        params.n_ctx = n_ctx
        params.n_batch = settings.n_batch
        params.n_ubatch = settings.n_ubatch
        params.n_seq_max = 1
        # One row of logits is all that a chat reads; it shrinks the compute buffer fivefold.
        params.n_outputs_max = 1
        params.n_threads = n_threads
        params.n_threads_batch = n_threads_batch
        params.flash_attn_type = FLASH_ATTN[settings.flash_attn]
        params.type_k = KV_TYPES[settings.type_k]
        params.type_v = KV_TYPES[settings.type_v]
        params.swa_full = settings.swa_full
        params.no_perf = False
        pointer = lib.llama_init_from_model(model.pointer, params)
        if not pointer:
            raise LlamaError("llama.cpp could not make a context")
        self.pointer = pointer
        self.memory = lib.llama_get_memory(pointer)
        self.n_ctx = int(lib.llama_n_ctx(pointer))
        self.n_batch = int(lib.llama_n_batch(pointer))
        self.n_ubatch = int(lib.llama_n_ubatch(pointer))
        self._abort: object = None

    def close(self) -> None:
        """Free buffers and cache."""
        lib.llama_free(self.pointer)

    def decode(self, tokens: "ctypes.Array[ctypes.c_int32]", count: int) -> int:
        """Run `count` tokens after those in the cache; wait until the logits are there.

        Returns:
            0, or `ABORTED`, or another status of `llama_decode` that is an error.
        """
        status = int(lib.llama_decode(self.pointer, lib.llama_batch_get_one(tokens, count)))
        lib.llama_synchronize(self.pointer)
        return status

    def warm_up(self, tokens: Sequence[int]) -> None:
        """Decode a few tokens once and forget them, as llama.cpp's tools do after a load."""
        lib.llama_set_warmup(self.pointer, True)
        count = min(len(tokens), self.n_batch)
        self.decode((ctypes.c_int32 * count)(*tokens[:count]), count)
        lib.llama_memory_clear(self.memory, True)
        lib.llama_set_warmup(self.pointer, False)
        self.reset_perf()

    def abort_with(self, callback: object, data: object = None) -> None:
        """Let `callback` (a ctypes function) end a decode call; kept alive here."""
        self._abort = (callback, data)
        lib.llama_set_abort_callback(self.pointer, callback, data)

    def clear_memory(self) -> None:
        """Empty the KV cache."""
        lib.llama_memory_clear(self.memory, False)

    def remove_from(self, position: int) -> bool:
        """Drop all tokens from `position` on; False where llama.cpp cannot."""
        return bool(lib.llama_memory_seq_rm(self.memory, 0, position, -1))

    def position_range(self) -> tuple[int, int]:
        """First and last position in the cache; -1 where it is empty."""
        return (
            int(lib.llama_memory_seq_pos_min(self.memory, 0)),
            int(lib.llama_memory_seq_pos_max(self.memory, 0)),
        )

    def reset_perf(self) -> None:
        """Set llama.cpp's own counters back."""
        lib.llama_perf_context_reset(self.pointer)

    def perf(self) -> PerfCounters:
        """llama.cpp's own counters since the last reset."""
        data = lib.llama_perf_context(self.pointer)
        return PerfCounters(
            t_p_eval_ms=data.t_p_eval_ms,
            n_p_eval=data.n_p_eval,
            t_eval_ms=data.t_eval_ms,
            n_eval=data.n_eval,
        )
