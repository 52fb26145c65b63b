"""Help: what it holds on each screen, with which keys, and how it is read."""

from collections.abc import Sequence
from typing import ClassVar

import pytest
from textual.app import App
from textual.binding import Binding, BindingType
from textual.pilot import Pilot
from textual.screen import ModalScreen

from tests.tui.window import Scripted, all_of_it, plain_start, ready_window, screen_text, until
from tui.app import PhasescopeApp
from tui.commands import COMMANDS, TYPING
from tui.config.load import load_settings
from tui.config.schema import Settings
from tui.panels import PANELS
from tui.screens.help import HELP_KEY, HelpScreen, Row, Section, matching
from tui.screens.log import LogScreen
from tui.widgets.browser import Browser
from tui.widgets.find_bar import FindBar

SIZES = [(60, 16), (120, 36)]


class Chooser(ModalScreen[None]):
    """A modal screen as others build them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f2", "keep", "keep it", id="chooser.keep"),
        Binding("x", "hide", "hidden", id="chooser.hide"),
        HELP_KEY,
    ]
    HELP_TITLE: ClassVar[str] = "choosing"
    HELP: ClassVar[str] = "Here something is chosen."

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        return action != "hide"


def with_keys(keys: dict[str, str]) -> Scripted:
    """The window of a user with own keys."""
    window = Scripted()
    loaded = load_settings({}, environ={})._replace(settings=Settings(keys=keys))
    window.app = PhasescopeApp(window.session, plain_start()._replace(loaded=loaded))
    return window


def shown_help(app: App[None]) -> HelpScreen:
    screen = app.screen
    assert isinstance(screen, HelpScreen)
    return screen


async def open_help(pilot: Pilot[None]) -> Sequence[Section]:
    """Press F1; the sections that it shows."""
    await pilot.press("f1")
    await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
    return shown_help(pilot.app)._sections


def rows(sections: Sequence[Section]) -> list[Row]:
    return [row for section in sections for row in section.rows]


async def test_the_chat_s_help_holds_every_command_key_and_figure() -> None:
    window = Scripted()
    async with window.run() as pilot:
        await ready_window(pilot, window)
        sections = await open_help(pilot)
        held = rows(sections)
        for keys, words in TYPING:
            assert Row(keys, words) in held
        for command in COMMANDS:
            row = next(row for row in held if row.words == f"{command.title}. {command.help}")
            assert row.keys.startswith(command.shown)
            if command.slash is not None:
                assert row.keys.endswith(f"/{command.slash} {command.hint or ''}".strip())
        texts = {section.title: section.text for section in sections}
        state = window.session.snapshot()
        assert all(texts[kind.title] for kind in PANELS)
        assert texts["PHASES"] == PANELS[0].explain(state)
        for widget, title in ((Browser, "On a message"), (FindBar, "While finding")):
            section = next(section for section in sections if section.title == title)
            shown = " ".join(row.keys for row in section.rows).split()
            for binding in widget.BINDINGS:
                assert isinstance(binding, Binding)
                display = {window.app.get_key_display(b) for b in Binding.make_bindings([binding])}
                assert binding.key_display or display & set(shown)


async def test_the_keys_are_those_of_the_user() -> None:
    window = with_keys({"chat.regenerate": "f3", "message.copy": "y", "chat.help": "f1,f12"})
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press("f12")
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
        held = rows(shown_help(pilot.app)._sections)
        assert next(row for row in held if row.words.startswith("Rerun.")).keys == "f3  /retry"
        assert next(row for row in held if row.words.startswith("Help.")).keys == "f1 f12  /help"
        assert next(row for row in held if row.words == "copy the message").keys == "y"


async def test_an_open_panel_is_explained_first() -> None:
    window = Scripted()
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press("alt+4")
        sections = await open_help(pilot)
        assert sections[0].title == "KV CACHE"
        assert [section.title for section in sections].count("KV CACHE") == 1


async def test_the_log_has_a_help_of_its_own() -> None:
    window = Scripted()
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press("ctrl+l")
        await until(pilot, lambda: isinstance(window.app.screen, LogScreen))
        sections = await open_help(pilot)
        assert sections[0].text == LogScreen.HELP
        assert [row.words for row in rows(sections)] == ["back"]
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(window.app.screen, LogScreen))


async def test_a_modal_screen_shows_the_keys_that_it_takes_now() -> None:
    window = with_keys({})
    async with window.run() as pilot:
        await ready_window(pilot, window)
        window.app.set_keymap({"chooser.keep": "f9"})
        window.app.push_screen(Chooser())
        await pilot.pause()
        sections = await open_help(pilot)
        assert sections[0].text == Chooser.HELP
        assert rows(sections) == [Row("f9", "keep it")]
        assert "Help · choosing" in screen_text(pilot)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_every_line_of_the_help_can_be_read(size: tuple[int, int]) -> None:
    window = Scripted()
    async with window.run(size) as pilot:
        await ready_window(pilot, window)
        sections = await open_help(pilot)
        await pilot.pause()
        words = await all_of_it(pilot, window.app.screen.query_one("#help"), "pagedown")
        for section in sections:
            for text in (section.text, *(row.words for row in section.rows)):
                assert [word for word in text.split() if word not in words] == []


async def test_typing_filters_and_escape_shows_all_again_before_it_closes() -> None:
    window = Scripted()
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await open_help(pilot)
        await pilot.press(*"bitrate")
        await until(pilot, lambda: "Nothing here says that" in screen_text(pilot))
        await pilot.press(*["backspace"] * 7, *"quit")
        await until(pilot, lambda: "Leave phasescope" in screen_text(pilot))
        assert "Rerun" not in screen_text(pilot)
        await pilot.press("escape")
        await until(pilot, lambda: "send" in screen_text(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: window.app.screen is window.screen)
        assert window.composer.text == ""


def test_a_filter_keeps_the_rows_and_paragraphs_that_hold_it() -> None:
    keys = Section("Keys", (Row("^r", "Rerun"), Row("^n", "New")))
    figures = Section("TTFT", text="first\nsecond token")
    assert matching([keys, figures], "") == [keys, figures]
    assert matching([keys, figures], " RERUN ") == [Section("Keys", (Row("^r", "Rerun"),))]
    assert matching([keys, figures], "token") == [Section("TTFT", text="second token")]
    assert matching([keys, figures], "ttft") == [figures]
    assert matching([keys, figures], "zzz") == []
