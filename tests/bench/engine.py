"""Speed of the engine: `python -m tests.bench.engine [ROUNDS]`, on an otherwise idle machine."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from backend.local.process import LocalEngine
from backend.machine import usable_cores
from backend.metrics.record import TurnRecord
from backend.session import ModelChoice, Session
from backend.settings import EngineSettings, SamplingSettings
from tests.bench.measure import PHASESCOPE, Result, interleaved, json_of, ratio, report, starter

N_GEN = 128
PROMPT = "Tell me, at length, what a river sees on its way from the hills to the sea. " * 28
"""About 512 tokens."""


def ask() -> TurnRecord:
    """One answer of `ask`, in a process of its own."""
    import msgspec  # noqa: PLC0415

    record = json_of(
        PHASESCOPE, "ask", "--json", "--temp", "0", "-n", str(N_GEN), "-c", "1024", PROMPT
    )
    return msgspec.convert(record, TurnRecord)


def bare(n_prompt: int, n_gen: int, *mode: str) -> dict[str, object]:
    """One run of the bare loop, in a process of its own."""
    return json_of(
        sys.executable,
        "-m",
        "tests.bench.bare_loop",
        str(starter()),
        str(n_prompt),
        str(n_gen),
        str(usable_cores()),
        *mode,
    )


def number(value: object) -> float:
    """A JSON number."""
    assert isinstance(value, int | float)
    return float(value)


def ask_against_bare(rounds: int) -> list[Result]:
    """Prefill and decode rate of `ask` against the bare loop with the same sampler."""
    n_prompt = ask().prompt_tokens or 0
    ours: list[TurnRecord] = []
    theirs: list[dict[str, object]] = []

    def one() -> float:
        ours.append(ask())
        return ours[-1].timings.predicted_per_second or 0.0

    def other() -> float:
        theirs.append(bare(n_prompt, N_GEN - 1, "sample"))
        return number(theirs[-1]["decode"])

    decode = ratio("decode: ask ÷ bare loop", *interleaved(one, other, rounds), 0.98)
    prefill = ratio(
        f"prefill of {n_prompt}: ask ÷ bare loop",
        [record.timings.prompt_per_second or 0.0 for record in ours],
        [number(run["prefill"]) for run in theirs],
        0.98,
    )
    return [decode, prefill]


def bench_against_bare(rounds: int) -> list[Result]:
    """Rates of `bench` against the bare loop without a sampler."""

    def ours(*options: str) -> float:
        results = json_of(PHASESCOPE, "bench", "--json", "-r", "1", *options)["results"]
        assert isinstance(results, list)
        return number(results[0]["median"])

    decode = interleaved(
        lambda: ours("-p", "0", "-n", str(N_GEN)),
        lambda: number(bare(0, N_GEN)["decode"]),
        rounds,
    )
    prefill = interleaved(
        lambda: ours("-p", "512", "-n", "0"), lambda: number(bare(512, 0)["prefill"]), rounds
    )
    return [
        ratio("decode: bench ÷ bare loop", *decode, 0.98),
        ratio("prefill of 512: bench ÷ bare loop", *prefill, 0.98),
    ]


def growing_chat() -> list[Result]:
    """What a turn late in a chat costs beside prefill, and what it prefills."""
    with tempfile.TemporaryDirectory() as folder:
        session = Session(
            lambda: LocalEngine(Path(folder)),
            ModelChoice(str(starter()), EngineSettings(n_ctx=8192)),
            sampling=SamplingSettings(temp=0, max_tokens=40),
        )
        session.start()
        records = [answer(session, text) for text in [PROMPT * 7, *(["And then?"] * 7)]]
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
    ]


def _beside_prefill(record: TurnRecord) -> float:
    times = record.timings
    assert times.ttft_ms is not None
    assert times.prompt_ms is not None
    assert times.first_sample_ms is not None
    return times.ttft_ms - times.prompt_ms - times.first_sample_ms


def answer(session: Session, text: str) -> TurnRecord:
    """One turn."""
    session.send(text)
    while True:
        for update in session.wait(1.0):
            if update.record is not None:
                return update.record


def main(arguments: Sequence[str]) -> None:
    """Measure everything and report."""
    rounds = int(arguments[0]) if arguments else 3
    report([*ask_against_bare(rounds), *bench_against_bare(rounds), *growing_chat()])


if __name__ == "__main__":
    main(sys.argv[1:])
