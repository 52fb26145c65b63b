"""A turn on its way to an engine: it waits for a load, survives a dead engine, comes to an end."""

import random
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple
from uuid import uuid4

import msgspec

from backend.chat.tree import Chat
from backend.engine import EngineError, RequestError
from backend.protocol import (
    CancelRequest,
    CountRequest,
    DropCacheRequest,
    EngineExited,
    ErrorKind,
    StopReason,
    TurnEnded,
    TurnRequest,
    TurnRequested,
)
from backend.session.link import EngineLink
from backend.session.stream import EventStream
from backend.settings import SamplingSettings


class Script(NamedTuple):
    """Where a turn stops by itself, to the token; see `TurnRequest`."""

    cancel_after_tokens: int | None = None
    cancel_at_prompt_token: int | None = None


class TurnFlow:
    """One turn at a time.

    Args:
        link: Where it is sent.
        stream: Where it is told of.
        start_engine: Starts a new engine and loads the model.

    Attributes:
        number: Number of the last turn, from 1; 0 before the first.
    """

    def __init__(
        self, link: EngineLink, stream: EventStream, start_engine: Callable[[], None]
    ) -> None:
        self._link = link
        self._stream = stream
        self._start_engine = start_engine
        self._waiting: TurnRequest | None = None
        self._retried = False
        self.number = 0

    @property
    def waits(self) -> bool:
        """Whether a turn waits for a model."""
        return self._waiting is not None

    def request(
        self, chat: Chat, sampling: SamplingSettings, script: Script, *, resume: bool = False
    ) -> TurnRequest:
        """The next turn: all of the chat's branch, and a seed if none is set."""
        self.number += 1
        if sampling.seed is None and sampling.temp > 0:
            drawn = random.SystemRandom().randrange(1 << 32)
            sampling = msgspec.structs.replace(sampling, seed=drawn)
        return TurnRequest(
            turn=self.number,
            turn_id=uuid4().hex,
            chat_id=chat.id,
            messages=chat.messages(),
            sampling=sampling,
            started_at=datetime.now().astimezone().isoformat(timespec="milliseconds"),
            continues=chat.reached_a_model,
            resume=resume,
            cancel_after_tokens=script.cancel_after_tokens,
            cancel_at_prompt_token=script.cancel_at_prompt_token,
        )

    def begin(self, request: TurnRequest, user_text: str | None) -> None:
        """Send a turn, once a model is there."""
        self._stream.turn_begins()
        self.notice_death()
        self._stream.take(TurnRequested(request, user_text))
        self._waiting = request
        self._retried = False
        live = self._stream.live
        if self._link.loads:
            return
        if live.ready is not None:
            self.model_ready()
        elif not self._link.alive or live.load_failed:
            self._start_engine()

    def fail(self, request: TurnRequest, detail: str) -> None:
        """Note a turn that cannot be asked for."""
        self._stream.take(TurnRequested(request, None))
        self.end("error", detail, "busy")

    def notice_death(self) -> None:
        """Take in the end of an engine that died since the last tick."""
        self._stream.drain()
        if not self._link.alive:
            self._link.close()
            self._stream.drain()

    def model_ready(self) -> None:
        """A model is there: send what waits for it."""
        request, self._waiting = self._waiting, None
        if request is not None:
            self.send(request)

    def engine_exited(self, event: EngineExited) -> None:
        """The engine of the turn under way is gone."""
        trace = self._stream.live.trace
        assert trace is not None
        if trace.accepted_ns is None and not self._retried:
            # Nothing of the answer existed yet: the message goes to a new engine, once.
            self._retried = True
            self._waiting = trace.requested.request
            self._start_engine()
            return
        self.end("error", event.message, event.kind)

    def send(self, request: TurnRequest | CancelRequest | CountRequest | DropCacheRequest) -> None:
        """Send to an engine that may just have died; its `EngineExited` tells the rest."""
        try:
            self._link.send(request)
        except RequestError as error:
            if isinstance(request, TurnRequest):
                self.end("error", str(error), "engine")
        except EngineError:
            self._stream.log.add(("phasescope: the engine is gone; its end is on its way",))

    def end(self, reason: StopReason, detail: str | None, kind: ErrorKind | None) -> None:
        """End a turn of which the engine says nothing more."""
        self._waiting = None
        self._stream.take(
            TurnEnded(
                turn=self.number,
                t_ns=self._link.now_ns(),
                reason=reason,
                detail=detail,
                kind=kind,
                prompt_ns=None,
                decode_ns=None,
                decode_sample_ns=None,
                prompt_done=None,
                kv=None,
            )
        )
