"""The behaviour screen: system prompt, presets and sampling, and what the next turn carries."""

from pathlib import Path

import msgspec
import pytest
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import OptionList, Static

from backend.chat.roles import NO_SYSTEM
from backend.protocol import Event, LoadRequest, ModelRead
from backend.settings import SamplingChoice
from tests.fake_engine import MS, ready, turn_events
from tests.tui.settings_window import WithSettings, write
from tests.tui.window import Scripted, ready_window, replay_app, screen_text, until
from tests.unit.headers import llama_header
from tui.config.load import Flag
from tui.config.presets import BUILT_IN
from tui.screens.behaviour import BehaviourScreen
from tui.widgets.folding import FoldingArea

FILE = """\
# Mine.
[sampling]
temp = 0.4  # calm

[presets]
reviewer = "You review."
tutor = "My own tutor."
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


async def opened(pilot: Pilot[None], window: Scripted) -> BehaviourScreen:
    if window.session.live.ready is None:
        await ready_window(pilot, window)
    window.screen.action_show_behaviour()
    await until(pilot, lambda: bool(window.app.screen.query("#system-text")))
    screen = window.app.screen
    assert isinstance(screen, BehaviourScreen)
    await until(pilot, lambda: screen.focused is area(window))
    return screen


def area(window: Scripted) -> FoldingArea:
    return window.app.screen.query_one("#system-text", FoldingArea)


def words(window: Scripted, selector: str = "#system-words") -> str:
    content = window.app.screen.query_one(selector, Static).content
    assert isinstance(content, Content)
    return content.plain


async def at_sampling(pilot: Pilot[None], window: WithSettings, name: str) -> None:
    if window.app.focused is not window.rows.list:
        await pilot.press("tab")
        await until(pilot, lambda: window.app.focused is window.rows.list)
    window.rows.go_to(name)
    await until(pilot, lambda: window.rows.current == name)


async def change(pilot: Pilot[None], text: str) -> None:
    await pilot.press("enter", "ctrl+u")
    await write(pilot, text)
    await pilot.press("enter")


# ----------------------------------------------------------------------------- system prompt


async def test_a_system_prompt_is_in_the_next_turn(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        screen = await opened(pilot, window)
        await write(pilot, "Be brief")
        await until(pilot, lambda: "system_changed" in words(window))
        assert window.session.chat.system is None
        await pilot.press("ctrl+s")
        await until(pilot, lambda: window.session.chat.system == "Be brief")
        assert "system_changed" not in words(window)
        await pilot.press("escape")
        await until(pilot, lambda: window.app.screen is not screen)
        await write(pilot, "hi")
        await pilot.press("enter")
        await until(pilot, lambda: len(window.engine.turns) == 1)
        sent = window.engine.turns[0].messages
        assert [(m.role, m.content) for m in sent] == [("system", "Be brief"), ("user", "hi")]


async def test_an_emptied_prompt_leaves_it_to_the_template(path: Path) -> None:
    window = WithSettings(path)
    window.session.set_system("Be brief")
    async with window.run() as pilot:
        await opened(pilot, window)
        assert area(window).full_text == "Be brief"
        await pilot.press("ctrl+u", "ctrl+s")
        await until(pilot, lambda: window.session.chat.system is None)


async def test_a_prompt_that_is_refused_stays_written(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        await ready_window(pilot, window)
        window.engine.mute = True
        window.session.send("hi")
        screen = await opened(pilot, window)
        await write(pilot, "Be brief")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "An answer is still coming" in words(window))
        assert area(window).full_text == "Be brief"
        assert window.session.chat.system is None
        window.engine.push(*turn_events(1, token_s=[0.5, 0.6]))
        await until(pilot, lambda: not window.session.busy)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: window.session.chat.system == "Be brief")
        assert window.app.screen is screen


async def test_escape_warns_once_before_a_prompt_is_dropped(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        screen = await opened(pilot, window)
        await write(pilot, "Be brief")
        await pilot.press("escape")
        await until(pilot, lambda: "esc drops it" in words(window))
        assert window.app.screen is screen
        await pilot.press("escape")
        await until(pilot, lambda: window.app.screen is window.screen)
        assert window.session.chat.system is None


async def test_the_key_that_opened_it_closes_it_also_from_the_text(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        await opened(pilot, window)
        await pilot.press("f6")
        await until(pilot, lambda: window.app.screen is window.screen)


async def test_a_template_without_a_system_role_is_named(path: Path) -> None:
    def on_load(request: LoadRequest) -> list[Event]:
        del request
        return [msgspec.structs.replace(ready(), warnings=(NO_SYSTEM,))]

    window = WithSettings(path, on_load=on_load)
    async with window.run() as pilot:
        await opened(pilot, window)
        assert "takes no system message" not in words(window)
        await write(pilot, "x")
        await until(pilot, lambda: "takes no system message" in words(window))


async def test_a_preset_fills_the_area_and_can_be_undone(path: Path) -> None:
    window = WithSettings(path, FILE)
    async with window.run() as pilot:
        await opened(pilot, window)
        await write(pilot, "Mine")
        await pilot.press("ctrl+o")
        await until(pilot, lambda: isinstance(window.app.focused, OptionList))
        shown = screen_text(pilot)
        assert "concise" in shown
        assert "yours: You review." in shown
        options = window.app.screen.query_one("#system-presets", OptionList)
        options.highlighted = options.get_option_index("tutor")
        await pilot.press("enter")
        await until(pilot, lambda: area(window).full_text == "My own tutor.")
        await pilot.press("ctrl+z")
        await until(pilot, lambda: area(window).full_text == "Mine")


async def test_a_text_is_kept_as_a_preset_and_read_back_the_same(path: Path) -> None:
    window = WithSettings(path, FILE)
    async with window.run() as pilot:
        await opened(pilot, window)
        await write(pilot, 'Say "no".')
        await pilot.press("enter", "x", "ctrl+n", "enter")
        await until(pilot, lambda: "A preset needs a name" in words(window))
        await write(pilot, "my own")
        await pilot.press("enter")
        await until(pilot, lambda: window.saved.presets.get("my own") == 'Say "no".\nx')
        assert (window.text or "").startswith(FILE)
        await until(pilot, lambda: "preset my own" in screen_text(pilot))
        (system,) = [c for c in window.composer.commands if c.name == "system"]
        assert system.complete is not None
        assert "my own" in [suggestion.text for suggestion in system.complete("")]


async def test_a_preset_of_the_user_is_removed_and_a_built_in_one_is_not(path: Path) -> None:
    window = WithSettings(path, FILE)
    async with window.run() as pilot:
        await opened(pilot, window)
        await pilot.press("ctrl+o")
        options = window.app.screen.query_one("#system-presets", OptionList)
        await until(pilot, lambda: window.app.focused is options)
        options.highlighted = options.get_option_index("concise")
        await pilot.press("delete")
        options.highlighted = options.get_option_index("tutor")
        await pilot.press("delete")
        await until(pilot, lambda: dict(window.saved.presets) == {"reviewer": "You review."})
        await until(pilot, lambda: window.app.focused is area(window))
        await pilot.press("ctrl+o")
        await until(pilot, lambda: window.app.focused is options)
        options.highlighted = options.get_option_index("tutor")
        await pilot.press("enter")
        await until(pilot, lambda: area(window).full_text == BUILT_IN["tutor"])


async def test_what_is_foreign_in_a_prompt_stays_harmless_and_as_it_is(path: Path) -> None:
    window = WithSettings(path)
    foreign = "a\x1b[31m[b]\u202e\x85b"
    window.session.set_system(foreign)
    async with window.run() as pilot:
        await opened(pilot, window)
        text = screen_text(pilot)
        assert not {"\x1b", "\u202e", "\x85"} & set(text)
        assert "[b]" in text
        await pilot.press("end", "!", "ctrl+s")
        await until(pilot, lambda: window.session.chat.system == f"{foreign}!")


# ----------------------------------------------------------------------------------- sampling


async def test_a_value_of_this_chat_is_in_the_next_turn_and_in_the_header(path: Path) -> None:
    window = WithSettings(path, FILE)
    async with window.run() as pilot:
        screen = await opened(pilot, window)
        await at_sampling(pilot, window, "temp")
        assert window.row("temp") == ("0.4", "settings.toml:3")
        await change(pilot, "0.2")
        await until(pilot, lambda: window.row("temp") == ("0.2", "this chat"))
        await at_sampling(pilot, window, "stop")
        await change(pilot, "\\n\\n")
        await until(pilot, lambda: window.row("stop")[1] == "this chat")
        await pilot.press("escape")
        await until(pilot, lambda: window.app.screen is not screen)
        await until(pilot, lambda: "temp 0.2" in screen_text(pilot))
        await write(pilot, "hi")
        await pilot.press("enter")
        await until(pilot, lambda: len(window.session.conversation()) == 2)
        await until(pilot, lambda: bool(window.session.conversation()[1].records))
        sampling = window.session.conversation()[1].records[0].sampling
        assert (sampling.temp, sampling.stop) == (0.2, ("\n\n",))
        assert window.engine.turns[0].sampling.temp == 0.2
        assert window.text == FILE


async def test_forgetting_goes_back_to_what_is_below(path: Path) -> None:
    window = WithSettings(path, FILE)
    window.session.set_chat_sampling(SamplingChoice(temp=0.1, top_k=3))
    async with window.run() as pilot:
        await opened(pilot, window)
        await at_sampling(pilot, window, "temp")
        assert "Below: 0.4 (" in words(window, "#sampling-detail")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: window.row("temp") == ("0.4", "settings.toml:3"))
        assert window.session.chat.sampling == SamplingChoice(top_k=3)


async def test_what_the_makers_recommend_is_named_as_theirs(path: Path) -> None:
    header = llama_header(sampling={"temp": 0.6})

    def on_load(request: LoadRequest) -> list[Event]:
        del request
        return [ModelRead(header, 4096, 10**9, 10**10, need_template=False), ready()]

    window = WithSettings(path, on_load=on_load)
    async with window.run() as pilot:
        await opened(pilot, window)
        assert window.row("temp") == ("0.6", "the model's makers")
        assert window.row("top_k") == ("40", "llama.cpp's default")


async def test_a_value_for_all_chats_is_saved_and_used(path: Path) -> None:
    window = WithSettings(path, FILE)
    async with window.run() as pilot:
        await opened(pilot, window)
        await at_sampling(pilot, window, "top_k")
        await pilot.press("ctrl+t")
        await change(pilot, "7")
        await until(pilot, lambda: window.session.sampling == SamplingChoice(temp=0.4, top_k=7))
        assert window.saved.sampling == SamplingChoice(temp=0.4, top_k=7)
        assert (window.text or "").startswith("# Mine.\n[sampling]\ntemp = 0.4  # calm\n")
        await until(pilot, lambda: window.row("top_k")[0] == "7")
        assert window.session.chat.sampling == SamplingChoice()
        await pilot.press("ctrl+r")
        await until(pilot, lambda: window.session.sampling == SamplingChoice(temp=0.4))
        assert window.text == FILE


async def test_what_a_flag_sets_is_changed_for_this_chat_only(path: Path) -> None:
    window = WithSettings(path, flags={"sampling.temp": Flag(0.3, "--temp")})
    async with window.run() as pilot:
        await opened(pilot, window)
        await at_sampling(pilot, window, "temp")
        assert window.row("temp") == ("0.3", "--temp")
        await pilot.press("ctrl+t", "enter")
        await until(pilot, lambda: "the flag --temp sets this" in screen_text(pilot))
        assert window.rows.editing is None
        await pilot.press("ctrl+t")
        await change(pilot, "0.2")
        await until(pilot, lambda: window.session.settled_sampling.temp == 0.2)
        assert window.text is None


async def test_a_wrong_value_is_told_at_its_row_and_nothing_is_lost(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        screen = await opened(pilot, window)
        await at_sampling(pilot, window, "top_p")
        await change(pilot, "1.5")
        await until(pilot, lambda: "must be a finite number from 0 to 1" in screen_text(pilot))
        assert "1.5" in screen_text(pilot)
        assert window.session.chat.sampling == SamplingChoice()
        await pilot.press("f6")
        assert window.app.screen is screen
        await pilot.press("ctrl+u")
        await write(pilot, "0.5")
        await pilot.press("enter")
        await until(pilot, lambda: window.session.chat.sampling == SamplingChoice(top_p=0.5))


async def test_a_click_goes_to_a_value_and_another_edits_it(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        await opened(pilot, window)
        await pilot.click("RowList", offset=(4, 1))
        await until(pilot, lambda: window.rows.current == "top_k")
        assert window.rows.editing is None
        await pilot.click("RowList", offset=(4, 1))
        await until(pilot, lambda: window.rows.editing == "top_k")
        await pilot.press("ctrl+u")
        await write(pilot, "9")
        await pilot.press("enter")
        await until(pilot, lambda: window.session.chat.sampling == SamplingChoice(top_k=9))


async def test_an_empty_seed_is_drawn(path: Path) -> None:
    window = WithSettings(path, "[sampling]\nseed = 5\n")
    async with window.run() as pilot:
        await opened(pilot, window)
        await at_sampling(pilot, window, "seed")
        await pilot.press("enter", "ctrl+u", "enter")
        await until(pilot, lambda: window.row("seed") == ("drawn each turn", "this chat"))
        assert window.session.settled_sampling.seed is None


async def test_sampling_can_be_chosen_while_an_answer_comes(path: Path) -> None:
    window = WithSettings(path)
    async with window.run() as pilot:
        await ready_window(pilot, window)
        window.engine.mute = True
        window.session.send("hi")
        await opened(pilot, window)
        await at_sampling(pilot, window, "temp")
        await change(pilot, "0")
        await until(pilot, lambda: window.session.chat.sampling == SamplingChoice(temp=0.0))
        assert window.engine.turns[0].sampling.temp == 0.8
        window.engine.push(*turn_events(1, token_s=[0.5 + MS / 1e9]))
        await until(pilot, lambda: not window.session.busy)


async def test_a_broken_file_is_left_alone(path: Path) -> None:
    broken = "[sampling\ntemp = 1\n"
    window = WithSettings(path, broken)
    async with window.run() as pilot:
        await opened(pilot, window)
        await at_sampling(pilot, window, "temp")
        await pilot.press("ctrl+t")
        await change(pilot, "0.5")
        await until(pilot, lambda: "nothing was saved" in (window.rows.fault("temp") or ""))
        assert window.text == broken
        assert window.session.sampling == SamplingChoice()


@pytest.mark.parametrize("size", [(80, 24), (60, 16), (1, 1), (200, 50)])
async def test_it_opens_in_a_terminal_of_any_size(path: Path, size: tuple[int, int]) -> None:
    window = WithSettings(path, FILE)
    async with window.run() as pilot:
        await opened(pilot, window)
        await pilot.resize_terminal(*size)
        await pilot.press("x", "ctrl+s", "ctrl+o", "down", "escape", "ctrl+n", "escape", "tab")
        await pilot.press("down", "enter", "x", "escape", "ctrl+t", "down")
        await until(pilot, lambda: window.rows.editing is None)
        await pilot.press("escape")
        await until(pilot, lambda: window.app.screen is window.screen)
        assert window.session.chat.system == "x"


async def test_in_a_small_terminal_the_pane_with_the_focus_is_shown(path: Path) -> None:
    window = WithSettings(path)
    async with window.run((60, 16)) as pilot:
        await opened(pilot, window)
        assert "Sampling" not in screen_text(pilot)
        await pilot.press("tab")
        await until(pilot, lambda: "Sampling" in screen_text(pilot))
        assert "System prompt" not in screen_text(pilot)


async def test_a_replay_has_no_behaviour_to_change() -> None:
    app = replay_app()
    async with app.run_test() as pilot:
        screen = app.screen
        screen.action_show_behaviour()  # type: ignore[attr-defined]
        await pilot.pause()
        assert app.screen is screen
