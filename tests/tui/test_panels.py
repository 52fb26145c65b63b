"""The panels as pure drawings of a state."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.metrics.live import ChatTotals, LiveFigures, Snapshot
from backend.protocol import (
    CacheOutcome,
    KvCacheState,
    PrefillProgress,
    TurnRequest,
    TurnRequested,
)
from backend.settings import SamplingSettings
from tests.fake_engine import S, kv, ready, started, turn_events
from tui.figures import DASH
from tui.panels import PANELS, cache_hits, kv_cache, phases, tokens, ttft
from tui.panels.drawing import Drawing, Role, bar, columns, line_width, paragraphs
from tui.widgets.header import header_line
from tui.widgets.strip import strip_lines

NARROWEST = 24
"""Columns inside a panel at the narrowest dashboard; PHASES has those of two panels."""

REQUEST = TurnRequest(1, "id", "chat", (), SamplingSettings(), "2026-01-01T00:00:00+00:00")


def text(drawing: Drawing) -> str:
    """A drawing's characters."""
    return "\n".join("".join(span.text for span in line) for line in drawing.lines)


def answered(**turn: object) -> Snapshot:
    """The state after one turn of tokens at 0.5, 0.6 … 1.0 s."""
    live = LiveFigures()
    live.apply(started())
    live.apply(ready())
    live.apply(TurnRequested(REQUEST, "Hi"))
    for event in turn_events(1, token_s=[0.5, 0.6, 0.7, 0.8, 0.9, 1.0], **turn):  # type: ignore[arg-type]
        live.apply(event)
    return live.snapshot(2 * S)


def halfway() -> Snapshot:
    """The state with a quarter of 40 tokens prefilled, 110 ms after acceptance."""
    live = LiveFigures()
    live.apply(ready())
    live.apply(TurnRequested(REQUEST, "Hi"))
    for event in turn_events(1, token_s=[0.5], cache_n=60, prompt_n=40)[:3]:
        live.apply(event)
    live.apply(PrefillProgress(1, S // 10 + S // 100, 10, 40))
    return live.snapshot(S // 10 + S // 100)


def test_phases_show_progress_and_time_left_of_a_prefill() -> None:
    # Inside a batch both are estimates.
    drawn = text(phases.draw(halfway(), 60, 10))
    # 10 tokens took 100 ms, so the other 30 take 300 ms.
    assert "≈10/40 tok  ≈300 ms left" in drawn
    assert "░" in drawn
    assert "▓" in drawn


def test_ttft_counts_up_while_prefill_runs() -> None:
    assert "110 ms …" in text(ttft.draw(halfway(), 30, 8))


def test_ttft_is_taken_apart_into_its_five_parts() -> None:
    drawn = text(ttft.draw(answered(), 40, 8)).split("\n")
    assert drawn[0].startswith("500 ms")
    assert [line.split()[0] for line in drawn[1:]] == [
        "render",
        "tokenize",
        "cache",
        "prefill",
        "sample",
    ]
    times = [" ".join(line.split()[-2:]) for line in drawn[1:]]
    assert times == ["4.0 ms", "2.0 ms", "1.0 ms", "489 ms", "1.0 ms"]
    prefill, sample = drawn[4], drawn[5]
    assert prefill.count("▓") > 20
    assert sample.index("█") >= prefill.rindex("▓")


def test_tokens_show_the_rate_and_the_gaps() -> None:
    drawn = text(tokens.draw(answered(), 40, 10))
    assert drawn.startswith("10.0/s")
    assert "p50 100 ms  p95 100 ms" in drawn
    assert "p99 100 ms  max 100 ms" in drawn


def test_a_short_prefill_rate_is_marked() -> None:
    assert "≈" in text(tokens.draw(answered(prompt_n=31), 40, 10))
    assert "≈" not in text(tokens.draw(answered(prompt_n=32), 40, 10))


def test_kv_shows_cells_and_bytes_of_k_and_v() -> None:
    state = msgspec.structs.replace(answered(), kv=kv(1024))
    drawn = text(kv_cache.draw(state, 30, 10))
    assert "1,024/4,096 cells" in drawn
    assert "1.0/4.0 MiB" in drawn
    assert "1.0 KiB a token" in drawn
    assert drawn.count("512.0/2.0 MiB") == 0
    assert drawn.count("0.5/2.0 MiB") == 2


def test_kv_shows_each_of_several_caches_and_marks_estimates() -> None:
    window = KvCacheState("swa", 15, 1024, 600, 3 << 20, 3 << 20, "f16", "q8_0", False)
    both = msgspec.structs.replace(kv(2048), caches=(kv(2048).caches[0], window))
    drawn = text(kv_cache.draw(msgspec.structs.replace(answered(), kv=both), 60, 10))
    assert "full   2,048/4,096 ×8 4.0 MiB f16/f16" in drawn
    assert "window ≈600/1,024 ×15 6.0 MiB f16/q8_0" in drawn


def test_cache_hits_say_what_was_reused_and_why_not_more() -> None:
    state = answered(cache_n=60, prompt_n=40)
    broken = CacheOutcome("system_changed", 12, 12, 48, "a cat\n", "a dog", hint="a hint")
    state = msgspec.structs.replace(state, cache=broken, saved_ms=600.0, totals=ChatTotals(60, 140))
    drawn = text(cache_hits.draw(state, 40, 12))
    assert "reused 60 · new 40" in drawn
    assert "60%" in drawn
    assert "saved ≈ 600 ms" in drawn
    assert "chat 60 of 200 · 30%" in drawn
    assert "the system prompt changed: a hint" in drawn
    assert "from token 12 of 100, 48 lost" in drawn
    assert "− a cat⏎" in drawn
    assert "+ a dog" in drawn


def test_of_a_prefill_that_was_stopped_only_what_was_computed_counts() -> None:
    live = LiveFigures()
    live.apply(ready())
    live.apply(TurnRequested(REQUEST, "Hi"))
    *planned, _, end = turn_events(1, token_s=[0.5], cache_n=60, prompt_n=40, reason="cancelled")
    stopped = msgspec.structs.replace(end, prompt_done=10)
    for event in (*planned, PrefillProgress(1, S // 5, 12, 40), stopped):
        live.apply(event)
    state = live.snapshot(S)
    assert state.totals == ChatTotals(60, 10)
    assert "10/40 tok" in text(phases.draw(state, 60, 10))
    assert " 70" in text(phases.draw(state, 60, 10)).split("\n")[-2]
    assert f"prefill {DASH}/s" in text(tokens.draw(state, 40, 10))


def test_what_reuse_saved_is_not_said_before_it_is_known() -> None:
    unknown = msgspec.structs.replace(answered(cache_n=60), saved_ms=None)
    assert f"saved {DASH}" in text(cache_hits.draw(unknown, 40, 12))
    assert "saved nothing" in text(cache_hits.draw(answered(cache_n=0), 40, 12))


def test_every_cache_reason_has_its_sentence() -> None:
    reasons = CacheOutcome.__annotations__["reason"].__args__
    assert set(cache_hits.REASONS) == set(reasons)


@pytest.mark.parametrize("kind", PANELS, ids=lambda kind: kind.name)
@given(width=st.integers(1, 120), height=st.integers(1, 40), which=st.integers(0, 2))
def test_a_panel_fits_any_room(kind: object, width: int, height: int, which: int) -> None:
    assert isinstance(kind, type(PANELS[0]))
    state = (Snapshot(engine="starting"), halfway(), answered())[which]
    drawing = kind.draw(state, width, height)
    assert len(drawing.lines) <= height
    if width >= (2 * NARROWEST if kind.name == "phases" else NARROWEST):
        assert all(line_width(line) <= width for line in drawing.lines)
    assert kind.explain(state) or state.kv is None


@given(
    sizes=st.lists(st.integers(0, 10_000), min_size=1, max_size=4),
    width=st.integers(4, 200),
)
def test_a_bar_is_as_wide_as_it_should_be_and_shows_every_part(
    sizes: list[int], width: int
) -> None:
    roles: list[Role] = ["reused", "prefill", "decode", "free"]
    parts = list(zip(roles, sizes, strict=False))
    total = sum(sizes)
    drawn = bar(parts, total, width)
    shown = {span.role for span in drawn}
    assert shown == ({role for role, size in parts if size} if total else set())
    assert line_width(drawn) == (width if total else 0)


def test_paragraphs_are_as_wide_as_their_characters_on_a_terminal() -> None:
    lines = paragraphs("漢字漢字漢字漢字.gguf is damaged", 10)
    assert all(line_width(line) <= 10 for line in lines)
    assert "".join(line[0].text for line in lines).startswith("漢字漢字漢字漢字.gguf")


def test_a_column_stands_on_zero_and_an_outlier_is_cut_and_marked() -> None:
    (top, bottom) = columns([4.0, 8.0, 80.0], 16.0, 2)
    assert "".join(span.text for span in bottom) == "▄██"
    assert "".join(span.text for span in top) == "  █"
    assert bottom[-1].role == "warn"


@given(width=st.integers(40, 250))
def test_the_header_and_the_strip_never_need_more_than_the_screen(width: int) -> None:
    state = answered()
    assert line_width(header_line(state, ("replay",), width)) <= width
    for line in strip_lines(state, width):
        assert line_width(line) <= width


def test_the_header_keeps_the_model_longer_than_the_rest() -> None:
    line = "".join(span.text for span in header_line(answered(), (), 40))
    assert "Scripted-1B" in line
    assert "threads" not in line
