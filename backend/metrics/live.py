"""The state of a session as its panels show it: events in, one immutable snapshot out."""

from collections import deque
from typing import Literal

import msgspec

from backend.metrics.record import SHORT_PREFILL, Timings, TurnRecord
from backend.metrics.statistics import NS_PER_S, Spread, median, ms, rate_per_second
from backend.metrics.trace import TurnTrace, timings, turn_record
from backend.protocol import (
    CacheDropped,
    CacheOutcome,
    ChatOpened,
    ContextFacts,
    EngineExited,
    EngineReady,
    EngineStarted,
    Event,
    KvState,
    LoadFailed,
    LoadProgress,
    ModelRead,
    PastTurn,
    PrefillProgress,
    PromptCounted,
    PromptReady,
    TokenBatch,
    TurnAccepted,
    TurnEnded,
    TurnRequested,
    WindowSample,
)
from models.header import ModelHeader

EnginePhase = Literal["starting", "loading", "ready", "failed", "gone"]
TurnPhase = Literal["idle", "preparing", "prefill", "decode"]

STRIP_LENGTH = 240
"""Inter-token gaps kept for the strip."""

ROLLING_NS = 2 * NS_PER_S
"""Window of the rolling decode rate."""

BARS_KEPT = 200
"""Earlier turns that a dashboard can look back on."""


class ChatTotals(msgspec.Struct, frozen=True):
    """Reuse over the turns of the open chat, the running one included."""

    cache_n: int = 0
    prompt_n: int = 0

    @property
    def hit_ratio(self) -> float | None:
        """Reused tokens of all prompt tokens; None before the first turn."""
        total = self.cache_n + self.prompt_n
        return self.cache_n / total if total else None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that the panels show at one moment.

    Attributes:
        engine: State of the engine; `message` says more when it failed or is gone.
        load_fraction: Share of the weights loaded; None when no load is under way.
        phase: What the current turn does; `idle` between turns.
        turn: Number of the current or last turn; None before the first.
        elapsed_ms: Since the current turn was accepted, at the moment of the snapshot.
        prefill_done, prefill_total: New prompt tokens computed, of how many.
        prefill_left_ms: Time that prefill still takes at its pace so far; None while unknown.
        prefill_rate_now: Tokens per second so far in a running prefill, and afterwards of it.
        rolling_rate: Decode rate over the last two seconds of the answer.
        gaps_ms: The last times between tokens, oldest first.
        saved_ms: What the reused tokens would have cost at the session's prefill rate (≈).
        session_prompt_per_second: The session's median prefill rate, for estimates; None
            while unknown.
        previous: Timings of the turn before; None for the first.
        draft: What the draft that was counted last would cost; None since a turn began.
    """

    engine: EnginePhase
    message: str | None = None
    load_fraction: float | None = None
    header: ModelHeader | None = None
    ready: EngineReady | None = None
    context: ContextFacts | None = None
    phase: TurnPhase = "idle"
    turn: int | None = None
    elapsed_ms: float | None = None
    prompt_tokens: int | None = None
    cache_n: int | None = None
    prompt_n: int | None = None
    predicted_n: int = 0
    thinking_n: int = 0
    prefill_done: int = 0
    prefill_total: int | None = None
    prefill_left_ms: float | None = None
    prefill_rate_now: float | None = None
    rolling_rate: float | None = None
    timings: Timings = Timings()
    previous: Timings | None = None
    gaps_ms: tuple[float, ...] = ()
    itl_ms: Spread = Spread()
    cache: CacheOutcome | None = None
    kv: KvState | None = None
    saved_ms: float | None = None
    session_prompt_per_second: float | None = None
    totals: ChatTotals = ChatTotals()
    bars: tuple[PastTurn, ...] = ()
    window: WindowSample | None = None
    draft: PromptCounted | None = None

    @property
    def progress_is_estimated(self) -> bool:
        """Whether prefill runs and how far it is can only be estimated (≈)."""
        return (
            self.phase == "prefill" and self.ready is not None and self.ready.progress_is_estimated
        )


class LiveFigures:
    """Reads the event stream and answers with snapshots.

    An event costs the same however long the chat and the answer are; a snapshot is taken a few
    times a second.
    """

    def __init__(self) -> None:
        self._engine: EnginePhase = "starting"
        self._message: str | None = None
        self._load_fraction: float | None = None
        self._header: ModelHeader | None = None
        self._ready: EngineReady | None = None
        self._trace: TurnTrace | None = None
        self._answering: EngineReady | None = None
        self._window: WindowSample | None = None
        self._turn_window: WindowSample | None = None
        self._kv: KvState | None = None
        self._bars: deque[PastTurn] = deque(maxlen=BARS_KEPT)
        self._totals = ChatTotals()
        self._previous: Timings | None = None
        self._prefill_rates: deque[float] = deque(maxlen=BARS_KEPT)
        self._cold_rate: float | None = None
        self._gaps: deque[float] = deque(maxlen=STRIP_LENGTH)
        self._recent: deque[int] = deque()
        self._final: Timings | None = None
        self._chat_id: str | None = None
        self._draft: PromptCounted | None = None

    @property
    def trace(self) -> TurnTrace | None:
        """The current or last turn."""
        return self._trace

    @property
    def ready(self) -> EngineReady | None:
        """The engine that is loaded; None while none is."""
        return self._ready

    @property
    def chat_id(self) -> str | None:
        """The chat that is open; None before one was."""
        return self._chat_id

    @property
    def header(self) -> ModelHeader | None:
        """The header of the model that was asked for last; None before one was read."""
        return self._header

    @property
    def load_failed(self) -> bool:
        """Whether the last load failed."""
        return self._engine == "failed"

    @property
    def busy(self) -> bool:
        """Whether a turn is under way."""
        return self._trace is not None and self._trace.ended is None

    def apply(self, event: Event) -> TurnRecord | None:
        """Take an event in; the turn's record when it ends one."""
        match event:
            case TurnRequested():
                self._begin(event)
            case TurnAccepted() | PromptReady() | PrefillProgress() | TokenBatch():
                if self._trace is not None and event.turn == self._trace.requested.request.turn:
                    self._advance(self._trace, event)
            case TurnEnded():
                if self._trace is not None and event.turn == self._trace.requested.request.turn:
                    return self._end(self._trace, event)
            case WindowSample(turn=None):
                self._window = event
            case WindowSample():
                self._turn_window = event
            case ChatOpened():
                self._open_chat(event)
            case _:
                self._apply_engine(event)
        return None

    def _apply_engine(self, event: Event) -> None:
        match event:
            case EngineStarted():
                self._engine = "starting"
                self._message = None
            case ModelRead():
                self._engine = "loading"
                self._header = event.header
                self._ready = None
                self._load_fraction = 0.0
            case LoadProgress():
                self._load_fraction = event.fraction
            case EngineReady():
                self._engine = "ready"
                self._message = None
                self._ready = event
                self._kv = event.kv
                self._load_fraction = None
            case LoadFailed():
                self._engine = "failed"
                self._message = event.message
                self._load_fraction = None
                self._ready = None
                self._kv = None
            case EngineExited():
                self._engine = "gone"
                self._message = event.message
                self._load_fraction = None
                self._ready = None
                self._kv = None
            case CacheDropped():
                self._kv = event.kv
            case PromptCounted():
                self._draft = event
            case _:
                pass

    def _open_chat(self, event: ChatOpened) -> None:
        if event.chat_id == self._chat_id:
            return
        self._chat_id = event.chat_id
        self._trace = None
        self._final = None
        self._previous = None
        self._totals = ChatTotals()
        self._bars.clear()
        for past in event.past:
            self._add_past(past)
        self._gaps.clear()
        self._recent.clear()

    def _add_past(self, past: PastTurn) -> None:
        self._bars.append(past)
        if past.cache_n is not None and past.prompt_n is not None:
            self._totals = ChatTotals(
                self._totals.cache_n + past.cache_n, self._totals.prompt_n + past.prompt_n
            )

    def _begin(self, event: TurnRequested) -> None:
        if self._trace is not None and self._trace.ended is not None:
            self._previous = self._final
        self._trace = TurnTrace(event)
        self._draft = None
        self._answering = None
        self._turn_window = None
        self._final = None
        self._gaps.clear()
        self._recent.clear()

    def _advance(
        self, trace: TurnTrace, event: TurnAccepted | PromptReady | PrefillProgress | TokenBatch
    ) -> None:
        last = trace.token_ns[-1] if trace.token_ns else None
        trace.add(event)
        if isinstance(event, TurnAccepted):
            # An engine that dies in the turn is not ready any more, but it was this one.
            self._answering = self._ready
        elif isinstance(event, PromptReady):
            self._kv = event.kv
        elif isinstance(event, TokenBatch):
            for t_ns in event.t_ns:
                if last is not None:
                    self._gaps.append(ms(t_ns - last))
                last = t_ns
                self._recent.append(t_ns)
            while self._recent and self._recent[-1] - self._recent[0] > ROLLING_NS:
                self._recent.popleft()

    def _end(self, trace: TurnTrace, event: TurnEnded) -> TurnRecord:
        trace.add(event)
        if event.kv is not None:
            self._kv = event.kv
        window = self._turn_window or self._window
        record = turn_record(trace, self._answering or self._ready, window)
        figures = record.timings
        self._final = figures
        # Of a prefill that was stopped only what was computed counts.
        computed = record.prompt_n if event.prompt_done is None else event.prompt_done
        self._add_past(PastTurn(record.turn, record.cache_n, computed, record.predicted_n))
        rate = figures.prompt_per_second
        if rate is not None and (record.prompt_n or 0) >= SHORT_PREFILL:
            if record.first_after_load:
                self._cold_rate = rate
            else:
                self._prefill_rates.append(rate)
        return record

    def snapshot(self, now_ns: int) -> Snapshot:
        """The state at `now_ns` on the engine's clock."""
        trace = self._trace
        state = Snapshot(
            engine=self._engine,
            message=self._message,
            load_fraction=self._load_fraction,
            header=self._header,
            ready=self._ready,
            context=self._ready.context if self._ready else None,
            kv=self._kv,
            totals=self._totals,
            bars=tuple(self._bars),
            previous=self._previous,
            window=self._window,
            draft=self._draft,
            session_prompt_per_second=self._session_rate(),
        )
        return state if trace is None else self._with_turn(state, trace, now_ns)

    def _session_rate(self) -> float | None:
        """The session's median prefill rate; while there is none, that of the first turn."""
        known = median(self._prefill_rates)
        return self._cold_rate if known is None else known

    def _with_turn(self, state: Snapshot, trace: TurnTrace, now_ns: int) -> Snapshot:
        request = trace.requested.request
        prompt = trace.prompt
        phase = _phase(trace)
        figures = self._final or timings(trace, with_tokens=False)
        progress = trace.progress
        done = progress.done if progress else 0
        rate, left_ms = _prefill_pace(trace)
        if trace.token_ns and prompt is not None:
            done = prompt.prompt_n
        elif trace.ended is not None and trace.ended.prompt_done is not None:
            done = trace.ended.prompt_done
        totals = state.totals
        if prompt is not None and trace.ended is None:
            totals = ChatTotals(totals.cache_n + prompt.cache_n, totals.prompt_n + prompt.prompt_n)
        saved_ms = None
        session_rate = state.session_prompt_per_second
        if prompt is not None and session_rate:
            saved_ms = prompt.cache_n / session_rate * 1000
        recent = self._recent
        kv = state.kv
        if kv is not None and phase in ("prefill", "decode") and prompt is not None:
            kv = kv_with_tokens(kv, _cells_now(trace, prompt, done))
        return msgspec.structs.replace(
            state,
            phase=phase,
            turn=request.turn,
            elapsed_ms=(
                ms(now_ns - trace.accepted_ns)
                if trace.accepted_ns is not None and trace.ended is None
                else None
            ),
            prompt_tokens=prompt.prompt_tokens if prompt else None,
            cache_n=prompt.cache_n if prompt else None,
            prompt_n=prompt.prompt_n if prompt else None,
            predicted_n=len(trace.token_ns),
            thinking_n=trace.thinking_n,
            prefill_done=done,
            prefill_total=prompt.prompt_n if prompt else None,
            prefill_left_ms=left_ms,
            prefill_rate_now=figures.prompt_per_second or rate,
            rolling_rate=(
                rate_per_second(len(recent) - 1, recent[-1] - recent[0]) if recent else None
            ),
            timings=figures,
            gaps_ms=tuple(self._gaps),
            itl_ms=figures.itl_ms,
            cache=prompt.cache if prompt else None,
            kv=kv,
            saved_ms=saved_ms,
            totals=totals,
        )


def kv_with_tokens(kv: KvState, tokens: int) -> KvState:
    """The cache with `tokens` in it, between two reports of the engine.

    How many cells a sliding window has freed by then is not known: it may be less than all
    tokens (≈). A recurrent state is one cell.
    """
    caches = tuple(
        msgspec.structs.replace(
            cache,
            cells_used=min(tokens, cache.cells),
            cells_used_exact=cache.kind != "swa" or not tokens,
        )
        for cache in kv.caches
    )
    used = None
    if caches:
        used = sum(bytes_in_use(c.cells_used, c.cells, c.k_bytes + c.v_bytes) for c in caches)
    return msgspec.structs.replace(kv, cells_used=tokens, caches=caches, bytes_used=used)


def bytes_in_use(cells_used: int, cells: int, allocated: int) -> int:
    """Bytes that the used cells of a cache take of its allocation."""
    return allocated * cells_used // cells if cells else 0


def _phase(trace: TurnTrace) -> TurnPhase:
    if trace.ended is not None:
        return "idle"
    if trace.token_ns:
        return "decode"
    return "prefill" if trace.prompt is not None else "preparing"


def _cells_now(trace: TurnTrace, prompt: PromptReady, done: int) -> int:
    """Cells in use: the newest token is sampled but not yet decoded into the cache."""
    return prompt.cache_n + done + max(0, len(trace.token_ns) - 1)


def _prefill_pace(trace: TurnTrace) -> tuple[float | None, float | None]:
    """Tokens per second of a running prefill, and the milliseconds that are left."""
    prompt = trace.prompt
    progress = trace.progress
    if prompt is None or progress is None or trace.token_ns or trace.ended is not None:
        return None, None
    rate = rate_per_second(progress.done, progress.t_ns - prompt.t_ns)
    if rate is None:
        return None, None
    return rate, (progress.total - progress.done) / rate * 1000
