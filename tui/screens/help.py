"""Help: the keys, and what each figure means."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from backend.metrics.live import Snapshot
from tui.commands import COMMANDS, TYPING
from tui.panels import PANELS

KEY_WIDTH = 17


class HelpScreen(ModalScreen[None]):
    """Keys and figures, with the counts of the state that it was opened on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,q", "dismiss", "back", id="help.back"),
    ]

    def __init__(self, state: Snapshot) -> None:
        super().__init__()
        self._state = state

    def compose(self) -> ComposeResult:
        """Everything in one scrolling text."""
        with VerticalScroll(id="help") as scroll:
            scroll.border_title = "Help"
            scroll.border_subtitle = "esc closes"
            yield Static(_keys(), markup=False)
            for kind in PANELS:
                text = kind.explain(self._state)
                yield Static(Content.assemble((f"\n{kind.title}\n", "bold"), text), markup=False)


def _keys() -> Content:
    rows = [*TYPING, *((c.shown, f"{c.title}: {c.help}") for c in COMMANDS)]
    return Content("\n").join(
        [Content.assemble((key.ljust(KEY_WIDTH), "bold"), words) for key, words in rows]
    )
