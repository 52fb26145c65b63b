"""The settings screen: what it shows, what it writes, and what acts at once."""

from pathlib import Path

import pytest
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from backend.protocol import LoadRequest
from backend.session.choice import TEMPLATES
from tests.fake_engine import load_failed
from tests.tui.settings_window import WithSettings, write
from tests.tui.window import NARROW, Scripted, ready_window, screen_text, until
from tui.config.change import value_of
from tui.config.load import Flag
from tui.saving import remember_theme
from tui.screens.settings import SettingsScreen

CHAT_TEMPLATE = "model.chat_template"

FILE = """\
# Mine.
[window]
theme = 'nord'  # cold
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


async def opened(pilot: Pilot[None], window: Scripted) -> SettingsScreen:
    if window.session.live.ready is None:
        await ready_window(pilot, window)
    window.screen.action_show_settings()
    await until(pilot, lambda: isinstance(window.app.screen, SettingsScreen))
    screen = window.app.screen
    assert isinstance(screen, SettingsScreen)
    await until(pilot, lambda: bool(screen.query("SettingRows")))
    await until(pilot, lambda: "chat.regenerate" in screen._bindings_by_id)
    return screen


async def go_to(pilot: Pilot[None], window: WithSettings, name: str) -> None:
    window.rows.go_to(name)
    await until(pilot, lambda: window.rows.current == name)


def detail(window: WithSettings) -> str:
    content = window.app.screen.query_one("#settings-detail", Static).content
    assert isinstance(content, Content)
    return content.plain


async def test_a_value_stands_beside_where_it_is_from(path: Path) -> None:
    window = WithSettings(
        path,
        FILE,
        flags={"model.n_ctx": Flag(512, "--ctx-size")},
        environ={"PHASESCOPE_MODEL_N_BATCH": "64"},
    )
    async with window.run() as pilot:
        await opened(pilot, window)
        assert window.row("window.theme") == ("nord", "settings.toml:3")
        assert window.row("model.n_ctx") == ("512", "--ctx-size")
        assert window.row("model.n_batch") == ("64", "PHASESCOPE_MODEL_N_BATCH")
        assert window.row("model.n_ubatch") == ("512", "default")
        assert window.row("keys.chat.regenerate") == ("ctrl+r", "default")


async def test_a_number_is_saved_when_enter_is_pressed_and_comments_stay(path: Path) -> None:
    window = WithSettings(path, FILE)
    async with window.run() as pilot:
        await opened(pilot, window)
        await go_to(pilot, window, "model.n_ctx")
        await pilot.press("enter")
        await write(pilot, "1024")
        await pilot.press("enter")
        await until(pilot, lambda: window.saved.model.n_ctx == 1024)
        assert (window.text or "").startswith(FILE)
        await until(pilot, lambda: window.row("model.n_ctx") == ("1024", "settings.toml:6"))


async def test_a_wrong_value_is_told_at_its_row_and_stays_to_be_mended(path: Path) -> None:
    window = WithSettings(path, FILE)
    async with window.run() as pilot:
        await opened(pilot, window)
        await go_to(pilot, window, "model.n_batch")
        await pilot.press("enter", "end", "x", "enter")
        await pilot.pause()
        assert "'2048x' must be a whole number of at least 1" in screen_text(pilot)
        assert window.text == FILE
        await pilot.press("backspace", "backspace", "enter")
        await until(pilot, lambda: window.saved.model.n_batch == 204)


async def test_escape_leaves_a_value_as_it_was(path: Path) -> None:
    window = WithSettings(path, FILE)
    async with window.run() as pilot:
        screen = await opened(pilot, window)
        await go_to(pilot, window, "model.n_batch")
        await pilot.press("enter", "end", "9", "escape")
        await until(pilot, lambda: window.rows.editing is None)
        assert window.app.screen is screen
        assert window.row("model.n_batch") == ("2048", "default")
        assert window.text == FILE


async def test_a_choice_is_made_from_a_list(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        await opened(pilot, window)
        await go_to(pilot, window, "model.flash_attn")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(window.app.focused, OptionList))
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: window.saved.model.flash_attn == "off")


async def test_a_switch_acts_at_once_and_is_taken_back(path: Path) -> None:
    window = WithSettings(path, FILE)

    def moves() -> bool:
        return window.app.animation_level != "none"

    async with window.run() as pilot:
        await opened(pilot, window)
        assert moves()
        await go_to(pilot, window, "window.reduced_motion")
        await pilot.press("enter")
        await until(pilot, lambda: window.saved.window.reduced_motion)
        await until(pilot, lambda: not moves())
        await pilot.press("ctrl+z")
        await until(pilot, moves)
        assert not window.saved.window.reduced_motion
        assert window.row("window.reduced_motion") == ("off", "default")


async def test_folding_of_thinking_acts_on_the_chat(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        await opened(pilot, window)
        await go_to(pilot, window, "window.fold_thinking")
        await pilot.press("enter")
        await until(pilot, lambda: not window.screen.browser.fold_thinking)


async def test_glyphs_act_on_what_is_painted(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        await opened(pilot, window)
        filters = len(window.app.get_line_filters())
        await go_to(pilot, window, "window.glyphs")
        await pilot.press("enter", "end", "enter")
        await until(pilot, lambda: window.saved.window.glyphs == "plain")
        await until(pilot, lambda: len(window.app.get_line_filters()) == filters + 1)


async def test_back_to_the_default_takes_the_line_out(path: Path) -> None:
    window = WithSettings(path, FILE)
    async with window.run() as pilot:
        await opened(pilot, window)
        await go_to(pilot, window, "window.theme")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: window.app.theme == "phasescope")
        assert window.text == "# Mine.\n[window]\n"
        await pilot.press("ctrl+z")
        await until(pilot, lambda: window.app.theme == "nord")


async def test_what_a_flag_sets_is_not_changed_here(path: Path) -> None:
    flags = {"window.reduced_motion": Flag(True, "--reduced")}
    window = WithSettings(path, FILE, flags=flags)
    async with window.run() as pilot:
        await opened(pilot, window)
        await go_to(pilot, window, "window.reduced_motion")
        await pilot.press("enter")
        await pilot.pause()
        shown = " ".join(screen_text(pilot).split())
        assert "the flag --reduced sets this; it comes before the settings file" in shown
        assert window.text == FILE


async def test_what_a_variable_sets_survives_another_change(path: Path) -> None:
    window = WithSettings(path, environ={"PHASESCOPE_MODEL_N_BATCH": "64"})
    async with window.run() as pilot:
        await opened(pilot, window)
        await go_to(pilot, window, "window.reduced_motion")
        await pilot.press("enter")
        await until(pilot, lambda: window.saved.window.reduced_motion)
        await until(pilot, lambda: window.row("window.reduced_motion")[0] == "on")
        assert window.row("model.n_batch") == ("64", "PHASESCOPE_MODEL_N_BATCH")


async def test_a_theme_shows_while_it_is_looked_at_and_escape_brings_the_old_one_back(
    path: Path,
) -> None:
    window = WithSettings(path, FILE)
    async with window.run() as pilot:
        await opened(pilot, window)
        await go_to(pilot, window, "window.theme")
        await pilot.press("enter", "down")
        # Behind nord in the alphabet.
        await until(pilot, lambda: window.app.theme == "phasescope")
        remember_theme(window.app, "phasescope")
        await pilot.press("escape")
        await until(pilot, lambda: window.app.theme == "nord")
        assert window.text == FILE


async def test_a_theme_that_is_chosen_stays(path: Path) -> None:
    window = WithSettings(path, FILE)
    async with window.run() as pilot:
        await opened(pilot, window)
        await go_to(pilot, window, "window.theme")
        await pilot.press("enter", "down", "enter")
        await until(pilot, lambda: window.saved.window.theme == "phasescope")
        assert window.app.theme == "phasescope"
        assert "# cold" in (window.text or "")


async def test_leaving_while_themes_are_listed_brings_the_old_one_back(path: Path) -> None:
    window = WithSettings(path, FILE)
    async with window.run() as pilot:
        await opened(pilot, window)
        await go_to(pilot, window, "window.theme")
        await pilot.press("enter", "down")
        await until(pilot, lambda: window.app.theme == "phasescope")
        await pilot.press("f7")
        await until(pilot, lambda: window.app.screen is window.screen)
        await until(pilot, lambda: window.app.theme == "nord")


async def test_a_theme_chosen_elsewhere_is_remembered(path: Path) -> None:
    window = WithSettings(path, FILE)
    async with window.run() as pilot:
        await ready_window(pilot, window)
        window.app.theme = "dracula"
        remember_theme(window.app, "dracula")
        await until(pilot, lambda: window.saved.window.theme == "dracula")
        assert window.app.start.loaded.settings.window.theme == "dracula"
        assert window.app.theme == "dracula"


async def test_a_theme_that_a_variable_would_override_is_not_saved(path: Path) -> None:
    window = WithSettings(path, environ={"PHASESCOPE_WINDOW_THEME": "nord"})
    async with window.run() as pilot:
        await ready_window(pilot, window)
        remember_theme(window.app, "dracula")
        await pilot.app.workers.wait_for_complete()
        assert window.text is None


async def test_a_key_is_pressed_to_be_given(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        await opened(pilot, window)
        await go_to(pilot, window, "keys.chat.new_chat")
        await pilot.press("enter", "f12")
        await until(pilot, lambda: dict(window.saved.keys) == {"chat.new_chat": "f12"})
        await until(pilot, lambda: window.row("keys.chat.new_chat")[0] == "f12")
        await pilot.press("escape")
        await until(pilot, lambda: window.app.screen is window.screen)
        before = window.session.chat.id
        await pilot.press("f12")
        await until(pilot, lambda: window.session.chat.id != before)
        await opened(pilot, window)
        await go_to(pilot, window, "keys.chat.new_chat")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: window.row("keys.chat.new_chat") == ("ctrl+n", "default"))
        assert dict(window.saved.keys) == {}


async def test_a_key_that_another_command_has_is_refused(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        await opened(pilot, window)
        await go_to(pilot, window, "keys.chat.new_chat")
        await pilot.press("enter", "ctrl+r")
        await until(
            pilot, lambda: "ctrl+r is the key of chat.regenerate already" in screen_text(pilot)
        )
        assert window.text is None
        assert window.rows.editing is None


async def test_every_binding_says_what_it_does(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        screen = await opened(pilot, window)
        assert all(screen._help(f"keys.{binding}") for binding in screen._bindings_by_id)
        assert len(screen._bindings_by_id) > 40


async def test_a_changed_context_size_offers_to_load_the_model(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        await opened(pilot, window)
        assert "^l" not in screen_text(pilot)
        await go_to(pilot, window, "model.n_ctx")
        await pilot.press("enter")
        await write(pilot, "1024")
        await pilot.press("enter")
        await until(pilot, lambda: "^l loads it anew" in detail(window))
        assert len(window.engine.loads) == 1
        await pilot.press("ctrl+l")
        await until(pilot, lambda: len(window.engine.loads) == 2)
        assert window.engine.loads[1].settings.n_ctx == 1024
        await until(pilot, lambda: "^l" not in detail(window))


async def test_where_nothing_is_loaded_the_next_load_follows_the_settings(path: Path) -> None:
    answers = iter([[load_failed()], [load_failed()]])

    def on_load(request: LoadRequest) -> list[object]:
        del request
        return list(next(answers))

    window = WithSettings(path, on_load=on_load)  # type: ignore[arg-type]
    async with window.run() as pilot:
        await until(pilot, lambda: any("no such model" in text for text in window.notices()))
        window.screen.action_show_settings()
        await until(pilot, lambda: bool(window.app.screen.query("SettingRows")))
        await until(pilot, lambda: window.rows.current is not None)
        await go_to(pilot, window, "model.n_ctx")
        await pilot.press("enter")
        await write(pilot, "1024")
        await pilot.press("enter")
        await until(pilot, lambda: window.session.chosen_model.settings.n_ctx == 1024)
        assert "^l" not in detail(window)
        assert sum(len(engine.loads) for engine in window.engines) == 1
        assert "^l load the model" in screen_text(pilot)
        await pilot.press("ctrl+l")
        await until(pilot, lambda: sum(len(engine.loads) for engine in window.engines) == 2)


async def test_typing_filters_and_escape_shows_all_again(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        screen = await opened(pilot, window)
        total = len(window.rows.list.rows)
        await write(pilot, "sliding Model")
        await until(pilot, lambda: [row.id for row in window.rows.list.rows] == ["model.swa_full"])
        await pilot.press("escape")
        await until(pilot, lambda: len(window.rows.list.rows) == total)
        assert window.app.screen is screen


async def test_nothing_found_is_said(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        await opened(pilot, window)
        await write(pilot, "qqqq")
        await until(pilot, lambda: "no setting is called that" in screen_text(pilot))
        await pilot.press("enter", "down", "ctrl+r", "ctrl+z")
        await pilot.pause()
        assert window.text is None


async def test_problems_stand_at_the_top_with_file_and_line(path: Path) -> None:
    window = WithSettings(path, "[window]\ntheme = 'nord'\nthemes = 3\n")
    async with window.run() as pilot:
        await opened(pilot, window)
        lines = screen_text(pilot).split("\n")
        at = next(at for at, line in enumerate(lines) if line.strip() == "Problems")
        # A long path breaks the line anywhere.
        blanks = str.maketrans("", "", " !")
        shown = "".join(lines[at + 1 : at + 5]).translate(blanks)
        assert f"{path.name}:3: there is no setting 'themes'".translate(blanks) in shown


async def test_a_broken_file_is_left_alone(path: Path) -> None:
    broken = "[window]\ntheme = 'nord\nreduced_motion = false\n"
    window = WithSettings(path, broken)
    async with window.run() as pilot:
        await opened(pilot, window)
        await go_to(pilot, window, "window.reduced_motion")
        await pilot.press("enter")
        await until(pilot, lambda: window.rows.fault("window.reduced_motion") is not None)
        sentence = window.rows.fault("window.reduced_motion") or ""
        assert "nothing was saved, mend it first" in sentence
        assert window.text == broken
        assert window.app.animation_level != "none"


async def test_a_theme_that_cannot_be_saved_is_left(path: Path) -> None:
    broken = "[window]\ntheme = 'nord'\n[chat\n"
    window = WithSettings(path, broken)
    async with window.run() as pilot:
        await opened(pilot, window)
        await go_to(pilot, window, "window.theme")
        await pilot.press("enter", "down", "enter")
        await until(pilot, lambda: window.rows.fault("window.theme") is not None)
        assert window.app.theme == "nord"
        assert window.text == broken


async def test_a_template_that_cannot_be_read_is_told(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        await opened(pilot, window)
        await go_to(pilot, window, "model.chat_template")
        await pilot.press("enter")
        await write(pilot, "nowhere")
        await pilot.press("enter")
        await until(pilot, lambda: "cannot be read" in (window.rows.fault(CHAT_TEMPLATE) or ""))
        assert window.rows.editing == CHAT_TEMPLATE
        await pilot.press("ctrl+u")
        await write(pilot, "chatml")
        await pilot.press("enter")
        await until(pilot, lambda: window.saved.model.chat_template == "chatml")
        await until(pilot, lambda: "^l" in detail(window))
        await pilot.press("ctrl+l")
        await until(pilot, lambda: len(window.engine.loads) == 2)
        assert window.engine.loads[1].chat_template == TEMPLATES["chatml"]


async def test_a_click_goes_to_a_row_and_another_edits_it(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        await opened(pilot, window)
        await write(pilot, "ubatch")
        await until(pilot, lambda: [row.id for row in window.rows.list.rows] == ["model.n_ubatch"])
        await pilot.click("RowList", offset=(4, 1))
        await until(pilot, lambda: window.rows.editing == "model.n_ubatch")
        await pilot.press("ctrl+u")
        await write(pilot, "256")
        await pilot.press("enter")
        await until(pilot, lambda: window.saved.model.n_ubatch == 256)


async def test_what_is_foreign_stays_harmless(path: Path) -> None:
    window = WithSettings(path, '[chat]\nsystem = "\\u001b[31m[b]red\\u202e"\n')
    async with window.run() as pilot:
        await opened(pilot, window)
        await go_to(pilot, window, "chat.system")
        await pilot.press("enter")
        await until(pilot, lambda: window.rows.editing == "chat.system")
        text = screen_text(pilot)
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "[b]red" in text


async def test_a_system_prompt_of_several_lines_is_read_back_the_same(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        await opened(pilot, window)
        await go_to(pilot, window, "chat.system")
        await pilot.press("enter")
        await write(pilot, "a\\nb \\\\")
        await pilot.press("enter")
        await until(pilot, lambda: window.saved.chat.system == "a\nb \\")
        assert value_of(window.app.start.loaded.settings, "chat.system") == "a\nb \\"


@pytest.mark.parametrize("size", [(60, 16), (1, 1), (200, 50)])
async def test_it_opens_in_a_terminal_of_any_size(path: Path, size: tuple[int, int]) -> None:
    window = WithSettings(path, FILE + "foo = 1\n")
    async with window.run(NARROW) as pilot:
        screen = await opened(pilot, window)
        await pilot.resize_terminal(*size)
        await pilot.press("down", "enter", "x", "escape", "down")
        await go_to(pilot, window, "window.theme")
        await pilot.press("enter", "down", "escape")
        await until(pilot, lambda: window.rows.editing is None)
        await pilot.press("escape")
        await until(pilot, lambda: window.app.screen is not screen)


async def test_leaving_gives_the_composer_back_what_was_written(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await write(pilot, "half a")
        screen = await opened(pilot, window)
        assert isinstance(screen.focused, Input)
        await pilot.press("escape")
        await until(pilot, lambda: window.app.screen is window.screen)
        await write(pilot, " word")
        assert window.composer.full_text == "half a word"
