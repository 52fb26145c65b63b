"""`phasescope settings`: the settings in force, where each is from, and what is wrong."""

import sys

import click

from backend.paths import settings_path
from tui.config.known import bindings_of_the_window, checked
from tui.config.load import Loaded, load_settings
from tui.config.save import literal
from tui.config.schema import NAMED, SECTIONS, SETTINGS, Setting, Settings
from tui.text import harmless, one_line
from tui.themes import theme_names


@click.command()
@click.argument("what", type=click.Choice(["show", "path", "check"]), default="show")
def settings(what: str) -> None:
    """Show the settings in force and where each is from.

    `path` tells only the settings file, `check` only what is wrong (and exits with 1).
    """
    if what == "path":
        click.echo(harmless(str(settings_path())))
        return
    loaded = checked(load_settings(), theme_names(), bindings_of_the_window())
    if what == "show":
        click.echo(_text(loaded))
        for problem in loaded.problems:
            click.echo(f"phasescope: {problem}", err=True)
        return
    for problem in loaded.problems:
        click.echo(problem)
    if loaded.problems:
        sys.exit(1)
    click.echo("No problems found.")


def _text(loaded: Loaded) -> str:
    there = "" if loaded.path.exists() else " (not there yet)"
    lines = [f"# {one_line(str(loaded.path))}{there}"]
    for section in SECTIONS:
        rows = _named_rows(loaded, section) if section in NAMED else _rows(loaded, section)
        lines += ["", f"[{section}]", *rows]
    return "\n".join(lines)


def _rows(loaded: Loaded, section: str) -> list[str]:
    return [
        _row(
            f"{setting.name} = {_value(loaded.settings, setting)}"
            if loaded.origins[setting.id].source != "default"
            else f"# {setting.name}: {setting.default_words}",
            str(loaded.origins[setting.id]),
        )
        for setting in SETTINGS
        if setting.section == section
    ]


def _named_rows(loaded: Loaded, section: str) -> list[str]:
    return [
        _row(f"{literal(name)} = {literal(value)}", str(loaded.origins[f"{section}.{name}"]))
        for name, value in getattr(loaded.settings, section).items()
    ]


def _value(settings: Settings, setting: Setting) -> str:
    return literal(setting.kind.plain(getattr(setting.of(settings), setting.name)))


def _row(left: str, origin: str) -> str:
    return f"{one_line(left):<40}  # {one_line(origin)}"
