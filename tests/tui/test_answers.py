"""What stands under an answer."""

from tests.tui.window import WIDE, Scripted, ready_window, says, screen_text, until


async def test_an_answer_that_filled_the_context_is_told_what_it_needs_to_go_on() -> None:
    window = Scripted(says("half ", reason="context_full"))
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await pilot.press(*"hi", "enter")
        await until(pilot, lambda: "in a larger context (F7, n_ctx)" in screen_text(pilot))
