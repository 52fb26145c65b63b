"""Sessions on file: what was recorded is played back exactly, and damage is named."""

import json
from pathlib import Path

import pytest

from backend import replay
from backend.engine import EngineError
from backend.metrics.record import TurnRecord
from backend.protocol import (
    CancelRequest,
    ChatOpened,
    EngineStarted,
    Event,
    LoadProgress,
    LogLines,
    TurnRequest,
)
from backend.recording import Header, Line, Recorder, Recording, RecordingError, read_recording
from backend.replay import ReplayEngine
from backend.session import Session
from tests.fake_engine import MS, S, failed, started, turn_events
from tests.unit.sessions import Engines, ask, begun, in_turn, settle

STARTED_AT = "2026-01-01T00:00:00.000+00:00"


def thoughtful(request: TurnRequest) -> list[Event]:
    return turn_events(
        request.turn,
        token_s=[10.5, 10.7, 11.1, 11.2],
        pieces=["<think>", "hm", "</think>", "☺️ \u2028 \x1b[2J 漢字"],
        accepted_s=10.0,
        cache_n=30,
        prompt_n=12,
        first_after_load=True,
    )


def recorded(path: Path) -> tuple[list[TurnRecord], list[Event]]:
    """Record a session of three turns; its records and all its events."""
    engines = Engines(
        in_turn(
            thoughtful,
            lambda request: turn_events(request.turn, token_s=[1.0 / 3.0], prompt_n=100),
            lambda request: failed(request.turn, "prompt_too_long"),
        )
    )
    session = Session(engines, begun(Engines()).model, recorder=Recorder(path))
    session.start()
    updates = settle(session)
    for text in ("one", "two", "three"):
        session.send(text)
        updates += settle(session)
    session.close()
    return [update.record for update in updates if update.record], [u.event for u in updates]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def test_a_replay_gives_the_very_same_records(path: Path) -> None:
    made, events = recorded(path)
    assert [record.stop.reason for record in made] == ["length", "length", "error"]
    recording = read_recording(path)
    assert [line.event for line in recording.lines] == events

    player = Session(lambda: ReplayEngine(recording, speed=0), None)
    player.start()
    played = settle(player)
    assert [update.record for update in played if update.record] == made
    assert [update.event for update in played] == events
    assert not player.busy
    player.close()


def test_a_recording_begins_with_the_chat_and_its_times_never_go_back(path: Path) -> None:
    recorded(path)
    recording = read_recording(path)
    assert isinstance(recording.lines[0].event, ChatOpened)
    assert isinstance(recording.lines[1].event, EngineStarted)
    times = [line.at_ns for line in recording.lines]
    assert times == sorted(times)
    assert times[0] >= 0


def test_each_line_is_json_by_itself(path: Path) -> None:
    recorded(path)
    header, *lines = path.read_text(encoding="utf-8").split("\n")
    assert json.loads(header)["phasescope_recording"] == 1
    assert lines.pop() == ""
    assert {"TurnRequested", "TokenBatch", "TurnEnded"} <= {
        json.loads(line)["event"]["type"] for line in lines
    }


def test_a_cut_last_line_is_left_out(path: Path) -> None:
    recorded(path)
    whole = read_recording(path)
    data = path.read_bytes()
    last = data.rstrip(b"\n").rfind(b"\n") + 1
    for end in (last, last + 1, len(data) - 2):
        path.write_bytes(data[:end])
        assert read_recording(path).lines == whole.lines[:-1]


def test_a_recording_of_nothing_is_empty(path: Path) -> None:
    Recorder(path).close()
    assert read_recording(path).lines == ()


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{}",
        b"nonsense",
        b'{"at_ns": 1, "event": {"type": "Unheard"}}',
        b"\xff\xfe",
        b"[" * 9999,
    ],
    ids=["blank", "empty", "no json", "unheard", "no text", "deep"],
)
def test_a_damaged_line_is_named_with_its_number(damage: bytes, path: Path) -> None:
    recorded(path)
    lines = path.read_bytes().split(b"\n")
    # Counted from 1 as editors do; the header is line 1.
    lines[3] = damage
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(RecordingError, match=r"session\.jsonl, line 4: "):
        read_recording(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"GGUF\x03\x00\x00\x00",
        b"<!DOCTYPE html>\n<html>",
        b"{}\n",
        b"[" * 100_000,
        b'{"phasescope_recording": "one"}\n',
        b'{"phasescope_recording": 1}\n',
    ],
    ids=["empty", "blank", "gguf", "html", "object", "deep", "version", "half"],
)
def test_what_is_no_recording_is_named(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=r"session\.jsonl is not a phasescope recording"):
        read_recording(path)


@pytest.mark.parametrize(
    "header", ['{"phasescope_recording": 2}', '{"phasescope_recording": 0, "t0": 1}']
)
def test_another_version_is_refused_whatever_else_its_header_holds(header: str, path: Path) -> None:
    path.write_text(header + "\n")
    with pytest.raises(RecordingError, match=r"recording format [02]; this phasescope reads 1"):
        read_recording(path)


def test_a_file_that_is_there_is_not_overwritten(path: Path) -> None:
    path.write_bytes(b"precious")
    with pytest.raises(RecordingError, match="exists already; name another file"):
        Recorder(path)
    assert path.read_bytes() == b"precious"


def test_a_file_that_cannot_be_written_or_read_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere" / "session.jsonl"
    with pytest.raises(RecordingError, match=r"session\.jsonl cannot be written: No such file"):
        Recorder(missing)
    with pytest.raises(RecordingError, match=r"session\.jsonl cannot be read: No such file"):
        read_recording(missing)


def test_a_recording_ends_when_the_session_does_in_mid_answer(path: Path) -> None:
    engines = Engines(lambda request: thoughtful(request)[:5])
    session = begun(engines, recorder=Recorder(path))
    session.send("hello")
    settle(session)
    session.close()
    player = Session(lambda: ReplayEngine(read_recording(path), speed=0), None)
    player.start()
    (record,) = (update.record for update in settle(player) if update.record)
    assert (record.stop.reason, record.predicted_n) == ("cancelled", 2)


# -------------------------------------------------------------------------------- pace


class Clock:
    """Time that passes only when it is slept away or set."""

    def __init__(self) -> None:
        self.now_ns = 5 * S
        self.slept_s: list[float] = []

    def perf_counter_ns(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.now_ns += round(seconds * S)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(replay, "perf_counter_ns", clock.perf_counter_ns)
    monkeypatch.setattr(replay, "sleep", clock.sleep)
    return clock


EVENTS: list[Event] = [started(), LoadProgress(0.5), LogLines(("done",))]
TINY = Recording(
    Header(1, STARTED_AT, 900 * S),
    tuple(Line(at_ns, event) for at_ns, event in zip([0, 100 * MS, 300 * MS], EVENTS, strict=True)),
)


@pytest.mark.parametrize("speed", [0.5, 1.0, 4.0])
def test_events_come_when_they_are_due_at_any_speed(speed: float, clock: Clock) -> None:
    engine = ReplayEngine(TINY, speed)
    assert engine.drain() == EVENTS[:1]
    begun_ns = clock.now_ns
    clock.now_ns = begun_ns + round(99 * MS / speed)
    assert engine.drain() == []
    clock.now_ns = begun_ns + round(101 * MS / speed)
    assert engine.now_ns() == pytest.approx(900 * S + 101 * MS, abs=10)
    assert engine.drain() == EVENTS[1:2]
    assert engine.alive
    clock.now_ns = begun_ns + round(9 * S / speed)
    assert engine.drain() == EVENTS[2:]
    assert not engine.alive


def test_waiting_sleeps_until_the_next_event_is_due(clock: Clock) -> None:
    engine = ReplayEngine(TINY, speed=2.0)
    assert [engine.wait() for _ in range(4)] == [*EVENTS, None]
    assert clock.slept_s == pytest.approx([0.0, 0.05, 0.1])


def test_waiting_no_longer_than_asked(clock: Clock) -> None:
    engine = ReplayEngine(TINY, speed=1.0)
    assert engine.wait(1.0) == EVENTS[0]
    assert engine.wait(0.03) is None
    assert engine.wait(0.08) == EVENTS[1]
    assert clock.slept_s == pytest.approx([0.0, 0.03, 0.07])


def test_speed_0_gives_all_at_once(clock: Clock) -> None:
    engine = ReplayEngine(TINY, speed=0)
    assert engine.now_ns() == 900 * S + 300 * MS
    assert engine.wait() == EVENTS[0]
    assert engine.drain() == EVENTS[1:]
    assert sum(clock.slept_s) == 0


def test_a_playback_takes_no_requests_and_can_be_stopped() -> None:
    engine = ReplayEngine(TINY)
    with pytest.raises(EngineError, match="takes no CancelRequest messages"):
        engine.send(CancelRequest(1))
    engine.close()
    assert not engine.alive
    assert engine.drain() == []
    assert engine.wait(1.0) is None


def test_a_paced_replay_shows_a_running_prefill(path: Path, clock: Clock) -> None:
    engines = Engines(lambda request: turn_events(request.turn, token_s=[1.0], prefill_s=0.5))
    session = begun(engines, recorder=Recorder(path))
    ask(session, "hello")
    session.close()
    recording = read_recording(path)
    # Played a thousand times slower, the prompt is ready and no token has come yet.
    planned = next(n for n, line in enumerate(recording.lines) if "PromptReady" in repr(line))
    player = Session(lambda: ReplayEngine(recording, speed=0.001), None)
    player.start()
    list(player.tick())
    clock.now_ns += recording.lines[planned].at_ns * 1000 + 1000
    list(player.tick())
    assert player.snapshot().phase == "prefill"
    clock.now_ns += recording.lines[-1].at_ns * 1000 + 1000
    list(player.tick())
    assert player.snapshot().phase == "idle"
