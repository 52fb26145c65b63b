"""What a terminal sends around and in a paste, and what arrives of it."""

import pytest
from textual._xterm_parser import XTermParser
from textual.events import Key, Paste

from tui.bracketed_paste import let_pastes_through

START, END = "\x1b[200~", "\x1b[201~"
HOSTILE = "a\x1b[31mred\r\nsecond\x1b]52;c;aGk=\x07\x1bOP\x1b[13u\x00漢字 👩‍👩‍👧"


@pytest.fixture(autouse=True)
def _pastes() -> None:
    let_pastes_through()


def arrived(*chunks: str) -> list[str | tuple[str]]:
    """Keys by their names, pastes as one-tuples."""
    parser = XTermParser()
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return [
        event.key if isinstance(event, Key) else (event.text,)
        for event in events
        if isinstance(event, Key | Paste)
    ]


def test_a_paste_with_escape_sequences_is_one_paste_and_no_key() -> None:
    assert arrived(f"x{START}{HOSTILE}{END}y") == ["x", (HOSTILE,), "y"]


def test_where_the_terminal_cuts_its_output_makes_no_difference() -> None:
    sent = f"x{START}{HOSTILE}{END}y"
    for cut in range(1, len(sent)):
        assert arrived(sent[:cut], sent[cut:]) == ["x", (HOSTILE,), "y"]
    assert arrived(*sent) == ["x", (HOSTILE,), "y"]


def test_two_pastes_and_an_empty_one_stay_apart() -> None:
    assert arrived(f"{START}one{END}{START}two{END}", f"{START}{END}z") == [
        ("one",),
        ("two",),
        ("",),
        "z",
    ]


def test_keys_beside_pastes_are_what_they_were() -> None:
    assert arrived("\x1b[A\x1b[2", "00~") == ["up"]
    assert arrived("\x1b[A", "\r", "\x1b[1;5C") == ["up", "enter", "ctrl+right"]
