"""A text file as a part of a message: read, checked and fenced, or refused in one sentence."""

import codecs
import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from backend.paths import at_home

MAX_BYTES = 8 * 1024 * 1024
"""The largest file that is taken."""

_PDF = b"%PDF-"
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"BM", "a BMP picture"),
    (b"II*\x00", "a TIFF picture"),
    (b"MM\x00*", "a TIFF picture"),
    (_PDF, "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive (or an Office document)"),
    (b"PK\x05\x06", "an empty ZIP archive"),
    (b"\x1f\x8b", "gzip-compressed"),
    (b"BZh", "bzip2-compressed"),
    (b"\xfd7zXZ\x00", "xz-compressed"),
    (b"\x28\xb5\x2f\xfd", "Zstandard-compressed"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x7fELF", "an ELF program or library"),
    (b"MZ", "a Windows program or library"),
    (b"\xcf\xfa\xed\xfe", "a macOS program or library"),
    (b"\xca\xfe\xba\xbe", "a macOS program or a Java class"),
    (b"\x00asm", "a WebAssembly module"),
    (b"GGUF", "a GGUF model"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"OggS", "Ogg sound or video"),
    (b"fLaC", "FLAC sound"),
    (b"ID3", "MP3 sound"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document"),
    (b"wOFF", "a font"),
    (b"wOF2", "a font"),
)
"""How files begin that are no text."""

_ENCODINGS: tuple[tuple[bytes, str, str], ...] = (
    (codecs.BOM_UTF8, "utf-8", "UTF-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)
_UTF32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


class AttachmentError(Exception):
    """A file that cannot be a part of a message; the text is one sentence for the user."""


class Attachment(NamedTuple):
    """A text file, read.

    Attributes:
        name: The file's name, without its folder.
        text: Its text; line ends are LF, a byte order mark is left out.
    """

    name: str
    text: str

    @property
    def markdown(self) -> str:
        """The file as it stands in a message: its name and its text in a fence."""
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", self.text)), default=0))
        suffix = Path(self.name).suffix[1:].lower()
        language = suffix if re.fullmatch("[a-z0-9]+", suffix) else ""
        end = "" if self.text.endswith("\n") else "\n"
        return f"{_code(self.name)}:\n\n{fence}{language}\n{self.text}{end}{fence}\n"


def _code(name: str) -> str:
    """A name as inline code."""
    name = re.sub(r"\s", " ", name)
    longest = max((len(run) for run in re.findall("`+", name)), default=0)
    ticks = "`" * (longest + 1)
    return f"{ticks} {name} {ticks}" if longest else f"`{name}`"


def path_of(typed: str) -> Path:
    """The path that a user means: `~`, quotes and backslashes as in a shell, spaces as they are.

    A path that exists just as it is typed is always meant so.
    """
    typed = typed.strip()
    literal = at_home(typed)
    if os.path.lexists(os.fspath(literal)):
        return literal
    return at_home(unquoted(typed))


def unquoted(typed: str) -> str:
    """A path without the quotes around it, or without the backslashes in it."""
    if len(typed) >= 2 and typed[0] == typed[-1] and typed[0] in "'\"":
        return typed[1:-1]
    return typed if os.name == "nt" else re.sub(r"\\(.)", r"\1", typed)


def read_attachment(typed: str) -> Attachment:
    """Read a text file.

    Args:
        typed: The path as the user typed it; one that is not absolute begins in the current
            folder.

    Raises:
        AttachmentError: It is not there, no text, too large, …
    """
    if not typed.strip():
        raise AttachmentError("A file needs a path.")
    try:
        path = path_of(typed)
        data = _read(path)
    except FileNotFoundError:
        raise AttachmentError(f"There is no file {typed.strip()}.") from None
    except NotADirectoryError:
        raise AttachmentError(
            f"There is no file {typed.strip()}: a part of the path is no folder."
        ) from None
    except PermissionError:
        raise AttachmentError(f"You have no right to read {typed.strip()}.") from None
    except OSError as error:
        raise AttachmentError(f"{typed.strip()} cannot be read: {error.strerror}.") from None
    except ValueError:
        # A NUL character, or one that file names cannot have.
        raise AttachmentError(f"There is no file {typed.strip()}.") from None
    return Attachment(path.name, _decoded(data, path.name))


def _read(path: Path) -> bytes:
    """The bytes of a regular file that is not too large; nothing here waits for a writer."""
    _check(path.name or str(path), path.stat())
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb") as file:
        # Another file may have taken the name since.
        _check(path.name, os.fstat(file.fileno()))
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise AttachmentError(
            f"{path.name} is too large: more than {MAX_BYTES:,} bytes, the most that is taken."
        )
    if not data:
        raise AttachmentError(f"{path.name} is empty.")
    return data


def _check(name: str, status: os.stat_result) -> None:
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        raise AttachmentError(f"{name} is a folder, not a file.")
    if not stat.S_ISREG(mode):
        raise AttachmentError(f"{name} is {_kind(mode)}, not a regular file.")
    if status.st_size > MAX_BYTES:
        raise AttachmentError(
            f"{name} is too large: {status.st_size:,} bytes, "
            f"and {MAX_BYTES:,} is the most that is taken."
        )


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"


def _decoded(data: bytes, name: str) -> str:
    """The text of a file's bytes."""
    if data.startswith(_PDF):
        # Its first part can be plain ASCII.
        raise AttachmentError(f"{name} is a PDF document, not text.")
    if data.startswith(_UTF32):
        raise AttachmentError(f"{name} is UTF-32; only UTF-8 and UTF-16 are read.")
    mark, codec, encoding = next(
        (entry for entry in _ENCODINGS if data.startswith(entry[0])), (b"", "utf-8", "UTF-8")
    )
    try:
        text = data[len(mark) :].decode(codec)
    except UnicodeDecodeError as error:
        position = error.start + len(mark)
        raise AttachmentError(
            _no_text(data, name)
            or f"{name} is not {encoding} text at byte {position:,}; save it as UTF-8."
        ) from None
    if "\x00" in text:
        raise AttachmentError(_no_text(data, name) or f"{name} is not text: it contains NUL bytes.")
    if not text:
        raise AttachmentError(f"{name} is empty.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _no_text(data: bytes, name: str) -> str | None:
    """What a file is that is no text, where its first bytes tell."""
    for magic, kind in _MAGIC:
        if data.startswith(magic):
            return f"{name} is {kind}, not text."
    if data[4:8] == b"ftyp":
        return f"{name} is MP4 video or a HEIC picture, not text."
    if data.startswith(b"RIFF"):
        kinds = {b"WEBP": "a WebP picture", b"WAVE": "WAV sound", b"AVI ": "AVI video"}
        return f"{name} is {kinds.get(data[8:12], 'a RIFF file')}, not text."
    if data[257:262] == b"ustar":
        return f"{name} is a tar archive, not text."
    return None
