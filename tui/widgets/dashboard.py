"""The dashboard: the panels beside the chat, or one of them in its place."""

from textual.app import ComposeResult
from textual.containers import Container
from textual.events import Click, Resize
from textual.message import Message

from backend.metrics.live import Snapshot
from tui.panels import PANELS, PanelKind
from tui.panels.drawing import BLANK, Line, paragraphs
from tui.widgets.lines import Lines


class Panel(Lines):
    """One panel; draws the last snapshot it was given."""

    class Chosen(Message):
        """The panel was clicked."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, kind: PanelKind, number: int) -> None:
        super().__init__(id=kind.name)
        self.kind = kind
        self._number = number
        self._state: Snapshot | None = None
        self.border_title = kind.title
        self.border_subtitle = f"alt+{number}"

    def show(self, state: Snapshot) -> None:
        """Draw a state."""
        if state == self._state:
            return
        self._state = state
        self._draw()

    def on_resize(self, event: Resize) -> None:
        """Draw again for the new room."""
        del event
        self._draw()

    def on_click(self, event: Click) -> None:
        """Open or close the panel."""
        event.stop()
        self.post_message(self.Chosen(self._number))

    def _draw(self) -> None:
        width, height = self.size
        if self._state is None or width <= 0 or height <= 0:
            return
        title, lines = self.kind.draw(self._state, width, height)
        if self.has_class("-open"):
            more = _explanation(self.kind.explain(self._state), width, height - len(lines) - 1)
            lines += (BLANK,) * (height - len(lines) - len(more)) + more
        if title != self.border_title:
            self.border_title = title
        self.show_lines(lines)


def _explanation(text: str, width: int, rows: int) -> tuple[Line, ...]:
    """As many of the first paragraphs as there is room for."""
    lines: tuple[Line, ...] = ()
    for paragraph in text.split("\n"):
        more = paragraphs(paragraph, width)
        if len(lines) + len(more) > rows:
            break
        lines += more
    return lines


class Dashboard(Container):
    """All panels; one can be open in the room of all and of the chat."""

    def __init__(self) -> None:
        super().__init__(id="dashboard")
        self._panels = [Panel(kind, number) for number, kind in enumerate(PANELS, start=1)]
        self._opened: int | None = None

    def compose(self) -> ComposeResult:
        """The panels in the order of their keys."""
        yield from self._panels

    def show(self, state: Snapshot) -> None:
        """Draw a state in the panels that can be seen."""
        for panel in self._panels:
            if panel.display and panel.size.height:
                panel.show(state)

    def open(self, number: int | None) -> None:
        """Open one panel (from 1) alone, or show all that have room with None."""
        self._opened = number
        for index, panel in enumerate(self._panels, start=1):
            panel.set_class(index == number, "-open")
        self._arrange()

    def on_resize(self, event: Resize) -> None:
        """Show as many panels as the new room is for."""
        del event
        self._arrange()

    def _arrange(self) -> None:
        rows = self.size.height
        for index, panel in enumerate(self._panels, start=1):
            has_room = rows >= panel.kind.from_rows
            panel.display = has_room if self._opened is None else index == self._opened
        self.set_class(self._panels[-1].display, "-tall")
