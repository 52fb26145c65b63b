"""Which files become a part of a message, how they stand in it, and how others are refused."""

import gzip
import itertools
import os
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from backend.chat.attachment import (
    MAX_BYTES,
    Attachment,
    AttachmentError,
    path_of,
    read_attachment,
)


def refusal(path: Path | str) -> str:
    """The sentence that a file is refused with."""
    with pytest.raises(AttachmentError) as caught:
        read_attachment(str(path))
    return str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        "Zeile\nпривет\n漢字".encode(),
        "Zeile\r\nпривет\r\n漢字".encode(),
        "Zeile\rпривет\r漢字".encode(),
        b"\xef\xbb\xbf" + "Zeile\nпривет\n漢字".encode(),
        b"\xff\xfe" + "Zeile\r\nпривет\n漢字".encode("utf-16-le"),
        b"\xfe\xff" + "Zeile\nпривет\n漢字".encode("utf-16-be"),
    ],
)
def test_text_in_each_encoding_and_with_each_line_end_is_the_same(
    tmp_path: Path, data: bytes
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    assert read_attachment(str(path)) == Attachment("a.txt", "Zeile\nпривет\n漢字")


def test_a_file_stands_fenced_under_its_name() -> None:
    assert Attachment("main.py", "x = 1\n").markdown == "`main.py`:\n\n```py\nx = 1\n```\n"
    assert Attachment("LICENSE", "MIT").markdown == "`LICENSE`:\n\n```\nMIT\n```\n"
    assert Attachment("a`b.t x", "y").markdown == "`` a`b.t x ``:\n\n```\ny\n```\n"


def test_fences_in_a_file_end_nothing() -> None:
    text = "```py\nx\n```\n\n`````\n"
    tokens = MarkdownIt().parse(Attachment("a.md", text).markdown)
    assert [token.type for token in tokens][-1] == "fence"
    assert tokens[-1].content == text


@given(st.text("`~\n ax", max_size=40))
def test_whatever_a_file_holds_is_one_fence(text: str) -> None:
    tokens = MarkdownIt().parse(Attachment("a.md", text).markdown)
    blocks = [token.type for token in tokens if token.level == 0]
    assert blocks == ["paragraph_open", "paragraph_close", "fence"]
    assert tokens[-1].content.removesuffix("\n") == text.removesuffix("\n")


def test_control_characters_of_a_file_stay(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"\x1b[31mred\x0cpage")
    assert read_attachment(str(tmp_path / "log")).text == "\x1b[31mred\x0cpage"


def zipped() -> bytes:
    """A ZIP archive."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a", "b")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "a PNG picture"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF\x00", "a JPEG picture"),
        (b"%PDF-1.7\nall of it ASCII", "a PDF document"),
        (zipped(), "a ZIP archive"),
        (gzip.compress(b"text"), "gzip-compressed"),
        (b"\x7fELF\x02\x01\x01\x00", "an ELF program"),
        (b"GGUF\x03\x00\x00\x00", "a GGUF model"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "a WebP picture"),
        (b"SQLite format 3\x00", "an SQLite database"),
    ],
    ids=itertools.count(),
)
def test_what_is_no_text_is_refused_by_name(tmp_path: Path, data: bytes, kind: str) -> None:
    path = tmp_path / "some file"
    path.write_bytes(data)
    assert refusal(path).startswith(f"some file is {kind}")


def test_text_that_begins_like_another_kind_is_text(tmp_path: Path) -> None:
    for text in ("GGUF is a format", "BM25 ranks", "ID3 is an algorithm", "PK\x03\x04"):
        (tmp_path / "a").write_text(text)
        assert read_attachment(str(tmp_path / "a")).text == text


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"ab\x00cd", "contains NUL bytes"),
        (b"abc\xe9 latin", "not UTF-8 text at byte 3"),
        (b"\xef\xbb\xbfabc\xff", "not UTF-8 text at byte 6"),
        (b"\xff\xfea\x00\x00\xdc", "not UTF-16 text at byte 4"),
        (b"\xff\xfea\x00b", "not UTF-16 text at byte 4"),
        (b"\xff\xfe\x00\x00a\x00\x00\x00", "UTF-32"),
        (b"", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
    ],
)
def test_what_else_is_no_text_says_where(tmp_path: Path, data: bytes, why: str) -> None:
    (tmp_path / "data.bin").write_bytes(data)
    assert why in refusal(tmp_path / "data.bin")


def test_the_largest_file_is_taken_and_one_byte_more_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"a" * MAX_BYTES)
    assert len(read_attachment(str(path)).text) == 8_388_608
    with path.open("ab") as file:
        file.write(b"a")
    assert "8,388,609" in refusal(path)
    assert "8,388,608" in refusal(path)
    with path.open("ab") as file:
        file.truncate(2**40)
    assert "1,099,511,627,776" in refusal(path)


def test_what_is_not_there_or_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    assert refusal(tmp_path / "nowhere").startswith("There is no file")
    assert refusal(tmp_path / "file" / "below").startswith("There is no file")
    assert refusal(f"{tmp_path}/a\x00b").startswith("There is no file")
    assert refusal(tmp_path).endswith("is a folder, not a file.")
    assert "cannot be read" in refusal(tmp_path / "loop")
    assert "cannot be read" in refusal(tmp_path / ("n" * 300))
    assert refusal("  ") == "A file needs a path."


def test_a_pipe_and_a_device_are_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe") == "pipe is a pipe, not a regular file."
    assert refusal("/dev/zero") == "zero is a device, not a regular file."


def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("x")
    path.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        assert refusal(path).startswith("You have no right to read")
    finally:
        os.seteuid(user)


def test_paths_are_meant_as_a_shell_means_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "мои заметки 漢字.txt").write_text("x")
    for typed in (
        "мои заметки 漢字.txt",
        " мои\\ заметки\\ 漢字.txt ",
        '"мои заметки 漢字.txt"',
        "'мои заметки 漢字.txt'",
        "~/мои заметки 漢字.txt",
        "'~/мои заметки 漢字.txt'",
        "./мои заметки 漢字.txt",
        str(tmp_path / "мои заметки 漢字.txt"),
    ):
        assert read_attachment(typed).name == "мои заметки 漢字.txt"
    assert path_of("~nobody-of-this-name/a") == Path("~nobody-of-this-name/a")


def test_a_path_that_is_there_just_so_is_meant_just_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("'quoted'", "back\\slash"):
        (tmp_path / name).write_text(name)
        assert read_attachment(name).text == name


def test_a_file_of_backticks_is_fenced_at_once() -> None:
    # Looked for one length after the other, the fence of these would take hours.
    ticks = "`" * 2_000_000
    lines = Attachment("ticks.md", f"{ticks}\n").markdown.splitlines()
    assert lines[2:] == [f"{ticks}`md", ticks, f"{ticks}`"]
