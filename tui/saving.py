"""Settings changed in the window: saved one after the other, and taken up at once."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from textual import constants

from tui.config.change import NotSavedError, changed, refusal
from tui.config.kinds import Stored
from tui.config.load import Loaded
from tui.screens.acting import ActingScreen
from tui.screens.slash_commands import slash_commands
from tui.text import harmless

if TYPE_CHECKING:
    from tui.app import PhasescopeApp

_TURNS: WeakKeyDictionary["PhasescopeApp", asyncio.Lock] = WeakKeyDictionary()
"""Whose turn it is to save, of each window."""


async def keep(app: "PhasescopeApp", changes: Mapping[str, Stored]) -> None:
    """Save settings in a thread, then use them.

    Args:
        app: The window.
        changes: As `tui.config.save.save` takes them.

    Raises:
        NotSavedError: Nothing was saved, and all is as it was.
    """
    async with _TURNS.setdefault(app, asyncio.Lock()):
        before = app.start.loaded
        loaded = await asyncio.to_thread(changed, before, changes, tuple(app.available_themes))
        _take_up(app, before, loaded)


def chat_of(app: "PhasescopeApp") -> ActingScreen:
    """The chat, which lies under all other screens."""
    chat = app.screen_stack[0]
    assert isinstance(chat, ActingScreen)
    return chat


def _take_up(app: "PhasescopeApp", before: Loaded, loaded: Loaded) -> None:
    """Let the window be as the settings say, where they changed."""
    app.start = app.start._replace(loaded=loaded)
    chat = chat_of(app)
    chat.start = app.start
    old, new = before.settings, loaded.settings
    if new.sampling != old.sampling:
        chat.session.sampling = new.sampling
    if new.presets != old.presets:
        chat.composer.commands = slash_commands(new, sorted(app.available_themes))
    if new.keys != old.keys:
        app.set_keymap(dict(new.keys))
    if new.window.theme != old.window.theme:
        app.theme = new.window.theme
    if new.window.glyphs != old.window.glyphs:
        app.use_glyphs(new.window.glyphs)
    if new.window.reduced_motion != old.window.reduced_motion:
        app.animation_level = "none" if new.window.reduced_motion else constants.TEXTUAL_ANIMATIONS
    if new.window.fold_thinking != old.window.fold_thinking:
        chat.browser.fold_thinking = new.window.fold_thinking
        chat.browser.restyle()


def remember_theme(app: "PhasescopeApp", name: str) -> None:
    """Save the theme that was chosen, wherever that was, so that the next start has it.

    A theme that is only looked at in the settings is not saved, nor one that a flag or a variable
    would override.
    """
    loaded = app.start.loaded
    if (
        name == loaded.settings.window.theme
        or refusal(loaded.origins.get("window.theme")) is not None
        or any(getattr(screen, "previews_theme", False) for screen in app.screen_stack)
    ):
        return

    async def remember() -> None:
        try:
            await keep(app, {"window.theme": name})
        except NotSavedError as error:
            app.notify(f"{harmless(str(error))}.", severity="warning", markup=False)

    app.run_worker(remember(), group="settings", name="remember the theme")
