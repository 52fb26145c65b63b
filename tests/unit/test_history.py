"""The store, on real SQLite files."""

import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.chat.tree import Chat, Node
from backend.history import SCHEMA_VERSION, History, HistoryError, pack_ids, unpack_ids
from backend.metrics.live import LiveFigures
from backend.metrics.record import TurnRecord
from backend.protocol import ChatMessage, TurnRequest, TurnRequested
from backend.settings import SamplingSettings
from tests.fake_engine import failed, ready, turn_events


def answer(chat: Chat, node_id: str, text: str, ids: tuple[int, ...] = (1, 2)) -> Node:
    return chat.put(
        Node(
            id=node_id,
            parent=chat.leaf,
            role="assistant",
            content=text,
            token_ids=ids,
            lead="assistant\n",
            turn_id=f"turn-{node_id}",
        )
    )


def save(history: History, chat: Chat, *nodes: Node) -> None:
    history.save_chat(chat)
    for node in nodes:
        history.save_message(chat.id, node)


def some_record(turn: int = 1, *, fails: bool = False) -> TurnRecord:
    """A record as a session makes it."""
    request = TurnRequest(
        turn=turn,
        turn_id=f"turn-{turn}",
        chat_id="chat",
        messages=(ChatMessage("user", "hello"),),
        sampling=SamplingSettings(seed=7),
        started_at="2026-01-01T00:00:00.000+00:00",
    )
    live = LiveFigures()
    live.apply(ready())
    live.apply(TurnRequested(request, "hello"))
    events = failed(turn, "engine") if fails else turn_events(turn, token_s=[0.5, 0.6])
    (record,) = (made for event in events if (made := live.apply(event)) is not None)
    return record


def test_the_store_writes_ahead_so_that_readers_never_wait(
    tmp_path: Path, history: History
) -> None:
    other = sqlite3.connect(tmp_path / "chats.db")
    assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert other.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    other.close()
    assert history.chats() == []


def test_a_tree_comes_back_with_all_its_branches(tmp_path: Path, history: History) -> None:
    chat = Chat(system="be kind")
    one = chat.add_user("one")
    first = answer(chat, "first", "yes", (-1, 0, 65_536, 2**31 - 1, -(2**31)))
    two = chat.add_user("two")
    second = answer(chat, "second", "no")
    edited = chat.edit(1, "three")
    third = answer(chat, "third", "maybe")
    save(history, chat, one, first, two, second, edited, third)

    other = History(tmp_path / "chats.db")
    stored = other.load_chat(chat.id)
    other.close()
    assert [stored.node(node.id) for node in (one, first, two, second, edited, third)] == [
        one,
        first,
        two,
        second,
        edited,
        third,
    ]
    assert len(stored) == 6
    assert stored.path() == [one, first, edited, third]
    assert (stored.id, stored.title, stored.system) == (chat.id, "one", "be kind")
    assert stored.messages() == chat.messages()


@pytest.mark.parametrize(
    "text",
    [
        "☺️ 👩‍👩‍👧‍👦 漢字 مرحبا gpt-5 \u200d",
        "\x1b]52;c;aGk=\x07 \x1b[2J \x9b2J \x7f \x00 end",
        "a\r\nb\n\n\tc",
        "'; DROP TABLE messages; --",
        "\ufffe\U0010ffff",
        "",
    ],
)
def test_text_comes_back_as_it_was(text: str, history: History) -> None:
    chat = Chat(system=text)
    question = chat.add_user(text)
    reply = answer(chat, "a", text)
    save(history, chat, question, reply)
    stored = history.load_chat(chat.id)
    assert [node.content for node in stored.path()] == [text, text]
    assert stored.system == text


def test_a_lone_surrogate_is_stored_as_the_mark_for_what_cannot_be_read(history: History) -> None:
    chat = Chat(system="\udcff")
    chat.title = "\ud800"
    node = Node(id="q", parent=None, role="user", content="a\ud800b", lead="\udfff")
    history.save_chat(chat)
    history.save_message(chat.id, node)
    history.set_setting("last_model", "/models/\udcff.gguf")
    stored = history.load_chat(chat.id)
    assert (stored.system, stored.title) == ("\ufffd", "\ufffd")
    assert (stored.node("q").content, stored.node("q").lead) == ("a\ufffdb", "\ufffd")
    assert history.setting("last_model") == "/models/\ufffd.gguf"


@given(st.lists(st.integers(-(2**31), 2**31 - 1)))
def test_packed_ids_come_back(ids: list[int]) -> None:
    data = pack_ids(ids)
    assert len(data) == 4 * len(ids)
    assert unpack_ids(data) == tuple(ids)


def test_ids_are_packed_little_endian() -> None:
    assert pack_ids([1, -2, 65_536]) == bytes([1, 0, 0, 0, 254, 255, 255, 255, 0, 0, 1, 0])


def test_records_come_back_in_order_with_the_tokens_of_their_prompts(history: History) -> None:
    chat = Chat()
    history.save_chat(chat)
    made = [some_record(1), some_record(2, fails=True), some_record(3)]
    for record in made:
        history.save_record(chat.id, record, range(record.turn))
    assert history.records(chat.id) == made
    assert history.prompt_ids("turn-3") == (0, 1, 2)
    assert made[1].timings.ttft_ms is None
    assert made[0].timings.token_ms == (500.0, 600.0)


def test_a_message_that_was_taken_back_is_gone(history: History) -> None:
    chat = Chat()
    question = chat.add_user("one")
    save(history, chat, question)
    chat.take_back(question.id)
    history.remove_message(question.id)
    history.save_chat(chat)
    stored = history.load_chat(chat.id)
    assert (len(stored), stored.leaf) == (0, None)


def test_a_newer_version_of_a_message_takes_the_place_of_the_older(history: History) -> None:
    chat = Chat()
    question = chat.add_user("one")
    partial = Node(id="a", parent=question.id, role="assistant", content="ye", state="partial")
    whole = Node(id="a", parent=question.id, role="assistant", content="yes", token_ids=(1,))
    save(history, chat, question, chat.put(partial))
    save(history, chat, chat.put(whole))
    assert history.load_chat(chat.id).path() == [question, whole]


def test_chats_are_listed_with_the_last_used_first(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(f"2026-01-01T00:00:0{second}.000+00:00" for second in range(9))
    monkeypatch.setattr("backend.history._now", lambda: next(times))
    chats = [Chat(name) for name in ("a", "b")]
    for chat in chats:
        save(history, chat, chat.add_user(f"in {chat.id}"))
        history.save_chat(chat)
    history.save_chat(chats[0])
    rows = history.chats()
    assert [(row.id, row.title, row.messages) for row in rows] == [
        ("a", "in a", 1),
        ("b", "in b", 1),
    ]


def test_settings_are_remembered(tmp_path: Path, history: History) -> None:
    assert history.setting("last_model") is None
    history.set_setting("last_model", "/a.gguf")
    history.set_setting("last_model", "/b.gguf")
    other = History(tmp_path / "chats.db")
    assert other.setting("last_model") == "/b.gguf"
    other.close()


def test_what_is_not_there_is_named(history: History) -> None:
    with pytest.raises(HistoryError, match="there is no chat nowhere"):
        history.load_chat("nowhere")
    with pytest.raises(HistoryError, match="there is no turn nowhere"):
        history.prompt_ids("nowhere")
    assert history.records("nowhere") == []


# ------------------------------------------------------------------------ several at once


def together(*works: Callable[[], None]) -> None:
    """Run all at the same moment; the first failure is raised here."""
    barrier = threading.Barrier(len(works))
    failures: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        barrier.wait(30)
        try:
            work()
        except BaseException as error:  # noqa: BLE001 (raised again below)
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if failures:
        raise failures[0]


def test_two_copies_of_the_program_make_the_store_at_once(tmp_path: Path) -> None:
    for attempt in range(20):
        path = tmp_path / f"{attempt}.db"

        def use(number: int, path: Path = path) -> None:
            store = History(path)
            store.set_setting(f"copy {number}", "here")
            store.close()

        together(*(lambda number=number: use(number) for number in range(3)))
        store = History(path)
        assert [store.setting(f"copy {number}") for number in range(3)] == ["here"] * 3
        store.close()


def test_two_copies_of_the_program_write_at_once(tmp_path: Path, history: History) -> None:
    def write(name: str) -> None:
        store = History(tmp_path / "chats.db")
        chat = Chat(name)
        for number in range(50):
            save(store, chat, chat.add_user(f"{name} {number}"))
        store.close()

    together(lambda: write("one"), lambda: write("two"))
    for name in ("one", "two"):
        path = history.load_chat(name).path()
        assert [node.content for node in path] == [f"{name} {number}" for number in range(50)]


def test_a_partial_answer_survives_the_end_of_the_process(tmp_path: Path, history: History) -> None:
    chat = Chat()
    question = chat.add_user("one")
    partial = Node(
        id="a",
        parent=question.id,
        role="assistant",
        content="so far",
        token_ids=(1, 2),
        state="partial",
    )
    save(history, chat, question, chat.put(partial))
    # The first store is not closed: its process "died".
    after = History(tmp_path / "chats.db")
    assert after.load_chat(chat.id).path() == [question, partial]
    after.save_message(chat.id, answer(chat, "b", "and on"))
    after.close()


def test_a_chat_whose_newest_message_was_not_stored_still_opens(history: History) -> None:
    chat = Chat()
    question = chat.add_user("one")
    reply = answer(chat, "a", "yes")
    save(history, chat, question, reply)
    chat.add_user("never stored")
    history.save_chat(chat)
    stored = history.load_chat(chat.id)
    assert stored.path() == [question, reply]


def test_a_chat_with_a_hole_still_opens(history: History) -> None:
    chat = Chat()
    chat.add_user("never stored")
    reply = answer(chat, "a", "yes")
    save(history, chat, reply)
    assert [node.content for node in history.load_chat(chat.id).path()] == ["yes"]


# -------------------------------------------------------------------------- unusable files


def test_a_store_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    newer = sqlite3.connect(path)
    newer.execute("CREATE TABLE chats (of TEXT, another TEXT, shape TEXT)")
    newer.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    newer.close()
    with pytest.raises(HistoryError, match=r"written by a newer phasescope; update this one"):
        History(path)
    again = sqlite3.connect(path)
    assert again.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION + 1,)
    assert again.execute("SELECT count(*) FROM sqlite_master").fetchone() == (1,)
    again.close()


@pytest.mark.parametrize(
    "content", [b"<html>not here</html>" * 200, b"SQLite format 3\0" + b"?" * 4096]
)
def test_a_file_that_is_no_database_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    path.write_bytes(content)
    with pytest.raises(HistoryError) as caught:
        History(path)
    assert str(path) in str(caught.value)
    assert str(caught.value).endswith("; move the file away to begin a new one")
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == content


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="nowhere"):
        History(tmp_path / "nowhere" / "chats.db")


def test_a_read_only_folder_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    if os.access(folder, os.W_OK):
        # An administrator may write anywhere, except where nothing can be written at all.
        folder = Path("/proc")
    with pytest.raises(HistoryError, match=str(folder)):
        History(folder / "chats.db")


def test_a_store_that_fails_later_says_so(history: History) -> None:
    chat = Chat()
    save(history, chat, chat.add_user("one"))
    history._db.execute("PRAGMA query_only = ON")
    with pytest.raises(HistoryError, match=r"chats\.db cannot be used"):
        history.save_chat(chat)
    with pytest.raises(HistoryError, match=r"chats\.db cannot be used"):
        history.save_record(chat.id, some_record(), ())
    assert len(history.load_chat(chat.id)) == 1


def test_a_closed_store_says_so(history: History) -> None:
    history.close()
    for use in (
        history.chats,
        lambda: history.load_chat("a"),
        lambda: history.records("a"),
        lambda: history.prompt_ids("a"),
        lambda: history.setting("a"),
        lambda: history.set_setting("a", "b"),
    ):
        with pytest.raises(HistoryError):
            use()


def test_a_damaged_record_is_named(tmp_path: Path, history: History) -> None:
    chat = Chat()
    history.save_chat(chat)
    history.save_record(chat.id, some_record(), ())
    other = sqlite3.connect(tmp_path / "chats.db")
    other.execute("UPDATE turns SET record = '{\"turn\": 1'")
    other.commit()
    other.close()
    with pytest.raises(HistoryError, match="record"):
        history.records(chat.id)
