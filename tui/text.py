"""Foreign text made harmless: what a model, a file name or metadata says is never a command."""

import re

from tui.graphemes import without_stray_joiners

_NOT_SHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""C0 controls except tab and newline, DEL, C1, what reorders or breaks a line, and lone surrogates,
which no terminal takes."""

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""C0 controls except tab and newline, DEL, C1, and lone surrogates."""


def harmless(text: str) -> str:
    """The text with every control character replaced by a picture of it.

    Tab and newline stay. A C0 control becomes its control picture (ESC is `␛`), DEL `␡`,
    everything else `�`, so that no terminal sequence can come out of it. A joiner that joins no
    emoji becomes a non-joiner.
    """
    return without_stray_joiners(_NOT_SHOWN.sub(_picture, text))


def one_line(text: str) -> str:
    """The text harmless and without line ends or tabs, for a place of one line."""
    return harmless(text.replace("\n", "⏎").replace("\t", " "))


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else "�"


def without_controls(text: str) -> str:
    """The text without control characters but tab and newline, for a clipboard or a file.

    What only orders or joins characters (right-to-left marks, joiners) is text and stays.
    """
    return _CONTROLS.sub("", text)
