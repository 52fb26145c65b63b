"""The one interface that every engine offers to its clients."""

from typing import Protocol

from backend.protocol import Event, Request


class EngineError(Exception):
    """An engine could not be started or reached; the text is one clear sentence."""


class RequestError(EngineError):
    """A request cannot be sent as it is; the engine itself is well."""


class Engine(Protocol):
    """Takes requests and gives a stream of events.

    The stream is pulled: a client drains it a few times a second, or waits for the next event.
    """

    def send(self, request: Request) -> None:
        """Hand a request over.

        Raises:
            EngineError: The engine is not running.
        """

    def drain(self) -> list[Event]:
        """All events that have come since the last call, without waiting."""

    def wait(self, timeout: float | None = None) -> Event | None:
        """The next event; None if none came within `timeout` seconds."""

    def now_ns(self) -> int:
        """The clock of the events' `t_ns`, now."""

    @property
    def alive(self) -> bool:
        """Whether the engine takes requests."""

    def close(self) -> None:
        """End the engine and free what it holds."""
