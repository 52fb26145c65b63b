"""The tables of the store, and how those of earlier versions become them."""

import sqlite3

import msgspec

SCHEMA_VERSION = 2

SCHEMA = """
CREATE TABLE chats (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    system TEXT,
    leaf TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    sampling TEXT NOT NULL DEFAULT '{}',
    deleted_at TEXT,
    named INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE messages (
    id TEXT PRIMARY KEY,
    chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    parent TEXT,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    token_ids BLOB NOT NULL,
    lead TEXT NOT NULL,
    state TEXT NOT NULL,
    created_at TEXT NOT NULL,
    turn_ids TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT ''
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
CREATE TABLE drafts (
    chat_id TEXT PRIMARY KEY,
    text TEXT NOT NULL,
    updated_at TEXT NOT NULL
) STRICT;
"""
"""`messages.turn_ids` are separated by spaces. A draft's chat need not be stored yet."""

TO_VERSION_2 = """
ALTER TABLE chats ADD COLUMN sampling TEXT NOT NULL DEFAULT '{}';
ALTER TABLE chats ADD COLUMN deleted_at TEXT;
ALTER TABLE chats ADD COLUMN named INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN turn_ids TEXT NOT NULL DEFAULT '';
ALTER TABLE messages ADD COLUMN model TEXT NOT NULL DEFAULT '';
UPDATE messages SET turn_ids = turn_id WHERE turn_id IS NOT NULL;
ALTER TABLE messages DROP COLUMN turn_id;
CREATE TABLE drafts (
    chat_id TEXT PRIMARY KEY,
    text TEXT NOT NULL,
    updated_at TEXT NOT NULL
) STRICT;
"""


class _Model(msgspec.Struct):
    name: str


class _Stop(msgspec.Struct):
    reason: str


class _Told(msgspec.Struct):
    """What a turn record tells of its answer."""

    model: _Model | None
    stop: _Stop


def version_of(db: sqlite3.Connection) -> int:
    """The version of a store's tables; 0 where there are none yet."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def bring_up_to_date(db: sqlite3.Connection) -> None:
    """Make the tables of a new store, or those of today from older ones: wholly or not at all.

    All of it under one lock, because another copy of the program may do the same now. Tables of
    a later version are left alone.
    """
    if version_of(db) >= SCHEMA_VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        version = version_of(db)
        if version == 0:
            _run(db, SCHEMA)
        elif version == 1:
            _run(db, TO_VERSION_2)
            _fill_in(db)
        if version < SCHEMA_VERSION:
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        db.execute("COMMIT")
    except sqlite3.Error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _run(db: sqlite3.Connection, script: str) -> None:
    """Run statements one by one: `executescript` would end the transaction."""
    for statement in script.split(";")[:-1]:
        db.execute(statement)


def _fill_in(db: sqlite3.Connection) -> None:
    """What version 1 kept of an answer only in its turn's record: its model, and a cut end."""
    message_of = dict(db.execute("SELECT turn_ids, id FROM messages WHERE turn_ids <> ''"))
    for turn_id, text in db.execute("SELECT id, record FROM turns").fetchall():
        try:
            told = msgspec.json.decode(text, type=_Told)
        except msgspec.DecodeError:
            continue
        message = message_of.get(turn_id)
        if told.model is not None:
            db.execute("UPDATE messages SET model = ? WHERE id = ?", (told.model.name, message))
        if told.stop.reason not in {"eog", "stop"}:
            db.execute(
                "UPDATE messages SET state = 'cut' WHERE id = ? AND state = 'whole'", (message,)
            )
