"""A recorded session in the window: pictures of it, and what a recording does not allow."""

from collections.abc import Callable

import pytest
from textual.app import App
from textual.pilot import Pilot

from backend.protocol import Event, PrefillProgress, TokenBatch
from backend.recording import Recording
from tests.tui.window import (
    NARROW,
    WIDE,
    recorded_until,
    replay_app,
    screen_text,
    until,
)
from tui.screens.chat import ChatScreen
from tui.widgets.composer import Composer

SnapCompare = Callable[..., bool]

SIZES = [(60, 16), NARROW, WIDE, (200, 50)]


def in_turn(turn: int, kind: type[PrefillProgress] | type[TokenBatch]) -> Recording:
    """The recording up to the first event of a kind in a turn."""

    def stop(event: Event) -> bool:
        return isinstance(event, kind) and event.turn == turn

    return recorded_until(stop)


async def settle(pilot: Pilot[None]) -> None:
    """Let everything recorded be shown."""
    await pilot.pause()
    screen = pilot.app.screen
    assert isinstance(screen, ChatScreen)
    await until(pilot, lambda: "SmolLM2" in screen_text(pilot))
    screen.tick()
    await pilot.pause()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_three_turns(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    assert snap_compare(replay_app(), terminal_size=size, run_before=settle)


def test_the_picture_of_the_readme(snap_compare: SnapCompare) -> None:
    batches = iter(range(10_000))

    def stop(event: Event) -> bool:
        return isinstance(event, TokenBatch) and event.turn == 2 and next(batches) == 6

    app = replay_app(recorded_until(stop))
    assert snap_compare(app, terminal_size=(124, 34), run_before=settle)


def test_in_prefill(snap_compare: SnapCompare) -> None:
    app = replay_app(in_turn(2, PrefillProgress))
    assert snap_compare(app, terminal_size=WIDE, run_before=settle)


def test_in_decode(snap_compare: SnapCompare) -> None:
    app = replay_app(in_turn(3, TokenBatch))
    assert snap_compare(app, terminal_size=WIDE, run_before=settle)


@pytest.mark.parametrize("number", range(1, 7))
def test_an_open_panel(snap_compare: SnapCompare, number: int) -> None:
    async def open_panel(pilot: Pilot[None]) -> None:
        await settle(pilot)
        await pilot.press(f"alt+{number}")
        await pilot.pause()
        await settle_panel(pilot)

    assert snap_compare(replay_app(), terminal_size=(100, 30), run_before=open_panel)


async def settle_panel(pilot: Pilot[None]) -> None:
    """Let a panel that was opened be drawn in its new room."""
    assert isinstance(pilot.app.screen, ChatScreen)
    pilot.app.screen.tick()
    await pilot.pause()


@pytest.mark.parametrize("theme", ["textual-light", "ansi-dark"])
def test_a_theme(snap_compare: SnapCompare, theme: str) -> None:
    async def choose(pilot: Pilot[None]) -> None:
        pilot.app.theme = theme
        await settle(pilot)

    assert snap_compare(replay_app(), terminal_size=WIDE, run_before=choose)


def test_without_colour(snap_compare: SnapCompare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(replay_app(), terminal_size=WIDE, run_before=settle)


def test_help(snap_compare: SnapCompare) -> None:
    async def ask(pilot: Pilot[None]) -> None:
        await settle(pilot)
        await pilot.press("f1")
        await pilot.pause()

    assert snap_compare(replay_app(), terminal_size=WIDE, run_before=ask)


async def test_every_phase_has_a_pattern_beside_its_colour() -> None:
    app = replay_app()
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        bars = [line for line in screen_text(pilot).split("\n") if " 2 ░" in line]
        assert len(bars) == 1
        assert "░▓" in bars[0]
        assert "▓█" in bars[0]


async def test_the_figures_of_the_recording_are_on_the_screen() -> None:
    app = replay_app()
    async with app.run_test(size=(200, 50)) as pilot:
        await settle(pilot)
        screen = screen_text(pilot)
        assert "reused 284/307" in screen
        assert "prefill 23 @" in screen
        assert "321/8,192 cells" in screen
        assert "chat 419 of 501 · 84%" in screen


async def test_a_recording_takes_no_messages() -> None:
    app: App[None] = replay_app()
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await pilot.press(*"Hi", "enter", "ctrl+r", "ctrl+n")
        await pilot.pause()
        composer = app.screen.query_one(Composer)
        assert composer.text == ""
        assert "replay" in screen_text(pilot)
        assert "reused 284/307" in screen_text(pilot)
