"""A real base model with sliding-window layers and without a chat template."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.protocol import EngineReady, ModelRead
from backend.session import Script
from tests.engine.checks import check_against_log, check_counts
from tests.engine.driver import Driver, engine_settings

N_CTX = 1024


@pytest.fixture(scope="module")
def engine(logs: Path, gemma3: Path) -> Iterator[Driver]:
    driver = Driver(logs, gemma3, engine_settings(N_CTX, n_ubatch=128))
    yield driver
    driver.close()


def test_a_model_without_a_template_asks_for_one(engine: Driver, gemma3: Path) -> None:
    engine.session.start()
    read = engine.until(ModelRead)
    assert read.need_template
    refused = engine.refused()
    assert refused.need_template
    assert refused.message == (
        f"{gemma3.name} has no chat template, so it may not be a chat model; give one with "
        "--chat-template-file"
    )
    record = engine.ask("hello").record
    assert (record.stop.reason, record.stop.detail) == ("error", refused.message)


def test_with_chatml_both_caches_are_counted(engine: Driver) -> None:
    engine.session.use_template("chatml")
    ready = engine.loaded()
    check_against_log(engine)
    assert engine.log().count("llama_kv_cache: size =") == 2
    # A window of 512 and a micro-batch of 128 tokens, rounded up to a multiple of 256.
    assert [(cache.kind, cache.layers, cache.cells) for cache in ready.kv.caches] == [
        ("full", 3, N_CTX),
        ("swa", 15, 768),
    ]
    turn = engine.ask("The windmill stands", 6)
    check_counts(turn)
    assert turn.record.kv is not None
    assert [cache.cells_used for cache in turn.record.kv.caches] == [turn.cells] * 2


def test_with_all_cells_kept_both_caches_are_as_long(engine: Driver) -> None:
    choice = engine.session.chosen_model
    settings = engine_settings(N_CTX, n_ubatch=128, swa_full=True)
    engine.session.load(choice._replace(settings=settings))
    ready = engine.loaded()
    check_against_log(engine)
    assert [cache.cells for cache in ready.kv.caches] == [N_CTX, N_CTX]
    assert ready.context.swa_full


def test_a_prompt_begins_with_one_bos(engine: Driver) -> None:
    stopped = engine.ask("hello " * 20, 1, script=Script(cancel_at_prompt_token=1))
    # <bos> is token 2 of Gemma's vocabulary; ChatML's markers are plain text to it.
    assert stopped.prompt.ids[0] == 2
    assert stopped.prompt.ids.count(2) == 1
    assert engine.last(EngineReady).model.architecture == "gemma3"
