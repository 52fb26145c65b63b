"""Drafts as data, and how text with folded pieces stands in a document."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.text import harmless
from tui.widgets.pastes import (
    CLOSING,
    EDITABLE_CHARACTERS,
    EDITABLE_LINES,
    OPENING,
    Draft,
    Fold,
    Folds,
    is_long_paste,
    on_screen,
    size_label,
    spans,
)

ANY_TEXT = st.text(
    st.characters() | st.sampled_from(f"\r\n\t\x0b\x0c\x1b\x1c\x85\u2028\u202e{OPENING}{CLOSING}⟦⟧")
)
FOLDS = st.builds(Fold, ANY_TEXT, ANY_TEXT)
DRAFTS = st.builds(Draft, st.lists(ANY_TEXT | FOLDS, max_size=6).map(tuple))


def with_lf(text: str) -> str:
    """Line ends as they are kept."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


@given(DRAFTS)
def test_a_draft_survives_its_json(draft: Draft) -> None:
    stored = draft.to_json()
    assert stored.isascii()
    assert Draft.from_json(stored) == draft


@pytest.mark.parametrize("stored", ["", "{}", "[1]", '[["a"]]', '[["a", 1]]', '"a"', "[", "null"])
def test_what_is_no_draft_is_told(stored: str) -> None:
    with pytest.raises(ValueError, match=r"draft|Expecting"):
        Draft.from_json(stored)


def test_the_form_on_disk_is_a_list_of_texts_and_labelled_texts() -> None:
    stored = '["see ", ["pasted 1 line, 4 characters", "long"], " ok"]'
    draft = Draft(("see ", Fold("pasted 1 line, 4 characters", "long"), " ok"))
    assert json.loads(draft.to_json()) == json.loads(stored)
    assert Draft.from_json(stored).full_text == "see long ok"


@given(DRAFTS)
def test_nothing_is_lost_in_a_document(draft: Draft) -> None:
    folds = Folds()
    document = folds.encode_draft(draft)
    expected = "".join(
        with_lf(part) if isinstance(part, str) else part.text for part in draft.parts
    )
    assert folds.decode(document).full_text == expected


@given(DRAFTS)
def test_a_document_has_only_line_ends_that_are_meant_and_is_as_wide_as_it_is_drawn(
    draft: Draft,
) -> None:
    document = Folds().encode_draft(draft)
    assert document.splitlines() == document.removesuffix("\n").split("\n") or not document
    shown = on_screen(document)
    assert len(shown) == len(document)
    assert harmless(shown) == shown
    assert cell_len(shown) == cell_len(document)


def test_equal_labels_are_told_apart() -> None:
    folds = Folds()
    document = folds.encode_draft(Draft((Fold("pasted", "one"), Fold("pasted", "two"))))
    assert on_screen(document) == "⟦pasted⟧⟦pasted · 2⟧"
    assert folds.decode(document).parts == (Fold("pasted", "one"), Fold("pasted · 2", "two"))
    document = folds.encode_draft(Draft((Fold("pasted", "one"), Fold("pasted", "one"))))
    assert on_screen(document) == "⟦pasted⟧⟦pasted · 3⟧"
    assert folds.decode(document).full_text == "oneone"


def test_a_piece_that_was_removed_comes_back_as_itself() -> None:
    folds = Folds()
    removed = folds.place(Fold("pasted", "one"))
    assert on_screen(folds.place(Fold("pasted", "two"))) == "⟦pasted · 2⟧"
    assert folds.place(Fold("pasted", "one")) == removed
    assert folds.decode(removed).full_text == "one"


def test_brackets_that_are_written_by_hand_are_text() -> None:
    folds = Folds()
    folds.place(Fold("pasted", "secret"))
    for text in ("⟦pasted⟧", f"{OPENING}pasted{CLOSING}"):
        assert folds.decode(folds.encode(text)).full_text == text


def test_what_is_too_large_to_be_edited_is_folded() -> None:
    for text, is_folded in (
        ("x" * EDITABLE_CHARACTERS, False),
        ("x" * (EDITABLE_CHARACTERS + 1), True),
        ("x\n" * EDITABLE_LINES, False),
        ("x\n" * EDITABLE_LINES + "x", True),
    ):
        folds = Folds()
        document = folds.encode(text)
        assert bool(spans(document)) is is_folded
        assert folds.decode(document).full_text == text


@pytest.mark.parametrize(
    ("text", "is_long"),
    [
        ("x" * 1_000, False),
        ("x" * 1_001, True),
        ("x\n" * 8, False),
        ("x\n" * 8 + "x", True),
        ("", False),
    ],
)
def test_which_pastes_are_long(text: str, is_long: bool) -> None:
    assert is_long_paste(text) is is_long


def test_sizes_are_counted_as_an_editor_counts() -> None:
    assert size_label("pasted", "a\nb") == "pasted 2 lines, 3 characters"
    assert size_label("pasted", "a\nb\n") == "pasted 2 lines, 4 characters"
    assert size_label("pasted", "a") == "pasted 1 line, 1 character"
    assert size_label("pasted", "ab" * 100_000) == "pasted 1 line, 200,000 characters"


def test_a_hostile_or_long_label_stays_one_short_harmless_line() -> None:
    folds = Folds()
    document = folds.place(Fold(f"a\x1b[2J\n{OPENING}{CLOSING}.txt", "text"))
    assert on_screen(document) == "⟦a␛[2J⏎��.txt⟧"
    assert len(folds.place(Fold("n" * 5_000, "text"))) < 80
    assert folds.decode(document).full_text == "text"


def test_a_stored_draft_that_is_nested_without_end_is_none() -> None:
    with pytest.raises(ValueError, match="nested"):
        Draft.from_json("[" * 200_000)
