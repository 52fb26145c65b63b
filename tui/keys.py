"""Alt and a digit, as terminals send it."""

from enum import StrEnum
from typing import cast

from textual import _ansi_sequences
from textual.keys import Keys


class AltDigit(StrEnum):
    """Keys that Textual has no names for."""

    ALT_1 = "alt+1"
    ALT_2 = "alt+2"
    ALT_3 = "alt+3"
    ALT_4 = "alt+4"
    ALT_5 = "alt+5"
    ALT_6 = "alt+6"
    ALT_7 = "alt+7"
    ALT_8 = "alt+8"
    ALT_9 = "alt+9"


def let_alt_digits_through() -> None:
    """Make Alt+1 … Alt+9 arrive as keys in terminals that send ESC and the digit.

    Textual 8 turns those sequences into the characters that Option and a digit type on a Mac
    (`£` for Alt+3) and offers no setting for it, so its table is changed. Terminals that speak
    the Kitty protocol need none of this.
    """
    sequences = cast("dict[str, object]", _ansi_sequences.ANSI_SEQUENCES_KEYS)
    for key in AltDigit:
        sequences[f"\x1b{key.value[-1]}"] = (cast("Keys", key),)
