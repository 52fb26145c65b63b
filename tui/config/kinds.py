"""What a setting may be: one check for the settings file, the environment, flags and screens.

A check's error continues a sentence that begins with the value: "must be a number from 0 to 1".
"""

import json
import math
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from backend.paths import at_home
from backend.settings import LARGEST

TRUE = frozenset({"true", "yes", "on", "1"})
FALSE = frozenset({"false", "no", "off", "0"})

Stored = Any
"""A value as the settings hold it: a number, a text, a truth value, a tuple of texts or None."""


class SettingError(ValueError):
    """A setting may not have a value; the text is a sentence, or the end of one."""


class Number(NamedTuple):
    """A finite number in a range.

    Attributes:
        whole: No fraction.
        least, most: The range; None: no end on that side.
        above: `least` itself is outside.
        nothing: What is written for None; None: it cannot be written.
    """

    whole: bool = False
    least: float | None = None
    most: float | None = None
    above: bool = False
    nothing: int | None = None

    @property
    def word(self) -> str:
        """What stands for the value in a command's help."""
        return "INTEGER" if self.whole else "FLOAT"

    def check(self, value: object) -> Stored:
        """The value as it is stored.

        Raises:
            SettingError: It may not be that.
        """
        if self.nothing is not None and value == self.nothing and not isinstance(value, bool):
            return None
        allowed = int if self.whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, allowed):
            raise SettingError(self._demand())
        try:
            number = value if self.whole else float(value)
            is_finite = math.isfinite(number)
        except OverflowError:
            raise SettingError(self._demand(all_of_it=True)) from None
        if not is_finite:
            raise SettingError(self._demand())
        if self.least is not None and (
            number < self.least or (self.above and number == self.least)
        ):
            raise SettingError(self._demand())
        if self.most is not None and number > self.most:
            raise SettingError(self._demand(all_of_it=True))
        return number

    def read(self, text: str) -> Stored:
        """The value that a text names.

        Raises:
            SettingError: There is none, or it may not be that.
        """
        try:
            number = int(text) if self.whole else float(text)
        except ValueError:
            raise SettingError(self._demand()) from None
        return self.check(number)

    def plain(self, value: Stored) -> object:
        """The value as it is written; None: it is written by leaving it out."""
        return self.nothing if value is None else value

    def _demand(self, *, all_of_it: bool = False) -> str:
        """What is demanded; an end that only a machine sets is told if `all_of_it` is."""
        noun = "a whole number" if self.whole else "a finite number"
        if self.least is None:
            span = ""
        elif self.above:
            span = f" above {self.least:g}"
        elif self.most is None or (self.most == LARGEST and not all_of_it):
            span = f" of at least {self.least:g}"
        else:
            span = f" from {self.least} to {self.most}"
        nothing = "" if self.nothing is None else f" (or {self.nothing})"
        return f"must be {noun}{span}{nothing}"


class Choice(NamedTuple):
    """One of several words."""

    options: tuple[str, ...]

    @property
    def word(self) -> str:
        """What stands for the value in a command's help."""
        return f"[{'|'.join(self.options)}]"

    def check(self, value: object) -> Stored:
        """The value as it is stored.

        Raises:
            SettingError: It may not be that.
        """
        if value in self.options:
            return value
        meant = did_you_mean(value, self.options) if isinstance(value, str) else ""
        raise SettingError(f"must be one of {', '.join(self.options)}{meant}")

    def read(self, text: str) -> Stored:
        """The value that a text names.

        Raises:
            SettingError: There is none, or it may not be that.
        """
        return self.check(text)

    def plain(self, value: Stored) -> object:
        """The value as it is written."""
        return value


class Switch(NamedTuple):
    """Yes or no."""

    word: str = "BOOLEAN"

    def check(self, value: object) -> Stored:
        """The value as it is stored.

        Raises:
            SettingError: It may not be that.
        """
        if not isinstance(value, bool):
            raise SettingError("must be true or false")
        return value

    def read(self, text: str) -> Stored:
        """The value that a text names.

        Raises:
            SettingError: There is none, or it may not be that.
        """
        word = text.strip().lower()
        if word not in TRUE | FALSE:
            raise SettingError("must be true or false")
        return word in TRUE

    def plain(self, value: Stored) -> object:
        """The value as it is written."""
        return value


class Text(NamedTuple):
    """Any text, also an empty one."""

    word: str = "TEXT"

    def check(self, value: object) -> Stored:
        """The value as it is stored.

        Raises:
            SettingError: It may not be that.
        """
        if not isinstance(value, str):
            raise SettingError("must be a text in quotes")
        return _well_formed(value)

    def read(self, text: str) -> Stored:
        """The value that a text names.

        Raises:
            SettingError: There is none, or it may not be that.
        """
        return self.check(text)

    def plain(self, value: Stored) -> object:
        """The value as it is written."""
        return value


class Texts(NamedTuple):
    """A list of texts, none empty; one text stands for a list of one."""

    word: str = "TEXT"

    def check(self, value: object) -> Stored:
        """The value as it is stored.

        Raises:
            SettingError: It may not be that.
        """
        many = [value] if isinstance(value, str) else value
        if (
            not isinstance(many, list | tuple)
            or not all(isinstance(text, str) for text in many)
            or not all(many)
        ):
            raise SettingError("must be a list of texts, none of them empty")
        return tuple(map(_well_formed, many))

    def read(self, text: str) -> Stored:
        """The texts of a JSON array; else the text itself, with its escapes resolved.

        Raises:
            SettingError: One of them is empty.
        """
        texts: object = None
        if text.lstrip().startswith("["):
            with suppress(ValueError, RecursionError):
                texts = json.loads(text)
        return self.check(unescaped(text) if texts is None else texts)

    def plain(self, value: Stored) -> object:
        """The value as it is written."""
        return list(value)


class File(NamedTuple):
    """A file, or one of several names that stand for one.

    Attributes:
        names: These are no paths.
        fault: Says what is wrong with a file; None: that is found out when it is used.
    """

    names: Callable[[], Iterable[str]] = tuple
    fault: Callable[[Path], str | None] | None = None
    word: str = "FILE"

    def check(self, value: object) -> Stored:
        """The value as it is stored.

        Raises:
            SettingError: It may not be that.
        """
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise SettingError("must be the path of a file, in quotes")
        if value in self.names() or self.fault is None:
            return value
        fault = self.fault(at_home(value))
        if fault is not None:
            names = ", ".join(self.names())
            raise SettingError(f"must be {names} or a file: it {fault}")
        return value

    def placed(self, value: object, folder: Path) -> object:
        """The value with a path that starts from a folder made absolute."""
        if not isinstance(value, str) or not value.strip() or value in self.names():
            return value
        return str(folder / at_home(value))

    def read(self, text: str) -> Stored:
        """The value that a text names.

        Raises:
            SettingError: There is none, or it may not be that.
        """
        return self.check(text)

    def plain(self, value: Stored) -> object:
        """The value as it is written."""
        return value


Kind = Number | Choice | Switch | Text | Texts | File

_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|[nrt'\"\\])")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


def unescaped(text: str) -> str:
    r"""A text with `\n`, `\t`, `\r`, `\\`, quotes and `\xHH` resolved, as llama.cpp's tools do."""

    def resolved(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if code[0] == "x" else _ESCAPED.get(code, code)

    return _ESCAPE.sub(resolved, text)


def _well_formed(text: str) -> str:
    """The text, which can be stored and sent.

    Raises:
        SettingError: It has half of a character.
    """
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise SettingError("must be valid Unicode")
    return text


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence on an unknown word: the known one that it resembles, if any."""
    from difflib import get_close_matches  # noqa: PLC0415 (only a mistake needs it)

    close = get_close_matches(word[:100], list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def quoted(value: object) -> str:
    """A value in a sentence, cut where it is long."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value) if isinstance(value, str | list | tuple | dict) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
