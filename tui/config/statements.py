"""TOML read statement by statement: each value with its line, and a fault costs its line only."""

import re
import tomllib
from collections.abc import Iterator
from typing import NamedTuple

LONGEST = 5000
"""Most lines of one statement (a text or a list over many lines)."""

_OPEN = "(at end of document)"
_CLOSING = re.compile("\"\"\"|'''|]")
_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


class Entry(NamedTuple):
    """A value, or the head of a section.

    Attributes:
        line: Where its statement begins, counted from 1.
        path: Section and names.
        value: An empty table for the head of a section.
    """

    line: int
    path: tuple[str, ...]
    value: object


class Fault(NamedTuple):
    """A line that is wrong, and a sentence on it."""

    line: int
    text: str


class Statements(NamedTuple):
    """What a file says, and what of it cannot be read."""

    entries: tuple[Entry, ...]
    faults: tuple[Fault, ...]


def read_statements(text: str) -> Statements:
    """Every statement of a TOML text that is right by itself."""
    reader = _Reader()
    lines = text.replace("\r\n", "\n").split("\n")
    at = 0
    while at < len(lines):
        statement = _statement(lines, at)
        reader.take(at + 1, statement, is_head=lines[at].lstrip().startswith("["))
        at += statement.lines
    if not reader.faults:
        reader.faults += _whole(text)
    return Statements(tuple(reader.entries), tuple(reader.faults))


class _Statement(NamedTuple):
    """A statement.

    Attributes:
        lines: How many it has; 1 if it is wrong.
        table: What it says, as a table.
        fault: What is wrong; its line is counted within the statement.
    """

    lines: int
    table: dict[str, object]
    fault: Fault | None = None


class _Reader:
    """Puts statements together."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.faults: list[Fault] = []
        self._section: tuple[str, ...] = ()
        self._sections: dict[tuple[str, ...], int] = {}
        self._values: dict[tuple[str, ...], int] = {}
        # After a value over several lines that is wrong, its other lines make no sense either.
        self._lost = False

    def take(self, line: int, statement: _Statement, *, is_head: bool) -> None:
        """Go on with the next statement."""
        fault = statement.fault
        if fault is not None:
            if not self._lost:
                self.faults.append(Fault(line, f"this is not TOML: {fault.text}"))
            self._lost = self._lost or fault.line > 1
        elif statement.table:
            self._lost = False
            if is_head:
                self._open(line, statement.table)
            else:
                self._add(line, statement.table)

    def _open(self, line: int, table: dict[str, object]) -> None:
        section, is_list = _head(table)
        before = self._sections.setdefault(section, line)
        if is_list:
            self.faults.append(Fault(line, "a section has one pair of brackets, not two"))
        elif before != line:
            text = f"the section [{'.'.join(section)}] is there already, in line {before}"
            self.faults.append(Fault(line, text))
        self._section = section
        self.entries.append(Entry(line, section, {}))

    def _add(self, line: int, table: dict[str, object]) -> None:
        for entry in _flat(Entry(line, self._section, table)):
            before = self._values.setdefault(entry.path, line)
            if before != line:
                text = f"{'.'.join(entry.path)} is set in line {before} too; this one counts"
                self.faults.append(Fault(line, text))
            self.entries.append(entry)


def _statement(lines: list[str], at: int) -> _Statement:
    """The statement that begins at a line."""
    if not lines[at].strip():
        return _Statement(1, {})
    for count in range(1, min(LONGEST, len(lines) - at) + 1):
        if count > 1 and not _CLOSING.search(lines[at + count - 1]):
            continue
        try:
            return _Statement(count, tomllib.loads("\n".join(lines[at : at + count]) + "\n"))
        except RecursionError:
            return _Statement(1, {}, Fault(1, "it is nested too deeply"))
        except ValueError as error:
            if not str(error).endswith(_OPEN):
                return _Statement(1, {}, Fault(count, _cause(error)))
    return _Statement(1, {}, Fault(2, "it does not end"))


def _cause(error: ValueError) -> str:
    words = _PLACE.sub("", str(error))
    return words[:1].lower() + words[1:]


def _head(table: dict[str, object]) -> tuple[tuple[str, ...], bool]:
    """The names in a section's head, and whether it opens a list of tables."""
    path: list[str] = []
    inner: object = table
    while isinstance(inner, dict) and inner:
        ((name, inner),) = inner.items()
        path.append(name)
    return tuple(path), isinstance(inner, list)


def _flat(entry: Entry) -> Iterator[Entry]:
    """The values in a table, however deep."""
    if not isinstance(entry.value, dict) or not entry.value:
        yield entry
        return
    for name, value in entry.value.items():
        yield from _flat(Entry(entry.line, (*entry.path, name), value))


def _whole(text: str) -> Iterator[Fault]:
    """What is wrong with statements that are right each by itself."""
    try:
        tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        place = _PLACE.search(str(error))
        line = int(place[1]) if place is not None and place[1] else 1
        cause = _cause(error) if isinstance(error, ValueError) else "it is nested too deeply"
        yield Fault(line, f"this does not go with what stands above it: {cause}")
