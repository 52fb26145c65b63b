"""A chat as Markdown: read with a parser of Markdown, as its readers do."""

import os
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from backend.chat.tree import Chat
from backend.metrics.record import TurnRecord
from backend.settings import SamplingChoice
from tests.unit.stored import answer, some_record
from tui.contained import contained, escaped
from tui.export import ExportError, as_markdown, file_name, write_file

PARSER = MarkdownIt("commonmark").enable("table")


def outline(markdown: str) -> list[tuple[int, str]]:
    """All headings, with their levels."""
    tokens = PARSER.parse(markdown)
    return [
        (int(token.tag[1:]), text_of(tokens[at + 1].content))
        for at, token in enumerate(tokens)
        if token.type == "heading_open"
    ]


def text_of(inline: str) -> str:
    """Inline Markdown as a reader sees it."""
    (token,) = PARSER.parseInline(inline)
    return "".join(child.content for child in token.children or ())


def html_of(markdown: str) -> str:
    return str(PARSER.render(markdown))


def exported(question: str, reply: str) -> str:
    """A chat of one question, its answer, and another question."""
    chat = Chat("chat")
    chat.add_user(question)
    answer(chat, "a", reply)
    chat.add_user("the next")
    chat.title = "A title"
    return as_markdown(chat, {})


SKELETON = [(1, "A title"), (2, "You"), (2, "Scripted-1B"), (2, "You")]


@pytest.fixture
def chat() -> Chat:
    """A chat with two answers to its second question, the second of them in use."""
    made = Chat("chat", system="Be *kind*.")
    made.sampling = SamplingChoice(temp=0.25)
    made.add_user("Why is the sky blue?")
    answer(made, "1", "Because of **scattering**.")
    question = made.add_user("And at dusk?")
    answer(made, "2", "Red.")
    made.back_to_question(question.id)
    answer(made, "3", "<think>hm, red</think>Red, at last.", model="Other-2B")
    return made


@pytest.fixture
def records() -> dict[str, TurnRecord]:
    """The turns of that chat, and one that failed."""
    made = [
        some_record(1, "turn-1"),
        some_record(2, "turn-2", cache_n=1_000, prompt_n=20),
        msgspec.structs.replace(
            some_record(3, "turn-3", cache_n=60, reason="length"), thinking_n=12
        ),
        some_record(4, "turn-4", fails=True),
    ]
    return {record.id: record for record in made}


def test_the_outline_is_the_conversation(chat: Chat, records: dict[str, TurnRecord]) -> None:
    assert outline(as_markdown(chat, records)) == [
        (1, "Why is the sky blue?"),
        (2, "System prompt"),
        (2, "You"),
        (2, "Scripted-1B"),
        (2, "You"),
        (2, "Other-2B"),
        (2, "Figures"),
    ]


def test_the_head_names_date_models_and_settings(
    chat: Chat, records: dict[str, TurnRecord]
) -> None:
    head = as_markdown(chat, records).split("\n## ")[0]
    assert "- **Date:** 2026-01-01 00:00\n" in head
    assert "- **Model:** Scripted-1B Q4_1, Other-2B\n" in head
    assert head.endswith("- **Sampling:** temp 0.25 · top_k 40 · top_p 0.95 · min_p 0.05\n")
    assert "## System prompt\n\nBe *kind*.\n" in as_markdown(chat, records)


def test_a_seed_that_was_chosen_is_named(chat: Chat, records: dict[str, TurnRecord]) -> None:
    chat.sampling = SamplingChoice(seed=11, presence_penalty=0.5)
    assert "min_p 0.05 · presence_penalty 0.5 · seed 11\n" in as_markdown(chat, records)


def test_each_answer_has_the_figures_of_its_turn(
    chat: Chat, records: dict[str, TurnRecord]
) -> None:
    lines = [text_of(line) for line in as_markdown(chat, records).splitlines()]
    # 40 tokens in the 489 ms before the first sample; one gap of 100 ms.
    assert (
        "turn 1 · ttft 500 ms · prefill 40 @ 81.8/s · decode 2 @ 10.0/s · reused 0/40 (first turn)"
    ) in lines
    assert (
        "turn 3 · ttft 500 ms · prefill 40 @ 81.8/s · decode 2 @ 10.0/s · "
        "reused 60/100 (appended) · length"
    ) in lines


def test_an_answer_that_was_gone_on_with_has_the_figures_of_both_turns(
    chat: Chat, records: dict[str, TurnRecord]
) -> None:
    chat.put(msgspec.structs.replace(chat.node("3"), turn_ids=("turn-2", "turn-3", "lost")))
    text = as_markdown(chat, records)
    assert re.findall(r"^\*turn (\d)", text, re.MULTILINE) == ["1", "2", "3"]


def test_the_table_has_every_turn_failed_ones_and_those_of_other_branches_too(
    chat: Chat, records: dict[str, TurnRecord]
) -> None:
    table = as_markdown(chat, records).split("## Figures\n\n")[1]
    rows = [
        [text_of(cell.strip()) for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line.startswith("|")
    ]
    # 20 tokens are too few for a rate of prefill.
    assert [row[0] for row in rows[2:]] == ["1", "2", "3", "4"]
    assert rows[3][2:] == ["500 ms", "20 @ 40.9/s≈", "2 @ 10.0/s", "1,000/1,020 (appended)", "eog"]
    assert rows[5][2:] == ["—", "— @ —/s", "0 @ —/s", "—/—", "error: it does not work"]
    assert "≈" in table.splitlines()[-1]
    assert "<table>" in html_of(as_markdown(chat, records))


def test_thinking_is_folded_and_counted(chat: Chat, records: dict[str, TurnRecord]) -> None:
    text = as_markdown(chat, records)
    folded = "<details>\n<summary>Thinking (12 tokens)</summary>\n\nhm, red\n\n</details>\n"
    assert folded + "\nRed, at last.\n" in text


def test_thinking_cannot_end_its_fold_by_itself() -> None:
    text = exported("hi", "<think>a </details> b\n\n```\nc</think># Well")
    assert text.count("</details>\n") == 1
    assert "a \\</details> b\n\n```\nc\n```\n\n</details>\n\n### Well" in text


def test_other_branches_are_counted_and_printed_on_request(
    chat: Chat, records: dict[str, TurnRecord]
) -> None:
    chat.edit(chat.path()[0].id, "Why is grass green?")
    answer(chat, "4", "Chlorophyll.")
    chat.go_to("1")
    short, long = as_markdown(chat, records), as_markdown(chat, records, branches=True)
    assert short.count("*1 other version of this message*") == 2
    assert "Chlorophyll" not in short
    assert outline(long)[6:-1] == [
        (2, "Branch 1: another answer to “And at dusk?”"),
        (3, "Scripted-1B"),
        (2, "Branch 2: from the beginning"),
        (3, "You"),
        (3, "Scripted-1B"),
    ]
    for node in chat.nodes():
        assert long.count(node.content.split(">")[-1]) >= 1
    assert long.count("Chlorophyll.") == 1


def test_an_answer_that_was_cut_by_the_end_of_the_program_is_marked() -> None:
    chat = Chat()
    chat.add_user("hi")
    chat.put(msgspec.structs.replace(answer(chat, "a", "so far"), state="partial"))
    assert "so far\n\n*phasescope ended before this answer did*\n" in as_markdown(chat, {})


def test_an_empty_chat_is_a_document_too() -> None:
    assert as_markdown(Chat(), {}) == "# Chat\n"


# ------------------------------------------------------------------------ foreign Markdown


@pytest.mark.parametrize(
    "text",
    [
        "plain\n\ntext *with* **marks**, `code` and a [link](https://example.com)",
        "- a list\n  - in a list\n\n1. one\n2. two",
        "```python\n# no heading\nprint('<div>')\n```",
        "    # indented\n    code",
        "~~~\n```\n~~~\nafter",
        "> quoted\n> text",
        "a line\nand another  \nwith a break",
        "`<div>` and ``a ` <b>`` and <https://example.com> and <me@example.com>",
        "1 < 2 and 3 <4, a<b",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "#hashtag and #2",
        "",
    ],
)
def test_what_stays_in_its_place_stays_as_it_is(text: str) -> None:
    assert contained(text, 2) == text
    assert f"## You\n\n{text}\n" in exported(text or "x", "yes") or not text


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("# One\n## Two\n### Three", "### One\n#### Two\n##### Three"),
        ("##### Five\n\n###### Six", "###### Five\n\n###### Six"),
        ("One\n===\n\nTwo\nlines\n---\ntext", "### One\n\n#### Two lines\ntext"),
        ("- # in a list", "- ### in a list"),
        ("> # quoted\n> text", "> ### quoted\n> text"),
        ("> One\n> ===\n> text", "> ### One\n> text"),
        ("# a <b> `<c>`", "### a \\<b> `<c>`"),
        ("```\n# code\n```\n# text", "```\n# code\n```\n### text"),
    ],
)
def test_headings_go_below_the_one_they_stand_under(text: str, becomes: str) -> None:
    assert contained(text, 2) == becomes


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("```\ncode", "```\ncode\n```"),
        ("~~~~ python\n```\n~~~", "~~~~ python\n```\n~~~\n~~~~"),
        ("text\n```", "text\n```\n```"),
        ("````\n```\ncode\n```", "````\n```\ncode\n```\n````"),
        ("```\na\n```\n\n```\nb", "```\na\n```\n\n```\nb\n```"),
    ],
)
def test_an_open_fence_is_closed(text: str, becomes: str) -> None:
    assert contained(text, 2) == becomes


@pytest.mark.parametrize(
    "text",
    [
        "<!-- never closed",
        "<details><summary>x</summary>",
        "<script>\nalert(1)\n\n# still script",
        "</details>",
        "a <b>bold",
        "<?php",
        "<![CDATA[ x",
        "`not code <b>",
        "`code\n<div>`",
        "\\\\<b>",
    ],
)
def test_html_is_text(text: str) -> None:
    html = re.sub(r"</?(?:p|h\d|li|ul|code)>", "", html_of(contained(text, 2)))
    assert "<" not in html
    assert "&lt;" in html


MARKDOWN = st.lists(
    st.sampled_from(
        ["#", "# ", "=", "-", "- ", "\n", "\n\n", "`", "```", "~~~", "<b>", "</details>", "<!--",
         ">", "> ", " ", "    ", "\t", "a", "1. ", "*", "\\", "[", "]: ", "|", "\r", "&lt;"]
    ),
    max_size=15,
).map("".join)  # fmt: skip


@given(MARKDOWN, MARKDOWN)
def test_no_message_reaches_beyond_its_place(question: str, reply: str) -> None:
    text = exported(question, reply)
    assert [(level, name) for level, name in outline(text) if level < 3] == SKELETON
    html = html_of(text)
    assert html.endswith("<h2>You</h2>\n<p>the next</p>\n")
    assert not re.search(r"<(?:b>|!--|/?details)", html)


@given(st.text(max_size=30))
def test_escaped_text_reads_as_it_is(text: str) -> None:
    (token,) = PARSER.parseInline(escaped(text))
    assert [child.type for child in token.children or ()] in (["text"], [])
    assert text_of(escaped(text)) == " ".join(text.split()).replace("\0", "\ufffd")


# -------------------------------------------------------------------------------- the file


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Why is the sky blue?", "Why-is-the-sky-blue.md"),
        ("../../etc/passwd", "etc-passwd.md"),
        ('a/b\\c:d*e"f<g>h|i', "a-b-c-d-e-f-g-h-i.md"),
        ("-rf *", "rf.md"),
        ("CON", "chat-CON.md"),
        ("nul.tar", "chat-nul.tar.md"),
        ("COM¹", "chat-COM1.md"),
        ("ends with a dot. ", "ends-with-a-dot.md"),
        ("漢字とかな", "漢字とかな.md"),
        ("नमस्ते", "नमस्ते.md"),
        ("?!", "chat-01234567.md"),
        ("\x1b]52;c;x\x07", "52-c-x.md"),
        ("", "chat-01234567.md"),
    ],
)
def test_the_file_is_named_after_the_chat(title: str, name: str) -> None:
    assert file_name(title, "0123456789abcdef") == name


@given(st.text(max_size=200))
def test_any_title_makes_a_name_that_every_system_takes(title: str) -> None:
    name = file_name(title, "0123456789abcdef")
    assert name.endswith(".md")
    assert len(name.encode()) <= 140
    assert not set(name) & set('<>:"/\\|?*\0\n\x1b')
    assert name[0] not in ".- "


def test_a_file_is_written_as_utf_8_with_plain_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "chat.md"
    write_file(path, "漢字\nand more\n")
    assert path.read_bytes() == "漢字\nand more\n".encode()
    assert [each.name for each in tmp_path.iterdir()] == ["chat.md"]


def test_a_file_that_is_there_is_replaced_only_by_force(tmp_path: Path) -> None:
    path = tmp_path / "chat.md"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(ExportError, match=r"chat\.md is there already"):
        write_file(path, "new")
    assert path.read_text(encoding="utf-8") == "mine"
    write_file(path, "new", force=True)
    assert path.read_text(encoding="utf-8") == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["chat.md"]


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_comes_meanwhile_is_not_replaced(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chat.md"
    sync, link = os.fsync, os.link

    def meanwhile(descriptor: int) -> None:
        sync(descriptor)
        path.write_text("theirs", encoding="utf-8")

    def no_links(source: Path, target: Path) -> None:
        del source, target
        raise PermissionError

    monkeypatch.setattr(os, "fsync", meanwhile)
    monkeypatch.setattr(os, "link", link if links else no_links)
    with pytest.raises(ExportError, match="is there already"):
        write_file(path, "new")
    assert path.read_text(encoding="utf-8") == "theirs"
    assert [each.name for each in tmp_path.iterdir()] == ["chat.md"]


def test_a_file_system_without_links_takes_the_file_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(source: Path, target: Path) -> None:
        del source, target
        raise PermissionError

    monkeypatch.setattr(os, "link", no_links)
    write_file(tmp_path / "chat.md", "new")
    assert (tmp_path / "chat.md").read_text(encoding="utf-8") == "new"


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="is a folder"):
        write_file(tmp_path, "new", force=True)
    with pytest.raises(ExportError, match=r"nowhere.* cannot be written"):
        write_file(tmp_path / "nowhere" / "chat.md", "new")
    with pytest.raises(ExportError, match="no file that can be replaced"):
        write_file(Path(os.devnull), "new", force=True)


@pytest.mark.parametrize("name", ["a" * 300 + ".md", "a\0b.md", "a\ud800.md", "none/x.md"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ExportError, match="cannot be written"):
        write_file(tmp_path / name, "text")
    assert list(tmp_path.iterdir()) == []
