"""Speed of the engine: `python -m tests.bench.engine [ROUNDS]`, on an otherwise idle machine.

Both sides keep their process and take turns within seconds (A B B A), because the speed of a
machine drifts by more than what is measured here.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from types import TracebackType
from typing import NamedTuple, Self

from backend.local.process import LocalEngine
from backend.machine import usable_cores
from backend.metrics.record import TurnRecord
from backend.protocol import (
    BenchEnded,
    BenchRequest,
    BenchSample,
    EngineReady,
    LoadRequest,
    PromptReady,
    TokenBatch,
    TurnEnded,
)
from backend.session import ModelChoice, Script, Session
from backend.settings import EngineSettings, SamplingChoice
from tests.bench.measure import Result, ratio, report, starter

MIB = 1 << 20
N_CTX = 1024
N_PROMPT = 512
N_GEN = 128
PROMPT = "Tell me, at length, what a river sees on its way from the hills to the sea. " * 24
"""About as many tokens as `N_PROMPT`."""


class Rates(NamedTuple):
    """Rates of one run, in tokens per second; None where it had no such phase."""

    prefill: float | None
    decode: float | None


class BareLoop:
    """The bare loop's process."""

    def __init__(self) -> None:
        command = ("-m", "tests.bench.bare_loop", str(starter()), str(N_CTX), str(usable_cores()))
        self._process = subprocess.Popen(
            (sys.executable, *command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def run(self, n_prompt: int, n_gen: int, mode: str) -> Rates:
        """One run."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{n_prompt} {n_gen} {mode}\n")
        self._process.stdin.flush()
        return Rates(**json.loads(self._process.stdout.readline()))


def compared(
    ours: Callable[[], Rates], theirs: Callable[[], Rates], rounds: int
) -> tuple[list[Rates], list[Rates]]:
    """Runs of both in the order A B B A, after one of each that does not count."""
    ours()
    theirs()
    a: list[Rates] = []
    b: list[Rates] = []
    for _ in range(rounds):
        a.append(ours())
        b += [theirs(), theirs()]
        a.append(ours())
    return a, b


def turns_against_bare(loop: BareLoop, rounds: int) -> list[Result]:
    """Cold turns of a session, as `ask` runs them, against the loop with the same sampler."""
    with tempfile.TemporaryDirectory() as folder:
        session = Session(
            lambda: LocalEngine(Path(folder)),
            ModelChoice(str(starter()), EngineSettings(n_ctx=N_CTX)),
            sampling=SamplingChoice(temp=0, max_tokens=N_GEN),
        )
        session.start()
        prompt_n = answer(session, PROMPT).prompt_n or 0

        def turn() -> Rates:
            session.new_chat()
            session.drop_cache()
            record = answer(session, PROMPT)
            assert (record.cache_n, record.prompt_n) == (0, prompt_n)
            assert record.predicted_n == N_GEN
            return Rates(record.timings.prompt_per_second, record.timings.predicted_per_second)

        ours, theirs = compared(turn, lambda: loop.run(prompt_n, N_GEN - 1, "sample"), rounds)
        session.close()
    return [
        _ratio("decode: ask ÷ bare loop", [r.decode for r in ours], [r.decode for r in theirs]),
        _ratio(
            f"prefill of {prompt_n}: ask ÷ bare loop",
            [r.prefill for r in ours],
            [r.prefill for r in theirs],
        ),
    ]


def bench_against_bare(loop: BareLoop, rounds: int) -> list[Result]:
    """The samples of `bench` against the loop without a sampler."""
    with tempfile.TemporaryDirectory() as folder:
        engine = LocalEngine(Path(folder))
        engine.send(LoadRequest(str(starter()), EngineSettings(n_ctx=N_CTX)))
        while not isinstance(engine.wait(10), EngineReady):
            pass

        def sample() -> Rates:
            engine.send(BenchRequest(N_PROMPT, N_GEN, 0, 1))
            rates: dict[str, float] = {}
            while not isinstance(event := engine.wait(10), BenchEnded):
                if isinstance(event, BenchSample):
                    name = "prefill" if event.n_prompt else "decode"
                    rates[name] = (event.n_prompt + event.n_gen) / event.ns * 1e9
            return Rates(**rates)

        def bare() -> Rates:
            prefill = loop.run(N_PROMPT, 0, "random").prefill
            return Rates(prefill, loop.run(0, N_GEN, "random").decode)

        ours, theirs = compared(sample, bare, rounds)
        engine.close()
    return [
        _ratio("decode: bench ÷ bare loop", [r.decode for r in ours], [r.decode for r in theirs]),
        _ratio(
            f"prefill of {N_PROMPT}: bench ÷ bare loop",
            [r.prefill for r in ours],
            [r.prefill for r in theirs],
        ),
    ]


def _ratio(name: str, ours: Sequence[float | None], theirs: Sequence[float | None]) -> Result:
    return ratio(name, [rate or 0.0 for rate in ours], [rate or 0.0 for rate in theirs], 0.98)


def growing_chat() -> list[Result]:
    """What a turn late in a chat costs beside prefill, and what it prefills."""
    with tempfile.TemporaryDirectory() as folder:
        session = Session(
            lambda: LocalEngine(Path(folder)),
            ModelChoice(str(starter()), EngineSettings(n_ctx=8192)),
            sampling=SamplingChoice(temp=0, max_tokens=40),
        )
        session.start()
        records = [answer(session, text) for text in [PROMPT * 8, *(["And then?"] * 7)]]
        memory = beside_buffers(records[-1], session.log_since(0))
        session.close()
    late = records[1:]
    assert all((record.prompt_tokens or 0) > 3_500 for record in records)
    beside = [_beside_prefill(record) for record in late]
    least = 0
    for before, after in zip(records, late, strict=False):
        # The last sampled token is in no cell, whether it ended the answer or the limit did.
        held = (before.prompt_tokens or 0) + before.predicted_n - 1
        least += (after.prompt_tokens or 0) - held
    prefilled = sum(record.prompt_n or 0 for record in late)
    return [
        Result(
            f"TTFT − prefill − first sample at {late[0].prompt_tokens:,}+ tokens",
            median(beside),
            5.0,
            at_least=False,
            unit="ms",
            detail=" ".join(f"{value:.2f}" for value in beside),
        ),
        Result(
            "tokens prefilled ÷ the least possible",
            prefilled / least,
            1.0,
            at_least=False,
            detail=f"{prefilled} / {least}",
        ),
        memory,
    ]


def cancelling(rounds: int) -> list[Result]:
    """From asking an answer to stop to its end, in both phases."""
    spent: dict[str, list[float]] = {"prefill": [], "decode": []}
    with tempfile.TemporaryDirectory() as folder:
        session = Session(
            lambda: LocalEngine(Path(folder)),
            ModelChoice(str(starter()), EngineSettings(n_ctx=4096)),
            sampling=SamplingChoice(temp=0),
        )
        session.start()
        answer(session, "Hi", Script(cancel_after_tokens=1))
        for _ in range(2 * rounds):
            for phase, wanted in (("prefill", PromptReady), ("decode", TokenBatch)):
                session.new_chat()
                session.drop_cache()
                session.send(PROMPT * 2 if phase == "prefill" else "Tell me a long story.")
                _until(session, wanted)
                sleep(0.3)
                asked = perf_counter()
                session.cancel()
                _until(session, TurnEnded)
                spent[phase].append((perf_counter() - asked) * 1000)
        session.close()
    return [
        Result(f"cancel in {phase}, longest", max(times), 100.0, at_least=False, unit="ms")
        for phase, times in spent.items()
    ]


def _until(session: Session, kind: type[PromptReady | TokenBatch | TurnEnded]) -> None:
    while not any(isinstance(update.event, kind) for update in session.wait(1.0)):
        pass


def beside_buffers(record: TurnRecord, log: Sequence[str]) -> Result:
    """Memory of the child that is neither weights nor KV cache nor llama.cpp's buffers."""
    assert record.machine.engine_rss_bytes is not None
    assert record.model is not None
    assert record.kv is not None
    assert record.kv.bytes_allocated is not None
    logged = re.findall(
        r"(?:compute|output|REPACK model) buffer size = +([\d.]+) MiB", "\n".join(log)
    )
    buffers = sum(map(float, logged)) * MIB
    known = record.model.tensor_bytes + record.kv.bytes_allocated + buffers
    return Result(
        "memory of the child beside weights, KV and buffers",
        (record.machine.engine_rss_bytes - known) / MIB,
        150.0,
        at_least=False,
        unit="MB",
        detail=f"{record.machine.engine_rss_bytes / MIB:.0f} in all, {known / MIB:.0f} of those",
    )


def _beside_prefill(record: TurnRecord) -> float:
    times = record.timings
    assert times.ttft_ms is not None
    assert times.prompt_ms is not None
    assert times.first_sample_ms is not None
    return times.ttft_ms - times.prompt_ms - times.first_sample_ms


def answer(session: Session, text: str, script: Script | None = None) -> TurnRecord:
    """One turn."""
    session.send(text, script)
    while True:
        for update in session.wait(1.0):
            if update.record is not None:
                return update.record


def main(arguments: Sequence[str]) -> None:
    """Measure everything and report."""
    rounds = int(arguments[0]) if arguments else 6
    with BareLoop() as loop:
        compared_rates = [*turns_against_bare(loop, rounds), *bench_against_bare(loop, rounds)]
    report([*compared_rates, *growing_chat(), *cancelling(rounds)])


if __name__ == "__main__":
    main(sys.argv[1:])
