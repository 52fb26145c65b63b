"""`phasescope chats`: the stored chats, without a window."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec
from click.core import ParameterSource
from rich.cells import cell_len, set_cell_size

from backend.chat.thinking import split_thinking
from backend.chat.tree import Chat, Node
from backend.history import ChatRow, History, HistoryError, SearchHit
from backend.metrics.record import TurnRecord
from backend.paths import database_path
from tui.export import ExportError, as_markdown, file_name, write_file
from tui.figures import DASH, figures_line
from tui.text import harmless

SHORT_ID = 8
"""Characters of an id in a table, more where these are not enough to tell chats apart."""

LEAST_TITLE = 16
LONGEST_MODEL = 24

WITH_DATE = 100
"""Columns from which the date stands beside how long ago it was."""

MINUTE, HOUR, DAY = 60, 3600, 86400

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
deleted_option = click.option("--deleted", is_flag=True, help="Those that were deleted.")


@click.group(invoke_without_command=True)
@as_json_option
@deleted_option
@click.pass_context
def chats(ctx: click.Context, *, as_json: bool, deleted: bool) -> None:
    """List, read, search, export and delete stored chats.

    ID is a chat's id, a beginning of it, or `last`. Without a command, the chats are listed.
    """
    if ctx.invoked_subcommand is None:
        list_chats(as_json=as_json, deleted=deleted)
        return
    for parameter in ctx.command.params:
        if ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"{parameter.opts[0]} stands before {ctx.invoked_subcommand}; options of a "
                "command stand behind it"
            )


@chats.command("list")
@as_json_option
@deleted_option
def list_command(*, as_json: bool, deleted: bool) -> None:
    """List all chats, the one used last first."""
    list_chats(as_json=as_json, deleted=deleted)


def list_chats(*, as_json: bool, deleted: bool) -> None:
    """Print the list of chats."""
    with _stored() as history:
        rows = history.chats(deleted=deleted)
    if as_json:
        _print_json({"chats": [row._asdict() for row in rows]})
    elif rows:
        _print(table(rows, _columns(), datetime.now(UTC)))
    else:
        click.echo("no chat was deleted" if deleted else "there is no chat yet", err=True)


@chats.command()
@click.argument("chat", metavar="ID")
@as_json_option
def show(chat: str, *, as_json: bool) -> None:
    """Print a chat as text, with the figures of its turns."""
    with _stored() as history:
        row, tree, records = _load(history, chat)
    if as_json:
        _print_json(_described(row, tree, records))
    else:
        _print(_as_text(row, tree, records))


@chats.command()
@click.argument("chat", metavar="ID")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, allow_dash=True),
    help="The file, or - for standard output. Default: a file here, named after the chat.",
)
@click.option("--branches", is_flag=True, help="The messages of all other branches too.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def export(chat: str, output: Path | None, *, branches: bool, force: bool) -> None:
    """Write a chat as Markdown, with the figures of its turns."""
    with _stored() as history:
        row, tree, records = _load(history, chat)
    text = as_markdown(tree, records, branches=branches)
    if output == Path("-"):
        _print(text.removesuffix("\n"))
        return
    path = output or Path(file_name(row.title, row.id))
    try:
        write_file(path, text, force=force)
    except ExportError as error:
        ending = "" if force or not path.is_file() else ": name another with -o, or give --force"
        raise click.ClickException(harmless(str(error)) + ending) from error
    _print(str(path))


@chats.command()
@click.argument("found", metavar="ID...", nargs=-1, required=True)
def rm(found: tuple[str, ...]) -> None:
    """Delete chats. They can be restored for 30 days."""
    with _stored() as history:
        rows = [history.chat_row(history.find_chat(text)) for text in found]
        for row in rows:
            history.delete(row.id)
    for row in dict.fromkeys(rows):
        undo = f"to undo: phasescope chats restore {row.id[:SHORT_ID]}"
        _print(f"deleted {_named(row)}; {undo}")


@chats.command()
@click.argument("found", metavar="ID...", nargs=-1, required=True)
def restore(found: tuple[str, ...]) -> None:
    """Bring deleted chats back; `last` is the one deleted last."""
    with _stored() as history:
        rows = [history.chat_row(history.find_chat(text, deleted=True)) for text in found]
        for row in rows:
            history.restore(row.id)
    for row in dict.fromkeys(rows):
        _print(f"restored {_named(row)}")


@chats.command()
@click.argument("chat", metavar="ID")
@click.argument("title")
def rename(chat: str, title: str) -> None:
    """Give a chat another title."""
    if not title.strip():
        raise click.UsageError("the title is empty")
    with _stored() as history:
        chat_id = history.find_chat(chat)
        history.rename(chat_id, title)
        row = history.chat_row(chat_id)
    _print(f"renamed to {_named(row)}")


@chats.command()
@click.argument("text", nargs=-1, required=True)
@as_json_option
@deleted_option
def search(text: tuple[str, ...], *, as_json: bool, deleted: bool) -> None:
    """Look for TEXT in all messages on all branches, titles and system prompts.

    All words have to be there, in any case and order; a "phrase in quotes" as it stands.
    """
    query = " ".join(text)
    if not query.strip(' "'):
        raise click.UsageError("there is nothing to look for")
    with _stored() as history:
        hits = list(history.search(query, deleted=deleted))
    if as_json:
        _print_json({"query": query, "hits": [_described_hit(hit) for hit in hits]})
    elif hits:
        _print("\n".join(_hit_lines(hits)))
    else:
        click.echo("nothing was found", err=True)


# ------------------------------------------------------------------------------ the store


@contextmanager
def _stored() -> Iterator[History]:
    """The store; what is wrong with it is said in one line."""
    try:
        history = History(database_path())
    except (HistoryError, OSError) as error:
        raise click.ClickException(harmless(str(error))) from error
    try:
        yield history
    except HistoryError as error:
        raise click.ClickException(harmless(str(error))) from error
    finally:
        history.close()
        for problem in history.problems:
            click.echo(f"phasescope: {harmless(problem)}", err=True)


def _load(history: History, text: str) -> tuple[ChatRow, Chat, dict[str, TurnRecord]]:
    chat_id = history.find_chat(text)
    return (
        history.chat_row(chat_id),
        history.load_chat(chat_id),
        history.records_by_id(chat_id),
    )


# ------------------------------------------------------------------------------- printing


def _print(text: str) -> None:
    """Print what came from outside: a terminal must not obey it, a file gets it as it is."""
    click.echo(harmless(text) if sys.stdout.isatty() else text, color=True)


def _print_json(value: dict[str, Any]) -> None:
    click.echo(msgspec.json.encode(value).decode(), color=True)


def _columns() -> int | None:
    """Width of the terminal; None where nothing has to fit."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _named(row: ChatRow) -> str:
    return f"“{_title(row)}” ({row.id[:SHORT_ID]})"


def _title(row: ChatRow) -> str:
    return " ".join(row.title.split()) or "(no title)"


def table(rows: Sequence[ChatRow], columns: int | None, now: datetime) -> str:
    """The list of chats.

    Args:
        rows: The chats.
        columns: Cells that a line may take; None: as many as it needs.
        now: The moment that "ago" counts from.
    """
    size = short_length([row.id for row in rows])
    cells = [["id", "title", "when", "date", "messages", "model"]]
    for row in rows:
        when = _moment(row.deleted_at or row.updated_at)
        cells.append(
            [
                row.id[:size],
                harmless(_title(row)) if columns is not None else _title(row),
                DASH if when is None else ago((now - when).total_seconds()),
                DASH if when is None else when.strftime("%Y-%m-%d %H:%M"),
                f"{row.messages:,}",
                harmless(row.model) if columns is not None else row.model,
            ]
        )
    shown = [0, 1, 2, 3, 4, 5]
    widths = [max(cell_len(line[at]) for line in cells) for at in range(6)]
    if columns is not None:
        widths[5] = min(widths[5], LONGEST_MODEL)
        if columns < WITH_DATE:
            shown.remove(3)
        # The model goes first where there is no room, then how many messages there are.
        for at in (5, 4, 2):
            if _title_room(widths, shown, columns) < min(widths[1], LEAST_TITLE):
                shown.remove(at)
        widths[1] = max(1, min(widths[1], _title_room(widths, shown, columns)))
    return "\n".join(
        "  ".join(_fitted(line[at], widths[at], right=at == 4) for at in shown).rstrip()
        for line in cells
    )


def _moment(stored: str) -> datetime | None:
    """A moment as this place's clocks showed it; None where a damaged store has none."""
    try:
        return datetime.fromisoformat(stored).astimezone()
    except (ValueError, OverflowError):
        return None


def _title_room(widths: Sequence[int], shown: Sequence[int], columns: int) -> int:
    return columns - sum(widths[at] + 2 for at in shown if at != 1)


def _fitted(text: str, width: int, *, right: bool = False) -> str:
    """A text in so many cells, cut where it is longer."""
    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…"
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def short_length(ids: Sequence[str]) -> int:
    """Characters that tell ids apart from their beginnings."""
    size = SHORT_ID
    while len({chat_id[:size] for chat_id in ids}) < len(set(ids)):
        size += 1
    return size


def ago(seconds: float) -> str:
    """How long ago something was, in words."""
    if seconds < MINUTE:
        return "just now"
    if seconds < HOUR:
        return f"{seconds // MINUTE:.0f} min ago"
    if seconds < DAY:
        return f"{seconds // HOUR:.0f} h ago"
    days = int(seconds // DAY)
    if days < 2:
        return "yesterday"
    for length, name in ((365, "year"), (30, "month"), (7, "week")):
        if days >= length:
            number = days // length
            return f"{number} {name}{'s' if number > 1 else ''} ago"
    return f"{days} days ago"


def _as_text(row: ChatRow, chat: Chat, records: dict[str, TurnRecord]) -> str:
    """A chat to read in a terminal."""
    parts = [f"{_title(row)} ({row.id})"]
    if chat.system:
        parts.append(f"System prompt:\n{chat.system}")
    parts += ["\n".join(_message_lines(chat, node, records)) for node in chat.path()]
    return "\n\n".join(parts)


def _message_lines(chat: Chat, node: Node, records: dict[str, TurnRecord]) -> Iterator[str]:
    versions = chat.versions(node.id)
    which = f" (version {versions.index(node.id) + 1} of {len(versions)})" if versions[1:] else ""
    if node.role == "user":
        yield f"You{which}:"
        yield node.content
        return
    yield f"{node.model or 'Assistant'}{which}:"
    thinking, answer = split_thinking(node.content, node.lead)
    if thinking.strip():
        yield f"(thinking) {thinking.strip()}"
        yield "(answer)"
    yield answer.strip("\n")
    for turn_id in node.turn_ids:
        if turn_id in records:
            yield f"  {figures_line(records[turn_id], why=True)}"


def _hit_lines(hits: Sequence[SearchHit]) -> Iterator[str]:
    size = short_length([hit.chat.id for hit in hits])
    before: ChatRow | None = None
    for hit in hits:
        if hit.chat != before:
            before = hit.chat
            yield f"{hit.chat.id[:size]}  {_title(hit.chat)}"
        who = {"user": "you", "assistant": "answer"}.get(hit.role, hit.role)
        if hit.role != "title":
            yield f"    {who}: {hit.excerpt}"


# ----------------------------------------------------------------------------------- JSON


def _described(row: ChatRow, chat: Chat, records: dict[str, TurnRecord]) -> dict[str, Any]:
    in_use = {node.id for node in chat.path()}
    messages = [msgspec.to_builtins(node) | {"in_use": node.id in in_use} for node in chat.nodes()]
    for message in messages:
        del message["token_ids"]
    return row._asdict() | {
        "system": chat.system,
        "sampling": chat.sampling,
        "messages": messages,
        "turns": list(records.values()),
    }


def _described_hit(hit: SearchHit) -> dict[str, Any]:
    return {
        "chat": hit.chat.id,
        "title": hit.chat.title,
        "node": hit.node_id,
        "role": hit.role,
        "excerpt": hit.excerpt,
    }
