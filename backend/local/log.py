"""llama.cpp's log: captured whole in the child, so that no byte of it reaches a terminal."""

import re
from collections import deque
from collections.abc import Callable

from llama_cpp import llama_cpp as lib

DEBUG = 1
INFO = 2
ERROR = 4
CONTINUED = 5

_FUNCTION = re.compile(r"^\w+: +")

KEPT = 2_000
"""Lines kept in the child; the whole log is in its file."""


class LlamaLog:
    """Takes llama.cpp's log over, joins continued lines, and keeps the last ones.

    Args:
        write: Called with each whole line (it goes to the log file).
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._lines: deque[tuple[int, str]] = deque(maxlen=KEPT)
        self._unsent: list[str] = []
        self._partial = ""
        self._level = INFO
        self._callback = lib.llama_log_callback(self._take)
        lib.llama_log_set(self._callback, None)

    def _take(self, level: int, text: bytes, _data: object) -> None:
        if level != CONTINUED:
            self._level = level
        if self._level == DEBUG:
            return
        self._partial += text.decode("utf-8", errors="replace")
        *whole, self._partial = self._partial.split("\n")
        for line in whole:
            self._lines.append((self._level, line))
            self.note(line)

    def note(self, line: str) -> None:
        """Add a line that does not come from llama.cpp."""
        self._unsent.append(line)
        self._write(line)

    def unsent(self) -> tuple[str, ...]:
        """Lines since the last call."""
        lines = tuple(self._unsent)
        self._unsent.clear()
        return lines

    def mark(self) -> None:
        """Forget what was kept; later searches see only newer lines."""
        self._lines.clear()

    def matching(self, pattern: str) -> list[re.Match[str]]:
        """Matches of a regular expression in the lines since `mark`."""
        found = (re.search(pattern, line) for _, line in self._lines)
        return [match for match in found if match]

    def first_error(self) -> str | None:
        """The first line that llama.cpp logged as an error since `mark`, without its function.

        It names the cause; the lines after it only say what failed because of it.
        """
        for level, line in self._lines:
            if level == ERROR and line.strip():
                return _FUNCTION.sub("", line.strip())
        return None
