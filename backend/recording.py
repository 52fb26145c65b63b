"""A session on file: the event stream with its times, a JSON object a line.

The first line is the header; each further one has the time since the header in nanoseconds and
the event. What a program did not live to write is missing at the end; a last line that was cut
is left out when read.
"""

from contextlib import suppress
from datetime import datetime
from pathlib import Path
from time import perf_counter_ns

import msgspec

from backend.protocol import Event

FORMAT = 1


class RecordingError(Exception):
    """A file is no recording, or cannot be written; the text is one sentence."""


class Version(msgspec.Struct, frozen=True):
    """What the first line has in every version of the format."""

    phasescope_recording: int


class Header(msgspec.Struct, frozen=True):
    """The first line of a recording.

    Attributes:
        phasescope_recording: Version of the format.
        started_at: Wall-clock time, ISO 8601 with offset.
        t0_ns: The engine's clock at that moment.
    """

    phasescope_recording: int
    started_at: str
    t0_ns: int


class Line(msgspec.Struct, frozen=True):
    """One event and when the client got it, in nanoseconds since the header."""

    at_ns: int
    event: Event


class Recording(msgspec.Struct, frozen=True):
    """A recording that was read."""

    header: Header
    lines: tuple[Line, ...]


class Recorder:
    """Writes a recording.

    Args:
        path: The file; it must not exist yet, so that no recording is lost.

    Raises:
        RecordingError: The file exists or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("xb")
        except FileExistsError as error:
            raise RecordingError(f"{path} exists already; name another file") from error
        except OSError as error:
            raise RecordingError(f"{path} cannot be written: {error.strerror}") from error
        self._path = path
        self._encoder = msgspec.json.Encoder()
        self._t0_ns = perf_counter_ns()
        started_at = datetime.now().astimezone().isoformat(timespec="milliseconds")
        self._write(Header(FORMAT, started_at, self._t0_ns))

    def add(self, event: Event) -> None:
        """Write one event.

        Raises:
            RecordingError: The disk is full, say.
        """
        self._write(Line(perf_counter_ns() - self._t0_ns, event))

    def _write(self, line: Header | Line) -> None:
        try:
            self._file.write(self._encoder.encode(line) + b"\n")
            self._file.flush()
        except OSError as error:
            raise RecordingError(f"{self._path} cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Close the file; what a full disk did not take is lost."""
        with suppress(OSError):
            self._file.close()


def read_recording(path: Path) -> Recording:
    """Read a recording whole.

    Raises:
        RecordingError: The file is no recording of a known version.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}") from error
    first, *rest = data.split(b"\n")
    try:
        version = msgspec.json.decode(first, type=Version).phasescope_recording
        if version != FORMAT:
            raise RecordingError(
                f"{path} has recording format {version}; this phasescope reads {FORMAT}"
            )
        header = msgspec.json.decode(first, type=Header)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RecordingError(f"{path} is not a phasescope recording") from error
    decoder = msgspec.json.Decoder(Line)
    lines: list[Line] = []
    # After a whole file's last newline comes nothing; after a cut one, the start of a line.
    for number, line in enumerate(rest[:-1], start=2):
        try:
            lines.append(decoder.decode(line))
        except (msgspec.DecodeError, RecursionError) as error:
            raise RecordingError(f"{path}, line {number}: {error}") from error
    return Recording(header, tuple(lines))
