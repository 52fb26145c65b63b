"""Figures from timestamps: each value here is worked out by hand."""

import math
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.metrics.live import LiveFigures, kv_with_tokens
from backend.metrics.record import TurnRecord, short_prefill
from backend.metrics.statistics import Durations, median, percentile, rate_per_second
from backend.metrics.trace import TurnTrace, turn_record
from backend.protocol import (
    ChatMessage,
    ChatOpened,
    Event,
    KvCacheState,
    KvState,
    PrefillProgress,
    PromptReady,
    PromptRendered,
    TokenBatch,
    TurnAccepted,
    TurnEnded,
    TurnRequest,
    TurnRequested,
    WindowSample,
)
from backend.settings import SamplingSettings
from models.memory import CacheKind
from tests.fake_engine import MS, S, ready, turn_events


def requested(turn: int = 1) -> TurnRequested:
    request = TurnRequest(
        turn=turn,
        turn_id=f"turn-{turn}",
        chat_id="chat",
        messages=(ChatMessage("user", "hello"),),
        sampling=SamplingSettings(temp=0.0),
        started_at="2026-01-01T00:00:00+00:00",
    )
    return TurnRequested(request, "hello")


def record_of(events: list[Event], turn: int = 1, live: LiveFigures | None = None) -> TurnRecord:
    live = live or LiveFigures()
    live.apply(ready())
    live.apply(requested(turn))
    records = [record for event in events if (record := live.apply(event)) is not None]
    assert len(records) == 1
    return records[0]


def test_six_tokens_a_tenth_of_a_second_apart() -> None:
    record = record_of(turn_events(1, token_s=[0.5, 0.6, 0.7, 0.8, 0.9, 1.0]))
    times = record.timings
    assert times.ttft_ms == 500.0
    assert times.predicted_ms == 500.0
    assert times.predicted_per_second == pytest.approx(10.0)
    assert times.itl_ms.mean == pytest.approx(100.0)
    assert times.itl_ms.max == pytest.approx(100.0)
    assert times.e2e_ms == 1000.0
    assert times.token_ms == (500.0, 600.0, 700.0, 800.0, 900.0, 1000.0)


def test_predicted_time_is_taken_apart_without_a_rest() -> None:
    times = record_of(turn_events(1, token_s=[0.5, 0.6, 0.7])).timings
    assert times.decode_ms == pytest.approx(180.0)
    assert times.decode_sample_ms == pytest.approx(2.0)
    assert times.decode_other_ms == pytest.approx(200.0 - 180.0 - 2.0)


def test_one_token_has_no_decode_rate() -> None:
    record = record_of(turn_events(1, token_s=[0.5]))
    times = record.timings
    assert record.predicted_n == 1
    assert times.ttft_ms == 500.0
    assert times.predicted_ms is None
    assert times.predicted_per_second is None
    assert times.decode_ms is None
    assert times.decode_other_ms is None
    assert times.itl_ms.mean is None


def test_no_token_has_neither_ttft_nor_rates() -> None:
    record = record_of(turn_events(1, token_s=[], reason="cancelled"))
    assert record.timings.ttft_ms is None
    assert record.timings.prompt_per_second is None
    assert record.predicted_n == 0
    assert record.stop.reason == "cancelled"


def test_prefill_rate_counts_only_new_tokens() -> None:
    # 97,052 prompt tokens, 96,593 of them reused: 459 in 1.82 s are 252.2 a second.
    events = turn_events(1, token_s=[1.831], prefill_s=0.01, cache_n=96_593, prompt_n=459)
    record = record_of(events)
    assert record.prompt_tokens == 97_052
    assert record.timings.prompt_ms == pytest.approx(1820.0)
    assert record.timings.prompt_per_second == pytest.approx(252.2, abs=0.05)
    assert record.cache.hit_ratio == pytest.approx(96_593 / 97_052)


def test_a_prefill_of_nothing_has_no_rate() -> None:
    record = record_of(turn_events(1, token_s=[0.5, 0.6], cache_n=40, prompt_n=0))
    assert record.timings.prompt_per_second is None


def test_a_short_prefill_is_marked() -> None:
    assert short_prefill(record_of(turn_events(1, token_s=[0.5], prompt_n=31)))
    assert not short_prefill(record_of(turn_events(1, token_s=[0.5], prompt_n=32)))


def test_two_turns_do_not_add_up() -> None:
    live = LiveFigures()
    first = record_of(turn_events(1, token_s=[0.5], prompt_n=12), live=live)
    second = record_of(
        turn_events(2, token_s=[2.5], accepted_s=2.0, prompt_n=12, cache_n=20), turn=2, live=live
    )
    assert (first.prompt_n, second.prompt_n) == (12, 12)
    assert (first.timings.ttft_ms, second.timings.ttft_ms) == (500.0, 500.0)


def test_thinking_is_counted_and_ttfa_waits_for_the_answer() -> None:
    pieces = ["<think>", *["hm "] * 48, "</think>", "\n\n", *["word "] * 9]
    stamps = [0.5 + 0.1 * index for index in range(60)]
    record = record_of(turn_events(1, token_s=stamps, pieces=pieces))
    assert record.predicted_n == 60
    assert record.thinking_n == 50
    assert record.timings.ttft_ms == pytest.approx(500.0)
    # Token 50 is white space; the first word is token 51.
    assert record.timings.ttfa_ms == pytest.approx(500.0 + 51 * 100.0)
    assert record.text == "word " * 9
    assert record.thinking == "hm " * 48


def test_ttft_and_ttfa_are_one_without_thinking() -> None:
    times = record_of(turn_events(1, token_s=[0.5, 0.6])).timings
    assert times.ttfa_ms == times.ttft_ms


def test_white_space_at_the_start_is_no_answer_yet() -> None:
    record = record_of(turn_events(1, token_s=[0.5, 0.6, 0.7], pieces=["\n", "\n", "Hello"]))
    assert (record.timings.ttft_ms, record.timings.ttfa_ms) == (500.0, 700.0)


def test_a_live_prefill_shows_progress_and_what_is_left() -> None:
    live = LiveFigures()
    live.apply(ready())
    live.apply(requested())
    accepted, _, planned, *_ = turn_events(1, token_s=[9.0], prompt_n=400)
    for event in (accepted, planned):
        live.apply(event)
    # Prefill began at 10 ms; 100 of 400 tokens by 510 ms: 200/s, 1.5 s left.
    live.apply(PrefillProgress(turn=1, t_ns=510 * MS, done=100, total=400))
    state = live.snapshot(1 * S)
    assert state.phase == "prefill"
    assert state.elapsed_ms == 1000.0
    assert state.prefill_done == 100
    assert state.prefill_rate_now == pytest.approx(200.0)
    assert state.prefill_left_ms == pytest.approx(1500.0)
    assert state.kv is not None
    assert state.kv.cells_used == 100


def test_caches_of_every_kind_follow_the_tokens_of_a_turn() -> None:
    def cache(kind: CacheKind, cells: int, size: int) -> KvCacheState:
        return KvCacheState(kind, 2, cells, 0, size, size, "f16", "f16")

    before = KvState(
        cells_used=0,
        cells=1024,
        bytes_used=0,
        bytes_allocated=2 * (1024 + 768 + 100),
        bytes_per_token=2,
        caches=(cache("full", 1024, 1024), cache("swa", 768, 768), cache("recurrent", 1, 100)),
    )

    def cells(kv: KvState) -> list[tuple[int, bool]]:
        return [(c.cells_used, c.cells_used_exact) for c in kv.caches]

    some = kv_with_tokens(before, 300)
    # Every cell takes a byte for K and one for V; the recurrent state is there whole.
    assert cells(some) == [(300, True), (300, False), (1, True)]
    assert (some.cells_used, some.bytes_used) == (300, 300 * 2 + 300 * 2 + 200)
    many = kv_with_tokens(some, 900)
    assert cells(many) == [(900, True), (768, False), (1, True)]
    assert many.bytes_used == 900 * 2 + 768 * 2 + 200
    assert cells(kv_with_tokens(many, 0)) == [(0, True)] * 3
    assert kv_with_tokens(many, 0).bytes_used == 0


def test_a_record_has_the_warnings_of_the_load_that_answered() -> None:
    live = LiveFigures()
    live.apply(msgspec.structs.replace(ready(), warnings=("the context is cut",)))
    live.apply(requested())
    events = turn_events(1, token_s=[0.5])
    records = [record for event in events if (record := live.apply(event)) is not None]
    assert [record.warnings for record in records] == [("the context is cut",)]


def test_the_sample_of_a_turn_is_for_its_record_alone() -> None:
    live = LiveFigures()
    *events, last = turn_events(1, token_s=[0.5])
    live.apply(ready())
    live.apply(requested())
    for event in events:
        live.apply(event)
    running = WindowSample(2.5, 20.0, 1, "mains")
    live.apply(running)
    over_the_turn = WindowSample(
        40.0, 90.0, 1, "mains", turn=1, engine_cpu_percent=120.0, others_cpu_percent=20.0
    )
    live.apply(over_the_turn)
    record = live.apply(last)
    assert record is not None
    machine = record.machine
    assert (machine.ui_cpu_percent, machine.cpu_percent) == (40.0, 90.0)
    assert (machine.engine_cpu_percent, machine.others_cpu_percent) == (120.0, 20.0)
    assert live.snapshot(S).window == running
    # The next turn has none of its own: recordings of earlier versions are like that.
    following = record_of(turn_events(2, token_s=[0.5]), 2, live)
    assert following.machine.cpu_percent == 20.0


def test_the_rolling_rate_follows_the_last_two_seconds() -> None:
    live = LiveFigures()
    live.apply(ready())
    live.apply(requested())
    slow = [0.5 + 0.5 * index for index in range(8)]
    fast = [slow[-1] + 0.002 * index for index in range(1, 1501)]
    for event in turn_events(1, token_s=slow + fast)[:-1]:
        live.apply(event)
    state = live.snapshot(10 * S)
    assert state.rolling_rate == pytest.approx(500.0, rel=1e-3)
    assert state.timings.predicted_per_second == pytest.approx(1507 / (fast[-1] - 0.5), rel=1e-6)


def test_another_chat_begins_with_empty_totals_and_the_same_chat_keeps_them() -> None:
    live = LiveFigures()
    live.apply(ChatOpened("one", "", ()))
    record_of(turn_events(1, token_s=[0.5, 0.6], cache_n=10, prompt_n=30), live=live)
    live.apply(ChatOpened("one", "", ()))
    assert live.snapshot(0).totals.hit_ratio == pytest.approx(0.25)
    live.apply(ChatOpened("two", "", ()))
    assert live.snapshot(0).totals.hit_ratio is None
    assert live.snapshot(0).bars == ()


def test_the_first_turn_after_a_load_and_short_prefills_stay_out_of_the_session_rate() -> None:
    live = LiveFigures()
    record_of(turn_events(1, token_s=[1.011], prompt_n=100, first_after_load=True), live=live)
    record_of(turn_events(2, token_s=[1.011], prompt_n=31), turn=2, live=live)
    record_of(turn_events(3, token_s=[1.011], prompt_n=300), turn=3, live=live)
    assert live.snapshot(0).session_prompt_per_second == pytest.approx(300.0)


def test_percentiles_interpolate_between_neighbours() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.95) == pytest.approx(3.85)
    assert percentile([7.0], 0.99) == 7.0
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 0.5)
    assert median([]) is None


@given(st.lists(st.floats(0.001, 1e5), min_size=1, max_size=60))
def test_a_spread_is_ordered_and_true_to_its_values(values: list[float]) -> None:
    durations = Durations()
    for value in values:
        durations.add(value)
    spread = durations.spread()
    assert spread.max == max(values)
    assert spread.mean == pytest.approx(sum(values) / len(values))
    assert spread.p50 is not None
    assert spread.p95 is not None
    assert spread.p99 is not None
    assert min(values) <= spread.p50 <= spread.p95 <= spread.p99 <= max(values)


@given(st.integers(0, 10**6), st.integers(0, 10**12))
def test_rate_times_time_is_the_count(count: int, duration_ns: int) -> None:
    rate = rate_per_second(count, duration_ns)
    if count == 0 or duration_ns == 0:
        assert rate is None
    else:
        assert rate is not None
        assert math.isclose(rate * duration_ns / S, count, rel_tol=1e-9)


# ------------------------------------------------------------- an answer that is gone on with


def resumed(told: str, pieces: list[str], drop_chars: int = 0, lead: str = "") -> TurnTrace:
    """A turn that goes on with `told`, which had the tokens 36 to 39 of the prompt."""
    asked = requested().request
    request = msgspec.structs.replace(
        asked, resume=True, messages=(*asked.messages, ChatMessage("assistant", told))
    )
    trace = TurnTrace(TurnRequested(request, None))
    events = turn_events(
        1,
        token_s=[0.5 + index / 10 for index in range(len(pieces))],
        pieces=pieces,
        lead=lead,
        drop_chars=drop_chars,
        resumed_n=4,
    )
    for event in events:
        if not isinstance(event, PromptRendered):
            trace.add(cast("TurnAccepted | PromptReady | TokenBatch | TurnEnded", event))
    return trace


def test_the_whole_of_an_answer_that_was_gone_on_with() -> None:
    trace = resumed("the sk\ufffd", ["y", " is"], drop_chars=1)
    assert trace.content == "the sky is"
    assert trace.raw_text == "y is"
    assert trace.answer_ids == (36, 37, 38, 39, 1000, 1001)
    record = turn_record(trace, ready(), None)
    assert (record.text, record.predicted_n) == ("y is", 2)


def test_what_is_dropped_stays_until_something_comes() -> None:
    assert resumed("the sk\ufffd", [], drop_chars=1).content == "the sk\ufffd"
    # A stop string was completed by the first token, and nothing is left of it.
    assert resumed("so EN", [""], drop_chars=2).content == "so "


def test_the_state_of_thinking_goes_across_the_cut() -> None:
    trace = resumed("<think>let", [" me", "</thi", "nk>", "\n\n", "It"])
    record = turn_record(trace, ready(), None)
    assert (record.thinking, record.text, record.thinking_n) == (" me", "It", 3)
    assert record.timings.ttfa_ms == pytest.approx(900.0)
    # The cut went through the marker, or the prompt had opened the thinking.
    assert turn_record(resumed("<thi", ["nk>", "a"]), ready(), None).thinking == "a"
    opened = turn_record(resumed("let", [" me"], lead="<think>\n"), ready(), None)
    assert (opened.thinking, opened.text) == (" me", "")


def test_white_space_is_dropped_only_where_the_answer_begins() -> None:
    after_thinking = resumed("<think>a</think>", ["\n\n", "It"])
    assert turn_record(after_thinking, ready(), None).text == "It"
    within = resumed("<think>a</think>It", [" ", "is"])
    assert turn_record(within, ready(), None).text == " is"


def test_a_record_names_all_sampling_settings() -> None:
    sampling = SamplingSettings(
        temp=0.7, typical_p=0.9, repeat_last_n=-1, presence_penalty=0.5, seed=3, stop=("END",)
    )
    request = msgspec.structs.replace(requested().request, sampling=sampling)
    trace = TurnTrace(TurnRequested(request, "hello"))
    trace.add(cast("TurnEnded", turn_events(1, token_s=[])[-1]))
    record = turn_record(trace, ready(), None)
    assert msgspec.to_builtins(record.sampling) == {
        "temp": 0.7,
        "top_k": 40,
        "top_p": 0.95,
        "min_p": 0.05,
        "repeat_penalty": 1.0,
        "seed": 3,
        "max_tokens": None,
        "typical_p": 0.9,
        "xtc_probability": 0.0,
        "xtc_threshold": 0.1,
        "repeat_last_n": -1,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.0,
        "stop": ("END",),
    }
