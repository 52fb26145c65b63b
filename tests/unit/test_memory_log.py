"""Cache sizes: as computed where llama.cpp's log agrees, else as logged.

The log lines are those of llama.cpp as llama-cpp-python 0.3.36 has it, for models of these shapes.
"""

import re
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, cast

import pytest
from llama_cpp import _logger
from llama_cpp import llama_cpp as lib

from backend.local.llama import Context
from backend.local.loading import flash_attention
from backend.local.log import CONTINUED, DEBUG, ERROR, INFO, LlamaLog
from backend.local.memory import CacheSizes, read_cache_sizes
from backend.settings import EngineSettings
from models.header import ModelHeader, RecurrentShape
from tests.unit.headers import MIB, llama_header

# ------------------------------------------------------------------------------- the log


@pytest.fixture
def written() -> list[str]:
    return []


@pytest.fixture
def log(written: list[str]) -> Iterator[LlamaLog]:
    yield LlamaLog(written.append)
    lib.llama_log_set(_logger.llama_log_callback, None)


@pytest.fixture
def say(log: LlamaLog) -> Callable[..., None]:
    """Log as llama.cpp does: through the C callback."""

    def say(level: int, *texts: str | bytes) -> None:
        for text in texts:
            log._callback(level, text if isinstance(text, bytes) else text.encode(), None)

    return say


def test_continued_lines_are_joined(
    log: LlamaLog, say: Callable[..., None], written: list[str]
) -> None:
    say(INFO, "llama_model_loader: loaded\n", "load_tensors: ")
    say(CONTINUED, ".", ".", ".")
    assert written == ["llama_model_loader: loaded"]
    say(CONTINUED, "\n")
    say(INFO, "one\ntwo\n")
    assert written[1:] == ["load_tensors: ...", "one", "two"]
    assert log.unsent() == tuple(written)
    assert log.unsent() == ()


def test_debug_lines_are_left_out_with_what_continues_them(
    say: Callable[..., None], written: list[str]
) -> None:
    say(DEBUG, "create_tensor: ")
    say(CONTINUED, "blk.0\n")
    say(INFO, "kept\n")
    assert written == ["kept"]


def test_the_first_error_since_a_load_began(log: LlamaLog, say: Callable[..., None]) -> None:
    say(ERROR, "llama_model_load: error loading model: an older fault\n")
    log.mark()
    assert log.first_error() is None
    say(INFO, "print_info: file size = 1.98 MiB\n")
    say(ERROR, "\n", "gguf_init_from_file: failed to read magic\n", "llama_model_load: failed\n")
    error = log.first_error()
    assert error is not None
    assert error.endswith("failed to read magic")


def test_bytes_that_are_no_text_do_not_stop_the_log(
    say: Callable[..., None], written: list[str]
) -> None:
    say(INFO, b"general.name = \xff\xfe\n")
    assert written == ["general.name = \ufffd\ufffd"]


def test_a_search_sees_only_what_came_since_the_mark(
    log: LlamaLog, say: Callable[..., None]
) -> None:
    say(INFO, "resolve_fused_ops: Flash Attention disabled\n")
    log.mark()
    say(INFO, "resolve_fused_ops: Flash Attention enabled\n")
    found = log.matching(r"Flash Attention.*\b(enabled|disabled)")
    assert [match[1] for match in found] == ["enabled"]


# ------------------------------------------------------------------------------- caches


class Lines(NamedTuple):
    """A log that is a list of lines."""

    lines: tuple[str, ...]

    def matching(self, pattern: str) -> list[re.Match[str]]:
        return [match for line in self.lines if (match := re.search(pattern, line))]


class Sizes(NamedTuple):
    """What is asked of a context."""

    n_ctx: int
    n_ubatch: int = 512


def read(
    header: ModelHeader,
    *lines: str,
    n_ctx: int = 4096,
    settings: EngineSettings | None = None,
) -> CacheSizes:
    return read_cache_sizes(
        header,
        cast("Context", Sizes(n_ctx)),
        settings or EngineSettings(),
        cast("LlamaLog", Lines(("llama_context: n_ctx = 4096", *lines, "sched_reserve: done"))),
    )


@pytest.mark.parametrize(
    ("asked", "lines", "on"),
    [
        ("on", (), True),
        ("off", (), False),
        ("auto", ("resolve_fused_ops: Flash Attention enabled",), True),
        ("auto", ("resolve_fused_ops: Flash Attention disabled",), False),
        ("auto", ("llama_context: flash_attn            = auto",), None),
    ],
)
def test_flash_attention_is_what_llama_cpp_says(
    asked: Literal["auto", "on", "off"], lines: tuple[str, ...], on: bool | None
) -> None:
    log = cast("LlamaLog", Lines(lines))
    assert flash_attention(EngineSettings(flash_attn=asked), log) is on


SMOLLM2 = llama_header(
    n_layer=30,
    n_head_kv=(3,) * 30,
    n_head=(9,) * 30,
    n_ff=(1536,) * 30,
    kv_layers=(True,) * 30,
    recurrent_layers=(False,) * 30,
)
SMOLLM2_LINE = (
    "llama_kv_cache: size =   90.00 MiB (  4096 cells,  30 layers,  1/1 seqs), "
    "K (f16):   45.00 MiB, V (f16):   45.00 MiB"
)


def test_a_plain_cache_agrees_with_the_log() -> None:
    sizes = read(SMOLLM2, SMOLLM2_LINE)
    assert not sizes.from_log
    state = sizes.state(n_ctx=4096, tokens=640, positions=(0, 639))
    (cache,) = state.caches
    # 30 layers * 3 heads * 64 elements * 2 bytes, for K and for V: 22.5 KiB a token.
    assert state.bytes_per_token == 23_040
    assert (cache.k_bytes, cache.v_bytes) == (45 * MIB, 45 * MIB)
    assert (state.bytes_allocated, state.bytes_used) == (90 * MIB, 640 * 23_040)
    assert (cache.cells, cache.cells_used, cache.cells_used_exact) == (4096, 640, True)
    assert (cache.kind, cache.layers, state.source) == ("full", 30, "model")


def test_a_quantized_cache_agrees_with_the_log() -> None:
    line = (
        "llama_kv_cache: size =   36.56 MiB (  4096 cells,  30 layers,  1/1 seqs), "
        "K (q8_0):   23.91 MiB, V (q4_0):   12.66 MiB"
    )
    settings = EngineSettings(type_k="q8_0", type_v="q4_0", flash_attn="on")
    sizes = read(SMOLLM2, line, settings=settings)
    assert not sizes.from_log
    (cache,) = sizes.state(n_ctx=4096, tokens=0, positions=(-1, -1)).caches
    # 192 elements are 6 blocks of 34 or of 18 bytes.
    assert (cache.k_bytes, cache.v_bytes) == (30 * 4096 * 6 * 34, 30 * 4096 * 6 * 18)
    assert (cache.type_k, cache.type_v, cache.cells_used) == ("q8_0", "q4_0", 0)


SLIDING = llama_header(
    architecture="gemma3",
    n_head_kv=(2,) * 4,
    head_dim_k=32,
    head_dim_v=32,
    head_dim_k_swa=32,
    head_dim_v_swa=32,
    n_swa=64,
    swa_layers=(True, False, True, False),
    memory_kind="sliding_window",
)
FULL_LINE = (
    "llama_kv_cache: size =    0.50 MiB (  1024 cells,   2 layers,  1/1 seqs), "
    "K (f16):    0.25 MiB, V (f16):    0.25 MiB"
)
WINDOW_LINE = (
    "llama_kv_cache: size =    0.38 MiB (   768 cells,   2 layers,  1/1 seqs), "
    "K (f16):    0.19 MiB, V (f16):    0.19 MiB"
)


def test_a_sliding_window_has_two_caches_each_with_its_cells() -> None:
    sizes = read(SLIDING, FULL_LINE, WINDOW_LINE, n_ctx=1024)
    assert not sizes.from_log
    state = sizes.state(n_ctx=1024, tokens=900, positions=(200, 899))
    full, window = state.caches
    assert (full.kind, full.cells, full.cells_used, full.cells_used_exact) == (
        "full",
        1024,
        900,
        True,
    )
    # How many cells the window uses is not public; its positions stand in.
    assert (window.kind, window.cells, window.cells_used, window.cells_used_exact) == (
        "swa",
        768,
        700,
        False,
    )
    # 2 layers * 2 heads * 32 elements * 2 bytes, for K and for V: 512 bytes a cell.
    assert state.bytes_used == (900 + 700) * 512
    assert state.bytes_allocated == (1024 + 768) * 512
    assert state.bytes_per_token == 512


def test_a_window_that_has_forgotten_nothing_is_exact() -> None:
    sizes = read(SLIDING, FULL_LINE, WINDOW_LINE, n_ctx=1024)
    _, window = sizes.state(n_ctx=1024, tokens=300, positions=(0, 299)).caches
    assert (window.cells_used, window.cells_used_exact) == (300, True)
    _, empty = sizes.state(n_ctx=1024, tokens=0, positions=(-1, -1)).caches
    assert (empty.cells_used, empty.cells_used_exact) == (0, True)


MAMBA = llama_header(
    architecture="mamba",
    n_layer=3,
    n_head=(0,) * 3,
    n_head_kv=(0,) * 3,
    n_ff=(0,) * 3,
    kv_layers=(False,) * 3,
    recurrent_layers=(True,) * 3,
    recurrent=RecurrentShape(conv_kernel=4, inner_size=256, state_size=16),
    memory_kind="recurrent",
)


def test_a_recurrent_state_agrees_with_the_log() -> None:
    line = (
        "llama_memory_recurrent: size =    0.06 MiB (     1 cells,   3 layers,  1 seqs  0 rs_seq),"
        " R (f32):    0.01 MiB, S (f32):    0.05 MiB, P (f32):    0.00 MiB"
    )
    sizes = read(MAMBA, line, n_ctx=1024)
    assert not sizes.from_log
    state = sizes.state(n_ctx=1024, tokens=500, positions=(499, 499))
    (cache,) = state.caches
    # R: 3 layers * 3 steps * 256 floats; S: 3 layers * 16 * 256 floats.
    assert (cache.k_bytes, cache.v_bytes) == (3 * 3 * 256 * 4, 3 * 16 * 256 * 4)
    assert (cache.kind, cache.cells, cache.cells_used) == ("recurrent", 1, 1)
    # It takes the same room whatever the text's length.
    assert (state.bytes_per_token, state.bytes_used) == (0, state.bytes_allocated)


HYBRID = llama_header(
    architecture="jamba",
    n_head=(4,) * 4,
    n_head_kv=(0, 2, 0, 4),
    head_dim_k=32,
    head_dim_v=32,
    kv_layers=(False, True, False, True),
    recurrent_layers=(True, False, True, False),
    recurrent=RecurrentShape(conv_kernel=4, inner_size=256, state_size=16),
    memory_kind="hybrid",
)
HYBRID_STATE = (
    "llama_memory_recurrent: size =    0.04 MiB (     1 cells,   4 layers,  1 seqs  0 rs_seq),"
    " R (f32):    0.01 MiB, S (f32):    0.03 MiB, P (f32):    0.00 MiB"
)


@pytest.mark.parametrize(
    ("flash_attn", "size", "v"), [("auto", "0.75", "0.38"), ("off", "0.88", "0.50")]
)
def test_a_hybrid_logs_all_its_layers_for_the_state(
    flash_attn: Literal["auto", "off"], size: str, v: str
) -> None:
    line = (
        f"llama_kv_cache: size =    {size} MiB (  1024 cells,   2 layers,  1/1 seqs), "
        f"K (f16):    0.38 MiB, V (f16):    {v} MiB"
    )
    settings = EngineSettings(flash_attn=flash_attn)
    sizes = read(HYBRID, line, HYBRID_STATE, n_ctx=1024, settings=settings)
    assert not sizes.from_log
    state = sizes.state(n_ctx=1024, tokens=100, positions=(0, 99))
    assert [cache.kind for cache in state.caches] == ["full", "recurrent"]
    # K: 2 + 4 heads of 32; V likewise, or twice the widest layer without flash attention.
    full = state.caches[0]
    assert full.k_bytes == 1024 * 6 * 32 * 2
    assert full.v_bytes == 1024 * (6 if flash_attn == "auto" else 8) * 32 * 2


@pytest.mark.parametrize(
    "line",
    [
        # Other cells, other layers, other bytes.
        SMOLLM2_LINE.replace("4096 cells", "2048 cells"),
        SMOLLM2_LINE.replace("30 layers", "29 layers"),
        SMOLLM2_LINE.replace("K (f16):   45.00", "K (f16):   44.00"),
        SMOLLM2_LINE.replace("V (f16):   45.00", "V (f16):   45.02"),
    ],
)
def test_a_log_that_differs_is_believed(line: str) -> None:
    assert read(SMOLLM2, line).from_log


def test_an_unknown_architecture_takes_the_logs_figures() -> None:
    header = llama_header(architecture="unheard", memory_known=False)
    sizes = read(header, FULL_LINE, WINDOW_LINE, HYBRID_STATE, n_ctx=1024)
    state = sizes.state(n_ctx=1024, tokens=900, positions=(200, 899))
    assert state.source == "log"
    assert state.bytes_per_token is None
    assert [(c.kind, c.layers, c.cells) for c in state.caches] == [
        ("full", 2, 1024),
        ("swa", 2, 768),
        ("recurrent", 4, 1),
    ]
    # That the smaller one is a window is a guess, so its cells are never exact.
    used = [(c.cells_used, c.cells_used_exact) for c in state.caches]
    assert used == [(900, True), (700, False), (1, True)]
    few = sizes.state(n_ctx=1024, tokens=10, positions=(0, 9)).caches[1]
    assert (few.cells_used, few.cells_used_exact) == (10, False)
    # Two decimals of a MiB are all that the log has.
    assert [c.k_bytes / MIB for c in state.caches] == pytest.approx([0.25, 0.19, 0.01], abs=1e-6)


def test_a_log_without_caches_leaves_none() -> None:
    state = read(llama_header(memory_known=False)).state(n_ctx=8, tokens=0, positions=(-1, -1))
    assert (state.caches, state.bytes_allocated, state.source) == ((), None, "log")


def test_figures_of_several_digits_are_read_whole() -> None:
    line = (
        "llama_kv_cache: size = 16384.00 MiB (131072 cells,  32 layers,  1/1 seqs), "
        "K (f16): 8192.00 MiB, V (f16): 8192.00 MiB"
    )
    state = read(llama_header(memory_known=False), line).state(
        n_ctx=131_072, tokens=1, positions=(0, 0)
    )
    assert state.bytes_allocated == 16_384 * MIB
    assert state.caches[0].cells == 131_072
