"""What is said for a moment."""

from textual.widgets._toast import Toast

from tests.tui.window import NARROW, Scripted, ready_window, until


async def test_it_does_not_lie_over_what_is_being_written() -> None:
    window = Scripted()
    async with window.app.run_test(size=NARROW, notifications=True) as pilot:
        await ready_window(pilot, window)
        window.screen.say(
            "something is not done, for a reason that takes more than one line to say"
        )
        await until(pilot, lambda: any(t.region for t in window.screen.query(Toast)))
        (toast,) = window.screen.query(Toast)
        assert not toast.region.overlaps(window.composer.region)
        assert toast.region.bottom <= window.composer.region.y
