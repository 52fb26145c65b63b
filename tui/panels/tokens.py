"""TOKENS/S: the decode rate now and on average, and the times between tokens."""

from backend.metrics.live import Snapshot
from backend.metrics.record import SHORT_PREFILL
from tui.figures import DASH, count, milliseconds, rate
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
    times = state.timings
    decoded = f" Fewer than 2 tokens have no rate ({DASH})."
    if times.predicted_per_second is not None:
        decoded = (
            f" Here ({count(state.predicted_n)} − 1) / {milliseconds(times.predicted_ms)} = "
            f"{rate(times.predicted_per_second)}."
        )
    prefilled = ""
    if times.prompt_per_second is not None:
        prefilled = (
            f" Here {count(state.prompt_n)} / {milliseconds(times.prompt_ms)} = "
            f"{rate(times.prompt_per_second)}."
        )
    return (
        "The decode rate, in tokens per second, is (tokens − 1) / (last token − first token): the "
        f"first token belongs to prefill.{decoded} While an answer comes, now is the rate of its "
        "last two seconds.\n"
        "Each token reads all weights and the KV cache from memory: a smaller quantization makes "
        "it faster, a long context slower, a longer question hardly. Threads beyond what the "
        "memory can feed do not help.\n"
        "The strip is the time between tokens, from zero; a full column is twice the median or "
        "the 95th percentile, whichever is more, and what is above it is marked.\n"
        f"The prefill rate is prefilled tokens / prefill's time.{prefilled} Of fewer than "
        f"{SHORT_PREFILL} tokens it is a decode rate in disguise and marked ≈.\n"
        "In a record, under timings: predicted_per_second, prompt_per_second (tokens/s), "
        "predicted_ms, prompt_ms, itl_ms (p50, p95, p99, max), token_ms."
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
