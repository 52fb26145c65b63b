"""Figures as text: units, precision, and a dash for what does not exist."""

from collections.abc import Sequence
from datetime import datetime

from backend.metrics.record import TurnRecord, short_prefill
from backend.protocol import DeviceFacts

DASH = "—"

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


def figures_line(record: TurnRecord, *, why: bool = False) -> str:
    """One line on a turn: TTFT, prefill, decode, reuse, and the end if it was no plain one.

    Args:
        record: The turn's record.
        why: Say why it reused what it reused.
    """
    times = record.timings
    parts = [
        f"ttft {milliseconds(times.ttft_ms)}",
        f"prefill {prefill_of(record)}",
        f"decode {decode_of(record)}",
        f"reused {reuse_of(record, why=why)}",
    ]
    if record.first_after_load:
        parts.append("first after load")
    if record.stop.reason != "eog":
        parts.append(end_of(record))
    return " · ".join(parts)


def prefill_of(record: TurnRecord) -> str:
    """Tokens of a turn's prefill and their rate, marked where it is a decode rate in disguise."""
    per_second = record.timings.prompt_per_second
    mark = "≈" if short_prefill(record) and per_second is not None else ""
    return f"{count(record.prompt_n)} @ {rate(per_second)}{mark}"


def decode_of(record: TurnRecord) -> str:
    """Tokens that a turn sampled and their rate."""
    return f"{count(record.predicted_n)} @ {rate(record.timings.predicted_per_second)}"


def reuse_of(record: TurnRecord, *, why: bool) -> str:
    """Tokens of a turn's prompt that were reused, of how many, and perhaps why."""
    reason = f" ({record.cache.reason.replace('_', ' ')})" if why and record.cache.reason else ""
    return f"{count(record.cache_n)}/{count(record.prompt_tokens)}{reason}"


def end_of(record: TurnRecord) -> str:
    """Why a turn ended."""
    detail = f": {record.stop.detail}" if record.stop.detail else ""
    return record.stop.reason.replace("_", " ") + detail


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


def device_words(device: DeviceFacts) -> str:
    """A device with its memory: `CUDA0 RTX 4090, 3.10/24.00 GiB free`."""
    words = f"{device.name} {device.description}".strip()
    if device.free_bytes is not None:
        return f"{words}, {used_of(device.free_bytes, device.total_bytes)} free"
    return f"{words}, {size(device.total_bytes)}"


def size(value: int | None) -> str:
    """Bytes in binary units: `23.0 KiB`, `90.0 MiB`, `1.91 GiB`."""
    if value is None:
        return DASH
    if value < 1023.95 * KIB:
        return f"{value / KIB:.1f} KiB"
    return f"{value / MIB:.1f} MiB" if value < 1023.95 * MIB else f"{value / GIB:.2f} GiB"


def thinking_words(records: Sequence[TurnRecord]) -> str:
    """How long the thinking of an answer took, of how many tokens: `thought for 2.1 s · 312 tok`.

    The time is that from the first token to the first answer token, or to the last token where
    there is no answer.
    """
    spans: list[float] = []
    for record in records:
        times = record.timings
        if record.thinking_n and times.ttft_ms is not None:
            end = times.e2e_ms if times.ttfa_ms is None else times.ttfa_ms
            if end is not None:
                spans.append(end - times.ttft_ms)
    if not spans:
        return "thought"
    tokens = sum(record.thinking_n for record in records)
    return f"thought for {milliseconds(sum(spans))} · {count(tokens)} tok"


def ago(moment: str, now: datetime | None = None) -> str:
    """How long ago a moment was: `just now`, `5 minutes ago`, `yesterday`, `on 3 May 2026`.

    Args:
        moment: ISO 8601 with an offset; of anything else a dash is told.
        now: The present; None: now.
    """
    try:
        then = datetime.fromisoformat(moment).astimezone()
    except (ValueError, OverflowError):
        return DASH
    return _since(then, now)


def _since(then: datetime, now: datetime | None) -> str:
    present = (now or datetime.now().astimezone()).astimezone()
    seconds = (present - then).total_seconds()
    days = (present.date() - then.date()).days
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{so_many(int(seconds // 60), 'minute')} ago"
    if days == 0 or seconds < 6 * 3600:
        return f"{so_many(int(seconds // 3600), 'hour')} ago"
    if days == 1:
        return "yesterday"
    if days < 7:
        return f"{so_many(days, 'day')} ago"
    return f"on {then.day} {then:%B %Y}"


def so_many(number: int, what: str) -> str:
    """A count of things: `1 message`, `1,204 messages`."""
    return f"{count(number)} {what}{'' if number == 1 else 's'}"
