"""Pastes as terminals send them: taken as they are, and at once."""

import sys
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from textual._xterm_parser import (
    BRACKETED_PASTE_END,
    BRACKETED_PASTE_START,
    XTermParser,
)
from textual.events import Paste
from textual.message import Message

_textual_feed = XTermParser.feed
_KEPT = max(len(BRACKETED_PASTE_START), len(BRACKETED_PASTE_END)) - 1


class _Reader:
    """What has come of a paste, while one comes."""

    def __init__(self) -> None:
        self._end = ""
        """The last characters that came, in which a marker may have begun."""
        self._pieces: list[str] | None = None

    def feed(self, parser: XTermParser, data: str) -> Iterable[Message]:
        """Events for what a terminal sent; the parser sees no character of a paste."""
        while data:
            pasting = self._pieces is not None
            marker = BRACKETED_PASTE_END if pasting else BRACKETED_PASTE_START
            joined = self._end + data
            found = joined.find(marker)
            if found < 0:
                taken, rest = data, ""
            else:
                until = found + len(marker) - len(self._end)
                taken, rest = data[:until], data[until:]
            self._end = "" if found >= 0 else joined[-_KEPT:]
            if self._pieces is None:
                yield from _textual_feed(parser, taken)
                if found >= 0:
                    self._pieces = []
            else:
                self._pieces.append(taken)
                if found >= 0:
                    text = "".join(self._pieces)[: -len(marker)]
                    self._pieces = None
                    yield from self._finish(parser, text)
            data = rest

    def _finish(self, parser: XTermParser, text: str) -> Iterable[Message]:
        """The paste; to Textual's parser it is an empty one."""
        for event in _textual_feed(parser, BRACKETED_PASTE_END):
            if not isinstance(event, Paste):
                yield event
        # Windows' console puts NULs between characters.
        yield Paste(text.replace("\x00", "") if sys.platform == "win32" else text)


_readers: WeakKeyDictionary[XTermParser, _Reader] = WeakKeyDictionary()


def _feed(self: XTermParser, data: str) -> Iterable[Message]:
    if not data:
        return _textual_feed(self, data)
    return _readers.setdefault(self, _Reader()).feed(self, data)


def let_pastes_through() -> None:
    """Make a paste arrive whole, with its escape sequences, and quickly.

    Textual 8 takes a paste apart character by character (5 MB hold the window for seconds), and
    after an escape character in a paste it presses what follows as keys, Enter among them.
    """
    XTermParser.feed = _feed  # type: ignore[method-assign]
