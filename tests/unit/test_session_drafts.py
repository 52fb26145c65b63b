"""What is being written: kept for each chat across a crash, and counted before it is sent."""

import sqlite3

import pytest

from backend.history import History
from backend.protocol import CountRequest, TurnEnded
from backend.session import Session
from backend.session.stored import StoredChats
from tests.fake_engine import ready
from tests.unit.sessions import Engines, answered, ask, begun, in_turn, settle, silent, until


def stored(session: Session) -> StoredChats:
    """The chats of a session that stores them."""
    assert session.stored is not None
    return session.stored


def counts(engines: Engines) -> list[CountRequest]:
    """What was asked to be counted."""
    return [request for request in engines.last.requests if isinstance(request, CountRequest)]


# ------------------------------------------------------------------------------- keeping


def test_each_chat_has_a_draft_of_its_own(history: History) -> None:
    session = begun(Engines(), history)
    ask(session, "one")
    first = session.chat.id
    stored(session).save_draft(first, "for the first")
    session.new_chat()
    ask(session, "two")
    second = session.chat.id
    stored(session).save_draft(second, "for the second")
    settle(session)
    assert [history.draft(first), history.draft(second)] == ["for the first", "for the second"]
    again = begun(Engines(), History(history.path), chat=history.load_chat(first))
    assert stored(again).draft(first, new=False) == "for the first"
    again.close()


def test_an_emptied_draft_is_forgotten(history: History) -> None:
    session = begun(Engines(), history)
    ask(session, "one")
    stored(session).save_draft(session.chat.id, "more")
    settle(session)
    stored(session).save_draft(session.chat.id, "")
    assert stored(session).draft(session.chat.id, new=False) is None
    settle(session)
    assert history.draft(session.chat.id) is None


def test_a_draft_survives_a_kill(history: History) -> None:
    killed = begun(Engines(), history)
    stored(killed).save_draft(killed.chat.id, "not sent \ud800yet")
    # As soon as it is written; nothing is closed.
    settle(killed)
    again = begun(Engines(), History(history.path))
    assert stored(again).draft(again.chat.id, new=True) == "not sent \ufffdyet"
    settle(again)
    # It has moved: the next new chat does not find it again.
    assert history.draft(killed.chat.id) is None
    assert history.draft(again.chat.id) == "not sent \ufffdyet"
    again.close()


def test_only_a_new_chat_takes_over_what_never_was_sent(history: History) -> None:
    session = begun(Engines(), history)
    ask(session, "one")
    stored(session).save_draft("never sent", "orphan")
    settle(session)
    assert stored(session).draft(session.chat.id, new=False) is None
    assert stored(session).draft("fresh", new=True) == "orphan"


def test_the_draft_of_a_chat_with_messages_is_never_taken_over(history: History) -> None:
    session = begun(Engines(), history)
    ask(session, "one")
    stored(session).save_draft(session.chat.id, "mine")
    settle(session)
    assert stored(session).draft("fresh", new=True) is None


def test_a_draft_is_there_before_it_is_written(history: History) -> None:
    session = begun(Engines(), history)
    ask(session, "one")
    first = session.chat.id
    stored(session).save_draft(first, "old")
    settle(session)
    other = sqlite3.connect(history.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    stored(session).save_draft(first, "new")
    stored(session).save_draft("never sent", "orphan")
    assert stored(session).draft(first, new=False) == "new"
    stored(session).save_draft(first, "")
    assert stored(session).draft(first, new=False) is None
    other.execute("COMMIT")
    other.close()
    settle(session)
    assert history.draft(first) is None
    session.close()


def test_of_two_windows_none_loses_what_is_written(history: History) -> None:
    one = begun(Engines(), history)
    two = begun(Engines(), History(history.path))
    stored(one).save_draft(one.chat.id, "half a sent")
    settle(one)
    # The other window cannot know that the first one still runs.
    assert stored(two).draft(two.chat.id, new=True) == "half a sent"
    settle(two)
    stored(one).save_draft(one.chat.id, "half a sentence")
    settle(one)
    assert history.draft(one.chat.id) == "half a sentence"
    assert history.draft(two.chat.id) == "half a sent"
    for session in (one, two):
        session.close()


def test_a_message_and_the_end_of_its_draft_are_stored_in_this_order(history: History) -> None:
    session = begun(Engines(), history)
    stored(session).save_draft(session.chat.id, "one")
    settle(session)
    history._db.execute(
        "CREATE TRIGGER full BEFORE INSERT ON messages BEGIN SELECT RAISE(FAIL, 'full'); END"
    )
    session.send("one")
    stored(session).save_draft(session.chat.id, "")
    settle(session)
    assert history.draft(session.chat.id) == "one"
    history._db.execute("DROP TRIGGER full")
    until(lambda: not session.storing)
    assert history.draft(session.chat.id) is None
    assert history.load_chat(session.chat.id).path()[0].content == "one"
    session.close()


# ------------------------------------------------------------------------------ counting


def test_a_draft_is_counted_behind_the_open_branch() -> None:
    engines = Engines()
    session = begun(engines, system="be kind")
    assert session.count("héllo") == 1
    ask(session, "one")
    assert session.count("\ud800!") == 2
    settle(session)
    first, second = counts(engines)
    assert [(m.role, m.content) for m in first.messages] == [
        ("system", "be kind"),
        ("user", "héllo"),
    ]
    assert [m.content for m in second.messages] == ["be kind", "one", "well then", "\ufffd!"]
    assert second.messages[2].token_ids == (1000, 1001)
    assert (first.chat_id, first.continues) == (session.chat.id, False)
    assert second.continues
    draft = session.snapshot().draft
    assert draft is not None
    # The script counts a token a character.
    assert (draft.number, draft.message_tokens, draft.prompt_tokens) == (2, 2, 7 + 3 + 9 + 2)


@pytest.mark.parametrize("system", [None, "be kind"])
def test_an_edit_is_counted_in_the_place_of_its_message(system: str | None) -> None:
    engines = Engines()
    session = begun(engines, system=system) if system else begun(engines)
    ask(session, "one")
    ask(session, "two")
    users = [node.id for node in session.chat.path() if node.role == "user"]
    session.count("first", users[0])
    session.count("second", users[1])
    head = [] if system is None else [system]
    assert [[m.content for m in request.messages] for request in counts(engines)] == [
        [*head, "first"],
        [*head, "one", "well then", "second"],
    ]


def test_an_edit_of_another_branch_is_counted_there() -> None:
    engines = Engines()
    session = begun(engines)
    ask(session, "one")
    old = session.chat.path()
    ask(session, "two")
    two = session.chat.path()[2].id
    session.edit(old[0].id, "other")
    settle(session)
    session.count("three", two)
    assert [m.content for m in counts(engines)[-1].messages] == ["one", "well then", "three"]


def test_a_draft_that_would_replace_a_message_that_is_no_more_is_not_counted() -> None:
    engines = Engines()
    session = begun(engines)
    ask(session, "one")
    assert session.count("two", "nobody") is None
    assert counts(engines) == []


def test_nothing_is_counted_while_something_is_under_way() -> None:
    engines = Engines(answers=in_turn(silent, answered), on_load=silent)
    session = begun(engines)
    assert session.count("while it loads") is None
    engines.last.push(ready())
    settle(session)
    assert session.count("now") == 1
    session.send("one")
    assert session.count("while it answers") is None
    engines.last.push(*answered(engines.last.turns[-1]))
    updates = settle(session)
    assert isinstance(updates[-1].event, TurnEnded)
    assert session.count("again") == 2
    session.load(session.chosen_model._replace(path="/models/other.gguf"))
    assert session.count("while another loads") is None
    assert [request.number for request in counts(engines)] == [1, 2]


def test_a_turn_ends_what_a_count_said() -> None:
    session = begun(Engines())
    session.count("draft")
    settle(session)
    assert session.snapshot().draft is not None
    session.send("draft")
    assert session.snapshot().draft is None
    settle(session)


def test_counting_with_an_engine_that_just_died_is_no_fault() -> None:
    engines = Engines()
    session = begun(engines)
    engines.last.die()
    assert session.count("draft") is not None
    settle(session)
    assert session.count("draft") is None


def test_a_chat_with_a_draft_only_is_in_no_list(history: History) -> None:
    session = begun(Engines(), history)
    stored(session).save_draft(session.chat.id, "draft")
    settle(session)
    assert history.chats() == []
    assert history.orphan_draft() is not None
