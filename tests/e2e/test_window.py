"""The installed command in a real terminal, with the real starter model."""

import re
import signal
from pathlib import Path

import psutil

from backend.history import History
from tests.e2e.terminal import PHASESCOPE, Terminal

COMMAND = (PHASESCOPE, "-t", "1", "-c", "2048", "--temp", "0", "-n", "24")

ALT_SCREEN_OFF = b"\x1b[?1049l"


def database(folder: Path) -> History:
    """The chats that were stored."""
    return History(folder / "chats.db")


def test_type_see_an_answer_and_its_figures_and_quit(tmp_path: Path) -> None:
    with Terminal(COMMAND, tmp_path) as terminal:
        terminal.until_text("loaded in")
        terminal.type("Why is the sky blue?\r")
        screen = terminal.until(lambda text: "ttft" in text and "reused 0/" in text)
        assert "SmolLM2-135M-Instruct · Q4_1" in screen
        assert re.search(r"decode 24 @ \d+\.\d/s", screen)
        assert "first turn: nothing to" in screen
        terminal.type("And the sea?\r")
        screen = terminal.until_text("appended: all that was")
        # The first turn held prompt + 23 cells: the last sampled token is never decoded.
        match = re.search(r"reused 0/(\d+)", screen)
        assert match is not None
        terminal.until_text(f"reused {int(match[1]) + 23}/")
        terminal.type("\x11")
        assert terminal.ended() == 0
        assert ALT_SCREEN_OFF in terminal.raw
        assert b"llama_" not in terminal.raw
    history = database(tmp_path)
    (chat,) = history.chats()
    assert chat.title == "Why is the sky blue?"
    assert chat.messages == 4
    first, second = history.records(chat.id)
    assert second.cache_n == (first.prompt_tokens or 0) + 23
    history.close()


def test_a_killed_window_keeps_the_chat_and_leaves_no_engine(tmp_path: Path) -> None:
    with Terminal((*COMMAND[:-1], "600"), tmp_path) as terminal:
        terminal.until_text("loaded in")
        terminal.type("Write a very long story about a castle.\r")
        terminal.until(lambda text: re.search(r"decode +█+ +[2-9]\d\d tok", text) is not None)
        assert terminal.process.pid is not None
        engines = psutil.Process(terminal.process.pid).children(recursive=True)
        assert engines
        terminal.kill()
        gone, alive = psutil.wait_procs(engines, timeout=20)
        assert gone
        assert not alive
    history = database(tmp_path)
    (row,) = history.chats()
    answer = history.load_chat(row.id).path()[-1]
    assert answer.role == "assistant"
    assert len(answer.token_ids) > 20
    history.close()


def test_a_killed_engine_costs_the_answer_and_the_chat_goes_on(tmp_path: Path) -> None:
    with Terminal((*COMMAND[:-1], "600"), tmp_path) as terminal:
        terminal.until_text("loaded in")
        terminal.type("Write a very long story about a castle.\r")
        terminal.until(lambda text: re.search(r"decode +█+ +\d+ tok", text) is not None)
        assert terminal.process.pid is not None
        (engine,) = psutil.Process(terminal.process.pid).children(recursive=True)
        engine.kill()
        terminal.until_text("the engine was killed")
        terminal.type("Still there?\r")
        terminal.until_text("PHASES · turn 2")
        screen = terminal.until(lambda text: re.search(r"decode +█+ +\d+ tok", text) is not None)
        assert "Still there?" in screen
        assert "the engine was started" in " ".join(screen.split())
        terminal.type("\x11")
        assert terminal.ended() == 0


def test_a_window_that_is_asked_to_end_leaves_the_terminal_and_the_chat_in_order(
    tmp_path: Path,
) -> None:
    with Terminal((*COMMAND[:-1], "600"), tmp_path) as terminal:
        terminal.until_text("loaded in")
        terminal.type("Write a very long story about a castle.\r")
        terminal.until(lambda text: re.search(r"decode +█+ +\d+ tok", text) is not None)
        terminal.process.kill(signal.SIGTERM)
        assert terminal.ended() == 128 + signal.SIGTERM
        assert ALT_SCREEN_OFF in terminal.raw
    history = database(tmp_path)
    (row,) = history.chats()
    (record,) = history.records(row.id)
    answer = history.load_chat(row.id).path()[-1]
    assert record.predicted_n == len(answer.token_ids) > 0
    history.close()


def test_small_terminals_and_resizing(tmp_path: Path) -> None:
    with Terminal(COMMAND, tmp_path, (60, 16)) as terminal:
        terminal.until_text("loaded in")
        terminal.type("Hi\r")
        terminal.until_text("reused 0/")
        terminal.type("\x1b2")
        terminal.until_text("─ TTFT")
        terminal.resize(1, 1)
        terminal.resize(120, 36)
        terminal.until_text("TTFT is the time from")
        terminal.type("\x1b2")
        terminal.until_text("CACHE HITS")
        terminal.type("\x11")
        assert terminal.ended() == 0


def test_a_file_that_is_no_model_opens_the_window_and_is_named(tmp_path: Path) -> None:
    page = tmp_path / "model.gguf"
    page.write_text("<!doctype html><html><body>404</body></html>", encoding="utf-8")
    with Terminal((PHASESCOPE, "-m", str(page)), tmp_path) as terminal:
        terminal.until_text("not loaded")
        terminal.until_text("is a web page, not a model")
        terminal.type("hello\r")
        terminal.until(lambda text: re.search(r"│ hello\s", text) is not None)
        terminal.type("\x11")
        assert terminal.ended() == 0


def test_a_recorded_session_is_played_back_without_the_model(tmp_path: Path) -> None:
    recording = tmp_path / "session.jsonl"
    with Terminal((PHASESCOPE, "record", str(recording), *COMMAND[1:]), tmp_path) as terminal:
        terminal.until_text("loaded in")
        terminal.type("Hi\r")
        recorded = terminal.until_text("reused 0/")
        terminal.type("\x11")
        assert terminal.ended() == 0
    ttft = re.search(r"ttft \S+ m?s ", recorded)
    assert ttft is not None
    with Terminal((PHASESCOPE, "replay", str(recording), "--speed", "0"), tmp_path) as terminal:
        played = terminal.until_text("reused 0/")
        assert "replay" in played
        assert terminal.process.pid is not None
        assert psutil.Process(terminal.process.pid).children() == []
        assert ttft[0] in played
        terminal.type("\x11")
        assert terminal.ended() == 0


def test_a_store_that_is_no_database_is_said_and_the_chat_works(tmp_path: Path) -> None:
    store = tmp_path / "chats.db"
    store.write_bytes(b"these are no chats\n" * 300)
    with Terminal(COMMAND, tmp_path) as terminal:
        terminal.until(lambda text: "chats.db" in text and "not a database" in flat(text))
        terminal.until_text("loaded in")
        assert "not stored" in terminal.text.split("\n")[0]
        terminal.type("Why is the sky blue?\r")
        screen = terminal.until(lambda text: "ttft" in text and "reused 0/" in text)
        assert "not stored" in screen.split("\n")[0]
        terminal.type("And the sea?\r")
        terminal.until_text("appended: all that was")
        terminal.type("\x11")
        assert terminal.ended() == 0
    # It may be somebody's: it is left as it was.
    assert store.read_bytes() == b"these are no chats\n" * 300


def flat(text: str) -> str:
    """A screen without its line ends and borders, as a sentence is read."""
    return " ".join(text.replace("│", " ").split())
