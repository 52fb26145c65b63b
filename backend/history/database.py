"""The file of the store: opening it, asking it, and saying what is wrong with it."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from backend.chat.tree import well_formed
from backend.history.schema import SCHEMA_VERSION, bring_up_to_date, version_of

BUSY_MS = 5_000
"""How long a write waits for another copy of the program."""

REMEDIES = {
    sqlite3.SQLITE_BUSY: "another program is writing to it: close that one",
    sqlite3.SQLITE_CANTOPEN: "see whether its folder is there and may be written",
    sqlite3.SQLITE_CORRUPT: "move the file away to begin a new one",
    sqlite3.SQLITE_FULL: "make room on the disk",
    sqlite3.SQLITE_IOERR: "see whether the disk is well and has room",
    sqlite3.SQLITE_NOTADB: "move the file away to begin a new one",
    sqlite3.SQLITE_READONLY: "make the file and its folder writable",
}
"""What can be done about an error of SQLite, by its kind."""


class HistoryError(Exception):
    """The store cannot be read or written; the text is one sentence."""


class Database:
    """A connection to the store, for the thread that made it.

    Args:
        path: The database file; it is made if it is not there.

    Attributes:
        path: The same.

    Raises:
        HistoryError: It is not usable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._db = sqlite3.connect(path, isolation_level=None, timeout=BUSY_MS / 1000)
        except sqlite3.Error as error:
            raise self._error(error) from error
        try:
            self._open()
        except sqlite3.Error as error:
            self._db.close()
            raise self._error(error) from error
        except HistoryError:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the store."""
        self._db.close()

    def _open(self) -> None:
        self._write_ahead()
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("PRAGMA foreign_keys = ON")
        bring_up_to_date(self._db)
        if version_of(self._db) > SCHEMA_VERSION:
            raise HistoryError(
                f"{self.path} was written by a newer phasescope; update this one to read it"
            )

    def _write_ahead(self) -> None:
        """Let readers never wait. SQLite does not wait itself where another copy does this now."""
        end = monotonic() + BUSY_MS / 1000
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if _kind(error) != sqlite3.SQLITE_BUSY or monotonic() > end:
                    raise
                sleep(0.01)
            else:
                return

    def _rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """All rows that a query gives."""
        try:
            return self._db.execute(sql, _storable(values)).fetchall()
        except sqlite3.Error as error:
            raise self._error(error) from error

    def _write(self, sql: str, values: Sequence[object] = ()) -> int:
        """Run a statement; the number of rows that it wrote."""
        try:
            return self._db.execute(sql, _storable(values)).rowcount
        except sqlite3.Error as error:
            raise self._error(error) from error

    @contextmanager
    def _together(self) -> Iterator[None]:
        """What is written inside is written wholly or not at all."""
        self._write("BEGIN IMMEDIATE")
        try:
            yield
            self._write("COMMIT")
        except HistoryError:
            if self._db.in_transaction:
                self._write("ROLLBACK")
            raise

    def _error(self, error: sqlite3.Error) -> HistoryError:
        remedy = REMEDIES.get(_kind(error))
        ending = "" if remedy is None else f"; {remedy}"
        return HistoryError(f"the chats in {self.path} cannot be used: {error}{ending}")


def _storable(values: Sequence[object]) -> list[object]:
    return [well_formed(value) if isinstance(value, str) else value for value in values]


def _kind(error: sqlite3.Error) -> int:
    """SQLite's code of an error, without the circumstances, which are in the higher bytes."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)) & 0xFF
