"""A child that dies is told in a sentence, and the session goes on with a new one."""

import os
import signal
import threading
from pathlib import Path

import psutil

from backend.local.process import LocalEngine
from backend.protocol import (
    EngineExited,
    EngineReady,
    EngineStarted,
    LoadFailed,
    LoadRequest,
    PrefillProgress,
    Request,
    TokenBatch,
    TurnAccepted,
)
from tests.engine.conftest import MakeDriver
from tests.engine.driver import PATIENCE_S, Driver, Turn, endless_on, engine_settings, wait_for
from tests.tiny import tiny_llama

KILLED = "the engine was killed (SIGKILL): by someone, or because memory ran out"

LONG = "The windmill was built in the year of the great flood by three brothers. " * 40


def kill(driver: Driver) -> int:
    """End the child without a word; its process id."""
    pid = driver.pid
    os.kill(pid, signal.SIGKILL)
    return pid


def check_goes_on(driver: Driver, dead: int) -> Turn:
    """The next message is answered by a new child."""
    turn = driver.ask("and now?", 2)
    assert turn.record.stop.reason in {"length", "eog"}
    assert driver.pid != dead
    assert not psutil.pid_exists(dead)
    return turn


def test_killed_while_it_loads_a_message_is_sent_again(drive: MakeDriver, starter: Path) -> None:
    driver = drive(starter, engine_settings(512))
    driver.session.start()
    driver.until(EngineStarted)
    driver.send("hello", 3)
    dead = kill(driver)
    turn = driver.answer()
    assert turn.record.predicted_n == 3
    assert driver.last(EngineExited).message == KILLED
    assert driver.pid != dead


def test_killed_while_it_loads_without_a_message(drive: MakeDriver, starter: Path) -> None:
    driver = drive(starter, engine_settings(512))
    driver.session.start()
    driver.until(EngineStarted)
    dead = kill(driver)
    exited = driver.until(EngineExited)
    assert (exited.expected, exited.message) == (False, KILLED)
    check_goes_on(driver, dead)


def test_killed_while_it_renders_is_not_the_template_s_fault(
    drive: MakeDriver, folder: Path
) -> None:
    driver = drive(tiny_llama(folder), chat_template=endless_on("hello"))
    driver.start()
    driver.send("hello", 3)
    driver.until(TurnAccepted)
    kill(driver)
    turn = driver.answer()
    assert (turn.ended.kind, turn.ended.detail) == ("engine", KILLED)


def test_killed_in_prefill(drive: MakeDriver, starter: Path) -> None:
    driver = drive(starter)
    driver.start()
    driver.send(LONG, 8)
    driver.until(PrefillProgress)
    dead = kill(driver)
    turn = driver.answer()
    record = turn.record
    assert (record.stop.reason, record.stop.detail) == ("error", KILLED)
    assert turn.ended.kind == "engine"
    assert record.predicted_n == 0
    assert record.prompt_tokens == len(turn.prompt.ids)
    assert (record.timings.ttft_ms, record.timings.prompt_ms, record.kv) == (None, None, None)
    exited = driver.last(EngineExited)
    assert exited.log_tail
    following = check_goes_on(driver, dead).record
    assert (following.cache.reason, following.cache_n) == ("engine_restarted", 0)
    # The message that was never answered is still part of the chat.
    assert following.prompt_tokens is not None
    assert following.prompt_tokens > len(turn.prompt.ids)


def test_killed_in_decode_keeps_what_was_said(drive: MakeDriver, folder: Path) -> None:
    driver = drive(tiny_llama(folder, n_ctx_train=32_768), engine_settings(32_768))
    driver.start()
    driver.send("talk on and on", None)
    driver.until(TokenBatch, lambda batch: batch.first is None)
    dead = kill(driver)
    turn = driver.answer()
    record = turn.record
    assert (record.stop.reason, record.stop.detail) == ("error", KILLED)
    assert record.predicted_n == len(turn.ids) > 1
    assert record.text
    assert record.timings.ttft_ms is not None
    assert record.timings.predicted_ms is not None
    assert (record.timings.decode_ms, record.kv) == (None, None)
    following = check_goes_on(driver, dead)
    # All that makes whole characters, of up to four bytes, is kept as it was generated.
    told = (turn.prompt.ids + turn.ids)[:-3]
    assert following.prompt.ids[: len(told)] == told


def test_killed_between_turns(drive: MakeDriver, folder: Path) -> None:
    driver = drive(tiny_llama(folder))
    driver.start()
    first = driver.ask("hello", 4)
    dead = kill(driver)
    following = check_goes_on(driver, dead)
    assert following.record.cache.reason == "engine_restarted"
    assert following.prompt.ids[: first.cells] == first.prompt.ids + first.ids[:-1]
    assert driver.last(EngineExited).message == KILLED


def test_a_crash_shows_what_the_child_printed_last(logs: Path, folder: Path) -> None:
    engine = LocalEngine(logs)
    engine.send(LoadRequest(str(tiny_llama(folder)), engine_settings()))
    # A child that still loads would log more after the line.
    wait_for(engine, EngineReady)
    # As a failed assertion inside llama.cpp does: a line on standard error, then SIGABRT.
    with engine.log_path.open("a", encoding="utf-8") as log:
        log.write("ggml.c:1: GGML_ASSERT(all_is_well) failed\n")
    os.kill(engine.pid, signal.SIGABRT)
    exited = wait_for(engine, EngineExited)
    engine.close()
    assert (exited.expected, exited.message) == (False, "the engine crashed (SIGABRT)")
    assert exited.log_tail[-1] == "ggml.c:1: GGML_ASSERT(all_is_well) failed"
    assert len(exited.log_tail) > 1


def stopped(logs: Path) -> LocalEngine:
    """An engine whose child stands still."""
    engine = LocalEngine(logs)
    wait_for(engine, EngineStarted)
    os.kill(engine.pid, signal.SIGSTOP)
    return engine


def more_than_a_pipe_holds(folder: Path) -> LoadRequest:
    """A request that a child must read before it is through."""
    return LoadRequest(str(folder / "no.gguf"), engine_settings(), chat_template="x" * 4_000_000)


def check_sent_at_once(engine: LocalEngine, request: Request) -> None:
    """Sending comes back although nobody reads."""
    sending = threading.Thread(target=engine.send, args=(request,), daemon=True)
    sending.start()
    sending.join(PATIENCE_S)
    assert not sending.is_alive()


def test_a_child_that_does_not_read_holds_nobody_up(logs: Path, folder: Path) -> None:
    engine = stopped(logs)
    check_sent_at_once(engine, more_than_a_pipe_holds(folder))
    os.kill(engine.pid, signal.SIGCONT)
    assert "no.gguf" in wait_for(engine, LoadFailed).message
    engine.close()


def test_a_child_that_does_not_read_is_ended_all_the_same(logs: Path, folder: Path) -> None:
    engine = stopped(logs)
    check_sent_at_once(engine, more_than_a_pipe_holds(folder))
    engine.close()
    assert not psutil.pid_exists(engine.pid)
    assert wait_for(engine, EngineExited).expected
