"""Prefill and decode timed apart, the way llama-bench does: random tokens, no sampling."""

import ctypes
import random
from collections.abc import Callable
from time import perf_counter_ns

from backend.local.cancel import CancelFlag
from backend.local.llama import Context
from backend.protocol import BenchRequest, BenchSample

SEED = 1


class BenchError(Exception):
    """A benchmark cannot run; the text is one sentence."""


def run_bench(
    request: BenchRequest,
    context: Context,
    n_vocab: int,
    cancel: CancelFlag,
    send: Callable[[BenchSample], None],
) -> bool:
    """Run all tests of a request, a sample after another; False if it was cancelled.

    As in llama-bench, each test is run unmeasured first (decode with one token), and a prefill
    test gives the whole prompt in batches of `n_batch`.

    Raises:
        BenchError: The tokens do not fit into the context, or llama.cpp failed.
    """
    most = request.n_depth + max(request.n_prompt, request.n_gen)
    if most > context.n_ctx:
        raise BenchError(
            f"{most} tokens do not fit into a context of {context.n_ctx}; give a larger -c"
        )
    rng = random.Random(SEED)  # noqa: S311 (the tokens only fill a batch)
    tests = [(request.n_prompt, 0), (0, request.n_gen)]
    for n_prompt, n_gen in tests:
        if n_prompt + n_gen == 0:
            continue
        for repetition in range(request.repetitions + 1):
            context.clear_memory()
            _prefill(context, _tokens(rng, request.n_depth, n_vocab))
            count = n_prompt or (n_gen if repetition else 1)
            tokens = _tokens(rng, count, n_vocab)
            began = perf_counter_ns()
            if n_prompt:
                _prefill(context, tokens)
            else:
                _decode(context, tokens, cancel)
            spent = perf_counter_ns() - began
            if cancel.is_set:
                context.clear_memory()
                return False
            if repetition:
                send(BenchSample(n_prompt, n_gen, request.n_depth, spent))
    context.clear_memory()
    return True


def _tokens(rng: random.Random, count: int, n_vocab: int) -> "ctypes.Array[ctypes.c_int32]":
    return (ctypes.c_int32 * count)(*(rng.randrange(n_vocab) for _ in range(count)))


def _prefill(context: Context, tokens: "ctypes.Array[ctypes.c_int32]") -> None:
    for start in range(0, len(tokens), context.n_batch):
        count = min(context.n_batch, len(tokens) - start)
        part = (ctypes.c_int32 * count).from_buffer(tokens, start * 4)
        _check(context.decode(part, count))


def _decode(context: Context, tokens: "ctypes.Array[ctypes.c_int32]", cancel: CancelFlag) -> None:
    for index in range(len(tokens)):
        if cancel.is_set:
            return
        _check(context.decode((ctypes.c_int32 * 1).from_buffer(tokens, index * 4), 1))


def _check(status: int) -> None:
    if status < 0 or status == 1:
        raise BenchError(f"llama.cpp could not decode (status {status})")
