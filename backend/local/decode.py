"""Decode: one token at a time, until the model, a limit, the user or the context ends it."""

import codecs
import ctypes
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import NamedTuple

from backend.local.cancel import CancelFlag
from backend.local.kv import KvCache, common_prefix
from backend.local.llama import ABORTED, Context
from backend.local.sampling import Sampler
from backend.local.vocabulary import Vocabulary
from backend.protocol import PrefillTiming, StopReason, TokenBatch

FLUSH_NS = 200_000_000
"""Tokens are gathered this long before they are sent; the first one goes at once."""


class DecodeResult(NamedTuple):
    """How an answer ended, and what decode's parts took after the first token.

    Attributes:
        text: All text that was given out, and `tail`, what was still held back.
        decode_ns: In decode calls until the logits were there.
        sample_ns: In sampling.
    """

    reason: StopReason
    detail: str | None
    text: str
    tail: str
    decode_ns: int
    sample_ns: int


class TokenText:
    """Bytes of tokens to text: whole characters only, and nothing of a stop string.

    Args:
        stops: Texts that end the answer.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.stopped_by: str | None = None

    def go_on(self, spoken: bytes, content: str) -> int:
        """Begin inside an answer that was cut off.

        Args:
            spoken: The bytes of its tokens so far.
            content: Its text so far.

        Returns:
            Characters at the end of `content` that are given out again: half a character, or
            what a stop string may begin with.
        """
        text = self._decoder.decode(spoken)
        keep = max((_overlap(text, stop) for stop in self._stops), default=0)
        certain = common_prefix(content, text[: len(text) - keep])
        self._held = text[certain:]
        return len(content) - certain

    def feed(self, piece: bytes) -> str:
        """The text that is certain after one more token."""
        held = self._held + self._decoder.decode(piece)
        if not self._stops:
            self._held = ""
            return held
        cut = min((at for at in map(held.find, self._stops) if at >= 0), default=None)
        if cut is not None:
            self.stopped_by = next(stop for stop in self._stops if held.startswith(stop, cut))
            self._held = ""
            return held[:cut]
        keep = max(_overlap(held, stop) for stop in self._stops)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep]

    def finish(self) -> str:
        """What was held back, at the end of an answer that no stop string ended."""
        if self.stopped_by is not None:
            return ""
        return self._held + self._decoder.decode(b"", final=True)


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that `stop` begins with."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0


class Decode:
    """Generates one answer.

    Args:
        context: The context, prefilled.
        cache: Its book-keeping; every token that is decoded is noted there.
        vocabulary: The model's vocabulary.
        cancel: Set from another thread to end the answer.
        send: Sends gathered tokens off.
    """

    def __init__(
        self,
        context: Context,
        cache: KvCache,
        vocabulary: Vocabulary,
        cancel: CancelFlag,
        send: Callable[[TokenBatch], None],
    ) -> None:
        self._context = context
        self._cache = cache
        self._vocabulary = vocabulary
        self._cancel = cancel
        self._send = send
        self._turn = 0
        self._ids: list[int] = []
        self._stamps: list[int] = []
        self._pieces: list[str] = []
        self._given: list[str] = []
        self._sent_ns = 0

    def run(
        self,
        turn: int,
        sampler: Sampler,
        *,
        prompt_ns: int,
        limit: int | None,
        cancel_after: int | None,
        text: TokenText,
    ) -> DecodeResult:
        """Sample and decode until something ends the answer.

        Args:
            turn: Number of the turn, for the messages.
            sampler: Chooses the tokens.
            prompt_ns: What prefill took; it travels with the first token.
            limit: Most tokens to sample; 0 leaves it at the prefill.
            cancel_after: Cancel by itself after so many tokens.
            text: Turns their bytes into text.
        """
        if limit == 0:
            held = text.finish()
            return DecodeResult("length", "the limit of 0 tokens was reached", held, held, 0, 0)
        self._turn = turn
        context, cache, vocabulary = self._context, self._cache, self._vocabulary
        one = (ctypes.c_int32 * 1)()
        decode_ns = sample_ns = count = 0
        first: PrefillTiming | None = None
        while True:
            began = perf_counter_ns()
            token = sampler.sample(context)
            sampled = perf_counter_ns()
            count += 1
            if count == 1:
                first = PrefillTiming(prompt_ns=prompt_ns, first_sample_ns=sampled - began)
            else:
                sample_ns += sampled - began
            ended = vocabulary.is_end_of_generation(token)
            piece = text.feed(b"" if ended else vocabulary.piece(token))
            self._gather(token, sampled, piece, first)
            first = None
            reason = self._reason(ended, text, count, limit, cancel_after)
            if reason is not None:
                break
            one[0] = token
            began = perf_counter_ns()
            status = context.decode(one, 1)
            spent = perf_counter_ns() - began
            if status != 0:
                cache.recount()
                reason = self._reason_of(status)
                break
            # Not of a call that was aborted: no token came of it, so it is no part of decode.
            decode_ns += spent
            cache.tokens.append(token)
        self._flush(None)
        tail = text.finish()
        return DecodeResult(
            reason=reason[0],
            detail=reason[1],
            text="".join(self._given) + tail,
            tail=tail,
            decode_ns=decode_ns,
            sample_ns=sample_ns,
        )

    def _reason(
        self, ended: bool, text: TokenText, count: int, limit: int | None, cancel_after: int | None
    ) -> tuple[StopReason, str | None] | None:
        """Why no further token is wanted; None to go on."""
        if ended:
            return "eog", None
        if text.stopped_by is not None:
            return "stop", text.stopped_by
        if limit is not None and count >= limit:
            return "length", f"the limit of {limit} tokens was reached"
        if self._cancel.is_set or (cancel_after is not None and count >= cancel_after):
            return "cancelled", None
        if len(self._cache.tokens) >= self._context.n_ctx:
            return "context_full", f"all {self._context.n_ctx} tokens of the context are in use"
        return None

    def _reason_of(self, status: int) -> tuple[StopReason, str | None]:
        if status == ABORTED:
            return "cancelled", None
        return "error", f"llama.cpp could not decode a token (status {status})"

    def _gather(self, token: int, t_ns: int, piece: str, first: PrefillTiming | None) -> None:
        self._ids.append(token)
        self._stamps.append(t_ns)
        self._pieces.append(piece)
        self._given.append(piece)
        if first is not None or t_ns - self._sent_ns >= FLUSH_NS:
            self._flush(first)

    def _flush(self, first: PrefillTiming | None) -> None:
        if self._ids:
            self._send(
                TokenBatch(
                    turn=self._turn,
                    ids=tuple(self._ids),
                    t_ns=tuple(self._stamps),
                    pieces=tuple(self._pieces),
                    first=first,
                )
            )
            self._ids.clear()
            self._stamps.clear()
            self._pieces.clear()
        self._sent_ns = perf_counter_ns()
