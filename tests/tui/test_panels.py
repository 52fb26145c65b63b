"""The panels as pure drawings of a state."""

from typing import Literal

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backend.metrics.live import ChatTotals, LiveFigures, Snapshot
from backend.protocol import (
    CacheOutcome,
    DeviceFacts,
    KvCacheState,
    PrefillProgress,
    TurnRequest,
    TurnRequested,
    WindowSample,
)
from backend.settings import SamplingSettings
from tests.fake_engine import S, kv, ready, started, turn_events
from tests.tui.window import Scripted, ready_window, screen_text, until
from tui.figures import DASH
from tui.panels import PANELS, cache_hits, kv_cache, machine, phases, tokens, ttft
from tui.panels.drawing import Drawing, Role, bar, columns, line_width, paragraphs
from tui.text import one_line
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


# -------------------------------------------------------------------------------- machine

SAMPLE = WindowSample(
    ui_cpu_percent=4.2,
    cpu_percent=78.4,
    engine_rss_bytes=210 << 20,
    power="battery",
    battery_percent=76.0,
    core_percent=(100.0, 56.8),
    clock_mhz=2596.12,
    engine_cpu_percent=140.4,
    others_cpu_percent=12.2,
    ui_rss_bytes=53 << 20,
    memory_bytes=16 << 30,
    available_bytes=12 << 30,
)
GPU = DeviceFacts("CUDA0", "Some GPU", "gpu", 24 << 30, 3 << 30)
CPU = DeviceFacts("CPU", "A processor", "cpu", 16 << 30)


def decoding(sample: WindowSample | None, **context: int) -> Snapshot:
    """The state of an engine with both devices in decode, 2 threads unless said otherwise."""
    state = answered()
    assert state.ready is not None
    assert state.context is not None
    return msgspec.structs.replace(
        state,
        phase="decode",
        window=sample,
        ready=msgspec.structs.replace(state.ready, device_facts=(GPU, CPU)),
        context=msgspec.structs.replace(state.context, **context),
    )


def with_others(percent: float | None, cores: int = 2) -> WindowSample:
    """A sample with so much load by others."""
    return msgspec.structs.replace(SAMPLE, others_cpu_percent=percent, core_percent=(50.0,) * cores)


def test_the_machine_in_a_line_for_each_figure() -> None:
    assert text(machine.draw(decoding(SAMPLE), 60, 8)).split("\n") == [
        "cpu    █▅ 78 % 2.60 GHz",
        "engine 140 % 210.0 MiB",
        "window 4 % 53.0 MiB",
        "others 12 % of a core",
        "free   12.00/16.00 GiB",
        "power  battery 76 %",
        "device CUDA0 Some GPU, 3.00/24.00 GiB free",
        "device CPU A processor, 16.00 GiB",
    ]


def test_room_that_is_left_makes_the_cores_columns_higher() -> None:
    drawn = text(machine.draw(decoding(SAMPLE), 60, 10)).split("\n")
    # 56.8 % of three lines of eighths are 13.6, drawn as 14: 8 and 6.
    assert drawn[:3] == ["       █ ", "       █▆", "cpu    ██ 78 % 2.60 GHz"]
    assert len(drawn) == 10
    assert len(machine.draw(decoding(SAMPLE), 60, 40).lines) == 15


def test_where_there_is_little_room_the_machines_figures_stand_side_by_side() -> None:
    assert text(machine.draw(decoding(SAMPLE), 56, 4)).split("\n") == [
        "cpu    █▅ 78 % 2.60 GHz     engine 140 % 210.0 MiB",
        "window 4 % 53.0 MiB         others 12 % of a core",
        "free   12.00/16.00 GiB      power  battery 76 %",
        "device CUDA0 Some GPU, 3.00/24.00 GiB free",
    ]
    assert text(machine.draw(decoding(SAMPLE), 30, 2)).split("\n") == [
        "cpu    █▅ 78 % 2.60 GHz",
        "engine 140 % 210.0 MiB",
    ]


def test_figures_of_the_machine_that_grow_move_nothing() -> None:
    busier = msgspec.structs.replace(
        SAMPLE, cpu_percent=3.0, engine_cpu_percent=9.0, ui_cpu_percent=100.0
    )
    drawn, again = (
        text(machine.draw(decoding(sample), 56, 4)).split("\n") for sample in (SAMPLE, busier)
    )
    for before, after in zip(drawn, again, strict=True):
        assert before[28:34] == after[28:34]


def test_what_is_not_known_of_the_machine_is_a_dash() -> None:
    drawn = text(machine.draw(Snapshot(engine="starting"), 60, 9)).split("\n")
    assert drawn == [
        f"cpu    {DASH} {DASH}",
        f"engine {DASH} {DASH}",
        f"window {DASH} {DASH}",
        f"others {DASH}",
        f"free   {DASH}",
        f"power  {DASH}",
    ]


@pytest.mark.parametrize(
    ("power", "charge", "words"),
    [
        ("mains", None, "power  mains"),
        ("mains", 80.0, "power  mains 80 %"),
        (None, 80.0, f"power  {DASH} 80 %"),
    ],
)
def test_power(power: Literal["battery", "mains"] | None, charge: float, words: str) -> None:
    sample = msgspec.structs.replace(SAMPLE, power=power, battery_percent=charge)
    assert words in text(machine.draw(decoding(sample), 60, 8)).split("\n")


@pytest.mark.parametrize(
    ("others", "cores", "threads", "warns"),
    [
        (83.0, 2, 2, True),
        (50.0, 2, 2, False),
        (None, 2, 2, False),
        # Four cores with two threads each: 3 + 0.83 of them have room, 4 + 0.83 have not.
        (83.0, 8, 3, False),
        (83.0, 8, 4, True),
        # 2 + 2.1 of four.
        (210.0, 8, 2, True),
    ],
)
def test_load_by_others_is_warned_about_where_it_slows_decode(
    others: float | None, cores: int, threads: int, warns: bool
) -> None:
    state = decoding(with_others(others, cores), n_threads=threads)
    for height in (1, 3, 20):
        first = machine.draw(state, 56, height).lines[0]
        assert (first[0].role == "warn") == warns
        if warns:
            drawn = "".join(span.text for span in first)
            assert drawn == f"! others {others:.0f} % of a core: decode slows"
    assert text(machine.draw(state, 56, 20)).count("others") == 1


def test_load_by_others_is_no_warning_outside_decode_or_on_a_gpu() -> None:
    state = decoding(with_others(190.0))
    for calm in (
        msgspec.structs.replace(state, phase="prefill"),
        msgspec.structs.replace(state, phase="idle"),
        decoding(with_others(190.0), n_gpu_layers=30),
    ):
        roles = {span.role for line in machine.draw(calm, 56, 20).lines for span in line}
        assert "warn" not in roles


def test_many_cores_share_columns_and_it_is_said() -> None:
    # Of 128 cores every fourth is busy: a column of two is 50 % or idle.
    sample = msgspec.structs.replace(SAMPLE, core_percent=(100.0, 0.0, 0.0, 0.0) * 32)
    foot = text(machine.draw(decoding(sample), 160, 8)).split("\n")[0]
    assert foot == f"cpu    {'▄▁' * 32} 78 % 2.60 GHz · 2 cores a column"
    # Beside 7 + 34 cells of words there are 39 for the columns: four cores in each.
    narrow = text(machine.draw(decoding(sample), 80, 8)).split("\n")[0]
    assert narrow == f"cpu    {'▂' * 32} 78 % 2.60 GHz · 4 cores a column"
    few = msgspec.structs.replace(SAMPLE, core_percent=(0.0,) * 28)
    assert "a column" not in text(machine.draw(decoding(few), 56, 8))
    # 28 idle cores stand in half of the line.
    assert text(machine.draw(decoding(few), 56, 8)).startswith(f"cpu    {'▁' * 28} 78 %")


def test_the_machine_explains_the_load_of_others() -> None:
    words = machine.explain(decoding(SAMPLE))
    assert "78 % × 2 − 140 % − 4 % = 12 %" in words
    assert "here" not in machine.explain(Snapshot(engine="gone"))


@pytest.mark.parametrize(("rows", "there"), [(30, False), (33, False), (34, True), (70, True)])
async def test_the_machine_stands_beside_the_others_where_there_is_room_for_all(
    rows: int, there: bool
) -> None:
    window = Scripted()
    async with window.run((110, rows)) as pilot:
        await ready_window(pilot, window)
        titles = {"PHASES", "TTFT", "TOKENS/S", "KV CACHE", "CACHE HITS"}
        titles |= {"MACHINE"} if there else set()
        drawn = screen_text(pilot)
        assert {kind.title for kind in PANELS if f" {kind.title} " in drawn} == titles
        await pilot.press("alt+6")
        await until(pilot, lambda: "A column is the load" in screen_text(pilot))
        assert "TTFT" not in screen_text(pilot)
        await pilot.press("alt+6")
        await until(pilot, lambda: " TTFT " in screen_text(pilot))
        assert (" MACHINE " in screen_text(pilot)) == there


async def test_the_machine_goes_and_comes_with_the_height_of_the_window() -> None:
    window = Scripted()
    async with window.run((120, 24)) as pilot:
        await ready_window(pilot, window)
        for rows, there in ((36, True), (24, False), (5, False), (50, True)):
            await pilot.resize_terminal(120, rows)
            await until(pilot, lambda there=there: (" MACHINE " in screen_text(pilot)) == there)  # type: ignore[misc]


percents = st.none() | st.floats(0, 12_800)
sizes_of_memory = st.none() | st.integers(0, 1 << 42)


@example(WindowSample(None, None, None, "battery", core_percent=(0.0,)), [], 7, 1)
@given(
    sample=st.none()
    | st.builds(
        WindowSample,
        ui_cpu_percent=percents,
        cpu_percent=st.none() | st.floats(0, 100),
        engine_rss_bytes=sizes_of_memory,
        power=st.sampled_from(["battery", "mains", None]),
        battery_percent=st.none() | st.floats(0, 100),
        core_percent=st.lists(st.floats(0, 100), max_size=300).map(tuple),
        clock_mhz=st.none() | st.floats(100, 10_000),
        engine_cpu_percent=percents,
        others_cpu_percent=percents,
        ui_rss_bytes=sizes_of_memory,
        memory_bytes=sizes_of_memory,
        available_bytes=sizes_of_memory,
    ),
    devices=st.lists(
        st.builds(
            DeviceFacts,
            st.text(),
            st.text(),
            st.just("gpu"),
            sizes_of_memory,
            sizes_of_memory,
        ),
        max_size=9,
    ),
    width=st.integers(1, 250),
    height=st.integers(1, 70),
)
def test_the_machine_fits_any_room(
    sample: WindowSample | None, devices: list[DeviceFacts], width: int, height: int
) -> None:
    state = decoding(sample)
    assert state.ready is not None
    ready_with = msgspec.structs.replace(state.ready, device_facts=tuple(devices))
    drawing = machine.draw(msgspec.structs.replace(state, ready=ready_with), width, height)
    assert 1 <= len(drawing.lines) <= height
    for line in drawing.lines:
        assert line_width(line) <= width
        for span in line:
            assert span.text == one_line(span.text)


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
    assert line_width(header_line(state, (), ("replay",), width)) <= width
    for line in strip_lines(state, width):
        assert line_width(line) <= width


def test_the_header_keeps_the_model_longer_than_the_rest() -> None:
    line = "".join(span.text for span in header_line(answered(), (), (), 40))
    assert "Scripted-1B" in line
    assert "threads" not in line
