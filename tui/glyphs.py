"""Glyphs of terminals that lack ours: one table, applied to every line as it is painted.

Drawing code, Textual's widgets and a model's answer alike are drawn with Unicode; where the
terminal cannot show that, the line that comes out is spelled with what it has, cell for cell.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Literal

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

GlyphSet = Literal["unicode", "console", "ascii"]
"""`console`: code page 437, which the Linux console's own font has; `ascii`: for an encoding that
is not Unicode's, its letters and ASCII's signs."""

_DINGBATS = "☺☻♥♦♣♠•◘○◙♂♀♪♫☼►◄↕‼¶§▬↨↑↓→←∟↔▲▼⌂"
_SUBSTITUTES = "◆¤▶◀¨´¸ÀÁÂÃ¦©ÐÈÊËÌÍÎÏÒÓÔÕ®ÙÚÛÝãõ×ýμØΩðø∈�"
"""Drawn by the kernel with the nearest glyph that it has: its drivers/tty/vt/cp437.uni."""

CONSOLE = frozenset(
    bytes((*range(0x20, 0x7F), *range(0x80, 0x100))).decode("cp437") + _DINGBATS + _SUBSTITUTES
)
"""What the Linux console draws with the font that the kernel brings."""

ASCII = frozenset(map(chr, range(0x20, 0x7F)))

_TABLE: Mapping[str, tuple[str, str]] = {
    # Ours and Textual's: on the console, in ASCII.
    "░": ("░", ":"),
    "▒": ("▒", "="),
    "▓": ("▓", "%"),
    "█": ("█", "#"),
    "▁": ("_", "_"),
    "▂": ("_", "_"),
    "▃": ("▄", "."),
    "▄": ("▄", "-"),
    "▅": ("▄", "="),
    "▆": ("█", "+"),
    "▇": ("█", "*"),
    "▀": ("▀", "^"),
    "▔": ("▀", "^"),
    "▉": ("█", "#"),
    "▊": ("█", "#"),
    "▋": ("▌", "|"),
    "▌": ("▌", "|"),
    "▍": ("▌", "|"),
    "▎": ("▌", "|"),
    "▏": ("│", "|"),
    "▐": ("▐", "|"),
    "▕": ("│", "|"),
    "▖": ("▄", "."),
    "▗": ("▄", "."),
    "▘": ("▀", "'"),
    "▝": ("▀", "'"),
    "▙": ("█", "#"),
    "▛": ("█", "#"),
    "▜": ("█", "#"),
    "▟": ("█", "#"),
    "▚": ("▒", "%"),
    "▞": ("▒", "%"),
    "▸": ("►", ">"),
    "▹": ("►", ">"),
    "▾": ("▼", "v"),
    "▴": ("▲", "^"),
    "▶": ("►", ">"),
    "◀": ("◄", "<"),
    "►": ("►", ">"),
    "◄": ("◄", "<"),
    "▲": ("▲", "^"),
    "▼": ("▼", "v"),
    "◁": ("◄", "<"),
    "▷": ("►", ">"),
    "▪": ("■", "*"),
    "●": ("•", "*"),
    "•": ("•", "*"),
    "◦": ("○", "o"),
    "○": ("○", "o"),
    "■": ("■", "#"),
    "□": ("■", "o"),
    "·": ("·", "."),
    "…": ("~", "~"),
    "—": ("-", "-"),
    "–": ("-", "-"),
    "‐": ("-", "-"),
    "‑": ("-", "-"),
    "−": ("-", "-"),
    "≈": ("≈", "~"),
    "×": ("×", "x"),
    "÷": ("÷", "/"),
    "±": ("±", "+"),
    "≤": ("≤", "<"),
    "≥": ("≥", ">"),
    "≠": ("#", "#"),
    "∞": ("∞", "8"),
    "µ": ("µ", "u"),
    "μ": ("µ", "u"),
    "°": ("°", "o"),
    "“": ('"', '"'),
    "”": ('"', '"'),
    "„": ('"', '"'),
    "‘": ("'", "'"),
    "’": ("'", "'"),
    "‚": (",", ","),
    "‹": ("<", "<"),
    "›": (">", ">"),
    "«": ("«", "<"),
    "»": ("»", ">"),
    "⟦": ("[", "["),
    "⟧": ("]", "]"),
    "⏎": ("┘", "/"),
    "␛": ("?", "?"),
    "␡": ("?", "?"),
    "�": ("?", "?"),
    "←": ("←", "<"),
    "→": ("→", ">"),
    "↑": ("↑", "^"),
    "↓": ("↓", "v"),
    "↔": ("↔", "-"),
    "⇧": ("↑", "^"),
    "✓": ("√", "v"),
    "✔": ("√", "v"),
    "✗": ("x", "x"),
    "✘": ("x", "x"),
    "🔎": ("> ", "> "),
    "⭘": ("○", "o"),
}

_BOX = re.compile(r"[\u2500-\u257f]")
_DIRECTION = re.compile(r"LEFT|RIGHT|UP|DOWN|HORIZONTAL|VERTICAL")
_ORDER = ("VERTICAL", "DOWN", "UP", "HORIZONTAL", "LEFT", "RIGHT")
"""Of directions in the names of box drawing characters."""


class PlainGlyphs(LineFilter):
    """Spells painted lines with what a terminal can show.

    Args:
        kind: `console` or `ascii`.
        encoding: Of the terminal; what text it can take stays in `ascii`.
    """

    def __init__(self, kind: GlyphSet, encoding: str = "ascii") -> None:
        super().__init__()
        self._spelling = _Spelling(kind, encoding)

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same line in other glyphs; every text keeps its width."""
        del background
        return [
            segment
            if segment.control or segment.text.isascii()
            else Segment(self.spelled(segment.text), segment.style)
            for segment in segments
        ]

    def spelled(self, text: str) -> str:
        """A text in other glyphs, as wide as it was."""
        plain = text.translate(self._spelling)
        width = cell_len(text)
        return plain if cell_len(plain) == width else set_cell_size(plain, width)


class _Spelling(dict[int, str]):
    """What each character becomes, found out when it is first met."""

    def __init__(self, kind: GlyphSet, encoding: str) -> None:
        super().__init__()
        self._kind = kind
        self._encoding = encoding

    def __missing__(self, code: int) -> str:
        spelled = self._spell(chr(code))
        self[code] = spelled
        return spelled

    def _spell(self, char: str) -> str:
        width = cell_len(char)
        if self._has(char, width):
            return char
        column = 0 if self._kind == "console" else 1
        if char in _TABLE:
            return _TABLE[char][column]
        if _BOX.match(char):
            return _box(char, console=self._kind == "console")
        if 0x2800 <= ord(char) <= 0x28FF:
            return ":" if ord(char) > 0x2800 else " "
        if not width or char.isspace():
            return " " * width
        base = unicodedata.normalize("NFKD", char)[0]
        return base if base in ASCII and width == 1 else "?" * width

    def _has(self, char: str, width: int) -> bool:
        """Whether the terminal shows a character as it is."""
        if char in ASCII:
            return True
        if not char.isprintable():
            return False
        if self._kind == "console":
            # Another font may be loaded for the user's script; what is no letter needs ours.
            return char in CONSOLE or (width == 1 and char.isalpha())
        try:
            size = len(char.encode(self._encoding))
        except (UnicodeEncodeError, LookupError):
            return False
        # East Asian encodings draw lines and signs two cells wide.
        return char.isalpha() or (size == 1 and char not in _TABLE and not _BOX.match(char))


def _box(char: str, *, console: bool) -> str:
    """A box drawing character, in the lines that there are."""
    name = unicodedata.name(char)
    if "DIAGONAL" in name:
        return "X" if "CROSS" in name else "/" if "UPPER RIGHT" in name else "\\"
    directions = set(_DIRECTION.findall(name))
    for both, pair in (("VERTICAL", {"UP", "DOWN"}), ("HORIZONTAL", {"LEFT", "RIGHT"})):
        if pair <= directions or both in directions:
            directions = directions - pair | {both}
    across = directions <= {"LEFT", "RIGHT", "HORIZONTAL"}
    along = directions <= {"UP", "DOWN", "VERTICAL"}
    if not console:
        return "-" if across else "|" if along else "+"
    weight = "DOUBLE" if "HEAVY" in name or "DOUBLE" in name else "LIGHT"
    if across or along:
        return unicodedata.lookup(f"BOX DRAWINGS {weight} {'HORIZONTAL' if across else 'VERTICAL'}")
    shape = " AND ".join(word for word in _ORDER if word in directions)
    return unicodedata.lookup(f"BOX DRAWINGS {weight} {shape}")


def terminal_glyphs(term: str | None, encoding: str | None) -> GlyphSet:
    """The glyphs that a terminal has.

    Args:
        term: Its name, `TERM`.
        encoding: Of what is written to it; None: unknown, as in a test.
    """
    if encoding is not None and not encoding.lower().replace("_", "-").startswith("utf"):
        return "ascii"
    return "console" if (term or "").partition("-")[0] == "linux" else "unicode"


def plain_glyphs(
    setting: Literal["auto", "unicode", "plain"], term: str | None, encoding: str | None
) -> PlainGlyphs | None:
    """The filter for a terminal; None where nothing is to be changed.

    Args:
        setting: What the user chose; never any glyphs that the encoding cannot carry.
        term: As in `terminal_glyphs`.
        encoding: As in `terminal_glyphs`.
    """
    kind = terminal_glyphs(term, encoding)
    if setting != "auto" and kind != "ascii":
        kind = "unicode" if setting == "unicode" else "console"
    return None if kind == "unicode" else PlainGlyphs(kind, encoding or "ascii")
