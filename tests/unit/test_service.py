"""The child's queue of requests when the client ends it."""

import io
from collections.abc import Iterator

import pytest
from llama_cpp import _logger
from llama_cpp import llama_cpp as lib

from backend.local.service import Service, _Arrived
from backend.protocol import (
    BenchRequest,
    EngineStarted,
    Event,
    LoadRequest,
    Request,
    ShutdownRequest,
)
from backend.settings import EngineSettings
from backend.wire import MessageWriter, event_reader

LOAD = LoadRequest("nowhere.gguf", EngineSettings())
BENCH = BenchRequest(n_prompt=1, n_gen=0, n_depth=0, repetitions=1)


class Child(Service):
    """A service on requests that are all there already, and its events."""

    def __init__(self, *requests: Request) -> None:
        self.written = io.BytesIO()
        asked = io.BytesIO()
        writer = MessageWriter(asked)
        for request in requests:
            writer.write(request)
        asked.seek(0)
        super().__init__(asked, self.written, io.StringIO())

    def events(self) -> list[Event]:
        self.written.seek(0)
        reader = event_reader(self.written)
        return list(iter(reader.read, None))


@pytest.fixture(autouse=True)
def _log_given_back() -> Iterator[None]:
    yield
    lib.llama_log_set(_logger.llama_log_callback, None)


@pytest.mark.parametrize("end", [(ShutdownRequest(),), ()])
def test_what_waits_when_the_end_comes_is_left_undone(end: tuple[Request, ...]) -> None:
    child = Child(LOAD, BENCH, *end)
    child._read()
    child.serve()
    assert [type(event) for event in child.events()] == [EngineStarted]


def test_an_end_that_comes_before_a_request_begins_stops_it() -> None:
    child = Child(ShutdownRequest())
    child._read()
    child._listen_to_cancel(_Arrived(LOAD, 0, 1))
    assert child._cancel.is_set
