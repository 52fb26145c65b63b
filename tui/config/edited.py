"""A setting's value as one line of text that is edited, and back."""

import json
import re
from pathlib import Path

from msgspec import UNSET

from tui.config.kinds import File, Kind, Number, SettingError, Stored, Switch, Text, Texts, quoted
from tui.config.kinds import unescaped as resolved
from tui.text import one_line

_BARE = re.compile("[\\\\\n\r\t\x00-\x1f\x7f-\x9f]")
_NAMED = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escaped(text: str) -> str:
    r"""A text on one line: line ends as `\n`, other controls as `\xHH`."""
    return _BARE.sub(lambda found: _NAMED.get(found[0]) or f"\\x{ord(found[0]):02x}", text)


def shown(kind: Kind, value: Stored) -> str:
    """A value as it is edited; '' stands for None."""
    if value is None:
        return ""
    match kind:
        case Switch():
            return "on" if value else "off"
        case Text():
            return escaped(value)
        case Texts():
            return _listed(value)
        case _:
            return str(value)


def typed(kind: Kind, text: str) -> Stored:
    """The value of an edited line; `UNSET`: nothing is chosen.

    An empty line is no value where a setting has one for that, and else no choice.

    Raises:
        SettingError: It is wrong; the text is the end of a sentence.
    """
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise SettingError("must be valid Unicode")
    match kind:
        case Texts():
            return kind.read(text) if text else ()
        case Text():
            return kind.read(resolved(text)) if text else UNSET
        case Number(nothing=nothing) if not text.strip():
            return UNSET if nothing is None else None
        case File():
            if not text.strip():
                return UNSET
            # What is typed starts from where the user is, not from the settings file.
            try:
                return kind.check(kind.placed(text.strip(), Path.cwd()))
            except FileNotFoundError:
                raise SettingError("must be a whole path: the current folder is gone") from None
        case _:
            return kind.read(text.strip())


def fault(kind: Kind, text: str) -> str | None:
    """What is wrong with a typed value, in a sentence; None: nothing."""
    try:
        typed(kind, text)
    except SettingError as error:
        return f"{quoted(text)} {error}"
    return None


def _listed(texts: tuple[str, ...]) -> str:
    if not texts:
        return ""
    if len(texts) == 1 and not texts[0].lstrip().startswith("["):
        line = escaped(texts[0])
        if one_line(line) == line:
            return line
    plain = json.dumps(list(texts), ensure_ascii=False)
    return "".join(char if char == one_line(char) else f"\\u{ord(char):04x}" for char in plain)
