"""Slash commands: what a message that begins with `/name` asks for."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

_COMMAND = re.compile(r"/([a-z-]+)(?: |\Z)")
_ESCAPED = re.compile(r"//+[a-z-]+(?: |\Z)")
_WOULD_BE = re.compile(r"/+[a-z-]+(?: |\Z)")


class Suggestion(NamedTuple):
    """Something that an argument can be.

    Attributes:
        text: The whole argument.
        help: A few words on it.
        more: It is only a beginning, such as a folder: the argument goes on behind it.
    """

    text: str
    help: str = ""
    more: bool = False


Completer = Callable[[str], Sequence[Suggestion]]
"""From what is typed of an argument to what it can be, best first; called in a thread."""


class SlashCommand(NamedTuple):
    """A command that can be written in the composer.

    Attributes:
        name: Of small letters and hyphens, without the slash.
        hint: What the argument is (`PATH`), in square brackets if it may be left out; None: there
            is no argument.
        help: In a sentence.
        complete: Suggests arguments.
        lines: The argument is all that follows; else it ends with the first line, and what is
            written below stays.
        free: The argument may be another one than those suggested: Enter runs the command with
            what is typed, unless a suggestion was chosen with the arrow keys.
    """

    name: str
    hint: str | None
    help: str
    complete: Completer | None = None
    lines: bool = False
    free: bool = False

    @property
    def needs_argument(self) -> bool:
        """Whether it cannot run without an argument."""
        return self.hint is not None and not self.hint.startswith("[")


class PlainMessage(NamedTuple):
    """It is no command: this is sent."""

    text: str


class Invocation(NamedTuple):
    """A command with its argument, empty if there is none."""

    command: SlashCommand
    argument: str


class Refusal(NamedTuple):
    """It looks like a command and cannot run.

    Attributes:
        sentence: Why.
        suggestions: Names that may have been meant, nearest first.
    """

    sentence: str
    suggestions: tuple[str, ...] = ()


Parsed = PlainMessage | Invocation | Refusal


def parse(text: str, commands: Sequence[SlashCommand]) -> Parsed:
    """What a message asks for.

    Only `/name` followed by a space or the end is a command; `//name` sends `/name`. Everything
    else, such as a path or ` /name`, is a message as it stands.
    """
    match = _COMMAND.match(text)
    if not commands or match is None:
        return PlainMessage(text[1:] if commands and _ESCAPED.match(text) else text)
    name = match[1]
    command = next((each for each in commands if each.name == name), None)
    if command is None:
        return _unknown(name, [each.name for each in commands])
    argument = text[match.end() :]
    if not command.lines:
        argument = argument.partition("\n")[0]
    argument = argument.strip(" ")
    if command.hint is None and argument:
        return Refusal(f"/{name} takes no argument; //{name} … sends it as a message.")
    if command.needs_argument and not argument.strip():
        return Refusal(f"/{name} needs its argument: /{name} {command.hint}.")
    return Invocation(command, argument)


def escaped(text: str, commands: Sequence[SlashCommand]) -> str:
    """A message as it must be written so that `parse` gives it back as a message."""
    return f"/{text}" if commands and _WOULD_BE.match(text) else text


def ranked(query: str, names: Iterable[str]) -> list[str]:
    """The names that a query can mean: those that begin with it, contain it, have its letters.

    Case decides only between names that are equal otherwise.
    """
    found: list[tuple[int, bool, int, str]] = []
    folded = query.casefold()
    for order, name in enumerate(names):
        rank = _rank(folded, name.casefold())
        if rank is not None:
            found.append((rank, not name.startswith(query), order, name))
    return [name for _rank_, _case, _order, name in sorted(found)]


def _rank(query: str, name: str) -> int | None:
    if name == query:
        return 0
    if name.startswith(query):
        return 1
    if query in name:
        return 2
    letters = iter(name)
    return 3 if all(letter in letters for letter in query) else None


def _unknown(name: str, names: Sequence[str]) -> Refusal:
    # Needed only now and then, and slow to import.
    from difflib import get_close_matches  # noqa: PLC0415

    near = get_close_matches(name, names, n=3, cutoff=0.5) or ranked(name, names)[:3]
    last = f"Did you mean /{near[0]}?" if near else f"//{name} sends it as a message."
    return Refusal(f"There is no command /{name}. {last}", tuple(near))
