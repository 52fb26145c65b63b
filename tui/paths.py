"""Paths as suggestions for an argument; reads folders, so it is called in a thread."""

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from backend.chat.attachment import unquoted
from backend.paths import at_home
from models.starter import starter_path
from tui.slash import Suggestion, ranked
from tui.text import one_line

STARTER = "starter"
"""What the starter model is called where the path of a model is wanted."""

MAX_ENTRIES = 20_000
"""How many entries of a folder are looked at."""

MAX_SUGGESTIONS = 100


def model_path(named: str) -> Path:
    """The file of a model that is named by its path, or as the starter.

    Raises:
        FileNotFoundError: The current folder is gone.
    """
    starter = starter_path() if named == STARTER else None
    return (starter or at_home(named)).absolute()


def suggest_models(typed: str) -> list[Suggestion]:
    """What the path of a model can become: the starter, folders and GGUF files."""
    known = [Suggestion(STARTER, "The bundled model.")]
    starter = known if STARTER.startswith(typed.lstrip()) and starter_path() is not None else []
    return starter + suggest_paths(typed, lambda name: name.casefold().endswith(".gguf"))


def suggest_paths(typed: str, fits: Callable[[str], bool] = bool) -> list[Suggestion]:
    """What a path that is being typed can become: folders first, hidden names after a dot only.

    Args:
        typed: A path, relative to the current folder, with `~`, quotes or backslashes as in a
            shell. The suggestions need none of them.
        fits: Which names of files are meant.
    """
    typed = _begun(typed.lstrip())
    begun = os.path.basename(typed)  # noqa: PTH119
    prefix = typed[: len(typed) - len(begun)]
    if typed == "~":
        return [Suggestion("~/", more=True)]
    folders: list[str] = []
    files: list[str] = []
    try:
        with os.scandir(os.path.expanduser(prefix) or ".") as entries:  # noqa: PTH111
            for entry in islice(entries, MAX_ENTRIES):
                if _offered(entry.name, hidden=begun[:1] == "."):
                    if _is_folder(entry):
                        folders.append(entry.name)
                    elif fits(entry.name):
                        files.append(entry.name)
    except (OSError, ValueError):
        return []
    folders.sort()
    files.sort()
    found = [Suggestion(f"{prefix}{name}/", more=True) for name in ranked(begun, folders)]
    found += [Suggestion(f"{prefix}{name}") for name in ranked(begun, files)]
    return found[:MAX_SUGGESTIONS]


def _begun(typed: str) -> str:
    """A path that is not yet whole, without the quote before it or the backslashes in it."""
    if typed[:1] in ("'", '"'):
        return typed[1:].removesuffix(typed[0])
    return unquoted(typed)


def _offered(name: str, *, hidden: bool) -> bool:
    """Whether a name can be typed in one line, and is hidden or not as it should be."""
    return name.startswith(".") is hidden and one_line(name) == name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
