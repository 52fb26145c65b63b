"""Decode without a model: text from tokens, why an answer ends, and what the cache holds then."""

import ctypes
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.local import decode
from backend.local.cancel import CancelFlag
from backend.local.decode import Decode, DecodeResult, TokenText
from backend.local.kv import KvCache, MemoryKind
from backend.local.llama import ABORTED, Context
from backend.local.sampling import Sampler
from backend.local.vocabulary import Vocabulary
from backend.protocol import PrefillTiming, TokenBatch
from tests.unit.memories import SequenceMemory

# --------------------------------------------------------------------------------- text


def spoken(pieces: Sequence[bytes], stops: Sequence[str] = ()) -> tuple[list[str], str, str | None]:
    """What each token gives out, what is given out at the end, and the stop string found."""
    return heard_from(TokenText(stops), pieces)


def heard_from(text: TokenText, pieces: Sequence[bytes]) -> tuple[list[str], str, str | None]:
    given_out: list[str] = []
    for piece in pieces:
        given_out.append(text.feed(piece))
        if text.stopped_by is not None:
            break
    return given_out, text.finish(), text.stopped_by


def test_a_character_spread_over_tokens_comes_whole_with_its_last() -> None:
    smile = "☺".encode()
    assert len(smile) == 3
    assert spoken([b"a", smile[:1], smile[1:2], smile[2:] + b"b"]) == (
        ["a", "", "", "☺b"],
        "",
        None,
    )


def test_a_family_of_joined_characters_comes_whole() -> None:
    family = "👩‍👩‍👧‍👦".encode()
    given_out, rest, _ = spoken([family[at : at + 1] for at in range(len(family))])
    assert "".join(given_out) + rest == "👩‍👩‍👧‍👦"


def test_an_unfinished_character_is_marked_at_the_end() -> None:
    assert spoken([b"a", "☺".encode()[:2]]) == (["a", ""], "\ufffd", None)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xff", "\ufffd"),
        (b"a\x80b", "a\ufffdb"),
        # A character that breaks off: one mark for the part, then what follows.
        ("☺".encode()[:2] + b"x", "\ufffdx"),
        # Half of a surrogate pair as CESU-8 writes it: three bytes that begin no character.
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        (b"\x00\x1b[2J", "\x00\x1b[2J"),
    ],
)
def test_bytes_that_are_no_text_are_marked_and_never_raise(data: bytes, text: str) -> None:
    for size in (1, len(data)):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        given_out, rest, _ = spoken(pieces)
        assert "".join(given_out) + rest == text


def test_a_stop_string_across_tokens_is_left_out_with_what_follows() -> None:
    assert spoken([b"well ", b"E", b"N", b"D", b"more"], ["END"]) == (
        ["well ", "", "", ""],
        "",
        "END",
    )
    assert spoken([b"so it ENDs"], ["END"]) == (["so it "], "", "END")


def test_what_might_become_a_stop_string_is_held_until_it_cannot() -> None:
    assert spoken([b"a E", b"N", b"x"], ["END"]) == (["a ", "", "ENx"], "", None)
    assert spoken([b"EE", b"END"], ["END"]) == (["E", "E"], "", "END")


def test_what_was_held_back_is_given_out_at_the_end() -> None:
    assert spoken([b"the ", b"EN"], ["END"]) == (["the ", ""], "EN", None)
    assert spoken([b"EN", "☺".encode()[:1]], ["END"]) == (["", ""], "EN\ufffd", None)


def test_the_first_of_several_stop_strings_counts() -> None:
    assert spoken([b"one\n\ntwo###"], ["###", "\n\n"]) == (["one"], "", "\n\n")
    assert spoken([b"x User", b":"], ["User:", "\n"]) == (["x ", ""], "", "User:")


def test_a_stop_string_of_many_bytes() -> None:
    ends = "☺☺".encode()
    pieces = [b"a", *(ends[at : at + 1] for at in range(len(ends)))]
    assert spoken(pieces, ["☺☺"]) == (["a", *[""] * 6], "", "☺☺")


def test_an_empty_stop_string_stops_nothing() -> None:
    assert spoken([b"a", b"b"], ["", "zz"]) == (["a", "b"], "", None)


@given(
    st.text("aE☺ND", max_size=30),
    st.lists(st.text("ND☺E", min_size=1, max_size=4), max_size=3),
    st.data(),
)
def test_text_is_the_same_however_its_bytes_are_cut(
    text: str, stops: list[str], data: st.DataObject
) -> None:
    raw = text.encode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(raw)))) | {0, len(raw)})
    pieces = [raw[start:end] for start, end in pairwise(cuts)]
    given_out, rest, stopped_by = spoken(pieces, stops)
    heard = "".join(given_out) + rest
    found = sorted(text.find(stop) for stop in stops if stop in text)
    if stopped_by is None:
        assert not found
        assert heard == text
    else:
        # Cutting can complete a longer stop string later, never let one through.
        assert text.startswith(heard + stopped_by)
        assert not any(stop in heard for stop in stops)
        assert len(heard) >= found[0]


@given(
    st.text("aE☺ND", max_size=30),
    st.lists(st.text("ND☺E", min_size=1, max_size=4), max_size=3),
    st.data(),
)
def test_text_is_the_same_however_often_the_answer_is_cut(
    text: str, stops: list[str], data: st.DataObject
) -> None:
    raw = text.encode()
    edges = sorted(data.draw(st.sets(st.integers(0, len(raw)))) | {0, len(raw)})
    pieces = [raw[start:end] for start, end in pairwise(edges)]
    given_out, rest, stopped_by = spoken(pieces, stops)
    content = ""
    ended = None
    cuts = sorted(data.draw(st.sets(st.integers(0, len(pieces)))) | {0, len(pieces)})
    for start, end in pairwise(cuts):
        if ended is None:
            part = TokenText(stops)
            drop_chars = part.go_on(b"".join(pieces[:start]), content)
            new, tail, ended = heard_from(part, pieces[start:end])
            content = content[: len(content) - drop_chars] + "".join(new) + tail
    assert content == "".join(given_out) + rest
    assert ended == stopped_by


# ------------------------------------------------------------------------------ the loop

END = 99


class Words:
    """A vocabulary: token n is the letter n."""

    def __init__(self, pieces: dict[int, bytes] | None = None) -> None:
        self._pieces = pieces or {}

    def is_end_of_generation(self, token: int) -> bool:
        return token == END

    def piece(self, token: int) -> bytes:
        return self._pieces.get(token, chr(ord("a") + token).encode())


class Bench:
    """A context, its cache and a sampler that says what it is told to."""

    def __init__(
        self,
        tokens: Sequence[int],
        *,
        n_ctx: int = 64,
        prompt: Sequence[int] = (50, 51),
        statuses: Sequence[int] = (),
        pieces: dict[int, bytes] | None = None,
    ) -> None:
        self.n_ctx = n_ctx
        self.memory = SequenceMemory()
        self.kv = KvCache(self.memory, MemoryKind(0, rolls_back=True), "start")
        self.memory.decode(prompt)
        self.kv.tokens += prompt
        self.cancel = CancelFlag()
        self.batches: list[TokenBatch] = []
        self.on_sample: Callable[[int], None] = lambda _count: None
        self._tokens = list(tokens)
        self._statuses = list(statuses)
        self._sampled = 0
        self._vocabulary = Words(pieces)

    def sample(self, _context: object) -> int:
        self._sampled += 1
        self.on_sample(self._sampled)
        return self._tokens.pop(0)

    def decode(self, tokens: "ctypes.Array[ctypes.c_int32]", count: int) -> int:
        status = self._statuses.pop(0) if self._statuses else 0
        if status == 0:
            self.memory.decode(list(tokens[:count]))
        return status

    def run(
        self,
        *,
        limit: int | None = None,
        cancel_after: int | None = None,
        stops: Sequence[str] = (),
    ) -> DecodeResult:
        loop = Decode(
            cast("Context", self),
            self.kv,
            cast("Vocabulary", self._vocabulary),
            self.cancel,
            self.batches.append,
        )
        result = loop.run(
            1,
            cast("Sampler", self),
            prompt_ns=7,
            limit=limit,
            cancel_after=cancel_after,
            text=TokenText(stops),
        )
        assert self.kv.tokens == [token for _, token in sorted(self.memory.cells.items())]
        return result

    @property
    def ids(self) -> list[int]:
        return [token for batch in self.batches for token in batch.ids]

    @property
    def text(self) -> str:
        return "".join(piece for batch in self.batches for piece in batch.pieces)


def test_the_end_token_ends_the_answer_and_counts() -> None:
    bench = Bench([0, 1, END, 2])
    result = bench.run()
    assert (result.reason, result.detail, result.text, result.tail) == ("eog", None, "ab", "")
    assert bench.ids == [0, 1, END]
    assert bench.text == "ab"
    # The token that ended it was never decoded.
    assert bench.kv.tokens == [50, 51, 0, 1]


def test_an_answer_that_ends_at_once() -> None:
    bench = Bench([END])
    result = bench.run()
    assert (result.reason, result.text, result.decode_ns, result.sample_ns) == ("eog", "", 0, 0)
    assert bench.ids == [END]


def test_the_limit_leaves_its_last_token_undecoded() -> None:
    bench = Bench([0, 1, 2, 3])
    result = bench.run(limit=3)
    assert (result.reason, result.detail) == ("length", "the limit of 3 tokens was reached")
    assert bench.ids == [0, 1, 2]
    assert bench.kv.tokens == [50, 51, 0, 1]


def test_a_limit_of_one_decodes_nothing() -> None:
    bench = Bench([0, 1])
    assert bench.run(limit=1).decode_ns == 0
    assert bench.kv.tokens == [50, 51]


def test_a_full_context_is_no_limit() -> None:
    bench = Bench(
        range(1000, 2000),
        n_ctx=512,
        prompt=range(100),
        pieces=dict.fromkeys(range(1000, 2000), b"x"),
    )
    result = bench.run()
    assert result.reason == "context_full"
    assert result.detail == "all 512 tokens of the context are in use"
    # 412 cells are left, and one more token is sampled from the last logits.
    assert len(bench.ids) == 413
    assert len(bench.kv.tokens) == 512


def test_a_stop_string_ends_the_answer() -> None:
    bench = Bench([0, 1, 2, 3, 4])
    result = bench.run(stops=["cd"])
    assert (result.reason, result.detail, result.text) == ("stop", "cd", "ab")
    assert bench.ids == [0, 1, 2, 3]
    assert bench.text == "ab"


def test_held_back_text_follows_at_the_end() -> None:
    bench = Bench([0, 2, END])
    result = bench.run(stops=["cd"])
    assert (result.reason, result.text, result.tail) == ("eog", "ac", "c")
    assert bench.text == "a"


def test_the_user_cancels_between_two_tokens() -> None:
    bench = Bench([0, 1, 2, 3, 4])
    bench.on_sample = lambda count: bench.cancel.set() if count == 3 else None
    result = bench.run()
    assert (result.reason, bench.ids) == ("cancelled", [0, 1, 2])
    assert bench.kv.tokens == [50, 51, 0, 1]


def test_a_scripted_cancel_is_exact() -> None:
    bench = Bench([0, 1, 2, 3])
    assert bench.run(cancel_after=2).reason == "cancelled"
    assert bench.ids == [0, 1]


def test_an_abort_inside_a_decode_call_is_a_cancel() -> None:
    bench = Bench([0, 1, 2], statuses=[0, ABORTED])
    result = bench.run()
    assert (result.reason, result.detail) == ("cancelled", None)
    assert bench.ids == [0, 1]
    assert bench.kv.tokens == [50, 51, 0]


def test_a_failure_of_llama_cpp_is_named_and_the_answer_kept() -> None:
    bench = Bench([0, 1, 2], statuses=[0, 0, -3])
    result = bench.run()
    assert result.reason == "error"
    assert result.detail == "llama.cpp could not decode a token (status -3)"
    assert (result.text, bench.kv.tokens) == ("abc", [50, 51, 0, 1])


@pytest.mark.parametrize(
    ("tokens", "limit", "stops", "reason"),
    [
        # Several things hold at the same token; the model's own end comes first.
        ([0, END], 2, (), "eog"),
        ([0, 1], 2, ("b",), "stop"),
        ([0, 1], 2, (), "length"),
    ],
)
def test_the_truest_reason_is_given(
    tokens: list[int], limit: int, stops: Sequence[str], reason: str
) -> None:
    bench = Bench(tokens, n_ctx=3)
    bench.on_sample = lambda count: bench.cancel.set() if count == 2 else None
    assert bench.run(limit=limit, stops=stops, cancel_after=2).reason == reason


class Clock:
    def __init__(self) -> None:
        self.now_ns = 0

    def perf_counter_ns(self) -> int:
        return self.now_ns


def test_the_first_token_is_sent_at_once_and_the_others_gathered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(decode, "perf_counter_ns", clock.perf_counter_ns)
    bench = Bench([0, 1, 2, 3, 4, END])
    sampled_ms = [3, 63, 133, 210, 220, 230]

    def at(count: int) -> None:
        clock.now_ns = sampled_ms[count - 1] * 1_000_000

    bench.on_sample = at
    result = bench.run()
    assert [batch.ids for batch in bench.batches] == [(0,), (1, 2, 3), (4, END)]
    assert [stamp // 1_000_000 for batch in bench.batches for stamp in batch.t_ns] == sampled_ms
    assert [batch.first for batch in bench.batches] == [PrefillTiming(7, 3_000_000), None, None]
    # Sampling took 30, 30, 47, 10 and 10 ms after the first token; decoding took no time.
    assert (result.sample_ns, result.decode_ns) == (227_000_000, 0)


# -------------------------------------------------------------------------- cancel flag


def test_the_flag_is_what_llama_cpp_would_be_told() -> None:
    flag = CancelFlag()
    assert not flag.callback(flag.data)
    flag.set()
    assert flag.is_set
    assert flag.callback(flag.data)
    flag.set()
    flag.clear()
    assert not flag.callback(flag.data)
