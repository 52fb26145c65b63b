"""Answers in the transcript: whole, with thinking and figures, and under way."""

from collections.abc import Sequence

from rich.text import Text
from textual.strip import Strip

from backend.chat.thinking import split_thinking
from backend.metrics.record import TurnRecord
from backend.session import Said
from tui.figures import figures_line, thinking_words
from tui.text import harmless
from tui.widgets.entries import FOLDED, GAP, UNFOLDED, Fixed, Look
from tui.widgets.markdown import GrowingMarkdown

UNKNOWN_MODEL = "assistant"

THINKING_TAIL = 8
"""Lines of thinking that are shown while it goes on."""

FIGURE_ROLES = {"prefill": "prefill", "decode": "decode", "reused": "reused"}
"""Figures that have their phase's style, by their first word."""

GO_ON = "This answer was cut off; ^g goes on with it."
FULL = "This answer was cut off; in a larger context (F7, n_ctx) ^g goes on with it."


class AnswerEntry(Fixed):
    """A whole answer with the figures of its turns.

    Args:
        said: The answer.
        last: It is the end of the conversation.
    """

    def __init__(self, said: Said, *, last: bool) -> None:
        super().__init__(said)
        self.last = last
        node = said.node
        self.thinking, self.text = split_thinking(node.content, node.lead)
        self._open: bool | None = None

    def layout(self, look: Look, width: int) -> None:
        """Lay it out: one rendering of the whole."""
        said = self._said
        assert said is not None
        strips = look.label(said.node.model or UNKNOWN_MODEL, "model", said, width)
        self._fold_row = None
        if self.thinking:
            if self._open is None:
                self._open = not look.fold_thinking
            self._fold_row = len(strips)
            words = f"{UNFOLDED if self._open else FOLDED} {thinking_words(said.records)}"
            strips += look.text(words, "thinking", width)
            if self._open:
                tint = look.styles["thinking"]
                thought = look.renderer.render(self.thinking, width)
                strips += [strip.apply_style(tint) for strip in thought]
            strips.append(GAP)
        strips += look.renderer.render(self.text, width)
        for record in said.records:
            strips += _figures(record, look, width)
        if self.last and said.node.state != "whole":
            full = bool(said.records) and said.records[-1].stop.reason == "context_full"
            strips += look.text(FULL if full else GO_ON, "notice", width)
        self._strips = [*strips, GAP]

    def toggle(self) -> None:
        """Fold or unfold the thinking."""
        self._open = not self._open

    def hides(self, folded_query: str) -> bool:
        """Whether its folded thinking holds the text."""
        return bool(self.thinking) and not self._open and folded_query in self.thinking.casefold()


class LiveAnswer:
    """An answer that is still coming.

    Args:
        name: The model that gives it.
    """

    said: Said | None = None
    fold_row: int | None = None

    def __init__(self, name: str) -> None:
        self._name = name
        self._thinking_pieces: list[str] = []
        self._answer_pieces: list[str] = []
        self._taken = (0, 0)
        self._thinking: GrowingMarkdown | None = None
        self._answer: GrowingMarkdown | None = None
        self._parts: list[list[Strip]] = []
        self._label: list[Strip] = []
        self._note: list[Strip] = []

    def begin_after(self, thinking: str, answer: str) -> None:
        """What there was of it before it was gone on with; it is laid out with what comes next."""
        self._thinking_pieces, self._answer_pieces = [thinking], [answer]
        self._taken = (0, 0)
        self._thinking = self._answer = None

    @property
    def text(self) -> str:
        """What it says so far."""
        return "".join(self._answer_pieces)

    def toggle(self) -> None:
        """Nothing is folded while it comes."""

    def hides(self, folded_query: str) -> bool:
        """Nothing is folded away for good."""
        del folded_query
        return False

    def layout(self, look: Look, width: int) -> None:
        """Lay out what is there, for a new look or width."""
        self._label = look.text(self._name, "model", width)
        self._note = look.text("thinking …", "thinking", width)
        self._thinking = GrowingMarkdown(look.renderer, width, look.styles["thinking"])
        self._answer = GrowingMarkdown(look.renderer, width)
        self._thinking.add("".join(self._thinking_pieces))
        self._answer.add(self.text)
        self._arrange()

    def grow(self, thinking: Sequence[str], answer: Sequence[str]) -> int | None:
        """Take in all pieces of both channels so far.

        Returns:
            The first of its lines that may look different now; None if nothing was new.
        """
        new_thinking, new_answer = thinking[self._taken[0] :], answer[self._taken[1] :]
        if not new_thinking and not new_answer:
            return None
        self._taken = (len(thinking), len(answer))
        unchanged = self._unchanging()
        self._thinking_pieces += new_thinking
        self._answer_pieces += new_answer
        if self._thinking is not None and self._answer is not None:
            if new_thinking:
                self._thinking.add("".join(new_thinking))
            if new_answer:
                self._answer.add("".join(new_answer))
            self._arrange()
        return unchanged

    def _unchanging(self) -> int:
        """Lines at its beginning that growth leaves as they are."""
        if self._answer is None:
            return 0
        settled, live = self._answer.lines()
        if settled or live:
            return self.height - len(live) - 1
        return len(self._label)

    @property
    def height(self) -> int:
        """Lines that it takes, the gap after it included."""
        return sum(map(len, self._parts))

    def line(self, index: int) -> Strip:
        """One of its lines."""
        for part in self._parts:
            if index < len(part):
                return part[index]
            index -= len(part)
        raise IndexError(index)

    def _arrange(self) -> None:
        assert self._thinking is not None
        assert self._answer is not None
        settled, live = self._thinking.lines()
        thinking: list[list[Strip]] = []
        if settled or live:
            tail = live[-THINKING_TAIL:]
            room = THINKING_TAIL - len(tail)
            thinking = [self._note, settled[-room:] if room else [], tail, [GAP]]
        self._parts = [self._label, *thinking, *self._answer.lines(), [GAP]]


def _figures(record: TurnRecord, look: Look, width: int) -> list[Strip]:
    """The line of figures, each phase in its colour; broken between figures."""
    lines = [Text(style=look.styles["figures"], overflow="fold")]
    for part in figures_line(record).split(" · "):
        role = FIGURE_ROLES.get(part.split(" ", 1)[0])
        words = Text(harmless(part), look.styles[role] if role else "")
        if lines[-1] and lines[-1].cell_len + 3 + words.cell_len > width:
            lines.append(Text(style=look.styles["figures"], overflow="fold"))
        lines[-1].append(" · " if lines[-1] else "").append_text(words)
    return [strip for line in lines for strip in look.renderer.wrapped(line, width)]
