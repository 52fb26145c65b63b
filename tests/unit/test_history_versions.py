"""Stores of version 1 become those of today: wholly, once, or not at all."""

import sqlite3
from functools import partial
from pathlib import Path

import msgspec
import pytest

from backend.history import SCHEMA_VERSION, History, HistoryError, pack_ids
from backend.metrics.record import StopRecord
from backend.protocol import StopReason
from tests.unit.stored import some_record
from tests.unit.together import together

VERSION_1 = """
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
PRAGMA user_version = 1;
"""

MOMENT = "2025-11-30T12:00:00.000+00:00"

ANSWERS: list[tuple[str, StopReason | None]] = [
    ("whole", "eog"),
    ("short", "length"),
    ("stopped", "stop"),
    ("died", None),
]
"""Answers of the old store, and how their turns ended."""


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    """One chat: a question, and four answers to it."""
    path = tmp_path / "chats.db"
    db = sqlite3.connect(path)
    db.executescript(VERSION_1)
    db.execute(
        "INSERT INTO chats VALUES ('chat', 'Windmills', 'be kind', 'stopped', ?, ?)",
        (MOMENT, MOMENT),
    )
    insert = "INSERT INTO messages VALUES (?, 'chat', ?, ?, ?, ?, ?, ?, ?, ?)"
    db.execute(insert, ("q", None, "user", "why?", b"", "", None, "whole", MOMENT))
    for name, reason in ANSWERS:
        state = "partial" if reason is None else "whole"
        row = (name, "q", "assistant", name, pack_ids((1, 2)), "lead", f"t-{name}", state, MOMENT)
        db.execute(insert, row)
        if reason is not None:
            record = msgspec.structs.replace(
                some_record(1, f"t-{name}"), stop=StopRecord(reason=reason)
            )
            text = msgspec.json.encode(record).decode()
            db.execute(
                "INSERT INTO turns VALUES (?, 'chat', 1, ?, ?)", (record.id, pack_ids((7,)), text)
            )
    db.execute("INSERT INTO settings VALUES ('last_model', '/a.gguf')")
    db.commit()
    db.close()
    return path


def test_nothing_of_an_old_store_is_lost(old_store: Path) -> None:
    history = History(old_store)
    chat = history.load_chat("chat")
    assert (chat.title, chat.system, chat.leaf) == ("Windmills", "be kind", "stopped")
    assert chat.sampling.chosen == {}
    assert [
        (node.id, node.parent, node.content, node.token_ids, node.turn_ids, node.model, node.state)
        for node in chat.nodes()
    ] == [
        ("q", None, "why?", (), (), "", "whole"),
        ("whole", "q", "whole", (1, 2), ("t-whole",), "Scripted-1B", "whole"),
        ("short", "q", "short", (1, 2), ("t-short",), "Scripted-1B", "cut"),
        ("stopped", "q", "stopped", (1, 2), ("t-stopped",), "Scripted-1B", "whole"),
        ("died", "q", "died", (1, 2), ("t-died",), "", "partial"),
    ]
    assert list(history.records_by_id("chat")) == ["t-whole", "t-short", "t-stopped"]
    assert history.prompt_ids("t-whole") == (7,)
    assert history.setting("last_model") == "/a.gguf"
    (row,) = history.chats()
    assert (row.created_at, row.updated_at, row.messages) == (MOMENT, MOMENT, 5)
    history.close()


def described(path: Path) -> dict[str, object]:
    """All tables and indexes of a store: their columns with types, defaults and keys."""
    db = sqlite3.connect(path)
    names = db.execute(
        "SELECT name, type FROM sqlite_master WHERE name NOT LIKE 'sqlite%'"
    ).fetchall()
    tables: dict[str, object] = {
        name: (
            kind,
            [row[1:] for row in db.execute(f"PRAGMA table_info({name})")],
            [row[2:] for row in db.execute(f"PRAGMA foreign_key_list({name})")],
            [row[1:] for row in db.execute(f"PRAGMA index_info({name})")],
        )
        for name, kind in names
    }
    tables["strict"] = sorted(map(str, db.execute("PRAGMA table_list")))
    tables["version"] = db.execute("PRAGMA user_version").fetchone()
    db.close()
    return tables


def test_an_old_store_becomes_what_a_new_one_is(old_store: Path, tmp_path: Path) -> None:
    History(old_store).close()
    fresh = tmp_path / "fresh.db"
    History(fresh).close()
    assert described(old_store) == described(fresh)
    assert described(fresh)["version"] == (SCHEMA_VERSION,)


def test_a_damaged_record_does_not_keep_the_others_from_counting(old_store: Path) -> None:
    db = sqlite3.connect(old_store)
    db.execute("UPDATE turns SET record = '{' WHERE id = 't-whole'")
    db.commit()
    db.close()
    history = History(old_store)
    chat = history.load_chat("chat")
    assert chat.node("whole").model == ""
    assert chat.node("short").state == "cut"
    history.close()


@pytest.mark.parametrize(
    "obstacle",
    [
        "CREATE TABLE drafts (of TEXT, another TEXT, shape TEXT)",
        """CREATE TRIGGER full BEFORE UPDATE ON messages
        BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END""",
    ],
)
def test_what_cannot_be_brought_up_to_date_stays_as_it_was(obstacle: str, old_store: Path) -> None:
    db = sqlite3.connect(old_store)
    db.execute(obstacle)
    db.commit()
    before = list(db.iterdump())
    db.close()
    with pytest.raises(HistoryError, match=r"chats\.db cannot be used"):
        History(old_store)
    after = sqlite3.connect(old_store)
    assert list(after.iterdump()) == before
    assert after.execute("PRAGMA user_version").fetchone() == (1,)
    after.close()


def test_several_copies_of_the_program_bring_a_store_up_to_date_at_once(
    old_store: Path, tmp_path: Path
) -> None:
    for attempt in range(10):
        path = tmp_path / f"{attempt}.db"
        path.write_bytes(old_store.read_bytes())

        def use(number: int, path: Path = path) -> None:
            store = History(path)
            store.set_setting(f"copy {number}", "here")
            store.close()

        together(*(partial(use, number) for number in range(3)))
        store = History(path)
        assert [store.setting(f"copy {number}") for number in range(3)] == ["here"] * 3
        assert len(store.load_chat("chat")) == 5
        store.close()
