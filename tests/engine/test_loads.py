"""One model after another in the same child."""

from pathlib import Path

from backend.protocol import EngineReady, EngineStarted, LoadProgress, LogLines
from tests.engine.conftest import MakeDriver
from tests.engine.driver import chatml, engine_settings
from tests.engine.reference import Reference
from tests.tiny import tiny_llama


def test_eight_loads_and_closes_leave_memory_flat(drive: MakeDriver, starter: Path) -> None:
    driver = drive(starter, engine_settings(2048))
    driver.start()
    resident: list[int] = []
    for _ in range(8):
        driver.session.restart_engine()
        driver.loaded()
        used = driver.ask("hello", 2).ended.engine_rss_bytes
        assert used is not None
        resident.append(used)
    # A single cache or model that was not freed would be more.
    ready = driver.last(EngineReady)
    assert ready.kv.bytes_allocated is not None
    assert resident[-1] - resident[1] < min(ready.kv.bytes_allocated, ready.model.file_bytes) // 2
    assert sum(isinstance(event, EngineStarted) for event in driver.events) == 1


def test_the_log_comes_while_the_weights_load(drive: MakeDriver, starter: Path) -> None:
    driver = drive(starter, engine_settings(512))
    driver.start()
    kinds = [type(event) for event in driver.events]
    assert kinds.index(LogLines) < kinds.index(LoadProgress) < kinds.index(EngineReady)


def test_a_chat_goes_on_with_a_model_of_another_vocabulary(
    drive: MakeDriver, starter: Path, folder: Path, reference: Reference
) -> None:
    driver = drive(starter, engine_settings(512))
    driver.start()
    first = driver.ask("Hello!", 8)
    tiny = tiny_llama(folder)
    assert max(first.ids) > 300
    driver.session.load(driver.session.chosen_model._replace(path=str(tiny)))
    driver.loaded()
    second = driver.ask("And you?", 2)
    # The answer's own tokens mean nothing here, so its text is tokenized.
    told = (("user", "Hello!"), ("assistant", first.record.text), ("user", "And you?"))
    assert list(second.prompt.ids) == reference.tokens_of(tiny, chatml(*told))
