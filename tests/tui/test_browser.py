"""Messages that are chosen: each key, folding, versions, editing, going on, copying."""

from base64 import b64decode
from pathlib import Path
from typing import cast

import pytest
from textual.binding import Binding
from textual.pilot import Pilot

from backend.protocol import Event, TurnRequest
from tests.fake_engine import failed, turn_events
from tests.tui.window import (
    NARROW,
    WIDE,
    Scripted,
    in_turn,
    ready_window,
    says,
    screen_text,
    send,
    until,
)
from tui.widgets.browser import Browser
from tui.widgets.composer import Composer
from tui.widgets.entries import NoticeEntry

CODE = "Look:\n\n```python\nprint(1)\n```\n\nor\n\n```\ntwo\n  lines\n```\n"

LONG = "\n".join(f"line {number}" for number in range(40))


async def browse(pilot: Pilot[None], window: Scripted) -> None:
    """Go to the messages."""
    await pilot.press("shift+tab")
    await until(pilot, lambda: window.app.focused is window.browser)


def chosen(window: Scripted) -> str:
    """What the chosen entry says."""
    entry = window.browser.chosen
    return "" if entry is None else entry.text


def copied(window: Scripted, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is put into the clipboard from now on, as a terminal reads it."""
    texts: list[str] = []
    driver = window.app._driver
    assert driver is not None

    def write(data: str) -> None:
        if data.startswith("\x1b]52;c;"):
            assert data.endswith("\a")
            texts.append(b64decode(data[7:-1], validate=True).decode())

    monkeypatch.setattr(driver, "write", write)
    return texts


# -------------------------------------------------------------------------------- choosing


async def test_every_key_of_the_messages_is_tried_here() -> None:
    keys = {key for b in Browser.BINDINGS for key in cast("Binding", b).key.split(",")}
    assert keys == {
        *("up", "k", "down", "j", "home", "g", "end", "G"),
        *("c", "b", "e", "r", "o", "left", "h", "right", "l", "space", "enter"),
        *("tab", "i", "escape", "pageup", "pagedown"),
    }


async def test_messages_are_chosen_by_keys() -> None:
    window = Scripted(in_turn(says("A"), says("B")))
    async with window.run(NARROW) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one", "two")
        await browse(pilot, window)
        seen = [chosen(window)]
        for key in ("up", "k", "k", "down", "j", "g", "G", "home", "end"):
            await pilot.press(key)
            seen.append(chosen(window))
        first = window.entries[0].text
        assert seen == ["B", "two", "A", "one", "A", "two", first, "B", first, "B"]
        await pilot.press("j")
        assert chosen(window) == "B"


async def test_the_mark_stands_beside_the_chosen_message_alone() -> None:
    window = Scripted(in_turn(says("A"), says("B")))
    async with window.run(NARROW) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one", "two")
        assert "▌" not in screen_text(pilot)
        await browse(pilot, window)
        await pilot.press("up")
        await pilot.pause()
        marked = [line for line in screen_text(pilot).split("\n") if line.startswith("▌")]
        assert [line[1:10].strip() for line in marked] == ["you", "two"]


@pytest.mark.parametrize("key", ["tab", "i", "escape"])
async def test_a_key_leads_back_to_writing(key: str) -> None:
    window = Scripted()
    async with window.run(NARROW) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one")
        await browse(pilot, window)
        await pilot.press(key)
        assert isinstance(window.app.focused, Composer)
        assert window.browser.chosen is None
        await pilot.press("x")
        assert window.composer.text == "x"


async def test_pages_are_scrolled_while_a_message_is_chosen() -> None:
    window = Scripted(says(*(f"line {number}\n\n" for number in range(60))))
    async with window.run(NARROW) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one")
        await browse(pilot, window)
        # The beginning of the answer is shown.
        await until(pilot, lambda: "line 0" in screen_text(pilot))
        before = window.browser.scroll_offset.y
        await pilot.press("pagedown")
        await until(pilot, lambda: window.browser.scroll_offset.y > before)
        await pilot.press("pageup")
        await until(pilot, lambda: window.browser.scroll_offset.y == before)
        assert chosen(window).startswith("line 0")


async def test_a_click_on_a_name_chooses_and_one_elsewhere_does_not() -> None:
    window = Scripted(in_turn(says("A"), says("B")))
    async with window.run(NARROW) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one", "two")
        lines = screen_text(pilot).split("\n")
        text = next(at for at, line in enumerate(lines) if line.strip() == "two")
        top = window.browser.region.y
        await pilot.click("#transcript", offset=(2, text - top))
        assert isinstance(window.app.focused, Composer)
        await pilot.click("#transcript", offset=(2, text - top - 1))
        assert window.browser.has_focus
        assert chosen(window) == "two"


async def test_the_chosen_message_stays_chosen_when_an_answer_comes_and_is_over() -> None:
    events = says("B ", "b")
    window = Scripted(in_turn(says("A"), lambda request: events(request)[:-1]))
    async with window.run(NARROW) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one")
        window.composer.insert("two")
        await pilot.press("enter")
        await browse(pilot, window)
        await pilot.press("home", "down", "down")
        assert chosen(window) == "A"
        window.engine.push(says("B ", "b")(window.engine.turns[-1])[-1])
        await until(pilot, lambda: window.said()[-1] == ("model", "B b"))
        assert chosen(window) == "A"
        await pilot.press("end")
        assert chosen(window) == "B b"


async def test_the_answer_that_comes_cannot_be_chosen() -> None:
    window = Scripted(lambda request: says("A")(request)[:-1])
    async with window.run(NARROW) as pilot:
        await ready_window(pilot, window)
        window.composer.insert("one")
        await pilot.press("enter")
        await until(pilot, lambda: window.said()[-1][0] == "live")
        await browse(pilot, window)
        assert chosen(window) == "one"
        await pilot.press("down", "end")
        assert chosen(window) == "one"


# --------------------------------------------------------------------------------- folding


async def test_a_long_message_is_folded_by_key_and_by_click() -> None:
    window = Scripted(says("A"))
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, LONG)
        assert "▸ … 40 lines, 309 characters in all" in screen_text(pilot)
        await browse(pilot, window)
        await pilot.press("up")
        for key in ("space", "enter"):
            await pilot.press(key)
            await until(pilot, lambda: "▾ 40 lines" in screen_text(pilot))
            await pilot.press(key)
            await until(pilot, lambda: "▸ … 40 lines" in screen_text(pilot))
        lines = screen_text(pilot).split("\n")
        fold = next(at for at, line in enumerate(lines) if "▸ … 40 lines" in line)
        await pilot.press("tab")
        await pilot.click("#transcript", offset=(2, fold - window.browser.region.y))
        await until(pilot, lambda: "▾ 40 lines" in screen_text(pilot))
        assert isinstance(window.app.focused, Composer)


async def test_thinking_is_folded_by_click() -> None:
    window = Scripted(says("<think>", "Hm, ", "hm.", "</think>", "Blue."))
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one")
        lines = screen_text(pilot).split("\n")
        fold = next(at for at, line in enumerate(lines) if "▸ thought" in line)
        offset = (2, fold - window.browser.region.y)
        await pilot.click("#transcript", offset=offset)
        await until(pilot, lambda: "Hm, hm." in screen_text(pilot))
        await pilot.click("#transcript", offset=offset)
        await until(pilot, lambda: "Hm, hm." not in screen_text(pilot))


async def test_what_cannot_be_done_with_a_message_does_nothing() -> None:
    window = Scripted(says("A"))
    async with window.run(NARROW) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one")
        await browse(pilot, window)
        before = window.said()
        # The answer: whole, the only version, nothing to fold. The notice: only copied.
        await pilot.press("o", "e", "left", "right", "space", "home", "o", "e", "r", "b", "h")
        await pilot.pause()
        assert window.said() == before
        assert len(window.engine.turns) == 1
        assert not window.composer.is_editing


# -------------------------------------------------------------------------------- versions


async def test_versions_are_gone_through_with_arrows() -> None:
    window = Scripted(in_turn(says("A"), says("B"), says("C")))
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one")
        await browse(pilot, window)
        await pilot.press("r")
        await until(pilot, lambda: window.said()[-1] == ("model", "B"))
        await pilot.press("r")
        await until(pilot, lambda: window.said()[-1] == ("model", "C"))
        seen = []
        for key in ("left", "h", "left", "right", "l", "l"):
            await pilot.press(key)
            await pilot.pause()
            seen.append(chosen(window))
        assert seen == ["B", "A", "A", "B", "C", "C"]
        assert "‹ 3/3 ›" in screen_text(pilot)
        assert window.told() == ["This is the oldest version.", "This is the newest version."]


async def test_versions_are_gone_through_while_writing() -> None:
    window = Scripted(in_turn(says("A"), says("B")))
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await pilot.press("alt+left")
        assert window.told()[-1] == "No message of this chat has another version."
        await send(pilot, window, "one")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: window.said()[-1] == ("model", "B"))
        await pilot.press("alt+left", *"draft")
        await until(pilot, lambda: window.said()[-1] == ("model", "A"))
        assert "‹ 1/2 ›" in screen_text(pilot)
        assert window.composer.text == "draft"
        await pilot.press("alt+right")
        await until(pilot, lambda: window.said()[-1] == ("model", "B"))


async def test_an_earlier_answer_is_given_again_and_what_follows_comes_back() -> None:
    window = Scripted(in_turn(says("A"), says("B"), says("C")))
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one", "two")
        await browse(pilot, window)
        await pilot.press("up", "up")
        assert chosen(window) == "A"
        await pilot.press("r")
        await until(pilot, lambda: window.said() == [("you", "one"), ("model", "C")])
        await pilot.press("end", "left")
        await until(pilot, lambda: len(window.said()) == 4)
        assert [text for _, text in window.said()] == ["one", "A", "two", "B"]


# --------------------------------------------------------------------------------- editing


async def test_a_message_is_edited_and_answered_on_a_new_branch() -> None:
    window = Scripted(in_turn(says("A"), says("B"), says("C")))
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one", "two")
        await pilot.press(*"draft")
        await browse(pilot, window)
        await pilot.press("home", "down")
        assert chosen(window) == "one"
        await pilot.press("e")
        await until(pilot, lambda: window.composer.is_editing)
        assert "editing message 1" in screen_text(pilot)
        assert window.composer.text == "one"
        await pilot.press("!", "enter")
        await until(pilot, lambda: window.said() == [("you", "one!"), ("model", "C")])
        assert window.composer.text == "draft"
        assert "‹ 2/2 ›" in screen_text(pilot)


async def test_an_edit_is_left_with_esc_and_nothing_is_sent() -> None:
    window = Scripted(in_turn(says("A"), says("B")))
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one")
        await pilot.press(*"draft", "alt+e", *"xyz", "escape")
        await pilot.pause()
        assert window.composer.text == "draft"
        assert "editing" not in screen_text(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: len(window.engine.turns) == 2)
        # A new message, not a changed one.
        assert len(window.engine.turns[-1].messages) == 3


async def test_a_refused_edit_is_there_again_to_be_edited() -> None:
    window = Scripted(
        in_turn(says("A"), lambda r: failed(r.turn, "prompt_too_long", "too long"), says("B"))
    )
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one")
        await pilot.press(*"draft", "alt+e", *"xyz", "enter")
        await until(pilot, lambda: "too long" in window.notices())
        assert window.said() == [("you", "one"), ("model", "A")]
        assert (window.composer.text, window.composer.is_editing) == ("onexyz", True)
        await pilot.press("backspace", "enter")
        await until(pilot, lambda: window.said() == [("you", "onexy"), ("model", "B")])
        assert window.composer.text == "draft"


async def test_an_edit_that_is_refused_on_another_branch_is_there_again() -> None:
    window = Scripted(
        in_turn(says("A"), says("B"), lambda r: failed(r.turn, "prompt_too_long", "too long"))
    )
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one")
        await pilot.press("alt+e", "2", "enter")
        await until(pilot, lambda: window.said() == [("you", "one2"), ("model", "B")])
        await pilot.press("alt+e", "3", "alt+left")
        await until(pilot, lambda: window.said() == [("you", "one"), ("model", "A")])
        await pilot.press("enter")
        await until(pilot, lambda: "too long" in window.notices())
        assert (window.composer.text, window.composer.is_editing) == ("one23", True)
        assert window.said() == [("you", "one"), ("model", "A")]


async def test_a_message_is_not_edited_while_its_answer_comes() -> None:
    window = Scripted(lambda request: says("A")(request)[:3])
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"one", "enter")
        await until(pilot, lambda: window.session.busy)
        await browse(pilot, window)
        await pilot.press("e")
        await pilot.pause()
        assert not window.composer.is_editing
        assert "still coming" in window.told()[-1]
        # The message goes back to where it was written.
        window.engine.push(failed(1, "template", "no")[-1])
        await until(pilot, lambda: window.composer.text == "one")
        assert window.said() == []


async def test_the_number_of_a_message_can_be_named() -> None:
    window = Scripted(in_turn(says("A"), says("B")))
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one", "two")
        await pilot.press(*"/edit 1", "enter")
        await until(pilot, lambda: window.composer.text == "one")
        await pilot.press("escape", *"/edit 3", "enter")
        await until(pilot, lambda: bool(window.told()))
        assert window.told()[-1] == "There is no message 3; the chat has 2 of yours."


# -------------------------------------------------------------------------------- going on


async def test_going_on_is_offered_only_where_an_answer_was_cut() -> None:
    window = Scripted(
        in_turn(
            says("whole"),
            says("half ", reason="length"),
            lambda request: turn_events(
                request.turn, token_s=[0.5], pieces=["more"], reason="eog", resumed_n=1
            ),
        )
    )
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one")
        assert "cut off" not in screen_text(pilot)
        await pilot.press("ctrl+g")
        await pilot.pause()
        assert len(window.engine.turns) == 1
        await send(pilot, window, "two")
        offer = "This answer was cut off; ^g goes on with it."
        await until(pilot, lambda: offer in screen_text(pilot))
        await pilot.press("ctrl+g")
        await until(pilot, lambda: window.said()[-1] == ("model", "half more"))
        assert "cut off" not in screen_text(pilot)


async def test_the_chosen_answer_is_gone_on_with() -> None:
    window = Scripted(
        in_turn(
            says("half ", reason="length"),
            lambda request: turn_events(
                request.turn, token_s=[0.5], pieces=["more"], reason="eog", resumed_n=1
            ),
        )
    )
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one")
        await browse(pilot, window)
        await pilot.press("o")
        await until(pilot, lambda: window.said()[-1] == ("model", "half more"))
        assert chosen(window) == "half more"


# --------------------------------------------------------------------------------- copying


async def test_a_message_is_copied_without_control_characters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = "tab\tand\nline, \x1b[31mred\x1b[0m\x00\x07\x9b, \u200dé漢🙂"
    window = Scripted(says("<think>", "hidden", "</think>", answer))
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        texts = copied(window, monkeypatch)
        window.composer.insert("rm \x1b[2J")
        await pilot.press("enter")
        await until(pilot, lambda: window.said()[-1][0] == "model")
        await pilot.press("alt+c")
        await browse(pilot, window)
        await pilot.press("c", "up", "c", "home", "c")
        await until(pilot, lambda: len(texts) == 4)
        clean = "tab\tand\nline, [31mred[0m, \u200dé漢🙂"
        assert texts == [clean, clean, "rm [2J", window.notices()[0]]
        assert window.told()[-1].startswith("Copied the notice: ")


async def test_blocks_of_code_are_copied_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    window = Scripted(in_turn(says(CODE), says("plain")))
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one")
        texts = copied(window, monkeypatch)
        await browse(pilot, window)
        await pilot.press("b", "b", "b")
        await until(pilot, lambda: len(texts) == 3)
        assert texts == ["print(1)", "two\n  lines", "print(1)"]
        assert window.told()[0].startswith("Copied block 1 of 2 (python)")
        assert window.told()[1].startswith("Copied block 2 of 2:")
        await pilot.press("tab", *"/copy 2", "enter")
        await until(pilot, lambda: len(texts) == 4)
        assert texts[-1] == "two\n  lines"
        await pilot.press(*"/copy 3", "enter")
        await until(pilot, lambda: "There is no block 3; the message has 2." in window.told())
        await send(pilot, window, "two")
        await browse(pilot, window)
        await pilot.press("b")
        await until(pilot, lambda: "This message has no block of code." in window.told())
        assert len(texts) == 4


# ---------------------------------------------------------------------- a store, a theme


async def test_a_damaged_turn_is_named_once_and_only_with_its_chat(tmp_path: Path) -> None:
    store = tmp_path / "chats.db"
    window = Scripted(store=store)
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one")
        await until(pilot, lambda: not window.session.storing)
        assert window.session.stored is not None
        history = window.session.stored.history
        history._db.execute("UPDATE turns SET record = '{'")
        damaged = window.session.chat.id
        await pilot.press("ctrl+n")
        await send(pilot, window, "two")
        assert not [notice for notice in window.notices() if "damaged" in notice]
        await pilot.press("alt+l")
        await until(pilot, lambda: window.session.chat.id == damaged)
        await until(pilot, lambda: any("damaged" in notice for notice in window.notices()))
        await pilot.press("ctrl+n")
        await until(pilot, lambda: not window.said())
        assert not [notice for notice in window.notices() if "damaged" in notice]
    window.session.close()


def unanswered(request: TurnRequest) -> list[Event]:
    """A turn that is never accepted."""
    del request
    return []


async def test_a_notice_is_no_message() -> None:
    window = Scripted(unanswered)
    async with window.run(NARROW) as pilot:
        await ready_window(pilot, window)
        await browse(pilot, window)
        assert window.browser.chosen is None
        await pilot.press("up")
        assert isinstance(window.browser.chosen, NoticeEntry)
