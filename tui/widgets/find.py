"""Finding text in lines as they are shown, whatever their case, also where a line was wrapped."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len


class Hit(NamedTuple):
    """A part of a hit on one line, in terminal cells from the line's beginning."""

    row: int
    start: int
    end: int


def find_hits(lines: Sequence[str], query: str) -> list[tuple[Hit, ...]]:
    """All places of a text, from the top; each with its parts, one a line that it covers.

    Args:
        lines: The lines as they are shown.
        query: What is looked for, case-folded; white space stands for a wrapped line's end too.
    """
    wanted = " ".join(query.split())
    if not wanted:
        return []
    text, places = _joined(lines)
    hits: list[tuple[Hit, ...]] = []
    at = text.find(wanted)
    while at >= 0:
        hits.append(_parts(lines, places[at : at + len(wanted)]))
        at = text.find(wanted, at + len(wanted))
    return hits


def _joined(lines: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """The lines as one case-folded text with single spaces, and where each character is from."""
    folded: list[str] = []
    places: list[tuple[int, int]] = []
    space = True
    for row, line in enumerate(lines):
        for column, character in enumerate(line):
            if character.isspace():
                if not space:
                    folded.append(" ")
                    places.append((row, column))
                space = True
                continue
            for part in character.casefold():
                folded.append(part)
                places.append((row, column))
            space = False
        if not space:
            folded.append(" ")
            places.append((row, len(line)))
            space = True
    return "".join(folded), places


def _parts(lines: Sequence[str], places: Sequence[tuple[int, int]]) -> tuple[Hit, ...]:
    parts: list[Hit] = []
    for row in dict.fromkeys(row for row, _ in places):
        columns = [column for at, column in places if at == row and column < len(lines[row])]
        if columns:
            start = cell_len(lines[row][: columns[0]])
            parts.append(Hit(row, start, cell_len(lines[row][: columns[-1] + 1])))
    return tuple(parts)
