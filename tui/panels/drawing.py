"""What a panel draws: lines of spans with a role each, pure and independent of the window.

A role decides colour and pattern: prefill, decode and reuse have a glyph of their own each, so
that a bar reads without colour too.
"""

from collections.abc import Sequence
from textwrap import wrap
from typing import Literal, NamedTuple

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.renderables.digits import Digits

Role = Literal[
    "plain", "dim", "strong", "reused", "prefill", "decode", "cache", "free", "warn", "error"
]

GLYPHS: dict[Role, str] = {
    "reused": "░",
    "prefill": "▓",
    "decode": "█",
    "cache": "━",
    "free": "·",
}

EIGHTHS = "▁▂▃▄▅▆▇█"


class Span(NamedTuple):
    """Text that is drawn in one style."""

    text: str
    role: Role = "plain"


Line = tuple[Span, ...]

BLANK: Line = ()


class Drawing(NamedTuple):
    """A panel's title and its lines."""

    title: str
    lines: tuple[Line, ...]


def line_width(line: Line) -> int:
    """Terminal cells that a line takes."""
    return sum(cell_len(span.text) for span in line)


def spread(left: Line, right: Line, width: int) -> Line:
    """One line with `left` and `right` at its ends; `right` is left out where it has no room."""
    gap = width - line_width(left) - line_width(right)
    return (*left, Span(" " * gap), *right) if gap >= 1 else left


def bar(parts: Sequence[tuple[Role, float]], total: float, width: int) -> Line:
    """A horizontal bar of parts side by side, `width` cells for `total`.

    A part that is not 0 gets at least one cell, so that nothing disappears; the widest part
    gives it.

    Args:
        parts: Role and size of each part, in the unit of `total`.
        total: What the whole width stands for.
        width: Cells.
    """
    if total <= 0 or width <= 0:
        return BLANK
    cells: list[int] = []
    passed = 0.0
    for _, size in parts:
        start, passed = passed, passed + size
        exact = round(width * passed / total) - round(width * start / total)
        cells.append(max(1, exact) if size > 0 else 0)
    while sum(cells) > width:
        widest = max(range(len(cells)), key=cells.__getitem__)
        cells[widest] -= 1
    return tuple(
        Span(GLYPHS[role] * count, role)
        for (role, _), count in zip(parts, cells, strict=True)
        if count
    )


def columns(
    values: Sequence[float], top: float, rows: int, role: Role = "decode"
) -> tuple[Line, ...]:
    """A strip chart from zero: one column a value, `rows` lines high.

    A value above `top` fills its column and is drawn as a warning, so that one outlier does not
    flatten the rest.

    Args:
        values: What is drawn, oldest first.
        top: The value of a full column.
        rows: Lines.
        role: Style of the columns.
    """
    if top <= 0:
        return (BLANK,) * rows
    heights = [max(1, min(8 * rows, round(8 * rows * value / top))) for value in values]
    lines: list[Line] = []
    for row in range(rows - 1, -1, -1):
        spans: list[Span] = []
        for value, height in zip(values, heights, strict=True):
            filled = min(8, height - 8 * row)
            glyph = EIGHTHS[filled - 1] if filled > 0 else " "
            spans.append(Span(glyph, "warn" if value > top else role))
        lines.append(merged(spans))
    return tuple(lines)


def merged(spans: Sequence[Span]) -> Line:
    """The same line with neighbours of one role joined."""
    joined: list[Span] = []
    for span in spans:
        if joined and joined[-1].role == span.role:
            joined[-1] = Span(joined[-1].text + span.text, span.role)
        else:
            joined.append(span)
    return tuple(joined)


def big(text: str, unit: str, role: Role) -> tuple[Line, ...]:
    """A figure in digits of three lines, to be read from the back of a room.

    Args:
        text: The figure.
        unit: Written small after it.
        role: Style of the digits.
    """
    drawn = Digits(text).render(Style(bold=True))
    rows = "".join(piece.text for piece in drawn if isinstance(piece, Segment)).split("\n")
    return (
        (Span(rows[0], role),),
        (Span(rows[1], role),),
        (Span(rows[2], role), Span(f" {unit}", "dim")),
    )


def paragraphs(text: str, width: int, role: Role = "dim") -> tuple[Line, ...]:
    """Text broken into lines, a paragraph a line of it."""
    width = max(2, width)
    return tuple(
        (Span(piece, role),)
        for paragraph in text.split("\n")
        for words in wrap(paragraph, width)
        for piece in chop_cells(words, width)
    )
