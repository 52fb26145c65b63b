"""Finding text in the open chat: counts, order, folded and old entries, changes meanwhile."""

from textual.pilot import Pilot
from textual.widgets import Static

from backend.chat.tree import Chat
from backend.session import ModelChoice, Session
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
from tests.unit.stored import answer
from tui.app import PhasescopeApp
from tui.widgets.composer import Composer


class Talk(Scripted):
    """A window on a chat of so many questions with an answer each."""

    def __init__(self, questions: int, needles: tuple[int, ...] = ()) -> None:
        super().__init__(says("fresh needle"))
        chat = Chat("long")
        for number in range(questions):
            chat.add_user(f"question {number}")
            found = "a needle" if number in needles else "hay"
            answer(chat, f"a{number}", f"{found} of answer {number}\n\n" + "more\n\n" * 3)
        self.session = Session(self._engine, ModelChoice("/m.gguf"), chat=chat)
        self.app = PhasescopeApp(self.session, plain_start())


def count(window: Scripted) -> str:
    """What the find bar says."""
    return str(window.screen.query_one("#find-count", Static).render())


async def find(pilot: Pilot[None], window: Scripted, text: str) -> None:
    """Open the find bar and look for a text."""
    window.screen.action_find(text)
    await until(pilot, lambda: count(window) not in ("", "…") and "+" not in count(window))


async def test_places_are_counted_from_the_newest_back_and_after_the_last_comes_the_first() -> None:
    window = Scripted(in_turn(says("Fox, fox."), says("no"), says("the FOX")))
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "a fox", "and", "then")
        await pilot.press("ctrl+f", *"fox")
        await until(pilot, lambda: count(window) == "1 of 4")
        seen = []
        for key in ("enter", "up", "ctrl+f", "up", "down", "shift+enter"):
            await pilot.press(key)
            await pilot.pause()
            seen.append(count(window))
        assert seen == ["2 of 4", "3 of 4", "4 of 4", "1 of 4", "4 of 4", "3 of 4"]
        # The third from the end is the first one of the first answer.
        assert window.browser._found[2].at == 2


async def test_another_text_is_looked_for_as_it_is_typed() -> None:
    window = Scripted(says("needle in a haystack"))
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "a needle")
        await pilot.press("ctrl+f", *"needle")
        await until(pilot, lambda: count(window) == "1 of 2")
        await pilot.press("space", *"in")
        await until(pilot, lambda: count(window) == "1 of 1")
        await pilot.press("x")
        await until(pilot, lambda: count(window) == "nothing found")
        await pilot.press("enter", "down")
        assert count(window) == "nothing found"
        await pilot.press("ctrl+u")
        await until(pilot, lambda: count(window) == "")
        assert window.browser.finding == (0, 0, True)


async def test_esc_closes_it_and_leads_back_to_the_draft() -> None:
    window = Scripted(says("needle"))
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one")
        await pilot.press(*"draft", "ctrl+f", *"needle")
        await until(pilot, lambda: count(window) == "1 of 1")
        await pilot.press("escape")
        assert isinstance(window.app.focused, Composer)
        assert not window.screen.find_bar.display
        assert window.browser._marks == {}
        assert window.composer.text == "draft"
        # What was looked for is there again.
        await pilot.press("ctrl+f")
        await until(pilot, lambda: count(window) == "1 of 1")


async def test_the_command_brings_its_text() -> None:
    window = Scripted(says("needle"))
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one")
        window.composer.insert("/find needle")
        await pilot.press("enter")
        await until(pilot, lambda: count(window) == "1 of 1")


async def test_what_is_folded_is_unfolded_where_it_holds_the_text() -> None:
    long = "\n".join(f"line {number}" for number in range(40))
    window = Scripted(says("<think>", "a needle", "</think>", "plain"))
    async with window.run(NARROW) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, long)
        await find(pilot, window, "line 30")
        assert count(window) == "1 of 1"
        await until(pilot, lambda: "line 30" in screen_text(pilot))
        assert "a needle" not in screen_text(pilot)
        await find(pilot, window, "needle")
        assert count(window) == "1 of 1"
        await until(pilot, lambda: "a needle" in screen_text(pilot))


async def test_a_text_over_the_end_of_a_line_is_found_and_shown_as_it_is() -> None:
    words = " ".join(f"word{number}" for number in range(40))
    window = Scripted(in_turn(says(words), says("**bold** and `code`")))
    async with window.run((60, 16)) as pilot:
        await ready_window(pilot, window)
        await send(pilot, window, "one", "two")
        for text in ("word5 word6", "word7 word8 word9", "word10   word11", "bold and code"):
            await find(pilot, window, text)
            assert count(window) == "1 of 1"


async def test_old_entries_are_looked_through_when_they_are_laid_out() -> None:
    window = Talk(1500, needles=(3, 1499))
    async with window.run(NARROW) as pilot:
        await until(pilot, lambda: len(window.entries) >= 3000)
        assert window.browser.line_of(0) is None
        window.browser.find("needle")
        assert window.browser.finding == (1, 1, False)
        window.screen.action_find("needle")
        await until(pilot, lambda: count(window) == "1 of 2")
        await pilot.press("enter")
        await until(pilot, lambda: "a needle of answer 3" in screen_text(pilot))
        await pilot.press("enter")
        await until(pilot, lambda: "a needle of answer 1499" in screen_text(pilot))


async def test_a_new_answer_is_found_too_and_the_place_stays() -> None:
    window = Talk(3, needles=(0, 1))
    async with window.run(NARROW) as pilot:
        await ready_window(pilot, window)
        await find(pilot, window, "needle")
        await pilot.press("enter")
        await until(pilot, lambda: count(window) == "2 of 2")
        await until(pilot, lambda: "a needle of answer 0" in screen_text(pilot))
        window.session.send("more")
        await until(pilot, lambda: not window.session.busy)
        await until(pilot, lambda: count(window) == "3 of 3")
        at = window.browser._found[2].at
        assert window.entries[at].text.startswith("a needle of answer 0")


async def test_what_was_found_is_marked_at_any_width() -> None:
    window = Talk(3, needles=(0, 1, 2))
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await find(pilot, window, "needle of answer")
        for size in ((40, 16), (12, 16), (200, 40), NARROW):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda: window.browser.finding == (1, 3, True))
            await pilot.pause()
            for at, parts, _ in window.browser._found:
                lines = (window.entries[at].line(part.row) for part in parts)
                words = (
                    line.crop(part.start, part.end).text
                    for line, part in zip(lines, parts, strict=True)
                )
                assert "".join(" ".join(words).split()) == "needleofanswer"


async def test_an_answer_that_comes_is_looked_through_when_it_is_whole() -> None:
    pieces = ["a needle\n\n", "|a|b|\n", "|-|-|\n|needle|2|\n\n", "end"]
    window = Scripted(lambda request: says(*pieces)(request)[:4])
    async with window.run(NARROW) as pilot:
        await ready_window(pilot, window)
        window.session.send("a needle")
        await until(pilot, lambda: window.said()[-1:] == [("live", pieces[0])])
        await find(pilot, window, "needle")
        assert count(window) == "1 of 1"
        window.engine.push(*says(*pieces)(window.engine.turns[0])[4:-1])
        await until(pilot, lambda: window.said()[-1] == ("live", "".join(pieces)))
        await pilot.pause()
        window.engine.push(says(*pieces)(window.engine.turns[0])[-1])
        await until(pilot, lambda: count(window) == "3 of 3")
        await until(pilot, lambda: window.said()[-1] == ("model", "".join(pieces)))


async def test_another_chat_is_looked_through_anew() -> None:
    window = Talk(3, needles=(0, 1))
    async with window.run(NARROW) as pilot:
        await ready_window(pilot, window)
        await find(pilot, window, "needle")
        window.screen.action_new_chat()
        await until(pilot, lambda: count(window) == "nothing found")
