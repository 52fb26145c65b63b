"""llama.cpp used directly, as a plain loop: what the product's engine is held against.

The functions run in a child process, because only such a one may load llama.cpp.
"""

import ctypes
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Greedy(NamedTuple):
    """A greedy continuation.

    Attributes:
        tokens: The tokens.
        margins: The lead of each token's logit over the next best one.
        logits: The logits from which the first token was chosen.
    """

    tokens: tuple[int, ...]
    margins: tuple[float, ...]
    logits: tuple[float, ...]

    @property
    def clear(self) -> tuple[int, ...]:
        """The tokens before the first near tie: equal logits must lead to these."""
        ties = (place for place, margin in enumerate(self.margins) if margin < CLEAR)
        return self.tokens[: next(ties, len(self.tokens))]


class Plan(NamedTuple):
    """What is decoded before a continuation.

    Attributes:
        batches: The tokens, a list for each decode call.
        rollback_to: After the first batch all from this position on is removed, sound or not.
    """

    batches: tuple[tuple[int, ...], ...]
    rollback_to: int | None = None


class Setting(NamedTuple):
    """How a context is made."""

    n_ctx: int = 2048
    n_ubatch: int = 512
    swa_full: bool = False


USUAL = Setting()

CLEAR = 0.005
"""Lead of a greedy token below which it may be another one: five times the tolerance of F32."""


class Reference:
    """Runs the functions in a child.

    Args:
        child: The process.
    """

    def __init__(self, child: ProcessPoolExecutor) -> None:
        self._child = child

    def tokens_of(
        self, path: Path, text: str, *, add_special: bool = False, parse_special: bool = True
    ) -> list[int]:
        """`llama_tokenize` of a whole text."""
        return self._child.submit(_tokens_of, path, text, add_special, parse_special).result()

    def pieces(self, path: Path, ids: Sequence[int], *, special: bool = False) -> list[bytes]:
        """`llama_token_to_piece` of each token; control tokens are spelled out if `special`."""
        return self._child.submit(_pieces, path, ids, special).result()

    def end_tokens(self, path: Path) -> dict[int, str]:
        """All tokens that end a generation, with their texts."""
        return self._child.submit(_end_tokens, path).result()

    def bos_token(self, path: Path) -> int:
        """The token that begins a text."""
        return self._child.submit(_bos_token, path).result()

    def greedy(self, path: Path, plan: Plan, count: int, setting: Setting = USUAL) -> Greedy:
        """Decode a plan with one thread, then `count` greedy tokens."""
        return self._child.submit(_greedy, path, plan, count, setting).result()


def _tokens_of(path: Path, text: str, add_special: bool, parse_special: bool) -> list[int]:
    lib, vocab = _vocabulary(path)
    data = text.encode()
    room = len(data) + 8
    buffer = (ctypes.c_int32 * room)()
    count = lib.llama_tokenize(vocab, data, len(data), buffer, room, add_special, parse_special)
    assert count >= 0
    return list(buffer[:count])


def _pieces(path: Path, ids: Sequence[int], special: bool) -> list[bytes]:
    lib, vocab = _vocabulary(path)
    buffer = ctypes.create_string_buffer(512)
    pieces = []
    for token in ids:
        size = lib.llama_token_to_piece(vocab, token, buffer, len(buffer), 0, special)
        pieces.append(buffer.raw[:size])
    return pieces


def _end_tokens(path: Path) -> dict[int, str]:
    lib, vocab = _vocabulary(path)
    return {
        token: lib.llama_vocab_get_text(vocab, token).decode()
        for token in range(lib.llama_vocab_n_tokens(vocab))
        if lib.llama_vocab_is_eog(vocab, token)
    }


def _bos_token(path: Path) -> int:
    lib, vocab = _vocabulary(path)
    return int(lib.llama_vocab_bos(vocab))


def _greedy(path: Path, plan: Plan, count: int, setting: Setting) -> Greedy:
    lib = _library()
    model = _model(path, False)
    params = lib.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = setting.n_ctx, 2048, setting.n_ubatch
    params.n_threads = params.n_threads_batch = 1
    params.n_outputs_max = 1
    params.swa_full = setting.swa_full
    context = lib.llama_init_from_model(model, params)
    memory = lib.llama_get_memory(context)
    n_vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))

    def decode(tokens: Sequence[int]) -> None:
        buffer = (ctypes.c_int32 * len(tokens))(*tokens)
        assert lib.llama_decode(context, lib.llama_batch_get_one(buffer, len(tokens))) == 0

    for index, batch in enumerate(plan.batches):
        decode(batch)
        if index == 0 and plan.rollback_to is not None:
            assert lib.llama_memory_seq_rm(memory, 0, plan.rollback_to, -1)
    chosen: list[int] = []
    margins: list[float] = []
    first: NDArray[np.float32] | None = None
    for _ in range(count):
        logits = np.ctypeslib.as_array(lib.llama_get_logits_ith(context, -1), (n_vocab,))
        first = logits.copy() if first is None else first
        second, best = np.partition(logits, -2)[-2:]
        margins.append(float(best - second))
        chosen.append(int(logits.argmax()))
        decode(chosen[-1:])
    lib.llama_free(context)
    assert first is not None
    return Greedy(tuple(chosen), tuple(margins), tuple(map(float, first)))


@cache
def _library() -> Any:  # noqa: ANN401 (a module)
    from llama_cpp import llama_cpp as lib  # noqa: PLC0415 (only the child may load it)

    global _quiet  # noqa: PLW0603 (llama.cpp keeps no reference to its callback)
    _quiet = lib.llama_log_callback(lambda _level, _text, _data: None)
    lib.llama_log_set(_quiet, None)
    return lib


_quiet: object = None


@cache
def _model(path: Path, vocab_only: bool) -> Any:  # noqa: ANN401 (a pointer)
    lib = _library()
    params = lib.llama_model_default_params()
    params.vocab_only = vocab_only
    model = lib.llama_model_load_from_file(str(path).encode(), params)
    assert model
    return model


def _vocabulary(path: Path) -> tuple[Any, Any]:
    lib = _library()
    return lib, lib.llama_model_get_vocab(_model(path, True))
