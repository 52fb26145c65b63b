"""TOML read statement by statement agrees with the whole, and a fault costs its line only."""

import tomllib
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from tui.config.statements import Statements, read_statements


def as_table(statements: Statements) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for entry in statements.entries:
        inner = table
        *folders, last = entry.path
        for name in folders:
            inner = inner.setdefault(name, {})
        if isinstance(entry.value, dict):
            inner.setdefault(last, {})
        else:
            inner[last] = entry.value
    return table


NAMES = st.text(max_size=6)
VALUES = st.recursive(
    st.booleans()
    | st.integers(-(1 << 62), 1 << 62)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"), max_size=30),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
DOCUMENTS = st.dictionaries(
    NAMES.filter(lambda name: name.isprintable()),
    st.dictionaries(NAMES.filter(lambda name: name.isprintable()), VALUES, max_size=4),
    max_size=4,
)


@given(DOCUMENTS)
def test_a_right_file_reads_as_the_parser_of_the_standard_library_has_it(
    document: dict[str, dict[str, object]],
) -> None:
    text = tomlkit.dumps(document)
    statements = read_statements(text)
    assert statements.faults == ()
    assert as_table(statements) == tomllib.loads(text)


LONG = '''
# a comment
[chat]  # another
system = """
[not a section]
temp = 3
"""   # over
a.b = 1
"c.d" = [
  1,  # one
  [2,
   3],
]
e = {f = 1, g = {h = "]"}}
i = \'\'\'
x = """\'\'\'

[ model . "deep er" ]
j = 1979-05-27T07:32:00Z
'''


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_statements_over_several_lines_are_whole(ends: str) -> None:
    text = LONG.replace("\n", ends)
    statements = read_statements(text)
    assert statements.faults == ()
    assert as_table(statements) == tomllib.loads(text)
    lines = {".".join(entry.path): entry.line for entry in statements.entries}
    assert lines == {
        "chat": 3,
        "chat.system": 4,
        "chat.a.b": 8,
        "chat.c.d": 9,
        "chat.e.f": 14,
        "chat.e.g.h": 14,
        "chat.i": 15,
        "model.deep er": 18,
        "model.deep er.j": 19,
    }


@pytest.mark.parametrize(
    "bad",
    [
        "b",
        "b =",
        "b = = 1",
        "b = hot",
        "b = 1 2",
        'b = "open',
        "b = [1, 2",
        'b = """open',
        "b = {c = 1",
        "b = \x00",
        "# \x01",
        "[b",
        "[b]]",
        "= 1",
        "b = " + "[" * 20_000,
        "b = " + "9" * 5000,
        "b = 0x",
        "b = 1979-13-45",
    ],
)
def test_a_fault_costs_its_line_only(bad: str) -> None:
    statements = read_statements(f"[s]\na = 1\n{bad}\nz = 2\n")
    assert [fault.line for fault in statements.faults] == [3]
    assert statements.faults[0].text.startswith("this is not TOML: ")
    assert as_table(statements) == {"s": {"a": 1, "z": 2}}


def test_a_broken_list_is_one_fault() -> None:
    statements = read_statements('a = [\n"x",\nhot,\n"y",\n]\nb = 1\nc = = 2\n')
    assert [fault.line for fault in statements.faults] == [1, 7]
    assert as_table(statements) == {"b": 1}


def test_a_text_that_never_ends_leaves_the_rest() -> None:
    statements = read_statements('[s]\na = """\nb = 1\n[t]\nc = 2\n')
    assert [(fault.line, fault.text) for fault in statements.faults] == [
        (2, "this is not TOML: it does not end")
    ]
    assert as_table(statements) == {"s": {"b": 1}, "t": {"c": 2}}


@pytest.mark.parametrize(
    ("text", "line", "sentence", "table"),
    [
        ("[s]\na = 1\na = 2", 3, "s.a is set in line 2 too; this one counts", {"s": {"a": 2}}),
        (
            "[s]\na = 1\n[t]\n[s]\nb = 2",
            4,
            "the section [s] is there already, in line 1",
            {"s": {"a": 1, "b": 2}, "t": {}},
        ),
        ("[[s]]\na = 1", 1, "a section has one pair of brackets, not two", {"s": {"a": 1}}),
    ],
)
def test_what_toml_forbids_to_say_twice_still_counts(
    text: str, line: int, sentence: str, table: dict[str, object]
) -> None:
    statements = read_statements(text)
    assert statements.faults == ((line, sentence),)
    assert as_table(statements) == table


def test_statements_that_do_not_go_together_are_named() -> None:
    (fault,) = read_statements("[s]\na.b = 1\n[s.a]\nc = 2\n").faults
    assert fault.line == 3
    assert fault.text.startswith("this does not go with what stands above it: ")


def test_a_prompt_of_many_lines_is_one_statement() -> None:
    prompt = "a line of it\n" * 4000
    (entry,) = read_statements(f'p = """{prompt}"""').entries
    assert entry.value == prompt
