"""Telling that a chat template prints the time or the date, from two of its renderings."""

import calendar
import re
from typing import Literal, NamedTuple

_MONTH = "|".join(filter(None, (*calendar.month_name, *calendar.month_abbr)))
_DAY_NAME = "|".join((*calendar.day_name, *calendar.day_abbr))
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"

_PATTERNS: dict[Literal["time", "date"], re.Pattern[str]] = {
    "time": re.compile(
        r"(?<![\d:.])(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d+)?)?"
        r"(?: ?[AaPp]\.?[Mm]\b)?(?![\d:])"
    ),
    "date": re.compile(
        rf"(?<![\w.])(?:(?:{_DAY_NAME}),? )?"
        rf"(?:\d{{4}}([-/.])\d\d\1\d\d|\d?\d([-/.])\d?\d\2\d{{4}}|\d\d/\d\d/\d\d"
        rf"|{_DAY} (?:{_MONTH})\.?,? \d{{4}}|(?:{_MONTH})\.? {_DAY},? \d{{4}})(?!\.?\d)"
    ),
}
"""Times such as 14:05 and 14:05:09.25, dates such as 2026-01-31, 31.1.2026 and Sat, 31 Jan 2026."""

_REACH = 40
"""Characters around a place in which a time or a date is looked for."""


class Clock(NamedTuple):
    """Two texts part inside a time, or inside a date.

    Attributes:
        before, after: It, as each text has it.
    """

    kind: Literal["time", "date"]
    before: str
    after: str


def clock_at(before: str, after: str, place: int) -> Clock | None:
    """The clock at `place`, the first at which the texts differ; None if nothing looks like one."""
    for kind, pattern in _PATTERNS.items():
        old, new = _covering(pattern, before, place), _covering(pattern, after, place)
        if old is not None and new is not None and old.start() == new.start():
            return Clock(kind, old[0], new[0])
    return None


def _covering(pattern: re.Pattern[str], text: str, place: int) -> re.Match[str] | None:
    near = pattern.finditer(text, max(0, place - _REACH), place + _REACH)
    return next((match for match in near if match.start() <= place < match.end()), None)
