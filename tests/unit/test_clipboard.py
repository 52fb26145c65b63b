"""What is copied: without commands for a terminal, and without harm where a tool is missing."""

from pathlib import Path
from typing import cast

import pytest
from textual.app import App

from tui import clipboard


class Copied:
    """Stands for the window; it remembers what the terminal is asked to copy."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def copy_to_clipboard(self, text: str) -> None:
        """Take a text."""
        self.texts.append(text)


def copied(text: str) -> list[str]:
    """What the terminal is asked to copy."""
    app = Copied()
    clipboard.copy(cast("App[object]", app), text)
    return app.texts


def test_controls_and_halves_of_characters_are_left_out() -> None:
    assert copied("a\x1b]52;c;x\x07b\tc\nd\ud800\x9b") == ["a]52;c;xb\tc\nd"]


def test_a_tool_that_cannot_run_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tui.clipboard.sys.platform", "darwin")
    monkeypatch.setattr("tui.clipboard.shutil.which", lambda _name: str(tmp_path / "gone"))
    assert copied("text") == ["text"]
