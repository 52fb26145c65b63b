"""Chats and turn records in SQLite, written as they happen."""

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

import msgspec

from backend.chat.tree import Chat, Node, well_formed
from backend.metrics.record import TurnRecord

SCHEMA_VERSION = 1

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

SCHEMA = """
CREATE TABLE chats (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    system TEXT,
    leaf TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
) STRICT;
CREATE TABLE messages (
    id TEXT PRIMARY KEY,
    chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    parent TEXT,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    token_ids BLOB NOT NULL,
    lead TEXT NOT NULL,
    turn_id TEXT,
    state TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;
CREATE INDEX messages_of_chat ON messages (chat_id, created_at);
CREATE TABLE turns (
    id TEXT PRIMARY KEY,
    chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    turn INTEGER NOT NULL,
    prompt_ids BLOB NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE INDEX turns_of_chat ON turns (chat_id);
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
"""


class HistoryError(Exception):
    """The store cannot be read or written; the text is one sentence."""


class ChatHead(NamedTuple):
    """A chat without its messages, as it was at one moment."""

    id: str
    title: str
    system: str | None
    leaf: str | None

    @classmethod
    def of(cls, chat: Chat) -> "ChatHead":
        """The head of a chat as it is now."""
        return cls(chat.id, chat.title, chat.system, chat.leaf)


class ChatRow(NamedTuple):
    """A stored chat in a list."""

    id: str
    title: str
    updated_at: str
    messages: int


class History:
    """The store of one user; several copies of the program may use it at once.

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

    def _open(self) -> None:
        """Make the tables of a new store; refuse one of a later version.

        All of it under one lock, because another copy of the program may do the same now.
        """
        self._write_ahead()
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("PRAGMA foreign_keys = ON")
        if self._version() == 0:
            self._db.execute("BEGIN IMMEDIATE")
            if self._version() == 0:
                for statement in SCHEMA.split(";")[:-1]:
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            self._db.execute("COMMIT")
        if self._version() > SCHEMA_VERSION:
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

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def _error(self, error: sqlite3.Error) -> HistoryError:
        remedy = REMEDIES.get(_kind(error))
        ending = "" if remedy is None else f"; {remedy}"
        return HistoryError(f"the chats in {self.path} cannot be used: {error}{ending}")

    def _write(self, sql: str, values: Sequence[object]) -> None:
        storable = [well_formed(value) if isinstance(value, str) else value for value in values]
        try:
            self._db.execute(sql, storable)
        except sqlite3.Error as error:
            raise self._error(error) from error

    def save_chat(self, chat: Chat | ChatHead) -> None:
        """Store a chat's title, system prompt and place (not its messages)."""
        now = _now()
        self._write(
            "INSERT INTO chats VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
            "title = excluded.title, system = excluded.system, leaf = excluded.leaf, "
            "updated_at = excluded.updated_at",
            (chat.id, chat.title, chat.system, chat.leaf, now, now),
        )

    def save_message(self, chat_id: str, node: Node) -> None:
        """Store a message, or its newer version."""
        self._write(
            "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE "
            "SET content = excluded.content, token_ids = excluded.token_ids, "
            "lead = excluded.lead, turn_id = excluded.turn_id, state = excluded.state",
            (
                node.id,
                chat_id,
                node.parent,
                node.role,
                node.content,
                pack_ids(node.token_ids),
                node.lead,
                node.turn_id,
                node.state,
                _now(),
            ),
        )

    def remove_message(self, node_id: str) -> None:
        """Forget a message that was taken back."""
        self._write("DELETE FROM messages WHERE id = ?", (node_id,))

    def save_record(self, chat_id: str, record: TurnRecord, prompt_ids: Sequence[int]) -> None:
        """Store a turn's record with the tokens of its prompt."""
        text = msgspec.json.encode(record).decode()
        self._write(
            "INSERT OR REPLACE INTO turns VALUES (?, ?, ?, ?, ?)",
            (record.id, chat_id, record.turn, pack_ids(prompt_ids), text),
        )

    def chats(self) -> list[ChatRow]:
        """All chats, the one used last first."""
        try:
            rows = self._db.execute(
                "SELECT id, title, updated_at, "
                "(SELECT count(*) FROM messages WHERE chat_id = chats.id) "
                "FROM chats ORDER BY updated_at DESC"
            ).fetchall()
        except sqlite3.Error as error:
            raise self._error(error) from error
        return [ChatRow(*row) for row in rows]

    def load_chat(self, chat_id: str) -> Chat:
        """A stored chat with all its branches.

        Raises:
            HistoryError: There is none of this id.
        """
        try:
            row = self._db.execute(
                "SELECT title, system, leaf FROM chats WHERE id = ?", (chat_id,)
            ).fetchone()
            nodes = self._db.execute(
                "SELECT id, parent, role, content, token_ids, lead, turn_id, state FROM messages "
                "WHERE chat_id = ? ORDER BY created_at, rowid",
                (chat_id,),
            ).fetchall()
        except sqlite3.Error as error:
            raise self._error(error) from error
        if row is None:
            raise HistoryError(f"there is no chat {chat_id}")
        chat = Chat(chat_id, system=row[1])
        # A damaged file may have lost a message that others follow.
        known = {node[0] for node in nodes}
        for node_id, parent, role, content, token_ids, lead, turn_id, state in nodes:
            chat.put(
                Node(
                    id=node_id,
                    parent=parent if parent in known else None,
                    role=role,
                    content=content,
                    token_ids=unpack_ids(token_ids),
                    lead=lead,
                    turn_id=turn_id,
                    state=state,
                )
            )
        chat.title = row[0]
        if row[2] is None or row[2] in known:
            chat.leaf = row[2]
        return chat

    def records(self, chat_id: str) -> list[TurnRecord]:
        """The records of a chat's turns, oldest first."""
        try:
            rows = self._db.execute(
                "SELECT record FROM turns WHERE chat_id = ? ORDER BY rowid", (chat_id,)
            ).fetchall()
        except sqlite3.Error as error:
            raise self._error(error) from error
        try:
            return [msgspec.json.decode(text, type=TurnRecord) for (text,) in rows]
        except msgspec.DecodeError as error:
            raise HistoryError(f"a turn record in {self.path} is damaged: {error}") from error

    def prompt_ids(self, turn_id: str) -> tuple[int, ...]:
        """The tokens of a turn's prompt.

        Raises:
            HistoryError: There is no such turn.
        """
        try:
            row = self._db.execute(
                "SELECT prompt_ids FROM turns WHERE id = ?", (turn_id,)
            ).fetchone()
        except sqlite3.Error as error:
            raise self._error(error) from error
        if row is None:
            raise HistoryError(f"there is no turn {turn_id}")
        return unpack_ids(row[0])

    def setting(self, name: str) -> str | None:
        """Something remembered from an earlier run; None if nothing is."""
        try:
            row = self._db.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        except sqlite3.Error as error:
            raise self._error(error) from error
        return None if row is None else str(row[0])

    def set_setting(self, name: str, value: str) -> None:
        """Remember something for later runs."""
        self._write("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))

    def close(self) -> None:
        """Close the store."""
        self._db.close()


def _kind(error: sqlite3.Error) -> int:
    """SQLite's code of an error, without the circumstances, which are in the higher bytes."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)) & 0xFF


def pack_ids(ids: Sequence[int]) -> bytes:
    """Token ids as bytes, 4 each, little-endian."""
    return b"".join(token.to_bytes(4, "little", signed=True) for token in ids)


def unpack_ids(data: bytes) -> tuple[int, ...]:
    """Token ids from bytes."""
    return tuple(
        int.from_bytes(data[at : at + 4], "little", signed=True) for at in range(0, len(data), 4)
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
