"""The settings in force: defaults, then the file, then the environment, then flags.

What is wrong is named in one sentence with its place, and everything else still counts.
"""

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec

from backend.paths import DATA_VARIABLE, SETTINGS_VARIABLE, settings_path
from tui.config.kinds import File, SettingError, Stored, did_you_mean, quoted
from tui.config.schema import (
    BY_ID,
    BY_VARIABLE,
    DEFAULTS,
    NAMED,
    SECTIONS,
    VARIABLES,
    Settings,
    names_of,
)
from tui.text import one_line

LARGEST_BYTES = 1 << 20
"""More than this is no settings file."""

MOST_PROBLEMS = 20

OTHER_VARIABLES = frozenset({DATA_VARIABLE, SETTINGS_VARIABLE})
"""Environment variables that begin as settings do and are none."""


class Origin(NamedTuple):
    """Where a value is from.

    Attributes:
        source: The layer.
        where: File and line, the variable's name or the flag.
    """

    source: Literal["default", "file", "environment", "flag"]
    where: str = ""

    def __str__(self) -> str:
        return self.where or self.source


DEFAULT = Origin("default")


class Flag(NamedTuple):
    """A value from the command line, checked.

    Attributes:
        spelling: The flag.
    """

    value: Stored
    spelling: str


Flags = Mapping[str, Flag]
"""The flags that were given, by the setting's id."""

NO_FLAGS: Flags = MappingProxyType({})


class Loaded(NamedTuple):
    """The settings in force.

    Attributes:
        problems: What is wrong, a sentence each with its place.
        origins: Where each value is from, by the setting's id; presets and keys only where they
            are set.
        path: The settings file, which need not be there.
    """

    settings: Settings
    problems: tuple[str, ...]
    origins: Mapping[str, Origin]
    path: Path


class _Layers:
    """Values and their origins, each layer over the ones before."""

    def __init__(self) -> None:
        self.values: dict[str, Stored] = {}
        self.origins: dict[str, Origin] = {}
        self.problems: list[str] = []

    def put(self, name: str, value: Stored, origin: Origin) -> None:
        self.values[name] = value
        self.origins[name] = origin

    def problem(self, where: str, text: str) -> None:
        self.problems.append(one_line(f"{where}: {text}"))

    def settings(self) -> Settings:
        sections: dict[str, dict[str, Stored]] = {section: {} for section in SECTIONS}
        for name, value in self.values.items():
            section, _, rest = name.partition(".")
            sections[section][rest] = value
        return msgspec.structs.replace(
            DEFAULTS,
            **{
                section: MappingProxyType(values)
                if section in NAMED
                else msgspec.structs.replace(getattr(DEFAULTS, section), **values)
                for section, values in sections.items()
            },
        )


def load_settings(
    flags: Flags = NO_FLAGS,
    *,
    path: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """Put the layers together; a problem never keeps the rest from counting.

    Args:
        flags: What the command line says.
        path: The settings file; None: where it belongs.
        environ: The environment; None: the process's.
    """
    environ = os.environ if environ is None else environ
    layers = _Layers()
    is_named = path is None and bool(environ.get(SETTINGS_VARIABLE))
    path = path or settings_path()
    text = _read(path, layers)
    if text is None and is_named and not layers.problems:
        layers.problem(SETTINGS_VARIABLE, f"there is no file {path}")
    if text is not None:
        _add_file(text, path, layers)
    _add_environment(environ, layers)
    for name, flag in flags.items():
        layers.put(name, flag.value, Origin("flag", flag.spelling))
    return Loaded(
        layers.settings(),
        _bounded(layers.problems),
        MappingProxyType({**dict.fromkeys(BY_ID, DEFAULT), **layers.origins}),
        path,
    )


def _bounded(problems: list[str]) -> tuple[str, ...]:
    more = len(problems) - MOST_PROBLEMS
    if more <= 0:
        return tuple(problems)
    return (*problems[:MOST_PROBLEMS], f"and {more} more problem{'s' if more > 1 else ''}")


# ------------------------------------------------------------------------------------ file


def _read(path: Path, layers: _Layers) -> str | None:
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            layers.problem(str(path), "this is not a file; no settings were read")
            return None
        if facts.st_size > LARGEST_BYTES:
            layers.problem(str(path), "this is too large for a settings file; it was not read")
            return None
        return path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        layers.problem(str(path), "this is not UTF-8 text; no settings were read")
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else error
        layers.problem(str(path), f"it cannot be read: {cause}")
    return None


def _add_file(text: str, path: Path, layers: _Layers) -> None:
    # Only a file that is there is worth the import.
    from tui.config.statements import read_statements  # noqa: PLC0415

    statements = read_statements(text)
    problems = [(fault.line, fault.text) for fault in statements.faults]
    unknown: set[str] = set()
    for entry in statements.entries:
        section, *names = entry.path
        if section not in SECTIONS:
            if section not in unknown:
                unknown.add(section)
                is_head = bool(names) or isinstance(entry.value, dict)
                problems.append((entry.line, _unknown_section(section, is_head=is_head)))
            continue
        if not names and isinstance(entry.value, dict):
            continue
        try:
            name, value = _file_value(section, names, entry.value, path.parent)
        except SettingError as error:
            problems.append((entry.line, str(error)))
        else:
            layers.put(name, value, Origin("file", f"{path}:{entry.line}"))
    for line, problem in sorted(problems, key=lambda one: one[0]):
        layers.problem(f"{path}:{line}", problem)


def _unknown_section(section: str, *, is_head: bool) -> str:
    homes = [other.section for other in BY_ID.values() if other.name == section]
    if homes and not is_head:
        return f"{section!r} stands outside of its section, [{homes[0]}]"
    if is_head:
        return f"there is no section [{section}]{did_you_mean(section, SECTIONS)}"
    known = [setting.name for setting in BY_ID.values()]
    return f"there is no setting {quoted(section)}{did_you_mean(section, known)}"


def _file_value(
    section: str, names: Sequence[str], value: object, folder: Path
) -> tuple[str, Stored]:
    """The id of a setting and its checked value.

    Raises:
        SettingError: A sentence on what is wrong.
    """
    if not names:
        raise SettingError(f"[{section}] is a section, not a value")
    name = ".".join(names)
    if section in NAMED:
        return f"{section}.{name}", named_value(section, name, value)
    setting = BY_ID.get(f"{section}.{name}")
    if setting is None:
        raise SettingError(
            f"there is no setting {quoted(name)} in [{section}]"
            f"{_elsewhere(name) or did_you_mean(name, names_of(section))}"
        )
    kind = setting.kind
    if isinstance(kind, File):
        value = kind.placed(value, folder)
    try:
        return setting.id, kind.check(value)
    except SettingError as error:
        raise SettingError(f"{name} = {quoted(value)} {error}") from None


def named_value(section: str, name: str, value: object) -> str:
    """The checked value of a preset or of a binding's keys.

    Raises:
        SettingError: A sentence on what is wrong.
    """
    if not name.strip():
        raise SettingError(f"a name in [{section}] is empty")
    if section == "keys" and isinstance(value, list) and all(isinstance(k, str) for k in value):
        value = ",".join(value)
    if not isinstance(value, str):
        raise SettingError(f"{quoted(name)} = {quoted(value)} must be a text in quotes")
    if section == "keys":
        value = ",".join(key.strip() for key in value.split(","))
    return value


def _elsewhere(name: str) -> str:
    homes = [setting.section for setting in BY_ID.values() if setting.name == name]
    return f"; it belongs in [{homes[0]}]" if homes else ""


# ----------------------------------------------------------------------------- environment


def _add_environment(environ: Mapping[str, str], layers: _Layers) -> None:
    for variable in _ours(environ):
        text = environ[variable]
        setting = BY_VARIABLE.get(variable)
        if setting is None:
            layers.problem(
                variable,
                f"there is no such setting{did_you_mean(variable, BY_VARIABLE)}",
            )
        elif text:
            try:
                value = setting.kind.read(text)
            except SettingError as error:
                layers.problem(variable, f"{quoted(text)} {error}")
            else:
                layers.put(setting.id, value, Origin("environment", variable))


def _ours(environ: Iterable[str]) -> list[str]:
    """The variables of phasescope but those that are no settings."""
    return sorted(
        name for name in environ if name.startswith(VARIABLES) and name not in OTHER_VARIABLES
    )
