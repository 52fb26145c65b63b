"""The clipboard: the terminal is asked with OSC 52, which also works over ssh."""

import shutil
import subprocess
import sys
from contextlib import suppress

from textual.app import App

from tui.text import without_controls

PASTE_BOARD = "pbcopy"
"""macOS's own command: its Terminal does not know OSC 52."""

PASTE_BOARD_S = 1.0
"""How long it may take."""


def copy(app: App[object], text: str) -> None:
    """Put a text into the clipboard, without what a terminal would take for a command.

    The sequence holds the text in base 64, so that nothing in it reaches the terminal as it is;
    the text itself loses control characters because it may be pasted into a shell.
    """
    clean = without_controls(text)
    app.copy_to_clipboard(clean)
    command = shutil.which(PASTE_BOARD) if sys.platform == "darwin" else None
    if command is not None:
        # The terminal may have taken it all the same.
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run([command], input=clean.encode(), check=False, timeout=PASTE_BOARD_S)
