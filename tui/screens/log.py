"""The log: what llama.cpp says, which never reaches the terminal by itself."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Log

from backend.session import Session
from tui.text import harmless
from tui.widgets.key_footer import KeyFooter

REFRESH_S = 0.5


class LogScreen(Screen[None]):
    """The session's log, the newest line last."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+l,q", "dismiss", "back", key_display="esc", id="log.back"),
    ]
    HELP_TITLE: ClassVar[str] = "the log"
    HELP: ClassVar[str] = (
        "What llama.cpp says while it loads a model and computes, the newest line last. It is "
        "written to a file too; phasescope doctor names the folder. Nothing of it reaches the "
        "terminal by itself."
    )

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._shown = 0

    def compose(self) -> ComposeResult:
        """The log and the keys."""
        log = Log(id="log")
        log.border_title = "llama.cpp's log"
        yield log
        yield KeyFooter(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Follow the log."""
        self._follow()
        self.set_interval(REFRESH_S, self._follow)

    def on_resize(self, event: Resize) -> None:
        """Stay at the end, if that is in view."""
        del event
        log = self.query_one(Log)
        if log.is_vertical_scroll_end:
            self.call_after_refresh(log.scroll_end, animate=False)

    def _follow(self) -> None:
        new = self._session.log_since(self._shown)
        self._shown = self._session.log_total
        if new:
            self.query_one(Log).write_lines([harmless(line) for line in new])
