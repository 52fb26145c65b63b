"""Bytes that a terminal sends and that are not UTF-8: a key, never the end of the window."""

import codecs
import sys
from collections.abc import Callable
from functools import partial

HANDLER = "phasescope.terminal"
"""Name of the error handler, as the codecs know it."""


def let_any_bytes_through(encoding: str | None) -> None:
    """Make a terminal's input readable whatever bytes it sends.

    Textual 8 decodes it as strict UTF-8: one key of a terminal with another encoding, or a stray
    byte, ends the window. Its driver offers no setting for it, so its decoder is exchanged.

    Args:
        encoding: Of the terminal: what bytes that are not UTF-8 mean; None: nothing.
    """
    codecs.register_error(HANDLER, partial(_read_as, encoding or "utf-8"))
    if sys.platform == "win32":
        # There the console tells characters.
        return
    from textual.drivers import linux_driver  # noqa: PLC0415 (it needs a terminal's modules)

    linux_driver.getincrementaldecoder = _tolerant  # type: ignore[attr-defined, assignment]


def _tolerant(name: str) -> Callable[[], codecs.IncrementalDecoder]:
    return partial(codecs.getincrementaldecoder(name), errors=HANDLER)


def _read_as(encoding: str, error: UnicodeError) -> tuple[str, int]:
    """What bytes that are no UTF-8 say in another encoding, and where to go on."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    wrong = error.object[error.start : error.end]
    return wrong.decode(encoding, errors="replace"), error.end
