"""The composer by itself: folded pastes, drafts, editing, slash commands and their completion."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Button, Static

from tests.tui.window import screen_text, until
from tui.paths import suggest_paths
from tui.slash import SlashCommand, Suggestion, ranked
from tui.widgets.completion import CompletionList
from tui.widgets.composer import Composer
from tui.widgets.pastes import Draft, Fold

LONG = "".join(f"line {index}\n" for index in range(20))
LONG_LABEL = "⟦pasted 20 lines, 150 characters⟧"
HUGE = "some words of a line\n" * 10_000

COMMANDS = (
    SlashCommand("file", "PATH", "Put a text file into the message.", suggest_paths),
    SlashCommand("help", None, "Keys and figures."),
    SlashCommand("panel", "[NUMBER]", "Show a panel."),
    SlashCommand("system", "TEXT", "Set the system prompt.", lines=True),
)


class Host(App[None]):
    """The composer in a column, with something to focus beside it."""

    CSS = "#composer { height: auto; border: round $primary !important; max-height: 10; }"

    def __init__(self, commands: Sequence[SlashCommand] = COMMANDS) -> None:
        super().__init__()
        self.sent: list[str] = []
        self.invoked: list[tuple[str, str]] = []
        self.changes = 0
        self.left = 0
        self._commands = commands

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("chat", id="chat")
            yield Button("other", compact=True)
            yield Composer()

    def on_mount(self) -> None:
        self.query_one("#chat").styles.height = "1fr"
        self.composer.commands = self._commands
        self.composer.focus()

    @property
    def composer(self) -> Composer:
        """Where messages are written."""
        return self.query_one(Composer)

    @property
    def completions(self) -> CompletionList:
        """The list over it."""
        return self.query_one(CompletionList)

    def on_composer_submitted(self, message: Composer.Submitted) -> None:
        self.sent.append(message.text)
        self.composer.accept()

    def on_composer_invoked(self, message: Composer.Invoked) -> None:
        self.invoked.append((message.command.name, message.argument))
        if message.command.name == "file":
            self.composer.attach(message.argument)
        else:
            self.composer.accept_command()

    def on_composer_draft_changed(self) -> None:
        self.changes += 1

    def on_composer_edit_left(self) -> None:
        self.left += 1


def is_open(app: Host) -> bool:
    """Whether completions are shown."""
    return app.completions.is_open


def notices(app: Host) -> list[str]:
    """What the composer told the user."""
    return [notice.message for notice in app._notifications]


async def paste(pilot: Pilot[None], text: str) -> None:
    """Paste as a terminal does."""
    assert isinstance(pilot.app, Host)
    pilot.app.composer.post_message(Paste(text))
    await pilot.pause()


# -------------------------------------------------------------------------------- pastes


async def test_a_long_paste_is_one_placeholder_and_is_sent_whole() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press(*"see ")
        await paste(pilot, HUGE)
        await pilot.press(*" ok")
        assert app.composer.text == "see ⟦pasted 10,000 lines, 210,000 characters⟧ ok"
        assert "⟦pasted 10,000 lines, 210,000 characters⟧" in screen_text(pilot)
        assert app.composer.full_text == f"see {HUGE} ok"
        await pilot.press("enter")
        await pilot.pause()
        assert app.sent == [f"see {HUGE} ok"]
        assert app.composer.text == ""


async def test_a_short_paste_is_text_and_line_ends_are_lf() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await paste(pilot, "a\r\nb\rc\n")
        assert app.composer.text == "a\nb\nc\n"
        await paste(pilot, LONG.replace("\n", "\r\n"))
        assert app.composer.text == f"a\nb\nc\n{LONG_LABEL}"
        assert app.composer.full_text == f"a\nb\nc\n{LONG}"


async def test_control_characters_of_a_paste_stay_and_are_shown_as_pictures() -> None:
    app = Host()
    hostile = "a\x1b[2Jb\x0cc\x1cd\x85e\u2028f\x00g\x7f\tt"
    async with app.run_test() as pilot:
        await paste(pilot, hostile)
        screen = screen_text(pilot)
        assert "a␛[2Jb␌c␜d�e�f␀g␡" in screen
        assert app.composer.full_text == hostile
        await pilot.press("left", "left", "x")
        assert app.composer.full_text == hostile[:-2] + "x" + hostile[-2:]
        await pilot.press("enter")
        await pilot.pause()
        assert app.sent == [hostile[:-2] + "x" + hostile[-2:]]


@pytest.mark.parametrize(
    ("keys", "left"),
    [
        (("end", "left", "backspace"), "ab"),
        (("home", "right", "delete"), "ab"),
        (("end", "left", "ctrl+w"), "ab"),
        (("home", "right", "alt+delete"), "ab"),
        (("home", "right", "ctrl+k"), "a"),
        (("home", "right", "shift+right", "x"), "axb"),
        (("end", "shift+left", "shift+left", "delete"), "a"),
    ],
)
async def test_a_placeholder_is_removed_whole_and_undo_brings_it_back(
    keys: tuple[str, ...], left: str
) -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press("a")
        await paste(pilot, LONG)
        await pilot.press("b", *keys)
        assert app.composer.full_text == left
        await pilot.press("ctrl+z")
        assert app.composer.full_text == f"a{LONG}b"
        assert app.composer.text == f"a{LONG_LABEL}b"
        await pilot.press("ctrl+y")
        assert app.composer.full_text == left


async def test_the_cursor_never_stops_in_a_placeholder() -> None:
    app = Host()
    async with app.run_test(size=(30, 16)) as pilot:
        await pilot.press(*"one ")
        await paste(pilot, LONG)
        await pilot.press(*" two", "ctrl+j", *"12345678901234567890")
        start, end = 4, 4 + len(LONG_LABEL)
        for keys in (
            ["left"] * 8,
            ["up", "down"] * 3,
            ["home", "home", "end", "end"],
            ["ctrl+left"] * 6,
            ["right"] * 8,
            ["home", *["ctrl+right"] * 5],
            ["shift+left"] * 8,
        ):
            app.composer.move_cursor((1, 2))
            for key in keys:
                await pilot.press(key)
                row, column = app.composer.cursor_location
                assert row != 0 or not start < column < end
        for column in range(start, end + 1):
            app.composer.move_cursor((0, column))
            assert app.composer.cursor_location[1] in (start, end)


async def test_copy_and_cut_over_a_placeholder_give_the_real_text() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press("a")
        await paste(pilot, LONG)
        await pilot.press("b")
        app.composer.select_all()
        await pilot.press("ctrl+c")
        assert app.clipboard == f"a{LONG}b"
        assert app.composer.selected_text == f"a{LONG}b"
        await pilot.press("ctrl+x")
        assert app.clipboard == f"a{LONG}b"
        assert app.composer.full_text == ""
        await pilot.press("ctrl+v")
        assert app.composer.full_text == f"a{LONG}b"


async def test_equal_pastes_are_told_apart() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await paste(pilot, LONG)
        await paste(pilot, LONG.replace("line", "LINE"))
        assert app.composer.text == f"{LONG_LABEL}{LONG_LABEL[:-1]} · 2⟧"
        await pilot.press("backspace")
        assert app.composer.full_text == LONG


async def test_brackets_that_are_typed_or_pasted_are_text() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await paste(pilot, LONG)
        await pilot.press("space")
        await paste(pilot, LONG_LABEL)
        await paste(pilot, f"\ufdd0{LONG_LABEL[1:-1]}\ufdd1")
        assert app.composer.full_text == f"{LONG} {LONG_LABEL}\ufdd0{LONG_LABEL[1:-1]}\ufdd1"


async def test_a_key_and_a_click_unfold_a_paste_and_undo_folds_it_again() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press("a")
        await paste(pilot, LONG)
        await pilot.press("b")
        await pilot.pause()
        changes = app.changes
        await pilot.press("alt+u")
        assert app.composer.text == f"a{LONG}b"
        await pilot.pause()
        assert app.changes == changes
        await pilot.press("ctrl+z")
        assert app.composer.text == f"a{LONG_LABEL}b"
        await pilot.click(Composer, offset=(10, 1))
        assert app.composer.text == f"a{LONG}b"


async def test_a_paste_that_is_too_large_to_edit_says_so_and_stays() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await paste(pilot, HUGE)
        await pilot.press("alt+u")
        assert "at most 500 lines and 20,000 characters can" in notices(app)[0]
        assert app.composer.text == "⟦pasted 10,000 lines, 210,000 characters⟧"
        assert app.composer.full_text == HUGE


async def test_undo_of_more_lines_than_are_shown_brings_back_what_was() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press("a")
        for _ in range(5):
            await paste(pilot, "1\n2\n3\n4\n5\n")
        text = app.composer.text
        app.composer.select_all()
        await pilot.press("x", "ctrl+z")
        assert app.composer.text == text
        await pilot.press("ctrl+y")
        assert app.composer.text == "x"
        await pilot.press("ctrl+z", *["ctrl+z"] * 6)
        assert app.composer.text == ""


# ------------------------------------------------------------------------ history, drafts


async def test_earlier_messages_come_back_folded_as_they_were_written() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press(*"see ")
        await paste(pilot, LONG)
        await pilot.press("enter", *"draft ")
        await paste(pilot, LONG)
        await pilot.press("up")
        assert app.composer.text == f"see {LONG_LABEL}"
        await pilot.press("down")
        assert app.composer.text == f"draft {LONG_LABEL}"
        await pilot.press("up", "enter")
        await pilot.pause()
        assert app.sent == [f"see {LONG}", f"see {LONG}"]


async def test_messages_of_before_stand_in_front_of_those_of_now() -> None:
    app = Host()
    async with app.run_test() as pilot:
        app.composer.remember("now")
        await pilot.press(*"draft", "up")
        app.composer.remember_all(["old", "old", "older than now", "now"])
        await pilot.press("up")
        assert app.composer.text == "older than now"
        await pilot.press("up")
        assert app.composer.text == "old"
        await pilot.press("up", "down", "down", "down")
        assert app.composer.text == "draft"


async def test_a_message_of_many_lines_that_was_typed_comes_back_to_be_edited() -> None:
    app = Host()
    async with app.run_test() as pilot:
        app.composer.remember_all([HUGE, LONG])
        await pilot.press("up")
        assert app.composer.text == LONG
        for _ in range(LONG.count("\n") + 1):
            await pilot.press("up")
        assert app.composer.text.startswith("⟦text of 10,000 lines")
        assert app.composer.full_text == HUGE


async def test_a_refused_message_comes_back_folded_before_what_was_written_since() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press(*"see ")
        await paste(pilot, LONG)
        await pilot.press("enter")
        await pilot.pause()
        await paste(pilot, LONG)
        app.composer.give_back(app.sent[0])
        assert app.composer.text == f"see {LONG_LABEL}\n{LONG_LABEL[:-1]} · 2⟧"
        assert app.composer.full_text == f"see {LONG}\n{LONG}"


async def test_a_draft_is_kept_as_one_string_and_restored() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press(*"see ")
        await paste(pilot, HUGE)
        await paste(pilot, "x\x0cy")
        stored = app.composer.draft.to_json()
    again = Host()
    async with again.run_test() as pilot:
        assert again.composer.restore(stored)
        assert again.composer.text == "see ⟦pasted 10,000 lines, 210,000 characters⟧x\x0cy"
        assert again.composer.full_text == f"see {HUGE}x\x0cy"
        assert not again.composer.restore('{"not": "a draft"}')
        assert again.composer.full_text == f"see {HUGE}x\x0cy"
        await pilot.press("ctrl+z")
        assert again.composer.full_text == f"see {HUGE}x\x0cy"


async def test_each_change_of_the_text_is_told_once() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press("a", "b")
        await pilot.pause()
        assert app.changes == 2
        await pilot.press("left", "right", "home")
        await pilot.pause()
        assert app.changes == 2
        await pilot.press("backspace")
        app.composer.restore('["ab"]')
        await pilot.pause()
        assert app.changes == 2
        app.composer.clear()
        await pilot.pause()
        assert app.changes == 3


# ------------------------------------------------------------------------------- editing


async def test_editing_a_message_keeps_the_draft_and_gives_it_back() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press(*"draft ")
        await paste(pilot, LONG)
        app.composer.begin_edit("editing message 2", "what was said")
        await pilot.pause()
        assert app.composer.is_editing
        assert app.composer.full_text == "what was said"
        assert app.composer.draft_aside == Draft(("draft ", Fold(LONG_LABEL[1:-1], LONG)))
        assert "editing message 2 · esc leaves it as it was" in screen_text(pilot)
        await pilot.press("up", "!", "escape")
        await pilot.pause()
        assert app.left == 1
        assert not app.composer.has_class("-editing")
        assert app.composer.text == f"draft {LONG_LABEL}"
        assert "editing" not in screen_text(pilot)


async def test_an_edited_message_is_sent_and_the_draft_is_back() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press(*"draft")
        app.composer.begin_edit("[red]editing[/] \x1b[2J", "first")
        app.composer.begin_edit("editing message 3", "/help me")
        assert app.composer.text == "//help me"
        await pilot.press(*" out", "enter")
        await pilot.pause()
        assert app.sent == ["/help me out"]
        assert app.composer.text == "draft"
        await pilot.press("up")
        assert app.composer.text == "//help me out"


async def test_titles_and_status_are_no_markup_and_one_line_of_the_width() -> None:
    app = Host()
    async with app.run_test(size=(40, 10)) as pilot:
        app.composer.begin_edit("[red]editing[/]", "x")
        app.composer.set_status("[b]41 tok[/] · \x1b[2J\nsends 62 · ≈ 0.2 s and so on and on")
        await pilot.pause()
        screen = screen_text(pilot)
        assert "[red]editing[/] · esc leaves" in screen
        assert "[b]41 tok[/] · ␛[2J⏎sends 62" in screen
        app.composer.set_status("41 tok")
        await pilot.pause()
        assert "41 tok ─╯" in screen_text(pilot)


# ------------------------------------------------------------------------ slash commands


async def test_a_command_runs_and_is_gone() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press(*"/help", "enter")
        await pilot.pause()
        assert app.invoked == [("help", "")]
        assert app.composer.text == ""
        assert not is_open(app)


async def test_below_a_command_of_one_line_the_message_stays() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await paste(pilot, "/panel 2\nWhat is this?")
        await pilot.press("enter")
        await pilot.pause()
        assert app.invoked == [("panel", "2")]
        assert app.composer.text == "What is this?"
        app.composer.load_text("/system You are\na pirate")
        await pilot.press("enter")
        await pilot.pause()
        assert app.invoked[-1] == ("system", "You are\na pirate")
        assert app.composer.text == ""


async def test_an_unknown_command_says_so_and_stays() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press(*"/hlep ", "enter")
        await pilot.pause()
        assert notices(app) == ["There is no command /hlep. Did you mean /help?"]
        assert app.composer.text == "/hlep "
        assert app.sent == []


async def test_paths_and_doubled_slashes_are_messages() -> None:
    app = Host()
    async with app.run_test() as pilot:
        for text in ("/etc/passwd is a file", "//help", " /help"):
            await pilot.press(*text, "enter")
            await pilot.pause()
        assert app.sent == ["/etc/passwd is a file", "/help", " /help"]
        assert app.invoked == []


async def test_a_folded_paste_is_never_a_command() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await paste(pilot, f"/help {LONG}")
        await pilot.press("enter")
        await pilot.pause()
        assert app.sent == [f"/help {LONG}"]


async def test_without_commands_a_slash_is_a_character() -> None:
    app = Host(())
    async with app.run_test() as pilot:
        await pilot.press(*"/help")
        assert not is_open(app)
        await pilot.press("enter")
        await pilot.pause()
        assert app.sent == ["/help"]


# ---------------------------------------------------------------------------- completion


async def test_commands_are_filtered_chosen_and_completed() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press("/")
        await pilot.pause()
        screen = screen_text(pilot)
        assert "› /file PATH" in screen
        assert "  /panel [NUMBER]  Show a panel." in screen
        await pilot.press("down", "down")
        assert app.completions.chosen.shown == "/panel [NUMBER]"
        await pilot.press("up", "up", "up")
        assert app.completions.chosen.shown == "/system TEXT"
        await pilot.press("h")
        assert app.completions.chosen.shown == "/help"
        await pilot.press("tab")
        assert app.composer.text == "/help"
        assert app.focused is app.composer
        await pilot.press("enter")
        await pilot.pause()
        assert app.invoked == [("help", "")]


async def test_enter_completes_first_and_then_runs() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press(*"/pan", "enter")
        assert app.composer.text == "/panel "
        assert app.invoked == []
        await pilot.press("enter")
        await pilot.pause()
        assert app.invoked == [("panel", "")]


def fruits(typed: str) -> list[Suggestion]:
    """Suggestions that are there at once."""
    return [Suggestion(name) for name in ranked(typed, ["apple", "pear", "pineapple"])]


@pytest.mark.parametrize(
    ("written", "keys", "runs"),
    [
        ("/eat", (), None),
        ("/eat pea", (), None),
        ("/eat pear", (), "pear"),
        ("/eat nea", (), "nea"),
        ("/eat nea", ("down",), None),
        ("/maybe", (), ""),
        ("/maybe ", (), ""),
        ("/maybe ", ("down",), None),
        ("/free pea", (), "pea"),
        ("/free pea", ("down",), None),
    ],
)
async def test_enter_runs_what_is_complete_and_completes_the_rest(
    written: str, keys: tuple[str, ...], runs: str | None
) -> None:
    app = Host(
        (
            SlashCommand("eat", "FRUIT", "", fruits),
            SlashCommand("maybe", "[FRUIT]", "", fruits),
            SlashCommand("free", "FRUIT", "", fruits, free=True),
        )
    )
    async with app.run_test() as pilot:
        app.composer.load_text(written)
        await until(pilot, lambda: is_open(app) and app.composer._wanted is None)
        await pilot.press(*keys, "enter")
        await pilot.pause()
        assert [argument for _name, argument in app.invoked] == ([] if runs is None else [runs])
        assert (app.composer.text == "") is (runs is not None)


async def test_esc_closes_the_list_and_nothing_else() -> None:
    app = Host()
    async with app.run_test() as pilot:
        app.composer.begin_edit("editing message 1", "")
        await pilot.press("/", "h", "escape")
        assert not is_open(app)
        assert app.composer.is_editing
        assert app.composer.text == "/h"
        await pilot.press("e")
        assert not is_open(app)
        await pilot.press("backspace", "backspace", "backspace", "/")
        assert is_open(app)


async def test_a_closed_list_takes_no_keys() -> None:
    app = Host()
    async with app.run_test() as pilot:
        app.composer.remember("before")
        await pilot.press("up")
        assert app.composer.text == "before"
        await pilot.press("tab")
        assert app.focused is app.query_one(Button)
        await pilot.press("tab", "down", *"/", "escape", "up")
        assert app.composer.text == "before"


async def test_the_list_closes_where_it_does_not_belong() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press("/", "h")
        assert is_open(app)
        await pilot.press("left")
        assert not is_open(app)
        await pilot.press("end")
        assert is_open(app)
        app.query_one(Button).focus()
        await pilot.pause()
        assert not is_open(app)
        app.composer.focus()
        await pilot.pause()
        assert is_open(app)
        await pilot.press("ctrl+j")
        assert not is_open(app)


async def test_a_click_takes_a_completion() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press("/")
        await pilot.pause()
        await pilot.click(CompletionList, offset=(5, 1))
        await pilot.pause()
        assert app.composer.text == "/help"
        assert app.focused is app.composer


async def test_a_long_list_has_the_rows_that_there_is_room_for() -> None:
    many = tuple(SlashCommand(f"c-{chr(97 + i)}", None, "Does it.") for i in range(26))
    app = Host(many)
    async with app.run_test(size=(60, 16)) as pilot:
        await pilot.press("/")
        await pilot.pause()
        assert screen_text(pilot).count("Does it.") == 8
        await pilot.press("up")
        await pilot.pause()
        assert "› /c-z" in screen_text(pilot)
        await pilot.resize_terminal(60, 8)
        await pilot.press("c")
        await pilot.pause()
        assert 0 < screen_text(pilot).count("Does it.") <= 5
        assert "│ /c" in screen_text(pilot)
        for size in ((60, 3), (1, 1), (12, 4), (60, 16)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        await pilot.press("-")
        await pilot.pause()
        assert screen_text(pilot).count("Does it.") == 8


async def test_an_answer_that_comes_late_is_not_shown_and_keys_are_not_held() -> None:
    asked: list[str] = []
    first = threading.Event()

    def slow(argument: str) -> list[Suggestion]:
        asked.append(argument)
        if argument == "":
            first.wait(10)
        return [Suggestion(f"{argument}-found", "\x1b[2J")]

    app = Host((SlashCommand("file", "PATH", "", slow),))
    async with app.run_test() as pilot:
        await pilot.press(*"/file ", *"abc")
        assert app.composer.text == "/file abc"
        assert app.completions.chosen.shown == "/file PATH" or not is_open(app)
        first.set()
        await until(pilot, lambda: "abc-found" in screen_text(pilot))
        assert asked == ["", "abc"]
        assert "␛[2J" in screen_text(pilot)
        await pilot.press("tab")
        assert app.composer.text == "/file abc-found"


# --------------------------------------------------------------------------------- files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my notes 漢字.txt").write_bytes(b"one\r\ntwo\n")
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "main.py").write_text("x = 1\n")
    return tmp_path


async def test_a_file_is_completed_and_stands_as_a_placeholder(folder: Path) -> None:
    del folder
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press(*"/fi", "tab", *"my")
        await until(pilot, lambda: "› my notes 漢字.txt" in screen_text(pilot))
        await pilot.press("enter")
        assert app.composer.text == "/file my notes 漢字.txt"
        await until(pilot, lambda: app.composer._wanted is None)
        await pilot.press("enter")
        await until(pilot, lambda: "⟦" in app.composer.text)
        assert app.composer.text == "⟦my notes 漢字.txt, 2 lines, 8 characters⟧\n"
        await pilot.press(*"What?", "enter")
        await pilot.pause()
        assert app.sent == ["`my notes 漢字.txt`:\n\n```txt\none\ntwo\n```\n\nWhat?"]


async def test_a_folder_is_completed_step_by_step(folder: Path) -> None:
    del folder
    app = Host()
    async with app.run_test() as pilot:
        await pilot.press(*"/file s")
        await until(pilot, lambda: "› sources/" in screen_text(pilot))
        await pilot.press("tab")
        await until(pilot, lambda: "› sources/main.py" in screen_text(pilot))
        await pilot.press("tab")
        assert app.composer.text == "/file sources/main.py"


async def test_a_second_file_stands_before_what_is_written(folder: Path) -> None:
    del folder
    app = Host()
    async with app.run_test() as pilot:
        app.composer.load_text("/file sources/main.py\nWhat is this?")
        await pilot.press("enter")
        await until(pilot, lambda: "⟦" in app.composer.text)
        assert app.composer.text == "⟦main.py, 1 line, 6 characters⟧\nWhat is this?"
        await pilot.press("ctrl+z")
        assert app.composer.text == "/file sources/main.py\nWhat is this?"


async def test_what_is_typed_while_a_file_is_read_stays(folder: Path) -> None:
    (folder / "sources" / "main.py").write_text("x" * 8_000_000)
    app = Host()
    async with app.run_test() as pilot:
        app.composer.load_text("/file sources/main.py")
        await pilot.press("enter", *"!!")
        await until(pilot, lambda: "⟦" in app.composer.text)
        assert app.composer.full_text.count("x" * 8_000_000) == 1
        assert app.composer.full_text.count("!") == 2


async def test_a_file_that_cannot_be_taken_is_named_and_the_text_stays(folder: Path) -> None:
    (folder / "[b]a\x1b[2J.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    app = Host()
    async with app.run_test() as pilot:
        app.composer.load_text("/file [b]a\x1b[2J.png\nrest")
        await pilot.press("enter")
        await until(pilot, lambda: len(notices(app)) == 1)
        assert notices(app) == ["[b]a␛[2J.png is a PNG picture, not text."]
        assert app.composer.full_text == "/file [b]a\x1b[2J.png\nrest"
