"""Many chats: renamed, deleted and restored, open or not; a store that cannot be used."""

from pathlib import Path

import pytest

from backend.chat.chatml import CHATML
from backend.chat.tree import Chat
from backend.history import History
from backend.protocol import ChatOpened, LoadFailed
from backend.recording import Recorder
from backend.session import ModelChoice, Session, SessionError, link
from tests.fake_engine import load_failed
from tests.unit.sessions import (
    CHOICE,
    Engines,
    ask,
    begun,
    in_turn,
    loaded,
    settle,
    silent,
    spoken,
    until,
)


def titles(history: History, *, deleted: bool = False) -> list[str]:
    """The list of chats."""
    return [row.title for row in history.chats(deleted=deleted)]


def two_chats(history: History, engines: Engines | None = None) -> tuple[Session, str]:
    """A session with a stored chat, whose id this is, and another one open."""
    session = begun(engines or Engines(), history)
    ask(session, "first")
    first = session.chat.id
    session.new_chat()
    ask(session, "second")
    return session, first


# ------------------------------------------------------------------------------- renaming


def test_any_chat_gets_another_title(history: History) -> None:
    session, first = two_chats(history)
    session.rename_chat(first, "  a  good\nname \ud800")
    session.rename_chat(session.chat.id, "the other")
    assert session.chat.title == "the other"
    settle(session)
    assert set(titles(history)) == {"a good name \ufffd", "the other"}
    ask(session, "more")
    assert "the other" in titles(history)
    for blank in ("", " \n\t"):
        with pytest.raises(SessionError, match="needs a word"):
            session.rename_chat(first, blank)


def test_a_chat_can_be_renamed_while_its_answer_comes(history: History) -> None:
    engines = Engines(in_turn(silent))
    session = begun(engines, history)
    session.send("hello")
    session.rename_chat(session.chat.id, "a name")
    settle(session)
    assert titles(history) == ["a name"]
    session.close()
    again = History(history.path)
    assert titles(again) == ["a name"]
    again.close()


def test_where_nothing_is_stored_no_chat_is_renamed_or_deleted() -> None:
    session = begun(Engines())
    ask(session, "one")
    with pytest.raises(SessionError, match="no chats are stored"):
        session.rename_chat(session.chat.id, "other")
    with pytest.raises(SessionError, match="no chats are stored"):
        session.delete_chat(session.chat.id)
    assert session.chat.title == "one"
    assert len(session.chat) == 2


# ------------------------------------------------------------------- deleting and restoring


def test_a_chat_that_is_not_open_is_deleted_and_restored(history: History) -> None:
    session, first = two_chats(history)
    session.delete_chat(first)
    settle(session)
    assert titles(history) == ["second"]
    assert titles(history, deleted=True) == ["first"]
    assert session.chat.title == "second"
    assert session.stored is not None
    session.stored.restore(first)
    settle(session)
    assert set(titles(history)) == {"first", "second"}
    assert spoken(history.load_chat(first)) == [("user", "first"), ("assistant", "well then")]


def test_after_the_open_chat_is_deleted_a_new_one_is_open(history: History) -> None:
    session, _ = two_chats(history)
    second = session.chat.id
    session.delete_chat(second)
    updates = settle(session)
    (opened,) = (update.event for update in updates if isinstance(update.event, ChatOpened))
    assert opened.chat_id == session.chat.id != second
    assert len(session.chat) == 0
    assert titles(history) == ["first"]
    ask(session, "third")
    assert set(titles(history)) == {"first", "third"}
    # It comes back as it was, and the chat that was begun since stays.
    assert session.stored is not None
    session.stored.restore(second)
    session.open_chat(history.load_chat(second))
    settle(session)
    assert set(titles(history)) == {"first", "second", "third"}
    assert spoken(session.chat)[0] == ("user", "second")


def test_the_open_chat_is_not_deleted_under_an_answer(history: History) -> None:
    engines = Engines(in_turn(silent))
    session = begun(engines, history)
    session.send("hello")
    with pytest.raises(SessionError, match="still coming"):
        session.delete_chat(session.chat.id)
    settle(session)
    assert titles(history) == ["hello"]


def test_the_last_chat_is_the_one_used_last_besides_the_open_one(history: History) -> None:
    session, first = two_chats(history)
    assert session.stored is not None
    row = session.stored.last(besides=session.chat.id)
    assert row is not None
    assert row.id == first
    session.delete_chat(first)
    settle(session)
    assert session.stored.last(besides=session.chat.id) is None


def test_something_is_said_once_in_all_runs(history: History) -> None:
    session = begun(Engines(), history)
    assert session.stored is not None
    assert session.stored.first_time("advice")
    settle(session)
    assert not session.stored.first_time("advice")
    again = begun(Engines(), History(history.path))
    assert again.stored is not None
    assert not again.stored.first_time("advice")
    assert again.stored.first_time("other advice")
    again.close()


# ------------------------------------------------------------- a store that cannot be used


def test_without_a_store_that_should_be_there_the_session_says_so_and_works() -> None:
    session = Session(Engines(), CHOICE, history_problem="chats.db cannot be used: no database")
    session.start()
    settle(session)
    assert session.storage_problem == "chats.db cannot be used: no database"
    assert ask(session, "one").text == "well then"
    assert session.stored is None
    assert session.reading_problems == []
    assert not session.storing
    session.close()


def test_what_is_damaged_in_a_stored_chat_is_named_and_the_rest_is_there(
    history: History,
) -> None:
    session = begun(Engines(), history)
    ask(session, "one")
    ask(session, "two")
    chat_id = session.chat.id
    session.new_chat()
    history._db.execute("UPDATE turns SET record = '{' WHERE rowid = 1")
    history._db.execute("UPDATE chats SET sampling = '[' WHERE id = ?", (chat_id,))
    assert session.reading_problems == []
    session.open_chat(history.load_chat(chat_id))
    assert [message for _, message in spoken(session.chat)] == [
        "one",
        "well then",
        "two",
        "well then",
    ]
    assert [len(said.records) for said in session.conversation()] == [0, 0, 0, 1]
    sampling, record = session.reading_problems
    assert "sampling settings of 'one' are damaged" in sampling
    assert "a turn's figures in" in record


def test_a_model_is_loaded_also_where_the_store_cannot_be_read(history: History) -> None:
    engines = Engines()
    history._db.execute("ALTER TABLE settings RENAME TO elsewhere")
    session = begun(engines, history)
    assert session.live.ready is not None
    assert engines.last.loads[0].chat_template is None
    until(lambda: session.storage_problem is not None)
    assert ask(session, "one").text == "well then"
    history._db.execute("ALTER TABLE elsewhere RENAME TO settings")
    session.close()


def test_a_session_can_be_closed_twice(history: History, tmp_path: Path) -> None:
    session = begun(Engines(), history, recorder=Recorder(tmp_path / "session.jsonl"))
    ask(session, "one")
    session.close()
    session.close()
    assert not session.recording


# ------------------------------------------------------------------- models and templates


def test_a_template_that_was_chosen_for_a_model_is_remembered_for_it(history: History) -> None:
    session = begun(
        Engines(on_load=in_turn(lambda _: [load_failed()], loaded, loaded, loaded)), history
    )
    session.use_template("chatml")
    settle(session)
    session.load(CHOICE._replace(path="/models/other.gguf"))
    session.load(CHOICE)
    settle(session)
    session.close()
    engines = Engines()
    again = begun(engines, History(history.path))
    again.load(CHOICE._replace(chat_template="its own"))
    again.load(CHOICE._replace(path="/models/other.gguf"))
    settle(again)
    # This run's choice comes before what is remembered.
    assert [load.chat_template for load in engines.last.loads] == [CHATML, "its own", None]
    again.close()


def test_a_remembered_template_that_there_is_no_more_is_none(history: History) -> None:
    history.set_setting(f"template of {CHOICE.path}", "from a later version")
    engines = Engines()
    begun(engines, history)
    assert engines.last.loads[0].chat_template is None


def test_without_a_model_the_session_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link, "starter_path", lambda: None)
    engines = Engines()
    session = Session(engines, ModelChoice(None))
    session.start()
    (failure,) = (
        update.event for update in settle(session) if isinstance(update.event, LoadFailed)
    )
    assert "there is no model yet" in failure.message
    assert "/model PATH" in failure.message
    assert "\n" not in failure.message
    session.send("hello")
    (record,) = (update.record for update in settle(session) if update.record is not None)
    assert (record.stop.reason, record.stop.detail) == ("error", failure.message)
    assert spoken(session.chat) == []
    assert not session.busy
    # It was installed meanwhile.
    monkeypatch.setattr(link, "starter_path", lambda: Path("/models/starter.gguf"))
    session.send("hello")
    settle(session)
    assert [load.model_path for load in engines.last.loads] == ["/models/starter.gguf"]
    assert spoken(session.chat)[-1] == ("assistant", "well then")
    session.close()


def test_a_new_chat_begins_with_the_system_prompt_of_all() -> None:
    session = begun(Engines(), system="be kind")
    session.set_system(None)
    assert session.chat.system is None
    session.open_chat(Chat())
    session.new_chat()
    assert session.chat.system == "be kind"
