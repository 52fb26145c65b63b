"""One turn's events, gathered, and the record derived from them."""

import msgspec

from backend.chat.thinking import Channel, ThinkingSplitter, split_text
from backend.metrics.record import (
    CacheRecord,
    MachineRecord,
    SamplingRecord,
    StopRecord,
    Timings,
    TurnRecord,
)
from backend.metrics.statistics import Durations, ms, rate_per_second
from backend.protocol import (
    EngineReady,
    PrefillProgress,
    PromptReady,
    TokenBatch,
    TurnAccepted,
    TurnEnded,
    TurnRequested,
    WindowSample,
)


class TurnTrace:
    """The events of one turn in the order in which they came.

    Adding a token costs the same however long the answer is.

    Attributes:
        requested: What was asked for.
        accepted_ns: When the engine took it; None before.
        prompt: The plan of the prompt; None before prefill.
        token_ns: When each token was sampled.
        thinking, answer: Text of this turn so far, in pieces.
        gaps: Times between tokens, in milliseconds.
    """

    def __init__(self, requested: TurnRequested) -> None:
        self.requested = requested
        self.accepted_ns: int | None = None
        self.prompt: PromptReady | None = None
        self.progress: PrefillProgress | None = None
        self.prompt_ns: int | None = None
        self.first_sample_ns: int | None = None
        self.ended: TurnEnded | None = None
        self.token_ns: list[int] = []
        self.token_ids: list[int] = []
        self.raw: list[str] = []
        self.thinking: list[str] = []
        self.answer: list[str] = []
        self.first_answer_ns: int | None = None
        self.gaps = Durations()
        request = requested.request
        self._told = request.messages[-1].content if request.resume else ""
        self._thought = self._begun = False
        self._splitter = ThinkingSplitter()

    @property
    def is_thinking(self) -> bool:
        """Whether the model is thinking now."""
        return self._splitter.thinking

    @property
    def thinking_n(self) -> int:
        """Thinking tokens so far."""
        return self._splitter.thinking_n

    @property
    def raw_text(self) -> str:
        """All text that the model generated in this turn, thinking and its markers included."""
        return "".join(self.raw)

    @property
    def content(self) -> str:
        """All of the answer's text, of one that was gone on with also what there was before."""
        told = self._told
        if self.prompt is not None and (self.token_ids or self.raw):
            told = told[: len(told) - self.prompt.drop_chars]
        return told + self.raw_text

    @property
    def told_ids(self) -> tuple[int, ...]:
        """The tokens that an answer which is gone on with had before this turn."""
        prompt, request = self.prompt, self.requested.request
        if prompt is not None:
            return prompt.ids[len(prompt.ids) - prompt.resumed_n :]
        return request.messages[-1].token_ids if request.resume else ()

    @property
    def answer_ids(self) -> tuple[int, ...]:
        """All of the answer's tokens, also those of the turns that it was cut off in."""
        return (*self.told_ids, *self.token_ids)

    def add(
        self, event: TurnAccepted | PromptReady | PrefillProgress | TokenBatch | TurnEnded
    ) -> None:
        """Take in the next event of this turn."""
        match event:
            case TurnAccepted():
                self.accepted_ns = event.t_ns
            case PromptReady():
                self.prompt = event
                self._splitter = ThinkingSplitter(event.lead)
                told = self._told[: len(self._told) - event.drop_chars]
                self._splitter.go_on(told)
                before = split_text(told, event.lead, finished=False)
                self._thought, self._begun = bool(before.thinking), bool(before.answer.strip())
            case PrefillProgress():
                self.progress = event
            case TokenBatch():
                self._add_tokens(event)
            case TurnEnded():
                self._add_text(event.tail)
                for segment in self._splitter.finish():
                    self._take(segment.channel, segment.text, segment.token)
                self.ended = event

    def _add_tokens(self, batch: TokenBatch) -> None:
        if batch.first is not None:
            self.prompt_ns = batch.first.prompt_ns
            self.first_sample_ns = batch.first.first_sample_ns
        previous = self.token_ns[-1] if self.token_ns else None
        for token_id, t_ns, piece in zip(batch.ids, batch.t_ns, batch.pieces, strict=True):
            if previous is not None:
                self.gaps.add(ms(t_ns - previous))
            previous = t_ns
            self.token_ns.append(t_ns)
            self.token_ids.append(token_id)
            self.raw.append(piece)
            for segment in self._splitter.feed(piece):
                self._take(segment.channel, segment.text, segment.token)

    def _add_text(self, text: str) -> None:
        if text:
            self.raw.append(text)
            for segment in self._splitter.feed_text(text):
                self._take(segment.channel, segment.text, segment.token)

    def _take(self, channel: Channel, text: str, token: int) -> None:
        if channel == "thinking":
            self.thinking.append(text)
            return
        if not self.answer and not self._begun:
            text = text.lstrip() if self.thinking or self._thought else text
            if not text:
                return
        self.answer.append(text)
        if self.first_answer_ns is None and text.strip():
            self.first_answer_ns = self.token_ns[min(token, len(self.token_ns) - 1)]


def timings(trace: TurnTrace, *, with_tokens: bool = True) -> Timings:
    """The times of a turn, so far or whole; see `Timings` for the formulas.

    Args:
        trace: The turn.
        with_tokens: Whether to list the time of each token, which costs their number.
    """
    start = trace.accepted_ns
    prompt = trace.prompt
    if start is None or prompt is None:
        return Timings()
    stamps = trace.token_ns
    ended = trace.ended
    prompt_ns = trace.prompt_ns
    if prompt_ns is None and ended is not None:
        prompt_ns = ended.prompt_ns
    prefilled = bool(stamps) or (ended is not None and ended.prompt_done == prompt.prompt_n)
    predicted_ns = stamps[-1] - stamps[0] if len(stamps) > 1 else None
    decode_ns = ended.decode_ns if ended is not None and predicted_ns is not None else None
    sample_ns = ended.decode_sample_ns if ended is not None and predicted_ns is not None else None
    other_ns = (
        predicted_ns - decode_ns - sample_ns
        if predicted_ns is not None and decode_ns is not None and sample_ns is not None
        else None
    )
    return Timings(
        ttft_ms=ms(stamps[0] - start) if stamps else None,
        ttfa_ms=_ms(trace.first_answer_ns - start if trace.first_answer_ns is not None else None),
        render_ms=ms(prompt.render_ns),
        tokenize_ms=ms(prompt.tokenize_ns),
        cache_ms=ms(prompt.cache_ns),
        prompt_ms=_ms(prompt_ns),
        first_sample_ms=_ms(trace.first_sample_ns),
        predicted_ms=_ms(predicted_ns),
        decode_ms=_ms(decode_ns),
        decode_sample_ms=_ms(sample_ns),
        decode_other_ms=_ms(other_ns),
        e2e_ms=ms(stamps[-1] - start) if stamps else None,
        prompt_per_second=(
            rate_per_second(prompt.prompt_n, prompt_ns)
            if prefilled and prompt_ns is not None
            else None
        ),
        predicted_per_second=(
            rate_per_second(len(stamps) - 1, predicted_ns) if predicted_ns is not None else None
        ),
        itl_ms=trace.gaps.spread(),
        token_ms=tuple(ms(stamp - start) for stamp in stamps) if with_tokens else (),
    )


def turn_record(
    trace: TurnTrace, ready: EngineReady | None, window: WindowSample | None
) -> TurnRecord:
    """The record of a turn that has ended.

    Args:
        trace: The turn's events, `TurnEnded` among them.
        ready: The engine that answered; None if it failed before it was ready.
        window: The sample of machine and window over the turn; None where nobody sampled.

    Raises:
        ValueError: The turn has not ended.
    """
    ended = trace.ended
    if ended is None:
        raise ValueError("a turn that has not ended has no record")
    request = trace.requested.request
    prompt = trace.prompt
    outcome = prompt.cache if prompt else None
    return TurnRecord(
        turn=request.turn,
        id=request.turn_id,
        started_at=request.started_at,
        engine=ready.engine if ready else None,
        first_after_load=prompt.first_after_load if prompt else False,
        model=ready.model if ready else None,
        context=ready.context if ready else None,
        sampling=SamplingRecord(**msgspec.structs.asdict(request.sampling)),
        prompt_tokens=prompt.prompt_tokens if prompt else None,
        cache_n=prompt.cache_n if prompt else None,
        prompt_n=prompt.prompt_n if prompt else None,
        predicted_n=len(trace.token_ns),
        thinking_n=trace.thinking_n,
        timings=timings(trace),
        cache=CacheRecord(
            hit_ratio=prompt.cache_n / prompt.prompt_tokens,
            reason=outcome.reason,
            at=outcome.at,
            kept=outcome.kept,
            lost=outcome.lost,
            before=outcome.before,
            after=outcome.after,
            no_rollback=outcome.no_rollback,
            hint=outcome.hint,
        )
        if prompt and outcome
        else CacheRecord(),
        kv=ended.kv,
        machine=MachineRecord(
            devices=ready.devices if ready else (),
            power=window.power if window else None,
            cpu_percent=window.cpu_percent if window else None,
            engine_rss_bytes=ended.engine_rss_bytes,
            ui_cpu_percent=window.ui_cpu_percent if window else None,
            major_faults=ended.major_faults,
            engine_cpu_percent=window.engine_cpu_percent if window else None,
            others_cpu_percent=window.others_cpu_percent if window else None,
        ),
        stop=StopRecord(ended.reason, ended.detail),
        text="".join(trace.answer),
        thinking="".join(trace.thinking).strip("\n"),
        warnings=ready.warnings if ready else (),
    )


def _ms(duration_ns: int | None) -> float | None:
    return None if duration_ns is None else ms(duration_ns)
