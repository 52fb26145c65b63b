"""The list of completions that stands over the composer while a command is written."""

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from textual.events import Click
from textual.geometry import Offset
from textual.strip import Strip
from textual.widget import Widget

from tui.text import one_line

MAX_ROWS = 8


class Completion(NamedTuple):
    """One row of the list.

    Attributes:
        shown: What it is.
        help: A few words on it.
        line: What the line becomes.
    """

    shown: str
    help: str
    line: str


class CompletionList(Widget):
    """Completions above the place where it is mounted, one of them chosen; closed when empty.

    Args:
        pick: Takes the completion that is clicked.
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"completion--chosen", "completion--help"}
    DEFAULT_CSS = """
    CompletionList {
        display: none;
        overlay: screen;
        width: 100%;
        background: $panel;
        & > .completion--chosen { background: $primary 30%; text-style: bold; }
        & > .completion--help { color: $text-muted; }
    }
    """

    def __init__(self, pick: Callable[[Completion], None]) -> None:
        super().__init__()
        self._pick = pick
        self._completions: tuple[Completion, ...] = ()
        self._chosen = 0
        self._first = 0
        self._rows = 0
        self.was_moved = False
        """The choice is the user's, not only the first row."""

    @property
    def is_open(self) -> bool:
        """Whether there is something to choose, and room to show it."""
        return self._rows > 0

    @property
    def chosen(self) -> Completion:
        """The completion that is chosen; only while it is open."""
        return self._completions[self._chosen]

    def show(self, completions: Sequence[Completion], room: int) -> None:
        """Show completions, the first one chosen, in at most `room` rows; close if none."""
        if tuple(completions) != self._completions:
            self._completions = tuple(completions)
            self._chosen = self._first = 0
            self.was_moved = False
        self._rows = max(0, min(len(self._completions), room, MAX_ROWS))
        self.display = self.is_open
        if self.is_open:
            self.styles.height = self._rows
            self.styles.offset = Offset(0, -self._rows)
            self._keep_in_view()

    def close(self) -> None:
        """Close the list."""
        if self.is_open:
            self.show((), 0)

    def move(self, by: int) -> None:
        """Choose another row; behind the last one comes the first."""
        self.was_moved = True
        self._chosen = (self._chosen + by) % len(self._completions)
        self._keep_in_view()

    def _keep_in_view(self) -> None:
        lowest = self._chosen - self._rows + 1
        self._first = max(lowest, min(self._first, self._chosen))
        self._first = max(0, min(self._first, len(self._completions) - self._rows))
        self.refresh()

    def on_click(self, event: Click) -> None:
        """Take the row that is clicked."""
        event.stop()
        index = self._first + event.y
        if index < len(self._completions):
            self._pick(self._completions[index])

    def render_line(self, y: int) -> Strip:
        """One row: what it is, then what it does."""
        index = self._first + y
        width = self.size.width
        if not self.is_open or index >= len(self._completions):
            return Strip.blank(width, self.rich_style)
        completion, is_chosen = self._completions[index], index == self._chosen
        style = self.get_component_rich_style("completion--chosen") if is_chosen else None
        base = self.rich_style + style if style is not None else self.rich_style
        muted = base + self.get_component_rich_style("completion--help", partial=True)
        visible = self._completions[self._first : self._first + self._rows]
        column = min(max(cell_len(one_line(each.shown)) for each in visible), width * 2 // 3)
        strip = Strip(
            [
                Segment("› " if is_chosen else "  ", base),
                Segment(one_line(completion.shown), base),
            ]
        ).adjust_cell_length(column + 3, base)
        helped = Strip([*strip, Segment(f" {one_line(completion.help)}", muted)])
        if helped.cell_length > width > 0:
            helped = Strip([*helped.crop(0, width - 1), Segment("…", muted)])
        return helped.adjust_cell_length(width, base)
