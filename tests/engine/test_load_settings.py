"""Contexts that cannot be, or not as asked for: refused or changed, and said so."""

from pathlib import Path

import pytest

from backend.protocol import LoadProgress, ModelRead
from backend.settings import EngineSettings
from tests.engine.conftest import MakeDriver
from tests.engine.driver import engine_settings
from tests.tiny import tiny_llama


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (EngineSettings(n_batch=0), "-b 0 makes no sense; give a number from 1 on"),
        (EngineSettings(n_ubatch=-1), "-ub -1 makes no sense; give a number from 1 on"),
        (EngineSettings(n_ctx=-1), "-c -1 makes no sense; give a number from 1 on"),
        (EngineSettings(n_ctx=1 << 31), f"-c {1 << 31} makes no sense; give a number from 1 on"),
        (EngineSettings(n_threads=0), "-t 0 makes no sense; give a number from 1 on"),
        (EngineSettings(type_k="q9"), "-ctk q9 is no cache type; there are f32, f16, "),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    drive: MakeDriver, folder: Path, settings: EngineSettings, sentence: str
) -> None:
    driver = drive(tiny_llama(folder), settings)
    driver.session.start()
    assert driver.refused().message.startswith(sentence)


@pytest.mark.parametrize(
    "settings", [EngineSettings(n_batch=1, n_threads=1), EngineSettings(n_ctx=1, n_threads=1)]
)
def test_the_smallest_settings_work(
    drive: MakeDriver, folder: Path, settings: EngineSettings
) -> None:
    driver = drive(tiny_llama(folder), settings)
    ready = driver.start()
    assert ready.context.n_batch == 1
    assert driver.ask("hello", 3).record.predicted_n == 3


def test_a_quantized_v_cache_turns_flash_attention_on_and_says_so(
    drive: MakeDriver, folder: Path
) -> None:
    driver = drive(tiny_llama(folder), EngineSettings(type_v="q8_0", flash_attn="off"))
    ready = driver.start()
    assert ready.context.flash_attn
    assert ready.warnings == ("a V cache in q8_0 needs flash attention, so it is turned on",)
    assert driver.ask("hello", 2).record.predicted_n == 2


def test_a_trained_context_of_zero_is_an_unknown_one(drive: MakeDriver, folder: Path) -> None:
    driver = drive(tiny_llama(folder, n_ctx_train=0), EngineSettings(n_threads=1))
    ready = driver.start()
    assert (ready.context.n_ctx, ready.warnings) == (8192, ())


def test_what_does_not_fit_into_memory_is_refused_before_it_loads(
    drive: MakeDriver, starter: Path
) -> None:
    driver = drive(starter, engine_settings(1024), available_bytes=100_000_000)
    driver.session.start()
    message = driver.refused().message
    assert message.startswith(f"{starter.name} needs about 0.1 GiB with a context of 1024 tokens")
    assert "0.1 GiB of memory are free" in message
    assert not any(isinstance(event, LoadProgress) for event in driver.events)


def test_where_memory_is_short_the_context_is_shorter_and_that_is_said(
    drive: MakeDriver, starter: Path
) -> None:
    settings = EngineSettings(n_threads=1, n_threads_batch=1)
    driver = drive(starter, settings, available_bytes=200_000_000)
    ready = driver.start()
    assert 512 <= ready.context.n_ctx < 8192
    assert driver.last(ModelRead).need_bytes <= 200_000_000
    (warning,) = ready.warnings
    assert warning == (
        f"memory is short: the context is {ready.context.n_ctx} tokens instead of 8192 "
        "(0.2 GiB are free)"
    )
