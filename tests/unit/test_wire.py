"""Messages as bytes, and bytes that are no messages."""

import io
import struct
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend import wire
from backend.protocol import (
    BenchEnded,
    BenchRequest,
    BenchSample,
    CacheDropped,
    CancelRequest,
    ChatMessage,
    ChatOpened,
    CountRequest,
    DropCacheRequest,
    EngineExited,
    Event,
    LoadFailed,
    LoadProgress,
    LoadRequest,
    LogLines,
    ModelRead,
    PerfCounters,
    PrefillProgress,
    PromptCounted,
    Request,
    ShutdownRequest,
    TemplateRuns,
    TokenBatch,
    TurnEnded,
    TurnRequest,
    TurnRequested,
    WindowSample,
)
from backend.settings import EngineSettings, SamplingSettings
from backend.wire import LONGEST, MessageWriter, WireError, event_reader, request_reader
from tests.fake_engine import kv, ready, started, turn_events
from tests.unit.headers import llama_header

MESSAGES = (
    ChatMessage("system", "be kind"),
    ChatMessage("assistant", "☺️ 漢字\x1b[2J\x00", (0, 65_536, -1), "assistant\n"),
    ChatMessage("user", ""),
)
REQUEST = TurnRequest(
    turn=3,
    turn_id="id",
    chat_id="chat",
    messages=MESSAGES,
    sampling=SamplingSettings(temp=0.1, seed=(1 << 32) - 1, stop=("a", "b")),
    started_at="2026-01-01T00:00:00+00:00",
    continues=True,
    cancel_after_tokens=4,
    cancel_at_prompt_token=0,
)
REQUESTS: list[Request] = [
    LoadRequest(
        "/модель 漢字.gguf", EngineSettings(n_ctx=512), "model_changed", "{{ x }}", 1 << 40
    ),
    REQUEST,
    CountRequest(3, "chat", MESSAGES, continues=True),
    CancelRequest(7),
    CancelRequest(),
    DropCacheRequest(),
    BenchRequest(n_prompt=512, n_gen=0, n_depth=0, repetitions=5),
    ShutdownRequest(),
]
ENDED = TurnEnded(
    turn=1,
    t_ns=1 << 62,
    reason="error",
    detail="it failed",
    kind="engine",
    prompt_ns=None,
    decode_ns=None,
    decode_sample_ns=None,
    prompt_done=None,
    kv=None,
    tail="rest",
    perf=PerfCounters(1.5, 2, 3.25, 4),
    engine_rss_bytes=1 << 33,
    major_faults=0,
)
EVENTS: list[Event] = [
    started(),
    ModelRead(llama_header(), 4096, 10**9, 10**10, need_template=True, warnings=("w",)),
    LoadProgress(0.25),
    ready(),
    LoadFailed("no", need_template=True),
    EngineExited(expected=False, message="gone", log_tail=("a", "b"), kind="template"),
    LogLines(("one", "")),
    ChatOpened("chat", "title", MESSAGES),
    TurnRequested(REQUEST, None),
    *turn_events(2, token_s=[0.5, 0.6], cache_n=7, first_after_load=True),
    PrefillProgress(turn=1, t_ns=2, done=3, total=4),
    ENDED,
    TemplateRuns(running=True),
    PromptCounted(3, 4, 40, 30, 10, 4096, problem="no"),
    CacheDropped(cells=9, kv=kv(0)),
    BenchSample(n_prompt=512, n_gen=0, n_depth=0, ns=10**9),
    BenchEnded(cancelled=True),
    BenchEnded(cancelled=False, error="no model is loaded"),
    WindowSample(1.5, None, None, "battery"),
    WindowSample(None, 99.5, 1 << 33, None, turn=3),
]


def written(*messages: Event | Request) -> bytes:
    stream = io.BytesIO()
    writer = MessageWriter(stream)
    for message in messages:
        writer.write(message)
    return stream.getvalue()


def test_these_are_all_messages_of_the_protocol() -> None:
    assert {type(message) for message in REQUESTS} == set(get_args(Request))
    assert {type(message) for message in EVENTS} == set(get_args(Event))


def test_every_request_comes_through() -> None:
    reader = request_reader(io.BytesIO(written(*REQUESTS)))
    assert [reader.read() for _ in REQUESTS] == REQUESTS
    assert reader.read() is None


def test_every_event_comes_through() -> None:
    reader = event_reader(io.BytesIO(written(*EVENTS)))
    assert [reader.read() for _ in EVENTS] == EVENTS
    assert reader.read() is None


def test_a_frame_is_a_little_endian_length_and_a_tagged_body() -> None:
    data = written(CancelRequest(5))
    (length,) = struct.unpack("<I", data[:4])
    assert length == len(data) - 4
    assert msgspec.msgpack.decode(data[4:]) == {"type": "CancelRequest", "turn": 5}


IDS = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20)


@given(st.text(), st.text(), IDS, st.integers(0, 2**63 - 1))
def test_any_text_and_any_numbers_come_through(
    text: str, lead: str, ids: list[int], t_ns: int
) -> None:
    request = msgspec.structs.replace(
        REQUEST, messages=(ChatMessage("user", text), ChatMessage("assistant", lead, tuple(ids)))
    )
    batch = TokenBatch(1, tuple(ids), (t_ns,) * len(ids), (text,) * len(ids))
    assert request_reader(io.BytesIO(written(request))).read() == request
    assert event_reader(io.BytesIO(written(batch))).read() == batch


class Dripping(io.BytesIO):
    """A pipe that gives a byte at a time, as it may."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(1, size or 0))


def test_a_pipe_that_gives_little_at_a_time_is_read_on() -> None:
    reader = event_reader(Dripping(written(*EVENTS)))
    assert [reader.read() for _ in EVENTS] == EVENTS
    assert reader.read() is None


def test_a_stream_that_ends_in_a_frame_is_at_its_end() -> None:
    whole = written(LoadProgress(0.5))
    data = whole + written(LogLines(("a line",)))
    for end in range(len(whole), len(data)):
        reader = event_reader(io.BytesIO(data[:end]))
        assert reader.read() == LoadProgress(0.5)
        assert reader.read() is None


def frame(body: bytes) -> bytes:
    return struct.pack("<I", len(body)) + body


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"llama_kv_cache: size = 45.00 MiB",
        msgspec.msgpack.encode({"type": "Unheard"}),
        msgspec.msgpack.encode({"type": "LoadProgress"}),
        msgspec.msgpack.encode({"type": "LoadProgress", "fraction": "half"}),
        msgspec.msgpack.encode({"type": "CancelRequest", "turn": 1}),
        b"\x82\xa4type\xa8LogLines\xa5lines\x91\xa1\xff",
        b"\x91" * 100_000,
    ],
    ids=["nothing", "byte", "log", "unheard", "bare", "wrong", "request", "no text", "deep"],
)
def test_a_body_that_is_no_event_is_named(body: bytes) -> None:
    reader = event_reader(io.BytesIO(frame(body) + written(LoadProgress(1.0))))
    with pytest.raises(WireError, match=f"a message of {len(body)} bytes is not of the protocol"):
        reader.read()
    # The frame is over; the next one can be read.
    assert reader.read() == LoadProgress(1.0)


def test_a_length_that_can_be_none_is_refused_without_waiting_for_so_much() -> None:
    # "llam" as a length: 1.8 GB.
    reader = event_reader(io.BytesIO(b"llama_model_loader: loaded meta data"))
    with pytest.raises(WireError, match="longer than any"):
        reader.read()
    assert struct.unpack("<I", b"llam")[0] > LONGEST


def test_what_is_too_long_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LONGEST", 1000)
    stream = io.BytesIO()
    with pytest.raises(WireError, match=r"a LogLines of 1,\d\d\d bytes is too long"):
        MessageWriter(stream).write(LogLines(("x" * 1000,)))
    assert stream.getvalue() == b""


def test_what_is_no_unicode_is_not_sent() -> None:
    stream = io.BytesIO()
    with pytest.raises(WireError, match="a LoadRequest holds text that is not Unicode"):
        MessageWriter(stream).write(LoadRequest("/models/\udcff.gguf", EngineSettings()))
    assert stream.getvalue() == b""


def test_a_number_that_no_frame_can_hold_is_not_sent() -> None:
    stream = io.BytesIO()
    with pytest.raises(WireError, match="a LoadRequest holds a number that is too large"):
        MessageWriter(stream).write(LoadRequest("/m.gguf", EngineSettings(n_ctx=10**30)))
    assert stream.getvalue() == b""
