"""The one stream of events: from the engine and the client to every reader."""

from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic
from typing import NamedTuple

import msgspec

from backend.machine import WindowSampler
from backend.metrics.live import LiveFigures
from backend.metrics.record import TurnRecord
from backend.protocol import EngineExited, EngineStarted, Event, LogLines, TurnEnded
from backend.recording import Recorder, RecordingError
from backend.session.link import EngineLink, EngineLog

SAMPLE_EVERY_S = 1.0
"""How often the machine and the window are sampled, also between turns."""


class Update(NamedTuple):
    """An event that was taken in, and the record of the turn that it ended."""

    event: Event
    record: TurnRecord | None


class EventStream:
    """Hands every event to the figures, the recording, the log and the session, in this order.

    Args:
        link: Where events of an engine come from.
        recorder: Records the stream; None records nothing.
        listener: Called with each event, after the figures know it, and a turn's record.
        samples: Whether the machine is sampled (not in a replay, whose samples are recorded).

    Attributes:
        live: The figures.
        log: What llama.cpp said.
        problem: Why the recording has ended before its time; None while all is well.
    """

    def __init__(
        self,
        link: EngineLink,
        recorder: Recorder | None,
        listener: Callable[[Event, TurnRecord | None], None],
        *,
        samples: bool,
    ) -> None:
        self._link = link
        self._recorder = recorder
        self._listener = listener
        self._samples = samples
        self.live = LiveFigures()
        self.log = EngineLog()
        self.problem: str | None = None
        self._arrived: deque[Event] = deque()
        self._updates: deque[Update] = deque()
        self._sampled_s = 0.0
        self._sampler = WindowSampler()
        self._turn_sampler = WindowSampler()

    @property
    def recording(self) -> bool:
        """Whether the stream is recorded."""
        return self._recorder is not None

    def take(self, event: Event) -> None:
        """Take one event in: every reader of the stream gets it here."""
        if isinstance(event, TurnEnded) and self._samples:
            sample = self._turn_sampler.sample(self._link.pid)
            self.take(msgspec.structs.replace(sample, turn=event.turn))
        record = self.live.apply(event)
        self._updates.append(Update(event, record))
        self._record(event)
        match event:
            case EngineStarted():
                self._link.pid = event.pid
            case EngineExited():
                self._link.pid = None
                self.log.add_tail(event.log_tail)
            case LogLines():
                self.log.add(event.lines)
            case _:
                pass
        self._listener(event, record)

    def turn_begins(self) -> None:
        """What the machine does from now on belongs to a turn."""
        self._turn_sampler.sample(self._link.pid)

    def drain(self) -> None:
        """Take in what the engine has sent."""
        for _ in self._one_by_one():
            pass

    def _one_by_one(self) -> Iterator[None]:
        """Take in what the engine has sent, pausing after each event."""
        self._arrived.extend(self._link.drain())
        while self._arrived:
            self.take(self._arrived.popleft())
            yield

    def news(self) -> Iterator[Update]:
        """What has come, each while the session is as that event left it."""
        yield from self._taken_in()
        for _ in self._one_by_one():
            yield from self._taken_in()
        self.sample()
        yield from self._taken_in()

    def _taken_in(self) -> Iterator[Update]:
        """What was taken in; what a reader does not ask for waits for the next one."""
        while self._updates:
            yield self._updates.popleft()

    def wait(self, timeout: float | None) -> None:
        """Take in what has come; if nothing has, wait for up to `timeout` seconds."""
        if not self._updates and not self._arrived:
            event = self._link.wait(timeout)
            if event is not None:
                self.take(event)
        self.drain()

    def sample(self) -> None:
        """Sample the machine and the window, if it is time."""
        now = monotonic()
        if self._samples and now - self._sampled_s >= SAMPLE_EVERY_S:
            self._sampled_s = now
            self.take(self._sampler.sample(self._link.pid))

    def updates(self) -> list[Update]:
        """What was taken in since the last call."""
        return list(self._taken_in())

    def close(self) -> None:
        """Close the recording."""
        if self._recorder is not None:
            self._recorder.close()
            self._recorder = None

    def _record(self, event: Event) -> None:
        if self._recorder is None:
            return
        try:
            self._recorder.add(event)
        except RecordingError as error:
            self.problem = str(error)
            self._recorder.close()
            self._recorder = None
