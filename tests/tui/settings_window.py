"""The window with a settings file of its own."""

from collections.abc import Callable, Mapping
from pathlib import Path

from textual.pilot import Pilot

from backend.protocol import Event, LoadRequest
from tests.fake_engine import ready
from tests.tui.window import Scripted
from tui.app import PhasescopeApp
from tui.config.load import NO_FLAGS, Flags, load_settings
from tui.config.schema import Settings
from tui.config.start import WindowStart
from tui.widgets.setting_rows import SettingRows


class WithSettings(Scripted):
    """A scripted window whose settings are read from a file.

    Args:
        path: The file.
        text: What it says; None: it is not there.
        flags: What the command line says.
        environ: The environment.
        on_load: As in `Scripted`.
    """

    def __init__(
        self,
        path: Path,
        text: str | None = None,
        *,
        flags: Flags = NO_FLAGS,
        environ: Mapping[str, str] = {},
        on_load: Callable[[LoadRequest], list[Event]] = lambda _request: [ready()],
    ) -> None:
        super().__init__(on_load=on_load)
        self.path = path
        if text is not None:
            path.write_text(text)
        loaded = load_settings(flags, path=path, environ=environ)
        self.session.sampling = loaded.settings.sampling
        self.app = PhasescopeApp(self.session, WindowStart(loaded))

    @property
    def saved(self) -> Settings:
        """The file, read anew."""
        return load_settings(path=self.path, environ={}).settings

    @property
    def text(self) -> str | None:
        """The file's text; None while it is not there."""
        return self.path.read_text() if self.path.exists() else None

    @property
    def rows(self) -> SettingRows:
        """The rows of the screen on top."""
        return self.app.screen.query_one(SettingRows)

    def row(self, row_id: str) -> tuple[str, str]:
        """A row's value and origin."""
        (row,) = [row for row in self.rows.list.rows if row.id == row_id]
        return row.value, row.origin


async def write(pilot: Pilot[None], text: str) -> None:
    """Type a text."""
    await pilot.press(*(NAMES.get(char, char) for char in text))


NAMES = {" ": "space", ".": "full_stop", "\\": "backslash", "-": "minus", "/": "slash"}
