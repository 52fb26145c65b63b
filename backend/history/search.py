"""What is looked for in chats: words and phrases, whatever their case, in any script."""

import re
import unicodedata
from bisect import bisect_right

EXCERPT_LENGTH = 80
"""Characters of an excerpt at most."""

LEAD_LENGTH = 24
"""Characters of it before what was found at most."""

_PARTS = re.compile(r'"([^"]*)"?|([^\s"]+)')
_SPACE = re.compile(r"\s+")


def folded(text: str) -> str:
    """The text as it is compared: without case, and characters that stand for the same alike.

    "STRASSE" and "straße" become one, as do an accent that is written apart and one that is not,
    and wide and narrow forms (Unicode's NFKC and full case folding).
    """
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


class Query:
    """What somebody looks for: every word, and every phrase in quotes, in any order.

    No character has a meaning of its own but the quote; one that is not closed yet counts to the
    end. White space in a phrase stands for any white space.

    Args:
        text: As it was typed.
    """

    def __init__(self, text: str) -> None:
        parts = [folded(quoted or bare).split() for quoted, bare in _PARTS.findall(text)]
        self._parts = [re.compile(r"\s+".join(map(re.escape, words))) for words in parts if words]
        self._words = [word for words in parts for word in words]
        self._phrases = [
            part for part, words in zip(self._parts, filter(None, parts), strict=True) if words[1:]
        ]

    def __bool__(self) -> bool:
        """Whether it asks for anything."""
        return bool(self._parts)

    def matches(self, text: str) -> bool:
        """Whether the text has all of it. Nothing has what asks for nothing."""
        whole = folded(text)
        return (
            bool(self._words)
            and all(word in whole for word in self._words)
            and all(phrase.search(whole) for phrase in self._phrases)
        )

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where the text has a part of it, as beginnings and ends in order, none within another."""
        whole = folded(text)
        found = [match.span() for part in self._parts for match in part.finditer(whole)]
        if len(whole) != len(text):
            found = [(_begin(text, begin), _end(text, end)) for begin, end in found]
        apart: list[tuple[int, int]] = []
        for begin, end in sorted(found):
            if apart and begin < apart[-1][1]:
                apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
            else:
                apart.append((begin, end))
        return apart

    def excerpt(self, text: str) -> str:
        """One line of the text around the first place that has a part of it."""
        whole = folded(text)
        found = [match.start() for part in self._parts if (match := part.search(whole))]
        at = _begin(text, min(found, default=0))
        before = _SPACE.sub(" ", text[max(0, at - 8 * LEAD_LENGTH) : at]).lstrip()
        if len(before) > LEAD_LENGTH or at > 8 * LEAD_LENGTH:
            before = "…" + before[-LEAD_LENGTH + 1 :].lstrip()
        room = EXCERPT_LENGTH - len(before)
        after = _SPACE.sub(" ", text[at : at + 8 * EXCERPT_LENGTH]).rstrip()
        if len(after) > room or at + 8 * EXCERPT_LENGTH < len(text):
            after = after[: room - 1].rstrip() + "…"
        return before + after


def _begin(text: str, at: int) -> int:
    """Where the character of a text begins that a place in its folded form belongs to."""
    inside = at < len(text) and not unicodedata.combining(text[at])
    if inside and len(folded(text[:at])) == at:
        return at
    return bisect_right(range(len(text) + 1), at, key=lambda end: len(folded(text[:end]))) - 1


def _end(text: str, at: int) -> int:
    """Where the character of a text ends that the one before a place in its folded form is."""
    end = _begin(text, at)
    return end if len(folded(text[:end])) >= at else end + 1
