import gzip
import itertools
import json
import os
import pickle
import struct
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from models.errors import ModelFileError, printable
from models.sniff import check_file

HEADER = struct.Struct("=4sIqq")
OTHER_ORDER = ">" if sys.byteorder == "little" else "<"


posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")


def refusal(path: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        check_file(path)
    return str(caught.value)


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def gguf(version: int = 3, n_tensors: int = 1, n_key_values: int = 2, size: int = 200) -> bytes:
    return HEADER.pack(b"GGUF", version, n_tensors, n_key_values).ljust(size, b"\0")


@contextmanager
def as_nobody() -> Iterator[None]:
    """Drops root's right to read everything, where the tests run as root."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.mark.parametrize("name", ["a model.gguf", "модель.gguf", "模型 漢字.gguf", "MODEL.GGUF"])
@pytest.mark.parametrize("version", [2, 3])
def test_a_plausible_header_passes_whatever_the_name(
    tmp_path: Path, name: str, version: int
) -> None:
    check_file(written(tmp_path / name, gguf(version)))


def test_a_missing_file_is_named_with_its_whole_path(tmp_path: Path) -> None:
    path = tmp_path / "absent.gguf"
    assert refusal(path) == f"{path} does not exist; check the path"


@posix
def test_a_link_to_nowhere_is_told_from_a_missing_file(tmp_path: Path) -> None:
    link = tmp_path / "link.gguf"
    link.symlink_to(tmp_path / "gone")
    assert "is a link to a file that is gone" in refusal(link)


def test_a_directory(tmp_path: Path) -> None:
    assert "is a directory" in refusal(tmp_path)


@posix
def test_something_that_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    assert "is not a regular file" in refusal(pipe)


@posix
def test_a_file_without_read_permission(tmp_path: Path) -> None:
    path = written(tmp_path / "secret.gguf", gguf())
    path.chmod(0)
    with as_nobody():
        assert refusal(path).startswith("secret.gguf cannot be read (Permission denied)")


@posix
def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    message = refusal(tmp_path / ("x" * 3000 + ".gguf"))
    assert "cannot be read (File name too long)" in message
    assert len(message) < 400


def test_a_name_with_a_null_character() -> None:
    assert refusal(Path("a\0b.gguf")) == "a\ufffdb.gguf is not a valid path; check it"


@posix
def test_a_name_that_is_not_unicode(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.gguf"))
    assert refusal(written(path, gguf())) == (
        "bad\ufffd.gguf has a name that is not valid Unicode; rename it"
    )


def test_control_characters_of_a_name_never_reach_the_sentence(tmp_path: Path) -> None:
    assert "\x1b" not in refusal(tmp_path / "\x1b[2J\x9b.gguf")
    assert printable("ok\x07\u202e漢") == "ok\ufffd\ufffd漢"


def test_an_empty_file(tmp_path: Path) -> None:
    path = written(tmp_path / "model.gguf", b"")
    assert refusal(path) == "model.gguf is empty; download it again"


@pytest.mark.parametrize(
    "ending",
    [".part", ".partial", ".part00", ".incomplete", ".crdownload", ".downloadInProgress", ".aria2"],
)
def test_unfinished_downloads_are_known_by_their_name(tmp_path: Path, ending: str) -> None:
    path = written(tmp_path / f"model.gguf{ending}", gguf())
    assert "is an unfinished download or a part of one" in refusal(path)


PICKLED = pickle.dumps({"weight": [1.0, 2.0]}, protocol=2)
SAFETENSORS_HEADER = json.dumps({"w": {"dtype": "F16", "shape": [1], "data_offsets": [0, 2]}})
SAFETENSORS = struct.pack("<Q", len(SAFETENSORS_HEADER)) + SAFETENSORS_HEADER.encode() + b"\0\0"
LFS = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:b179c952000000000000000000000000000000000000000000000000008110db\n"
    b"size 98362432\n"
)


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"<!DOCTYPE html>\n<html><body>Sign in</body></html>", "is a web page"),
        (b"\xef\xbb\xbf  \n<HTML><head>", "is a web page"),
        (LFS, "is a Git-LFS pointer of "),
        (b'{"error": "Repository not found"}', "is a JSON file"),
        (b"[1, 2]", "is a JSON file"),
        (b"Entry not found", "is a text file"),
        ("Файл не найден. ".encode() * 400, "is a text file"),
        (PICKLED, "is a pickle file"),
        (SAFETENSORS, "is a safetensors file"),
        (gzip.compress(b"x" * 100), "is a gzip archive"),
        (b"tjgg" + bytes(range(100)), "is in the old GGML format"),
        (bytes(10_000), "starts with nothing but zero bytes"),
        (b"\x7fELF" + bytes(range(100)), "is not a GGUF file"),
        (b"GGU", "is a text file"),
        (b"GGUF", "is cut short: 4 bytes are less than a GGUF header"),
        (gguf(size=24)[:23], "is cut short: 23 bytes are less than a GGUF header"),
    ],
    ids=itertools.count(),
)
def test_other_files_are_named_for_what_they_are(
    tmp_path: Path, content: bytes, cause: str
) -> None:
    message = refusal(written(tmp_path / "model.gguf", content))
    assert message.startswith(f"model.gguf {cause}")
    assert len(message.split("; ")) == 2 or ": " in message


def test_a_zip_archive(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", PICKLED)
    assert "is a zip archive, as PyTorch checkpoints are" in refusal(path)


def test_the_other_byte_order(tmp_path: Path) -> None:
    header = struct.pack(f"{OTHER_ORDER}4sIqq", b"GGUF", 3, 1, 2)
    message = refusal(written(tmp_path / "model.gguf", header.ljust(200, b"\0")))
    assert "-endian GGUF file, which this machine cannot run" in message


@pytest.mark.parametrize(
    ("version", "cause"),
    [(0, "version 0, which is no longer"), (1, "version 1, which is no longer"), (4, "newer than")],
)
def test_versions_that_llama_cpp_does_not_read(tmp_path: Path, version: int, cause: str) -> None:
    assert cause in refusal(written(tmp_path / "model.gguf", gguf(version)))


@pytest.mark.parametrize(
    ("n_tensors", "n_key_values"), [(-1, 2), (1, -1), (10**6, 2), (1, 10**6), (2**62, 2**62)]
)
def test_counts_that_cannot_be_true(tmp_path: Path, n_tensors: int, n_key_values: int) -> None:
    content = gguf(n_tensors=n_tensors, n_key_values=n_key_values)
    message = refusal(written(tmp_path / "model.gguf", content))
    assert f"its header announces {n_tensors} tensors" in message
