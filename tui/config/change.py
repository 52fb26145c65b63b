"""Settings that change while the window runs: saved, and read again with what stands above."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from msgspec import UNSET

from tui.config.kinds import Stored
from tui.config.load import Flag, Loaded, Origin, load_settings
from tui.config.schema import NAMED, Settings
from tui.text import one_line


class NotSavedError(Exception):
    """A setting was not saved; the text is one sentence."""


ABOVE = ("environment", "flag")
"""Layers above the file: what they set cannot be changed in it."""


def value_of(settings: Settings, name: str) -> Stored:
    """A value by its id; `UNSET` for a preset or for keys that are not set."""
    section, _, rest = name.partition(".")
    if section in NAMED:
        return getattr(settings, section).get(rest, UNSET)
    return getattr(getattr(settings, section), rest)


def in_file(loaded: Loaded, name: str) -> Stored:
    """What the file says of a setting, unless a layer above it speaks; `UNSET`: nothing."""
    origin = loaded.origins.get(name)
    return value_of(loaded.settings, name) if origin and origin.source == "file" else UNSET


def refusal(origin: Origin | None) -> str | None:
    """Why a setting cannot be changed in the file, in one sentence; None: it can."""
    if origin is None or origin.source not in ABOVE:
        return None
    kind = "the flag" if origin.source == "flag" else "the environment variable"
    return f"{kind} {origin.where} sets this; it comes before the settings file"


def read_again(loaded: Loaded, themes: Collection[str]) -> Loaded:
    """The settings with the file as it is now, and the layers above it as they were.

    Args:
        loaded: What was in force.
        themes: All themes that there are.
    """
    above = {name: origin for name, origin in loaded.origins.items() if origin.source in ABOVE}
    flags = {
        name: Flag(value_of(loaded.settings, name), origin.where) for name, origin in above.items()
    }
    fresh = load_settings(flags, path=loaded.path, environ={})
    place = one_line(str(loaded.path))
    others = [problem for problem in loaded.problems if not problem.startswith((place, "and "))]
    fresh = fresh._replace(
        origins=MappingProxyType({**fresh.origins, **above}),
        problems=(*others, *fresh.problems),
    )
    # Only own keys are worth the imports.
    from tui.config.known import bindings_of_the_window, checked  # noqa: PLC0415

    return checked(fresh, themes, bindings_of_the_window() if fresh.settings.keys else {})


def changed(loaded: Loaded, changes: Mapping[str, Stored], themes: Collection[str]) -> Loaded:
    """Save settings and read them again.

    Args:
        loaded: What is in force.
        changes: As `save` takes them.
        themes: All themes that there are.

    Raises:
        NotSavedError: The file is as it was.
    """
    # It brings tomlkit, which a start has no use for.
    from tui.config.save import SaveError, save  # noqa: PLC0415

    try:
        save(loaded.path, changes)
    except SaveError as error:
        raise NotSavedError(str(error)) from error
    return read_again(loaded, themes)
