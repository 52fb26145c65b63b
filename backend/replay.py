"""A recording played back: an engine that says again what another one said, at its pace."""

from time import perf_counter_ns, sleep

from backend.engine import EngineError
from backend.protocol import Event, Request
from backend.recording import Recording

NS_PER_S = 1_000_000_000


class ReplayEngine:
    """Plays a recording; implements `backend.engine.Engine`, but takes no requests.

    Args:
        recording: What is played.
        speed: How much faster than it was; 0 gives everything at once.
    """

    def __init__(self, recording: Recording, speed: float = 1.0) -> None:
        self._lines = recording.lines
        self._t0_ns = recording.header.t0_ns
        self._speed = speed
        self._next = 0
        self._started_ns: int | None = None

    @property
    def alive(self) -> bool:
        """Whether there is more to come."""
        return self._next < len(self._lines)

    def send(self, request: Request) -> None:
        """Refuse.

        Raises:
            EngineError: Always.
        """
        raise EngineError(
            f"a recording is played back; it takes no {type(request).__name__} messages"
        )

    def now_ns(self) -> int:
        """The recorded engine's clock at this moment of the playback."""
        return self._t0_ns + self._played_ns()

    def drain(self) -> list[Event]:
        """The events that are due."""
        due = self._played_ns()
        events: list[Event] = []
        while self.alive and (self._speed == 0 or self._lines[self._next].at_ns <= due):
            events.append(self._lines[self._next].event)
            self._next += 1
        return events

    def wait(self, timeout: float | None = None) -> Event | None:
        """The next event when it is due; None at the end, or if none is within `timeout`."""
        if not self.alive:
            return None
        line = self._lines[self._next]
        left_s = (line.at_ns - self._played_ns()) / NS_PER_S / self._speed if self._speed else 0.0
        if timeout is not None and left_s > timeout:
            sleep(timeout)
            return None
        sleep(max(0.0, left_s))
        self._next += 1
        return line.event

    def close(self) -> None:
        """Stop playing."""
        self._next = len(self._lines)

    def _played_ns(self) -> int:
        """How much of the recording's time has passed."""
        if self._speed == 0:
            return self._lines[-1].at_ns if self._lines else 0
        if self._started_ns is None:
            self._started_ns = perf_counter_ns()
        return int((perf_counter_ns() - self._started_ns) * self._speed)
