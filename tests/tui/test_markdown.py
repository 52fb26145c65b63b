"""Markdown as lines: whole, and growing token by token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from tui.text import harmless
from tui.widgets.markdown import LONG_TAIL, GrowingMarkdown, MarkdownLines

RENDERER = MarkdownLines({}, "monokai", "#222222")

DOCUMENTS = {
    "paragraphs": "One\ntwo.\n\nThree **bold** and `code`.\n\nFour.\n",
    "lists": "Before\n\n- one\n- two\n\n  more\n\n- three\n\n1. a\n2. b\n\nAfter\n",
    "fence": "Look:\n\n```python\ndef f(x):\n\n    return x\n```\n\nDone.\n",
    "unclosed": "Look:\n\n```python\nx = 1\n\ny = 2\n",
    "table": "| a | b |\n|---|--:|\n| 1 | 2 |\n\nAfter\n",
    "quote": "> quoted\n> more\n\n# Heading\n\n---\n\nEnd\n",
    "wide": "☺️ 👩‍👩‍👧‍👦 漢字漢字漢字 مرحبا gpt-5\n\n\u200d\n\nEnd\n",
}


def shown(source: str, width: int = 40) -> list[str]:
    """The lines of a whole text."""
    return [strip.text.rstrip() for strip in RENDERER.render(source, width)]


def grown(source: str, step: int, width: int = 40) -> list[str]:
    """The lines of a text that came in steps."""
    growing = GrowingMarkdown(RENDERER, width)
    for at in range(0, len(source), step):
        growing.add(source[at : at + step])
    settled, live = growing.lines()
    lines = [strip.text.rstrip() for strip in (*settled, *live)]
    while lines and not lines[-1]:
        lines.pop()
    return lines


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("step", [1, 3, 7, 50])
def test_a_grown_text_looks_like_a_whole_one(name: str, step: int) -> None:
    assert grown(DOCUMENTS[name], step) == shown(DOCUMENTS[name])


@given(st.text(max_size=300), st.integers(1, 20), st.integers(1, 60))
def test_any_text_can_grow_and_be_rendered(source: str, step: int, width: int) -> None:
    for line in (*grown(source, step, width), *shown(source, width)):
        assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in line)


MARKS = ("```", "```python", "```  \n", "~~~", "> ", "- ", "1. ", "# ", "**", "*", "`", "---", "|")
WORDS = (
    "word",
    "<b>",
    "&#x202e;",
    "&amp;",
    "[x](y)",
    "![i](j)",
    "| a | b |\n|---|---|\n| 1 | 2 |\n",
)
SPACES = (" ", "    ", "\t", "\n", "\n\n")
FRAGMENTS = st.sampled_from((*MARKS, *WORDS, *SPACES))


@given(st.lists(FRAGMENTS, max_size=30).map("".join), st.integers(1, 7), st.integers(1, 60))
def test_any_markdown_can_grow_and_be_rendered(source: str, step: int, width: int) -> None:
    for line in (*grown(source, step, width), *shown(source, width)):
        assert harmless(line) == line


@pytest.mark.parametrize("width", [10, 40, 200])
@pytest.mark.parametrize("depth", [1, 15, 19, 20, 21, 60])
@pytest.mark.parametrize("mark", ["> ", "- "])
def test_nothing_is_lost_however_deep_it_is_nested(mark: str, depth: int, width: int) -> None:
    assert "word" in "".join(shown(mark * depth + "word", width)).replace(" ", "")


@pytest.mark.parametrize(("text", "cells"), [("☺️", 2), ("👩‍👩‍👧‍👦", 2), ("漢字", 4), ("\u200d", 0)])
def test_characters_have_the_width_that_terminals_give_them(text: str, cells: int) -> None:
    assert cell_len(text) == cells


def test_a_long_fence_is_rendered_in_parts_that_join() -> None:
    code = "".join(f"value_{index} = {index}\n" for index in range(400))
    source = f"```python\n{code}```\n\nAfter\n"
    assert len(source) > 4 * LONG_TAIL
    growing = GrowingMarkdown(RENDERER, 40)
    longest = 0
    for at in range(0, len(source), 20):
        growing.add(source[at : at + 20])
        longest = max(longest, len(growing.lines()[1]))
    assert longest * len("value_100 = 100\n") < 2 * LONG_TAIL
    assert grown(source, 20) == shown(source)


def test_html_is_text() -> None:
    assert shown("a <b>bold</b> <think>x</think>\n\n<div>block</div>") == [
        "a <b>bold</b> <think>x</think>",
        "",
        "<div>block</div>",
    ]


def test_links_and_images_are_written_out_and_stay_inert() -> None:
    strips = RENDERER.render("[here](https://x.y/z) ![cat](cat.png) <https://a.b>", 80)
    assert "".join(strip.text for strip in strips).rstrip() == (
        "here (https://x.y/z) [cat](cat.png) https://a.b (https://a.b)"
    )
    styles = [segment.style for strip in strips for segment in strip]
    assert not any(isinstance(style, Style) and style.link for style in styles)


def test_line_ends_of_the_model_are_kept() -> None:
    assert shown("Roses are red,\nviolets are blue.") == ["Roses are red,", "violets are blue."]


def test_wide_characters_take_their_cells() -> None:
    widths = [strip.cell_length for strip in RENDERER.render("漢字" * 12, 17)]
    assert max(widths) <= 17
    assert shown("漢字" * 12, 17) == ["漢字" * 4, "漢字" * 4, "漢字" * 4]


def test_code_without_a_fence_keeps_its_indentation() -> None:
    source = "def f(x):\n    if x:\n\treturn 1\n\nAfter it.\n"
    assert shown(source) == [
        "def f(x):",
        "\u00a0\u00a0\u00a0\u00a0if x:",
        "\u00a0\u00a0\u00a0\u00a0return 1",
        "",
        "After it.",
    ]


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_what_is_no_paragraph_is_left_as_it_is(name: str) -> None:
    assert "\u00a0" not in "".join(shown(DOCUMENTS[name]))
