"""`phasescope bench`: prefill and decode as llama-bench measures them."""

import sys

import click
import msgspec

from backend.benchmark import BenchmarkError, BenchReport, run_benchmark
from backend.chat.chatml import CHATML
from backend.engine import EngineError
from backend.local.process import LocalEngine
from backend.paths import log_dir
from backend.protocol import BenchRequest, BenchSample, LoadRequest
from tui.cli.options import engine_options, model_choice, settings_in_force
from tui.config.load import Flags
from tui.text import harmless


@click.command()
@click.option(
    "-p",
    "--n-prompt",
    type=click.IntRange(min=0),
    default=512,
    show_default=True,
    help="Tokens of the prefill test.",
)
@click.option(
    "-n",
    "--n-gen",
    type=click.IntRange(min=0),
    default=128,
    show_default=True,
    help="Tokens of the decode test.",
)
@click.option(
    "-d",
    "--n-depth",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Tokens in the cache before.",
)
@click.option(
    "-r",
    "--repetitions",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Samples of each test.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with all samples.")
@engine_options
def bench(
    *, given: Flags, n_prompt: int, n_gen: int, n_depth: int, repetitions: int, as_json: bool
) -> None:
    """Measure prefill and decode with random tokens, comparable with llama-bench."""
    if n_prompt + n_gen == 0:
        raise click.UsageError("-p and -n are both 0: there is nothing to measure")
    choice = model_choice(settings_in_force(given).model)
    assert choice.path is not None
    settings = choice.settings
    if settings.n_ctx is None:
        tokens = n_depth + max(n_prompt, n_gen)
        settings = msgspec.structs.replace(settings, n_ctx=tokens)
    load = LoadRequest(
        model_path=choice.path, settings=settings, chat_template=choice.chat_template or CHATML
    )
    request = BenchRequest(
        n_prompt=n_prompt,
        n_gen=n_gen,
        n_depth=n_depth,
        repetitions=repetitions,
    )
    try:
        engine = LocalEngine(log_dir())
    except EngineError as error:
        raise click.ClickException(harmless(str(error))) from error
    try:
        report = run_benchmark(engine, load, request, _show)
    except BenchmarkError as error:
        raise click.ClickException(harmless(str(error))) from error
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        engine.close()
    if as_json:
        click.echo(msgspec.json.encode(report).decode())
    else:
        click.echo(_table(report))


def _show(sample: BenchSample) -> None:
    rate = (sample.n_prompt + sample.n_gen) / sample.ns * 1e9
    if sys.stderr.isatty():
        click.echo(
            f"  {_test(sample.n_prompt, sample.n_gen, sample.n_depth)}: {rate:.1f}/s", err=True
        )


def _test(n_prompt: int, n_gen: int, n_depth: int) -> str:
    name = f"prefill {n_prompt}" if n_prompt else f"decode {n_gen}"
    return f"{name} at depth {n_depth}" if n_depth else name


def _table(report: BenchReport) -> str:
    model, context = report.model, report.context
    attention = {True: "on", False: "off", None: "unknown"}[context.flash_attn]
    head = (
        f"{harmless(model.name)} · {model.quantization} · {model.bits_per_weight:.2f} bpw · "
        f"threads {context.n_threads}/{context.n_threads_batch} · "
        f"K/V {context.type_k}/{context.type_v} · "
        f"flash attention {attention}"
    )
    lines = [
        head,
        f"{'test':<24}{'median tok/s':>14}{'min':>10}{'max':>10}{'runs':>6}",
    ]
    lines += [
        f"{_test(row.n_prompt, row.n_gen, row.n_depth):<24}{row.median:>14.1f}{row.min:>10.1f}"
        f"{row.max:>10.1f}{len(row.samples):>6}"
        for row in report.results
    ]
    return "\n".join(lines)
