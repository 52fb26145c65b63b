"""The window in terminals of every kind: sizes, focus, mouse, wide characters, colours."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyte
import pytest
from rich.cells import cell_len
from rich.segment import Segment
from textual.app import App
from textual.color import Color
from textual.drivers.headless_driver import HeadlessDriver
from textual.events import MouseMove
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.widgets._footer import FooterKey

from backend.history import History
from backend.protocol import Event, TurnRequest
from tests.e2e.terminal import PHASESCOPE, Terminal
from tests.fake_engine import turn_events
from tests.tui.window import (
    Scripted,
    ready_window,
    replay_app,
    screen_text,
    until,
)
from tui.graphemes import clusters, steadied, steady_driver, without_stray_joiners
from tui.screens.help import HelpScreen
from tui.screens.tour import TourScreen
from tui.text import harmless
from tui.themes import THEMES, contrast, theme_names
from tui.widgets.answers import AnswerEntry
from tui.widgets.browser import Browser

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
SMILE = "☺\ufe0f"
FLAG = "🇩🇪"
ACCENTED = "e\u0301"

MIXED = (
    f"{SMILE} {FAMILY} {FLAG} {ACCENTED} a\u200db end",
    "\u200d",
    "漢字漢字 한국 مرحبا שלום",
    "क्\u200dष ක්\u200dෂ",
    "1\ufe0f\u20e3 🏳\ufe0f\u200d🌈 👩🏽\u200d❤\ufe0f\u200d👨🏻 🏽 x",
)

SIZES = ((60, 16), (250, 70), (110, 34), (109, 34), (10, 3), (1, 1), (80, 24), (200, 50), (60, 16))

LONG = "Write *this* and `that`.\n\n- one\n- two\n\n```python\nprint('x')\n```\n\n"


def place_of(pilot: Pilot[None], text: str) -> Offset:
    """The cell that a text on the screen begins in."""
    for y, line in enumerate(screen_text(pilot).split("\n")):
        if text in line:
            return Offset(cell_len(line[: line.index(text)]), y)
    raise AssertionError(f"{text} is not on the screen:\n{screen_text(pilot)}")


def painted(pilot: Pilot[None]) -> Iterator[list[Segment]]:
    """The segments of each line of the screen."""
    for strip in pilot.app.screen._compositor.render_strips(pilot.app.size):
        yield list(strip)


def assert_columns_hold(pilot: Pilot[None]) -> None:
    """Each line of the screen has as many cells as the terminal is wide."""
    width = pilot.app.size.width
    for line in painted(pilot):
        assert sum(cell_len(segment.text) for segment in line) == width, line


async def select(pilot: Pilot[None], start: Offset, end: Offset) -> None:
    """Drag the mouse from one cell to another."""
    screen = pilot.app.screen
    await pilot.mouse_down(offset=start)
    for x, y in (((start.x + end.x) // 2, start.y), end):
        screen._forward_event(MouseMove(screen, x, y, 0, 0, 1, False, False, False, x, y))
        await pilot.pause()
    await pilot.mouse_up(offset=end)
    await pilot.pause()


async def said(pilot: Pilot[None], window: Scripted, text: str) -> None:
    """Let the user say something and have it answered."""
    before = len(window.said())
    window.composer.load_text(text)
    await pilot.press("enter")
    await answered(pilot, window, before)


async def answered(pilot: Pilot[None], window: Scripted, before: int) -> None:
    """Wait for the answer behind so many messages."""
    await until(
        pilot,
        lambda: len(window.said()) >= before + 2 and isinstance(window.entries[-1], AnswerEntry),
    )
    await pilot.pause()


# --------------------------------------------------------------------------- the focus


async def test_the_composer_looks_left_when_the_focus_is_elsewhere() -> None:
    window = Scripted()
    async with window.run((100, 30)) as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"hello")

        def looks() -> tuple[str, bool]:
            region = window.composer.region
            lines = list(painted(pilot))
            border = next(s.style for s in lines[region.y] if "╭" in s.text)
            assert border is not None
            words = lines[region.y + 1]
            return str(border.color), not any("hello " in segment.text for segment in words)

        focused = looks()
        assert focused[1], "the cursor stands behind what is written"
        for keys in ("shift+tab", "ctrl+f"):
            await pilot.press(keys)
            await pilot.pause()
            border, has_cursor = looks()
            assert border != focused[0], keys
            assert not has_cursor, keys
            await pilot.press("tab" if keys == "shift+tab" else "escape")
            await pilot.pause()
            assert looks() == focused


# -------------------------------------------------------------------------- the footer


def footer(pilot: Pilot[None]) -> str:
    return screen_text(pilot).split("\n")[-1]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 140])
async def test_the_footer_cuts_no_key_and_keeps_the_way_out(width: int) -> None:
    window = Scripted()
    async with window.run((width, 24)) as pilot:
        await ready_window(pilot, window)
        await said(pilot, window, "hello")
        await pilot.press("shift+tab")
        await until(pilot, lambda: "write" in footer(pilot) or width < 40)
        keys = [key for key in pilot.app.screen.query(FooterKey) if key.display]
        ends = [key.region.right for key in keys]
        starts = [key.region.x for key in keys]
        assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
        assert max(ends) <= width
        for key in keys:
            assert f"{key.key_display} {key.description}" in footer(pilot)
        if width >= 60:
            for words in ("↑↓ choose", "c copy", "tab write", "F1 help", "^p palette"):
                assert words in footer(pilot)
        if width < 100:
            assert not any(key.has_class("-disabled") for key in keys)


async def test_the_footer_shows_more_keys_when_there_is_more_room() -> None:
    window = Scripted()
    async with window.run((60, 24)) as pilot:
        await ready_window(pilot, window)
        await said(pilot, window, "hello")
        await pilot.press("shift+tab")
        await until(pilot, lambda: "write" in footer(pilot))
        assert "^o chats" not in footer(pilot)
        await pilot.resize_terminal(200, 24)
        await until(pilot, lambda: "^o chats" in footer(pilot))


# --------------------------------------------------------------------------- the sizes


async def test_resizing_while_an_answer_comes() -> None:
    def answers(request: TurnRequest) -> list[Event]:
        return turn_events(request.turn, token_s=[0.5 + i / 50 for i in range(90)], pieces=None)

    window = Scripted(answers)
    async with window.run((120, 36)) as pilot:
        await ready_window(pilot, window)
        window.composer.load_text("go\non")
        await pilot.press("enter")
        for columns, rows in SIZES:
            await pilot.resize_terminal(columns, rows)
            await pilot.pause()
            assert_columns_hold(pilot)
        await until(pilot, lambda: not window.session.busy)
        for keys in ("alt+1", "alt+1", "ctrl+f", "escape", "f1", "escape", "ctrl+p", "escape"):
            await pilot.press(keys)
            for columns, rows in ((10, 3), (1, 1), (60, 16)):
                await pilot.resize_terminal(columns, rows)
                await pilot.pause()
                assert_columns_hold(pilot)


async def test_the_ttft_panel_cuts_no_word_at_110_columns() -> None:
    app = replay_app()
    async with app.run_test(size=(110, 34)) as pilot:
        await until(pilot, lambda: "was 110 ms" in screen_text(pilot))
        assert re.search(r"was 110 ms( · 1\.3× slower)? *│", screen_text(pilot))


# --------------------------------------------------------------------------- the mouse


async def test_what_is_selected_with_the_mouse_is_copied_without_the_gutter() -> None:
    window = Scripted()
    async with window.run((100, 30)) as pilot:
        await ready_window(pilot, window)
        await said(pilot, window, "first line\nsecond line")
        start = place_of(pilot, "first line")
        await select(pilot, start, place_of(pilot, "second line") + Offset(10, 0))
        assert window.composer.has_focus
        await pilot.press("ctrl+c")
        assert pilot.app.clipboard == "first line\nsecond line"


@pytest.mark.parametrize("middle", ["漢字漢字", FAMILY, SMILE, FLAG, ACCENTED, "مرحبا"])
async def test_what_is_painted_as_selected_is_what_is_copied(middle: str) -> None:
    window = Scripted()
    async with window.run((100, 30)) as pilot:
        await ready_window(pilot, window)
        await said(pilot, window, f"abc {middle} def ghi")
        start = place_of(pilot, "abc")
        await select(pilot, start, place_of(pilot, "def") + Offset(2, 0))
        await pilot.press("ctrl+c")
        assert pilot.app.clipboard == f"abc {middle} def"
        ground = list(painted(pilot))[start.y + 1][0].style
        assert ground is not None
        marked = [
            segment.text
            for segment in list(painted(pilot))[start.y]
            if segment.style is not None and segment.style.bgcolor != ground.bgcolor
        ]
        assert "".join(marked).strip() == f"abc {middle} def"


async def test_a_selection_goes_with_what_was_selected() -> None:
    window = Scripted()
    async with window.run((100, 30)) as pilot:
        await ready_window(pilot, window)
        await said(pilot, window, "some words")
        await select(pilot, place_of(pilot, "some"), place_of(pilot, "words") + Offset(4, 0))
        assert pilot.app.screen.selections
        before = len(window.said())
        window.session.send("more words")
        await answered(pilot, window, before)
        assert pilot.app.screen.selections, "it stands above what is new"
        await pilot.resize_terminal(90, 30)
        await until(pilot, lambda: not pilot.app.screen.selections)
        await select(pilot, place_of(pilot, "some"), place_of(pilot, "words") + Offset(4, 0))
        await pilot.press("ctrl+n")
        await until(pilot, lambda: not pilot.app.screen.selections)


async def test_help_and_tour_are_left_and_turned_with_the_mouse() -> None:
    window = Scripted()
    async with window.run((100, 30)) as pilot:
        await ready_window(pilot, window)
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
        await until(pilot, lambda: "F1 closes" in screen_text(pilot))
        await pilot.click(offset=place_of(pilot, "F1 closes"))
        await until(pilot, lambda: pilot.app.screen is window.screen)
        await pilot.press(*"/tour", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, TourScreen))
        for words, page in (("→ next", "2 of"), ("→ next", "3 of"), ("← back", "2 of")):
            await until(pilot, lambda words=words: words in screen_text(pilot))  # type: ignore[misc]
            await pilot.click(offset=place_of(pilot, words))
            await until(pilot, lambda page=page: page in screen_text(pilot))  # type: ignore[misc]
        await pilot.click(offset=place_of(pilot, "esc leaves"))
        await until(pilot, lambda: pilot.app.screen is window.screen)


# ----------------------------------------------------------------- characters of several


@pytest.mark.parametrize("text", MIXED)
async def test_columns_hold_wherever_the_cursor_is(text: str) -> None:
    window = Scripted()
    async with window.run((60, 16)) as pilot:
        await ready_window(pilot, window)
        window.composer.load_text(text)
        await pilot.pause()
        assert_columns_hold(pilot)
        for _ in text:
            await pilot.press("left")
            await pilot.pause()
            assert_columns_hold(pilot)
        window.composer.load_text("")
        await said(pilot, window, f"{text} .")
        assert_columns_hold(pilot)
        assert window.said()[0] == ("you", f"{text} .")


async def test_the_cursor_and_backspace_take_a_character_made_of_several_as_one() -> None:
    window = Scripted()
    async with window.run((60, 16)) as pilot:
        await ready_window(pilot, window)
        for character in f"a{FAMILY}{FLAG}":
            window.composer.insert(character)
        await pilot.press("left")
        assert window.composer.cursor_location == (0, 1 + len(FAMILY))
        await pilot.press("left")
        assert window.composer.cursor_location == (0, 1)
        await pilot.press("end", "backspace")
        assert window.composer.full_text == f"a{FAMILY}"
        await pilot.press("backspace")
        assert window.composer.full_text == "a"


def test_a_character_made_of_several_is_found_whole() -> None:
    line = f"x{SMILE}{FAMILY}{FLAG}{FLAG}{ACCENTED}y"
    found = [line[start:end] for start, end in clusters(line)]
    assert found == [SMILE, FAMILY, FLAG, FLAG, ACCENTED]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u200db", "a\u200cb"),
        ("\u200d", "\u200c"),
        ("\u200d x", "\u200c x"),
        (FAMILY, FAMILY),
        (f"{FAMILY}\u200dx", f"{FAMILY}\u200cx"),
        ("ක්\u200dෂ", "ක්\u200cෂ"),
    ],
)
def test_a_joiner_that_joins_no_emoji_takes_nothing_from_what_follows(
    text: str, shown: str
) -> None:
    assert harmless(text) == without_stray_joiners(text) == shown


def shown_by_a_terminal(output: str) -> str:
    """A line of a terminal that knows nothing of characters made of several."""
    screen = pyte.Screen(40, 1)
    pyte.Stream(screen).feed(output)
    row = screen.buffer[0]
    return "".join(row[x].data for x in range(40) if row[x].data)


@pytest.mark.parametrize("doubtful", [SMILE, FAMILY, FLAG, "1\ufe0f\u20e3", "👍🏽"])
def test_what_stands_right_of_a_doubtful_character_is_not_moved(doubtful: str) -> None:
    text = f"\x1b[1m{doubtful}\x1b[0m│"
    screen = pyte.Screen(40, 1)
    pyte.Stream(screen).feed(steadied(text))
    assert screen.buffer[0][2].data == "│"
    assert screen.buffer[0][0].bold
    assert not screen.buffer[0][2].bold


def test_what_a_narrow_drawn_character_leaves_is_cleared() -> None:
    assert shown_by_a_terminal(f"XXXX\r{steadied(SMILE)}|").rstrip() == "☺ |X"


def test_codes_and_plain_text_are_written_as_they_are() -> None:
    plain = "\x1b[38;2;1;2;3m漢字 │ é\x1b[0m"
    assert steadied(plain) == plain
    assert steadied(f"\x1b[1m\ufe0f{plain}").startswith("\x1b[1m\x1b7")


async def test_the_window_writes_through_it() -> None:
    written: list[str] = []

    class Recorded(HeadlessDriver):
        def write(self, data: str) -> None:
            written.append(data)

    app: App[None] = App()
    steady_driver(Recorded)(app, debug=False).write(SMILE)
    assert written == [steadied(SMILE)]
    assert written[0] != SMILE
    assert Scripted().app.get_driver_class().__name__ == "SteadyDriver"


# --------------------------------------------------------------------------- the colours

ANSWER = """# Heading

Some **bold**, `code` and [a link](https://example.org).

```python
def f(a):  # comment
    return "text" + str(12)
```

| Colour | Code |
|---|---|
| red | f00 |

> quoted, and the end
"""


def on_screen(pilot: Pilot[None]) -> Iterator[tuple[float, str]]:
    """Contrast of each piece of text on the screen but the keys that can do nothing now."""
    keys = pilot.app.screen.query(FooterKey)
    idle = {
        word
        for key in keys
        if key.has_class("-disabled")
        for word in (key.key_display, *key.description.split())
    }
    for line in painted(pilot):
        for segment in line:
            style = segment.style
            if style is None or not set(re.findall(r"\w+", segment.text)) - idle:
                continue
            assert style.color is not None
            assert style.bgcolor is not None
            text, ground = style.color.get_truecolor(), style.bgcolor.get_truecolor()
            yield contrast(Color(*text), Color(*ground)), segment.text


@pytest.mark.parametrize(
    "name", [name for name in theme_names() if not name.startswith(("ansi", "textual-ansi"))]
)
async def test_all_text_can_be_read(name: str) -> None:
    def answers(request: TurnRequest) -> list[Event]:
        return turn_events(request.turn, token_s=[0.5, 0.6], pieces=[ANSWER, "."])

    ours = name in {theme.name for theme in THEMES}
    window = Scripted(answers)
    async with window.run((120, 40)) as pilot:
        await ready_window(pilot, window)
        await said(pilot, window, "show the end")
        pilot.app.theme = name
        await pilot.press("ctrl+f", *"the")
        await until(pilot, lambda: "1 of 2" in screen_text(pilot))
        await pilot.pause()
        for keys in ("end", "shift+tab"):
            await pilot.press(keys)
            if keys == "shift+tab":
                window.screen.query_one(Browser).focus()
            await pilot.pause()
            poor = [(c, text) for c, text in on_screen(pilot) if c < (4.5 if ours else 2.8)]
            assert not poor


async def test_what_is_found_can_be_read_with_the_terminals_own_colours() -> None:
    app = replay_app()
    async with app.run_test(size=(100, 30)) as pilot:
        app.theme = "ansi-dark"
        await until(pilot, lambda: "three primary" in screen_text(pilot))
        await pilot.press("ctrl+f", *"the")
        await until(pilot, lambda: "1 of" in screen_text(pilot))
        await pilot.pause()
        styles = [s.style for line in painted(pilot) for s in line if s.text.lower() == "the"]
        found = [style for style in styles if style is not None and style.underline]
        assert found
        assert all(style.bgcolor is None or style.bgcolor.is_default for style in found)
        assert any(style is not None and style.reverse for style in styles), "the current one"


async def test_the_phases_are_told_apart_without_colour() -> None:
    app = replay_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: "PHASES · turn 3" in screen_text(pilot))
        assert re.search(r"│ +3 ░+▓+█+ ", screen_text(pilot))


# ------------------------------------------------------------------- a terminal that goes


def test_a_terminal_that_is_closed_leaves_the_chat_and_no_process(tmp_path: Path) -> None:
    with Terminal((PHASESCOPE, "-t", "1", "-c", "1024", "-n", "600"), tmp_path) as terminal:
        terminal.until_text("loaded in")
        terminal.type("Write a very long story about a castle.\r")
        terminal.until(lambda text: re.search(r"decode +█+ +\d+ tok", text) is not None)
        assert terminal.process.pid is not None
        engines = psutil.Process(terminal.process.pid).children(recursive=True)
        assert engines
        with Path(os.devnull).open("rb") as nothing:
            # Something else in its place: the pseudo-terminal is closed.
            os.dup2(nothing.fileno(), terminal.process.child_fd)
        assert terminal.ended() == 128 + signal.SIGHUP
        _gone, alive = psutil.wait_procs(engines, timeout=20)
        assert not alive
    history = History(tmp_path / "chats.db")
    (row,) = history.chats()
    (record,) = history.records(row.id)
    assert record.stop.reason == "cancelled"
    assert history.load_chat(row.id).path()[-1].token_ids
    history.close()
