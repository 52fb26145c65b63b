"""Telling a reasoning model's thinking from its answer while the text streams in."""

from typing import Literal, NamedTuple

Channel = Literal["thinking", "answer"]

TOLD = -1
"""Stands for the token of text that an earlier turn gave out."""


class Mark(NamedTuple):
    """What opens a stretch of thinking, or of the answer, and what closes it.

    Attributes:
        opening: It may be spelled by several control tokens in a row.
        closing: What ends the stretch.
        sure: The closing is a control token that means nothing else, and another stretch may
            follow; else an answer's closing counts only at the very end.
    """

    channel: Channel
    opening: str
    closing: str
    sure: bool = False


MARKERS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel>thought", "<channel|>"),
)
"""Opening and closing markers of the thinking of the model families in use."""

_HARMONY_CHANNELS: tuple[tuple[str, Channel], ...] = (
    ("analysis", "thinking"),
    ("commentary", "answer"),
    ("final", "answer"),
)
"""The channels of gpt-oss."""

HARMONY = ("<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>")
"""Its control tokens. llama.cpp shows them as text, and parses them wherever they are spelled."""

_HARMONY_SPEAKER = "<|start|>assistant"

_THINKING = tuple(Mark("thinking", *pair) for pair in MARKERS)
_COHERE = Mark("answer", "<|START_RESPONSE|>", "<|END_RESPONSE|>")
_WRAPPERS = (
    _COHERE,
    Mark("answer", "<answer>", "</answer>"),
    Mark("answer", "<response>", "</response>"),
)
"""What an answer stands in, once the thinking is over."""

_HARMONY = tuple(
    Mark(channel, f"{speaker}<|channel|>{name}<|message|>", "<|end|>", sure=True)
    for name, channel in _HARMONY_CHANNELS
    for speaker in ("", _HARMONY_SPEAKER)
)

_FIRST = (*_THINKING, *_HARMONY, _COHERE)
"""What may stand at the very start of what a model says."""

ANSWER_OPENINGS = ("<|channel|>final<|message|>", _COHERE.opening)
"""What a template may put before an answer that it is given bare."""

_BARE = (*(mark.opening for mark in (*_HARMONY, _COHERE)), "<|START_THINKING|>")
"""What an answer begins with whose template wants it without any markers."""

SHOWN = frozenset(
    (
        *(marker for pair in MARKERS for marker in pair),
        *(_COHERE.opening, _COHERE.closing),
        "<|channel>",
    )
)
"""Control tokens that are text to a reader: the markers of thinking."""


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
    stays thinking. The markers that some families put around an answer are left out, too.

    Args:
        prompt_end: The last characters of the rendered prompt.

    Attributes:
        thinking_n: Tokens of the thinking so far, its markers included.
    """

    def __init__(self, prompt_end: str = "") -> None:
        self._mark: Mark | None = None
        self._may_open = _FIRST
        self._held = ""
        self._held_tokens: list[int] = []
        self._tokens = 0
        self.thinking_n = 0
        bare = prompt_end.rstrip()
        for mark in _FIRST:
            if bare.endswith(mark.opening):
                self._enter(mark)
            elif mark.channel == "thinking" and not mark.sure and bare.endswith(mark.closing):
                # The template has thought for the model: nothing.
                self._may_open = _WRAPPERS

    @property
    def thinking(self) -> bool:
        """Whether the model is thinking now."""
        return self._mark is not None and self._mark.channel == "thinking"

    def go_on(self, text: str) -> None:
        """Begin inside an answer, after `text`, of which nothing is given back any more."""
        self._held += text
        self._held_tokens += [TOLD] * len(text)
        self._settle(final=False)

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

    def _enter(self, mark: Mark) -> None:
        self._mark = mark
        self._may_open = ()

    def _settle(self, *, final: bool) -> list[Segment]:
        segments: list[Segment] = []
        while True:
            if self._may_open and not self._open(final=final):
                return segments
            mark = self._mark
            if mark is None:
                self._emit(segments, "answer", len(self._held))
                return segments
            if not self._close(segments, mark, final=final):
                return segments

    def _open(self, *, final: bool) -> bool:
        """Enter what an opening marker opens, or the bare answer; False while that is open."""
        start = self._held.lstrip()
        for mark in self._may_open:
            if start.startswith(mark.opening):
                blank = len(self._held) - len(start)
                if mark.channel == "thinking":
                    before = 0 if self._may_open is _FIRST else max(0, self._held_tokens[blank])
                    self.thinking_n += self._tokens - before
                self._let_go(blank + len(mark.opening))
                self._enter(mark)
                return True
        if not final and any(mark.opening.startswith(start) for mark in self._may_open):
            return False
        self._may_open = ()
        return True

    def _close(self, segments: list[Segment], mark: Mark, *, final: bool) -> bool:
        """Give out what is inside a mark; whether its end was found and something may follow."""
        where = self._held.find(mark.closing)
        if where < 0:
            keep = 0 if final else _partial_suffix(self._held, mark.closing)
            self._emit(segments, mark.channel, len(self._held) - keep)
            return False
        self._emit(segments, mark.channel, where)
        if mark.channel == "thinking" or mark.sure:
            self._let_go(len(mark.closing))
            self._mark = None
            self._may_open = _HARMONY if mark.sure else _WRAPPERS
            return True
        if self._held[len(mark.closing) :].strip():
            # Text follows, so that it is literal.
            self._emit(segments, mark.channel, len(mark.closing))
            return True
        if final:
            self._let_go(len(self._held))
        return False

    def _hold(self, text: str) -> None:
        self._held += text
        self._held_tokens += [max(0, self._tokens - 1)] * len(text)

    def _let_go(self, length: int) -> None:
        self._held = self._held[length:]
        del self._held_tokens[:length]

    def _emit(self, segments: list[Segment], channel: Channel, length: int) -> None:
        """Give out the first `length` characters of what is held."""
        told = self._held_tokens[:length].count(TOLD)
        self._let_go(told)
        length -= told
        text = self._held[:length]
        if text:
            blank = length - len(text.lstrip())
            first = self._held_tokens[blank if blank < length else 0]
            segments.append(Segment(channel, text, first))
        self._let_go(length)


class SplitText(NamedTuple):
    """The two channels of a text."""

    thinking: str
    answer: str


def split_text(text: str, prompt_end: str = "", *, finished: bool = True) -> SplitText:
    """Thinking and answer of a text that is there as a whole.

    Args:
        text: What the model generated.
        prompt_end: The last characters of the rendered prompt.
        finished: Nothing follows: what might become a marker is text.
    """
    splitter = ThinkingSplitter(prompt_end)
    segments = splitter.feed_text(text)
    if finished:
        segments += splitter.finish()
    return SplitText(
        *(
            "".join(segment.text for segment in segments if segment.channel == channel)
            for channel in ("thinking", "answer")
        )
    )


def split_thinking(content: str, lead: str = "") -> SplitText:
    """A whole generated text as a reader wants it: without the blank lines around thinking.

    Args:
        content: All that the model generated, markers included.
        lead: The last characters of the rendered prompt.
    """
    thinking, answer = split_text(content, lead)
    thinking = thinking.strip("\n")
    return SplitText(thinking, answer.lstrip() if thinking else answer)


def _partial_suffix(text: str, marker: str) -> int:
    """Length of the longest end of `text` that `marker` starts with."""
    for length in range(min(len(text), len(marker) - 1), 0, -1):
        if text.endswith(marker[:length]):
            return length
    return 0


def wants_bare(content: str, prompt_end: str) -> bool:
    """Whether a template of the answer's family takes the answer only without its markers."""
    return content.lstrip().startswith(_BARE) or prompt_end.rstrip().endswith(_BARE)
