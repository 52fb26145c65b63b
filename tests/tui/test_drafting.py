"""What is being written: what it costs, and that no restart, chat or branch loses it."""

import sqlite3
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot

from backend.history import History
from backend.protocol import CountRequest, Event, PromptCounted
from backend.session import ModelChoice, Session
from tests.fake_engine import counted
from tests.tui.window import (
    NARROW,
    WIDE,
    Scripted,
    in_turn,
    plain_start,
    ready_window,
    says,
    screen_text,
    send,
    until,
)
from tui.app import PhasescopeApp

PASTE = "\n".join(f"pasted {number}" for number in range(60))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A place for a store."""
    return tmp_path / "chats.db"


def status(window: Scripted) -> str:
    """What stands below the composer."""
    return str(window.composer.border_subtitle or "")


async def again(pilot: Pilot[None], store: Path, chat_id: str | None = None) -> Scripted:
    """What the next start finds; this one is not closed, as if it had been killed."""
    await pilot.pause()
    window = Scripted(store=store)
    history = History(store)
    chat = None if chat_id is None else history.load_chat(chat_id)
    window.session = Session(window._engine, ModelChoice("/m.gguf"), history=history, chat=chat)
    window.app = PhasescopeApp(window.session, plain_start())
    return window


async def stored(pilot: Pilot[None], window: Scripted, text: str) -> None:
    """Wait until a draft with this text is in the store."""
    assert window.session.stored is not None
    path = window.session.stored.history.path

    def has_it() -> bool:
        db = sqlite3.connect(path)
        drafts = [text for (text,) in db.execute("SELECT text FROM drafts")]
        db.close()
        return any(text in draft for draft in drafts)

    await until(pilot, has_it)


# ---------------------------------------------------------------------------- what it costs


async def test_a_draft_that_rests_is_counted() -> None:
    window = Scripted(in_turn(says("A"), says("B")))
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        assert status(window) == ""
        await pilot.press(*"hello")
        # The script counts a token a character, and reuses nothing.
        await until(pilot, lambda: status(window) == "draft 5 tok · new 5 of 5")
        assert "draft 5 tok · new 5 of 5" in screen_text(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: window.said()[-1] == ("model", "A"))
        assert status(window) == ""
        await pilot.press(*"yes")
        # 5 + 1 of the first turn; its prefill of 40 tokens took 489 ms: 9 tokens take 110 ms.
        await until(pilot, lambda: status(window).startswith("draft 3 tok · new 9 of 9"))
        assert status(window).endswith("first token ≈ 110 ms")
        await pilot.press("backspace", "backspace", "backspace")
        await until(pilot, lambda: status(window) == "")


async def test_what_is_counted_is_what_would_be_sent() -> None:
    window = Scripted()
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        for text, words in (("//find", "draft 5 tok · new 5 of 5"), ("/find it", ""), ("/x", "")):
            window.composer.load_text(text)
            await until(pilot, lambda words=words: status(window) == words)  # type: ignore[misc]
            await until(pilot, lambda: window.screen.desk._changed_s is None)
            assert status(window) == words
        asked = [r for r in window.engine.requests if isinstance(r, CountRequest)]
        assert [request.messages[-1].content for request in asked] == ["/find"]


async def test_what_changes_the_prompt_has_the_draft_counted_again() -> None:
    window = Scripted(in_turn(says("A"), says("B"), says("CCC")))
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one", "two")
        await pilot.press(*"draft")
        await until(pilot, lambda: status(window).startswith("draft 5 tok · new 13 of 13"))
        window.screen.action_regenerate()
        await until(pilot, lambda: status(window).startswith("draft 5 tok · new 15 of 15"))
        window.screen.action_step_version(-1)
        await until(pilot, lambda: status(window).startswith("draft 5 tok · new 13 of 13"))
        window.screen.action_edit_last(1)
        await until(pilot, lambda: status(window).startswith("draft 3 tok · new 3 of 3"))
        await pilot.press("escape")
        await until(pilot, lambda: status(window).startswith("draft 5 tok · new 13 of 13"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"message_tokens": 4090, "prompt_tokens": 4096, "n_ctx": 4096},
            "draft 4,090 tok · too long: 4,096 of 4,096",
        ),
        (
            {"message_tokens": 4090, "prompt_tokens": 4095, "prompt_n": 4095, "n_ctx": 4096},
            "draft 4,090 tok · new 4,095 of 4,095",
        ),
        (
            {"problem": "the chat template\nknows no \x1b[31msystem role"},
            "the chat template⏎knows no ␛[31msystem role",
        ),
    ],
    ids=["over the context", "just in it", "a problem"],
)
async def test_what_is_wrong_with_a_draft_is_said_before_it_is_sent(
    changes: dict[str, int | str], words: str
) -> None:
    def count(request: CountRequest) -> list[Event]:
        return [msgspec.structs.replace(counted(request), **changes)]

    window = Scripted(on_count=count)
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await pilot.press("x")
        await until(pilot, lambda: status(window) == words)


async def test_a_count_that_comes_late_is_not_shown() -> None:
    window = Scripted(on_count=lambda _request: [])
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await pilot.press("x")
        await until(pilot, lambda: isinstance(window.engine.requests[-1], CountRequest))
        await pilot.press("y")
        window.engine.push(PromptCounted(1, 1, 1, 0, 1, 4096))
        window.screen.tick()
        assert window.session.snapshot().draft is not None
        assert status(window) == ""


# ----------------------------------------------------------------------------- it is kept


async def test_a_draft_with_a_folded_paste_is_there_after_a_kill(store: Path) -> None:
    window = Scripted(store=store)
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"see ")
        window.composer.insert_pasted(PASTE)
        await stored(pilot, window, "pasted 59")
        second = await again(pilot, store)
    async with second.run(WIDE) as pilot:
        await until(pilot, lambda: second.composer.full_text == f"see {PASTE}")
        assert "pasted" in second.composer.text
        assert "pasted 59" not in second.composer.text
    second.session.close()
    window.session.close()


async def test_an_edit_under_way_is_there_after_a_kill_with_the_draft_beside_it(
    store: Path,
) -> None:
    window = Scripted(in_turn(says("A"), says("B")), store=store)
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one", "two")
        await pilot.press(*"draft")
        window.screen.action_edit_last(1)
        await pilot.press(*" more")
        await stored(pilot, window, "one more")
        second = await again(pilot, store, window.session.chat.id)
    async with second.run(WIDE) as pilot:
        await until(pilot, lambda: second.composer.is_editing)
        assert second.composer.text == "one more"
        assert "editing message 1" in screen_text(pilot)
        await pilot.press("escape")
        assert second.composer.text == "draft"
    second.session.close()
    window.session.close()


async def test_an_edit_of_another_branch_is_there_after_a_kill(store: Path) -> None:
    window = Scripted(in_turn(says("A"), says("B")), store=store)
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one")
        window.screen.action_edit_last()
        await pilot.press("2", "enter")
        await until(pilot, lambda: window.said() == [("you", "one2"), ("model", "B")])
        window.screen.action_edit_last()
        await pilot.press("3", "alt+left")
        await until(pilot, lambda: window.said() == [("you", "one"), ("model", "A")])
        await stored(pilot, window, "one23")
        second = await again(pilot, store, window.session.chat.id)
    async with second.run(WIDE) as pilot:
        await until(pilot, lambda: second.composer.is_editing)
        assert second.composer.text == "one23"
    second.session.close()
    window.session.close()


async def test_what_is_typed_before_the_window_is_ready_stays(store: Path) -> None:
    history = History(store)
    history.save_draft("never sent", '{"draft": "[\\"of before \\"]"}')
    history.close()
    window = Scripted(store=store)
    async with window.run(WIDE) as pilot:
        assert window.engines == []
        window.composer.insert("early")
        await ready_window(pilot, window)
        assert window.composer.text == "of before early"
    window.session.close()


async def test_what_is_typed_to_the_last_key_is_kept(store: Path) -> None:
    window = Scripted(store=store)
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"last")
        await pilot.press("ctrl+q")
    window.session.close()
    second = Scripted(store=store)
    async with second.run(WIDE) as pilot:
        await until(pilot, lambda: second.composer.text == "last")
    second.session.close()


async def test_each_chat_keeps_its_draft(store: Path) -> None:
    window = Scripted(in_turn(says("A"), says("B")), store=store)
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one")
        await pilot.press(*"first", "ctrl+n")
        await until(pilot, lambda: window.composer.text == "")
        await send(pilot, window, "two")
        await pilot.press(*"second", "alt+l")
        await until(pilot, lambda: window.composer.text == "first")
        await pilot.press("alt+l")
        await until(pilot, lambda: window.composer.text == "second")
    window.session.close()


@pytest.mark.parametrize("stores", [True, False], ids=["with a store", "without"])
async def test_a_new_chat_instead_of_an_empty_one_keeps_the_draft(
    store: Path, stores: bool
) -> None:
    window = Scripted(store=store if stores else None)
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        before = window.session.chat.id
        await pilot.press(*"draft", "ctrl+n")
        await until(pilot, lambda: window.session.chat.id != before)
        await pilot.pause()
        assert window.composer.text == "draft"
    window.session.close()


async def test_a_draft_that_is_sent_is_forgotten(store: Path) -> None:
    window = Scripted(store=store)
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"hello")
        await stored(pilot, window, "hello")
        await pilot.press("enter")
        await until(pilot, lambda: not window.session.busy)
        history = History(store)
        await until(pilot, lambda: history.draft(window.session.chat.id) is None)
        history.close()
        second = await again(pilot, store)
    async with second.run(WIDE) as pilot:
        await ready_window(pilot, second)
        assert second.composer.text == ""
    second.session.close()
    window.session.close()


@pytest.mark.parametrize("text", ["written by hand", '{"draft": 7}', "[", "{}"])
async def test_a_stored_draft_that_is_none_is_no_fault(store: Path, text: str) -> None:
    history = History(store)
    history.save_draft("never sent", text)
    history.close()
    window = Scripted(store=store)
    async with window.run(NARROW) as pilot:
        await ready_window(pilot, window)
        # Shown as it is, it is not lost.
        assert window.composer.text == text
    window.session.close()


# --------------------------------------------------------------------- the store, the theme


async def test_a_store_that_cannot_be_used_is_said_and_the_chat_goes_on() -> None:
    window = Scripted(says("A"))
    window.session = Session(
        window._engine,
        ModelChoice("/m.gguf"),
        history_problem="chats.db \x1b[2Jcannot be used: file is not a database",
    )
    window.app = PhasescopeApp(window.session, plain_start())
    async with window.run(NARROW) as pilot:
        await ready_window(pilot, window)
        assert "not stored" in screen_text(pilot).split("\n")[0]
        assert "chats.db ␛[2Jcannot be used: file is not a database" in screen_text(pilot)
        await send(pilot, window, "one")
        assert window.said() == [("you", "one"), ("model", "A")]
        await pilot.press("alt+l", "ctrl+o")
        said = ["There is no other chat yet.", "No chats are stored here."]
        await until(pilot, lambda: window.told() == said)
        assert "not stored" in screen_text(pilot).split("\n")[0]
