"""Figures and foreign text as they are shown."""

import re
import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.metrics.record import StopRecord, TurnRecord
from tests.fake_engine import failed, turn_events
from tests.unit.sessions import Engines, ask, begun
from tui.figures import DASH, ago, count, figures_line, milliseconds, rate, size, used_of
from tui.text import harmless

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def record(**changes: object) -> TurnRecord:
    """A turn of 1,200 prompt tokens, 1,000 of them reused, and 3 sampled ones."""
    engines = Engines(
        lambda request: turn_events(
            request.turn,
            token_s=[0.511, 0.52, 0.53],
            cache_n=1000,
            prompt_n=200,
            reason="eog",
        )
    )
    return msgspec.structs.replace(ask(begun(engines), "hello"), **changes)


def test_what_does_not_exist_is_a_dash() -> None:
    assert milliseconds(None) == count(None) == size(None) == DASH == "—"
    assert rate(None) == "—/s"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 µs"),
        (0.04, "40 µs"),
        (0.0994, "99 µs"),
        (0.1, "0.1 ms"),
        (8.44, "8.4 ms"),
        (9.94, "9.9 ms"),
        (9.96, "10 ms"),
        (132.4, "132 ms"),
        (999.4, "999 ms"),
        (999.6, "1.00 s"),
        (2412.0, "2.41 s"),
        (61_000.0, "61.00 s"),
    ],
)
def test_durations(value: float, text: str) -> None:
    assert milliseconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.50/s"),
        (8.416, "8.42/s"),
        (9.996, "10.0/s"),
        (118.44, "118.4/s"),
        (999.94, "999.9/s"),
        (999.96, "1,000/s"),
        (1204.0, "1,204/s"),
        (1_234_567.0, "1,234,567/s"),
    ],
)
def test_rates(value: float, text: str) -> None:
    assert rate(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1, "1"), (999, "999"), (1000, "1,000"), (97_052, "97,052")]
)
def test_counts(value: int, text: str) -> None:
    assert count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0 KiB"),
        (23_040, "22.5 KiB"),
        (MIB - 1, "1.0 MiB"),
        (90 * MIB, "90.0 MiB"),
        (GIB - 1, "1.00 GiB"),
        (98_362_432, "93.8 MiB"),
        (1 << 32, "4.00 GiB"),
    ],
)
def test_sizes(value: int, text: str) -> None:
    assert size(value) == text


def test_bytes_in_use_have_the_unit_of_the_whole() -> None:
    assert used_of(14 * MIB, 90 * MIB) == "14.0/90.0 MiB"
    assert used_of(0, 512 * KIB) == "0.0/512.0 KiB"
    assert used_of(GIB // 2, 2 * GIB) == "0.50/2.00 GiB"
    assert used_of(GIB // 2, GIB - 1) == "0.50/1.00 GiB"


UNITS = {"µs": 1e-3, "ms": 1.0, "s": 1e3, "KiB": KIB, "MiB": MIB, "GiB": GIB}


def read_back(text: str) -> tuple[float, float]:
    """The value that a figure says, and half of its last digit."""
    number, unit = text.split(" ")
    digits = len(number.partition(".")[2])
    return float(number) * UNITS[unit], 0.5 * 10**-digits * UNITS[unit]


@given(st.floats(0, 1e7))
def test_a_duration_says_what_it_is_to_its_last_digit(value: float) -> None:
    said, half = read_back(milliseconds(value))
    assert abs(said - value) <= half * (1 + 1e-9)
    if "ms" in milliseconds(value):
        assert said < 1000


@given(st.integers(0, 1 << 45))
def test_a_size_says_what_it_is_to_its_last_digit(value: int) -> None:
    said, half = read_back(size(value))
    assert abs(said - value) <= half * (1 + 1e-9)
    number, unit = size(value).split(" ")
    assert unit == "GiB" or float(number) < 1024


# ----------------------------------------------------------------------------- one line


def test_a_turn_in_one_line() -> None:
    # 200 tokens in 500 ms; two gaps in 19 ms.
    assert figures_line(record()) == (
        "ttft 511 ms · prefill 200 @ 400.0/s · decode 3 @ 105.3/s · reused 1,000/1,200"
    )


def test_a_turn_of_one_token_has_no_decode_rate() -> None:
    engines = Engines(lambda request: turn_events(request.turn, token_s=[0.511], prompt_n=100))
    line = figures_line(ask(begun(engines), "hello"))
    assert line == ("ttft 511 ms · prefill 100 @ 200.0/s · decode 1 @ —/s · reused 0/100 · length")


def test_a_turn_that_failed_has_dashes() -> None:
    engines = Engines(lambda request: failed(request.turn, "engine", "it crashed"))
    line = figures_line(ask(begun(engines), "hello"))
    assert line == ("ttft — · prefill — @ —/s · decode 0 @ —/s · reused —/— · error: it crashed")


def test_what_makes_a_turn_special_is_said() -> None:
    assert figures_line(record(first_after_load=True)).endswith(" · first after load")
    full = figures_line(record(stop=StopRecord("context_full", "all 512 tokens are in use")))
    assert full.endswith(" · context full: all 512 tokens are in use")


def test_a_short_prefill_is_marked() -> None:
    short = record(prompt_n=31, cache_n=1169)
    assert "prefill 31 @ 400.0/s≈ " in figures_line(short)
    assert "≈" not in figures_line(record(prompt_n=32, cache_n=1168))


# ------------------------------------------------------------------------- foreign text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]52;c;aGFjaw==\x07", "␛]52;c;aGFjaw==␇"),
        ("\x1b[2J\x1b[H", "␛[2J␛[H"),
        ("\x9b2J\x9d0;title\x9c", "�2J�0;title�"),
        ("\x00\x7f\r\x0b", "␀␡␍␋"),
        ("abc\u202egnp.exe\u202c", "abc�gnp.exe�"),
        ("\u2066left\u2069", "�left�"),
        ("one\u2028two\u2029three\x85four", "one�two�three�four"),
        ("/models/\udcff.gguf", "/models/�.gguf"),
        ("a\tb\nc", "a\tb\nc"),
        ("☺️ 👩‍👩‍👧‍👦 漢字 مرحبا [bold]x[/bold]", "☺️ 👩‍👩‍👧‍👦 漢字 مرحبا [bold]x[/bold]"),
        ("", ""),
    ],
)
def test_foreign_text_is_shown_and_never_obeyed(text: str, shown: str) -> None:
    assert harmless(text) == shown


DANGEROUS = st.sampled_from("\x00\x07\x1b\x7f\x84\x90\x9b\x9d\u2028\u202d\u202e\u2067\ud800\udfff")
ANYTHING = st.text(st.one_of(st.characters(codec=None), DANGEROUS))


@given(ANYTHING)
def test_no_control_character_survives_but_tab_and_newline(text: str) -> None:
    shown = harmless(text)
    assert len(shown) == len(text)
    kinds = {unicodedata.category(character) for character in shown if character not in "\t\n"}
    assert not kinds & {"Cc", "Cs", "Zl", "Zp"}
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", shown)
    # It can be written anywhere, and a second pass changes nothing.
    shown.encode("utf-8")
    assert harmless(shown) == shown


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Cf", "Zl", "Zp"])))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert harmless(text) == text


def test_a_moment_that_is_none_has_a_dash() -> None:
    assert ago("yesterday") == "—"
