"""Rates, percentiles and summaries; a figure that does not exist is None, never 0 or a guess."""

import math
from bisect import insort
from collections.abc import Sequence

import msgspec

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000


class Spread(msgspec.Struct, frozen=True):
    """Summary of a set of durations in milliseconds; all None when there are none."""

    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


def ms(duration_ns: int) -> float:
    """Milliseconds of a duration in nanoseconds."""
    return duration_ns / NS_PER_MS


def rate_per_second(count: int, duration_ns: int) -> float | None:
    """`count` per second of `duration_ns`; None where either is not positive."""
    if count <= 0 or duration_ns <= 0:
        return None
    return count * NS_PER_S / duration_ns


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of `ordered` lies, interpolated between neighbours.

    The definition is that of numpy's default (`linear`): rank = share × (n - 1).

    Raises:
        ValueError: `ordered` is empty.
    """
    if not ordered:
        raise ValueError("a percentile of nothing does not exist")
    rank = share * (len(ordered) - 1)
    low = math.floor(rank)
    high = math.ceil(rank)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def median(values: Sequence[float]) -> float | None:
    """The middle value; None of nothing."""
    return percentile(sorted(values), 0.5) if values else None


class Durations:
    """Durations kept in order as they come, so that a summary is cheap at any moment."""

    def __init__(self) -> None:
        self._ordered: list[float] = []
        self._sum = 0.0

    def add(self, milliseconds: float) -> None:
        """Take one duration in."""
        insort(self._ordered, milliseconds)
        self._sum += milliseconds

    def __len__(self) -> int:
        return len(self._ordered)

    def spread(self) -> Spread:
        """The summary of all that was added."""
        ordered = self._ordered
        if not ordered:
            return Spread()
        return Spread(
            mean=self._sum / len(ordered),
            p50=percentile(ordered, 0.50),
            p95=percentile(ordered, 0.95),
            p99=percentile(ordered, 0.99),
            max=ordered[-1],
        )
