"""Prefill and decode measured without a chat, comparable with llama-bench."""

from collections.abc import Callable

import msgspec

from backend.engine import Engine, EngineError
from backend.metrics.statistics import percentile, rate_per_second
from backend.protocol import (
    BenchEnded,
    BenchRequest,
    BenchSample,
    ContextFacts,
    EngineExited,
    EngineReady,
    LoadFailed,
    LoadRequest,
    ModelFacts,
)


class BenchmarkError(Exception):
    """A benchmark could not be done; the text is one sentence."""


class BenchRow(msgspec.Struct, frozen=True):
    """One test: its samples in tokens per second, and what they come to."""

    n_prompt: int
    n_gen: int
    n_depth: int
    samples: tuple[float, ...]
    median: float
    min: float
    max: float


class BenchReport(msgspec.Struct, frozen=True):
    """All tests of one model in one context."""

    model: ModelFacts
    context: ContextFacts
    results: tuple[BenchRow, ...]


def run_benchmark(
    engine: Engine,
    load: LoadRequest,
    bench: BenchRequest,
    on_sample: Callable[[BenchSample], None],
) -> BenchReport:
    """Load a model, run the tests, and give the report.

    Args:
        engine: A fresh engine.
        load: What to load.
        bench: The tests.
        on_sample: Called with each sample as it comes.

    Raises:
        BenchmarkError: The model cannot be loaded, or the engine failed.
    """
    try:
        return _measured(engine, load, bench, on_sample)
    except EngineError as error:
        raise BenchmarkError(str(error)) from error


def _measured(
    engine: Engine,
    load: LoadRequest,
    bench: BenchRequest,
    on_sample: Callable[[BenchSample], None],
) -> BenchReport:
    engine.send(load)
    ready: EngineReady | None = None
    samples: list[BenchSample] = []
    while True:
        match engine.wait(1.0):
            case EngineReady() as ready:
                engine.send(bench)
            case BenchSample() as sample:
                samples.append(sample)
                on_sample(sample)
            case BenchEnded(error=None):
                assert ready is not None
                return BenchReport(ready.model, ready.context, rows(samples))
            case BenchEnded(error=str(message)) | LoadFailed(message=message):
                raise BenchmarkError(message)
            case EngineExited(message=message):
                raise BenchmarkError(message)
            case _:
                pass


def rows(samples: list[BenchSample]) -> tuple[BenchRow, ...]:
    """Samples gathered by test, in the order in which the tests came."""
    tests: dict[tuple[int, int, int], list[float]] = {}
    for sample in samples:
        rate = rate_per_second(sample.n_prompt + sample.n_gen, sample.ns)
        if rate is not None:
            test = (sample.n_prompt, sample.n_gen, sample.n_depth)
            tests.setdefault(test, []).append(rate)
    return tuple(
        BenchRow(
            *test,
            samples=tuple(rates),
            median=percentile(sorted(rates), 0.5),
            min=min(rates),
            max=max(rates),
        )
        for test, rates in tests.items()
    )
