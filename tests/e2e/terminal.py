"""A real terminal for a program: a pseudo-terminal and a screen that reads its codes."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self

import pexpect
import pyte

PHASESCOPE = str(Path(sys.executable).with_name("phasescope"))
"""The command as it was installed."""

PATIENCE_S = 60.0

OTHERS_TERMINAL = ("NO_COLOR", "COLUMNS", "LINES")
"""What the environment says of the terminal that the tests run in, or of none."""


class Terminal:
    """Runs a program and shows what a user of the terminal would see.

    Args:
        command: The program and its arguments.
        data_dir: Where phasescope keeps its data.
        size: Columns and rows.
    """

    def __init__(
        self, command: Sequence[str], data_dir: Path, size: tuple[int, int] = (120, 36)
    ) -> None:
        columns, rows = size
        environment = {
            **{name: value for name, value in os.environ.items() if name not in OTHERS_TERMINAL},
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "PHASESCOPE_DATA_DIR": str(data_dir),
        }
        self.raw = b""
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.process = pexpect.spawn(
            command[0],
            list(command[1:]),
            dimensions=(rows, columns),
            env=environment,
            timeout=PATIENCE_S,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.close(force=True)

    @property
    def text(self) -> str:
        """The screen, a line a row."""
        self._read(0.05)
        return "\n".join(self._screen.display)

    def type(self, keys: str) -> None:
        """Type text, or the codes of keys."""
        self.process.send(keys)

    def until(self, predicate: Callable[[str], bool]) -> str:
        """Wait until the screen is as wanted; the screen."""
        end = monotonic() + PATIENCE_S
        while not predicate(text := self.text):
            assert monotonic() < end, f"never came to it:\n{text}"
            assert self.process.isalive() or predicate(self.text), f"it ended:\n{text}"
        return text

    def until_text(self, wanted: str) -> str:
        """Wait until something stands on the screen; the screen."""
        return self.until(lambda text: wanted in text)

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size."""
        self._screen.resize(rows, columns)
        self.process.setwinsize(rows, columns)

    def kill(self) -> None:
        """End the program at once."""
        self.process.kill(signal.SIGKILL)
        self.process.wait()

    def ended(self) -> int | None:
        """Wait for the program's end; its exit status."""
        end = monotonic() + PATIENCE_S
        while self.process.isalive():
            self._read(0.1)
            assert monotonic() < end, f"it did not end:\n{self.text}"
        self._read(0.05)
        status = self.process.exitstatus
        return None if status is None else int(status)

    def _read(self, patience_s: float) -> None:
        try:
            data = self.process.read_nonblocking(65536, timeout=patience_s)
        except (pexpect.TIMEOUT, pexpect.EOF):
            return
        self.raw += data
        self._stream.feed(data)
