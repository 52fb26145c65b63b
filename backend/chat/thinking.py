"""Telling a reasoning model's thinking from its answer while the text streams in."""

from typing import Literal, NamedTuple

Channel = Literal["thinking", "answer"]

MARKERS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
)
"""Opening and closing markers of the model families in use."""


class Segment(NamedTuple):
    """Text of one channel.

    Attributes:
        token: Index of the token that its first character came with, white space not counted
            unless there is nothing else.
    """

    channel: Channel
    text: str
    token: int


class ThinkingSplitter:
    """Splits streamed text into thinking and answer.

    Thinking is only what stands between markers at the very start of an answer (after white
    space), or what follows a prompt that ends in an opening marker; anywhere else the markers
    are literal text. A marker may arrive in several pieces. Thinking that is never closed
    stays thinking.

    Args:
        prompt_end: The last characters of the rendered prompt.

    Attributes:
        thinking_n: Tokens of the thinking so far, its markers included.
    """

    def __init__(self, prompt_end: str = "") -> None:
        self._close: str | None = None
        self._may_open = True
        self._held = ""
        self._held_tokens: list[int] = []
        self._tokens = 0
        self.thinking_n = 0
        for opening, closing in MARKERS:
            if prompt_end.rstrip().endswith(opening):
                self._close = closing
                self._may_open = False

    @property
    def thinking(self) -> bool:
        """Whether the model is thinking now."""
        return self._close is not None

    def feed(self, piece: str) -> list[Segment]:
        """Take the text of one token; give back what is certain now."""
        was_thinking = self.thinking
        self._tokens += 1
        self._hold(piece)
        if was_thinking:
            self.thinking_n += 1
        return self._settle(final=False)

    def feed_text(self, text: str) -> list[Segment]:
        """Take text that belongs to the last token (it was held back before)."""
        self._hold(text)
        return self._settle(final=False)

    def finish(self) -> list[Segment]:
        """Give back what was held in case it became a marker."""
        return self._settle(final=True)

    def _settle(self, *, final: bool) -> list[Segment]:
        segments: list[Segment] = []
        if self._may_open:
            opened = self._try_open(final=final)
            if opened is None:
                return segments
        if self._close is not None:
            closing = self._close
            where = self._held.find(closing)
            if where >= 0:
                self._emit(segments, "thinking", where)
                self._let_go(len(closing))
                self._close = None
            else:
                keep = 0 if final else _partial_suffix(self._held, closing)
                self._emit(segments, "thinking", len(self._held) - keep)
                return segments
        self._emit(segments, "answer", len(self._held))
        return segments

    def _try_open(self, *, final: bool) -> bool | None:
        """Whether an opening marker stands at the start; None while that is open."""
        start = self._held.lstrip()
        for opening, closing in MARKERS:
            if start.startswith(opening):
                self._let_go(len(self._held) - len(start) + len(opening))
                self._close = closing
                self._may_open = False
                self.thinking_n = self._tokens
                return True
        if not final and any(opening.startswith(start) for opening, _ in MARKERS):
            return None
        self._may_open = False
        return False

    def _hold(self, text: str) -> None:
        self._held += text
        self._held_tokens += [max(0, self._tokens - 1)] * len(text)

    def _let_go(self, length: int) -> None:
        self._held = self._held[length:]
        del self._held_tokens[:length]

    def _emit(self, segments: list[Segment], channel: Channel, length: int) -> None:
        """Give out the first `length` characters of what is held."""
        text = self._held[:length]
        if text:
            blank = length - len(text.lstrip())
            first = self._held_tokens[blank if blank < length else 0]
            segments.append(Segment(channel, text, first))
        self._let_go(length)


def _partial_suffix(text: str, marker: str) -> int:
    """Length of the longest end of `text` that `marker` starts with."""
    for length in range(min(len(text), len(marker) - 1), 0, -1):
        if text.endswith(marker[:length]):
            return length
    return 0
