"""Turns files: a conversation as a JSON array, driven without a window."""

import codecs
from pathlib import Path
from typing import Any

import msgspec

from backend.settings import (
    LARGEST,
    LIMITS,
    EngineSettings,
    Limits,
    SamplingChoice,
    SamplingSettings,
)
from models.memory import CACHE_TYPES


class TurnsError(Exception):
    """A turns file is not usable; the text is one sentence that names the entry."""


class UserTurn(msgspec.Struct, frozen=True):
    """A user's message, perhaps one that replaces message `edit` on a new branch."""

    user: str
    edit: int | None = None
    cancel_after_tokens: int | None = None
    cancel_at_prompt_token: int | None = None


class SystemChange(msgspec.Struct, frozen=True):
    """The system prompt of the turns that follow."""

    system: str


class Regenerate(msgspec.Struct, frozen=True):
    """The last message is answered again."""


class DropCache(msgspec.Struct, frozen=True):
    """The KV cache is emptied."""


class NewChat(msgspec.Struct, frozen=True):
    """Another chat begins."""


class ModelChange(msgspec.Struct, frozen=True):
    """Another model answers from now on."""

    model: str


class SettingsChange(msgspec.Struct, frozen=True):
    """Settings of the engine and of sampling that change; the others stay."""

    engine: dict[str, Any]
    sampling: dict[str, Any]

    def apply_to_engine(self, settings: EngineSettings) -> EngineSettings:
        """The engine's settings after the change."""
        return msgspec.structs.replace(settings, **self.engine)

    def apply_to_sampling(self, settings: SamplingChoice) -> SamplingChoice:
        """The sampling settings after the change."""
        return msgspec.structs.replace(settings, **self.sampling)


Entry = UserTurn | SystemChange | Regenerate | DropCache | NewChat | ModelChange | SettingsChange

FLAGS: dict[str, type[Regenerate | DropCache | NewChat]] = {
    "regenerate": Regenerate,
    "drop_cache": DropCache,
    "new_chat": NewChat,
}

WITH_USER = {"user", "edit", "cancel_after_tokens", "cancel_at_prompt_token"}


WHERE = {
    "cancel_after_tokens": Limits(1, LARGEST),
    "cancel_at_prompt_token": Limits(0, LARGEST),
}
"""Where a turn can stop by itself."""


def read_turns(path: Path) -> list[Entry]:
    """Read a turns file and check it whole.

    Raises:
        TurnsError: It cannot be read, or an entry is wrong.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TurnsError(f"{path} cannot be read: {error.strerror}") from error
    return parse_turns(data, str(path))


def parse_turns(data: bytes, name: str) -> list[Entry]:
    """The entries of a turns file's content.

    Args:
        data: JSON: an array of strings and objects.
        name: How the file is called in an error.

    Raises:
        TurnsError: An entry is wrong.
    """
    try:
        raw = msgspec.json.decode(data.removeprefix(codecs.BOM_UTF8))
    except (msgspec.DecodeError, RecursionError) as error:
        raise TurnsError(f"{name} is not JSON: {error}") from error
    if not isinstance(raw, list):
        raise TurnsError(f"{name} must be a JSON array of turns")
    entries: list[Entry] = []
    messages = 0
    for index, item in enumerate(raw):
        try:
            entry = _entry(item)
            messages = _messages_after(entry, messages)
        except (msgspec.ValidationError, ValueError) as error:
            raise TurnsError(f"{name}, entry {index}: {error}") from error
        entries.append(entry)
    return entries


def _messages_after(entry: Entry, before: int) -> int:
    """User messages on the chat's branch after an entry, if all goes well.

    Raises:
        ValueError: The entry needs a message that cannot be there.
    """
    match entry:
        case NewChat():
            return 0
        case Regenerate() if not before:
            raise ValueError("there is no message to answer again")
        case UserTurn(edit=int(index)):
            if not 0 <= index < before:
                raise ValueError(f"there is no user message {index}; the chat has {before} so far")
            return index + 1
        case UserTurn():
            return before + 1
        case _:
            return before


def _entry(item: object) -> Entry:
    if isinstance(item, str):
        item = {"user": item}
    if not isinstance(item, dict) or not item:
        raise ValueError("must be a string or an object")
    keys = set(item)
    if "user" in keys:
        return _user_turn(item, keys)
    if keys <= WITH_USER:
        raise ValueError(f'"{min(keys)}" has no "user" with the text of the message')
    flag = next((name for name in FLAGS if name in keys), None)
    if flag is not None:
        _only(keys, {flag})
        if item[flag] is not True:
            raise ValueError(f'"{flag}" must be true')
        return FLAGS[flag]()
    if "system" in keys:
        _only(keys, {"system"})
        return msgspec.convert(item, SystemChange)
    if "model" in keys:
        return _model_change(item, keys)
    if "set" in keys:
        _only(keys, {"set"})
        return _settings(item["set"])
    raise ValueError(f"unknown keys {', '.join(sorted(map(repr, keys)))}")


def _user_turn(item: dict[str, Any], keys: set[str]) -> UserTurn:
    _only(keys, WITH_USER)
    turn = msgspec.convert(item, UserTurn)
    if not turn.user.strip():
        raise ValueError("the message is empty")
    _within_limits(item)
    return turn


def _model_change(item: dict[str, Any], keys: set[str]) -> ModelChange:
    _only(keys, {"model"})
    change = msgspec.convert(item, ModelChange)
    if not change.model:
        raise ValueError('"model" is empty')
    return change


def _within_limits(values: dict[str, Any]) -> None:
    for name, limits in (*LIMITS.items(), *WHERE.items()):
        value = values.get(name)
        if value is None:
            continue
        if limits.above and value <= limits.least:
            raise ValueError(f'"{name}" must be more than {limits.least}')
        if value < limits.least:
            raise ValueError(f'"{name}" must be at least {limits.least}')
        if value > limits.most:
            raise ValueError(f'"{name}" must be at most {limits.most}')


def _only(keys: set[str], allowed: set[str]) -> None:
    extra = sorted(keys - allowed)
    if extra:
        raise ValueError(f"unknown key {extra[0]!r}")


def _settings(changes: object) -> SettingsChange:
    if not isinstance(changes, dict) or not changes:
        raise ValueError('"set" must be an object of settings')
    engine_names = set(EngineSettings.__struct_fields__)
    sampling_names = set(SamplingSettings.__struct_fields__)
    unknown = sorted(set(changes) - engine_names - sampling_names)
    if unknown:
        known = ", ".join(sorted(engine_names | sampling_names))
        raise ValueError(f"unknown setting {unknown[0]!r}; there are {known}")
    engine = {name: value for name, value in changes.items() if name in engine_names}
    sampling = {name: value for name, value in changes.items() if name in sampling_names}
    checked_engine = msgspec.convert(engine, EngineSettings)
    checked_sampling = msgspec.convert(sampling, SamplingSettings)
    _within_limits(changes)
    for cache_type in (checked_engine.type_k, checked_engine.type_v):
        if cache_type not in CACHE_TYPES:
            raise ValueError(f"{cache_type} is no cache type; there are {', '.join(CACHE_TYPES)}")
    return SettingsChange(
        {name: getattr(checked_engine, name) for name in engine},
        {name: getattr(checked_sampling, name) for name in sampling},
    )
