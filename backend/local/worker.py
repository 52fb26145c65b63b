"""The child process: requests come in on its standard input, events go out on its output.

Run as `python -P -m backend.local.worker LOGFILE`. From the first line on, descriptors 1 and 2
are the log file, so that nothing that llama.cpp or a library prints can reach a terminal or get
into the pipe.
"""

import os
import sys
from pathlib import Path
from typing import BinaryIO, TextIO


def main() -> None:
    """Take the standard descriptors over, load llama.cpp, and serve until told to end."""
    path = Path(sys.argv[1])
    log_file = path.open("a", encoding="utf-8", errors="replace", buffering=1)
    requests, events = take_descriptors(log_file)
    # Imported only now: this loads llama.cpp, and what it prints belongs into the log.
    from backend.local.service import Service  # noqa: PLC0415

    Service(requests, events, log_file).serve()
    # llama.cpp's threads and backends need no farewell; the buffers have been written.
    log_file.flush()
    os._exit(0)


def take_descriptors(log_file: TextIO) -> tuple[BinaryIO, BinaryIO]:
    """Keep the pipe for the protocol alone: 0 reads nothing, 1 and 2 write to the log."""
    requests = os.fdopen(os.dup(0), "rb")
    events = os.fdopen(os.dup(1), "wb")
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415 (Windows only)

        msvcrt.setmode(requests.fileno(), os.O_BINARY)
        msvcrt.setmode(events.fileno(), os.O_BINARY)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(log_file.fileno(), 1)
    os.dup2(log_file.fileno(), 2)
    return requests, events


if __name__ == "__main__":
    main()
