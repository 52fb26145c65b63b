"""Prefill: the new part of a prompt in as few decode calls as possible, watched from within."""

import ctypes
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import NamedTuple

from llama_cpp import llama_cpp as lib

from backend.local.cancel import CancelFlag
from backend.local.llama import ABORTED, Context

PROGRESS_NS = 100_000_000
"""Time between two reports of progress."""

LOOK_EVERY = 16
"""Compute steps between two looks at the clock."""


class PrefillResult(NamedTuple):
    """How a prefill went.

    Attributes:
        status: 0 when all tokens are in the cache; `ABORTED`; or llama.cpp's error.
        spent_ns: Time in decode calls until the logits were there.
    """

    status: int
    spent_ns: int


class Prefill:
    """Runs prefill for one context.

    On the CPU, progress and cancelling come from inside a decode call: llama.cpp calls back once
    per compute step of a micro-batch, and the share of steps follows the share of time within a
    few points. Where layers are on a GPU there is no such callback; the prompt is then given in
    micro-batches, and progress counts those.

    Args:
        context: The context.
        cancel: Set from another thread to end a prefill.
        inside: Whether llama.cpp calls back inside a decode call (all layers on the CPU).
    """

    def __init__(self, context: Context, cancel: CancelFlag, *, inside: bool) -> None:
        self._context = context
        self._cancel = cancel
        self._inside = inside
        self._steps = 0
        self._steps_per_ubatch = 0
        self._report: Callable[[int], None] | None = None
        self._reported_ns = 0
        self._done_before = 0
        self._batch = 0
        self._stop_at: int | None = None
        self._callback = lib.ggml_abort_callback(self._step)

    @property
    def estimates(self) -> bool:
        """Whether progress inside a batch is estimated from compute steps."""
        return self._inside

    def learn(self, run: Callable[[], None]) -> bool:
        """Count the compute steps of one micro-batch while `run` decodes one (the warm-up).

        Returns:
            False if somebody asked to stop: then the count may be of a part.
        """
        if not self._inside:
            run()
            return not self._cancel.is_set
        self._steps = 0
        self._report = None
        self._context.abort_with(self._callback)
        run()
        self._steps_per_ubatch = max(1, self._steps)
        self._context.abort_with(self._cancel.callback, self._cancel.data)
        return not self._cancel.is_set

    def run(
        self,
        tokens: Sequence[int],
        report: Callable[[int], None],
        *,
        stop_at: int | None = None,
    ) -> PrefillResult:
        """Compute `tokens`, which follow those in the cache.

        Args:
            tokens: The new prompt tokens, at least one.
            report: Called now and then with the number of tokens done (≈ inside a batch).
            stop_at: Cancel by itself once so many tokens are done (≈ inside a batch).
        """
        context = self._context
        size = context.n_batch if self._inside else context.n_ubatch
        buffer = (ctypes.c_int32 * len(tokens))(*tokens)
        self._report, self._stop_at = report, stop_at
        self._reported_ns = perf_counter_ns()
        spent_ns = 0
        status = 0
        if self._inside:
            context.abort_with(self._callback)
        for start in range(0, len(tokens), size):
            self._done_before, self._steps = start, 0
            self._batch = min(size, len(tokens) - start)
            if self._asked_to_stop(start):
                status = ABORTED
                break
            part = (ctypes.c_int32 * self._batch).from_buffer(buffer, start * 4)
            began = perf_counter_ns()
            status = context.decode(part, self._batch)
            spent_ns += perf_counter_ns() - began
            if status != 0:
                break
            self._note_steps()
            if not self._inside:
                report(start + self._batch)
        self._report = None
        context.abort_with(self._cancel.callback, self._cancel.data)
        return PrefillResult(status, spent_ns)

    def _asked_to_stop(self, done: int) -> bool:
        return self._cancel.is_set or (self._stop_at is not None and done >= self._stop_at)

    def _note_steps(self) -> None:
        if self._inside:
            ubatches = -(-self._batch // self._context.n_ubatch)
            self._steps_per_ubatch = max(1, self._steps // ubatches)

    def _step(self, _data: object) -> bool:
        """Called by llama.cpp before a compute step; True aborts."""
        self._steps += 1
        if self._cancel.is_set:
            return True
        if self._report is None or self._steps % LOOK_EVERY:
            return False
        done = self._done_before + self._done_in_batch()
        if self._stop_at is not None and done >= self._stop_at:
            return True
        now = perf_counter_ns()
        if now - self._reported_ns >= PROGRESS_NS:
            self._reported_ns = now
            self._report(done)
        return False

    def _done_in_batch(self) -> int:
        """Tokens of the running batch that are done, from the share of compute steps."""
        n_ubatch = self._context.n_ubatch
        whole, rest = divmod(self._steps, self._steps_per_ubatch)
        running = min(n_ubatch, max(0, self._batch - whole * n_ubatch))
        done = whole * n_ubatch + running * rest // self._steps_per_ubatch
        return min(self._batch, done)
