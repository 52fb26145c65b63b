"""What is done with messages, in a chat that has none."""

import pytest

from tests.tui.window import WIDE, Scripted, ready_window, until


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("alt+e", "There is no message of yours to edit yet."),
        ("alt+c", "There is no answer to copy yet."),
        ("alt+left", "No message of this chat has another version."),
        ("ctrl+r", "There is no message to answer again."),
    ],
)
async def test_a_key_says_what_is_missing(key: str, said: str) -> None:
    window = Scripted()
    async with window.run(WIDE) as pilot:
        await ready_window(pilot, window)
        await pilot.press(key)
        await until(pilot, lambda: window.told() == [said])
