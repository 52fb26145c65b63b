"""A draft as data: text with folded pieces, and how it stands in the lines of a text area.

In a text area's document each character must be as wide as it is drawn and none may end a line
by itself. So a document holds stand-ins: a control character is one private character (drawn as
its picture, ␛), so is a joiner that joins no emoji (drawn as nothing), and a folded piece is its
label between two noncharacters (drawn as ⟦ and ⟧). Outside text that already holds such a
character is folded whole: it never enters the document.
"""

import json
import re
from collections.abc import Iterable
from typing import NamedTuple

from tui.graphemes import JOINER, without_stray_joiners
from tui.text import harmless, one_line

PASTE_LINES = 8
PASTE_CHARACTERS = 1_000
"""A paste of more lines or more characters is folded."""

EDITABLE_LINES = 500
EDITABLE_CHARACTERS = 20_000
"""Up to here a text area edits without delay; anything larger always stands folded."""

OPENING, CLOSING = "\ufdd0", "\ufdd1"
"""Around a label in a document: noncharacters, which no text has and no keyboard types."""

_CONTROLS = "".join(
    chr(code)
    for code in (
        *range(0x09),
        *range(0x0B, 0x20),
        *range(0x7F, 0xA0),
        *range(0x2028, 0x202F),
        *range(0x2066, 0x206A),
    )
)
"""What is drawn as a picture, and what `str.splitlines` would end a line at."""

_STAND_INS = "".join(chr(0x10FF00 + index) for index in range(len(_CONTROLS)))
_STAND_IN_OF = dict(zip(_CONTROLS, _STAND_INS, strict=True))
_CONTROL_OF = dict(zip(_STAND_INS, _CONTROLS, strict=True))
_JOINER_STAND_IN = "\U000e0002"
"""For a joiner that joins no emoji: a character that nobody is given, of no width as well."""
_CONTROL_OF[_JOINER_STAND_IN] = JOINER
_BRACKETS = {OPENING: "⟦", CLOSING: "⟧"}
_CONTROL = re.compile(f"[{re.escape(_CONTROLS)}]")
_RESERVED = re.compile(f"[{OPENING}{CLOSING}{_JOINER_STAND_IN}{_STAND_INS[0]}-{_STAND_INS[-1]}]")
_SPAN = re.compile(f"{OPENING}([^{OPENING}{CLOSING}\n]*){CLOSING}")

_LABEL_CHARACTERS = 72


class Fold(NamedTuple):
    """A piece of a draft that is shown as one placeholder.

    Attributes:
        label: What stands between the brackets.
        text: What is sent.
    """

    label: str
    text: str


Part = str | Fold


class Draft(NamedTuple):
    """What is written and not sent: typed pieces and folded ones, in their order."""

    parts: tuple[Part, ...] = ()

    @property
    def full_text(self) -> str:
        """What would be sent."""
        return "".join(part if isinstance(part, str) else part.text for part in self.parts)

    def to_json(self) -> str:
        """One JSON string, all ASCII, which `from_json` takes back."""
        return json.dumps([part if isinstance(part, str) else list(part) for part in self.parts])

    @classmethod
    def from_json(cls, text: str) -> "Draft":
        """Read what `to_json` wrote.

        Raises:
            ValueError: It is not a draft.
        """
        try:
            parts = json.loads(text)
        except RecursionError as error:
            raise ValueError("a draft is not nested so deeply") from error
        if not isinstance(parts, list):
            raise ValueError("a draft is a list of its parts")  # noqa: TRY004 (as documented)
        return cls(tuple(map(_part, parts)))


def _part(item: object) -> Part:
    match item:
        case str():
            return item
        case [str(label), str(content)]:
            return Fold(label, content)
        case _:
            raise ValueError("a part of a draft is a text, or a label with its text")


def normalised(text: str) -> str:
    """The text with CRLF and CR as LF."""
    if "\r" not in text:
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_long_paste(text: str) -> bool:
    """Whether a paste is folded."""
    return len(text) > PASTE_CHARACTERS or line_count(text) > PASTE_LINES


def is_editable(text: str) -> bool:
    """Whether a text can stand in a text area: small enough, and without reserved characters."""
    return (
        len(text) <= EDITABLE_CHARACTERS
        and line_count(text) <= EDITABLE_LINES
        and _RESERVED.search(text) is None
    )


def line_count(text: str) -> int:
    """Lines, as an editor counts them: a line end at the very end begins no further one."""
    return text.count("\n") + (not text.endswith("\n") and bool(text))


def size_label(name: str, text: str) -> str:
    """A label of a name and the size, such as `pasted 3,120 lines, 200,000 characters`."""
    return f"{name} {size_words(text)}"


def size_words(text: str) -> str:
    """The size of a text in words."""
    lines, characters = line_count(text), len(text)
    return (
        f"{lines:,} {'line' if lines == 1 else 'lines'}, "
        f"{characters:,} {'character' if characters == 1 else 'characters'}"
    )


class Folds:
    """The folded pieces of one document, each found by its label."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def clear(self) -> None:
        """Forget all: the document and what could be undone is gone."""
        self._texts.clear()

    def place(self, fold: Fold, document: str = "") -> str:
        """The characters that stand for a piece in a document.

        Pieces of one document never have the same label: the second one is numbered. Neither have
        different pieces, since one that was removed can come back.
        """
        plain = _RESERVED.sub("�", one_line(fold.label))
        if len(plain) > _LABEL_CHARACTERS:
            half = _LABEL_CHARACTERS // 2
            plain = f"{plain[:half]}…{plain[-half:]}"
        label, number = plain, 1
        while (
            f"{OPENING}{label}{CLOSING}" in document
            or self._texts.setdefault(label, fold.text) != fold.text
        ):
            number += 1
            label = f"{plain} · {number}"
        return f"{OPENING}{label}{CLOSING}"

    def encode(self, text: str, document: str = "", before: str = "") -> str:
        """A text as it stands in a document; what cannot stand in one is folded whole.

        Args:
            text: The text.
            document: What is there, with the labels that are taken.
            before: What it comes behind.
        """
        text = normalised(text)
        if not is_editable(text):
            return self.place(Fold(size_label("text of", text), text), document)
        text = _CONTROL.sub(lambda match: _STAND_IN_OF[match[0]], text)
        return without_stray_joiners(text, _JOINER_STAND_IN, before[-1:])

    def encode_draft(self, draft: Draft) -> str:
        """The document for a draft."""
        document = ""
        for part in draft.parts:
            if isinstance(part, str):
                document += self.encode(part, document)
            else:
                document += self.place(part, document)
        return document

    def decode(self, document: str) -> Draft:
        """The draft that a document, or a part of one, stands for."""
        parts: list[Part] = []
        end = 0
        for match in _SPAN.finditer(document):
            content = self._texts.get(match[1])
            if content is None:
                continue
            if match.start() > end:
                parts.append(raw(document[end : match.start()]))
            parts.append(Fold(match[1], content))
            end = match.end()
        if end < len(document):
            parts.append(raw(document[end:]))
        return Draft(tuple(parts))


def spans(line: str) -> list[tuple[int, int]]:
    """Where placeholders stand in a line of a document: begin, and one behind the end."""
    if OPENING not in line:
        return []
    return [match.span() for match in _SPAN.finditer(line)]


def label_at(line: str, span: tuple[int, int]) -> str:
    """The label of a placeholder."""
    return line[span[0] + 1 : span[1] - 1]


def raw(document: str) -> str:
    """A document, or a part of one, with its controls themselves; labels stand for the folded."""
    return _RESERVED.sub(lambda match: (_BRACKETS | _CONTROL_OF)[match[0]], document)


def on_screen(document: str) -> str:
    """A document, or a part of one, as it is drawn: as many characters, all harmless."""
    return harmless(raw(document))


def joined(drafts: Iterable[Draft]) -> Draft:
    """One draft of several."""
    return Draft(tuple(part for draft in drafts for part in draft.parts))
