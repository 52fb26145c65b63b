"""Names a file that is no usable GGUF file for what it is, from its first bytes.

Pure Python and harmless in any process: it reads a few kilobytes and loads no library.
"""

import re
import stat
import struct
import sys
from pathlib import Path

from models.errors import ModelFileError, printable

GGUF_VERSIONS = (2, 3)
"""Versions of the format that llama.cpp reads."""

_HEAD_BYTES = 4096
_HEADER = struct.Struct("=4sIqq")
"""Magic, version, number of tensors, number of key-value pairs, in the machine's byte order."""
_KEY_VALUE_LEAST = 14
"""Fewest bytes of a key-value pair: key length 8, key 1, type 4, value 1."""
_TENSOR_LEAST = 24
"""Fewest bytes of a tensor's entry: name length 8, dimensions 4, type 4, offset 8."""

_UNFINISHED = re.compile(
    r"\.(part(ial)?\d*|incomplete|download(inprogress)?|crdownload|opdownload|aria2|tmp)$",
    re.IGNORECASE,
)
_OLD_GGML = (b"lmgg", b"fmgg", b"tjgg", b"algg")
_ARCHIVES = (
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"BZh", "a bzip2 archive"),
    (b"Rar!", "a RAR archive"),
)
_HTML_STARTS = (b"<!doctype html", b"<html", b"<head", b"<body")
_LFS_START = b"version https://git-lfs.github.com/spec/"


def check_file(path: Path) -> None:
    """Checks that a file looks like a whole GGUF file, by its name, size and first bytes.

    Args:
        path: The file.

    Raises:
        ModelFileError: It is missing, no file, unreadable, empty, an unfinished download, of
            another kind (web page, Git-LFS pointer, text, archive, PyTorch, safetensors), or a
            GGUF file of another byte order or version, or with counts that cannot be true.
    """
    name = printable(path.name)
    size = _size(path, name)
    if _UNFINISHED.search(path.name):
        raise ModelFileError(
            f"{name} is an unfinished download or a part of one; finish it and open the whole file"
        )
    if size == 0:
        raise ModelFileError(f"{name} is empty; download it again")
    head = _head(path, name)
    if not head.startswith(b"GGUF"):
        raise ModelFileError(_what_it_is(head, name))
    _check_gguf(head, size, name)


def _size(path: Path, name: str) -> int:
    """Bytes of a regular file with a usable name."""
    try:
        str(path).encode()
        status = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            message = f"{name} is a link to a file that is gone; download the model again"
        else:
            message = f"{printable(str(path))} does not exist; check the path"
        raise ModelFileError(message) from None
    except UnicodeEncodeError:
        raise ModelFileError(f"{name} has a name that is not valid Unicode; rename it") from None
    except ValueError:
        raise ModelFileError(f"{name} is not a valid path; check it") from None
    except OSError as error:
        raise ModelFileError(_unreadable(name, error)) from None
    if stat.S_ISDIR(status.st_mode):
        raise ModelFileError(f"{name} is a directory; name a .gguf file inside it")
    if not stat.S_ISREG(status.st_mode):
        raise ModelFileError(f"{name} is not a regular file; name a .gguf file")
    return status.st_size


def _head(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError as error:
        raise ModelFileError(_unreadable(name, error)) from None


def _unreadable(name: str, error: OSError) -> str:
    reason = printable(error.strerror or type(error).__name__)
    return f"{name} cannot be read ({reason}); check its permissions and the disk"


def _what_it_is(head: bytes, name: str) -> str:
    """The sentence about a file that does not start as GGUF."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.lower().startswith(_HTML_STARTS):
        return (
            f"{name} is a web page, not a model: the server answered with a page instead of the "
            "file; download it again from the file's own address"
        )
    if text.startswith(_LFS_START):
        return (
            f"{name} is a Git-LFS pointer of {len(head)} bytes, not the model itself; "
            "run `git lfs pull` or download the file"
        )
    kind = _binary_kind(head) or _text_kind(head, text)
    if kind:
        return f"{name} is {kind}, not a GGUF model; get the model as a .gguf file"
    if head.startswith(_OLD_GGML):
        return f"{name} is in the old GGML format from before GGUF; get the model as a .gguf file"
    if not head.strip(b"\0"):
        return f"{name} starts with nothing but zero bytes: its download did not finish; repeat it"
    return f"{name} is not a GGUF file; get the model as a .gguf file"


def _binary_kind(head: bytes) -> str | None:
    if head.startswith(b"PK\x03\x04"):
        return "a zip archive, as PyTorch checkpoints are"
    if len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5:
        return "a pickle file, as old PyTorch checkpoints are"
    if len(head) > 8 and head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") < 2**27:
        return "a safetensors file"
    for magic, kind in _ARCHIVES:
        if head.startswith(magic):
            return kind
    return None


def _text_kind(head: bytes, text: bytes) -> str | None:
    try:
        decoded = head.decode()
    except UnicodeDecodeError as error:
        if len(head) < _HEAD_BYTES or error.start < len(head) - 3:
            return None
        decoded = head[: error.start].decode()
    if any(ord(c) < 32 and c not in "\t\n\r\f" for c in decoded):
        return None
    return "a JSON file" if text[:1] in {b"{", b"["} else "a text file"


def _check_gguf(head: bytes, size: int, name: str) -> None:
    """Checks byte order, version and counts of a file that starts with `GGUF`."""
    if size < _HEADER.size or len(head) < _HEADER.size:
        raise ModelFileError(
            f"{name} is cut short: {size} bytes are less than a GGUF header; download it again"
        )
    _, version, n_tensors, n_key_values = _HEADER.unpack_from(head)
    if version & 0xFFFF == 0 and version != 0:
        other = "big" if sys.byteorder == "little" else "little"
        raise ModelFileError(
            f"{name} is a {other}-endian GGUF file, which this machine cannot run; "
            f"get the {sys.byteorder}-endian one"
        )
    if version < GGUF_VERSIONS[0]:
        raise ModelFileError(
            f"{name} is in GGUF version {version}, which is no longer supported; "
            "get or convert a newer file of the model"
        )
    if version > GGUF_VERSIONS[-1]:
        raise ModelFileError(
            f"{name} is in GGUF version {version}, newer than the versions up to "
            f"{GGUF_VERSIONS[-1]} that this program reads; update the program"
        )
    least = _HEADER.size + _KEY_VALUE_LEAST * n_key_values + _TENSOR_LEAST * n_tensors
    if n_tensors < 0 or n_key_values < 0 or least > size:
        raise ModelFileError(
            f"{name} is cut short or damaged: its header announces {n_tensors} tensors and "
            f"{n_key_values} values, which do not fit into its {size} bytes; download it again"
        )
