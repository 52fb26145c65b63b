"""A session: one chat at a time, one engine, one event stream that everything reads.

The window, the command line and the tests all work through this class. It turns what the user
wants into requests, feeds every event to the live figures, the store and a recording, and keeps
the chat's tree. It never waits: `tick` takes what has come.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from time import monotonic, perf_counter_ns
from typing import NamedTuple
from uuid import uuid4

import msgspec

from backend.chat.chatml import CHATML
from backend.chat.tree import Chat, ChatError, Node, NodeState, well_formed
from backend.engine import Engine, EngineError, RequestError
from backend.history import ChatHead, History
from backend.machine import WindowSampler
from backend.metrics.live import LiveFigures, Snapshot
from backend.metrics.record import TurnRecord
from backend.metrics.trace import TurnTrace
from backend.protocol import (
    CancelRequest,
    ChatOpened,
    DropCacheRequest,
    EngineExited,
    EngineReady,
    EngineStarted,
    ErrorKind,
    Event,
    LoadCause,
    LoadFailed,
    LoadRequest,
    LogLines,
    PromptReady,
    StopReason,
    TokenBatch,
    TurnEnded,
    TurnRequest,
    TurnRequested,
)
from backend.recording import Recorder, RecordingError
from backend.settings import EngineSettings, SamplingSettings
from backend.store import StoreWriter

LOG_LINES_KEPT = 2_000

SAVE_EVERY_S = 1.0
"""How often an answer in progress is stored."""

SAMPLE_EVERY_S = 1.0
"""How often the machine and the window are sampled, also between turns."""

FLUSH_S = 3.0
"""How long closing waits until all is stored."""

LAST_MODEL = "last_model"
"""Setting in the store: path of the model that was loaded last."""

REFUSED: tuple[ErrorKind, ...] = ("model", "template", "prompt_too_long")
"""Failures that give the message back to the user: it was never answered in part."""


class SessionError(Exception):
    """What was asked for cannot be done now; the text is one sentence."""


class Update(NamedTuple):
    """An event that was taken in, and the record of the turn that it ended."""

    event: Event
    record: TurnRecord | None


class ModelChoice(NamedTuple):
    """Which model is loaded, and how.

    Attributes:
        available_bytes: Memory that the load may take; None: ask the system.
    """

    path: str
    settings: EngineSettings = EngineSettings()
    chat_template: str | None = None
    available_bytes: int | None = None


class Script(NamedTuple):
    """Where a turn stops by itself, to the token; see `TurnRequest`."""

    cancel_after_tokens: int | None = None
    cancel_at_prompt_token: int | None = None


class Session:
    """One chat with one engine.

    Args:
        make_engine: Starts an engine; called again when one has died.
        model: What to load; None in a replay.
        sampling: Sampling settings of the turns to come.
        system: System prompt of new chats.
        history: Where chats are stored; None stores nothing. It is closed with the session.
        recorder: Where the event stream is recorded; None records nothing.
        chat: A stored chat to go on with; None begins a new one.

    Attributes:
        live: The figures, fed with every event.
        chat: The chat that is open.
    """

    def __init__(
        self,
        make_engine: Callable[[], Engine],
        model: ModelChoice | None,
        *,
        sampling: SamplingSettings | None = None,
        system: str | None = None,
        history: History | None = None,
        recorder: Recorder | None = None,
        chat: Chat | None = None,
    ) -> None:
        self._make_engine = make_engine
        self._engine: Engine | None = None
        self.model = model
        self.sampling = sampling or SamplingSettings()
        self._system = None if system is None else well_formed(system)
        self._history = history
        self._store = None if history is None else StoreWriter(history.path)
        self._recorder = recorder
        self.live = LiveFigures()
        self.chat = chat or Chat(system=self._system)
        self._recording_problem: str | None = None
        self._updates: list[Update] = []
        self._waiting: TurnRequest | None = None
        self._retried = False
        self._loads = 0
        self._turn = 0
        self._question: str | None = None
        self._leaf_before: str | None = None
        self._answer: Node | None = None
        self._saved_s = 0.0
        self._sampled_s = 0.0
        self._log: deque[str] = deque(maxlen=LOG_LINES_KEPT)
        self._log_total = 0
        self._engine_pid: int | None = None
        self._sampler = WindowSampler()
        self._turn_sampler = WindowSampler()

    # ------------------------------------------------------------------- what readers ask

    @property
    def replaying(self) -> bool:
        """Whether a recording is played back; then nothing can be sent."""
        return self.model is None

    @property
    def chosen_model(self) -> ModelChoice:
        """The model that is, or is to be, loaded.

        Raises:
            SessionError: A recording is played back.
        """
        if self.model is None:
            raise SessionError("a recording is played back; it has no model")
        return self.model

    @property
    def recording(self) -> bool:
        """Whether the event stream is recorded."""
        return self._recorder is not None

    @property
    def storage_problem(self) -> str | None:
        """Why chats or the recording are not written, in one sentence; None while all is well."""
        problem = None if self._store is None else self._store.problem
        return self._recording_problem if problem is None else problem

    @property
    def storing(self) -> bool:
        """Whether something of the chats is not stored yet."""
        return self._store is not None and self._store.busy

    @property
    def chat_title(self) -> str:
        """Title of the open chat; '' while it has no message."""
        return self.chat.title

    @property
    def log_total(self) -> int:
        """Lines of llama.cpp's log so far."""
        return self._log_total

    def log_since(self, seen: int) -> list[str]:
        """The log's lines after the first `seen` ones, as far as they are kept."""
        fresh = min(self._log_total - seen, len(self._log))
        return list(self._log)[len(self._log) - fresh :]

    @property
    def busy(self) -> bool:
        """Whether a turn waits or runs."""
        return self.live.busy

    def snapshot(self) -> Snapshot:
        """The state for the panels."""
        now = self._engine.now_ns() if self._engine is not None else 0
        return self.live.snapshot(now)

    # --------------------------------------------------------------------------- the engine

    def start(self) -> None:
        """Start the engine and load the model; in a replay, start playing."""
        if self.replaying:
            self._engine = self._make_engine()
            return
        self._take(ChatOpened(self.chat.id, self.chat.title, self.chat.messages()))
        self._load("start")

    def load(self, model: ModelChoice) -> None:
        """Load another model, or the same one with other settings.

        Raises:
            SessionError: A turn is running, or a recording is played back.
        """
        self._must_be_free()
        before = self.model
        self.model = model
        same_file = before is not None and before.path == model.path
        self._load("settings_changed" if same_file else "model_changed")

    def restart_engine(self) -> None:
        """Start a new engine after the old one died or could not load.

        Raises:
            SessionError: A turn is running, or a recording is played back.
        """
        self._must_be_free()
        self._load("engine_restarted")

    def use_chatml(self) -> None:
        """Load again with the ChatML template, where the model has none.

        Raises:
            SessionError: A turn is running, or a recording is played back.
        """
        self._must_be_free()
        self.model = self.chosen_model._replace(chat_template=CHATML)
        self._load("settings_changed")

    def _load(self, cause: LoadCause) -> None:
        choice = self.chosen_model
        try:
            self._notice_death()
            if self._engine is None or not self._engine.alive:
                self._loads = 0
                self._engine = self._make_engine()
            self._engine.send(
                LoadRequest(
                    model_path=choice.path,
                    settings=choice.settings,
                    cause=cause,
                    chat_template=choice.chat_template,
                    available_bytes=choice.available_bytes,
                )
            )
            self._loads += 1
        except EngineError as error:
            self._take(LoadFailed(well_formed(str(error))))

    # ---------------------------------------------------------------------------- the chat

    def send(self, text: str, script: Script | None = None) -> None:
        """Send a user's message; while the model loads it waits.

        Args:
            text: The message.
            script: Where the turn stops by itself.

        Raises:
            SessionError: It is blank, or an answer is still coming.
        """
        if not text.strip():
            raise SessionError("the message is empty")
        self._must_be_free()
        self._leaf_before = self.chat.leaf
        node = self.chat.add_user(text)
        self._save_message(node)
        self._question = node.id
        self._request_turn(node.content, script or Script())

    def edit(self, index: int, text: str, script: Script | None = None) -> None:
        """Answer a changed user message on a new branch.

        Args:
            index: Which user message, counted from 0.
            text: What it says now.
            script: Where the turn stops by itself.

        Raises:
            SessionError: It is blank, there is no such message, or an answer is still coming.
        """
        if not text.strip():
            raise SessionError("the message is empty")
        self._must_be_free()
        before = self.chat.leaf
        try:
            node = self.chat.edit(index, text)
        except ChatError as error:
            raise SessionError(str(error)) from error
        self._leaf_before = before
        self._save_message(node)
        self._question = node.id
        self._take(ChatOpened(self.chat.id, self.chat.title, self.chat.messages()[:-1]))
        self._request_turn(node.content, script or Script())

    def regenerate(self) -> None:
        """Answer the last message again, on a new branch.

        Raises:
            SessionError: There is none, or an answer is still coming.
        """
        self._must_be_free()
        before = self.chat.leaf
        try:
            self.chat.back_to_question()
        except ChatError as error:
            raise SessionError(str(error)) from error
        self._leaf_before = before
        self._question = None
        self._request_turn(None, Script())

    def fail_turn(self, detail: str) -> None:
        """Note a turn that cannot be asked for, so that it has a record like any other.

        Raises:
            SessionError: An answer is still coming, or a recording is played back.
        """
        self._must_be_free()
        self._question = None
        self._leaf_before = self.chat.leaf
        self._answer = None
        self._take(TurnRequested(self._next_request(Script()), None))
        self._end_turn_here("error", detail, "busy")

    def cancel(self) -> None:
        """Stop the answer, or the load, that is under way."""
        if self._waiting is not None:
            self._end_turn_here("cancelled", "before the model was ready", None)
        elif self._engine is not None and not self.replaying:
            turn = self._turn if self.live.busy else None
            if turn is not None or self._loads or self.live.ready is None:
                self._send_quietly(CancelRequest(turn))

    def new_chat(self) -> None:
        """Leave the chat and begin another.

        Raises:
            SessionError: An answer is still coming, or a recording is played back.
        """
        self._must_be_free()
        self.open_chat(Chat(system=self._system))

    def open_chat(self, chat: Chat) -> None:
        """Go on with a chat.

        Raises:
            SessionError: An answer is still coming, or a recording is played back.
        """
        self._must_be_free()
        self.chat = chat
        self._take(ChatOpened(chat.id, chat.title, chat.messages()))

    def set_system(self, text: str | None) -> None:
        """Change the system prompt of the turns to come.

        Raises:
            SessionError: An answer is still coming, or a recording is played back.
        """
        self._must_be_free()
        self.chat.system = None if text is None else well_formed(text)

    def drop_cache(self) -> None:
        """Empty the KV cache, so that the next turn is cold.

        Raises:
            SessionError: An answer is still coming, or no model is loaded.
        """
        self._must_be_free()
        if self.live.ready is None:
            raise SessionError("no model is loaded, so there is no cache to drop")
        self._send_quietly(DropCacheRequest())

    def close(self) -> None:
        """End the engine and close the files.

        An answer that is still coming ends here as cancelled. What was not stored yet is stored
        now, unless that takes too long.
        """
        if self._engine is not None:
            self._drain()
            if self.live.busy and not self.replaying:
                self._end_turn_here("cancelled", "phasescope was closed", None)
            self._engine.close()
        if self._recorder is not None:
            self._recorder.close()
        if self._store is not None:
            self._store.close(FLUSH_S)
        if self._history is not None:
            self._history.close()

    # -------------------------------------------------------------------------- the stream

    def tick(self) -> list[Update]:
        """Take in what has come since the last call."""
        self._drain()
        self._sample_window()
        updates, self._updates = self._updates, []
        return updates

    def wait(self, timeout: float | None = None) -> list[Update]:
        """As `tick`, but wait for an event up to `timeout` seconds if there is none."""
        if not self._updates and self._engine is not None:
            event = self._engine.wait(timeout)
            if event is not None:
                self._take(event)
        self._drain()
        updates, self._updates = self._updates, []
        return updates

    def _drain(self) -> None:
        if self._engine is not None:
            for event in self._engine.drain():
                self._take(event)

    def _take(self, event: Event) -> None:
        """Take one event in: every reader of the stream gets it here."""
        if isinstance(event, TurnEnded) and not self.replaying:
            sample = self._turn_sampler.sample(self._engine_pid)
            self._take(msgspec.structs.replace(sample, turn=event.turn))
        record = self.live.apply(event)
        self._updates.append(Update(event, record))
        self._record(event)
        match event:
            case EngineStarted():
                self._engine_pid = event.pid
            case EngineReady() if not self.replaying:
                self._model_ready(event)
            case LoadFailed():
                self._load_failed(event)
            case EngineExited():
                self._engine_exited(event)
            case LogLines():
                self._add_log(event.lines)
            case PromptReady() | TokenBatch():
                self._store_progress()
            case TurnEnded():
                self._turn_ended(event, record)
            case _:
                pass

    def _add_log(self, lines: Sequence[str]) -> None:
        self._log.extend(lines)
        self._log_total += len(lines)

    def _record(self, event: Event) -> None:
        if self._recorder is None:
            return
        try:
            self._recorder.add(event)
        except RecordingError as error:
            self._recording_problem = str(error)
            self._recorder.close()
            self._recorder = None

    def _sample_window(self) -> None:
        now = monotonic()
        if self.replaying or now - self._sampled_s < SAMPLE_EVERY_S:
            return
        self._sampled_s = now
        self._take(self._sampler.sample(self._engine_pid))

    # ---------------------------------------------------------------------------- the turn

    def _must_be_free(self) -> None:
        if self.replaying:
            raise SessionError("a recording is played back; it takes no messages")
        if self.busy:
            raise SessionError("an answer is still coming; stop it first, or wait for its end")

    def _next_request(self, script: Script) -> TurnRequest:
        """The next turn: all of the chat's branch, and a seed if none is set."""
        self._turn += 1
        sampling = self.sampling
        if sampling.seed is None and sampling.temp > 0:
            drawn = random.SystemRandom().randrange(1 << 32)
            sampling = msgspec.structs.replace(sampling, seed=drawn)
        return TurnRequest(
            turn=self._turn,
            turn_id=uuid4().hex,
            chat_id=self.chat.id,
            messages=self.chat.messages(),
            sampling=sampling,
            started_at=datetime.now().astimezone().isoformat(timespec="milliseconds"),
            continues=self.chat.reached_a_model,
            cancel_after_tokens=script.cancel_after_tokens,
            cancel_at_prompt_token=script.cancel_at_prompt_token,
        )

    def _request_turn(self, user_text: str | None, script: Script) -> None:
        request = self._next_request(script)
        self._answer = None
        self._saved_s = 0.0
        self._turn_sampler.sample(None)
        self._notice_death()
        self._take(TurnRequested(request, user_text))
        self._waiting = request
        self._retried = False
        if self._loads:
            return
        if self.live.ready is not None:
            self._send_waiting()
        elif self._engine is None or not self._engine.alive or self.live.load_failed:
            self._load("engine_restarted")

    def _notice_death(self) -> None:
        """Take in the end of an engine that died since the last tick."""
        self._drain()
        if self._engine is not None and not self._engine.alive:
            self._engine.close()
            self._drain()

    def _send_waiting(self) -> None:
        request, self._waiting = self._waiting, None
        if request is not None:
            self._send_quietly(request)

    def _send_quietly(self, request: TurnRequest | CancelRequest | DropCacheRequest) -> None:
        """Send to an engine that may just have died; its `EngineExited` tells the rest."""
        assert self._engine is not None
        try:
            self._engine.send(request)
        except RequestError as error:
            self._end_turn_here("error", str(error), "engine")
        except EngineError:
            self._add_log(("phasescope: the engine is gone; its end is on its way",))

    def _model_ready(self, event: EngineReady) -> None:
        if self._store is not None:
            self._store.set_setting(LAST_MODEL, event.model.path)
        self._loads = max(0, self._loads - 1)
        if not self._loads:
            self._send_waiting()

    def _load_failed(self, event: LoadFailed) -> None:
        self._loads = max(0, self._loads - 1)
        if self.live.busy and not self._loads and not self.replaying:
            self._end_turn_here("error", event.message, "model")

    def _engine_exited(self, event: EngineExited) -> None:
        self._engine_pid = None
        self._loads = 0
        self._add_log(_unseen(self._log, event.log_tail))
        if not self.live.busy or self.replaying:
            return
        trace = self.live.trace
        assert trace is not None
        if trace.accepted_ns is None and not self._retried:
            # Nothing of the answer existed yet: the message goes to a new engine, once.
            self._retried = True
            self._waiting = trace.requested.request
            self._load("engine_restarted")
            return
        self._end_turn_here("error", event.message, event.kind)

    def _end_turn_here(
        self, reason: StopReason, detail: str | None, kind: ErrorKind | None
    ) -> None:
        """End a turn of which the engine says nothing more."""
        self._waiting = None
        self._take(
            TurnEnded(
                turn=self._turn,
                t_ns=self._engine.now_ns() if self._engine else perf_counter_ns(),
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

    def _turn_ended(self, event: TurnEnded, record: TurnRecord | None) -> None:
        trace = self.live.trace
        if self.replaying or trace is None or record is None:
            return
        question = self._question
        refused = event.reason == "error" and event.kind in REFUSED
        if refused and question is not None:
            self.chat.take_back(question)
            if self._store is not None:
                self._store.remove_message(question)
        else:
            self._store_answer(trace, event)
        if refused or (question is None and self._answer is None):
            self._back_to_branch()
        self._question = None
        prompt_ids = trace.prompt.ids if trace.prompt else ()
        if self._store is not None:
            self._store.save_chat(ChatHead.of(self.chat))
            self._store.save_record(self.chat.id, record, prompt_ids)

    def _back_to_branch(self) -> None:
        """Go back to the branch that an edit or a new answer without result had left."""
        if self.chat.leaf != self._leaf_before:
            self.chat.leaf = self._leaf_before
            self._take(ChatOpened(self.chat.id, self.chat.title, self.chat.messages()))

    # --------------------------------------------------------------------------- the store

    def _store_progress(self) -> None:
        """Store the first token at once and the rest now and then: a kill costs a second."""
        trace = self.live.trace
        now = monotonic()
        if self.replaying or trace is None or not trace.token_ids:
            return
        if now - self._saved_s >= SAVE_EVERY_S:
            self._saved_s = now
            self._put_answer(trace, tuple(trace.token_ids), "partial")

    def _store_answer(self, trace: TurnTrace, event: TurnEnded) -> None:
        ids = tuple(trace.token_ids[:-1] if event.reason == "eog" else trace.token_ids)
        # A question gets its answer even if that is empty: many templates want turns in pairs.
        if ids or event.reason == "eog" or self._question is not None:
            self._put_answer(trace, ids, "whole")

    def _put_answer(self, trace: TurnTrace, ids: tuple[int, ...], state: NodeState) -> None:
        if self._answer is None:
            parent, node_id = self.chat.leaf, uuid4().hex
        else:
            parent, node_id = self._answer.parent, self._answer.id
        self._answer = self.chat.put(
            Node(
                id=node_id,
                parent=parent,
                role="assistant",
                content=trace.raw_text,
                token_ids=ids,
                lead=trace.prompt.lead if trace.prompt else "",
                turn_id=trace.requested.request.turn_id,
                state=state,
            )
        )
        self._save_message(self._answer)

    def _save_message(self, node: Node) -> None:
        if self._store is not None:
            self._store.save_chat(ChatHead.of(self.chat))
            self._store.save_message(self.chat.id, node)


def _unseen(log: Sequence[str], tail: Sequence[str]) -> Sequence[str]:
    """The lines of `tail` that come after the end of `log`, where the two overlap."""
    end = list(log)[-len(tail) :] if tail else []
    size = next((n for n in range(len(end), 0, -1) if end[-n:] == list(tail[:n])), 0)
    return tail[size:]
