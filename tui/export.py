"""A chat as Markdown with its figures, and writing that to a file."""

import os
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from backend.chat.thinking import split_thinking
from backend.chat.tree import Chat, Node, title_of
from backend.metrics.record import TurnRecord, short_prefill
from backend.settings import SamplingSettings
from tui.contained import contained, escaped
from tui.figures import count, decode_of, end_of, figures_line, milliseconds, prefill_of, reuse_of

SUFFIX = ".md"

LONGEST_NAME = 120
"""Bytes of a file's name before its ending at most; some systems take 255 with all."""

RESERVED = {
    "con",
    "prn",
    "aux",
    "nul",
    *(f"{port}{n}" for port in ("com", "lpt") for n in "0123456789"),
}
"""Names that are devices on Windows, whatever their ending."""


ALWAYS_TOLD = {"temp", "top_k", "top_p", "min_p"}
"""Sampling settings that are named even where they are llama.cpp's defaults."""


class ExportError(Exception):
    """A file cannot be written; the text is one sentence."""


# ------------------------------------------------------------------------------ the document


def as_markdown(chat: Chat, records: Mapping[str, TurnRecord], *, branches: bool = False) -> str:
    """A chat as a Markdown document.

    The branch in use comes first, each message under a heading of its own, with the figures of
    the turns that made it; at the end stand the figures of all turns. What the messages say stays
    as it is, except that no heading, fence or HTML in it reaches beyond the message.

    Args:
        chat: The chat.
        records: The records of its turns, oldest first, by their ids.
        branches: Print the messages of all other branches too, instead of only their number.
    """
    document = _Document(chat, records)
    parts = [*document.head(), *document.messages(chat.path(), 2)]
    if branches:
        parts += document.other_branches()
    parts += document.table()
    return "\n\n".join(part for part in parts if part) + "\n"


class _Document:
    """The parts of a document, each a block of Markdown."""

    def __init__(self, chat: Chat, records: Mapping[str, TurnRecord]) -> None:
        self._chat = chat
        self._records = records
        self._numbers = {turn_id: number for number, turn_id in enumerate(records, 1)}

    def head(self) -> Iterator[str]:
        """Title, date, models, settings, and the system prompt."""
        yield f"# {escaped(self._chat.title) or 'Chat'}"
        facts = [
            (name, value)
            for name, value in (
                ("Date", self._dates()),
                ("Model", ", ".join(map(escaped, self._models()))),
                ("Sampling", escaped(self._sampling())),
            )
            if value
        ]
        yield "\n".join(f"- **{name}:** {value}" for name, value in facts)
        if self._chat.system:
            yield "## System prompt"
            yield contained(self._chat.system, 2)

    def _dates(self) -> str:
        days = list(dict.fromkeys(_date(record.started_at) for record in self._records.values()))
        return days[0] if len(days) == 1 else f"{days[0]} – {days[-1]}" if days else ""

    def _models(self) -> list[str]:
        """All that answered, in order, with their quantization where it is known."""
        told = {
            record.model.name: f"{record.model.name} {record.model.quantization}".strip()
            for record in self._records.values()
            if record.model is not None
        }
        named = [node.model for node in self._chat.nodes() if node.model]
        return [told.get(name, name) for name in dict.fromkeys([*told, *named])]

    def _sampling(self) -> str:
        """The settings of the last turn, and those chosen for the chat, which are to come."""
        used: dict[str, Any] = {}
        for record in self._records.values():
            used = msgspec.structs.asdict(record.sampling)
        # The seed is another one in each turn, unless one was chosen.
        used.pop("seed", None)
        used |= self._chat.sampling.chosen
        plain = msgspec.structs.asdict(SamplingSettings())
        return " · ".join(
            f"{name} {value}"
            for name, value in used.items()
            if name in ALWAYS_TOLD or value != plain.get(name)
        )

    # ------------------------------------------------------------------------- messages

    def messages(self, nodes: list[Node], level: int) -> Iterator[str]:
        """Messages under headings of a level."""
        for node in nodes:
            yield f"{'#' * level} {_speaker(node)}"
            if node.role == "user":
                yield contained(node.content, level)
            else:
                yield from self._answer(node, level)
            others = len(self._chat.versions(node.id)) - 1
            if others:
                yield f"*{others} other version{'s' if others > 1 else ''} of this message*"

    def _answer(self, node: Node, level: int) -> Iterator[str]:
        thinking, answer = split_thinking(node.content, node.lead)
        records = [self._records[turn] for turn in node.turn_ids if turn in self._records]
        if thinking.strip():
            tokens = sum(record.thinking_n for record in records)
            told = f" ({count(tokens)} tokens)" if tokens else ""
            yield f"<details>\n<summary>Thinking{told}</summary>"
            yield contained(thinking, level)
            yield "</details>"
        yield contained(answer, level)
        if node.state == "partial":
            yield "*phasescope ended before this answer did*"
        elif not records and node.state == "cut":
            yield "*cut off*"
        for record in records:
            line = f"turn {self._numbers[record.id]} · {figures_line(record, why=True)}"
            yield f"*{escaped(line)}*"

    def other_branches(self) -> Iterator[str]:
        """What is not on the branch in use, each message once."""
        printed = {node.id for node in self._chat.path()}
        nodes = self._chat.nodes()
        followed = {node.parent for node in nodes}
        number = 0
        for leaf in nodes:
            if leaf.id in followed or leaf.id in printed:
                continue
            branch = [node for node in self._chat.path_to(leaf.id) if node.id not in printed]
            printed |= {node.id for node in branch}
            number += 1
            yield f"## Branch {number}: {self._instead_of(branch[0])}"
            yield from self.messages(branch, 3)

    def _instead_of(self, node: Node) -> str:
        """Where a branch begins."""
        if node.parent is None:
            return "from the beginning"
        before = self._chat.node(node.parent)
        if before.role == "user":
            return f"another answer to “{escaped(title_of(before.content))}”"
        return f"another message after “{escaped(title_of(before.content))}”"

    # --------------------------------------------------------------------------- figures

    def table(self) -> Iterator[str]:
        """The figures of all turns, those of other branches and failed ones too."""
        if not self._records:
            return
        yield "## Figures"
        head = ("turn", "model", "ttft", "prefill", "decode", "reused", "end")
        rows = [head, ("--:", "---", "--:", "--:", "--:", "---", "---")]
        for number, record in enumerate(self._records.values(), 1):
            rows.append(
                (
                    str(number),
                    escaped(record.model.name) if record.model else "",
                    milliseconds(record.timings.ttft_ms),
                    prefill_of(record),
                    decode_of(record),
                    reuse_of(record, why=True),
                    escaped(end_of(record)),
                )
            )
        yield "\n".join(f"| {' | '.join(row)} |" for row in rows)
        if any(short_prefill(record) for record in self._records.values()):
            yield "≈ the prefill rate of fewer than 32 tokens, which is a decode rate in disguise"


def _speaker(node: Node) -> str:
    return "You" if node.role == "user" else escaped(node.model) or "Assistant"


def _date(started_at: str) -> str:
    """Day and time of a turn, as its own clock showed them."""
    try:
        return datetime.fromisoformat(started_at).strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return escaped(started_at)


# ---------------------------------------------------------------------------------- the file


def file_name(title: str, chat_id: str) -> str:
    """A name for the file of a chat that every system takes, made from its title."""
    kept = "".join(
        char if unicodedata.category(char)[0] in "LNM" or char in "._" else "-"
        for char in unicodedata.normalize("NFKC", title)
    )
    name = "-".join(filter(None, kept.split("-"))).strip(".-_ ")
    while len(name.encode()) > LONGEST_NAME:
        name = name[:-1].rstrip(".-_")
    if not name:
        name = f"chat-{chat_id[:8]}"
    if name.split(".")[0].lower() in RESERVED:
        name = f"chat-{name}"
    return name + SUFFIX


def write_file(path: Path, text: str, *, force: bool = False) -> None:
    """Write a text to a file: wholly, or not at all.

    Args:
        path: The file.
        text: What it is to hold.
        force: Replace a file that is there.

    Raises:
        ExportError: It is there already, or cannot be written.
    """
    made = path.parent / f".phasescope-{uuid4().hex}.part"
    try:
        _check(path, force=force)
        with made.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        _put_in_place(made, path, force=force)
    except FileExistsError as error:
        raise ExportError(f"{path} is there already") from error
    except OSError as error:
        raise ExportError(f"{path} cannot be written: {error.strerror or error}") from error
    except ValueError as error:
        # A NUL, or what no encoding has.
        raise ExportError(f"{path} cannot be written: no file has such a name") from error
    finally:
        with suppress(OSError, ValueError):
            made.unlink(missing_ok=True)


def _check(path: Path, *, force: bool) -> None:
    """Refuse a place where no file can be put.

    Raises:
        ExportError: Something is there already.
        OSError: The system does not tell.
    """
    if path.is_dir():
        raise ExportError(f"{path} is a folder: name a file in it")
    if path.exists() and not path.is_file():
        raise ExportError(f"{path} is no file that can be replaced")
    if not force and os.path.lexists(path):
        raise ExportError(f"{path} is there already")


def _put_in_place(made: Path, path: Path, *, force: bool) -> None:
    """Give a finished file its name. Without force nothing that came meanwhile is replaced."""
    if not force:
        try:
            os.link(made, path)
        except FileExistsError:
            raise
        except OSError:
            # No links on this file system: the name is taken first.
            path.open("xb").close()
        else:
            return
    made.replace(path)
