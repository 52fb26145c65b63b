"""Glyphs of terminals that lack ours."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import ControlType, Segment
from textual.color import Color
from textual.pilot import Pilot

from backend.protocol import Event, TurnRequest
from tests.fake_engine import turn_events
from tests.tui.window import NARROW, WIDE, Scripted, plain_start, ready_window, screen_text, until
from tui.app import PhasescopeApp
from tui.glyphs import ASCII, CONSOLE, GlyphSet, PlainGlyphs, plain_glyphs, terminal_glyphs
from tui.panels.drawing import EIGHTHS, GLYPHS

PIECES = [
    "# Title\n\n- a “quoted” — word…\n- 漢字 and 🙂 and e\u0301 and ≠\n\n",
    "> said\n\n1. one\n\n---\n\n```python\nx = 1  # ▓\n```\n\n",
    "|a|b|\n|-|-|\n|1|2|\n\nfür Ελλάδα",
]

KEYS = ["f1", "f6", "f7", "ctrl+l", "ctrl+o", "ctrl+p", "ctrl+f", "shift+tab", "/"]
KEYS += [f"alt+{number}" for number in range(1, 7)]


def long_answer(request: TurnRequest) -> list[Event]:
    stamps = [0.1, 0.2, 0.3]
    return turn_events(request.turn, token_s=stamps, pieces=PIECES)


def window_in(term: str, encoding: str) -> Scripted:
    """The window in a terminal of a name and an encoding."""
    window = Scripted(long_answer)
    window.app = PhasescopeApp(window.session, plain_start()._replace(term=term, encoding=encoding))
    return window


def on_console(char: str) -> bool:
    return char in CONSOLE or char.isalpha()


def in_latin_1(char: str) -> bool:
    return char in ASCII or (ord(char) < 256 and (char.isalpha() or char not in "·×µ«»°±÷"))


TERMINALS: dict[str, tuple[str, str, Callable[[str], bool]]] = {
    "console": ("linux", "utf-8", on_console),
    "latin-1": ("xterm", "iso-8859-1", in_latin_1),
    "ascii": ("xterm", "ascii", lambda char: char in ASCII),
}


def strange(pilot: Pilot[None], allowed: Callable[[str], bool]) -> set[str]:
    """The characters on the screen that the terminal does not have."""
    return {char for char in screen_text(pilot) if char != "\n" and not allowed(char)}


async def answered(pilot: Pilot[None], window: Scripted) -> None:
    await ready_window(pilot, window)
    await pilot.press("H", "i", "enter")
    await until(pilot, lambda: len(window.said()) == 2 and window.said()[1][0] == "model")


@pytest.mark.parametrize(
    ("terminal", "size"),
    [("console", NARROW), ("console", WIDE), ("latin-1", NARROW), ("ascii", WIDE)],
)
async def test_every_screen_is_painted_with_what_the_terminal_has(
    terminal: str, size: tuple[int, int]
) -> None:
    term, encoding, allowed = TERMINALS[terminal]
    window = window_in(term, encoding)
    async with window.run(size) as pilot:
        await answered(pilot, window)
        assert strange(pilot, allowed) == set()
        for key in KEYS:
            await pilot.press(key)
            await pilot.pause()
            assert strange(pilot, allowed) == set(), key
            for _ in range(3):
                await pilot.press("escape")
            await pilot.pause()
            await until(pilot, lambda: window.app.screen is window.screen)
            window.composer.clear()
            window.composer.focus()


async def test_the_tour_is_painted_with_what_the_terminal_has() -> None:
    term, encoding, allowed = TERMINALS["ascii"]
    window = window_in(term, encoding)
    async with window.run() as pilot:
        await answered(pilot, window)
        window.screen.action_tour()
        for number in range(1, 9):
            await pilot.pause()
            await pilot.press(str(number))
            await pilot.pause()
            assert strange(pilot, allowed) == set(), number


async def test_the_setting_changes_what_is_painted_at_once() -> None:
    window = window_in("xterm-256color", "utf-8")
    async with window.run() as pilot:
        await answered(pilot, window)
        assert "╭" in screen_text(pilot)
        window.app.use_glyphs("plain")
        await pilot.pause()
        assert strange(pilot, on_console) == set()
        assert "┌" in screen_text(pilot)
        window.app.use_glyphs("auto")
        await pilot.pause()
        assert "╭" in screen_text(pilot)


@pytest.mark.parametrize(
    ("term", "encoding", "kind"),
    [
        ("xterm-256color", "utf-8", "unicode"),
        ("xterm-256color", "UTF8", "unicode"),
        (None, None, "unicode"),
        ("linux", "utf-8", "console"),
        ("linux-16color", "utf-8", "console"),
        ("linux", "iso-8859-1", "ascii"),
        ("xterm", "latin-1", "ascii"),
        ("xterm", "gb18030", "ascii"),
    ],
)
def test_the_terminal_decides(term: str | None, encoding: str | None, kind: GlyphSet) -> None:
    assert terminal_glyphs(term, encoding) == kind
    assert (plain_glyphs("auto", term, encoding) is None) == (kind == "unicode")


def test_a_setting_never_asks_for_what_the_encoding_cannot_carry() -> None:
    forced = plain_glyphs("unicode", "xterm", "latin-1")
    assert forced is not None
    assert forced.spelled("█") == "#"
    assert plain_glyphs("unicode", "linux", "utf-8") is None
    assert plain_glyphs("plain", "xterm", "utf-8") is not None


@pytest.mark.parametrize("kind", ["console", "ascii"])
def test_phases_stay_apart_without_colour(kind: GlyphSet) -> None:
    plain = PlainGlyphs(kind)
    drawn = [plain.spelled(GLYPHS[role]) for role in ("reused", "prefill", "decode", "free")]
    assert len(set(drawn)) == 4
    assert plain.spelled(GLYPHS["cache"]) not in {plain.spelled(GLYPHS["free"]), " "}


def test_a_column_on_the_console_does_not_fall_as_its_value_grows() -> None:
    order = "_▄█"
    heights = [order.index(char) for char in PlainGlyphs("console").spelled(EIGHTHS)]
    assert heights == sorted(heights)
    assert heights[0] < heights[-1]


def test_text_that_the_encoding_carries_stays() -> None:
    assert PlainGlyphs("ascii", "latin-1").spelled("für — ·") == "für - ."
    assert PlainGlyphs("ascii", "ascii").spelled("für ½") == "fur 1"
    assert PlainGlyphs("ascii", "euc-jp").spelled("漢字 ─ ×") == "漢字 - x"
    assert PlainGlyphs("console").spelled("ёж · ░") == "ёж · ░"


def test_what_is_no_text_is_left_alone() -> None:
    title = Segment("—", None, [(ControlType.SET_WINDOW_TITLE, "—")])
    assert PlainGlyphs("ascii").apply([title], Color(0, 0, 0)) == [title]


@given(text=st.text(), kind=st.sampled_from(["console", "ascii"]))
def test_any_text_keeps_its_width(text: str, kind: GlyphSet) -> None:
    assert cell_len(PlainGlyphs(kind).spelled(text)) == cell_len(text)


@given(text=st.text())
def test_nothing_but_ascii_is_left_for_ascii(text: str) -> None:
    assert set(PlainGlyphs("ascii").spelled(text)) - {chr(code) for code in range(128)} == set()
