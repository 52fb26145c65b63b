"""What stands in the transcript: messages and notices, each laid out to lines."""

from collections.abc import Sequence
from typing import Protocol

from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from backend.metrics.record import TurnRecord
from tui.figures import figures_line
from tui.text import harmless
from tui.widgets.markdown import GrowingMarkdown, MarkdownLines

GAP = Strip([])

LONGEST_SHOWN = 12_000
"""Characters of a message of the user from which its middle is not shown."""

FIGURE_ROLES = {"prefill": "prefill", "decode": "decode", "reused": "reused"}
"""Figures that have their phase's style, by their first word."""


class Look:
    """How entries are drawn in the theme of the moment.

    Args:
        renderer: Renders Markdown.
        styles: Styles of the roles `you`, `model`, `thinking`, `figures`, `notice`, `fault`,
            `prefill`, `decode` and `reused`.
    """

    def __init__(self, renderer: MarkdownLines, styles: dict[str, Style]) -> None:
        self.renderer = renderer
        self.styles = styles

    def text(self, text: str, role: str | None, width: int) -> list[Strip]:
        """Text as it is, wrapped."""
        style = self.styles[role] if role else ""
        return self.renderer.wrapped(Text(harmless(text), style=style, overflow="fold"), width)


class Entry(Protocol):
    """One thing in the transcript."""

    def layout(self, look: Look, width: int) -> None:
        """Lay it out (again) for a look and a width."""

    @property
    def height(self) -> int:
        """Lines that it takes, the gap after it included."""

    def line(self, index: int) -> Strip:
        """One of its lines."""

    @property
    def text(self) -> str:
        """What it says, raw."""


class Fixed:
    """An entry whose lines are laid out once."""

    def __init__(self) -> None:
        self._strips: list[Strip] = []

    @property
    def height(self) -> int:
        """Lines that it takes, the gap after it included."""
        return len(self._strips)

    def line(self, index: int) -> Strip:
        """One of its lines."""
        return self._strips[index]


class UserEntry(Fixed):
    """What the user said, shown as it was typed; of a very long message both ends."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def layout(self, look: Look, width: int) -> None:
        """Lay it out."""
        label = look.text("you", "you", width)
        if len(self.text) <= LONGEST_SHOWN:
            self._strips = [*label, *look.text(self.text, None, width), GAP]
            return
        half = LONGEST_SHOWN // 2
        hidden = f"… {len(self.text) - 2 * half:,} characters that were sent are not shown …"
        self._strips = [
            *label,
            *look.text(self.text[:half], None, width),
            *look.text(hidden, "notice", width),
            *look.text(self.text[-half:], None, width),
            GAP,
        ]


class NoticeEntry(Fixed):
    """Something that phasescope says itself, or that went wrong."""

    def __init__(self, text: str, details: Sequence[str] = (), *, fault: bool = False) -> None:
        super().__init__()
        self.text = text
        self._details = details
        self._role = "fault" if fault else "notice"

    def layout(self, look: Look, width: int) -> None:
        """Lay it out."""
        details = [strip for line in self._details for strip in look.text(line, "figures", width)]
        self._strips = [*look.text(self.text, self._role, width), *details, GAP]


class AnswerEntry(Fixed):
    """A whole answer with its figures.

    Args:
        name: The model that answered.
        thinking: What it thought before; '' if it did not.
        answer: The answer, Markdown.
        record: Its turn's record; None for a stored answer without one.
    """

    def __init__(
        self, name: str, thinking: str, answer: str, record: TurnRecord | None = None
    ) -> None:
        super().__init__()
        self.text = answer
        self._name = name
        self._thinking = thinking
        self._record = record

    def layout(self, look: Look, width: int) -> None:
        """Lay it out: one rendering of the whole."""
        strips = look.text(self._name, "model", width)
        if self._thinking:
            tint = look.styles["thinking"]
            thought = look.renderer.render(self._thinking, width)
            strips += [strip.apply_style(tint) for strip in thought]
            strips.append(GAP)
        strips += look.renderer.render(self.text, width)
        if self._record is not None:
            strips += _figures(self._record, look, width)
        self._strips = [*strips, GAP]


class LiveAnswer:
    """An answer that is still coming."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thinking_pieces: list[str] = []
        self._answer_pieces: list[str] = []
        self._thinking: GrowingMarkdown | None = None
        self._answer: GrowingMarkdown | None = None
        self._parts: list[list[Strip]] = []
        self._label: list[Strip] = []

    @property
    def text(self) -> str:
        """What it says so far."""
        return "".join(self._answer_pieces)

    def layout(self, look: Look, width: int) -> None:
        """Lay out what is there, for a new look or width."""
        self._label = look.text(self._name, "model", width)
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
        new_thinking = thinking[len(self._thinking_pieces) :]
        new_answer = answer[len(self._answer_pieces) :]
        if not new_thinking and not new_answer:
            return None
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
        if self._thinking is None or self._answer is None:
            return 0
        settled, live = self._answer.lines()
        if settled or live:
            return self.height - len(live) - 1
        return len(self._label) + len(self._thinking.lines()[0])

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
        thinking = list(self._thinking.lines())
        if any(thinking):
            thinking.append([GAP])
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
