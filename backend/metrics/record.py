"""The turn record: one JSON object per turn, the same in every command, file and table."""

from typing import Literal

import msgspec

from backend.metrics.statistics import Spread
from backend.protocol import CacheReason, ContextFacts, EngineFacts, KvState, ModelFacts, StopReason

SCHEMA = 1
"""Version of the record; fields may be added within it, never renamed."""

SHORT_PREFILL = 32
"""A prefill of fewer tokens runs at decode's pace; its rate is marked and left out of medians."""


class SamplingRecord(msgspec.Struct, frozen=True):
    """The sampling settings as used; `seed` is the one that was drawn if none was given."""

    temp: float
    top_k: int
    top_p: float
    min_p: float
    repeat_penalty: float
    seed: int | None
    max_tokens: int | None
    typical_p: float = 1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    repeat_last_n: int = 64
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    stop: tuple[str, ...] = ()


class Timings(msgspec.Struct, frozen=True):
    """All times in milliseconds from accepting the message, in the engine's process.

    `prompt_ms` and `decode_ms` are time in decode calls until the logits are there;
    `predicted_ms` is last token minus first; `decode_other_ms` is what is left of it after
    `decode_ms` and `decode_sample_ms`. Rates are `prompt_n` / `prompt_ms` and
    (`predicted_n` - 1) / `predicted_ms`.
    """

    ttft_ms: float | None = None
    ttfa_ms: float | None = None
    render_ms: float | None = None
    tokenize_ms: float | None = None
    cache_ms: float | None = None
    prompt_ms: float | None = None
    first_sample_ms: float | None = None
    predicted_ms: float | None = None
    decode_ms: float | None = None
    decode_sample_ms: float | None = None
    decode_other_ms: float | None = None
    e2e_ms: float | None = None
    prompt_per_second: float | None = None
    predicted_per_second: float | None = None
    itl_ms: Spread = Spread()
    token_ms: tuple[float, ...] = ()


class CacheRecord(msgspec.Struct, frozen=True):
    """What was reused, and the first reason that holds for not reusing more."""

    hit_ratio: float | None = None
    reason: CacheReason | None = None
    at: int | None = None
    kept: int | None = None
    lost: int | None = None
    before: str | None = None
    after: str | None = None
    no_rollback: bool = False
    shifted: bool = False
    hint: str | None = None


class MachineRecord(msgspec.Struct, frozen=True):
    """What the machine did during the turn; None where it does not tell.

    `cpu_percent` is the load of all cores, 0 to 100; the others are shares of one core.
    """

    devices: tuple[str, ...] = ()
    power: Literal["battery", "mains"] | None = None
    cpu_percent: float | None = None
    engine_rss_bytes: int | None = None
    ui_cpu_percent: float | None = None
    major_faults: int | None = None
    engine_cpu_percent: float | None = None
    others_cpu_percent: float | None = None


class StopRecord(msgspec.Struct, frozen=True):
    """Why the answer ended."""

    reason: StopReason
    detail: str | None = None


class TurnRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One turn: its counts, times, cache, memory and text.

    Attributes:
        warnings: What the load of the model that answered had to say.
    """

    schema: int = SCHEMA
    turn: int
    id: str
    started_at: str
    engine: EngineFacts | None
    first_after_load: bool
    model: ModelFacts | None
    context: ContextFacts | None
    sampling: SamplingRecord
    prompt_tokens: int | None
    cache_n: int | None
    prompt_n: int | None
    predicted_n: int
    thinking_n: int
    timings: Timings
    cache: CacheRecord
    kv: KvState | None
    machine: MachineRecord
    stop: StopRecord
    text: str
    thinking: str
    warnings: tuple[str, ...] = ()


def short_prefill(record: TurnRecord) -> bool:
    """Whether the prefill rate of a turn is a decode rate in disguise."""
    return record.prompt_n is not None and 0 < record.prompt_n < SHORT_PREFILL
