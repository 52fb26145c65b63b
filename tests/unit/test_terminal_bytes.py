"""Bytes from a terminal that are no UTF-8."""

import sys

import pytest

from tui.terminal_bytes import let_any_bytes_through

if sys.platform == "win32":
    pytest.skip("a console of Windows tells characters", allow_module_level=True)


def read(sent: list[bytes], encoding: str | None) -> str:
    """What the driver makes of chunks of bytes."""
    from textual.drivers import linux_driver  # noqa: PLC0415

    let_any_bytes_through(encoding)
    decode = vars(linux_driver)["getincrementaldecoder"]("utf-8")().decode
    return "".join(decode(chunk, final=False) for chunk in sent)


def test_utf_8_stays_what_it_is_across_reads() -> None:
    assert read([b"f\xc3", b"\xbcr"], "utf-8") == "für"
    assert read([b"f\xc3", b"\xbcr"], "latin-1") == "für"


def test_a_key_of_a_terminal_with_another_encoding_is_that_key() -> None:
    assert read([b"f\xfcr"], "latin-1") == "für"
    assert read([b"\xa4"], "iso8859-15") == "€"


@pytest.mark.parametrize("encoding", [None, "utf-8", "ascii"])
def test_a_stray_byte_is_one_character(encoding: str | None) -> None:
    assert read([b"a\xffb"], encoding) == "a\ufffdb"
