"""What the window costs: `python -m tests.bench.window [ROUNDS]`, on an otherwise idle machine."""

import fcntl
import os
import pty
import select
import sqlite3
import struct
import sys
import tempfile
import termios
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter_ns, sleep
from types import TracebackType
from typing import Self

import msgspec
import psutil

from backend.chat.tree import Chat
from backend.history import History
from backend.local.process import LocalEngine
from backend.metrics.record import TurnRecord
from backend.metrics.statistics import percentile
from backend.protocol import (
    ChatMessage,
    ChatOpened,
    Event,
    TokenBatch,
    TurnEnded,
    TurnRequest,
    TurnRequested,
)
from backend.recording import FORMAT, Header, Line
from backend.session import ModelChoice, Session
from backend.settings import EngineSettings, SamplingChoice, SamplingSettings
from tests.bench.engine import answer
from tests.bench.measure import PHASESCOPE, Result, interleaved, ratio, report, starter
from tests.fake_engine import MS, S, ready, started, turn_events
from tests.unit.stored import answer as answer_node
from tests.unit.stored import save, some_record

SIZE = (36, 120)
QUESTION = "Write a very long story about a castle and all who lived in it."
MIB = 1 << 20
WATCH_S = 4.0
PATIENCE_S = 90.0
LETTERS = "".join(map(chr, range(0x410, 0x450)))
"""Typed to see their echo: Cyrillic, of which a model that answers in English prints nothing."""


class Window:
    """phasescope in a pseudo-terminal whose output is only read, not shown."""

    def __init__(self, arguments: Sequence[str], data_dir: str) -> None:
        self.output = bytearray()
        leader, follower = pty.openpty()
        attributes = termios.tcgetattr(follower)
        # What the terminal itself would echo is not the window's echo.
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(follower, termios.TCSANOW, attributes)
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        self._fd = leader
        self.began = monotonic()
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "PHASESCOPE_DATA_DIR": data_dir,
        }
        self.process = psutil.Popen(
            [PHASESCOPE, *arguments],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env=environment,
            start_new_session=True,
        )
        os.close(follower)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.type("\x11")
        end = monotonic() + 10
        while self.process.poll() is None and monotonic() < end:
            self.read(0.1)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._fd)

    def type(self, text: str) -> None:
        """Type."""
        os.write(self._fd, text.encode())

    def read(self, seconds: float) -> None:
        """Take output for a while."""
        end = monotonic() + seconds
        while select.select([self._fd], [], [], max(0.0, end - monotonic()))[0]:
            try:
                self.output += os.read(self._fd, 65536)
            except OSError:
                return

    def until(self, wanted: bytes) -> None:
        """Take output until a text is in it.

        Looks ten times a second, and only at what is new: a reader that is busy itself takes
        the cores that it measures.
        """
        end = monotonic() + PATIENCE_S
        seen = 0
        while self.output.find(wanted, seen) < 0:
            if monotonic() > end:
                raise SystemExit(f"the window never showed {wanted!r}")
            seen = max(0, len(self.output) - len(wanted))
            sleep(0.1)
            self.read(0)

    def cpu_share(self, seconds: float) -> float:
        """CPU time of the window's own process in a span, share of one core, in percent."""
        before, start = self.process.cpu_times(), monotonic()
        self.read(seconds)
        after, end = self.process.cpu_times(), monotonic()
        used = after.user + after.system - before.user - before.system
        return 100 * float(used) / (end - start)


def last_record(data_dir: str) -> TurnRecord:
    """The newest record in the store."""
    with sqlite3.connect(Path(data_dir) / "chats.db") as store:
        (text,) = store.execute("SELECT record FROM turns ORDER BY rowid DESC").fetchone()
    return msgspec.json.decode(text, type=TurnRecord)


def beside_no_window(rounds: int) -> Result:
    """Decode rate of one answer in the window and without, in turns within seconds."""
    options = ("--temp", "0", "-c", "1024", "-n", "300")
    with tempfile.TemporaryDirectory() as folder, Window(options, folder) as window:
        session = Session(
            lambda: LocalEngine(Path(folder)),
            ModelChoice(str(starter()), EngineSettings(n_ctx=1024)),
            sampling=SamplingChoice(temp=0, max_tokens=300),
        )
        session.start()
        window.until(b"loaded in")

        def in_window() -> float:
            window.output.clear()
            window.type("\x0e")
            window.until(b"Every answer")
            window.output.clear()
            window.type(QUESTION + "\r")
            window.until(b"length:")
            return last_record(folder).timings.predicted_per_second or 0.0

        def without() -> float:
            session.new_chat()
            return answer(session, QUESTION).timings.predicted_per_second or 0.0

        in_window()
        without()
        rates = interleaved(in_window, without, rounds)
        session.close()
    return ratio("decode: in the window ÷ ask, all cores", *rates, 0.95)


def while_it_streams() -> list[Result]:
    """CPU share, key echo and memory while an answer streams from one thread."""
    with tempfile.TemporaryDirectory() as folder:
        options = ("--temp", "0.8", "-s", "3", "-t", "1", "-c", "4096", "-n", "1500")
        with Window(options, folder) as window:
            window.until(b"loaded in")
            window.read(0.5)
            window.type(QUESTION + "\r")
            window.until(b"now ")
            shares = [window.cpu_share(WATCH_S) for _ in range(2)]
            memory = window.process.memory_info().rss / MIB
            window.type("\x1b")
            window.until(b"cancelled")
            tokens = last_record(folder).predicted_n
    return [
        Result(
            "CPU of the window while an answer streams",
            max(shares),
            6.0,
            at_least=False,
            unit="%",
            detail=f"{' '.join(f'{share:.1f}' for share in shares)} over {tokens} tokens",
        ),
        Result("memory of the window", memory, 120, at_least=False, unit="MB"),
    ]


def key_echo() -> Result:
    """From a key to its echo while prefill and decode take all cores."""
    echoes: list[float] = []
    options = ("--temp", "0.8", "-s", "3", "-c", "4096", "-n", "900")
    with tempfile.TemporaryDirectory() as folder, Window(options, folder) as window:
        window.until(b"loaded in")
        window.read(0.5)
        window.type((QUESTION + " ") * 40 + "\r")
        window.until(b"turn 1")
        for letter in LETTERS:
            window.read(0.07)
            window.output.clear()
            pressed = perf_counter_ns()
            window.type(letter)
            while letter.encode() not in window.output:
                window.read(0.001)
            echoes.append((perf_counter_ns() - pressed) / MS)
        window.type("\x1b")
        window.read(0.5)
    echoes.sort()
    return Result(
        "key to echo while both phases run, p99",
        percentile(echoes, 0.99),
        50.0,
        at_least=False,
        unit="ms",
        detail=f"median {median(echoes):.1f} of {len(echoes)}, longest {echoes[-1]:.1f}",
    )


def opening() -> Result:
    """From the command to a window that takes keys."""
    times: list[float] = []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as folder, Window((), folder) as window:
            while "ж".encode() not in window.output:
                window.type("ж")
                window.read(0.01)
            times.append(monotonic() - window.began)
            window.type("\x15")
            window.read(0.5)
    return Result(
        "command to a window that takes keys",
        median(times),
        0.6,
        at_least=False,
        unit="s",
        detail=" ".join(f"{value:.2f}" for value in times),
    )


def long_chat(messages: int, seconds: int = 12) -> tuple[float, float]:
    """CPU share of the window while 100 tokens a second come after so many messages.

    Returns:
        The share in the first and in the last seconds of the answer.
    """
    turns = tuple(
        ChatMessage("user" if index % 2 == 0 else "assistant", f"Message **{index}**. " * 12)
        for index in range(messages)
    )
    request = TurnRequest(1, "t", "c", turns, SamplingSettings(), "2026-01-01T00:00:00+00:00")
    events: list[tuple[int, Event]] = [
        (0, started()),
        (0, ready()),
        (0, ChatOpened("c", "t", turns)),
        (2 * S, TurnRequested(request, "And now?")),
    ]
    stamps = [3 + index / 100 for index in range(100 * seconds)]
    pieces = [("word " if index % 9 else "end.\n\n") for index in range(len(stamps))]
    answer = turn_events(1, token_s=stamps, pieces=pieces)
    events += [(2 * S, event) for event in answer if not isinstance(event, TokenBatch | TurnEnded)]
    batches = [event for event in answer if isinstance(event, TokenBatch)]
    for start in range(0, len(batches), 10):
        group = batches[start : start + 10]
        batch = TokenBatch(
            1,
            tuple(event.ids[0] for event in group),
            tuple(event.t_ns[0] for event in group),
            tuple(event.pieces[0] for event in group),
            group[0].first,
        )
        events.append((batch.t_ns[-1], batch))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chat.jsonl"
        lines: list[Header | Line] = [Header(FORMAT, "2026-01-01T00:00:00+00:00", 0)]
        lines += [Line(at_ns, event) for at_ns, event in events]
        path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        with Window(("replay", str(path)), folder) as window:
            window.until(b"now ")
            window.read(1.0)
            first = window.cpu_share(WATCH_S)
            window.read(seconds - 3.0 - 2 * WATCH_S)
            return first, window.cpu_share(WATCH_S)


def reopening() -> Result:
    """From the key to the end of a stored chat of 1,000 messages on the screen."""
    times: list[float] = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            store_long_chat(Path(folder) / "chats.db", 500)
            with Window(("-t", "1"), folder) as window:
                window.until(b"loaded in")
                window.read(1.0)
                window.output.clear()
                pressed = monotonic()
                window.type("\x1bl")
                while b"the last word" not in window.output and monotonic() - pressed < PATIENCE_S:
                    window.read(0.005)
                times.append(monotonic() - pressed)
    return Result(
        "a stored chat of 1,000 messages opens",
        median(times),
        1.0,
        at_least=False,
        unit="s",
        detail=" ".join(f"{value:.2f}" for value in times),
    )


def store_long_chat(path: Path, turns: int) -> None:
    """Store a chat of so many questions and answers of about 200 tokens each."""
    history, chat = History(path), Chat()
    text = "This **paragraph** has a few words, and `code`. " * 16
    ids = tuple(range(200))
    for number in range(turns):
        question = chat.add_user(f"Question {number}?")
        last = " the last word" if number == turns - 1 else ""
        node = answer_node(chat, f"answer-{number}", text + last, ids)
        save(history, chat, question, node)
        record = some_record(number + 1, f"turn-answer-{number}")
        stamps = tuple(float(500 + 7 * token) for token in ids)
        timings = msgspec.structs.replace(record.timings, token_ms=stamps)
        record = msgspec.structs.replace(record, timings=timings, text=text)
        history.save_record(chat.id, record, tuple(range(400)))
    history.close()


def main(arguments: Sequence[str]) -> None:
    """Measure everything and report."""
    rounds = int(arguments[0]) if arguments else 6
    short, long = interleaved(lambda: long_chat(10)[1], lambda: long_chat(1000)[1], 2)
    early, late = zip(*(long_chat(10, 50) for _ in range(2)), strict=True)
    report(
        [
            beside_no_window(rounds),
            *while_it_streams(),
            key_echo(),
            opening(),
            reopening(),
            Result(
                "CPU per token: after 4,500 tokens of an answer ÷ at its beginning",
                median(late) / median(early),
                1.2,
                at_least=False,
                detail=f"{median(late):.1f} % / {median(early):.1f} %",
            ),
            Result(
                "CPU per token: chat of 1,000 ÷ of 10 messages",
                median(long) / median(short),
                1.2,
                at_least=False,
                detail=f"{median(long):.1f} % / {median(short):.1f} %",
            ),
        ]
    )


if __name__ == "__main__":
    main(sys.argv[1:])
