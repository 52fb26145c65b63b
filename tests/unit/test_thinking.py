"""Thinking told from the answer, however the text is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.chat.templates import ChatTemplate
from backend.chat.thinking import ThinkingSplitter, split_text
from tests.unit.families import FAMILIES, Family


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


# ------------------------------------------------------------------------------ families


def prompt_end(family: Family) -> str:
    template = ChatTemplate(family.template, bos_text="<s>", eos_text="</s>")
    return template.render([{"role": "user", "content": "What is it?"}])[-48:]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_each_familys_thinking_is_told_from_its_answer(family: Family) -> None:
    thinking, answer, thinking_n = split(list(family.said), prompt_end(family))
    assert (thinking, answer.lstrip()) == (family.thinking, family.answer)
    assert thinking_n == family.thinking_n


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_familys_markers_may_be_cut_anywhere(family: Family) -> None:
    text = "".join(family.said)
    end = prompt_end(family)
    cuts = [(first, second) for second in range(len(text) + 1) for first in range(second + 1)]
    for first, second in cuts:
        pieces = [text[:first], text[first:second], text[second:]]
        thinking, answer, _ = split(pieces, end)
        assert (thinking, answer.lstrip()) == (family.thinking, family.answer)
    thinking, answer, _ = split(list(text), end)
    assert (thinking, answer.lstrip()) == (family.thinking, family.answer)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_an_answer_may_be_cut_off_between_any_tokens_and_gone_on_with(family: Family) -> None:
    for cut in range(len(family.said) + 1):
        before = "".join(family.said[:cut])
        told = split_text(before, prompt_end(family), finished=False)
        splitter = ThinkingSplitter(prompt_end(family))
        splitter.go_on(before)
        segments = [segment for piece in family.said[cut:] for segment in splitter.feed(piece)]
        segments += splitter.finish()
        for channel, whole in (("thinking", family.thinking), ("answer", family.answer)):
            new = "".join(segment.text for segment in segments if segment.channel == channel)
            old = told.thinking if channel == "thinking" else told.answer
            assert (old + new).lstrip() == whole.lstrip()
        assert all(segment.token >= 0 for segment in segments)


@pytest.mark.parametrize(
    "text",
    [
        "Say <answer>42</answer> or <response>.",
        "<answer>42</answer>",
        "<response>ok</response>",
        "so <|channel|>final<|message|> it <|end|> is",
        "It has [THINK] and ◁think▷ in it.",
        "a <|START_RESPONSE|> b",
        "<|channel|>other<|message|>",
        "<|start|>user",
    ],
)
def test_markers_elsewhere_are_text(text: str) -> None:
    assert split(list(text)) == ("", text, 0)
    assert split([text]) == ("", text, 0)


def test_an_answers_closing_marker_counts_only_at_the_end() -> None:
    said = "<think>a</think><answer>use </answer> here.</answer>\n"
    for pieces in ([said], list(said)):
        assert split(pieces) == ("a", "use </answer> here.", split(pieces)[2])
    assert split(["<think>a</think>", "<answer>", "never closed"])[1] == "never closed"
    assert split(["<think>", "a", "</think>", "b <answer>c</answer>"])[1] == "b <answer>c</answer>"


def test_a_channel_that_the_prompt_opened() -> None:
    assert split(["a", "<|end|>"], "<|start|>assistant<|channel|>analysis<|message|>")[0] == "a"
    assert split(["a"], "<|start|>assistant<|channel|>final<|message|>") == ("", "a", 0)
