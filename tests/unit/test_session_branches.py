"""Branches of the open chat: edits, versions, new answers, going on, and replays that follow."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.chat.tree import Chat, Node
from backend.history import History
from backend.protocol import (
    ChatOpened,
    ErrorKind,
    Event,
    LogLines,
    TokenBatch,
    TurnEnded,
    TurnRequest,
    TurnRequested,
)
from backend.recording import Recorder, read_recording
from backend.replay import ReplayEngine
from backend.session import Session, SessionError
from tests.fake_engine import failed, turn_events
from tests.unit.sessions import (
    Answers,
    Engines,
    answered,
    ask,
    begun,
    died_after,
    in_turn,
    records,
    settle,
    silent,
    spoken,
)


def says(*pieces: str, reason: str = "eog") -> Answers:
    """An answer of these pieces; 'eog' adds the token that ends it."""
    whole = (*pieces, "") if reason == "eog" else pieces

    def answer(request: TurnRequest) -> list[Event]:
        stamps = [0.5 + 0.1 * at for at in range(len(whole))]
        return turn_events(request.turn, token_s=stamps, pieces=whole, reason=reason)  # type: ignore[arg-type]

    return answer


def goes_on(*pieces: str, resumed: int, drop_chars: int = 0, reason: str = "eog") -> Answers:
    """More of an answer, of which the prompt's last `resumed` tokens are a part."""
    whole = (*pieces, "") if reason == "eog" else pieces

    def answer(request: TurnRequest) -> list[Event]:
        return turn_events(
            request.turn,
            token_s=[0.5 + 0.1 * at for at in range(len(whole))],
            pieces=whole,
            reason=reason,  # type: ignore[arg-type]
            resumed_n=resumed,
            drop_chars=drop_chars,
        )

    return answer


def stopped(request: TurnRequest) -> list[Event]:
    """A turn that is stopped in prefill."""
    return turn_events(request.turn, token_s=[], reason="cancelled")


def ids(chat: Chat) -> list[str]:
    """The branch in use, by the ids of its messages."""
    return [node.id for node in chat.path()]


def can_go_on(session: Session) -> str | None:
    """What there is of the answer that can be gone on with."""
    node = session.resumable
    return None if node is None else node.content


Shape = tuple[str, str, str, tuple["Shape", ...]]


def shape(chat: Chat) -> tuple[Shape, ...]:
    """The whole tree without its ids, versions in their order."""
    below: dict[str | None, list[Node]] = {}
    for node in chat.nodes():
        below.setdefault(node.parent, []).append(node)

    def under(parent: str | None) -> tuple[Shape, ...]:
        return tuple(
            (node.role, node.content, node.state, under(node.id)) for node in below.get(parent, ())
        )

    return under(None)


# ------------------------------------------------------------------------------- edits


def test_a_message_is_edited_by_its_id_also_on_another_branch(history: History) -> None:
    engines = Engines()
    session = begun(engines, history)
    ask(session, "one")
    first, _ = ids(session.chat)
    session.edit(first, "two")
    settle(session)
    second = session.chat.path()[0].id
    session.edit(first, "three")
    settle(session)
    assert [session.chat.node(v).content for v in session.chat.versions(first)] == [
        "one",
        "two",
        "three",
    ]
    assert [[m.content for m in turn.messages] for turn in engines.last.turns] == [
        ["one"],
        ["two"],
        ["three"],
    ]
    assert session.chat.node(second).content == "two"
    assert shape(history.load_chat(session.chat.id)) == shape(session.chat)


def test_only_a_message_of_the_user_can_be_edited() -> None:
    session = begun(Engines())
    ask(session, "one")
    before = shape(session.chat), session.chat.leaf
    for node_id, why in ((ids(session.chat)[1], "of your own"), ("nobody", "no such message")):
        with pytest.raises(SessionError, match=why):
            session.edit(node_id, "two")
    assert (shape(session.chat), session.chat.leaf) == before
    assert not session.busy


def test_versions_are_counted_in_the_conversation() -> None:
    session = begun(Engines())
    ask(session, "one")
    session.regenerate()
    settle(session)
    session.edit(ids(session.chat)[0], "two")
    settle(session)
    assert [(said.version, said.versions) for said in session.conversation()] == [(2, 2), (1, 1)]
    session.go_to(session.chat.versions(ids(session.chat)[0])[0])
    # Where that branch was left: at the second answer.
    assert [(said.version, said.versions) for said in session.conversation()] == [(1, 2), (2, 2)]


def test_going_to_a_version_is_told_and_stored(history: History) -> None:
    session = begun(Engines(in_turn(says("A"), says("B"), says("C"))), history)
    ask(session, "one")
    ask(session, "two")
    old = ids(session.chat)
    session.edit(old[0], "other")
    settle(session)
    session.go_to(old[0])
    (update,) = settle(session)
    assert isinstance(update.event, ChatOpened)
    assert [message.content for message in update.event.messages] == ["one", "A", "two", "B"]
    assert ids(history.load_chat(session.chat.id)) == ids(session.chat) == old
    with pytest.raises(SessionError, match="no such message"):
        session.go_to("nobody")
    assert ids(session.chat) == old


def test_the_next_message_follows_the_version_that_was_gone_to() -> None:
    engines = Engines(in_turn(says("A"), says("B"), says("C")))
    session = begun(engines)
    ask(session, "one")
    first = ids(session.chat)[1]
    session.regenerate()
    settle(session)
    session.go_to(first)
    ask(session, "two")
    assert [m.content for m in engines.last.turns[-1].messages] == ["one", "A", "two"]


@pytest.mark.parametrize("place", [2, 3], ids=["the question", "its answer"])
def test_an_earlier_message_is_answered_again(place: int, history: History) -> None:
    engines = Engines(in_turn(says("A"), says("B"), says("C"), says("D")))
    session = begun(engines, history)
    for text in ("one", "two", "three"):
        ask(session, text)
    old = ids(session.chat)
    session.regenerate(old[place])
    events = [update.event for update in settle(session)]
    assert [m.content for m in engines.last.turns[-1].messages] == ["one", "A", "two"]
    assert spoken(session.chat)[2:] == [("user", "two"), ("assistant", "D")]
    # The window is told to take away what follows, before the turn begins.
    opened = next(event for event in events if isinstance(event, ChatOpened))
    assert [message.content for message in opened.messages] == ["one", "A", "two"]
    assert events.index(opened) < [type(event) for event in events].index(TurnRequested)
    session.go_to(old[3])
    assert ids(session.chat) == old
    assert shape(history.load_chat(session.chat.id)) == shape(session.chat)


def test_an_earlier_message_that_is_not_answered_again_leaves_the_branch_as_it_was() -> None:
    engines = Engines(in_turn(says("A"), says("B"), stopped, lambda r: failed(r.turn, "template")))
    session = begun(engines)
    ask(session, "one")
    ask(session, "two")
    old = ids(session.chat)
    for _ in range(2):
        session.regenerate(old[0])
        updates = settle(session)
        assert ids(session.chat) == old
        last = updates[-1].event
        assert isinstance(last, ChatOpened)
        assert [message.content for message in last.messages] == ["one", "A", "two", "B"]
    with pytest.raises(SessionError, match="no such message"):
        session.regenerate("nobody")
    assert ids(session.chat) == old


def test_a_refused_edit_of_a_branch_that_is_not_in_use_changes_nothing() -> None:
    engines = Engines(in_turn(says("A"), says("B"), lambda r: failed(r.turn, "prompt_too_long")))
    session = begun(engines)
    ask(session, "one")
    first = ids(session.chat)[0]
    session.edit(first, "two")
    settle(session)
    before = shape(session.chat), ids(session.chat)
    session.edit(first, "much too long")
    settle(session)
    assert (shape(session.chat), ids(session.chat)) == before


# --------------------------------------------------------------- while a turn is under way


def test_an_answer_under_way_is_no_part_of_the_conversation() -> None:
    engines = Engines(in_turn(says("A"), silent))
    session = begun(engines)
    ask(session, "one")
    session.send("two")
    seen = []
    for event in answered(engines.last.turns[-1]):
        seen.append([said.node.content for said in session.conversation()])
        engines.last.push(event)
        settle(session)
    assert seen == [["one", "A", "two"]] * len(seen)
    assert [said.node.content for said in session.conversation()] == [
        "one",
        "A",
        "two",
        "well then",
    ]


def test_a_conversation_has_the_records_of_its_answers_also_when_it_was_stored(
    history: History,
) -> None:
    session = begun(Engines(), history)
    first, second = ask(session, "one"), ask(session, "two")
    expected = [(), (first,), (), (second,)]
    assert [said.records for said in session.conversation()] == expected
    chat = history.load_chat(session.chat.id)
    session.new_chat()
    assert session.conversation() == []
    session.open_chat(chat)
    assert [said.records for said in session.conversation()] == expected


def test_each_update_is_looked_at_while_the_session_is_as_its_event_left_it() -> None:
    engines = Engines(in_turn(silent, silent))
    session = begun(engines)
    session.send("one")
    settle(session)
    engines.last.push(*answered(engines.last.turns[0]))
    seen = [
        (type(update.event), session.live.trace.content)
        for update in session.tick()
        if session.live.trace is not None and isinstance(update.event, TokenBatch | TurnEnded)
    ]
    assert seen == [
        (TokenBatch, "well "),
        (TokenBatch, "well then"),
        (TokenBatch, "well then"),
        (TurnEnded, "well then"),
    ]


def test_what_comes_in_the_midst_of_a_tick_follows_in_its_order() -> None:
    engines = Engines(in_turn(silent, answered))
    session = begun(engines)
    session.send("one")
    settle(session)
    engines.last.push(*answered(engines.last.turns[0]), LogLines(("behind it",)))
    seen: list[Event] = []
    for update in session.tick():
        seen.append(update.event)
        if isinstance(update.event, TurnEnded) and update.event.turn == 1:
            # Sending reads what the engine has sent meanwhile.
            engines.last.push(LogLines(("later",)))
            session.send("two")
    seen += [update.event for update in settle(session)]
    told = [
        event.lines[0] if isinstance(event, LogLines) else (type(event), event.turn)
        for event in seen
        if isinstance(event, LogLines | TokenBatch | TurnEnded)
    ]
    assert told == [
        *[(TokenBatch, 1)] * 3,
        (TurnEnded, 1),
        "behind it",
        "later",
        *[(TokenBatch, 2)] * 3,
        (TurnEnded, 2),
    ]
    asked = [at for at, event in enumerate(seen) if isinstance(event, TurnRequested)]
    assert len(asked) == 1
    assert seen[asked[0] - 1] == LogLines(("later",))


def test_a_tick_that_is_left_in_the_midst_loses_nothing() -> None:
    engines = Engines()
    session = begun(engines)
    session.send("one")
    kinds: list[type[Event]] = []
    while TurnEnded not in kinds:
        # One update of each tick, as a reader takes that fails at it.
        kinds.append(type(next(session.tick()).event))
    assert kinds[0] is TurnRequested
    assert kinds.count(TokenBatch) == 3


# ------------------------------------------------------------------------------ going on


def test_a_cut_answer_is_gone_on_with(history: History) -> None:
    engines = Engines(in_turn(says("well ", reason="length"), goes_on("then", resumed=1)))
    session = begun(engines, history)
    first = ask(session, "one")
    node = session.resumable
    assert node is not None
    assert (node.content, node.token_ids, node.state) == ("well ", (1000,), "cut")
    session.resume()
    assert session.resumed == node
    request = engines.last.turns[-1]
    assert request.resume
    assert [(m.role, m.content) for m in request.messages] == [
        ("user", "one"),
        ("assistant", "well "),
    ]
    (second,) = records(session)
    whole = session.chat.node(node.id)
    # `PromptReady.resumed_n`: the prompt's last id, 39 of 0…39, then what was generated but for
    # the token that ended it.
    assert (whole.content, whole.token_ids, whole.state) == ("well then", (39, 1000), "whole")
    assert whole.turn_ids == (first.id, second.id)
    assert (whole.parent, whole.lead) == (node.parent, "assistant\n")
    assert len(session.chat) == 2
    assert [session.resumed, can_go_on(session)] == [None, None]
    assert history.load_chat(session.chat.id).node(node.id) == whole
    assert session.conversation()[-1].records == (first, second)
    # A record tells its own turn.
    assert (second.text, second.predicted_n) == ("then", 2)


def test_an_answer_that_was_gone_on_with_can_be_cut_again() -> None:
    engines = Engines(
        in_turn(
            says("a ", reason="length"),
            goes_on("b ", resumed=1, reason="length"),
            goes_on("c", resumed=2),
        )
    )
    session = begun(engines)
    ask(session, "one")
    states = []
    for _ in range(2):
        session.resume()
        settle(session)
        states.append((session.chat.path()[-1].content, session.chat.path()[-1].state))
    assert states == [("a b ", "cut"), ("a b c", "whole")]
    assert len(session.chat.path()[-1].turn_ids) == 3
    with pytest.raises(SessionError, match="not cut off"):
        session.resume()


def test_a_character_that_was_cut_through_comes_again() -> None:
    engines = Engines(
        in_turn(
            says("caf", "\ufffd", reason="length"),
            goes_on("é", " noir", resumed=1, drop_chars=1),
        )
    )
    session = begun(engines)
    ask(session, "one")
    session.resume()
    settle(session)
    assert session.chat.path()[-1].content == "café noir"


def test_a_crash_in_the_midst_keeps_what_came_and_it_can_be_gone_on_with(
    history: History,
) -> None:
    engines = Engines(
        in_turn(
            says("well ", reason="length"),
            # Accepted, rendered, ready, one token.
            lambda request: goes_on("th", "en", resumed=1)(request)[:4],
            goes_on("en", resumed=2),
        )
    )
    session = begun(engines, history)
    ask(session, "one")
    session.resume()
    settle(session)
    assert [said.node.content for said in session.conversation()] == ["one"]
    assert [(n.content, n.state) for n in history.load_chat(session.chat.id).path()[1:]] == [
        ("well th", "partial")
    ]
    engines.made[0].die()
    (record,) = records(session)
    assert (record.stop.reason, record.text) == ("error", "th")
    node = session.chat.path()[-1]
    assert (node.content, node.token_ids, node.state) == ("well th", (39, 1000), "cut")
    session.resume()
    settle(session)
    assert [load.cause for load in engines.made[1].loads] == ["engine_restarted"]
    assert session.chat.path()[-1].content == "well then"
    assert len(session.chat) == 2


def test_an_answer_of_a_run_that_was_killed_is_gone_on_with(history: History) -> None:
    first = begun(Engines(died_after(4)), history)
    first.send("one")
    settle(first)
    # Killed here: nothing is closed.
    again = History(history.path)
    engines = Engines(goes_on("then", resumed=1))
    session = begun(engines, again, chat=again.load_chat(first.chat.id))
    node = session.resumable
    assert node is not None
    assert node.state == "partial"
    session.resume()
    settle(session)
    assert spoken(session.chat) == [("user", "one"), ("assistant", "well then")]
    session.close()


@pytest.mark.parametrize(
    "ends",
    [
        lambda request: failed(request.turn, "prompt_too_long"),
        lambda request: failed(request.turn, "template"),
        lambda request: failed(request.turn, "engine"),
        stopped,
    ],
    ids=["too long", "template", "engine", "stopped"],
)
def test_an_answer_that_is_not_gone_on_with_stays_as_it_was(
    ends: Answers, history: History
) -> None:
    engines = Engines(in_turn(says("well ", reason="length"), ends, goes_on("then", resumed=1)))
    session = begun(engines, history)
    ask(session, "one")
    before = session.chat.path()
    session.resume()
    (record,) = records(session)
    assert record.predicted_n == 0
    assert session.chat.path() == before
    assert history.load_chat(session.chat.id).path() == before
    assert session.resumed is None
    assert [said.node for said in session.conversation()] == before
    assert [stored.turn for stored in history.records(session.chat.id)] == [1, 2]
    session.resume()
    settle(session)
    assert session.chat.path()[-1].content == "well then"


def test_going_on_waits_for_a_model_and_can_be_taken_from_the_queue() -> None:
    chat = Chat()
    chat.add_user("one")
    chat.put(
        Node(
            id="a",
            parent=chat.leaf,
            role="assistant",
            content="well ",
            token_ids=(1000,),
            lead="assistant\n",
            state="cut",
        )
    )
    before = chat.path()
    session = begun(Engines(on_load=silent), chat=chat)
    session.resume()
    session.cancel()
    (record,) = records(session)
    assert record.stop.reason == "cancelled"
    assert session.chat.path() == before
    assert session.resumable == before[-1]


def test_only_the_end_of_the_branch_in_use_can_be_gone_on_with() -> None:
    engines = Engines(in_turn(says("cut ", reason="length"), says("whole"), says("more")))
    session = begun(engines)
    with pytest.raises(SessionError, match="not cut off"):
        session.resume()
    ask(session, "one")
    cut = ids(session.chat)[1]
    session.regenerate()
    settle(session)
    assert can_go_on(session) is None
    session.go_to(cut)
    assert can_go_on(session) == "cut "
    ask(session, "two")
    assert can_go_on(session) is None


# ------------------------------------------------------------------------------- replays


def recorded(path: Path, *answers: Answers) -> tuple[Session, Recorder]:
    """A session that is recorded."""
    recorder = Recorder(path)
    return begun(Engines(in_turn(*answers)), recorder=recorder), recorder


def played(path: Path) -> Session:
    """The session again, from its recording."""
    recording = read_recording(path)
    session = Session(lambda: ReplayEngine(recording, 0), None)
    session.start()
    for _ in session.tick():
        pass
    return session


def same(original: Session, replay: Session) -> None:
    """The tree, the place in it and the figures are the same."""
    assert shape(replay.chat) == shape(original.chat)
    assert spoken(replay.chat) == spoken(original.chat)
    assert [(s.version, s.versions) for s in replay.conversation()] == [
        (s.version, s.versions) for s in original.conversation()
    ]
    assert [s.node.token_ids for s in replay.conversation()] == [
        s.node.token_ids for s in original.conversation()
    ]
    assert [s.node.turn_ids for s in replay.conversation()] == [
        s.node.turn_ids for s in original.conversation()
    ]
    before, after = original.snapshot(), replay.snapshot()
    assert (after.turn, after.bars, after.totals) == (before.turn, before.bars, before.totals)


def test_a_replay_follows_edits_and_new_answers(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    session, _ = recorded(path, *(says(letter) for letter in "ABCDEF"))
    ask(session, "one")
    ask(session, "two")
    old = ids(session.chat)
    session.edit(old[2], "three")
    settle(session)
    session.regenerate()
    settle(session)
    session.regenerate(old[1])
    settle(session)
    session.go_to(old[2])
    settle(session)
    ask(session, "four")
    session.close()
    same(session, played(path))


def test_a_replay_follows_equal_answers(tmp_path: Path) -> None:
    # At temperature 0 each new answer is the old one once more.
    path = tmp_path / "session.jsonl"
    session, _ = recorded(path, *[says("A")] * 3)
    ask(session, "one")
    session.regenerate()
    settle(session)
    ask(session, "two")
    session.close()
    same(session, played(path))


def test_a_replay_follows_answers_that_were_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    session, _ = recorded(
        path,
        says("a ", reason="length"),
        goes_on("b ", resumed=1, reason="length"),
        stopped,
        goes_on("c", resumed=2),
        says("D"),
    )
    ask(session, "one")
    for _ in range(3):
        session.resume()
        settle(session)
    ask(session, "two")
    session.close()
    same(session, played(path))


def test_a_replay_follows_what_was_refused(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    session, _ = recorded(
        path,
        says("A"),
        lambda r: failed(r.turn, "prompt_too_long"),
        says("B"),
        lambda r: failed(r.turn, "template"),
        stopped,
        stopped,
        says("C"),
    )
    ask(session, "one")
    ask(session, "too long")
    ask(session, "two")
    session.edit_number(0, "no")
    settle(session)
    session.regenerate(ids(session.chat)[0])
    settle(session)
    ask(session, "stopped in prefill")
    ask(session, "three")
    session.close()
    same(session, played(path))


def test_a_replay_follows_from_chat_to_chat(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    session, _ = recorded(path, says("A"), says("B"), says("C"))
    ask(session, "one")
    first = session.chat
    session.new_chat()
    session.set_system("be kind")
    ask(session, "two")
    session.open_chat(first)
    session.edit_number(0, "three")
    settle(session)
    session.close()
    same(session, played(path))


def test_a_chat_that_a_replay_comes_back_to_has_its_branches_and_figures(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    session, _ = recorded(path, says("A"), says("B", reason="length"), says("C"))
    ask(session, "one")
    session.regenerate()
    settle(session)
    first = session.chat
    session.new_chat()
    ask(session, "two")
    session.open_chat(first)
    session.close()
    replay = played(path)
    same(session, replay)
    assert [said.node.state for said in replay.conversation()] == ["whole", "cut"]
    assert [len(said.records) for said in replay.conversation()] == [0, 1]


def test_a_resumed_answer_of_a_replay_is_no_part_of_the_conversation_while_it_comes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "session.jsonl"
    session, _ = recorded(path, says("a ", reason="length"), goes_on("b", resumed=1))
    ask(session, "one")
    session.resume()
    settle(session)
    session.close()
    recording = read_recording(path)
    replay = Session(lambda: ReplayEngine(recording, 0), None)
    replay.start()
    seen = []
    for update in replay.tick():
        if isinstance(update.event, TurnRequested) and update.event.request.resume:
            seen = [said.node.content for said in replay.conversation()]
            assert replay.resumed is not None
            assert replay.resumed.content == "a "
    assert seen == ["one"]
    assert spoken(replay.chat) == [("user", "one"), ("assistant", "a b")]


# ----------------------------------------------------------------------- whatever is done

ENDINGS = ("whole", "cut", "too long", "template", "stopped", "crash", "crash in prefill")

STEPS = st.lists(
    st.tuples(
        st.sampled_from(("ask", "edit", "again", "go to", "resume", "new chat", "open first")),
        st.integers(0, 30),
        st.sampled_from(ENDINGS),
    ),
    max_size=25,
)


class Endings:
    """Answers that end as they are told to; each says something new."""

    def __init__(self) -> None:
        self.next = "whole"
        self._count = 0

    def __call__(self, request: TurnRequest) -> list[Event]:
        self._count += 1
        words = f"answer {self._count}"
        if self.next in ("too long", "template"):
            kind: ErrorKind = "prompt_too_long" if self.next == "too long" else "template"
            return failed(request.turn, kind)
        if self.next == "stopped":
            return stopped(request)
        resumed = len(request.messages[-1].token_ids) if request.resume else 0
        reason = "length" if self.next == "cut" else "eog"
        events = goes_on(words, " of it", resumed=resumed, reason=reason)(request)
        # Accepted, rendered, ready, one token.
        return events[: {"crash": 4, "crash in prefill": 3}.get(self.next, len(events))]


def step(session: Session, what: str, number: int, first: Chat) -> None:
    """Do something to the session, with the message of a number."""
    nodes = session.chat.nodes()
    node = nodes[number % len(nodes)] if nodes else None
    match what:
        case "ask":
            session.send(f"question {number} after {len(nodes)}")
        case "edit" if node is not None:
            session.edit(node.id, f"edit {number} after {len(nodes)}")
        case "again":
            session.regenerate(None if node is None else node.id)
        case "go to" if node is not None:
            session.go_to(node.id)
        case "resume":
            session.resume()
        case "new chat":
            session.new_chat()
        case "open first":
            session.open_chat(first)
        case _:
            pass


@settings(max_examples=100, derandomize=True)
@given(STEPS)
def test_whatever_is_done_the_store_and_a_replay_have_the_same_tree(
    steps: list[tuple[str, int, str]],
) -> None:
    with TemporaryDirectory() as folder:
        history, path = History(Path(folder) / "chats.db"), Path(folder) / "session.jsonl"
        endings = Endings()
        engines = Engines(endings)
        session = begun(engines, history, recorder=Recorder(path))
        first = session.chat
        for what, number, endings.next in steps:
            before = shape(session.chat), ids(session.chat)
            try:
                step(session, what, number, first)
            except SessionError:
                assert (shape(session.chat), ids(session.chat)) == before
                continue
            settle(session)
            if session.busy:
                engines.last.die()
                settle(session)
            assert not session.busy
            roles = [role for role, _ in spoken(session.chat)]
            assert roles == [("user", "assistant")[at % 2] for at in range(len(roles))]
            assert [said.node for said in session.conversation()] == session.chat.path()
            if len(session.chat):
                stored = history.load_chat(session.chat.id)
                assert (shape(stored), ids(stored)) == (shape(session.chat), ids(session.chat))
        same(session, played(path))
        session.close()
