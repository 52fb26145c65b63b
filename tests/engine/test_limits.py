"""What ends an answer, and what does not fit."""

from math import inf, nan
from pathlib import Path

import pytest

from backend.settings import SamplingChoice
from tests.engine.conftest import MakeDriver
from tests.engine.driver import CONCATENATED, NOWHERE, Driver, engine_settings
from tests.tiny import END, tiny_llama, tiny_parrot

N_CTX = 512


@pytest.mark.parametrize("prompt_tokens", [100, 510, 511])
def test_a_full_context_says_so(drive: MakeDriver, folder: Path, prompt_tokens: int) -> None:
    driver = drive(tiny_llama(folder), engine_settings(N_CTX), chat_template=CONCATENATED)
    driver.start()
    turn = driver.ask("x" * prompt_tokens, None)
    record = turn.record
    assert record.prompt_tokens == prompt_tokens
    assert record.stop.reason == "context_full"
    assert record.stop.detail == "all 512 tokens of the context are in use"
    # The last token that is sampled needs no cell.
    assert record.predicted_n == N_CTX - prompt_tokens + 1 == turn.prompt.n_ctx_left
    assert turn.cells == N_CTX
    assert record.kv is not None
    assert record.kv.cells == N_CTX


def test_a_limit_that_fills_the_context_is_a_limit(drive: MakeDriver, folder: Path) -> None:
    driver = drive(tiny_llama(folder), engine_settings(N_CTX), chat_template=CONCATENATED)
    driver.start()
    turn = driver.ask("x" * 500, 13)
    assert (turn.record.stop.reason, turn.cells) == ("length", N_CTX)
    assert turn.record.stop.detail == "the limit of 13 tokens was reached"


def test_a_prompt_that_does_not_fit_is_refused_with_numbers(
    drive: MakeDriver, folder: Path
) -> None:
    driver = drive(tiny_llama(folder), engine_settings(N_CTX), chat_template=CONCATENATED)
    driver.start()
    first = driver.ask("x" * 100, 10)
    refused = driver.ask("y" * 402, 10)
    assert refused.record.stop.reason == "error"
    assert refused.ended.kind == "prompt_too_long"
    assert refused.record.stop.detail == (
        "the prompt has 512 tokens and the context holds 512; shorten the message, start a new "
        "chat, or load with a larger context (-c; in the window F7, n_ctx)"
    )
    assert refused.record.prompt_tokens is None
    assert refused.record.predicted_n == 0
    # Nothing was computed, so nothing took any time.
    assert (refused.ended.prompt_ns, refused.ended.decode_ns) == (None, None)
    assert (refused.ended.decode_sample_ns, refused.ended.perf) == (None, None)
    # The message was taken back and the cache is as it was.
    following = driver.ask("y" * 401, None).record
    assert (following.prompt_tokens, following.cache_n) == (511, first.cells)
    assert (following.stop.reason, following.predicted_n) == ("context_full", 2)
    driver.session.new_chat()
    assert driver.ask("x", 2).record.stop.reason == "length"


@pytest.mark.parametrize(
    ("sampling", "sentence"),
    [
        (SamplingChoice(temp=nan), "temp is nan, which is no number to sample with"),
        (SamplingChoice(top_p=inf), "top_p is inf, which is no number to sample with"),
        (SamplingChoice(min_p=-inf), "min_p is -inf, which is no number to sample with"),
        (SamplingChoice(repeat_penalty=nan), "repeat_penalty is nan, which is no number"),
    ],
)
def test_sampling_with_what_is_no_number_is_refused(
    tiny_engine: Driver, sampling: SamplingChoice, sentence: str
) -> None:
    tiny_engine.fresh_chat()
    tiny_engine.session.sampling = sampling
    tiny_engine.session.send("hello", NOWHERE)
    refused = tiny_engine.answer()
    assert refused.record.stop.reason == "error"
    assert (refused.record.stop.detail or "").startswith(sentence)
    assert tiny_engine.ask("hello", 2).record.predicted_n == 2


def test_after_a_full_context_a_new_chat_works(drive: MakeDriver, folder: Path) -> None:
    driver = drive(tiny_llama(folder), engine_settings(N_CTX), chat_template=CONCATENATED)
    driver.start()
    driver.ask("x" * 300, None)
    assert driver.ask("x", 4).ended.kind == "prompt_too_long"
    assert driver.regenerate().record.cache_n == 299
    driver.session.new_chat()
    assert driver.ask("x" * 100, 4).record.cache_n == 99


@pytest.mark.parametrize(
    ("stop", "text", "tokens"),
    [
        (("cd",), "ab", 4),
        (("cde", "e"), "ab", 5),
        (("b", "ef"), "a", 2),
        (("a",), "", 1),
    ],
)
def test_a_stop_string_ends_the_answer_and_is_left_out(
    drive: MakeDriver, folder: Path, stop: tuple[str, ...], text: str, tokens: int
) -> None:
    driver = drive(tiny_parrot(folder, b"abcdef", END))
    driver.start()
    turn = driver.ask("the alphabet", 20, stop=stop)
    record = turn.record
    assert (record.text, record.predicted_n) == (text, tokens)
    assert (record.stop.reason, record.stop.detail) == ("stop", stop[0])
    assert turn.cells == len(turn.prompt.ids) + tokens - 1


@pytest.mark.parametrize("stop", [("fg",), ("g", "efx", "h")])
def test_what_only_begins_like_a_stop_string_is_text(
    drive: MakeDriver, folder: Path, stop: tuple[str, ...]
) -> None:
    driver = drive(tiny_parrot(folder, b"abcdef", END))
    driver.start()
    record = driver.ask("the alphabet", 20, stop=stop).record
    assert (record.text, record.predicted_n, record.stop.reason) == ("abcdef", 7, "eog")


def test_the_number_of_tokens_is_kept_to(tiny_engine: Driver) -> None:
    tiny_engine.fresh_chat()
    for limit in (1, 2, 33):
        record = tiny_engine.ask("go on", limit).record
        assert (record.predicted_n, record.stop.reason) == (limit, "length")
        assert record.sampling.max_tokens == limit


def test_a_context_longer_than_trained_loads_with_a_warning(
    drive: MakeDriver, folder: Path
) -> None:
    driver = drive(tiny_llama(folder, n_ctx_train=512), engine_settings(1024))
    ready = driver.start()
    assert (ready.context.n_ctx, ready.context.n_ctx_train) == (1024, 512)
    assert ready.warnings == (
        "-c 1024 is longer than the 512 tokens that the model was trained for",
    )
