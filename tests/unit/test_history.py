"""The store, on real SQLite files."""

import os
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.chat.tree import Chat, Node
from backend.history import SCHEMA_VERSION, History, HistoryError, pack_ids, unpack_ids
from backend.settings import SamplingChoice
from tests.unit.sessions import spoken
from tests.unit.stored import answer, save, some_record
from tests.unit.together import together


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
    edited = chat.edit(two.id, "three")
    third = msgspec.structs.replace(
        answer(chat, "third", "maybe"), turn_ids=("a", "b"), model="Another-2B", state="cut"
    )
    chat.put(third)
    chat.sampling = SamplingChoice(temp=0.5, seed=None, stop=("###",))
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
    assert stored.sampling == SamplingChoice(temp=0.5, seed=None, stop=("###",))
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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Each write happens a second after the one before; tells the time of the last one."""
    seconds = 0

    def tick() -> str:
        nonlocal seconds
        seconds += 1
        return told()

    def told() -> str:
        return f"2026-01-01T00:00:{seconds:02}.000+00:00"

    monkeypatch.setattr("backend.history.writing.now", tick)
    return told


def one_message_each(history: History, *names: str) -> list[Chat]:
    chats = [Chat(name) for name in names]
    for chat in chats:
        save(history, chat, chat.add_user(f"in {chat.id}"))
    return chats


def test_chats_are_listed_with_the_last_used_first(
    history: History, clock: Callable[[], str]
) -> None:
    first, second = one_message_each(history, "a", "b")
    reply = answer(first, "r", "yes", model="Tiny-2B")
    save(history, first, reply)
    rows = history.chats()
    assert [(row.id, row.title, row.messages, row.model) for row in rows] == [
        ("a", "in a", 2, "Tiny-2B"),
        ("b", "in b", 1, ""),
    ]
    assert rows[0].updated_at == clock()
    assert rows[0].created_at < rows[1].created_at
    assert history.chat_row("b") == rows[1]
    assert second.id == "b"


def test_a_chat_without_a_message_is_not_listed(history: History) -> None:
    chat = Chat("empty", system="be kind")
    history.save_chat(chat)
    assert history.chats() == []
    assert history.load_chat("empty").system == "be kind"


@pytest.mark.usefixtures("clock")
def test_what_changes_nothing_does_not_count_as_use(history: History) -> None:
    older, newer = one_message_each(history, "older", "newer")
    (question,) = older.path()
    other = answer(older, "r", "yes")
    save(history, older, other)
    save(history, newer, answer(newer, "s", "no"))
    before = history.chat_row("older").updated_at
    # Opened, looked at from another branch, and named.
    opened = history.load_chat("older")
    save(history, opened, question, other)
    opened.back_to_question()
    history.save_chat(opened)
    history.rename("older", "Its name")
    assert history.chat_row("older").updated_at == before
    assert history.load_chat("older").leaf == question.id
    assert [row.id for row in history.chats()] == ["newer", "older"]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("change", ["system", "sampling", "message"])
def test_what_changes_a_chat_counts_as_use(change: str, history: History) -> None:
    older, _ = one_message_each(history, "older", "newer")
    if change == "system":
        older.system = "be rude"
    elif change == "sampling":
        older.sampling = SamplingChoice(top_k=1)
    else:
        history.save_message("older", msgspec.structs.replace(older.path()[0], content="changed"))
    history.save_chat(older)
    assert [row.id for row in history.chats()] == ["older", "newer"]


def test_a_title_is_one_line_and_never_blank(history: History) -> None:
    one_message_each(history, "a")
    history.rename("a", "  two\n lines \n")
    assert history.chat_row("a").title == "two lines"
    history.rename("a", " \n")
    assert history.chat_row("a").title == "two lines"
    assert history.load_chat("a").title == "two lines"


# --------------------------------------------------------------------------------- deleted


@pytest.mark.usefixtures("clock")
def test_a_deleted_chat_can_be_restored_as_it_was(history: History) -> None:
    one_message_each(history, "a", "b", "c")
    before = history.chats()
    history.delete("a")
    history.delete("c")
    history.delete("a")
    assert [row.id for row in history.chats()] == ["b"]
    assert [row.id for row in history.chats(deleted=True)] == ["c", "a"]
    history.restore("a")
    history.restore("c")
    assert history.chats() == before
    assert history.chats(deleted=True) == []


def test_a_message_to_a_chat_that_another_window_deleted_brings_it_back(history: History) -> None:
    chat = Chat("a")
    user = chat.add_user("hello")
    save(history, chat, user)
    history.delete("a")
    save(history, chat, user, answer(chat, "late", "an answer that was under way"))
    assert [row.id for row in history.chats(deleted=True)] == ["a"]
    save(history, chat, chat.add_user("and now?"))
    assert [row.id for row in history.chats()] == ["a"]


def test_what_was_deleted_long_ago_is_forgotten_with_all_it_had(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_message_each(history, "old", "fresh", "kept", "used")
    history.save_record("old", some_record(), (1, 2))
    for name in ("old", "kept"):
        history.save_draft(name, "unsent")
    today = datetime.now(UTC)
    long_ago = (today - timedelta(days=31)).isoformat(timespec="milliseconds")
    history._db.execute("UPDATE chats SET updated_at = ?", (long_ago,))
    history.delete("fresh")
    monkeypatch.setattr("backend.history.writing.now", lambda: long_ago)
    history.delete("old")
    history.delete("used")
    history._db.execute("UPDATE chats SET updated_at = ? WHERE id = 'used'", (today.isoformat(),))

    assert history.purge(timedelta(days=30)) == 1
    assert history.purge(timedelta(days=30)) == 0
    assert [row.id for row in history.chats()] == ["kept"]
    assert {row.id for row in history.chats(deleted=True)} == {"fresh", "used"}
    for table in ("messages", "turns", "drafts"):
        (left,) = history._db.execute(
            f"SELECT count(*) FROM {table} WHERE chat_id = 'old'"
        ).fetchone()
        assert left == 0
    assert history.draft("kept") == "unsent"


def test_what_is_forgotten_is_in_no_file_any_more(tmp_path: Path, history: History) -> None:
    chat = Chat("a")
    save(history, chat, chat.add_user("the-secret-of-the-windmill " * 1_000))
    history.delete("a")
    assert history.purge(timedelta(0)) == 1
    left = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"secret-of-the-windmill" not in left


# ------------------------------------------------------------------------------ which chat


def test_a_chat_is_found_by_its_id_a_beginning_of_it_or_as_the_last_one(
    history: History,
) -> None:
    one_message_each(history, "abcd1", "abcd2", "ef01", "last1")
    assert history.find_chat("abcd1") == "abcd1"
    assert history.find_chat(" ABCD2 ") == "abcd2"
    assert history.find_chat("ef01") == "ef01"
    assert history.find_chat("last") == history.chats()[0].id
    history.delete("ef01")
    assert history.find_chat("last", deleted=True) == "ef01"


@pytest.mark.parametrize(
    ("text", "deleted", "message"),
    [
        ("abcd", False, "2 chats have an id that begins with abcd: give more of it"),
        ("abc", False, "'abc' is too short: give 4 or more characters of a chat's id, or last"),
        ("", False, "'' is too short: give 4 or more characters of a chat's id, or last"),
        ("ab%_", False, "there is no chat whose id begins with ab%_"),
        ("9999", True, "there is no deleted chat whose id begins with 9999"),
        ("ef01", False, "the chat ef01 was deleted; restore it first"),
        ("abcd1", True, "the chat abcd1 was not deleted"),
    ],
)
def test_a_chat_that_is_not_found_is_named(
    text: str, deleted: bool, message: str, history: History
) -> None:
    one_message_each(history, "abcd1", "abcd2", "ef01")
    history.delete("ef01")
    with pytest.raises(HistoryError) as caught:
        history.find_chat(text, deleted=deleted)
    assert str(caught.value) == message


def test_there_is_no_last_chat_in_a_new_store(history: History) -> None:
    with pytest.raises(HistoryError, match="there is no chat yet"):
        history.find_chat("last")
    with pytest.raises(HistoryError, match="no chat was deleted"):
        history.find_chat("last", deleted=True)


# ------------------------------------------------------------------------- drafts and such


def test_a_draft_is_kept_until_it_is_empty(tmp_path: Path, history: History) -> None:
    assert history.draft("a") is None
    history.save_draft("a", "so f")
    history.save_draft("a", "so far\n")
    other = History(tmp_path / "chats.db")
    assert other.draft("a") == "so far\n"
    other.close()
    history.save_draft("a", "")
    assert history.draft("a") is None


@pytest.mark.usefixtures("clock")
def test_the_newest_draft_of_a_chat_that_was_never_stored_is_offered(history: History) -> None:
    assert history.orphan_draft() is None
    history.save_draft("older", "one")
    history.save_draft("newer", "two")
    one_message_each(history, "stored")
    history.save_draft("stored", "three")
    history.save_chat(Chat("newer"))
    draft = history.orphan_draft()
    assert draft is not None
    assert (draft.chat_id, draft.text) == ("newer", "two")
    history.save_draft("older", "one more")
    newest = history.orphan_draft()
    assert newest is not None
    assert newest.chat_id == "older"


def test_what_was_written_last_comes_once_and_oldest_first(history: History) -> None:
    first, second = Chat("a"), Chat("b")
    save(history, first, first.add_user("one"), answer(first, "x", "an answer"))
    save(history, second, second.add_user("two"))
    save(history, first, first.add_user("three"))
    save(history, second, second.add_user("one"))
    gone = Chat("c")
    save(history, gone, gone.add_user("gone"))
    history.delete("c")
    assert history.recent_messages(10) == ["two", "three", "one"]
    assert history.recent_messages(2) == ["three", "one"]
    assert history.recent_messages(0) == []


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
        lambda: history.find_chat("last"),
        lambda: list(history.search("a")),
        lambda: history.recent_messages(1),
        history.orphan_draft,
        lambda: history.draft("a"),
        lambda: history.save_draft("a", "b"),
        lambda: history.save_message("a", Node(id="q", parent=None, role="user", content="")),
        lambda: history.delete("a"),
        history.purge,
        lambda: history.records("a"),
        lambda: history.prompt_ids("a"),
        lambda: history.setting("a"),
        lambda: history.set_setting("a", "b"),
    ):
        with pytest.raises(HistoryError):
            use()


def test_a_damaged_record_is_left_out_and_named_once(history: History) -> None:
    chat = Chat()
    history.save_chat(chat)
    kept = some_record(2)
    for record in (some_record(1), kept):
        history.save_record(chat.id, record, ())
    history._db.execute("UPDATE turns SET record = '{\"turn\": 1' WHERE turn = 1")
    assert history.records(chat.id) == [kept]
    assert history.records_by_id(chat.id) == {"turn-2": kept}
    (problem,) = history.problems
    assert "damaged" in problem
    assert "\n" not in problem


def test_damaged_sampling_settings_do_not_keep_a_chat_from_opening(history: History) -> None:
    (chat,) = one_message_each(history, "a")
    history._db.execute('UPDATE chats SET sampling = \'{"temp": "hot"}\'')
    stored = history.load_chat("a")
    assert spoken(stored) == spoken(chat)
    assert stored.sampling == SamplingChoice()
    assert len(history.problems) == 1


def test_messages_that_follow_each_other_in_a_circle_do_not_keep_a_chat_from_opening(
    history: History,
) -> None:
    chat = Chat()
    nodes = [chat.add_user("one"), answer(chat, "a", "yes"), chat.add_user("two")]
    save(history, chat, *nodes)
    history._db.execute("UPDATE messages SET parent = ? WHERE id = ?", (nodes[2].id, nodes[0].id))
    stored = history.load_chat(chat.id)
    assert [node.content for node in stored.path()] == ["one", "yes", "two"]


def test_messages_stored_in_another_order_still_make_the_chat(history: History) -> None:
    chat = Chat()
    nodes = [chat.add_user("one"), answer(chat, "a", "yes"), chat.add_user("two")]
    save(history, chat, *reversed(nodes))
    assert history.load_chat(chat.id).path() == nodes


def test_of_many_chats_only_so_many_are_read(history: History) -> None:
    for name in ("first", "second", "third"):
        chat = Chat(name)
        save(history, chat, chat.add_user(name))
    assert [row.id for row in history.chats(limit=2)] == [row.id for row in history.chats()][:2]


def test_a_message_with_a_large_file_is_not_called_back_elsewhere(history: History) -> None:
    chat = Chat()
    for text in ("first", "x" * 100_000, "y" * 100_001, "last"):
        save(history, chat, chat.add_user(text))
    assert history.recent_messages(10) == ["first", "x" * 100_000, "last"]
