"""Figures against llama.cpp's own counters and log."""

from collections.abc import Callable
from pathlib import Path

import pytest

from backend.metrics.record import TurnRecord
from backend.protocol import EngineReady
from backend.settings import EngineSettings
from tests.engine.checks import check_against_log, check_counts
from tests.engine.conftest import MakeDriver
from tests.engine.driver import Driver, engine_settings
from tests.tiny import END, tiny_hybrid, tiny_llama, tiny_mamba, tiny_parrot, tiny_swa

LONG = "Tell me about the history of the windmill, and of the people who built them. " * 12


def check_rates(record: TurnRecord) -> None:
    """Every rate times its time is its count."""
    times = record.timings
    assert times.prompt_per_second is not None
    assert times.prompt_ms is not None
    assert times.predicted_per_second is not None
    assert times.predicted_ms is not None
    assert times.prompt_per_second * times.prompt_ms / 1000 == pytest.approx(record.prompt_n)
    assert times.predicted_per_second * times.predicted_ms / 1000 == pytest.approx(
        record.predicted_n - 1
    )


def test_times_agree_with_llama_cpps_counters(starter_engine: Driver) -> None:
    starter_engine.fresh_chat()
    for question in (LONG, "Go on, please, and tell me of the ones in Holland " * 4):
        turn = starter_engine.ask(question, 48)
        times, perf = turn.record.timings, turn.ended.perf
        assert perf is not None
        assert times.prompt_ms == pytest.approx(perf.t_p_eval_ms, rel=0.02)
        assert times.decode_ms == pytest.approx(perf.t_eval_ms, rel=0.02)
        check_counts(turn)
        check_rates(turn.record)


def test_the_parts_of_a_time_add_up_to_no_more_than_it(starter_engine: Driver) -> None:
    starter_engine.fresh_chat()
    for record in (starter_engine.ask(LONG, 24).record, starter_engine.regenerate().record):
        times = record.timings
        before = [times.render_ms, times.tokenize_ms, times.cache_ms, times.prompt_ms]
        before.append(times.first_sample_ms)
        assert all(part is not None and part > 0 for part in before)
        assert times.ttft_ms is not None
        assert times.ttft_ms >= sum(part for part in before if part is not None)
        assert times.predicted_ms is not None
        assert times.decode_ms is not None
        assert times.decode_sample_ms is not None
        assert times.decode_other_ms is not None
        assert min(times.decode_ms, times.decode_sample_ms, times.decode_other_ms) > 0
        assert times.predicted_ms == pytest.approx(
            times.decode_ms + times.decode_sample_ms + times.decode_other_ms
        )
        assert times.e2e_ms == pytest.approx(times.ttft_ms + times.predicted_ms)
        assert times.token_ms[0] == times.ttft_ms
        assert times.token_ms[-1] == times.e2e_ms
        assert times.ttfa_ms in times.token_ms


def test_a_load_is_no_part_of_a_turn(drive: MakeDriver, starter: Path) -> None:
    driver = drive(starter, engine_settings(512))
    driver.session.start()
    driver.send("hello")
    first = driver.answer()
    driver.session.load(driver.session.chosen_model._replace(settings=engine_settings(1024)))
    driver.send("hello again")
    second = driver.answer()
    load_ms = driver.last(EngineReady).load_ms
    for turn in (first, second):
        times = turn.record.timings
        assert turn.record.stop.reason in {"length", "eog"}
        assert turn.record.first_after_load
        parts = [times.render_ms, times.tokenize_ms, times.cache_ms, times.prompt_ms]
        parts.append(times.first_sample_ms)
        assert times.ttft_ms is not None
        assert 0 <= times.ttft_ms - sum(part for part in parts if part is not None) < load_ms / 2
    assert second.record.context is not None
    assert second.record.context.n_ctx == 1024
    assert not driver.ask("and again", 2).record.first_after_load


def test_one_token_has_no_decode_rate(starter_engine: Driver) -> None:
    starter_engine.fresh_chat()
    record = starter_engine.ask("Why is the sky blue?", 1).record
    times = record.timings
    assert record.predicted_n == 1
    assert record.stop.reason == "length"
    assert times.ttft_ms is not None
    assert times.ttft_ms == times.e2e_ms
    assert times.prompt_per_second is not None
    assert (times.predicted_ms, times.predicted_per_second, times.decode_ms) == (None, None, None)
    assert (times.itl_ms.mean, times.itl_ms.max) == (None, None)


def test_an_answer_that_ends_at_once(drive: MakeDriver, folder: Path) -> None:
    driver = drive(tiny_parrot(folder, END))
    driver.start()
    record = driver.ask("say nothing", None).record
    assert (record.stop.reason, record.predicted_n, record.text) == ("eog", 1, "")
    assert record.timings.ttft_ms is not None
    assert record.timings.ttfa_ms is None
    assert record.timings.predicted_per_second is None


def test_thinking_is_counted_by_the_token(drive: MakeDriver, folder: Path) -> None:
    driver = drive(tiny_parrot(folder, "<think>", b"hm, so", "</think>", b"\tyet!", END))
    driver.start()
    record = driver.ask("think", None).record
    assert (record.thinking, record.text) == ("hm, so", "yet!")
    # Thinking: both markers and six letters. Answer: five letters and the end token.
    assert (record.thinking_n, record.predicted_n) == (8, 14)
    # The tab before the answer is no answer yet.
    assert record.timings.ttfa_ms == record.timings.token_ms[9]
    assert record.timings.ttft_ms == record.timings.token_ms[0]


CACHES = {
    "f16": engine_settings(1024),
    "q8_0": engine_settings(1024, type_k="q8_0", type_v="q8_0"),
    "q4_0 and f16": engine_settings(700, type_k="q4_0"),
    "without flash attention": EngineSettings(
        n_ctx=1024, n_threads=1, n_threads_batch=1, flash_attn="off"
    ),
}


@pytest.mark.parametrize("settings", CACHES.values(), ids=CACHES)
def test_the_starters_cache_is_the_logged_one(
    drive: MakeDriver, starter: Path, settings: EngineSettings
) -> None:
    driver = drive(starter, settings)
    ready = driver.start()
    check_against_log(driver)
    turn = driver.ask("Why is the sky blue?", 3)
    kv = turn.record.kv
    assert kv is not None
    (cache,) = kv.caches
    assert kv.cells_used == cache.cells_used == turn.cells
    assert kv.bytes_per_token == (cache.k_bytes + cache.v_bytes) // cache.cells
    assert kv.bytes_used == turn.cells * kv.bytes_per_token
    assert kv.bytes_allocated == ready.kv.bytes_allocated


LAYERS: dict[Callable[[Path], Path], dict[str, int]] = {
    tiny_llama: {"full": 3},
    tiny_swa: {"full": 2, "swa": 2},
    tiny_mamba: {"recurrent": 3},
    tiny_hybrid: {"full": 2, "recurrent": 2},
}


@pytest.mark.parametrize("build", LAYERS)
def test_caches_of_every_kind_are_the_logged_ones(
    drive: MakeDriver, folder: Path, build: Callable[[Path], Path]
) -> None:
    driver = drive(build(folder), engine_settings(2048))
    driver.start()
    check_against_log(driver)
    layers = {cache.kind: cache.layers for cache in driver.last(EngineReady).kv.caches}
    assert layers == LAYERS[build]
    check_counts(driver.ask("hello", 8))
