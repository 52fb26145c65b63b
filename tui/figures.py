"""Figures as text: units, precision, and a dash for what does not exist."""

from backend.metrics.record import TurnRecord, short_prefill

DASH = "—"

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


def figures_line(record: TurnRecord) -> str:
    """One line on a turn: TTFT, prefill, decode, reuse, and the end if it was no plain one."""
    times = record.timings
    parts = [
        f"ttft {milliseconds(times.ttft_ms)}",
        f"prefill {count(record.prompt_n)} @ {rate(times.prompt_per_second)}"
        + ("≈" if short_prefill(record) and times.prompt_per_second is not None else ""),
        f"decode {count(record.predicted_n)} @ {rate(times.predicted_per_second)}",
        f"reused {count(record.cache_n)}/{count(record.prompt_tokens)}",
    ]
    if record.first_after_load:
        parts.append("first after load")
    if record.stop.reason != "eog":
        detail = f": {record.stop.detail}" if record.stop.detail else ""
        parts.append(record.stop.reason.replace("_", " ") + detail)
    return " · ".join(parts)


def milliseconds(value: float | None) -> str:
    """A duration: `40 µs`, `8.4 ms`, `132 ms`, `2.41 s`."""
    if value is None:
        return DASH
    # The bounds are those of the rounded figure, so that 999.6 ms are not "1000 ms".
    if value < 0.0995:
        return f"{value * 1000:.0f} µs"
    if value < 9.95:
        return f"{value:.1f} ms"
    if value < 999.5:
        return f"{value:.0f} ms"
    return f"{value / 1000:.2f} s"


def rate(value: float | None) -> str:
    """Tokens per second: `8.42/s`, `118.4/s`, `1,204/s`."""
    if value is None:
        return f"{DASH}/s"
    if value < 9.995:
        return f"{value:.2f}/s"
    return f"{value:.1f}/s" if value < 999.95 else f"{value:,.0f}/s"


def count(value: int | None) -> str:
    """A count with its thousands apart."""
    return DASH if value is None else f"{value:,}"


def used_of(used: int | None, total: int | None) -> str:
    """Bytes in use of bytes there are, in the unit of the whole: `14.1/90.0 MiB`."""
    if used is None or total is None:
        return DASH
    scale = GIB if total >= 1023.95 * MIB else MIB if total >= 1023.95 * KIB else KIB
    digits = 2 if scale == GIB else 1
    return f"{used / scale:.{digits}f}/{size(total)}"


def size(value: int | None) -> str:
    """Bytes in binary units: `23.0 KiB`, `90.0 MiB`, `1.91 GiB`."""
    if value is None:
        return DASH
    if value < 1023.95 * KIB:
        return f"{value / KIB:.1f} KiB"
    return f"{value / MIB:.1f} MiB" if value < 1023.95 * MIB else f"{value / GIB:.2f} GiB"
