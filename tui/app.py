"""The application: themes, commands and the chat screen around one session."""

import asyncio
import signal
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.actions import parse
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.driver import Driver
from textual.filter import LineFilter
from textual.screen import Screen

from backend.session import Session
from tui.bracketed_paste import let_pastes_through
from tui.commands import COMMANDS
from tui.config.known import bindings_of_the_window, checked
from tui.config.load import Loaded
from tui.config.schema import Glyphs
from tui.config.start import WindowStart
from tui.glyphs import plain_glyphs
from tui.graphemes import steady_driver
from tui.keys import let_alt_digits_through
from tui.saving import remember_theme
from tui.screens.chat import ChatScreen
from tui.screens.help import HELP_KEY, help_of
from tui.terminal_bytes import let_any_bytes_through
from tui.text import harmless
from tui.themes import THEMES, phase_colours, selection_colours


class PhasescopeApp(App[None]):
    """The window.

    Args:
        session: What it shows and drives; the caller closes it.
        start: The settings, and what the terminal is.
    """

    TITLE = "phasescope"
    CSS_PATH = ["styles/chat.tcss", "styles/screens.tcss"]  # noqa: RUF012 (Textual's form)
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [HELP_KEY]

    def __init__(self, session: Session, start: WindowStart) -> None:
        let_alt_digits_through()
        let_any_bytes_through(start.encoding)
        let_pastes_through()
        super().__init__()
        self._session = session
        for theme in THEMES:
            self.register_theme(theme)
        self.start = start._replace(loaded=self._with_known_names(start.loaded))
        settings = self.start.loaded.settings
        self.theme = settings.window.theme
        self.set_keymap(dict(settings.keys))
        self._plain = plain_glyphs(settings.window.glyphs, start.term, start.encoding)
        if settings.window.reduced_motion:
            self.animation_level = "none"

    def _with_known_names(self, loaded: Loaded) -> Loaded:
        """The settings without themes and bindings that there are not."""
        own_keys = bool(loaded.settings.keys)
        return checked(loaded, self.available_themes, bindings_of_the_window() if own_keys else {})

    def on_mount(self) -> None:
        """Leave in order when the system or a closed terminal asks for it; remember a theme."""
        self.theme_changed_signal.subscribe(self, lambda theme: remember_theme(self, theme.name))
        if sys.platform != "win32":
            loop = asyncio.get_running_loop()
            for name in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(name, partial(self.exit, return_code=128 + name))

    def action_screen_help(self) -> None:
        """Explain the screen that is open."""
        self.push_screen(help_of(self.screen))

    def action_picture(self) -> None:
        """Save a picture of the screen in the current folder."""
        try:
            path = self.save_screenshot(path=str(Path.cwd()))
        except OSError as error:
            self.notify(f"The picture cannot be saved: {error}", severity="error", markup=False)
        else:
            self.notify(f"Saved {harmless(path)}", markup=False)

    def use_glyphs(self, setting: Glyphs) -> None:
        """Draw with other glyphs from now on."""
        self._plain = plain_glyphs(setting, self.start.term, self.start.encoding)
        self.refresh_css(animate=False)

    def get_driver_class(self) -> type[Driver]:
        """What writes to the terminal: nothing is moved by what stands left of it."""
        return steady_driver(super().get_driver_class())

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What a line passes before it reaches the terminal: at last it is spelled plainly."""
        filters = super().get_line_filters()
        return filters if self._plain is None else [*filters, self._plain]

    def get_css_variables(self) -> dict[str, str]:
        """The theme's variables, the colours of the phases and of what is selected."""
        theme = self.current_theme
        return {**super().get_css_variables(), **phase_colours(theme), **selection_colours(theme)}

    def get_default_screen(self) -> Screen[None]:
        """The chat."""
        return ChatScreen(self._session, self.start)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the palette offers: the chat's commands, and a picture of the screen."""
        if isinstance(screen, ChatScreen):
            for command in COMMANDS:
                _, name, arguments = parse(command.action)
                if screen.check_action(name, arguments):
                    action = command.action
                    if not command.keys and command.hint is not None:
                        action = f"begin_command({command.slash!r})"
                    yield SystemCommand(
                        f"{command.title}  {command.shown or f'/{command.slash}'}",
                        command.help,
                        partial(screen.run_action, action),
                    )
        else:
            for active in screen.active_bindings.values():
                binding = active.binding
                if active.enabled and binding.id and binding.show:
                    yield SystemCommand(
                        f"{binding.description}  {self.get_key_display(binding)}",
                        active.tooltip or binding.tooltip or binding.description,
                        partial(self.run_action, binding.action, active.node),
                    )
        # The palette is still open when its command runs.
        yield SystemCommand(
            "Screenshot",
            "Save a picture of the screen (SVG) in the current folder",
            lambda: self.set_timer(0.1, self.action_picture),
        )
