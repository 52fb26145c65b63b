"""What is written beside the client: in order, newest first of what waits, until it succeeds."""

import sqlite3
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from backend.chat.tree import Chat, Node
from backend.history import ChatHead, History, database
from backend.settings import SamplingChoice
from backend.store import StoreWriter
from tests.unit.sessions import PATIENCE_S, until


@pytest.fixture
def writer(history: History) -> Iterator[StoreWriter]:
    """What writes to the store."""
    made = StoreWriter(history.path)
    yield made
    made.close(0)


@pytest.fixture
def lock(history: History) -> Iterator[sqlite3.Connection]:
    """Another program that writes to the store until its end is told."""
    other = sqlite3.connect(history.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield other
    other.close()


def partial(content: str, parent: str | None = None) -> Node:
    return Node(id="a", parent=parent, role="assistant", content=content, state="partial")


def whole(content: str) -> Node:
    return Node(id="a", parent=None, role="assistant", content=content)


def test_a_chat_is_stored_as_it_was_when_it_was_handed_over(
    history: History, writer: StoreWriter, lock: sqlite3.Connection
) -> None:
    chat = Chat(system="be kind")
    chat.sampling = SamplingChoice(temp=0.1)
    question = chat.add_user("one")
    writer.save_chat(ChatHead.of(chat))
    writer.save_message(chat.id, question)
    chat.system = "be rude"
    chat.sampling = SamplingChoice(temp=0.9)
    chat.take_back(question.id)
    lock.execute("COMMIT")
    until(lambda: not writer.busy)
    stored = history.load_chat(chat.id)
    assert (stored.title, stored.system, stored.leaf) == ("one", "be kind", question.id)
    assert stored.sampling == SamplingChoice(temp=0.1)


def test_of_what_waits_only_the_newest_version_is_written(
    history: History, writer: StoreWriter, lock: sqlite3.Connection
) -> None:
    lock.execute("CREATE TABLE written (content TEXT)")
    for event in ("INSERT", "UPDATE"):
        lock.execute(
            f"CREATE TRIGGER see_{event} AFTER {event} ON messages "
            "BEGIN INSERT INTO written VALUES (NEW.content); END"
        )
    writer.set_setting("name", "first in the queue")
    writer.save_chat(ChatHead.of(Chat("chat")))
    for node in (partial("y"), partial("ye"), whole("yes")):
        writer.save_message("chat", node)
    lock.execute("COMMIT")
    until(lambda: not writer.busy)
    assert lock.execute("SELECT content FROM written").fetchall() == [("yes",)]
    assert history.load_chat("chat").node("a") == whole("yes")


def test_a_version_that_comes_while_an_older_one_is_written_follows_it(
    history: History, writer: StoreWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    save = History.save_message

    def slow(self: History, chat_id: str, node: Node) -> None:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        save(self, chat_id, node)

    monkeypatch.setattr(History, "save_message", slow)
    writer.save_chat(ChatHead.of(Chat("chat")))
    writer.save_message("chat", partial("ye"))
    assert begun.wait(PATIENCE_S)
    writer.save_message("chat", whole("yes"))
    go_on.set()
    until(lambda: not writer.busy)
    assert history.load_chat("chat").node("a") == whole("yes")


def test_a_message_that_was_taken_back_before_it_was_written_is_not_there(
    history: History, writer: StoreWriter, lock: sqlite3.Connection
) -> None:
    writer.save_chat(ChatHead.of(Chat("chat")))
    writer.save_message("chat", whole("no"))
    writer.remove_message("a")
    lock.execute("COMMIT")
    until(lambda: not writer.busy)
    assert len(history.load_chat("chat")) == 0


def test_a_problem_is_named_with_a_remedy_and_clears_itself(
    writer: StoreWriter, lock: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_MS", 1)
    writer.set_setting("name", "value")
    until(lambda: writer.problem is not None)
    assert writer.problem is not None
    assert writer.problem.endswith(
        "cannot be used: database is locked; another program is writing to it: close that one"
    )
    lock.execute("COMMIT")
    until(lambda: not writer.busy)
    assert writer.problem is None


def test_a_store_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    writer = StoreWriter(folder / "chats.db")
    writer.set_setting("name", "value")
    until(lambda: writer.problem is not None)
    folder.mkdir()
    until(lambda: not writer.busy)
    writer.close(PATIENCE_S)
    store = History(folder / "chats.db")
    assert store.setting("name") == "value"
    store.close()


def test_closing_writes_what_waits(history: History, writer: StoreWriter) -> None:
    for number in range(200):
        writer.set_setting(str(number), "here")
    writer.close(PATIENCE_S)
    assert [history.setting(str(number)) for number in range(200)] == ["here"] * 200


# ------------------------------------------------------------------------- chats as a whole


def one_chat(writer: StoreWriter) -> Chat:
    chat = Chat("chat")
    question = chat.add_user("one")
    writer.save_chat(ChatHead.of(chat))
    writer.save_message(chat.id, question)
    return chat


def released(writer: StoreWriter, lock: sqlite3.Connection) -> None:
    """Let the store be written to, and wait until it is."""
    lock.execute("COMMIT")
    until(lambda: not writer.busy)


@pytest.mark.parametrize(
    ("steps", "is_there"),
    [
        (("delete",), False),
        (("delete", "restore"), True),
        (("delete", "restore", "delete"), False),
        (("restore", "delete"), False),
        (("delete", "save"), False),
        (("delete", "save", "restore"), True),
    ],
    ids=str,
)
def test_of_deleting_and_restoring_the_last_one_counts(
    steps: tuple[str, ...],
    is_there: bool,
    history: History,
    writer: StoreWriter,
    lock: sqlite3.Connection,
) -> None:
    chat = one_chat(writer)
    for step in steps:
        if step == "save":
            writer.save_chat(ChatHead.of(chat))
        else:
            {"delete": writer.delete, "restore": writer.restore}[step](chat.id)
    released(writer, lock)
    assert [row.id for row in history.chats()] == (["chat"] if is_there else [])
    assert [row.id for row in history.chats(deleted=True)] == ([] if is_there else ["chat"])


def test_of_several_titles_the_last_one_counts(
    history: History, writer: StoreWriter, lock: sqlite3.Connection
) -> None:
    chat = one_chat(writer)
    writer.rename(chat.id, "first")
    chat.title = "second"
    writer.save_chat(ChatHead.of(chat))
    writer.rename(chat.id, "third")
    released(writer, lock)
    assert history.chat_row(chat.id).title == "third"


def test_a_title_that_was_given_outlasts_the_one_that_a_chat_brings(
    history: History, writer: StoreWriter, lock: sqlite3.Connection
) -> None:
    chat = one_chat(writer)
    writer.rename(chat.id, "given")
    chat.title = "brought by another window"
    writer.save_chat(ChatHead.of(chat))
    released(writer, lock)
    assert history.chat_row(chat.id).title == "given"


def test_a_draft_is_forgotten_only_after_the_message_that_it_became_is_stored(
    history: History, writer: StoreWriter, lock: sqlite3.Connection
) -> None:
    lock.execute("CREATE TABLE seen (messages INTEGER)")
    lock.execute(
        "CREATE TRIGGER see AFTER DELETE ON drafts "
        "BEGIN INSERT INTO seen SELECT count(*) FROM messages; END"
    )
    lock.execute("INSERT INTO drafts VALUES ('chat', 'on', '')")
    writer.save_draft("chat", "one")
    one_chat(writer)
    writer.save_draft("chat", "")
    released(writer, lock)
    assert history.draft("chat") is None
    assert lock.execute("SELECT messages FROM seen").fetchall() == [(1,)]


def test_what_happens_to_a_chat_that_is_not_stored_holds_nothing_up(
    history: History, writer: StoreWriter
) -> None:
    writer.rename("nowhere", "title")
    writer.delete("nowhere")
    writer.restore("nowhere")
    writer.save_draft("nowhere", "text")
    writer.purge()
    writer.set_setting("name", "value")
    until(lambda: not writer.busy)
    assert writer.problem is None
    assert history.setting("name") == "value"
    assert history.draft("nowhere") == "text"


def test_what_was_deleted_is_forgotten_for_good(history: History, writer: StoreWriter) -> None:
    chat = one_chat(writer)
    writer.delete(chat.id)
    writer.purge()
    until(lambda: not writer.busy)
    assert len(history.chats(deleted=True)) == 1
    writer.purge(timedelta(0))
    until(lambda: not writer.busy)
    assert history.chats(deleted=True) == []


def test_what_can_never_be_stored_holds_nothing_else_up(
    history: History, writer: StoreWriter
) -> None:
    chat = Chat()
    question = chat.add_user("one")
    writer.save_chat(ChatHead.of(chat)._replace(sampling=SamplingChoice(stop=("\ud800",))))
    until(lambda: not writer.busy)
    writer.save_chat(ChatHead.of(chat))
    writer.save_message(chat.id, question)
    until(lambda: not writer.busy)
    assert [row.title for row in history.chats()] == ["one"]
    assert (writer.problem or "").startswith("a part of the chat cannot be stored")
