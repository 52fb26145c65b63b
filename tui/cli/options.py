"""Options that several commands share, spelled as llama.cpp spells them."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import click

from backend.first_aid import no_model_here
from backend.recording import Recorder, RecordingError
from backend.session import ModelChoice
from backend.session.choice import TEMPLATES, TemplateFileError, template_text
from models.starter import starter_path
from tui.config.kinds import Kind, SettingError, Stored, Switch, Texts, quoted, unescaped
from tui.config.load import Flag, Flags, load_settings
from tui.config.schema import SETTINGS, ModelSettings, Setting, Settings
from tui.paths import model_path
from tui.text import harmless

F = TypeVar("F", bound=Callable[..., Any])


class FiniteRange(click.FloatRange):
    """A number in a range; neither infinite nor "not a number"."""

    def convert(
        self, value: float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class Given(NamedTuple):
    """A value that was given on the command line."""

    value: Stored


def _converter(kind: Kind) -> Callable[[str], Given]:
    """Checks a flag's value as the same setting is checked in a file.

    The value is wrapped, since None is one.
    """

    def given(text: str) -> Given:
        try:
            # A text that looks like a list is one text; for several there are several flags.
            one = kind.check(unescaped(text)) if isinstance(kind, Texts) else kind.read(text)
        except SettingError as error:
            raise click.BadParameter(f"{quoted(text)} {error}") from None
        return Given(one)

    return given


def engine_options(command: F) -> F:
    """Add the options that say which model is loaded, and how.

    The command gets those that were given as `given`, by the setting's id.
    """
    options = [*_section_options("model"), *_TEMPLATE_OPTIONS]
    return _apply(options, _gathering(command))


def sampling_options(command: F) -> F:
    """Add the options that say how tokens are chosen, and `--system`.

    The command gets those that were given as `given`, by the setting's id.
    """
    options = [*_section_options("sampling"), *_section_options("chat")]
    return _apply(options, _gathering(command))


def _section_options(section: str) -> list[Callable[[F], F]]:
    return [
        _option(setting) for setting in SETTINGS if setting.section == section and setting.flags
    ]


def _option(setting: Setting) -> Callable[[F], F]:
    """The flag of a setting; not given, it is None."""
    told = f"{setting.help} Default: {setting.default_words}."
    if isinstance(setting.kind, Switch):
        both = f"{setting.flag}/--no-{setting.flag.removeprefix('--')}"
        return click.option(both, setting.parameter, default=None, help=told)
    many = isinstance(setting.kind, Texts)
    if many:
        told = f"{told} Several are allowed."
    return click.option(
        *setting.flags,
        setting.parameter,
        type=_converter(setting.kind),
        metavar=setting.kind.word,
        multiple=many,
        help=told,
    )


_TEMPLATE_OPTIONS = [
    click.option(
        "--chat-template",
        "chat_template",
        type=click.Choice(list(TEMPLATES)),
        help="A chat template of phasescope's that replaces the model's.",
    ),
    click.option(
        "--chat-template-file",
        "chat_template_file",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="A Jinja chat template that replaces the model's.",
    ),
]


def _gathering(command: F) -> F:
    """The command, with the flags of settings gathered in `given`."""

    @wraps(command)
    def gathered(*args: object, **options: object) -> object:
        given = options.setdefault("given", {})
        assert isinstance(given, dict)
        for setting in SETTINGS:
            value = options.pop(setting.parameter, None)
            if isinstance(value, Given):
                given[setting.id] = Flag(value.value, setting.flag)
            elif isinstance(value, bool):
                negated = "" if value else "no-"
                given[setting.id] = Flag(value, f"--{negated}{setting.flag.removeprefix('--')}")
            elif isinstance(value, tuple) and value:
                texts = tuple(text for one in value for text in one.value)
                given[setting.id] = Flag(texts, setting.flag)
        given |= _template(options)
        return command(*args, **options)

    return cast("F", gathered)


def _template(options: dict[str, object]) -> dict[str, Flag]:
    """The chat template among a command's options, which it is taken out of."""
    name = options.pop("chat_template", None)
    file = options.pop("chat_template_file", None)
    if name is not None and file is not None:
        raise click.UsageError("give --chat-template or --chat-template-file, not both")
    if file is not None:
        return {"model.chat_template": Flag(str(file), "--chat-template-file")}
    if name is not None:
        return {"model.chat_template": Flag(name, "--chat-template")}
    return {}


def settings_in_force(given: Flags) -> Settings:
    """The settings, flags over all; what is wrong with them is told on standard error."""
    loaded = load_settings(given)
    tell_problems(loaded.problems)
    return loaded.settings


def tell_problems(problems: Iterable[str]) -> None:
    """Write what is wrong with the settings to standard error, a line each."""
    for problem in problems:
        click.echo(f"phasescope: {problem}", err=True)


def model_choice(model: ModelSettings) -> ModelChoice:
    """The model to load: the one that is set, else the starter.

    Raises:
        click.ClickException: There is none, or the template file cannot be read.
    """
    choice = window_model(model, None)
    if choice.path is None:
        starter = starter_path()
        if starter is None:
            raise click.ClickException(no_model_here(in_window=False).sentence)
        choice = choice._replace(path=str(starter.absolute()))
    return choice


def window_model(model: ModelSettings, last_used: str | None) -> ModelChoice:
    """The model to load: the one that is set, else the one used last, else none yet.

    Raises:
        click.ClickException: The template file cannot be read.
    """
    path = model.path
    if path is None and last_used is not None and _is_file(last_used):
        path = last_used
    template = model.chat_template
    try:
        text = None if template is None else template_text(template)
    except TemplateFileError as error:
        raise click.ClickException(harmless(str(error))) from error
    where = None if path is None else str(model_path(path))
    return ModelChoice(where, model.engine, chat_template=text)


def _is_file(path: str) -> bool:
    """Whether a file is there, as far as the system tells."""
    try:
        return Path(path).is_file()
    except OSError:
        return False


def open_recorder(path: Path | None) -> Recorder | None:
    """A recorder for a path; None without one.

    Raises:
        click.ClickException: The file exists or cannot be written.
    """
    if path is None:
        return None
    try:
        return Recorder(path)
    except RecordingError as error:
        raise click.ClickException(str(error)) from error


def _apply(options: Sequence[Callable[[F], F]], command: F) -> F:
    for option in reversed(options):
        command = option(command)
    return command
