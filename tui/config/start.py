"""What the window starts with."""

from typing import NamedTuple

from tui.config.load import Loaded


class WindowStart(NamedTuple):
    """The settings in force, and what the terminal is.

    Attributes:
        loaded: The settings, their origins and what is wrong with them.
        term: The terminal's name, `TERM`; None: unknown.
        encoding: Of what is written to the terminal; None: unknown.
    """

    loaded: Loaded
    term: str | None = None
    encoding: str | None = None
