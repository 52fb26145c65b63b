"""Writes single settings into the settings file; its comments, order and all else stay."""

import json
import os
import re
import tomllib
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import tomlkit
from msgspec import UNSET
from tomlkit.exceptions import TOMLKitError

from tui.config.kinds import SettingError, Stored, quoted
from tui.config.load import named_value
from tui.config.schema import BY_ID, EXAMPLES, NAMED, SECTIONS, SETTINGS, Setting

_BOM = "\ufeff"


class SaveError(Exception):
    """A setting was not saved; the text is one sentence."""


def save(path: Path, changes: Mapping[str, Stored]) -> None:
    """Write settings into the file, which is made where it is not there.

    Args:
        path: The settings file.
        changes: Values by the setting's id (`sampling.temp`, `presets.NAME`,
            `keys.chat.regenerate`), as the settings hold them; `UNSET` takes a setting out.

    Raises:
        SaveError: A value is wrong, the file is broken, or it cannot be written. The file is
            then as it was.
    """
    written = {name: _written(name, value) for name, value in changes.items()}
    # A link stays one; what it points to is written.
    path = Path(os.path.realpath(path))
    before = _read(path)
    bom = _BOM if before is not None and before.startswith(_BOM) else ""
    text = template() if before is None else before.removeprefix(_BOM)
    text = _changed(text, written, path)
    _replace(path, bom + text)


def template() -> str:
    """A settings file that sets nothing: every setting with its default, commented out."""
    lines = ["# The settings of phasescope. Take the # from the front of a line to set it."]
    for section, help_text in SECTIONS.items():
        lines += ["", f"[{section}]", f"# {help_text}"]
        if section in NAMED:
            lines.append(f"# {EXAMPLES[section]}")
            continue
        for setting in SETTINGS:
            if setting.section == section:
                default = f" Default: {setting.unset}." if setting.unset else ""
                lines += [
                    f"# {setting.help}{default}",
                    f"# {setting.name} = {_sample(setting)}",
                ]
    return "\n".join(lines) + "\n"


def literal(value: object) -> str:
    """A value as TOML writes it, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, str):
        # JSON's escapes are TOML's too, but for DEL, which JSON leaves bare.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)


def _sample(setting: Setting) -> str:
    """What the template shows after the name."""
    plain = setting.kind.plain(setting.default)
    return literal(_SAMPLES.get(setting.id, "") if plain is None else plain)


_SAMPLES = {
    "model.path": "model.gguf",
    "model.n_ctx": 8192,
    "model.n_threads": 4,
    "model.n_threads_batch": 4,
    "model.chat_template": "chatml",
    "chat.system": "You are brief.",
}
"""Examples of settings whose default is no value."""


def _written(name: str, value: Stored) -> object:
    """A value as the file has it; None: it is taken out.

    Raises:
        SaveError: There is no such setting, or the value is wrong.
    """
    section, _, rest = name.partition(".")
    setting = BY_ID.get(name)
    if setting is None and (section not in NAMED or not rest):
        raise SaveError(f"there is no setting {quoted(name)}; nothing was saved")
    if value is UNSET:
        return None
    try:
        if setting is None:
            return named_value(section, rest, value)
        if value is None:
            return setting.kind.plain(None)
        return setting.kind.plain(setting.kind.check(value))
    except SettingError as error:
        shown = f"{quoted(value)} " if setting is not None else ""
        raise SaveError(f"{name}: {shown}{error}; nothing was saved") from None


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise SaveError(f"{path} is not UTF-8 text; nothing was saved") from None
    except OSError as error:
        raise SaveError(f"{path} cannot be read: {error.strerror}; nothing was saved") from error


def _changed(text: str, written: Mapping[str, object], path: Path) -> str:
    """The text with the values written into it."""
    for name, value in written.items():
        if value is not None and name in BY_ID:
            text = _uncommented(text, BY_ID[name])
    try:
        document = tomlkit.parse(text)
        for name, value in written.items():
            section, _, rest = name.partition(".")
            if value is None:
                _take(document, section, rest)
            else:
                _put(document, section, rest, value)
        after = tomlkit.dumps(document)
        tomllib.loads(after)
    except (TOMLKitError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise SaveError(
            f"{path} is not right in itself ({error}); nothing was saved, mend it first"
        ) from error
    except (TypeError, KeyError, ValueError) as error:
        raise SaveError(f"{path} has a value where a section belongs; nothing was saved") from error
    return after


def _uncommented(text: str, setting: Setting) -> str:
    """The text with the template's line of a setting made one that counts.

    Only where its section stands as the template has it, and does not set it already.
    """
    head = re.compile(rf"^\[{setting.section}\][ \t]*(?:#.*)?\r?$", re.MULTILINE).search(text)
    if head is None:
        return text
    following = re.compile(r"^[ \t]*\[", re.MULTILINE).search(text, head.end())
    end = following.start() if following else len(text)
    part = text[head.end() : end]
    if re.search(rf"^[ \t]*[\"']?{setting.name}[\"']?[ \t]*=", part, re.MULTILINE):
        return text
    line = re.compile(rf"^# ({setting.name} = .*)$", re.MULTILINE)
    changed = line.sub(lambda match: match[1], part, count=1)
    candidate = text[: head.end()] + changed + text[end:]
    try:
        tomllib.loads(candidate)
    except ValueError:
        return text
    return candidate


def _path(table: MutableMapping[str, Any], name: str) -> tuple[MutableMapping[str, Any], str]:
    """Where a name stands in its section: as it is, or as a dotted key of several tables."""
    inner, rest = table, name
    while rest not in inner and "." in rest:
        first, _, rest_of_it = rest.partition(".")
        if not isinstance(inner.get(first), MutableMapping):
            return table, name
        inner, rest = inner[first], rest_of_it
    return (inner, rest) if rest in inner else (table, name)


def _put(document: tomlkit.TOMLDocument, section: str, name: str, value: object) -> None:
    if section not in document:
        document[section] = tomlkit.table()
    table, key = _path(_section(document, section), name)
    table[key] = value


def _take(document: tomlkit.TOMLDocument, section: str, name: str) -> None:
    if section not in document:
        return
    table, key = _path(_section(document, section), name)
    if key in table:
        del table[key]


def _section(document: tomlkit.TOMLDocument, section: str) -> MutableMapping[str, Any]:
    table = document[section]
    if not isinstance(table, MutableMapping):
        raise TypeError(section)
    return table


def _replace(path: Path, text: str) -> None:
    """Write the file whole or not at all, with the mode that it has."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with fresh.open("wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            fresh.chmod(path.stat().st_mode & 0o7777)
        fresh.replace(path)
    except (OSError, UnicodeEncodeError) as error:
        with suppress(OSError):
            fresh.unlink()
        cause = error.strerror if isinstance(error, OSError) else "a text is not valid Unicode"
        raise SaveError(f"{path} cannot be written: {cause}; nothing was saved") from error
