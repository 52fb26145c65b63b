"""The client's end of the child process that runs llama.cpp."""

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic, perf_counter_ns
from typing import BinaryIO

from backend.engine import EngineError, RequestError
from backend.paths import DATA_VARIABLE
from backend.protocol import (
    EngineExited,
    ErrorKind,
    Event,
    LogLines,
    PromptRendered,
    Request,
    ShutdownRequest,
    TemplateRuns,
    TurnAccepted,
    TurnEnded,
)
from backend.wire import MessageWriter, WireError, event_reader

RENDER_LIMIT_S = 2.0
"""Seconds that a chat template may compute before its process is ended."""

LOG_TAIL = 12
"""Lines of llama.cpp's log that are shown when the child dies."""

LOGS_KEPT = 10

CHILD_ENVIRONMENT = {"GGML_NO_BACKTRACE": "1"}
"""An abort inside llama.cpp ends the log with its cause, not with a debugger's hundred lines."""

CLOSE_S = 2.0
"""Seconds that a child has to end by itself."""

UNREAD_S = 0.5
"""Seconds that a child which is to end has to read what was sent to it."""


class LocalEngine:
    """An engine that is a child process; implements `backend.engine.Engine`.

    A thread reads the pipe into a queue, and the client drains it when it likes. Another one
    writes, so that a child that does not read never holds the client up. When the child ends,
    however it ends, the last event is `EngineExited`.

    Args:
        log_folder: Where the child's log goes; made if it is not there.

    Raises:
        EngineError: The child could not be started.
    """

    def __init__(self, log_folder: Path) -> None:
        try:
            self._log_path = _new_log(log_folder)
        except OSError as error:
            raise EngineError(
                f"the engine's log cannot be written in {log_folder}: {error.strerror}; make that "
                f"folder writable, or name another one in {DATA_VARIABLE}"
            ) from error
        command = [sys.executable, "-P", "-m", "backend.local.worker", str(self._log_path)]
        try:
            with self._log_path.open("ab") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env={**os.environ, **CHILD_ENVIRONMENT},
                    # A Ctrl-C in the terminal is the client's to handle, not the child's.
                    start_new_session=sys.platform != "win32",
                    creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
                )
        except OSError as error:
            raise EngineError(f"the engine could not be started: {error}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdout: BinaryIO = self._process.stdout  # type: ignore[assignment]
        self._stdin = self._process.stdin
        self._writer = MessageWriter(self._stdin)  # type: ignore[arg-type]
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._unsent: SimpleQueue[bytes | None] = SimpleQueue()
        self._log_tail: deque[str] = deque(maxlen=LOG_TAIL)
        self._closing = False
        self._cause: str | None = None
        self._kind: ErrorKind = "engine"
        self._render_deadline: float | None = None
        self._exited = False
        self._reader = threading.Thread(target=self._read, name="engine events", daemon=True)
        self._reader.start()
        self._sender = threading.Thread(target=self._send, name="engine requests", daemon=True)
        self._sender.start()

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    @property
    def log_path(self) -> Path:
        """The file with all that the child logged or printed."""
        return self._log_path

    @property
    def alive(self) -> bool:
        """Whether the child runs."""
        return not self._exited and self._process.poll() is None

    def send(self, request: Request) -> None:
        """Hand a request to the child; never waits for it to be read.

        Raises:
            EngineError: The child is gone.
            RequestError: The request cannot be sent as it is.
        """
        if not self.alive:
            raise EngineError("the engine is not running")
        try:
            self._unsent.put(self._writer.encode(request))
        except WireError as error:
            raise RequestError(str(error)) from error

    def now_ns(self) -> int:
        """The clock of the events: one and the same for all processes of a machine."""
        return perf_counter_ns()

    def drain(self) -> list[Event]:
        """All events that have come since the last call, without waiting."""
        self._check_render_limit()
        events: list[Event] = []
        while True:
            try:
                events.append(self._events.get_nowait())
            except Empty:
                return events

    def wait(self, timeout: float | None = None) -> Event | None:
        """The next event; None if none came within `timeout` seconds."""
        end = None if timeout is None else monotonic() + timeout
        while True:
            self._check_render_limit()
            left = 0.25 if end is None else min(0.25, end - monotonic())
            try:
                return self._events.get(timeout=max(0.0, left))
            except Empty:
                if end is not None and monotonic() >= end:
                    return None

    def close(self) -> None:
        """End the child: politely, then firmly."""
        if self.alive:
            self._closing = True
            self._unsent.put(self._writer.encode(ShutdownRequest()))
        self._unsent.put(None)
        self._sender.join(UNREAD_S)
        if self._sender.is_alive():
            self._process.kill()
        try:
            self._process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(CLOSE_S)
        self._sender.join(CLOSE_S)

    def _send(self) -> None:
        """Write what is queued; a child that takes no more has ended, and `_read` says so."""
        with suppress(OSError):
            while (data := self._unsent.get()) is not None:
                self._writer.write_encoded(data)
        # A request that a dead child did not take is still in the buffer.
        with suppress(OSError):
            self._stdin.close()

    def _read(self) -> None:
        reader = event_reader(self._stdout)
        while True:
            try:
                event = reader.read()
            except WireError as error:
                self._cause = f"the engine sent nonsense and was ended: {error}"
                self._process.kill()
                break
            if event is None:
                break
            self._watch(event)
            if not isinstance(event, TemplateRuns):
                self._events.put(event)
        self._render_deadline = None
        self._stdout.close()
        code = self._process.wait()
        self._exited = True
        self._events.put(
            EngineExited(
                expected=self._closing,
                message=self._cause or describe_exit(code),
                log_tail=_last_lines(self._log_path) or tuple(self._log_tail),
                kind=self._kind,
            )
        )

    def _watch(self, event: Event) -> None:
        if isinstance(event, LogLines):
            self._log_tail.extend(event.lines)
        elif isinstance(event, TurnAccepted) or event == TemplateRuns(running=True):
            self._render_deadline = monotonic() + RENDER_LIMIT_S
        elif isinstance(event, PromptRendered | TurnEnded | TemplateRuns):
            self._render_deadline = None

    def _check_render_limit(self) -> None:
        """End a child whose chat template does not come to an end."""
        deadline = self._render_deadline
        if deadline is not None and monotonic() > deadline:
            self._render_deadline = None
            self._kind = "template"
            self._cause = (
                f"the chat template did not end within {RENDER_LIMIT_S:.0f} s, so its process "
                "was ended; give another one with --chat-template-file"
            )
            self._process.kill()


def describe_exit(code: int) -> str:
    """What an exit code of the child means, in a sentence."""
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        if name == "SIGKILL":
            return "the engine was killed (SIGKILL): by someone, or because memory ran out"
        return f"the engine crashed ({name})"
    if code:
        return f"the engine ended with exit code {code}"
    return "the engine ended"


def _new_log(folder: Path) -> Path:
    """A fresh log file; the oldest ones are removed.

    Raises:
        OSError: The folder cannot be made or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    logs = sorted(folder.glob("engine-*.log"), key=_modified_s)
    for old in logs[: max(0, len(logs) - LOGS_KEPT + 1)]:
        # Another copy of the program may have removed it, or still write to it.
        with suppress(OSError):
            old.unlink()
    number = 0
    while True:
        path = folder / f"engine-{_stamp()}-{number}.log"
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            number += 1
            continue
        return path


def _modified_s(path: Path) -> float:
    """When a file was written last; 0 if it is gone."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _stamp() -> str:
    return datetime.now().astimezone().strftime("%Y%m%dT%H%M%S")


def _last_lines(path: Path) -> tuple[str, ...]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    return tuple(text.splitlines()[-LOG_TAIL:])
