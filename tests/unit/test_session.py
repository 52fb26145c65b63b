"""A session on a scripted engine: what is sent, what is kept, and what happens when things fail."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from backend.chat.chatml import CHATML
from backend.chat.tree import Chat, Node
from backend.engine import Engine, EngineError, RequestError
from backend.history import History
from backend.protocol import (
    CancelRequest,
    ChatOpened,
    DropCacheRequest,
    EngineExited,
    ErrorKind,
    LoadRequest,
    LogLines,
    Request,
    TurnAccepted,
    TurnEnded,
    TurnRequest,
    TurnRequested,
    WindowSample,
)
from backend.recording import Recorder
from backend.session import ModelChoice, Script, Session, SessionError, keeper
from backend.session import session as session_module
from backend.settings import EngineSettings, SamplingChoice
from tests.fake_engine import (
    CONTEXT,
    MODEL,
    ScriptedEngine,
    failed,
    load_failed,
    ready,
    turn_events,
)
from tests.unit.sessions import (
    CHOICE,
    Engines,
    answered,
    ask,
    begun,
    died_after,
    in_turn,
    loaded,
    records,
    settle,
    silent,
    spoken,
    until,
)


def refusals(*calls: Callable[[], None]) -> tuple[Callable[[], None], ...]:
    """Calls that are to be refused."""
    return calls


# ----------------------------------------------------------------------------- loading


def test_the_first_message_waits_for_the_model() -> None:
    engines = Engines(on_load=silent)
    session = begun(engines)
    session.send("hello")
    assert session.busy
    assert records(session) == []
    assert engines.last.turns == []
    engines.last.push(ready())
    (record,) = records(session)
    assert [request.messages[-1].content for request in engines.last.turns] == ["hello"]
    assert record.text == "well then"
    assert not session.busy


def test_a_message_right_after_a_switch_waits_for_the_new_model() -> None:
    engines = Engines(on_load=in_turn(loaded, silent, silent))
    session = begun(engines)
    engine = engines.last
    session.load(CHOICE._replace(path="/models/other.gguf"))
    session.load(CHOICE._replace(path="/models/third.gguf"))
    session.send("hello")
    assert engine.turns == []
    engine.push(ready())
    settle(session)
    # The model that was asked for last is not there yet.
    assert engine.turns == []
    engine.push(ready())
    settle(session)
    assert [type(request) for request in engine.requests] == [*[LoadRequest] * 3, TurnRequest]


@pytest.mark.parametrize(
    ("choice", "cause"),
    [
        (CHOICE._replace(path="/models/other.gguf"), "model_changed"),
        (CHOICE._replace(settings=EngineSettings(n_ctx=512)), "settings_changed"),
    ],
)
def test_a_load_says_what_changed(choice: ModelChoice, cause: str) -> None:
    engines = Engines()
    session = begun(engines)
    session.load(choice)
    first, second = engines.last.loads
    assert (first.cause, second.cause) == ("start", cause)
    assert (second.model_path, second.settings) == (choice.path, choice.settings)


def test_a_model_without_a_template_can_be_tried_with_chatml() -> None:
    engines = Engines(on_load=lambda _request: [load_failed()])
    session = begun(engines)
    assert session.live.load_failed
    session.use_template("chatml")
    assert engines.last.loads[-1].chat_template == CHATML


def test_a_load_that_fails_gives_a_waiting_message_back(history: History) -> None:
    engines = Engines(on_load=silent)
    session = begun(engines, history)
    session.send("hello")
    engines.last.push(load_failed("the file is empty"))
    (record,) = records(session)
    assert (record.stop.reason, record.stop.detail) == ("error", "the file is empty")
    assert (record.predicted_n, record.prompt_tokens, record.timings.ttft_ms) == (0, None, None)
    assert spoken(session.chat) == []
    assert spoken(history.load_chat(session.chat.id)) == []
    assert engines.last.turns == []


def test_a_message_waits_for_the_model_that_was_chosen_last_whatever_became_of_the_others() -> None:
    engines = Engines(on_load=silent)
    session = begun(engines)
    session.load(CHOICE._replace(path="/models/other.gguf"))
    session.send("hello")
    engines.last.push(load_failed("the first one was stopped"))
    assert records(session) == []
    engines.last.push(ready())
    (record,) = records(session)
    assert record.stop.reason == "eog"


def test_after_a_failed_load_the_next_message_tries_again() -> None:
    engines = Engines(on_load=in_turn(lambda _: [load_failed()], loaded))
    session = begun(engines)
    assert session.live.load_failed
    assert ask(session, "hello").stop.reason == "eog"
    assert [load.cause for load in engines.last.loads] == ["start", "engine_restarted"]
    assert len(engines.made) == 1


def test_a_restart_after_a_failed_load() -> None:
    engines = Engines(on_load=in_turn(lambda _: [load_failed()], loaded))
    session = begun(engines)
    session.restart_engine()
    settle(session)
    assert session.live.ready is not None
    assert not session.live.load_failed


def test_an_engine_that_cannot_be_started_is_a_failed_load() -> None:
    def broken() -> Engine:
        raise EngineError("the engine could not be started: no such file")

    session = Session(broken, CHOICE)
    session.start()
    settle(session)
    assert session.snapshot().engine == "failed"
    session.send("hello")
    (record,) = records(session)
    assert record.stop.reason == "error"
    assert record.stop.detail == "the engine could not be started: no such file"
    assert spoken(session.chat) == []
    session.close()


class Choosy(ScriptedEngine):
    """An engine whose pipe takes no turns."""

    def send(self, request: Request) -> None:
        if isinstance(request, TurnRequest):
            raise RequestError("it is too long")
        super().send(request)


def test_a_request_that_cannot_be_sent_ends_its_turn() -> None:
    session = begun(lambda: Choosy(silent))
    session.send("hello")
    (record,) = records(session)
    assert (record.stop.reason, record.stop.detail) == ("error", "it is too long")
    assert not session.busy


# ------------------------------------------------------------------------ one at a time


def test_a_second_message_is_refused_and_changes_nothing() -> None:
    engines = Engines(answers=silent)
    session = begun(engines)
    session.send("first")
    with pytest.raises(SessionError, match="still coming"):
        session.send("second")
    for refused in refusals(
        lambda: session.edit_number(0, "other"),
        session.regenerate,
        session.new_chat,
        session.drop_cache,
        session.restart_engine,
        lambda: session.load(CHOICE),
        lambda: session.set_system("be kind"),
        lambda: session.open_chat(Chat()),
    ):
        with pytest.raises(SessionError, match="still coming"):
            refused()
    assert spoken(session.chat) == [("user", "first")]
    assert session.chat.system is None
    assert len(engines.last.requests) == 2


def test_a_second_message_is_refused_while_the_first_one_waits() -> None:
    session = begun(Engines(on_load=silent))
    session.send("first")
    with pytest.raises(SessionError, match="still coming"):
        session.send("second")
    assert spoken(session.chat) == [("user", "first")]


@pytest.mark.parametrize("blank", ["", " ", "\n\t "])
def test_a_blank_message_is_refused(blank: str) -> None:
    engines = Engines()
    session = begun(engines)
    ask(session, "hello")
    with pytest.raises(SessionError, match="empty"):
        session.send(blank)
    with pytest.raises(SessionError, match="empty"):
        session.edit_number(0, blank)
    assert len(engines.last.turns) == 1


# --------------------------------------------------------------------------- cancelling


def test_a_waiting_message_can_be_taken_from_the_queue() -> None:
    engines = Engines(on_load=silent)
    session = begun(engines)
    session.send("hello")
    session.cancel()
    (record,) = records(session)
    assert record.stop.reason == "cancelled"
    assert spoken(session.chat)[0] == ("user", "hello")
    engines.last.push(ready())
    settle(session)
    assert engines.last.turns == []
    assert not session.busy


def test_cancelling_names_the_turn_or_the_load() -> None:
    engines = Engines(answers=silent, on_load=silent)
    session = begun(engines)
    session.cancel()
    engines.last.push(ready())
    settle(session)
    session.cancel()
    session.send("hello")
    session.cancel()
    cancels = [request for request in engines.last.requests if isinstance(request, CancelRequest)]
    # The load; nothing while it was idle; the turn.
    assert cancels == [CancelRequest(None), CancelRequest(1)]


def test_a_model_switch_can_be_cancelled_before_it_has_said_anything() -> None:
    engines = Engines(on_load=in_turn(loaded, silent))
    session = begun(engines)
    session.load(CHOICE._replace(path="/models/other.gguf"))
    session.cancel()
    assert engines.last.requests[-1] == CancelRequest(None)


def test_scripted_cancels_are_passed_on() -> None:
    engines = Engines()
    session = begun(engines)
    session.send("hello", Script(cancel_after_tokens=3))
    settle(session)
    session.send("hello", Script(cancel_at_prompt_token=7))
    settle(session)
    session.edit_number(0, "hi", Script(cancel_after_tokens=5))
    settle(session)
    scripts = [
        (turn.cancel_after_tokens, turn.cancel_at_prompt_token) for turn in engines.last.turns
    ]
    assert scripts == [(3, None), (None, 7), (5, None)]


# ------------------------------------------------------------------------------ the tree


def test_an_answer_is_sent_along_with_its_own_tokens() -> None:
    engines = Engines()
    session = begun(engines)
    ask(session, "hello")
    ask(session, "and")
    question, answer, second = engines.last.turns[1].messages
    assert (question.role, question.content) == ("user", "hello")
    # 1000 and 1001; 1002 ended the answer and is no part of it.
    assert (answer.content, answer.token_ids, answer.lead) == (
        "well then",
        (1000, 1001),
        "assistant\n",
    )
    assert second.content == "and"


def test_turns_are_numbered_and_know_whether_the_chat_reached_a_model() -> None:
    engines = Engines()
    session = begun(engines)
    ask(session, "hello")
    session.regenerate()
    settle(session)
    session.new_chat()
    ask(session, "hello")
    turns = engines.last.turns
    assert [turn.turn for turn in turns] == [1, 2, 3]
    assert len({turn.turn_id for turn in turns}) == 3
    assert [turn.continues for turn in turns] == [False, True, False]
    assert turns[0].chat_id == turns[1].chat_id != turns[2].chat_id


def test_an_edit_starts_a_branch_and_keeps_the_old_one(history: History) -> None:
    engines = Engines()
    session = begun(engines, history)
    ask(session, "one")
    ask(session, "two")
    old = [node.id for node in session.chat.path()]
    session.edit_number(1, "three")
    updates = settle(session)
    assert [message.content for message in engines.last.turns[-1].messages] == [
        "one",
        "well then",
        "three",
    ]
    assert spoken(session.chat)[2:] == [("user", "three"), ("assistant", "well then")]
    stored = history.load_chat(session.chat.id)
    assert len(stored) == 6
    assert [stored.node(node_id).content for node_id in old[2:]] == ["two", "well then"]
    assert spoken(stored) == spoken(session.chat)
    opened = next(update.event for update in updates if isinstance(update.event, ChatOpened))
    assert [message.content for message in opened.messages] == ["one", "well then"]


def test_an_answer_is_generated_again_on_a_branch(history: History) -> None:
    engines = Engines()
    session = begun(engines, history)
    ask(session, "one")
    first = session.chat.leaf
    session.regenerate()
    settle(session)
    assert first is not None
    assert session.chat.leaf != first
    assert session.chat.node(first).content == "well then"
    assert [len(turn.messages) for turn in engines.last.turns] == [1, 1]
    assert len(history.load_chat(session.chat.id)) == 3


def test_what_is_not_there_cannot_be_edited_or_answered_again() -> None:
    engines = Engines()
    session = begun(engines)
    with pytest.raises(SessionError, match="no message"):
        session.regenerate()
    ask(session, "one")
    for index in (1, -1):
        with pytest.raises(SessionError, match=f"no user message {index}"):
            session.edit_number(index, "two")
    assert spoken(session.chat) == [("user", "one"), ("assistant", "well then")]
    assert len(engines.last.turns) == 1


def test_the_system_prompt_stands_first_and_new_chats_begin_with_their_own() -> None:
    engines = Engines()
    session = begun(engines, system="be kind")
    ask(session, "one")
    session.set_system("be rude")
    ask(session, "two")
    session.new_chat()
    ask(session, "three")
    heads = [turn.messages[0].content for turn in engines.last.turns]
    assert heads == ["be kind", "be rude", "be kind"]


def test_an_empty_answer_is_an_answer() -> None:
    engines = Engines(
        lambda request: turn_events(request.turn, token_s=[0.5], pieces=[""], reason="eog")
    )
    session = begun(engines)
    ask(session, "one")
    ask(session, "two")
    roles = [message.role for message in engines.last.turns[-1].messages]
    assert roles == ["user", "assistant", "user"]


def test_a_turn_stopped_in_prefill_leaves_no_two_questions_in_a_row() -> None:
    engines = Engines(lambda request: turn_events(request.turn, token_s=[], reason="cancelled"))
    session = begun(engines)
    ask(session, "one")
    ask(session, "two")
    roles = [message.role for message in engines.last.turns[-1].messages]
    assert roles == ["user", "assistant", "user"]


# ------------------------------------------------------------------------------- refused


@pytest.mark.parametrize("kind", ["model", "template", "prompt_too_long"])
def test_a_refused_message_is_taken_back_out(kind: ErrorKind, history: History) -> None:
    engines = Engines(in_turn(answered, lambda request: failed(request.turn, kind, "no")))
    session = begun(engines, history)
    ask(session, "one")
    kept = spoken(session.chat)
    session.send("two")
    updates = settle(session)
    (asked,) = (update.event for update in updates if isinstance(update.event, TurnRequested))
    assert asked.user_text == "two"
    (record,) = (update.record for update in updates if update.record is not None)
    assert (record.stop.reason, record.stop.detail) == ("error", "no")
    assert spoken(session.chat) == kept
    assert spoken(history.load_chat(session.chat.id)) == kept
    assert len(history.load_chat(session.chat.id)) == 2
    assert [stored.stop.reason for stored in history.records(session.chat.id)] == ["eog", "error"]


@pytest.mark.parametrize("kind", ["model", "template", "prompt_too_long"])
def test_a_refused_edit_leads_back_to_the_old_branch(kind: ErrorKind, history: History) -> None:
    engines = Engines(in_turn(answered, answered, lambda request: failed(request.turn, kind)))
    session = begun(engines, history)
    ask(session, "one")
    ask(session, "two")
    kept = spoken(session.chat)
    session.edit_number(0, "three")
    updates = settle(session)
    assert spoken(session.chat) == kept
    assert spoken(history.load_chat(session.chat.id)) == kept
    last = updates[-1].event
    assert isinstance(last, ChatOpened)
    assert [message.content for message in last.messages] == [text for _, text in kept]


def test_a_new_answer_that_does_not_come_leaves_the_old_one(history: History) -> None:
    engines = Engines(
        in_turn(
            answered,
            lambda request: failed(request.turn, "template"),
            lambda request: turn_events(request.turn, token_s=[], reason="cancelled"),
        )
    )
    session = begun(engines, history)
    ask(session, "one")
    kept = spoken(session.chat)
    for reason in ("error", "cancelled"):
        session.regenerate()
        (record,) = records(session)
        assert record.stop.reason == reason
        assert spoken(session.chat) == kept
        assert spoken(history.load_chat(session.chat.id)) == kept


def test_a_chat_is_not_called_after_a_message_that_was_refused() -> None:
    session = begun(
        Engines(in_turn(lambda request: failed(request.turn, "prompt_too_long"), answered))
    )
    ask(session, "much too long")
    assert session.chat.title == ""
    ask(session, "short")
    assert session.chat.title == "short"


def test_a_failure_of_the_engine_keeps_the_question() -> None:
    engines = Engines(answers=lambda request: failed(request.turn, "engine"))
    session = begun(engines)
    assert ask(session, "one").stop.reason == "error"
    assert spoken(session.chat)[0] == ("user", "one")


def test_a_turn_that_cannot_be_asked_for_has_a_record_too(history: History) -> None:
    engines = Engines()
    session = begun(engines, history)
    ask(session, "one")
    kept = spoken(session.chat)
    session.fail_turn("there is no user message 4")
    (record,) = records(session)
    assert (record.turn, record.stop.reason) == (2, "error")
    assert record.stop.detail == "there is no user message 4"
    assert spoken(session.chat) == kept
    assert len(engines.last.turns) == 1
    assert ask(session, "two").turn == 3
    assert [stored.turn for stored in history.records(session.chat.id)] == [1, 2, 3]


# ------------------------------------------------------------------------------- crashes


def test_an_engine_that_dies_before_accepting_is_replaced_once(history: History) -> None:
    engines = Engines(answers=silent)
    session = begun(engines, history)
    session.send("hello")
    settle(session)
    engines.made[0].die()
    settle(session)
    assert len(engines.made) == 2
    assert [load.cause for load in engines.made[1].loads] == ["engine_restarted"]
    assert engines.made[1].turns == engines.made[0].turns
    engines.made[1].die("the engine was killed (SIGKILL)")
    (record,) = records(session)
    assert (record.stop.reason, record.stop.detail) == ("error", "the engine was killed (SIGKILL)")
    assert len(engines.made) == 2
    assert not session.busy
    assert spoken(session.chat)[0] == ("user", "hello")
    assert len(history.records(session.chat.id)) == 1


def test_a_message_that_was_sent_again_is_asked_once_and_answered_once() -> None:
    engines = Engines()
    session = begun(engines)
    engines.made[0].mute = True
    session.send("hello")
    engines.made[0].die()
    updates = settle(session)
    assert [type(update.event) for update in updates].count(TurnRequested) == 1
    assert [update.record.text for update in updates if update.record] == ["well then"]
    assert spoken(session.chat) == [("user", "hello"), ("assistant", "well then")]


def test_an_engine_that_died_unseen_is_replaced_before_the_message_is_sent() -> None:
    engines = Engines()
    session = begun(engines)
    engines.made[0].die()
    session.send("hello")
    updates = settle(session)
    kinds = [type(update.event) for update in updates]
    assert kinds.index(EngineExited) < kinds.index(TurnRequested)
    assert engines.made[0].turns == []
    assert len(engines.made[1].turns) == 1
    assert [update.record.text for update in updates if update.record] == ["well then"]


def test_an_engine_that_died_unseen_is_replaced_when_a_model_is_chosen() -> None:
    engines = Engines()
    session = begun(engines)
    engines.made[0].die()
    session.load(CHOICE._replace(path="/models/other.gguf"))
    exits = [update for update in settle(session) if isinstance(update.event, EngineExited)]
    assert len(exits) == 1
    assert [load.model_path for load in engines.made[1].loads] == ["/models/other.gguf"]


def test_an_engine_that_dies_while_it_loads_is_replaced_once() -> None:
    engines = Engines(on_load=silent)
    session = begun(engines)
    session.send("hello")
    engines.made[0].die()
    settle(session)
    assert len(engines.made) == 2
    engines.made[1].push(ready())
    (record,) = records(session)
    assert record.text == "well then"


def test_an_engine_that_dies_in_decode_leaves_a_record_and_the_text_so_far(
    history: History,
) -> None:
    # Accepted, rendered, ready, one token.
    engines = Engines(answers=died_after(4))
    session = begun(engines, history)
    session.send("hello")
    settle(session)
    engines.made[0].die()
    (record,) = records(session)
    assert record.stop.reason == "error"
    assert record.stop.detail == "the engine crashed (SIGSEGV)"
    assert record.text == "well "
    assert (record.predicted_n, record.prompt_tokens) == (1, 40)
    assert (record.timings.ttft_ms, record.timings.predicted_ms) == (500.0, None)
    assert record.kv is None
    # The engine is gone; what it was is known all the same.
    assert (record.model, record.context) == (MODEL, CONTEXT)
    assert spoken(session.chat) == [("user", "hello"), ("assistant", "well ")]
    assert spoken(history.load_chat(session.chat.id)) == spoken(session.chat)
    assert history.records(session.chat.id) == [record]
    assert len(engines.made) == 1
    session.send("and")
    settle(session)
    assert len(engines.made) == 2
    assert engines.made[1].loads[0].cause == "engine_restarted"
    (turn,) = engines.made[1].turns
    assert [message.content for message in turn.messages] == ["hello", "well ", "and"]
    assert turn.messages[1].token_ids == (1000,)


def test_an_engine_that_dies_in_prefill_keeps_the_question() -> None:
    engines = Engines(answers=died_after(3))
    session = begun(engines)
    session.send("hello")
    settle(session)
    engines.made[0].die()
    (record,) = records(session)
    assert (record.stop.reason, record.predicted_n) == ("error", 0)
    assert record.cache.reason == "first_turn"
    assert spoken(session.chat)[0] == ("user", "hello")


def test_an_engine_that_is_ended_while_it_renders_gives_the_message_back() -> None:
    engines = Engines(answers=lambda request: [TurnAccepted(request.turn, 0)])
    session = begun(engines)
    session.send("hello")
    settle(session)
    engines.made[0].running = False
    engines.made[0].push(
        EngineExited(
            expected=False, message="the chat template did not end within 2 s", kind="template"
        )
    )
    updates = settle(session)
    (ended,) = (update.event for update in updates if isinstance(update.event, TurnEnded))
    assert (ended.kind, ended.detail) == ("template", "the chat template did not end within 2 s")
    assert spoken(session.chat) == []


def test_an_engine_that_dies_while_it_renders_keeps_the_question() -> None:
    engines = Engines(answers=lambda request: [TurnAccepted(request.turn, 0)])
    session = begun(engines)
    session.send("hello")
    settle(session)
    engines.made[0].die("the engine was killed (SIGKILL)")
    updates = settle(session)
    (ended,) = (update.event for update in updates if isinstance(update.event, TurnEnded))
    assert (ended.kind, ended.detail) == ("engine", "the engine was killed (SIGKILL)")
    assert spoken(session.chat)[0] == ("user", "hello")


def test_a_crash_between_turns_ends_no_turn() -> None:
    engines = Engines()
    session = begun(engines)
    ask(session, "one")
    engines.last.die()
    assert records(session) == []
    assert session.snapshot().engine == "gone"
    assert len(engines.made) == 1


# ------------------------------------------------------------------------------- storing


def fill_disk_of(recorder: Recorder) -> None:
    """Let its file be one that takes no byte more."""
    device = Path("/dev/full")
    # Where there is no such device, a file that is only open for reading fails likewise.
    full = os.open(device, os.O_WRONLY) if device.exists() else os.open(os.devnull, os.O_RDONLY)
    os.dup2(full, recorder._file.fileno())
    os.close(full)


def test_a_full_disk_stops_the_recording_and_nothing_else(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "session.jsonl")
    session = begun(Engines(), recorder=recorder)
    fill_disk_of(recorder)
    assert ask(session, "one").text == "well then"
    assert not session.recording
    assert session.storage_problem is not None
    assert "session.jsonl cannot be written" in session.storage_problem
    assert ask(session, "two").text == "well then"
    session.close()


def fill(history: History) -> None:
    """Let the store take nothing more, as on a full disk."""
    history._db.execute(
        "CREATE TRIGGER full BEFORE INSERT ON chats "
        "BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END"
    )


def make_room(history: History) -> None:
    """Let it take everything again."""
    history._db.execute("DROP TRIGGER full")


def test_a_full_store_is_named_and_the_session_goes_on(history: History) -> None:
    engines = Engines()
    session = begun(engines, history)
    fill(history)
    assert ask(session, "one").text == "well then"
    assert session.storage_problem is not None
    assert "disk is full" in session.storage_problem
    assert spoken(session.chat)[0] == ("user", "one")
    assert ask(session, "and").text == "well then"
    assert len(engines.last.turns[-1].messages) == 3
    make_room(history)
    session.close()


def test_what_a_store_did_not_take_for_a_while_is_stored_later(history: History) -> None:
    engines = Engines(answers=in_turn(answered, silent))
    session = begun(engines, history)
    fill(history)
    ask(session, "one")
    session.send("two")
    *events, last = answered(engines.last.turns[-1])
    engines.last.push(*events)
    settle(session)
    assert history.chats() == []
    make_room(history)
    until(lambda: not session.storing)
    assert session.storage_problem is None
    stored = history.load_chat(session.chat.id)
    assert spoken(stored) == [
        ("user", "one"),
        ("assistant", "well then"),
        ("user", "two"),
        ("assistant", "well "),
    ]
    assert [node.state for node in stored.path()] == ["whole", "whole", "whole", "partial"]
    engines.last.push(last)
    settle(session)
    assert spoken(history.load_chat(session.chat.id))[-1] == ("assistant", "well then")
    assert [record.turn for record in history.records(session.chat.id)] == [1, 2]
    session.close()


def test_a_locked_store_holds_nothing_up(history: History) -> None:
    session = begun(Engines(), history)
    other = sqlite3.connect(history.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    # The lock is there until the turn is over: whoever waits for it, waits in vain.
    session.send("one")
    while session.wait(0):
        pass
    assert session.storing
    assert session.storage_problem is None
    other.execute("COMMIT")
    other.close()
    session.close()
    again = History(history.path)
    assert spoken(again.load_chat(session.chat.id)) == [("user", "one"), ("assistant", "well then")]
    again.close()


def test_closing_does_not_wait_for_ever_for_a_full_disk(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "FLUSH_S", 0.01)
    session = begun(Engines(), history)
    fill(history)
    ask(session, "one")
    session.close()
    assert session.storing


def test_an_answer_in_progress_is_stored_every_second(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(keeper, "monotonic", lambda: now)
    engines = Engines(answers=silent)
    session = begun(engines, history)
    session.send("hello")
    events = answered(engines.last.turns[0])

    def stored() -> list[tuple[str, str]]:
        return [(n.content, n.state) for n in history.load_chat(session.chat.id).path()]

    seen = []
    for at_s, event in zip([101, 101, 101, 101.5, 102, 102.5, 102.5], events, strict=True):
        now = at_s
        engines.last.push(event)
        settle(session)
        seen.append(stored()[1:])
    # The prompt at 101 s, tokens at 101.5 and 102 s, the end token and the end at 102.5 s: the
    # first token is stored at once, what follows a second later.
    assert seen[2] == []
    assert seen[3] == seen[4] == [("well ", "partial")]
    assert seen[5] == [("well then", "partial")]
    assert seen[6] == [("well then", "whole")]


def test_a_session_closed_in_mid_answer_stores_what_there_is(
    history: History, tmp_path: Path
) -> None:
    engines = Engines(answers=died_after(4))
    session = begun(engines, history)
    session.send("hello")
    settle(session)
    session.close()
    assert len(engines.made) == 1
    with pytest.raises(EngineError):
        engines.last.send(CancelRequest(1))
    again = History(tmp_path / "chats.db")
    stored = again.load_chat(session.chat.id)
    assert spoken(stored) == [("user", "hello"), ("assistant", "well ")]
    assert [record.stop.reason for record in again.records(session.chat.id)] == ["cancelled"]
    again.close()


def test_a_session_closed_while_a_message_waits_does_not_send_it() -> None:
    engines = Engines(on_load=silent)
    session = begun(engines)
    session.send("hello")
    session.close()
    assert engines.last.turns == []
    assert not session.busy


def test_text_that_no_file_can_hold_is_mended_at_the_door(history: History) -> None:
    engines = Engines()
    session = begun(engines, history, system="be \udc80 kind")
    ask(session, "lone \ud800, pair \ud83d\ude00")
    system, question = engines.last.turns[0].messages
    assert (system.content, question.content) == ("be \ufffd kind", "lone \ufffd, pair \U0001f600")
    session.edit_number(0, "\udfff")
    settle(session)
    session.set_system("\ud800")
    ask(session, "and")
    assert engines.last.turns[-1].messages[0].content == "\ufffd"
    assert session.storage_problem is None
    assert history.load_chat(session.chat.id).path()[0].content == "\ufffd"


# -------------------------------------------------------------------------- small things


def test_a_drawn_seed_is_recorded_and_a_given_one_stays() -> None:
    session = begun(Engines())
    drawn = [ask(session, "one").sampling.seed for _ in range(3)]
    assert all(seed is not None and 0 <= seed < 1 << 32 for seed in drawn)
    assert len(set(drawn)) > 1
    session.sampling = SamplingChoice(seed=7)
    assert ask(session, "two").sampling.seed == 7
    session.sampling = SamplingChoice(temp=0.0)
    assert ask(session, "three").sampling.seed is None


def test_the_seed_in_the_record_is_the_one_that_was_sent() -> None:
    engines = Engines()
    session = begun(engines)
    record = ask(session, "one")
    assert engines.last.turns[0].sampling.seed == record.sampling.seed


def test_another_chat_begins_with_empty_figures() -> None:
    session = begun(Engines())
    ask(session, "one")
    before = session.snapshot()
    assert (before.turn, len(before.bars), before.totals.prompt_n) == (1, 1, 40)
    session.new_chat()
    fresh = session.snapshot()
    assert (fresh.turn, fresh.bars, fresh.totals.prompt_n) == (None, (), 0)
    assert fresh.timings.ttft_ms is None
    assert spoken(session.chat) == []


def test_a_stored_chat_is_opened_and_gone_on_with(history: History) -> None:
    engines = Engines()
    session = begun(engines, history)
    ask(session, "one")
    stored = history.load_chat(session.chat.id)
    session.new_chat()
    ask(session, "other")
    session.open_chat(stored)
    opened = settle(session)[-1].event
    assert isinstance(opened, ChatOpened)
    assert [message.content for message in opened.messages] == ["one", "well then"]
    assert session.snapshot().turn is None
    ask(session, "two")
    assert len(engines.last.turns[-1].messages) == 3
    assert engines.last.turns[-1].continues
    assert len(history.chats()) == 2


def test_a_session_can_begin_with_a_stored_chat() -> None:
    chat = Chat()
    chat.add_user("one")
    chat.put(
        Node(id="a", parent=chat.leaf, role="assistant", content="yes", token_ids=(5,), lead="a:")
    )
    engines = Engines()
    session = begun(engines, chat=chat)
    ask(session, "two")
    assert [m.content for m in engines.last.turns[0].messages] == ["one", "yes", "two"]


def test_a_cache_is_dropped_only_where_one_is() -> None:
    engines = Engines(on_load=silent)
    session = begun(engines)
    with pytest.raises(SessionError, match="no model is loaded"):
        session.drop_cache()
    engines.last.push(ready())
    settle(session)
    session.drop_cache()
    assert engines.last.requests[-1] == DropCacheRequest()


def test_the_log_is_gathered() -> None:
    engines = Engines()
    session = begun(engines)
    engines.last.push(LogLines(("one", "two")), LogLines(("three",)))
    settle(session)
    assert session.log_since(0)[-3:] == ["one", "two", "three"]
    assert session.log_since(session.log_total) == []


@pytest.mark.parametrize(
    ("known", "tail", "whole"),
    [
        (("a", "b", "c"), ("b", "c", "assert failed"), ("a", "b", "c", "assert failed")),
        (("a",), ("a",), ("a",)),
        (("a", "a"), ("a", "a", "a"), ("a", "a", "a")),
        (("a",), ("b", "c"), ("a", "b", "c")),
        (("a",), (), ("a",)),
    ],
)
def test_the_last_words_of_an_engine_are_in_the_log_once(
    known: tuple[str, ...], tail: tuple[str, ...], whole: tuple[str, ...]
) -> None:
    engines = Engines()
    session = begun(engines)
    engines.last.running = False
    engines.last.push(LogLines(known), EngineExited(False, "the engine crashed", tail))
    settle(session)
    assert session.log_since(0) == list(whole)


def test_a_sample_over_the_turn_comes_before_its_end() -> None:
    session = begun(Engines())
    session.send("hello")
    events = [update.event for update in settle(session)]
    sample, ended = events[-2:]
    assert isinstance(ended, TurnEnded)
    assert isinstance(sample, WindowSample)
    # The turn of a script is over at once: too short for a share.
    assert (sample.turn, sample.cpu_percent, sample.ui_cpu_percent) == (1, None, None)
    assert session.snapshot().window is None


def test_a_replay_refuses_to_send() -> None:
    engine = ScriptedEngine(answered)
    session = Session(lambda: engine, None)
    session.start()
    settle(session)
    assert session.replaying
    for refused in refusals(
        lambda: session.send("hello"),
        lambda: session.edit_number(0, "hello"),
        session.regenerate,
        session.new_chat,
        session.drop_cache,
        session.restart_engine,
        lambda: session.use_template("chatml"),
        lambda: session.load(CHOICE),
        lambda: session.set_system("x"),
    ):
        with pytest.raises(SessionError, match="played back"):
            refused()
    session.cancel()
    assert engine.requests == []
    with pytest.raises(SessionError, match="played back"):
        _ = session.chosen_model
    session.close()


def test_a_chat_that_is_opened_again_brings_its_turns_along(history: History) -> None:
    engines = Engines()
    first = begun(engines, history)
    ask(first, "one")
    ask(first, "two")
    known = first.snapshot()
    chat_id = first.chat.id
    first.close()
    store = History(history.path)
    session = begun(Engines(), store)
    assert session.snapshot().bars == ()
    session.open_chat(store.load_chat(chat_id))
    assert session.snapshot().bars == known.bars
    assert session.snapshot().totals == known.totals
    assert ask(session, "three").turn == 3
    session.close()
