"""What the window starts with."""

from typing import NamedTuple

from tui.config.load import Loaded


class WindowStart(NamedTuple):
    """The settings in force, and what the command line asks for besides.

    Attributes:
        loaded: The settings, their origins and what is wrong with them.
        chat: Id of a stored chat to go on with; None: a new one.
        term: The terminal's name, `TERM`; None: unknown.
        encoding: Of what is written to the terminal; None: unknown.
    """

    loaded: Loaded
    chat: str | None = None
    term: str | None = None
    encoding: str | None = None
