"""TOKENS/S: the decode rate now and on average, and the times between tokens."""

from backend.metrics.live import Snapshot
from backend.metrics.record import SHORT_PREFILL
from tui.figures import DASH, milliseconds, rate
from tui.panels.drawing import Drawing, Line, Span, big, columns, spread

BIG_FROM = (30, 12)
"""Width and height from which the figure is drawn big."""

ABOVE_MEDIAN = 2.0
"""A full column of the strip is at least so many times the median gap."""


def draw(state: Snapshot, width: int, height: int) -> Drawing:
    """The panel for a state, in `width` × `height` cells."""
    mean = state.timings.predicted_per_second
    lines: list[Line] = []
    now: Line = ()
    if state.phase == "decode" and state.rolling_rate is not None:
        now = (Span(f"now {rate(state.rolling_rate)}", "decode"),)
    if mean is not None and width >= BIG_FROM[0] and height >= BIG_FROM[1]:
        lines += big(rate(mean).removesuffix("/s"), "/s", "decode")
        lines.append(now)
    else:
        lines.append(spread((Span(rate(mean), "decode" if mean else "dim"),), now, width))
    lines.append(_prefill(state))
    gaps = state.itl_ms
    if gaps.p50 is not None:
        words = _spread_words(state, width)
        rows = max(1, min(height - len(lines) - len(words), height // 2))
        top = max(ABOVE_MEDIAN * gaps.p50, gaps.p95 or 0)
        shown = state.gaps_ms[-width:]
        lines += columns(shown, top, rows)
        lines += words
    return Drawing("TOKENS/S", tuple(lines[:height]))


def explain(state: Snapshot) -> str:
    """What the figures are, with the counts that went into them."""
    return (
        "The decode rate is (tokens − 1) / (last token − first token): the first token belongs "
        f"to prefill. Here ({state.predicted_n:,} − 1) / "
        f"{milliseconds(state.timings.predicted_ms)}. With fewer than 2 tokens there is no rate "
        f"({DASH}).\n"
        "The strip shows the time between tokens, from zero; a full column is twice the median "
        "or the 95th percentile, whichever is more.\n"
        f"The prefill rate of fewer than {SHORT_PREFILL} tokens is a decode rate in disguise "
        "and marked ≈."
    )


def _prefill(state: Snapshot) -> Line:
    pace = state.prefill_rate_now
    if pace is None:
        return (Span(f"prefill {rate(None)}", "dim"),)
    short = state.prompt_n is not None and state.prompt_n < SHORT_PREFILL
    running = state.phase == "prefill"
    return (Span(f"prefill {rate(pace)}{'≈' if short or running else ''}", "prefill"),)


def _spread_words(state: Snapshot, width: int) -> list[Line]:
    gaps = state.itl_ms
    named = (("p50", gaps.p50), ("p95", gaps.p95), ("p99", gaps.p99), ("max", gaps.max))
    words = [f"{name} {milliseconds(value)}" for name, value in named]
    one = "  ".join(words)
    if len(one) <= width:
        return [(Span(one, "dim"),)]
    return [(Span("  ".join(words[:2]), "dim"),), (Span("  ".join(words[2:]), "dim"),)]
