"""Thinking told from the answer, however the text is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.chat.thinking import ThinkingSplitter


def split(pieces: list[str], prompt_end: str = "") -> tuple[str, str, int]:
    splitter = ThinkingSplitter(prompt_end)
    segments = [segment for piece in pieces for segment in splitter.feed(piece)]
    segments += splitter.finish()
    thinking = "".join(s.text for s in segments if s.channel == "thinking")
    answer = "".join(s.text for s in segments if s.channel == "answer")
    return thinking, answer, splitter.thinking_n


def test_thinking_between_markers() -> None:
    assert split(["<think>", "a", "b", "</think>", "c"]) == ("ab", "c", 4)


def test_a_marker_in_two_pieces() -> None:
    assert split(["<thi", "nk>", "a", "</thi", "nk>", "c"]) == ("a", "c", 5)


def test_a_prompt_that_ends_in_the_marker_begins_in_thinking() -> None:
    assert split(["a", "</think>", "c"], "assistant\n<think>\n") == ("a", "c", 2)


def test_thinking_that_is_never_closed_stays_thinking() -> None:
    assert split(["<think>", "a", " </thi"]) == ("a </thi", "", 3)


@pytest.mark.parametrize("text", ["The tag <think> opens.", "<b>bold</b>", "a </think> b", "<", ""])
def test_literal_text_is_kept(text: str) -> None:
    assert split(list(text)) == ("", text, 0)


def test_another_family() -> None:
    assert split(["[THINK]", "a", "[/THINK]", "b"]) == ("a", "b", 3)


@pytest.mark.parametrize(
    ("pieces", "prompt_end", "token"),
    [
        (["\n", "\n", "Hello"], "", 2),
        ([" \n", "<", "b>"], "", 1),
        (["<thi", "s"], "", 0),
        (["<think>", "a", "</think>\n", "\n", "Hello"], "", 4),
        (["a", "</th", "ink> Hel", "lo"], "<think>", 2),
    ],
)
def test_an_answer_begins_with_its_first_token_that_is_not_white_space(
    pieces: list[str], prompt_end: str, token: int
) -> None:
    splitter = ThinkingSplitter(prompt_end)
    segments = [segment for piece in pieces for segment in splitter.feed(piece)]
    first = next(s for s in segments if s.channel == "answer" and s.text.strip())
    assert first.token == token


@given(st.lists(st.integers(1, 5), min_size=30, max_size=30))
def test_the_cut_into_pieces_does_not_matter(lengths: list[int]) -> None:
    text = "<think>let me see: 1 < 2</think>\nIt is <so>."
    pieces, rest = [], text
    for length in lengths:
        pieces.append(rest[:length])
        rest = rest[length:]
    thinking, answer, _ = split([*pieces, rest])
    assert thinking == "let me see: 1 < 2"
    assert answer == "\nIt is <so>."
