"""What is found in all chats, and how it is shown."""

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.chat.tree import Chat
from backend.history import History, Query, SearchHit
from tests.unit.stored import answer, save


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("STRASSE", "eine straße"),
        ("straße", "EINE STRASSE"),
        ("ПРИВЕТ", "ну, привет!"),
        ("Σίσυφος", "ΣΊΣΥΦΟΣ"),
        ("漢字", "これは漢字です"),
        ("字", "これは漢字です"),
        ("مرحبا", "قال مرحبا"),
        ("cafe\u0301", "Café"),
        ("Café", "a cafe\u0301"),
        ("office", "the o\ufb03ce"),
        ("abc", "ＡＢＣ"),
        ("100%", "it is 100% sure"),
        ("a_b", "a_b"),
        ("[x]*", "see [x]* there"),
        ("\\", "a\\b"),
        ("kind be", "be very kind"),
        ('"be kind"', "Be\n  kind"),
        ('very "be kind" now', "now be kind, very"),
        ('"not closed', "it was not closed"),
        ('"a.b c"', "a.b c"),
        ("👩‍👩‍👧", "a family 👩‍👩‍👧 here"),
    ],
)
def test_it_is_found(query: str, text: str) -> None:
    assert Query(query).matches(text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("a%b", "a and b"),
        ("a_b", "axb"),
        (".*", "anything"),
        ("[ab]", "a"),
        ("be rude", "be kind"),
        ('"be kind"', "kind be"),
        ('"be kind"', "be very kind"),
        ('"a.b c"', "axb c"),
        ("", "anything"),
        ('""', "anything"),
        (" \t", "any thing"),
    ],
)
def test_it_is_not_found(query: str, text: str) -> None:
    assert not Query(query).matches(text)


def test_what_asks_for_nothing_is_told_apart() -> None:
    assert not Query(' "" ')
    assert Query("a")


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("be kind", "Be kind, be", ["Be", "kind", "be"]),
        ("strasse", "die Straße", ["Straße"]),
        ("cafe\u0301", "ein cafe\u0301 hier", ["cafe\u0301"]),
        ("f", "o\ufb03ce", ["\ufb03"]),
        ('"be kind"', "so be\n kind be", ["be\n kind"]),
        ("aba", "ababa", ["aba"]),
        ("ab b", "ab", ["ab"]),
        ("ß", "ẞ und ss", ["ẞ", "ss"]),
    ],
)
def test_the_places_are_those_of_the_text_itself(query: str, text: str, found: list[str]) -> None:
    assert [text[begin:end] for begin, end in Query(query).spans(text)] == found


@given(st.text(), st.integers(0, 50), st.integers(1, 10))
def test_any_part_of_a_text_is_found_in_it(text: str, at: int, size: int) -> None:
    part = text[at : at + size].replace('"', " ").strip()
    # A part may begin in the midst of what is one character to a reader.
    alone = not any(unicodedata.combining(char) for char in text)
    query = Query(part)
    if query and alone and unicodedata.is_normalized("NFKC", text):
        assert query.matches(text)
    spans = query.spans(text)
    assert all(0 <= begin < end <= len(text) for begin, end in spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


@given(st.text(max_size=400), st.text(max_size=3))
def test_an_excerpt_is_one_short_line(text: str, query: str) -> None:
    excerpt = Query(query).excerpt(text)
    assert len(excerpt) <= 80
    assert "\n" not in excerpt


def test_an_excerpt_shows_what_was_found_and_what_stands_around_it() -> None:
    text = "one two three " * 30 + "the\nneedle  in\tit " + "four five six " * 30
    excerpt = Query("NEEDLE").excerpt(text)
    assert "three the needle in it four" in excerpt
    assert excerpt[0] == excerpt[-1] == "…"
    assert len(excerpt) > 70
    assert Query("short").excerpt("a short one") == "a short one"


# ---------------------------------------------------------------------------- in the store


def places(hits: list[SearchHit]) -> list[tuple[str, str, str | None]]:
    return [(hit.chat.id, hit.role, hit.node_id) for hit in hits]


@pytest.fixture
def two_chats(history: History) -> History:
    """An older chat with two branches that says `mill` everywhere, and a newer one."""
    older = Chat("older", system="you know each mill")
    question = older.add_user("a MILL?")
    first = answer(older, "first", "<think>mill</think>no")
    second_question = older.edit(question.id, "what is a mill")
    second = answer(older, "second", "a mill grinds")
    save(history, older, question, first, second_question, second)
    newer = Chat("newer")
    save(history, newer, newer.add_user("nothing"), answer(newer, "third", "Windmills turn"))
    return history


def test_all_branches_titles_and_system_prompts_are_searched_newest_chat_first(
    two_chats: History,
) -> None:
    older = two_chats.load_chat("older")
    question, second_question = (node.id for node in older.nodes() if node.role == "user")
    hits = list(two_chats.search("mill"))
    assert places(hits) == [
        ("newer", "assistant", "third"),
        ("older", "title", None),
        ("older", "system", None),
        ("older", "user", question),
        ("older", "assistant", "first"),
        ("older", "user", second_question),
        ("older", "assistant", "second"),
    ]
    assert hits[0].excerpt == "Windmills turn"
    assert hits[0].chat == two_chats.chat_row("newer")


def test_deleted_chats_are_searched_only_on_request(two_chats: History) -> None:
    two_chats.delete("newer")
    assert places(list(two_chats.search("windmills"))) == []
    hits = list(two_chats.search("windmills", deleted=True))
    assert places(hits) == [("newer", "assistant", "third")]


def test_a_search_can_be_stopped(two_chats: History) -> None:
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 3

    hits = list(two_chats.search("mill", stop=stop))
    assert [hit.chat.id for hit in hits] == ["newer", "older", "older", "older"]
    assert asked == 4


def test_an_empty_search_finds_nothing(two_chats: History) -> None:
    assert list(two_chats.search("")) == []
    assert list(two_chats.search('""')) == []


def test_what_is_found_first_is_given_out_before_the_rest_is_read(two_chats: History) -> None:
    hits = two_chats.search("mill")
    assert next(hits).node_id == "third"
    two_chats.remove_message("second")
    assert "second" not in [hit.node_id for hit in hits]
