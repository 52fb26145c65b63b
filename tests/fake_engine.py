"""A scripted engine: exact times instead of a model, for tests of what reads the stream."""

from collections import deque
from collections.abc import Callable, Sequence

from backend.engine import EngineError
from backend.protocol import (
    CacheOutcome,
    ContextFacts,
    CountRequest,
    EngineExited,
    EngineFacts,
    EngineReady,
    EngineStarted,
    ErrorKind,
    Event,
    KvCacheState,
    KvState,
    LoadFailed,
    LoadRequest,
    ModelFacts,
    PrefillTiming,
    PromptCounted,
    PromptReady,
    PromptRendered,
    Request,
    StopReason,
    TokenBatch,
    TurnAccepted,
    TurnEnded,
    TurnRequest,
)

S = 1_000_000_000
MS = 1_000_000

ENGINE = EngineFacts(name="llama.cpp", version="llama-cpp-python 0.0.0", build="CPU : TEST = 1")

MODEL = ModelFacts(
    name="Scripted-1B",
    path="/models/scripted-1b.Q4_1.gguf",
    architecture="llama",
    quantization="Q4_1",
    declared_quantization="Q4_1",
    file_bytes=700_000_000,
    tensor_bytes=690_000_000,
    params=1_000_000_000,
    bits_per_weight=5.52,
)

CONTEXT = ContextFacts(
    n_ctx=4096,
    n_ctx_train=8192,
    n_batch=2048,
    n_ubatch=512,
    n_threads=2,
    n_threads_batch=2,
    n_gpu_layers=0,
    flash_attn=True,
    type_k="f16",
    type_v="f16",
    swa_full=False,
)


def kv(cells_used: int, cells: int = 4096) -> KvState:
    """A cache of 1 KiB a token, half of it K."""
    return KvState(
        cells_used=cells_used,
        cells=cells,
        bytes_used=cells_used * 1024,
        bytes_allocated=cells * 1024,
        bytes_per_token=1024,
        caches=(
            KvCacheState(
                kind="full",
                layers=8,
                cells=cells,
                cells_used=cells_used,
                k_bytes=cells * 512,
                v_bytes=cells * 512,
                type_k="f16",
                type_v="f16",
            ),
        ),
    )


def ready() -> EngineReady:
    """A loaded model."""
    return EngineReady(
        model=MODEL,
        context=CONTEXT,
        kv=kv(0),
        engine=ENGINE,
        devices=("CPU",),
        cause="start",
        load_ms=300.0,
        warmup_ms=9.0,
        progress_is_estimated=True,
    )


def started() -> EngineStarted:
    """A running child."""
    return EngineStarted(pid=1, engine=ENGINE, devices=("CPU",), gpu_offload=False)


def load_failed(message: str = "no such model") -> LoadFailed:
    """A model that cannot be used."""
    return LoadFailed(message)


def counted(request: CountRequest) -> PromptCounted:
    """A count in which each character of a message is a token, and nothing is reused."""
    total = sum(len(message.content) for message in request.messages)
    return PromptCounted(
        number=request.number,
        message_tokens=len(request.messages[-1].content),
        prompt_tokens=total,
        cache_n=0,
        prompt_n=total,
        n_ctx=CONTEXT.n_ctx,
    )


def failed(turn: int, kind: ErrorKind, detail: str = "it does not work") -> list[Event]:
    """A turn that is accepted and refused before its prompt is planned."""
    return [
        TurnAccepted(turn, 0),
        TurnEnded(
            turn=turn,
            t_ns=MS,
            reason="error",
            detail=detail,
            kind=kind,
            prompt_ns=0,
            decode_ns=0,
            decode_sample_ns=0,
            prompt_done=0,
            kv=kv(0),
        ),
    ]


def turn_events(
    turn: int,
    *,
    token_s: Sequence[float],
    pieces: Sequence[str] | None = None,
    accepted_s: float = 0.0,
    prefill_s: float = 0.01,
    cache_n: int = 0,
    prompt_n: int = 40,
    lead: str = "assistant\n",
    reason: StopReason = "length",
    first_after_load: bool = False,
    drop_chars: int = 0,
    resumed_n: int = 0,
) -> list[Event]:
    """The events of one turn.

    Args:
        turn: Its number.
        token_s: When each token is sampled, in seconds on the engine's clock.
        pieces: Text of each token.
        accepted_s: When the message is accepted.
        prefill_s: When prefill begins, after acceptance.
        cache_n: Tokens reused.
        prompt_n: Tokens prefilled.
        lead: End of the rendered prompt.
        reason: Why it ends.
        first_after_load: Whether it is the first turn after a load.
        drop_chars, resumed_n: Of an answer that is gone on with; see `PromptReady`.
    """
    texts = list(pieces) if pieces is not None else [f"w{index} " for index in range(len(token_s))]
    begin_ns = round((accepted_s + prefill_s) * S)
    stamps = [round(when * S) for when in token_s]
    prompt_tokens = cache_n + prompt_n
    events: list[Event] = [
        TurnAccepted(turn, round(accepted_s * S)),
        PromptRendered(turn, begin_ns - 2 * MS),
        PromptReady(
            turn=turn,
            t_ns=begin_ns,
            render_ns=4 * MS,
            tokenize_ns=2 * MS,
            cache_ns=1 * MS,
            prompt_tokens=prompt_tokens,
            cache_n=cache_n,
            prompt_n=prompt_n,
            cache=CacheOutcome(
                reason="appended" if cache_n else "first_turn",
                at=None,
                kept=cache_n,
                lost=0,
                before=None,
                after=None,
            ),
            kv=kv(cache_n),
            lead=lead,
            n_ctx_left=4096 - prompt_tokens + 1,
            first_after_load=first_after_load,
            ids=tuple(range(prompt_tokens)),
            drop_chars=drop_chars,
            resumed_n=resumed_n,
        ),
    ]
    for index, (stamp, text) in enumerate(zip(stamps, texts, strict=True)):
        first = PrefillTiming(stamp - begin_ns - MS, MS) if index == 0 else None
        events.append(TokenBatch(turn, (1000 + index,), (stamp,), (text,), first))
    gaps = max(0, len(stamps) - 1)
    events.append(
        TurnEnded(
            turn=turn,
            t_ns=stamps[-1] if stamps else begin_ns,
            reason=reason,
            detail=None,
            kind=None,
            prompt_ns=stamps[0] - begin_ns - MS if stamps else 0,
            decode_ns=(stamps[-1] - stamps[0]) * 9 // 10 if gaps else 0,
            decode_sample_ns=gaps * MS,
            prompt_done=prompt_n,
            kv=kv(prompt_tokens + gaps),
        )
    )
    return events


class ScriptedEngine:
    """Answers requests with events from a script; implements `backend.engine.Engine`.

    Args:
        answers: Called with each turn's request; the events of its answer.
        on_load: Events that answer a load.
        on_count: Events that answer a count.

    Attributes:
        requests: All that was sent to it.
        mute: It takes requests and answers none.
    """

    def __init__(
        self,
        answers: Callable[[TurnRequest], list[Event]],
        on_load: Callable[[LoadRequest], list[Event]] = lambda _request: [ready()],
        on_count: Callable[[CountRequest], list[Event]] = lambda request: [counted(request)],
    ) -> None:
        self.requests: list[Request] = []
        self.clock_ns = 0
        self.running = True
        self.mute = False
        self._answers = answers
        self._on_load = on_load
        self._on_count = on_count
        self._events: deque[Event] = deque([started()])

    @property
    def alive(self) -> bool:
        """Whether it takes requests."""
        return self.running

    @property
    def turns(self) -> list[TurnRequest]:
        """The turns that were sent to it."""
        return [request for request in self.requests if isinstance(request, TurnRequest)]

    @property
    def loads(self) -> list[LoadRequest]:
        """The loads that were sent to it."""
        return [request for request in self.requests if isinstance(request, LoadRequest)]

    def now_ns(self) -> int:
        """A clock that stands until it is set."""
        return self.clock_ns

    def push(self, *events: Event) -> None:
        """Say something unasked."""
        self._events.extend(events)

    def send(self, request: Request) -> None:
        """Take a request and queue its answer."""
        if not self.running:
            raise EngineError("the engine is not running")
        self.requests.append(request)
        if self.mute:
            return
        if isinstance(request, LoadRequest):
            self._events.extend(self._on_load(request))
        elif isinstance(request, TurnRequest):
            self._events.extend(self._answers(request))
        elif isinstance(request, CountRequest):
            self._events.extend(self._on_count(request))

    def drain(self) -> list[Event]:
        """What was queued."""
        events = list(self._events)
        self._events.clear()
        return events

    def wait(self, timeout: float | None = None) -> Event | None:
        """The next queued event; never waits."""
        del timeout
        return self._events.popleft() if self._events else None

    def die(self, message: str = "the engine crashed (SIGSEGV)") -> None:
        """End as a child does that crashes: no more requests, and a last word."""
        self.running = False
        self.push(EngineExited(expected=False, message=message, log_tail=("last line",)))

    def close(self) -> None:
        """Take no more requests, and say so as a child does that was told to end."""
        if self.running:
            self.running = False
            self.push(EngineExited(expected=True, message="the engine ended"))
