"""The chat screen: what the user does, and what the session's events do to it."""

from pathlib import Path

from textual._xterm_parser import XTermParser
from textual.events import Key

from backend.history import History
from backend.protocol import (
    DropCacheRequest,
    EngineExited,
    Event,
    LoadFailed,
    LoadRequest,
    TurnAccepted,
    TurnRequest,
)
from backend.session import ModelChoice, Session
from tests.fake_engine import ScriptedEngine, failed, ready, turn_events
from tests.tui.window import NARROW, Scripted, plain_start, ready_window, screen_text, until
from tui.app import PhasescopeApp
from tui.screens.help import HelpScreen
from tui.screens.log import LogScreen
from tui.widgets.composer import Composer
from tui.widgets.entries import NoticeEntry


def hello(request: TurnRequest) -> list[Event]:
    """An answer of two tokens."""
    return turn_events(request.turn, token_s=[0.5, 0.6], pieces=["Hello ", "there."])


def unfinished(request: TurnRequest) -> list[Event]:
    """An answer that does not end."""
    return hello(request)[:-1]


async def test_a_message_is_answered_with_its_figures() -> None:
    window = Scripted(hello)
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"Hi")
        await pilot.press("enter")
        await until(pilot, lambda: window.said() == [("you", "Hi"), ("model", "Hello there.")])
        assert window.composer.text == ""
        screen = screen_text(pilot)
        assert "ttft 500 ms" in screen
        assert "decode 2 @ 10.0/s" in screen
        assert "Scripted-1B" in screen


async def test_enter_twice_leaves_one_message_in_flight_and_keeps_the_other() -> None:
    window = Scripted(unfinished)
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"one", "enter", *"two", "enter")
        await pilot.pause()
        assert window.composer.text == "two"
        assert window.said() == [("you", "one"), ("live", "Hello there.")]
        turns = [r for r in window.engine.requests if isinstance(r, TurnRequest)]
        assert len(turns) == 1


async def test_a_blank_message_is_not_sent() -> None:
    window = Scripted()
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press("space", "enter")
        assert not window.session.busy
        assert window.said() == []


async def test_an_answer_grows_while_it_comes_and_is_then_whole() -> None:
    window = Scripted(unfinished)
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"Hi", "enter")
        await until(pilot, lambda: window.said()[-1] == ("live", "Hello there."))
        assert "now 10.0/s" in screen_text(pilot)
        window.engine.push(turn_events(1, token_s=[0.5, 0.6])[-1])
        await until(pilot, lambda: window.said()[-1] == ("model", "Hello there."))


async def test_a_refused_message_returns_to_the_composer() -> None:
    window = Scripted(lambda r: failed(r.turn, "prompt_too_long", "the prompt has 9,000 tokens"))
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"much", "enter")
        await until(pilot, lambda: window.composer.text == "much")
        assert window.said() == []
        assert window.notices()[-1] == "the prompt has 9,000 tokens"


async def test_what_was_typed_meanwhile_follows_the_refused_message() -> None:
    window = Scripted(lambda request: [TurnAccepted(request.turn, 0)])
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"first", "enter", *"second")
        window.engine.push(failed(1, "template")[-1])
        await until(pilot, lambda: window.composer.text == "first\nsecond")


async def test_rerun_replaces_the_answer_and_keeps_the_old_one_in_the_tree() -> None:
    window = Scripted(hello)
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"Hi", "enter")
        await until(pilot, lambda: window.said()[-1][0] == "model")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: not window.session.busy)
        await until(pilot, lambda: window.said()[-1][0] == "model")
        assert window.said() == [("you", "Hi"), ("model", "Hello there.")]
        assert window.session.snapshot().turn == 2


async def test_a_new_chat_is_empty() -> None:
    window = Scripted(hello)
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"Hi", "enter")
        await until(pilot, lambda: window.said()[-1:] == [("model", "Hello there.")])
        before = window.session.chat.id
        await pilot.press("ctrl+n")
        await until(pilot, lambda: window.said() == [])
        assert window.session.chat.id != before
        assert window.session.snapshot().turn is None


async def test_earlier_messages_come_back_with_the_arrow_keys() -> None:
    window = Scripted(hello)
    async with window.run() as pilot:
        await ready_window(pilot, window)
        for text in ("one", "two"):
            await pilot.press(*text, "enter")
            await until(pilot, lambda: not window.session.busy)
        await pilot.press(*"draft", "up")
        assert window.composer.text == "two"
        await pilot.press("up")
        assert window.composer.text == "one"
        await pilot.press("down", "down")
        assert window.composer.text == "draft"


async def test_a_message_of_several_lines_is_one_message() -> None:
    window = Scripted(hello)
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press("a", "ctrl+j", "b", "enter")
        await until(pilot, lambda: window.said()[:1] == [("you", "a\nb")])


async def test_a_dead_engine_costs_the_answer_and_is_started_again() -> None:
    window = Scripted(unfinished)
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"Hi", "enter")
        await until(pilot, lambda: window.session.busy)
        window.engine.running = False
        window.engine.push(EngineExited(False, "the engine was killed", ("last line of the log",)))
        await until(pilot, lambda: not window.session.busy)
        assert "the engine was killed" in window.notices()
        assert window.said() == [("you", "Hi"), ("model", "Hello there.")]
        assert "last line of the log" in screen_text(pilot)
        await pilot.press("f5")
        await until(pilot, lambda: len(window.engines) == 2)
        await until(pilot, lambda: window.session.snapshot().engine == "ready")


async def test_a_model_without_a_template_gets_chatml_when_the_user_says_so() -> None:
    def on_load(request: LoadRequest) -> list[Event]:
        if request.chat_template is None:
            return [LoadFailed("the file has no chat template", need_template=True)]
        return [ready()]

    window = Scripted(hello, on_load)
    async with window.run() as pilot:
        await until(pilot, lambda: "the file has no chat template" in window.notices())
        await pilot.press("f8")
        await until(pilot, lambda: window.session.live.ready is not None)
        loads = [r for r in window.engine.requests if isinstance(r, LoadRequest)]
        assert [load.chat_template is None for load in loads] == [True, False]


async def test_dropping_the_cache_is_asked_of_the_engine() -> None:
    window = Scripted()
    async with window.run() as pilot:
        await ready_window(pilot, window)
        window.screen.action_drop_cache()
        assert isinstance(window.engine.requests[-1], DropCacheRequest)


async def test_a_store_that_fails_is_named_and_the_chat_goes_on(tmp_path: Path) -> None:
    history = History(tmp_path / "chats.db")
    engine = ScriptedEngine(hello)
    session = Session(lambda: engine, ModelChoice("/m.gguf"), history=history)
    window = Scripted()
    window.session, window.app = session, PhasescopeApp(session, plain_start())
    async with window.run() as pilot:
        await ready_window(pilot, window)
        history._db.execute("ALTER TABLE chats RENAME TO elsewhere")
        await pilot.press(*"Hi", "enter")
        await until(pilot, lambda: window.said()[-1:] == [("model", "Hello there.")])
        await until(pilot, lambda: any("cannot be used" in note for note in window.notices()))
        await until(pilot, lambda: "not stored" in screen_text(pilot))
        history._db.execute("ALTER TABLE elsewhere RENAME TO chats")
        await until(pilot, lambda: "not stored" not in screen_text(pilot))
        assert history.load_chat(session.chat.id).title == "Hi"


async def test_thinking_stands_apart_from_the_answer_while_it_comes_and_after() -> None:
    pieces = ["<think>", "Let me ", "see.", "</think>", "Blue."]
    stamps = [0.1, 0.2, 0.3, 0.4, 0.5]
    window = Scripted(lambda r: turn_events(r.turn, token_s=stamps, pieces=pieces)[:-1])
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"Hi", "enter")
        await until(pilot, lambda: window.said()[-1:] == [("live", "Blue.")])
        assert "Let me see." in screen_text(pilot)
        assert "<think>" not in screen_text(pilot)
        window.engine.push(turn_events(1, token_s=stamps)[-1])
        await until(pilot, lambda: window.said()[-1:] == [("model", "Blue.")])
        await pilot.pause()
        assert "▸ thought for 400 ms · 4 tok" in screen_text(pilot)
        assert "Let me see." not in screen_text(pilot)
        await pilot.press("tab", "space")
        assert "Let me see." in screen_text(pilot)


async def test_the_view_follows_the_answer_until_the_user_scrolls_up() -> None:
    lines = [f"line {index}\n\n" for index in range(60)]
    stamps = [index / 100 for index in range(60)]
    window = Scripted(lambda r: turn_events(r.turn, token_s=stamps, pieces=lines)[:-1])
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"Hi", "enter")
        await until(pilot, lambda: "line 59" in screen_text(pilot))
        await pilot.press("pageup", "pageup")
        await until(pilot, lambda: "line 59" not in screen_text(pilot))
        before = screen_text(pilot).split("\n")[1]
        window.engine.push(turn_events(1, token_s=stamps)[-1])
        await until(pilot, lambda: not window.session.busy)
        assert screen_text(pilot).split("\n")[1].startswith(before[:30])
        await pilot.press("pagedown", "pagedown", "pagedown")
        await until(pilot, lambda: "line 59" in screen_text(pilot))


async def test_esc_stops_the_answer() -> None:
    window = Scripted(unfinished)
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"Hi", "enter")
        await until(pilot, lambda: window.session.busy)
        await pilot.press("escape")
        assert [type(r).__name__ for r in window.engine.requests][-1] == "CancelRequest"


async def test_model_text_is_never_markup_nor_a_terminal_command() -> None:
    pieces = ["[red]not red[/] ", "\x1b]52;c;aGk=\x07", "\x1b[2J", "\x9b31m <b>html</b>"]
    window = Scripted(lambda r: turn_events(r.turn, token_s=[0.1, 0.2, 0.3, 0.4], pieces=pieces))
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"Hi", "enter")
        await until(pilot, lambda: window.said()[-1:] == [("model", "".join(pieces))])
        screen = screen_text(pilot)
        assert "[red]not red[/]" in screen
        assert "<b>html</b>" in screen
        assert not any((ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 for c in screen)


async def test_a_fault_that_names_a_hostile_file_is_harmless_in_every_place() -> None:
    window = Scripted(hello, lambda _request: [LoadFailed("\x1b[2Jmodel.gguf is damaged")])
    async with window.run() as pilot:
        await until(pilot, lambda: screen_text(pilot).count("␛[2Jmodel.gguf is damaged") == 2)
        assert "\x1b" not in screen_text(pilot)


async def test_pasted_control_characters_are_shown_as_pictures_and_sent_raw() -> None:
    window = Scripted(hello)
    async with window.run() as pilot:
        await ready_window(pilot, window)
        window.composer.insert("a\x1b[2Jb")
        await pilot.pause()
        assert "a␛[2Jb" in screen_text(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: window.said()[:1] == [("you", "a\x1b[2Jb")])


async def test_panels_open_in_the_place_of_the_chat_and_typing_goes_on() -> None:
    for size in ((120, 36), NARROW, (60, 16)):
        window = Scripted(hello)
        async with window.run(size) as pilot:
            await ready_window(pilot, window)
            await pilot.press("alt+2", *"Hi")
            await until(pilot, lambda: "TTFT" in screen_text(pilot))
            assert window.composer.text == "Hi"
            assert window.app.focused is window.composer
            assert "TOKENS/S" not in screen_text(pilot)
            await pilot.press("escape")
            await until(pilot, lambda: "loaded in" in screen_text(pilot))


async def test_alt_digits_of_a_plain_terminal_arrive_as_keys() -> None:
    Scripted()
    keys = [e.key for e in XTermParser().feed("\x1b3\x1b5x") if isinstance(e, Key)]
    assert keys == ["alt+3", "alt+5", "x"]


async def test_log_and_help_open_and_close() -> None:
    window = Scripted()
    async with window.run() as pilot:
        await ready_window(pilot, window)
        for key, screen in (("ctrl+l", LogScreen), ("f1", HelpScreen)):
            await pilot.press(key)
            await until(pilot, lambda screen=screen: isinstance(window.app.screen, screen))  # type: ignore[misc]
            await pilot.press("escape")
            await until(pilot, lambda: window.app.screen is window.screen)
            assert isinstance(window.app.focused, Composer)


async def test_an_answer_of_every_block_survives_any_width() -> None:
    pieces = [
        "1. a\n2. b\n   - c\n\n",
        "> quote\n\n",
        "```\ncode 漢字\n",
        "```\n\n|a|b|\n|-|-|\n|1|2|\n",
    ]
    stamps = [0.1, 0.2, 0.3, 0.4]
    window = Scripted(lambda r: turn_events(r.turn, token_s=stamps, pieces=pieces)[:-1])
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"Hi", "enter")
        await until(pilot, lambda: window.said()[-1:] == [("live", "".join(pieces))])
        for key in ("", "f1", "escape", "ctrl+l", "escape", "alt+1", "alt+1", "ctrl+p", "escape"):
            for width in (1, 2, 3, 5, 8, 11, 30, 120):
                await pilot.resize_terminal(width, 30)
                await pilot.pause()
            if key:
                await pilot.press(key)
        await until(pilot, lambda: "code 漢字" in screen_text(pilot))


async def test_joiners_that_are_typed_stay_in_the_message() -> None:
    window = Scripted(hello)
    async with window.run() as pilot:
        await ready_window(pilot, window)
        for character in "می\u200cخواهم":
            window.composer.post_message(Key(character, character))
        await until(pilot, lambda: window.composer.text == "می\u200cخواهم")


async def test_a_message_that_was_called_back_and_changed_stays_changed() -> None:
    window = Scripted(hello)
    async with window.run() as pilot:
        await ready_window(pilot, window)
        for text in ("one", "two"):
            await pilot.press(*text, "enter")
            await until(pilot, lambda: not window.session.busy)
        await pilot.press("up", *"!", "up", "down")
        assert window.composer.text == "two!"
        await pilot.press("down", *"new", "enter")
        await until(pilot, lambda: not window.session.busy)
        await pilot.press("up", "up")
        assert window.composer.text == "two"


async def test_the_end_of_an_engine_stands_under_what_came_of_the_answer() -> None:
    window = Scripted(unfinished)
    async with window.run() as pilot:
        await ready_window(pilot, window)
        for _ in range(2):
            await pilot.press(*"Hi", "enter")
            await until(pilot, lambda: window.session.busy)
            window.engine.running = False
            window.engine.push(EngineExited(False, "the engine was killed"))
            await until(pilot, lambda: not window.session.busy)
            assert isinstance(window.entries[-1], NoticeEntry)
        assert window.notices().count("the engine was killed") == 2


async def test_any_size_of_terminal_is_survived() -> None:
    window = Scripted(hello)
    async with window.run() as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"Hi", "enter")
        for size in ((1, 1), (20, 5), (60, 16), (80, 24), (110, 30), (200, 50), (1, 1), (120, 36)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        await until(pilot, lambda: "Hello there." in screen_text(pilot))
        assert "PHASES · turn 1" in screen_text(pilot)
