"""An engine asked directly, without a session: a chat that is a plain list of messages."""

from pathlib import Path
from time import monotonic
from typing import TypeVar

import msgspec

from backend.local.process import LocalEngine
from backend.metrics.record import TurnRecord
from backend.metrics.trace import TurnTrace, turn_record
from backend.protocol import (
    ChatMessage,
    CountRequest,
    EngineExited,
    EngineReady,
    Event,
    LoadFailed,
    LoadRequest,
    Message,
    PrefillProgress,
    PromptCounted,
    PromptReady,
    TokenBatch,
    TurnAccepted,
    TurnEnded,
    TurnRequest,
    TurnRequested,
)
from backend.settings import EngineSettings, SamplingSettings
from tests.engine.driver import PATIENCE_S, engine_settings

E = TypeVar("E", bound=Event)

GREEDY = SamplingSettings(temp=0.0, max_tokens=16)


class Talk:
    """One chat with one engine.

    Args:
        logs: Folder of the engine's logs.
        path: The model.
        settings: How it is loaded; by itself with one thread and 2048 tokens.
        chat_template: Replaces the model's.

    Attributes:
        messages: The chat so far; a test may change it as it likes.
        ready: The loaded model.
    """

    def __init__(
        self,
        logs: Path,
        path: Path,
        settings: EngineSettings | None = None,
        *,
        chat_template: str | None = None,
    ) -> None:
        self.engine = LocalEngine(logs)
        self.messages: list[ChatMessage] = []
        self.ready: EngineReady | None = None
        self._request = LoadRequest(
            str(path), settings or engine_settings(), chat_template=chat_template
        )
        self._turn = 0
        self._counted = 0

    def load(self) -> Event:
        """Load the model; the last event of the load."""
        self.engine.send(self._request)
        event = self.until(EngineReady, LoadFailed, EngineExited)
        self.ready = event if isinstance(event, EngineReady) else None
        return event

    def request_with(self, chat_template: str) -> None:
        """The next load is with another template."""
        self._request = msgspec.structs.replace(self._request, chat_template=chat_template)

    def until(self, *kinds: type[Message]) -> Event:
        """The next event of one of some kinds."""
        end = monotonic() + PATIENCE_S
        while monotonic() < end:
            event = self.engine.wait(0.5)
            if isinstance(event, kinds):
                return event
        raise AssertionError(f"none of {kinds}")

    def one(self, kind: type[E]) -> E:
        """The next event of a kind."""
        event = self.until(kind)
        assert isinstance(event, kind)
        return event

    def ask(
        self,
        text: str,
        sampling: SamplingSettings = GREEDY,
        *,
        max_tokens: int | None = 16,
        cancel_after_tokens: int | None = None,
    ) -> TurnTrace:
        """Send a message and wait for its answer, which joins the chat."""
        self.messages.append(ChatMessage("user", text))
        sampling = msgspec.structs.replace(sampling, max_tokens=max_tokens)
        trace = self._answer(sampling, cancel_after_tokens=cancel_after_tokens)
        self._keep(trace, trace.prompt.lead if trace.prompt is not None else "")
        return trace

    def resume(
        self, sampling: SamplingSettings = GREEDY, *, max_tokens: int | None = 16
    ) -> TurnTrace:
        """Go on with the last answer."""
        sampling = msgspec.structs.replace(sampling, max_tokens=max_tokens)
        trace = self._answer(sampling, resume=True)
        self._keep(trace, self.messages.pop().lead)
        return trace

    def count(self, draft: str) -> PromptCounted:
        """What the chat would cost with one more message."""
        return self.count_of(*self.messages, ChatMessage("user", draft))

    def count_of(self, *messages: ChatMessage) -> PromptCounted:
        """What a conversation would cost."""
        self._counted += 1
        self.engine.send(CountRequest(self._counted, "chat", messages))
        counted = self.one(PromptCounted)
        assert counted.number == self._counted
        return counted

    def record(self, trace: TurnTrace) -> TurnRecord:
        """The record of a turn."""
        return turn_record(trace, self.ready, None)

    def _answer(
        self,
        sampling: SamplingSettings,
        *,
        resume: bool = False,
        cancel_after_tokens: int | None = None,
    ) -> TurnTrace:
        self._turn += 1
        request = TurnRequest(
            turn=self._turn,
            turn_id=str(self._turn),
            chat_id="chat",
            messages=tuple(self.messages),
            sampling=sampling,
            started_at="",
            resume=resume,
            cancel_after_tokens=cancel_after_tokens,
        )
        trace = TurnTrace(TurnRequested(request, None))
        self.engine.send(request)
        while trace.ended is None:
            event = self.until(
                TurnAccepted, PromptReady, PrefillProgress, TokenBatch, TurnEnded, EngineExited
            )
            assert not isinstance(event, EngineExited), event.message
            assert isinstance(
                event, TurnAccepted | PromptReady | PrefillProgress | TokenBatch | TurnEnded
            )
            trace.add(event)
        return trace

    def _keep(self, trace: TurnTrace, lead: str) -> None:
        assert trace.ended is not None
        ids = trace.answer_ids[:-1] if trace.ended.reason == "eog" else trace.answer_ids
        self.messages.append(ChatMessage("assistant", trace.content, ids, lead))

    def close(self) -> None:
        """End the engine."""
        self.engine.close()
