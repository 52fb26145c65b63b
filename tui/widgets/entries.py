"""What stands in the transcript beside answers: messages of the user and notices."""

from collections.abc import Sequence
from typing import Protocol

from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from backend.session import Said
from tui.text import harmless
from tui.widgets.markdown import MarkdownLines

GAP = Strip([])

FOLD_FROM = 24
"""Lines from which a message of the user is folded."""

FOLD_TO = 8
"""Lines that a folded message shows."""

LONGEST_SHOWN = 200_000
"""Characters of an unfolded message from which its middle is not shown."""

UNANSWERED = "No answer has come of this; ^r asks for one."

FOLDED, UNFOLDED = "▸", "▾"


class Look:
    """How entries are drawn in the theme of the moment.

    Args:
        renderer: Renders Markdown.
        styles: Styles of the transcript's roles.
        fold_thinking: Whether thinking is folded once it is over.
    """

    def __init__(
        self, renderer: MarkdownLines, styles: dict[str, Style], *, fold_thinking: bool = True
    ) -> None:
        self.renderer = renderer
        self.styles = styles
        self.fold_thinking = fold_thinking

    def text(self, text: str, role: str | None, width: int) -> list[Strip]:
        """Text as it is, wrapped."""
        style = self.styles[role] if role else ""
        return self.renderer.wrapped(Text(harmless(text), style=style, overflow="fold"), width)

    def label(self, name: str, role: str, said: Said | None, width: int) -> list[Strip]:
        """Who speaks, and which version of the message this is."""
        line = Text(harmless(name), style=self.styles[role], overflow="fold")
        if said is not None and said.versions > 1:
            line.append(f"  ‹ {said.version}/{said.versions} ›", self.styles["figures"])
        return self.renderer.wrapped(line, width)


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

    @property
    def said(self) -> Said | None:
        """The message that it shows; None for a notice and an answer under way."""

    @property
    def fold_row(self) -> int | None:
        """The line that folds and unfolds a part of it; None where nothing is folded."""

    def toggle(self) -> None:
        """Fold or unfold; it has to be laid out again afterwards."""

    def hides(self, folded_query: str) -> bool:
        """Whether a case-folded text stands in what is folded away."""


class Fixed:
    """An entry whose lines are laid out once."""

    def __init__(self, said: Said | None = None) -> None:
        self._strips: list[Strip] = []
        self._said = said
        self._fold_row: int | None = None

    @property
    def height(self) -> int:
        """Lines that it takes, the gap after it included."""
        return len(self._strips)

    def line(self, index: int) -> Strip:
        """One of its lines."""
        return self._strips[index]

    @property
    def said(self) -> Said | None:
        """The message that it shows."""
        return self._said

    @property
    def fold_row(self) -> int | None:
        """The line that folds and unfolds a part of it."""
        return self._fold_row

    def toggle(self) -> None:
        """Nothing is folded."""

    def hides(self, folded_query: str) -> bool:
        """Nothing is folded away."""
        del folded_query
        return False


class UserEntry(Fixed):
    """What the user said, shown as it was typed; a long message is folded.

    Args:
        said: The message.
        last: It is the end of the conversation: nothing has answered it.
    """

    def __init__(self, said: Said, *, last: bool = False) -> None:
        super().__init__(said)
        self.last = last
        self._open = False

    @property
    def text(self) -> str:
        """What was said."""
        assert self._said is not None
        return self._said.node.content

    def layout(self, look: Look, width: int) -> None:
        """Lay it out."""
        label = look.label("you", "you", self._said, width)
        text = self.text
        most = FOLD_FROM * max(1, width)
        lines = _shown(text[: most + 1] if not self._open else text, look, width)
        if len(lines) <= FOLD_FROM and len(text) <= most:
            self._fold_row = None
            self._strips = [*label, *lines, *self._hint(look, width), GAP]
            return
        counts = f"{text.count(chr(10)) + 1:,} lines, {len(text):,} characters"
        if self._open:
            fold = look.text(f"{UNFOLDED} {counts}", "notice", width)
            self._fold_row = len(label)
            self._strips = [*label, *fold, *lines, *self._hint(look, width), GAP]
        else:
            fold = look.text(f"{FOLDED} … {counts} in all", "notice", width)
            self._fold_row = len(label) + FOLD_TO
            self._strips = [*label, *lines[:FOLD_TO], *fold, *self._hint(look, width), GAP]

    def _hint(self, look: Look, width: int) -> list[Strip]:
        return look.text(UNANSWERED, "notice", width) if self.last else []

    def toggle(self) -> None:
        """Fold or unfold a long message."""
        self._open = not self._open

    def hides(self, folded_query: str) -> bool:
        """Whether it is folded and may hide the text."""
        return (
            self._fold_row is not None and not self._open and (folded_query in self.text.casefold())
        )


def _shown(text: str, look: Look, width: int) -> list[Strip]:
    """A text's lines, of a very long one both ends."""
    if len(text) <= LONGEST_SHOWN:
        return look.text(text, None, width)
    half = LONGEST_SHOWN // 2
    hidden = f"… {len(text) - 2 * half:,} characters that were sent are not shown …"
    return [
        *look.text(text[:half], None, width),
        *look.text(hidden, "notice", width),
        *look.text(text[-half:], None, width),
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
