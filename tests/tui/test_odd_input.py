"""What is typed by nobody and still must not end the window, nor lose a draft."""

import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.timer import Timer

from backend.history import History
from backend.protocol import Event, TurnRequest
from backend.session import ModelChoice, Session
from tests.fake_engine import failed, turn_events
from tests.tui.settings_window import WithSettings
from tests.tui.window import Scripted, plain_start, ready_window, replay_app, screen_text, until
from tui.app import PhasescopeApp
from tui.screens.acting import ActingScreen
from tui.screens.behaviour import BehaviourScreen
from tui.screens.chats import ChatsScreen
from tui.screens.help import HelpScreen
from tui.screens.settings import SettingsScreen
from tui.shelf import ChatItem
from tui.widgets.browser import Browser
from tui.widgets.chat_list import ChatList
from tui.widgets.entries import NoticeEntry
from tui.widgets.folding import FoldingArea
from tui.widgets.setting_rows import ChoiceList, SettingRows


def chosen_chat(window: Scripted) -> ChatItem | None:
    """The chat that is chosen in the list of all chats; None while that is not there."""
    screen = window.app.screen
    lists = screen.query(ChatList) if isinstance(screen, ChatsScreen) else ()
    return next((each.chosen for each in lists), None)


NOBODY = "~nobody-has-this-name/x"


class StoredWindow(Scripted):
    """The window with a store.

    Args:
        answers: The events of each turn's answer; None: a short one.
    """

    def __init__(
        self, path: Path, answers: Callable[[TurnRequest], list[Event]] | None = None
    ) -> None:
        super().__init__(answers)
        self.history = History(path)
        model = ModelChoice("/models/scripted-1b.Q4_1.gguf")
        self.session = Session(self._engine, model, history=self.history)
        self.app = PhasescopeApp(self.session, plain_start())

    def told(self) -> list[str]:
        """What is said in toasts."""
        return [notice.message for notice in self.app._notifications]


@asynccontextmanager
async def opened(
    tmp_path: Path, answers: Callable[[TurnRequest], list[Event]] | None = None
) -> AsyncIterator[tuple[Pilot[None], StoredWindow]]:
    """The window with a store of its own and a loaded model."""
    window = StoredWindow(tmp_path / "chats.db", answers)
    try:
        async with window.run() as pilot:
            await ready_window(pilot, window)
            yield pilot, window
    finally:
        window.session.close()


async def command(pilot: Pilot[None], window: Scripted, line: str) -> None:
    """Write a command and run it."""
    window.composer.load_text(line)
    window.composer.action_submit()
    await pilot.pause()


async def ask(pilot: Pilot[None], window: Scripted, text: str) -> None:
    """Send a message and wait for the end of its turn."""
    turns = window.session._flow.number
    window.composer.load_text(text)
    window.composer.action_submit()
    await until(pilot, lambda: window.session._flow.number > turns and not window.session.busy)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"/export {NOBODY}.md", "cannot be written"),
        ("/export " + "a" * 300 + ".md", "cannot be written"),
        ("/export a\x00b.md", "cannot be written"),
        ("/set top_k " + "1" * 400, "must be a whole number"),
        ("/set stop [" + "1" * 5000 + "]", None),
        ('/set stop ["\\ud800"]', "must be valid Unicode"),
        ("/edit " + "9" * 5000, "is no number"),
    ],
)
async def test_an_odd_argument_is_refused_in_a_sentence(
    tmp_path: Path, line: str, said: str | None
) -> None:
    async with opened(tmp_path) as (pilot, window):
        await ask(pilot, window, "hello")
        await command(pilot, window, line)
        if said is not None:
            await until(pilot, lambda: any(said in told for told in window.told()))
        await ask(pilot, window, "still there")
        await until(pilot, lambda: not window.session.storing)
        assert window.session.storage_problem is None


async def test_a_home_folder_that_there_is_not_is_no_model(tmp_path: Path) -> None:
    async with opened(tmp_path) as (pilot, window):
        await command(pilot, window, f"/model {NOBODY}")
        await until(pilot, lambda: any(f"{NOBODY} does not exist" in t for t in window.told()))


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps a folder that somebody is in")
async def test_a_current_folder_that_is_gone_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    async with opened(tmp_path) as (pilot, window):
        await ask(pilot, window, "hello")
        monkeypatch.chdir(folder)
        folder.rmdir()
        await command(pilot, window, "/export x.md")
        await until(pilot, lambda: any("cannot be written" in told for told in window.told()))
        await command(pilot, window, "/model model.gguf")
        await until(pilot, lambda: any("current folder" in told for told in window.told()))
        await pilot.press("ctrl+o")
        await until(pilot, lambda: chosen_chat(window) is not None)
        await pilot.press("ctrl+e")
        await until(
            pilot, lambda: any("Not exported: hello.md cannot" in told for told in window.told())
        )


async def test_a_filter_of_the_help_is_text() -> None:
    app = replay_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
        await pilot.press("left_square_bracket", "slash", "x", "right_square_bracket")
        await until(pilot, lambda: "“[/x]”" in screen_text(pilot))


async def test_a_model_for_a_recording_is_refused() -> None:
    app = replay_app()
    async with app.run_test(size=(100, 30)) as pilot:
        screen = app.screen
        assert isinstance(screen, ActingScreen)
        for act in (screen.action_model, screen.action_begin_command):
            app.clear_notifications()
            act("/models/other.gguf")
            await until(pilot, lambda: len(app._notifications) > 0)
            assert all("recording" in notice.message for notice in app._notifications)
        assert screen.composer.full_text == ""


async def test_what_was_typed_just_before_another_chat_is_kept(tmp_path: Path) -> None:
    async with opened(tmp_path) as (pilot, window):
        await ask(pilot, window, "hello")
        first = window.session.chat.id
        await pilot.press(*"draft", "ctrl+n")
        await until(pilot, lambda: window.session.chat.id != first)
        assert window.composer.text == ""
        await pilot.press("alt+l")
        await until(pilot, lambda: window.session.chat.id == first)
        assert window.composer.text == "draft"


async def test_a_draft_comes_back_while_the_store_is_slow(tmp_path: Path) -> None:
    async with opened(tmp_path) as (pilot, window):
        await ask(pilot, window, "hello")
        first = window.session.chat.id
        await until(pilot, lambda: not window.session.storing)
        lock = sqlite3.connect(tmp_path / "chats.db", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        try:
            await pilot.press(*"draft", "ctrl+n")
            await until(pilot, lambda: window.session.chat.id != first)
            await pilot.press("alt+l")
            await until(pilot, lambda: window.session.chat.id == first)
            assert window.composer.text == "draft"
        finally:
            lock.execute("COMMIT")
            lock.close()


async def test_a_new_chat_after_a_new_chat_takes_over_what_is_written(tmp_path: Path) -> None:
    async with opened(tmp_path) as (pilot, window):
        first = window.session.chat.id
        await pilot.press(*"draft", "ctrl+n")
        await until(pilot, lambda: window.session.chat.id != first)
        assert window.composer.text == "draft"


async def test_what_was_typed_just_before_the_end_is_kept(tmp_path: Path) -> None:
    async with opened(tmp_path) as (pilot, window):
        await ask(pilot, window, "hello")
        await pilot.press(*"draft", "ctrl+q")
    window = StoredWindow(tmp_path / "chats.db")
    stored = window.session.stored
    assert stored is not None
    chat = window.history.chats()[0]
    assert "draft" in (stored.draft(chat.id, new=False) or "")
    window.session.close()


async def test_a_refused_edit_of_another_branch_stays_written(tmp_path: Path) -> None:
    def answers(request: TurnRequest) -> list[Event]:
        if request.messages[-1].content == "refused":
            return failed(request.turn, "prompt_too_long")
        return turn_events(request.turn, token_s=[0.5, 0.6])

    async with opened(tmp_path, answers) as (pilot, window):
        await ask(pilot, window, "one")
        await pilot.press("alt+e")
        await ask(pilot, window, "two")
        await pilot.press("alt+e")
        window.composer.load_text("refused")
        await pilot.press("alt+left")
        await until(pilot, lambda: ("you", "one") in window.said())
        await pilot.press("enter")
        await until(pilot, lambda: window.composer.text == "refused" and not window.session.busy)
        assert ("you", "one") in window.said()


async def test_settings_of_the_store_that_cannot_be_read_end_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as (pilot, window):
        window.history._db.execute("DROP TABLE settings")
        await pilot.press("f5")
        loads = len(window.engine.loads)
        window.session.restart_engine()
        await until(pilot, lambda: len(window.engine.loads) > loads)


async def test_a_template_that_is_gone_when_it_is_kept_is_named(tmp_path: Path) -> None:
    window = WithSettings(tmp_path / "settings.toml")
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press("f7")
        await until(pilot, lambda: isinstance(window.app.screen, SettingsScreen))
        name, gone = "model.chat_template", str(tmp_path / "gone.jinja")
        screen = window.app.screen
        assert isinstance(screen, SettingsScreen)
        screen.on_setting_rows_edited(SettingRows.Edited(window.rows, name, gone))
        assert "cannot be read" in (window.rows.fault(name) or "")
        assert window.text is None


@contextmanager
def timers(browser: Browser) -> Iterator[tuple[list[Timer], list[Timer]]]:
    """The timers that are set meanwhile, and those that are stopped."""
    made: list[Timer] = []
    stopped: list[Timer] = []

    def set_timer(seconds: float, act: Callable[[], None]) -> Timer:
        made.append(Timer(browser, seconds, callback=act))
        return made[-1]

    def stop(timer: Timer) -> None:
        stopped.append(timer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(browser, "set_timer", set_timer)
        patch.setattr(Timer, "stop", stop)
        yield made, stopped


async def test_however_often_is_searched_one_timer_goes_on_with_it() -> None:
    app = replay_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: bool(app.screen.query_one(Browser).entries))
        browser = app.screen.query_one(Browser)
        with timers(browser) as (made, stopped), pytest.MonkeyPatch.context() as patch:
            # Nothing is laid out yet.
            patch.setattr(browser, "line_of", lambda _index: None)
            for length in range(1, 6):
                browser.find("token"[:length])
            assert len(made) == 5
            assert stopped == made[:-1]
        browser.find("")


async def test_however_often_is_laid_out_one_timer_goes_on_with_it() -> None:
    app = replay_app()
    async with app.run_test(size=(100, 30)) as pilot:
        browser = app.screen.query_one(Browser)
        await until(pilot, lambda: browser.line_of(0) is not None)
        many = [NoticeEntry("a notice\n" * 40) for _ in range(3_000)]
        with timers(browser) as (made, stopped):
            for _ in range(3):
                browser.show(many)
                browser.restyle()
            assert len(made) > 1
            assert stopped == made[:-1]
        browser.show(many[:3])


async def test_a_command_that_is_refused_stays_written(tmp_path: Path) -> None:
    def never_ends(request: TurnRequest) -> list[Event]:
        return turn_events(request.turn, token_s=[0.5, 0.6])[:-1]

    async with opened(tmp_path, never_ends) as (pilot, window):
        window.composer.load_text("hello")
        window.composer.action_submit()
        await until(pilot, lambda: window.session.busy)
        for line in ("/system be\nkind", "/set temp hot\nand more", "/model other.gguf"):
            window.app.clear_notifications()
            await command(pilot, window, line)
            await until(pilot, lambda: len(window.told()) > 0)
            assert window.composer.full_text == line


async def test_a_long_argument_is_no_long_toast(tmp_path: Path) -> None:
    async with opened(tmp_path) as (pilot, window):
        await ask(pilot, window, "hello")
        for line in (f"/set {'y' * 15_000} 1", f"/title {'y' * 15_000}"):
            window.app.clear_notifications()
            await command(pilot, window, line)
            await until(pilot, lambda: len(window.told()) > 0)
            assert max(map(len, window.told())) < 500


async def test_a_long_preset_is_listed_by_its_beginning(tmp_path: Path) -> None:
    text = f'[presets]\nlong = "{"word " * 100_000}"\n"[/x] a.b" = "odd"\n'
    window = WithSettings(tmp_path / "settings.toml", text)
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press("f6")
        await until(pilot, lambda: isinstance(window.app.screen, BehaviourScreen))
        await pilot.press("ctrl+o")
        await until(pilot, lambda: "[/x] a.b" in screen_text(pilot))
        options = window.app.screen.query_one("#system-presets", ChoiceList)
        assert max(len(str(option.prompt)) for option in options.options) < 600
        options.highlighted = options.get_option_index("long")
        await pilot.press("enter")
        area = window.app.screen.query_one(FoldingArea)
        await until(pilot, lambda: area.full_text == "word " * 100_000)
