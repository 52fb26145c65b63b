"""The tour through the panels."""

import pytest
from textual.pilot import Pilot

from backend.metrics.live import LiveFigures, Snapshot
from backend.protocol import TurnRequest, TurnRequested
from backend.settings import SamplingSettings
from tests.fake_engine import S, ready, turn_events
from tests.tui.window import Scripted, all_of_it, ready_window, screen_text, until
from tui.panels import PANELS, cache_hits, kv_cache, phases, tokens, ttft
from tui.screens.help import HelpScreen
from tui.screens.tour import PAGES, TourScreen

SIZES = [(60, 16), (80, 24), (200, 50)]

REQUEST = TurnRequest(1, "id", "chat", (), SamplingSettings(), "2026-01-01T00:00:00+00:00")


def answered(**turn: object) -> Snapshot:
    """The state after a turn."""
    live = LiveFigures()
    live.apply(ready())
    live.apply(TurnRequested(REQUEST, "Hi"))
    for event in turn_events(1, **turn):  # type: ignore[arg-type]
        live.apply(event)
    return live.snapshot(2 * S)


async def begin(pilot: Pilot[None], window: Scripted) -> None:
    await ready_window(pilot, window)
    await pilot.press(*"/tour", "enter")
    await until(pilot, lambda: isinstance(window.app.screen, TourScreen))
    await until(pilot, lambda: "1 of 8" in screen_text(pilot))


async def test_the_pages_are_the_panels_between_a_beginning_and_an_end() -> None:
    window = Scripted()
    async with window.run() as pilot:
        await begin(pilot, window)
        assert "one kitchen with two pots" in " ".join(screen_text(pilot).split())
        for number, kind in enumerate(PANELS, start=2):
            await pilot.press("right")
            await until(pilot, lambda number=number: f"{number} of 8" in screen_text(pilot))  # type: ignore[misc]
            assert f"Tour · {kind.title}" in screen_text(pilot)
        await pilot.press("space")
        await until(pilot, lambda: "What to try" in screen_text(pilot))
        await pilot.press("enter")
        await until(pilot, lambda: window.app.screen is window.screen)


async def test_one_can_go_back_jump_and_leave() -> None:
    window = Scripted()
    async with window.run() as pilot:
        await begin(pilot, window)
        await pilot.press("left")
        await pilot.pause()
        assert "1 of 8" in screen_text(pilot)
        await pilot.press("5", "left")
        await until(pilot, lambda: "4 of 8" in screen_text(pilot))
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(window.app.screen, HelpScreen))
        await pilot.press("f1", "escape")
        await until(pilot, lambda: window.app.screen is window.screen)


async def test_a_panel_is_drawn_as_the_session_goes_on() -> None:
    window = Scripted()
    async with window.run() as pilot:
        await begin(pilot, window)
        await pilot.press("3")
        await until(pilot, lambda: "3 of 8" in screen_text(pilot))
        assert "500 ms" not in screen_text(pilot)
        window.session.send("Hi")
        await until(pilot, lambda: "500 ms" in screen_text(pilot))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_every_word_of_the_tour_can_be_read(size: tuple[int, int]) -> None:
    window = Scripted()
    async with window.run(size) as pilot:
        await begin(pilot, window)
        for number, page in enumerate(PAGES, start=1):
            await pilot.press(str(number))
            await until(pilot, lambda number=number: f"{number} of 8" in screen_text(pilot))  # type: ignore[misc]
            await pilot.pause()
            text = page.words or page.panel.explain(window.session.snapshot())  # type: ignore[union-attr]
            # Figures of the machine go on while one reads.
            wanted = [word for word in text.split() if not any(map(str.isdigit, word))]
            seen = await all_of_it(pilot, window.app.screen.query_one("#tour-words"), "down")
            assert [word for word in wanted if word not in seen] == []


def test_explanations_give_the_formula_and_the_counts_that_are_in_force() -> None:
    # Tokens at 0.5 … 1.0 s: 5 gaps in 500 ms are 10 a second.
    state = answered(token_s=[0.5, 0.6, 0.7, 0.8, 0.9, 1.0], cache_n=60, prompt_n=40)
    assert "100 = 60 + 40; then 6 tokens" in phases.explain(state)
    assert "(6 − 1) / 500 ms = 10.0/s" in tokens.explain(state)
    assert "Here 500 ms = " in ttft.explain(state)
    assert "60 / 100 = 60%" in cache_hits.explain(state)
    # 8 layers of 4,096 cells with 512 B of K and of V each over all layers: 128 B a cell.
    assert "8 × 4,096 × 128 B = 4.0 MiB" in kv_cache.explain(state)


def test_explanations_name_no_figure_that_does_not_exist() -> None:
    for state in (Snapshot(engine="gone"), answered(token_s=[0.5])):
        for kind in PANELS:
            assert "None" not in kind.explain(state)
            assert " = —" not in kind.explain(state)
    nothing = Snapshot(engine="starting")
    assert all("Here" not in kind.explain(nothing) for kind in PANELS)


def test_explanations_say_where_a_record_has_the_figures() -> None:
    state = Snapshot(engine="starting")
    assert all("In a record" in kind.explain(state) for kind in PANELS)
