"""The settings that only the window can check: themes and keys."""

import unicodedata
from collections.abc import Collection, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

import msgspec
from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import KEY_NAME_REPLACEMENTS, Keys

import tui.screens
import tui.widgets
from tui.config.kinds import did_you_mean, quoted
from tui.config.load import DEFAULT, Loaded
from tui.config.schema import DEFAULTS
from tui.text import one_line

MODIFIERS = frozenset({"ctrl", "shift", "alt", "super", "hyper", "meta"})

KEY_NAMES = frozenset({key.value for key in Keys} | set(KEY_NAME_REPLACEMENTS.values()))


def checked(loaded: Loaded, themes: Collection[str], bindings: Mapping[str, str]) -> Loaded:
    """The settings without a theme or keys that do not exist, each named as a problem.

    Args:
        loaded: What was read.
        themes: All themes that there are.
        bindings: The keys of each binding by its id, with commas between. Ids of one place have
            what stands before their dot in common.
    """
    problems: list[str] = []
    origins = dict(loaded.origins)
    settings = loaded.settings

    def refuse(name: str, sentence: str) -> None:
        problems.append(one_line(f"{origins[name]}: {sentence}"))

    theme = settings.window.theme
    if theme not in themes:
        refuse(
            "window.theme",
            f"there is no theme {quoted(theme)}{did_you_mean(theme, themes)}",
        )
        window = msgspec.structs.replace(settings.window, theme=DEFAULTS.window.theme)
        settings = msgspec.structs.replace(settings, window=window)
        origins["window.theme"] = DEFAULT
    kept: dict[str, str] = {}
    for binding, keys in settings.keys.items():
        fault = _fault(binding, keys, bindings)
        if fault is None:
            kept[binding] = keys
        else:
            refuse(f"keys.{binding}", fault)
    while (clash := clash_of(kept, bindings)) is not None:
        binding, fault = clash
        refuse(f"keys.{binding}", fault)
        del kept[binding]
    for binding in settings.keys.keys() - kept.keys():
        del origins[f"keys.{binding}"]
    settings = msgspec.structs.replace(settings, keys=MappingProxyType(kept))
    return loaded._replace(
        settings=settings,
        problems=(*loaded.problems, *problems),
        origins=MappingProxyType(origins),
    )


def key_fault(key: str) -> str | None:
    """What is wrong with a key's name; None: Textual knows it."""
    *modifiers, last = key.split("+") if len(key) > 1 else [key]
    for modifier in modifiers:
        if modifier not in MODIFIERS:
            return f"{quoted(key)} is no key: there is no {quoted(modifier)} to hold"
    if (len(last) == 1 and last.isprintable() and not last.isspace()) or last in KEY_NAMES:
        return None
    try:
        unicodedata.lookup(last.replace("_", " "))
    except KeyError:
        return f"{quoted(key)} is no key{did_you_mean(last, KEY_NAMES)}"
    return None


def _fault(binding: str, keys: str, bindings: Mapping[str, str]) -> str | None:
    """What is wrong with a binding's keys by themselves."""
    if binding not in bindings:
        meant = did_you_mean(binding, bindings)
        return f"there is nothing called {quoted(binding)} to give keys to{meant}"
    return next(filter(None, map(key_fault, keys.split(","))), None)


def clash_of(chosen: Mapping[str, str], bindings: Mapping[str, str]) -> tuple[str, str] | None:
    """The last of the chosen bindings with a key that another one of its place has."""
    held = {**bindings, **chosen}
    for binding in reversed(list(chosen)):
        place = binding.partition(".")[0]
        for other, its in held.items():
            if other == binding or other.partition(".")[0] != place:
                continue
            shared = set(chosen[binding].split(",")) & set(its.split(","))
            if shared:
                return binding, f"{min(shared)} is the key of {other} already"
    return None


def bindings_of_the_window() -> dict[str, str]:
    """The keys of everything in the window that has an id, also where it is not shown yet."""
    bindings: dict[str, str] = {}
    for package in (tui.screens, tui.widgets):
        for found in iter_modules(package.__path__, f"{package.__name__}."):
            for member in vars(import_module(found.name)).values():
                if isinstance(member, type) and issubclass(member, DOMNode):
                    bindings |= _bindings_in(member)
    return bindings


def _bindings_in(node: type[DOMNode]) -> dict[str, str]:
    return {
        binding.id: binding.key
        for binding in node.BINDINGS
        if isinstance(binding, Binding) and binding.id is not None
    }
