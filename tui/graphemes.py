"""Characters made of several: as wide in every terminal as they are counted here.

Terminals do not agree on how many cells a family of emoji, a flag or a sign with a variation
selector takes; what stands right of one on its line would be moved by the difference.
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.driver import Driver

_EMOJI = "\u00a9\u00ae\u203c-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_TONES = "\U0001f3fb-\U0001f3ff"
_FLAGS = "\U0001f1e6-\U0001f1ff"
_SELECTED = f"\ufe0f\u20e3{_TONES}\U000e0020-\U000e007f"
"""What follows a character and makes it another: variation, keycap, skin, tags of a flag."""
_MARKS = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0e\ufe20-\ufe2f"
_BASE = "[^\x00-\x1f\x7f-\x9f]"

_JOINED = (
    f"[{_FLAGS}]{{1,2}}"
    f"|{_BASE}[{_MARKS}]*(?:[{_SELECTED}][{_MARKS}]*|\u200d(?:{_BASE})?[{_MARKS}]*)+"
)
"""A character whose width is in doubt."""

_DOUBTFUL = re.compile(f"[\u200d{_FLAGS}{_SELECTED}]")
_CLUSTER = re.compile(f"{_JOINED}|{_BASE}[{_MARKS}]+")
_CODE_OR_JOINED = re.compile(f"\x1b\\[[^@-~]*[@-~]|{_JOINED}|[\u200d{_SELECTED}]+")

_STRAY_JOINER = re.compile(f"(?<![{_EMOJI}\ufe0f])\u200d|\u200d(?![{_EMOJI}]|\\Z)")

JOINER, NON_JOINER = "\u200d", "\u200c"


def without_stray_joiners(text: str, instead: str = NON_JOINER, before: str = "") -> str:
    """The text with something else for each joiner that joins no emoji.

    Neither takes a cell, but Rich counts what follows a joiner as a part of what is before it.

    Args:
        text: The text; a joiner at its end may join what comes next.
        instead: What stands for such a joiner.
        before: The character before the text.
    """
    if JOINER not in text:
        return text
    return _STRAY_JOINER.sub(instead, before + text)[len(before) :]


def clusters(line: str) -> list[tuple[int, int]]:
    """Where characters made of several stand in a line: begin, and one behind the end."""
    return [] if line.isascii() else [match.span() for match in _CLUSTER.finditer(line)]


def around(line: str, at: int) -> tuple[int, int]:
    """The ends of the character made of several that a place is within; else it itself, twice."""
    within = (span for span in clusters(line) if span[0] < at < span[1])
    return next(within, (at, at))


def steadied(output: str) -> str:
    """What goes to a terminal, with the cursor behind each doubtful character where it belongs.

    The cursor is kept (DECSC), the cells are cleared, the character is drawn, and the cursor goes
    from where it was kept (DECRC) over as many cells as were counted. The colours stay.
    """
    return _CODE_OR_JOINED.sub(_steady, output) if _DOUBTFUL.search(output) else output


def _steady(match: re.Match[str]) -> str:
    if match[0].startswith("\x1b"):
        return match[0]
    # Only the window writes; other commands, which import this too, have no use for Rich.
    from rich.cells import cell_len  # noqa: PLC0415

    width = cell_len(match[0])
    onward = f"\x1b[{width}C" if width else ""
    return f"\x1b7{' ' * width}\x1b8\x1b7{match[0]}\x1b8{onward}"


def steady_driver(driver: "type[Driver]") -> "type[Driver]":
    """A driver that writes such characters so that nothing is moved by them."""

    class SteadyDriver(driver):  # type: ignore[misc, valid-type]
        def write(self, data: str) -> None:
            super().write(steadied(data))

    return SteadyDriver
