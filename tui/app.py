"""The application: themes, commands and the chat screen around one session."""

import asyncio
import signal
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from textual.app import App, SystemCommand
from textual.screen import Screen
from textual.theme import Theme

from backend.session import Session
from tui.commands import COMMANDS
from tui.keys import let_alt_digits_through
from tui.screens.chat import ChatScreen
from tui.text import harmless

PHASESCOPE = Theme(
    name="phasescope",
    primary="#6cb6ff",
    secondary="#b083f0",
    accent="#6cb6ff",
    warning="#e3b341",
    error="#f47067",
    success="#57ab5a",
    foreground="#d6dde6",
    background="#12161c",
    surface="#181d25",
    panel="#222a35",
    dark=True,
)

DARK_PHASES = {"prefill": "#f0a33c", "decode": "#4fc3c7", "reused": "#8b97a8"}
LIGHT_PHASES = {"prefill": "#a85b00", "decode": "#00707a", "reused": "#5d6875"}
"""Each phase has one colour, everywhere; those of light themes are darker versions."""


class PhasescopeApp(App[None]):
    """The window.

    Args:
        session: What it shows and drives; the caller closes it.
    """

    TITLE = "phasescope"
    CSS_PATH = ["styles/chat.tcss", "styles/screens.tcss"]  # noqa: RUF012 (Textual's form)
    ENABLE_COMMAND_PALETTE = True

    def __init__(self, session: Session) -> None:
        let_alt_digits_through()
        super().__init__()
        self._session = session
        self.register_theme(PHASESCOPE)
        self.theme = PHASESCOPE.name

    def on_mount(self) -> None:
        """Leave in order when the system or a closed terminal asks for it."""
        if sys.platform != "win32":
            loop = asyncio.get_running_loop()
            for name in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(name, partial(self.exit, return_code=128 + name))

    def action_picture(self) -> None:
        """Save a picture of the screen in the current folder."""
        try:
            path = self.save_screenshot(path=str(Path.cwd()))
        except OSError as error:
            self.notify(f"The picture cannot be saved: {error}", severity="error", markup=False)
        else:
            self.notify(f"Saved {harmless(path)}", markup=False)

    def get_css_variables(self) -> dict[str, str]:
        """The theme's variables and the colours of the phases."""
        phases = DARK_PHASES if self.current_theme.dark else LIGHT_PHASES
        return {**super().get_css_variables(), **phases}

    def get_default_screen(self) -> Screen[None]:
        """The chat."""
        return ChatScreen(self._session)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the palette offers: the chat's commands, then Textual's own."""
        if isinstance(screen, ChatScreen):
            for command in COMMANDS:
                name, _, argument = command.action.rstrip(")").partition("(")
                arguments = (int(argument),) if argument else ()
                if screen.check_action(name, arguments):
                    yield SystemCommand(
                        f"{command.title}  {command.shown}",
                        command.help,
                        partial(screen.run_action, command.action),
                    )
        for system in super().get_system_commands(screen):
            if system.title in {"Theme", "Quit"}:
                yield system
        # The palette is still open when its command runs.
        yield SystemCommand(
            "Screenshot",
            "Save a picture of the screen (SVG) in the current folder",
            lambda: self.set_timer(0.1, self.action_picture),
        )
