"""The screen of all chats: searching, choosing, going on, renaming, deleting, exporting."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from backend.chat.tree import Chat
from backend.history import History, HistoryReader
from backend.protocol import Event, TurnRequest
from backend.session import ModelChoice, Session
from tests.fake_engine import turn_events
from tests.tui.window import (
    NARROW,
    WIDE,
    Scripted,
    plain_start,
    ready_window,
    replay_app,
    screen_text,
    until,
)
from tests.unit.stored import answer, save, some_record
from tui.app import PhasescopeApp
from tui.screens.chats import ChatsScreen
from tui.widgets.browser import Browser
from tui.widgets.chat_list import ChatList, fitted

TALKS = (
    ("oldest", "Wie heißt die Straße?", "Hauptstraße 7"),
    ("middle", "what is a kettle", "It boils water for tea."),
    ("newest", "name a fox", "Reineke"),
)
"""Id, question and answer of the chats of a store."""


class StoredWindow(Scripted):
    """The window with a store.

    Args:
        path: The store.
        answers: The events of each turn's answer; None: a short one.
    """

    def __init__(
        self, path: Path, answers: Callable[[TurnRequest], list[Event]] | None = None
    ) -> None:
        super().__init__(answers)
        model = ModelChoice("/models/scripted-1b.Q4_1.gguf")
        self.session = Session(self._engine, model, history=History(path))
        self.app = PhasescopeApp(self.session, plain_start())
        self.path = path

    @property
    def chats(self) -> ChatsScreen:
        """The screen of all chats."""
        screen = self.app.screen
        assert isinstance(screen, ChatsScreen)
        return screen

    @property
    def rows(self) -> ChatList:
        """The list in it."""
        return self.chats.query_one(ChatList)

    @property
    def lists_chats(self) -> bool:
        """Whether the screen of all chats is there."""
        screen = self.app.screen
        return isinstance(screen, ChatsScreen) and bool(screen.query(ChatList))

    def shown(self) -> list[str]:
        """Ids of the chats in the list."""
        return list(dict.fromkeys(item.row.id for item in self.rows.items))

    @property
    def chosen(self) -> str | None:
        """Id of the chat that is chosen."""
        return None if self.rows.chosen is None else self.rows.chosen.row.id

    def told(self) -> list[str]:
        """What is said in toasts."""
        return [notice.message for notice in self.app._notifications]

    def stored(self, *, deleted: bool = False) -> dict[str, str]:
        """Titles of the chats in the store."""
        reader = HistoryReader(self.path)
        rows = reader.chats(deleted=deleted)
        reader.close()
        return {row.id: row.title for row in rows}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for a store; what is exported goes into its folder."""
    monkeypatch.setenv("PHASESCOPE_DATA_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "chats.db"


def fill(path: Path) -> None:
    """Put a few chats into a store; a second branch of `middle` holds a needle."""
    history = History(path)
    for moment, (chat_id, question, said) in enumerate(TALKS):
        chat = Chat(chat_id, system="Answer like a pirate." if chat_id == "oldest" else None)
        user = chat.add_user(question)
        save(history, chat, user, answer(chat, f"{chat_id}-answer", said))
        history.save_record(chat_id, some_record(1, f"turn-{chat_id}-answer", cache_n=8), (1,))
        if chat_id == "middle":
            other = chat.edit(user.id, "what is a needle")
            save(history, chat, other, answer(chat, "needle-answer", "It sews."))
            chat.go_to(user.id)
            history.save_chat(chat)
        set_time(path, chat_id, f"2026-01-0{moment + 1}T10:00:00.000+00:00")
    history.close()


def set_time(path: Path, chat_id: str, moment: str) -> None:
    """Say when a chat was used last."""
    db = sqlite3.connect(path)
    db.execute("UPDATE chats SET updated_at = ? WHERE id = ?", (moment, chat_id))
    db.commit()
    db.close()


@asynccontextmanager
async def opened(
    path: Path,
    size: tuple[int, int] = NARROW,
    answers: Callable[[TurnRequest], list[Event]] | None = None,
) -> AsyncIterator[tuple[Pilot[None], StoredWindow]]:
    """The window with the list of chats on top."""
    window = StoredWindow(path, answers)
    try:
        async with window.run(size) as pilot:
            await ready_window(pilot, window)
            await pilot.press("ctrl+o")
            await until(pilot, lambda: window.lists_chats)
            await until(pilot, lambda: "…" not in empty_words(window))
            yield pilot, window
    finally:
        window.session.close()


def empty_words(window: StoredWindow) -> str:
    """What stands in the place of the list."""
    empty = window.chats.query_one("#chats-empty")
    return str(empty.render()) if empty.display else ""


async def look_for(pilot: Pilot[None], window: StoredWindow, text: str) -> None:
    """Write a text into the search line and wait for the end of the search."""
    await pilot.press(*(" " if character == " " else character for character in text))
    await until(pilot, lambda: not window.chats._searching)


# -------------------------------------------------------------------------------- the list


async def test_the_list_has_the_newest_first_with_what_is_known_of_each(path: Path) -> None:
    fill(path)
    async with opened(path) as (pilot, window):
        assert window.shown() == ["newest", "middle", "oldest"]
        assert window.chosen == "newest"
        screen = screen_text(pilot)
        assert "3 chats" in screen
        assert "what is a kettle" in screen
        assert "on 2 January 2026 · 4 messages · Scripted-1B" in screen


async def test_the_arrows_choose_while_the_search_line_keeps_the_focus(path: Path) -> None:
    fill(path)
    async with opened(path) as (pilot, window):
        await pilot.press("down")
        assert window.chosen == "middle"
        await pilot.press("down", "down", "down")
        assert window.chosen == "oldest"
        await pilot.press("up")
        assert window.chosen == "middle"
        await pilot.press("ctrl+end")
        assert window.chosen == "oldest"
        await pilot.press("ctrl+home")
        assert window.chosen == "newest"
        await pilot.press("f", "o", "x")
        assert window.chats.focused is window.chats.query_one("#chats-search")
        await until(pilot, lambda: window.shown() == ["newest"])


async def test_enter_goes_on_with_the_chosen_chat(path: Path) -> None:
    fill(path)
    async with opened(path) as (pilot, window):
        await pilot.press("down", "enter")
        await until(pilot, lambda: window.app.screen is window.screen)
        assert window.session.chat.id == "middle"
        assert ("model", "It boils water for tea.") in window.said()
        await pilot.press("ctrl+o")
        await until(pilot, lambda: window.lists_chats and len(window.rows.items) == 3)
        assert "▌•name" not in screen_text(pilot)
        assert " •what is a kettle" in screen_text(pilot)


@pytest.mark.parametrize("key", ["escape", "ctrl+o"])
async def test_one_can_go_back_and_nothing_is_opened(path: Path, key: str) -> None:
    fill(path)
    async with opened(path) as (pilot, window):
        before = window.session.chat.id
        await pilot.press("down", key)
        await until(pilot, lambda: window.app.screen is window.screen)
        assert window.session.chat.id == before


async def test_a_click_chooses_and_a_second_one_opens(path: Path) -> None:
    fill(path)
    async with opened(path) as (pilot, window):
        # Two lines a chat: the first line of the second chat is the third.
        await pilot.click(ChatList, offset=(5, 2))
        assert window.chosen == "middle"
        assert window.app.screen is not window.screen
        await pilot.click(ChatList, offset=(5, 10))
        assert window.chosen == "middle"
        await pilot.click(ChatList, offset=(5, 3))
        await until(pilot, lambda: window.app.screen is window.screen)
        assert window.session.chat.id == "middle"


async def test_pages_of_two_thousand_chats(path: Path) -> None:
    history = History(path)
    with history._together():
        for number in range(2000):
            history._write(
                "INSERT INTO chats (id, title, created_at, updated_at) VALUES (?, ?, ?, ?)",
                (f"chat{number}", f"number {number}", "2026", f"2026-01-01T00:00:00.{number:04}Z"),
            )
            history._write(
                "INSERT INTO messages (id, chat_id, role, content, token_ids, lead, created_at, "
                "state) VALUES (?, ?, 'user', ?, x'', '', '2026', 'whole')",
                (f"message{number}", f"chat{number}", f"text of number {number}"),
            )
    history.close()
    async with opened(path) as (pilot, window):
        assert len(window.rows.items) == 2000
        assert window.chosen == "chat1999"
        # 22 lines are the list's at 80×24; a page leaves one chat of two lines in view.
        await pilot.press("pagedown")
        assert window.chosen == "chat1989"
        await pilot.press("pageup")
        assert window.chosen == "chat1999"
        await pilot.press("ctrl+end")
        assert window.chosen == "chat0"
        assert "number 0" in screen_text(pilot)
        await look_for(pilot, window, '"number 12"')
        assert window.shown()[:2] == ["chat1299", "chat1298"]
        # 12, 120 … 129, 1200 … 1299: 111 of them, each in its title too or only in the text.
        assert "in 111 chats" in screen_text(pilot)


# ---------------------------------------------------------------------------------- search


async def test_the_search_finds_in_any_case_and_shows_where(path: Path) -> None:
    fill(path)
    async with opened(path) as (pilot, window):
        await look_for(pilot, window, "STRASSE")
        assert window.shown() == ["oldest"]
        screen = screen_text(pilot)
        # In the title, in the question that the title came from, and in the answer.
        assert "3 in 1 chat" in screen
        assert "you: Wie heißt die Straße?" in screen
        assert "answer: Hauptstraße 7" in screen
        await pilot.press(*["backspace"] * 7)
        await until(pilot, lambda: len(window.shown()) == 3)
        assert "3 chats" in screen_text(pilot)


async def test_the_place_that_was_found_is_marked_and_system_prompts_count(path: Path) -> None:
    fill(path)
    async with opened(path) as (pilot, window):
        await look_for(pilot, window, "pirate")
        assert window.shown() == ["oldest"]
        strip = window.rows.render_line(2)
        assert strip.text.strip().startswith("▌   system prompt: Answer like a pirate.")
        (marked,) = (s for s in strip if s.style is not None and s.style.underline)
        assert marked.text == "pirate"


async def test_a_newer_search_counts_and_not_the_older(path: Path) -> None:
    fill(path)
    async with opened(path) as (pilot, window):
        await pilot.press(*"fox", *["backspace"] * 3, *"tea")
        await until(pilot, lambda: not window.chats._searching)
        assert window.shown() == ["middle"]


async def test_a_search_in_another_branch_opens_that_branch_there(path: Path) -> None:
    fill(path)
    async with opened(path) as (pilot, window):
        await look_for(pilot, window, "sews")
        await pilot.press("enter")
        await until(pilot, lambda: window.app.screen is window.screen)
        assert [node.content for node in window.session.chat.path()] == [
            "what is a needle",
            "It sews.",
        ]
        browser = window.screen.query_one(Browser)
        await until(pilot, lambda: browser.chosen is not None)
        assert browser.chosen is not None
        assert browser.chosen.text == "It sews."


async def test_many_places_of_a_chat_are_counted_and_three_are_listed(path: Path) -> None:
    history = History(path)
    chat = Chat("long")
    for number in range(5):
        user = chat.add_user(f"question {number}")
        save(history, chat, user, answer(chat, f"answer-{number}", f"spoon {number}"))
    history.close()
    async with opened(path) as (pilot, window):
        await look_for(pilot, window, "spoon")
        assert [item.node_id for item in window.rows.items] == ["answer-0", "answer-1", "answer-2"]
        assert "answer: spoon 2  +2 more" in screen_text(pilot)
        await pilot.press("down", "enter")
        browser = window.screen.query_one(Browser)
        await until(pilot, lambda: browser.chosen is not None)
        assert browser.chosen is not None
        assert browser.chosen.text == "spoon 1"


async def test_a_place_far_back_in_a_long_chat_is_scrolled_to(path: Path) -> None:
    history = History(path)
    chat = Chat("long")
    for number in range(300):
        said = "a needle" if number == 3 else "hay\n\n" * 40
        user = chat.add_user(f"question {number}")
        save(history, chat, user, answer(chat, f"answer-{number}", said))
    history.close()
    async with opened(path) as (pilot, window):
        await look_for(pilot, window, "needle")
        await pilot.press("enter")
        await until(pilot, lambda: window.app.screen is window.screen)
        await until(pilot, lambda: "a needle" in screen_text(pilot))


async def test_a_text_to_look_for_can_come_with_the_command(path: Path) -> None:
    fill(path)
    window = StoredWindow(path)
    async with window.run(NARROW) as pilot:
        await ready_window(pilot, window)
        window.screen.action_show_chats("kettle")
        await until(pilot, lambda: window.lists_chats)
        await until(pilot, lambda: window.shown() == ["middle"])
        assert "chats kettle" in screen_text(pilot)
    window.session.close()


# ------------------------------------------------------------------------ rename and delete


async def test_a_chat_gets_another_title(path: Path) -> None:
    fill(path)
    async with opened(path) as (pilot, window):
        await pilot.press("down", "ctrl+t")
        screen = screen_text(pilot)
        assert "title what is a kettle" in screen
        assert "save the title" in screen
        await pilot.press("end", *", 水")
        await pilot.press("enter")
        await until(pilot, lambda: window.stored()["middle"] == "what is a kettle, 水")
        assert "what is a kettle, 水" in screen_text(pilot)
        assert window.chats.focused is window.chats.query_one("#chats-search")
        await pilot.press("enter")
        await until(pilot, lambda: window.app.screen is window.screen)
        assert window.session.chat.title == "what is a kettle, 水"


async def test_a_title_can_be_left_as_it_was_and_is_never_blank(path: Path) -> None:
    fill(path)
    async with opened(path) as (pilot, window):
        await pilot.press("ctrl+t", "x", "escape")
        assert "name a foxx" not in screen_text(pilot)
        assert isinstance(window.app.screen, ChatsScreen)
        await pilot.press("ctrl+t", "ctrl+u", "enter")
        await until(pilot, lambda: window.told() == ["A title needs a word."])
        await pilot.press("ctrl+d", "escape")
        assert window.shown() == ["newest", "middle", "oldest"]
        assert window.stored()["newest"] == "name a fox"


async def test_deletions_are_taken_back_one_after_the_other(path: Path) -> None:
    fill(path)
    async with opened(path) as (pilot, window):
        assert "undo" not in screen_text(pilot)
        await pilot.press("ctrl+d")
        assert window.shown() == ["middle", "oldest"]
        assert window.chosen == "middle"
        assert window.told() == ["Deleted “name a fox”; ^z brings it back."]
        await pilot.press("delete")
        assert window.shown() == ["oldest"]
        await until(pilot, lambda: list(window.stored()) == ["oldest"])
        assert "^z undo" in screen_text(pilot)
        await pilot.press("ctrl+z")
        assert window.shown() == ["middle", "oldest"]
        await pilot.press("ctrl+z", "ctrl+z")
        assert window.shown() == ["newest", "middle", "oldest"]
        assert window.chosen == "newest"
        await until(pilot, lambda: list(window.stored()) == ["newest", "middle", "oldest"])


async def test_delete_in_the_search_line_takes_a_character_where_there_is_one(path: Path) -> None:
    fill(path)
    async with opened(path) as (pilot, window):
        await look_for(pilot, window, "fox")
        await pilot.press("home", "delete")
        await until(pilot, lambda: "chats ox" in screen_text(pilot))
        assert "newest" in window.stored()
        assert window.told() == []


async def test_the_open_chat_can_be_deleted_and_a_new_one_begins(path: Path) -> None:
    fill(path)
    async with opened(path) as (pilot, window):
        await pilot.press("enter")
        await until(pilot, lambda: window.session.chat.id == "newest")
        await pilot.press("ctrl+o")
        await until(pilot, lambda: window.lists_chats and window.chosen == "newest")
        await pilot.press("ctrl+d")
        assert window.session.chat.id not in {"newest", "middle", "oldest"}
        assert len(window.session.chat) == 0
        await pilot.press("ctrl+z")
        assert window.shown() == ["newest", "middle", "oldest"]


async def test_deleted_chats_are_shown_searched_and_restored(path: Path) -> None:
    fill(path)
    async with opened(path) as (pilot, window):
        await pilot.press("ctrl+d", "ctrl+d")
        await until(pilot, lambda: list(window.stored()) == ["oldest"])
        await pilot.press("ctrl+x")
        assert window.shown() == ["middle", "newest"]
        screen = screen_text(pilot)
        assert "deleted just now · 2 messages" in screen
        assert "restore" in screen
        assert "rename" not in screen
        await look_for(pilot, window, "kettle")
        assert window.shown() == ["middle"]
        await pilot.press("enter")
        assert window.shown() == []
        await until(pilot, lambda: list(window.stored()) == ["middle", "oldest"])
        await pilot.press(*["backspace"] * 6)
        await until(pilot, lambda: window.shown() == ["newest"])
        await pilot.press("ctrl+z")
        await until(pilot, lambda: len(window.stored()) == 3)
        assert "No chat was deleted" in screen_text(pilot)
        await pilot.press("escape")
        assert window.shown() == ["newest", "middle", "oldest"]


# --------------------------------------------------------------------------- other actions


async def test_a_chat_is_exported_and_no_file_is_overwritten(path: Path) -> None:
    fill(path)
    async with opened(path) as (pilot, window):
        await pilot.press("down", "ctrl+e")
        file = path.parent / "what-is-a-kettle.md"
        await until(pilot, lambda: window.told() == [f"Wrote {file}."])
        assert "It boils water for tea." in file.read_text(encoding="utf-8")
        second = path.parent / "what-is-a-kettle-2.md"
        await pilot.press("ctrl+e")
        await until(pilot, lambda: window.told() == [f"Wrote {second}."])
        assert second.read_text(encoding="utf-8") == file.read_text(encoding="utf-8")


async def test_a_new_chat_begins(path: Path) -> None:
    fill(path)
    async with opened(path) as (pilot, window):
        before = window.session.chat.id
        await pilot.press("ctrl+n")
        await until(pilot, lambda: window.app.screen is window.screen)
        assert window.session.chat.id != before


async def test_while_an_answer_comes_no_chat_is_opened_or_begun(path: Path) -> None:
    fill(path)

    def unfinished(request: TurnRequest) -> list[Event]:
        return turn_events(request.turn, token_s=[0.5, 0.6])[:-1]

    window = StoredWindow(path, unfinished)
    async with window.run(NARROW) as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"hi", "enter")
        await until(pilot, lambda: window.session.busy)
        own = window.session.chat.id
        await pilot.press("ctrl+o")
        await until(pilot, lambda: window.lists_chats)
        await until(pilot, lambda: len(window.rows.items) >= 3)
        for keys in (("ctrl+end", "enter"), ("ctrl+n",)):
            window.app.clear_notifications()
            await pilot.press(*keys)
            assert window.told() == [
                "An answer is still coming; stop it first, or wait for its end."
            ]
            assert isinstance(window.app.screen, ChatsScreen)
            assert window.session.chat.id == own
    window.session.close()


# --------------------------------------------------------------------------- the preview


async def test_a_wide_screen_shows_the_chosen_chat_beside_the_list(path: Path) -> None:
    fill(path)
    async with opened(path, WIDE) as (pilot, window):
        await pilot.press("ctrl+end")
        await until(pilot, lambda: "Hauptstraße 7" in screen_text(pilot))
        screen = screen_text(pilot)
        assert "System prompt" in screen
        assert "Answer like a pirate." in screen
        # One turn of 48 prompt tokens, 8 of them reused; the tokens came at 500 and 600 ms.
        assert "1 turn: prefill 40 tok in" in screen
        assert "decode 2 tok in 100 ms" in screen
        assert "reused 8 of 48 prompt tokens" in screen
        await look_for(pilot, window, "needle")
        await until(pilot, lambda: "Found, on another branch: you" in screen_text(pilot))
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "on another branch" not in screen_text(pilot))


async def test_the_preview_scrolls_by_keys(path: Path) -> None:
    history = History(path)
    chat = Chat("long")
    user = chat.add_user("\n\n".join(f"line {number}" for number in range(60)))
    save(history, chat, user, answer(chat, "answer", "the end"))
    history.close()
    async with opened(path, WIDE) as (pilot, _window):
        await until(pilot, lambda: "line 3" in screen_text(pilot))
        assert "the end" not in screen_text(pilot)
        await pilot.press(*["alt+down"] * 12)
        await until(pilot, lambda: "the end" in screen_text(pilot))
        await pilot.press(*["alt+up"] * 12)
        await until(pilot, lambda: "the end" not in screen_text(pilot))


async def test_of_a_long_chat_the_beginning_and_the_end_are_shown(path: Path) -> None:
    history = History(path)
    chat = Chat("long")
    for number in range(5):
        user = chat.add_user(f"question {number}")
        said = f"{'word ' * 1000}spoon" if number == 4 else f"spoon {number}"
        save(history, chat, user, answer(chat, f"answer-{number}", said))
    history.close()
    async with opened(path, (120, 60)) as (pilot, window):
        await until(pilot, lambda: "… 6 messages between …" in screen_text(pilot))
        screen = screen_text(pilot)
        assert "spoon 0" in screen
        assert "question 4" in screen
        assert "question 2" not in screen
        assert "word…" in screen
        assert window.chosen == "long"


# ------------------------------------------------------------------ nothing, and bad things


async def test_without_a_chat_the_list_says_so(path: Path) -> None:
    async with opened(path) as (pilot, _window):
        assert "No chat is stored yet." in screen_text(pilot)
        await pilot.press("enter", "ctrl+d", "ctrl+t", "ctrl+e", "up", "pagedown", "ctrl+x")
        assert "No chat was deleted." in screen_text(pilot)


async def test_nothing_found_is_said(path: Path) -> None:
    fill(path)
    async with opened(path) as (pilot, window):
        await look_for(pilot, window, "zebra")
        screen = screen_text(pilot)
        assert "Nothing was found." in screen
        assert "0 in 0 chats" in screen
        await pilot.press("enter", "ctrl+d")
        assert len(window.stored()) == 3


async def test_a_store_that_cannot_be_read_is_said_in_a_sentence(path: Path) -> None:
    fill(path)
    window = StoredWindow(path)
    async with window.run(NARROW) as pilot:
        await ready_window(pilot, window)
        db = sqlite3.connect(path)
        db.execute("PRAGMA user_version = 99")
        db.commit()
        db.close()
        await pilot.press("ctrl+o")
        await until(pilot, lambda: window.lists_chats)
        await until(pilot, lambda: "newer phasescope" in screen_text(pilot))
        await pilot.press(*"fox")
        await until(pilot, lambda: not window.chats._searching)
        assert "newer phasescope" in screen_text(pilot)
        await pilot.press("enter", "escape")
        await until(pilot, lambda: window.app.screen is window.screen)
    window.session.close()


async def test_a_recording_has_no_chats() -> None:
    app = replay_app()
    async with app.run_test(size=NARROW) as pilot:
        await pilot.pause()
        await pilot.press("ctrl+o")
        await until(pilot, lambda: bool(app._notifications))
        assert [notice.message for notice in app._notifications] == ["No chats are stored here."]


async def test_foreign_titles_are_text_and_stay_in_their_line(path: Path) -> None:
    history = History(path)
    for number, title in enumerate(
        ("[red]\x1b[2Jbold[/]\x9b", "漢" * 200, "👩‍👩‍👧" * 90, "שלום " * 60, "")
    ):
        chat = Chat(f"chat{number}")
        user = chat.add_user("[b]\x1b]0;owned\x07")
        chat.title = title
        save(history, chat, user)
    history.close()
    async with opened(path, WIDE) as (pilot, window):
        screen = screen_text(pilot)
        assert "[red]␛[2Jbold[/]�" in screen
        assert "(no title)" in screen
        assert "\x1b" not in screen
        for y in range(window.rows.size.height):
            assert window.rows.render_line(y).cell_length == window.rows.size.width
        await look_for(pilot, window, "owned")
        await until(pilot, lambda: "you: [b]␛]0;owned␇" in screen_text(pilot))
        await pilot.press("ctrl+end", "ctrl+t")
        assert "title [red]␛[2Jbold[/]�" in screen_text(pilot)
        await pilot.press("enter")
        assert window.stored()["chat0"] == "[red]\x1b[2Jbold[/]\x9b"


@pytest.mark.parametrize("size", [(60, 16), (20, 5), (2, 2), (1, 1)])
async def test_small_terminals(path: Path, size: tuple[int, int]) -> None:
    fill(path)
    async with opened(path) as (pilot, window):
        await pilot.resize_terminal(*size)
        await pilot.press("down", "ctrl+d", "k", "escape")
        await pilot.resize_terminal(*WIDE)
        await until(pilot, lambda: window.app.screen is window.screen)


@pytest.mark.parametrize(
    ("text", "room", "shown"),
    [
        ("kettle", 6, "kettle"),
        ("kettle", 5, "kett…"),
        ("漢漢漢", 5, "漢漢…"),
        ("漢漢漢", 4, "漢…"),
        ("kettle", 1, "…"),
        ("kettle", 0, ""),
        ("kettle", -3, ""),
    ],
)
def test_titles_are_cut_by_cells(text: str, room: int, shown: str) -> None:
    assert fitted(text, room) == shown
