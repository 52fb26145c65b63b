"""The way to an engine: one at a time, started, lost and started again."""

from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter_ns

from backend.engine import Engine, EngineError
from backend.protocol import Event, LoadCause, LoadRequest, Request
from backend.session.choice import ModelChoice
from models.starter import starter_path

LOG_LINES_KEPT = 2_000


class EngineLink:
    """Holds the engine of a session, and starts another when one has died.

    Args:
        make_engine: Starts an engine.

    Attributes:
        loads: Loads that were asked for and have not come to an end.
        pid: Process of the engine; None while there is none.
    """

    def __init__(self, make_engine: Callable[[], Engine]) -> None:
        self._make_engine = make_engine
        self._engine: Engine | None = None
        self.loads = 0
        self.pid: int | None = None

    @property
    def alive(self) -> bool:
        """Whether an engine takes requests."""
        return self._engine is not None and self._engine.alive

    def now_ns(self) -> int:
        """The clock of the engine's events; this process's while there is no engine."""
        return perf_counter_ns() if self._engine is None else self._engine.now_ns()

    def start(self) -> None:
        """Start an engine, without loading anything.

        Raises:
            EngineError: It cannot be started.
        """
        self._engine = self._make_engine()

    def load(self, choice: ModelChoice, template: str | None, cause: LoadCause) -> None:
        """Load a model, in a new engine if the old one is gone.

        Args:
            choice: The model.
            template: The chat template to use; None: the model's own.
            cause: Why it is loaded.

        Raises:
            EngineError: There is no model, or no engine can be started or reached.
        """
        path = choice.path or starter_path()
        if path is None:
            # Needed only then; it reads how this was installed.
            from backend.first_aid import no_model_here  # noqa: PLC0415

            raise EngineError(no_model_here(in_window=True).sentence)
        if not self.alive:
            self.loads = 0
            self.start()
        self.send(
            LoadRequest(
                model_path=str(path),
                settings=choice.settings,
                cause=cause,
                chat_template=template,
                available_bytes=choice.available_bytes,
            )
        )
        self.loads += 1

    def load_ended(self) -> None:
        """A load came to an end, well or not."""
        self.loads = max(0, self.loads - 1)

    def send(self, request: Request) -> None:
        """Hand a request over.

        Raises:
            EngineError: There is no engine, or it does not run.
        """
        if self._engine is None:
            raise EngineError("no engine runs")
        self._engine.send(request)

    def drain(self) -> list[Event]:
        """All events that have come, without waiting."""
        return [] if self._engine is None else self._engine.drain()

    def wait(self, timeout: float | None) -> Event | None:
        """The next event; None if none came within `timeout` seconds."""
        return None if self._engine is None else self._engine.wait(timeout)

    def close(self) -> None:
        """End the engine; what it still said can be drained."""
        if self._engine is not None:
            self._engine.close()


class EngineLog:
    """What llama.cpp said, the newest lines."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LOG_LINES_KEPT)
        self.total = 0

    def add(self, lines: Sequence[str]) -> None:
        """Add lines."""
        self._lines.extend(lines)
        self.total += len(lines)

    def add_tail(self, tail: Sequence[str]) -> None:
        """Add an engine's last lines, but for those that had come before it ended."""
        end = list(self._lines)[-len(tail) :] if tail else []
        known = next((n for n in range(len(end), 0, -1) if end[-n:] == list(tail[:n])), 0)
        self.add(tail[known:])

    def since(self, seen: int) -> list[str]:
        """The lines after the first `seen` ones, as far as they are kept."""
        fresh = min(self.total - seen, len(self._lines))
        return list(self._lines)[len(self._lines) - fresh :]
