"""The start of the child process, and what stands in its way."""

from pathlib import Path

import pytest

from backend.benchmark import BenchmarkError, run_benchmark
from backend.engine import EngineError
from backend.local.process import LOGS_KEPT, LocalEngine, _new_log
from backend.protocol import BenchRequest, LoadRequest
from backend.session import Session
from backend.settings import EngineSettings
from tests.fake_engine import ScriptedEngine
from tests.unit.sessions import CHOICE, settle, silent


@pytest.fixture
def occupied(tmp_path: Path) -> Path:
    """A folder that cannot be made, because a file is in its place."""
    place = tmp_path / "occupied"
    place.touch()
    return place / "log"


def test_a_log_that_cannot_be_written_is_a_cause_with_a_remedy(occupied: Path) -> None:
    with pytest.raises(EngineError) as caught:
        LocalEngine(occupied)
    assert str(caught.value) == (
        f"the engine's log cannot be written in {occupied}: Not a directory; make that folder "
        "writable, or name another one in PHASESCOPE_DATA_DIR"
    )


def test_a_session_whose_log_cannot_be_written_has_a_failed_load(occupied: Path) -> None:
    session = Session(lambda: LocalEngine(occupied), CHOICE)
    session.start()
    settle(session)
    state = session.snapshot()
    assert state.engine == "failed"
    assert str(occupied) in (state.message or "")
    session.close()


def test_a_fault_that_names_a_file_in_no_encoding_is_mended() -> None:
    def broken() -> LocalEngine:
        raise EngineError("/nowhere/\udcff")

    session = Session(broken, CHOICE)
    session.start()
    settle(session)
    assert session.snapshot().message == "/nowhere/\ufffd"
    session.close()


def test_old_logs_are_removed_and_what_cannot_be_is_left(tmp_path: Path) -> None:
    for number in range(LOGS_KEPT + 2):
        (tmp_path / f"engine-{number}.log").touch()
    # Nobody can remove a folder like a file, nor tell the age of a link that leads nowhere.
    (tmp_path / "engine-folder.log").mkdir()
    (tmp_path / "engine-link.log").symlink_to(tmp_path / "nowhere")
    new = _new_log(tmp_path)
    assert new.exists()
    left = [path for path in tmp_path.glob("engine-*.log") if path.is_file()]
    assert LOGS_KEPT - 1 <= len(left) <= LOGS_KEPT + 1
    assert not (tmp_path / "engine-link.log").is_symlink()


def test_a_benchmark_that_cannot_be_asked_for_is_named() -> None:
    engine = ScriptedEngine(silent)
    engine.running = False
    load = LoadRequest("model.gguf", EngineSettings())
    bench = BenchRequest(n_prompt=1, n_gen=0, n_depth=0, repetitions=1)
    with pytest.raises(BenchmarkError, match="the engine is not running"):
        run_benchmark(engine, load, bench, lambda _sample: None)
