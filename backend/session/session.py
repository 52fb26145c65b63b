"""Requests out, events in: what a client drives."""

from collections.abc import Callable, Iterator

import msgspec

from backend.chat.tree import Chat, ChatError, Node, well_formed
from backend.engine import Engine, EngineError
from backend.history import History, HistoryError
from backend.metrics.live import Snapshot
from backend.metrics.record import TurnRecord
from backend.protocol import (
    CancelRequest,
    ChatMessage,
    ChatOpened,
    CountRequest,
    DropCacheRequest,
    EngineExited,
    EngineReady,
    ErrorKind,
    Event,
    LoadCause,
    LoadFailed,
    PastTurn,
    PromptReady,
    TokenBatch,
    TurnEnded,
    TurnRequested,
)
from backend.recording import Recorder
from backend.session.choice import TEMPLATES, ModelChoice
from backend.session.flow import Script, TurnFlow
from backend.session.keeper import ChatKeeper, Said
from backend.session.link import EngineLink
from backend.session.stored import StoredChats
from backend.session.stream import EventStream, Update
from backend.settings import SamplingChoice, SamplingSettings
from backend.store import StoreWriter

FLUSH_S = 3.0
"""How long closing waits until all is stored."""

LAST_MODEL = "last_model"
"""Setting in the store: path of the model that was loaded last."""

TEMPLATE_OF = "template of "
"""Setting in the store, followed by a model's path: the template that was chosen for it."""

REFUSED: tuple[ErrorKind, ...] = ("model", "template", "prompt_too_long")
"""Failures that give the message back to the user: it was never answered in part."""


class SessionError(Exception):
    """What was asked for cannot be done now; the text is one sentence."""


class Session:
    """One chat with one engine.

    It turns what the user wants into requests, feeds every event to the live figures, the store
    and a recording, and keeps the chat's tree. It never waits: `tick` takes what has come.

    Args:
        make_engine: Starts an engine; called again when one has died.
        model: What to load; None in a replay.
        sampling: Sampling settings that the user chose for all chats.
        system: System prompt of new chats.
        history: Where chats are stored; None stores nothing. It is closed with the session.
        history_problem: Why nothing is stored although it should be, in one sentence.
        recorder: Where the event stream is recorded; None records nothing.
        chat: A stored chat to go on with; None begins a new one.

    Attributes:
        live: The figures, fed with every event.
        model: The model that is, or is to be, loaded; None in a replay.
        sampling: Sampling settings of all chats; a chat's own come before them.
        stored: The other chats; None where nothing is stored.
    """

    def __init__(
        self,
        make_engine: Callable[[], Engine],
        model: ModelChoice | None,
        *,
        sampling: SamplingChoice | None = None,
        system: str | None = None,
        history: History | None = None,
        history_problem: str | None = None,
        recorder: Recorder | None = None,
        chat: Chat | None = None,
    ) -> None:
        self.model = model
        self.sampling = sampling or SamplingChoice()
        self._system = None if system is None else well_formed(system)
        self._history = history
        self._history_problem = history_problem
        self._store = None if history is None else StoreWriter(history.path)
        self.stored = (
            StoredChats(history, self._store) if history is not None and self._store else None
        )
        self._link = EngineLink(make_engine)
        self._stream = EventStream(self._link, recorder, self._listen, samples=not self.replaying)
        self.live = self._stream.live
        self._flow = TurnFlow(self._link, self._stream, lambda: self._load("engine_restarted"))
        self._keeper = ChatKeeper(self._store, chat or Chat(system=self._system))
        if chat is not None and history is not None:
            self._keeper.open(chat, history.records(chat.id))
        self._counted = 0
        self._played: dict[str, tuple[Chat, tuple[TurnRecord, ...]]] = {}
        """The chats of a recording that were left."""

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
    def chat(self) -> Chat:
        """The chat that is open."""
        return self._keeper.chat

    def conversation(self) -> list[Said]:
        """The branch in use, with the records of its answers.

        An answer that is under way is no part of it.
        """
        return self._keeper.conversation()

    @property
    def resumed(self) -> Node | None:
        """The answer that the turn under way goes on with, as it was before."""
        return self._keeper.resumed

    @property
    def recommended_sampling(self) -> SamplingChoice:
        """What the makers of the model recommend; empty while its header is not known."""
        header = self.live.header
        return msgspec.convert(header.sampling, SamplingChoice) if header else SamplingChoice()

    @property
    def settled_sampling(self) -> SamplingSettings:
        """The settings of the next turn: the chat's, else the user's, the model's, llama.cpp's."""
        chosen = self.chat.sampling.over(self.sampling)
        return chosen.over(self.recommended_sampling).settled()

    @property
    def recording(self) -> bool:
        """Whether the event stream is recorded."""
        return self._stream.recording

    @property
    def storage_problem(self) -> str | None:
        """Why chats or the recording are not written, in one sentence; None while all is well."""
        problem = self._history_problem if self._store is None else self._store.problem
        return self._stream.problem if problem is None else problem

    @property
    def reading_problems(self) -> list[str]:
        """What could not be read of the stored chats, a sentence each."""
        return [] if self._history is None else self._history.problems

    @property
    def storing(self) -> bool:
        """Whether something of the chats is not stored yet."""
        return self._store is not None and self._store.busy

    @property
    def log_total(self) -> int:
        """Lines of llama.cpp's log so far."""
        return self._stream.log.total

    def log_since(self, seen: int) -> list[str]:
        """The log's lines after the first `seen` ones, as far as they are kept."""
        return self._stream.log.since(seen)

    @property
    def busy(self) -> bool:
        """Whether a turn waits or runs."""
        return self.live.busy

    def snapshot(self) -> Snapshot:
        """The state for the panels."""
        return self.live.snapshot(self._link.now_ns())

    # --------------------------------------------------------------------------- the engine

    def start(self) -> None:
        """Start the engine and load the model; in a replay, start playing."""
        if self.replaying:
            self._link.start()
            return
        self._announce_chat()
        if self.stored is not None:
            self.stored.empty_trash()
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

    def use_template(self, name: str) -> None:
        """Load again with one of `TEMPLATES`, also whenever this model is loaded later.

        Raises:
            SessionError: A turn is running, or a recording is played back.
        """
        self._must_be_free()
        self.model = self.chosen_model._replace(chat_template=TEMPLATES[name])
        if self._store is not None:
            self._store.set_setting(f"{TEMPLATE_OF}{self.model.path}", name)
        self._load("settings_changed")

    def _remembered_template(self, path: str | None) -> str | None:
        """The template that was chosen for a model in an earlier run."""
        if self._history is None:
            return None
        try:
            name = self._history.setting(f"{TEMPLATE_OF}{path}")
        except HistoryError:
            # Writing to it fails too, which is said; the model loads all the same.
            return None
        return None if name is None else TEMPLATES.get(name)

    def _load(self, cause: LoadCause) -> None:
        choice = self.chosen_model
        try:
            self._flow.notice_death()
            template = choice.chat_template
            if template is None:
                template = self._remembered_template(choice.path)
            self._link.load(choice, template, cause)
        except EngineError as error:
            self._stream.take(LoadFailed(well_formed(str(error))))

    # ------------------------------------------------------------------------------ turns

    def send(self, text: str, script: Script | None = None) -> None:
        """Send a user's message; while the model loads it waits.

        Args:
            text: The message.
            script: Where the turn stops by itself.

        Raises:
            SessionError: It is blank, or an answer is still coming.
        """
        self._must_say_something(text)
        self._must_be_free()
        node = self._keeper.ask(text)
        self._request_turn(node.content, script)

    def edit(self, node_id: str, text: str, script: Script | None = None) -> None:
        """Answer a changed user message on a new branch.

        Args:
            node_id: Which message.
            text: What it says now.
            script: Where the turn stops by itself.

        Raises:
            SessionError: It is blank, there is no such message, or an answer is still coming.
        """
        self._must_say_something(text)
        self._must_be_free()
        try:
            node = self._keeper.edit(node_id, text)
        except ChatError as error:
            raise SessionError(str(error)) from error
        self._announce_chat(without_last=True)
        self._request_turn(node.content, script)

    def edit_number(self, index: int, text: str, script: Script | None = None) -> None:
        """As `edit`, for user message `index` (from 0) of the branch in use.

        Raises:
            SessionError: It is blank, there is no such message, or an answer is still coming.
        """
        self._must_say_something(text)
        self._must_be_free()
        try:
            node = self.chat.user_message(index)
        except ChatError as error:
            raise SessionError(str(error)) from error
        self.edit(node.id, text, script)

    def regenerate(self, node_id: str | None = None) -> None:
        """Answer a message again, on a new branch.

        Args:
            node_id: The message or its answer; None: the last one.

        Raises:
            SessionError: There is none, or an answer is still coming.
        """
        self._must_be_free()
        before = self.chat.leaf
        try:
            self._keeper.answer_again(node_id)
        except ChatError as error:
            raise SessionError(str(error)) from error
        if node_id is not None and self.chat.leaf != before:
            self._announce_chat()
        self._request_turn(None)

    @property
    def resumable(self) -> Node | None:
        """The answer at the end of the branch in use, if it was cut off."""
        leaf = self.chat.leaf
        node = None if leaf is None else self.chat.node(leaf)
        return node if node is not None and node.state != "whole" else None

    def resume(self) -> None:
        """Go on with the last answer, which was cut off.

        Raises:
            SessionError: It was not, or an answer is still coming.
        """
        self._must_be_free()
        node = self.resumable
        if node is None:
            raise SessionError("the last answer was not cut off")
        self._keeper.resume(node)
        self._request_turn(None, resume=True)

    def fail_turn(self, detail: str) -> None:
        """Note a turn that cannot be asked for, so that it has a record like any other.

        Raises:
            SessionError: An answer is still coming, or a recording is played back.
        """
        self._must_be_free()
        self._keeper.nothing_asked()
        request = self._flow.request(self.chat, self.settled_sampling, Script())
        self._flow.fail(request, detail)

    def cancel(self) -> None:
        """Stop the answer, or the load, that is under way."""
        if self._flow.waits:
            self._flow.end("cancelled", "before the model was ready", None)
        elif not self.replaying:
            turn = self._flow.number if self.busy else None
            if turn is not None or self._link.loads or self.live.ready is None:
                self._flow.send(CancelRequest(turn))

    def count(self, text: str, edits: str | None = None) -> int | None:
        """Ask what a draft would cost; the answer comes as `Snapshot.draft`.

        Args:
            text: The draft.
            edits: The message that it would replace; None: it is a new one.

        Returns:
            The number that the answer will bear; None where it cannot be counted now.
        """
        if self.replaying or self.busy or self.live.ready is None or self._link.loads:
            return None
        messages = self.chat.messages()
        if edits is not None:
            try:
                before = self.chat.path_to(self.chat.node(edits).parent)
            except ChatError:
                return None
            system = messages[:1] if self.chat.system is not None else ()
            messages = (*system, *(node.message for node in before))
        self._counted += 1
        self._flow.send(
            CountRequest(
                number=self._counted,
                chat_id=self.chat.id,
                messages=(*messages, ChatMessage("user", well_formed(text))),
                continues=self.chat.reached_a_model,
            )
        )
        return self._counted

    def drop_cache(self) -> None:
        """Empty the KV cache, so that the next turn is cold.

        Raises:
            SessionError: An answer is still coming, or no model is loaded.
        """
        self._must_be_free()
        if self.live.ready is None:
            raise SessionError("no model is loaded, so there is no cache to drop")
        self._flow.send(DropCacheRequest())

    # ------------------------------------------------------------------------------ chats

    def new_chat(self) -> None:
        """Leave the chat and begin another.

        Raises:
            SessionError: An answer is still coming, or a recording is played back.
        """
        self.open_chat(Chat(system=self._system))

    def open_chat(self, chat: Chat) -> None:
        """Go on with a chat.

        Raises:
            SessionError: An answer is still coming, or a recording is played back.
            HistoryError: Its records cannot be read.
        """
        self._must_be_free()
        stored = self._history is not None and len(chat)
        self._keeper.open(chat, self._history.records(chat.id) if stored and self._history else ())
        self._announce_chat()

    def go_to(self, node_id: str) -> None:
        """Go on with the branch of a message.

        Raises:
            SessionError: There is no such message, or an answer is still coming.
        """
        self._must_be_free()
        try:
            self.chat.go_to(node_id)
        except ChatError as error:
            raise SessionError(str(error)) from error
        self._keeper.save_head()
        self._announce_chat()

    def set_system(self, text: str | None) -> None:
        """Change the system prompt of the chat, for the turns to come.

        Raises:
            SessionError: An answer is still coming, or a recording is played back.
        """
        self._must_be_free()
        self.chat.system = None if text is None else well_formed(text)
        self._keeper.save_head()

    def set_chat_sampling(self, sampling: SamplingChoice) -> None:
        """Choose sampling settings for this chat; what is not chosen falls back to the others."""
        self.chat.sampling = sampling
        self._keeper.save_head()

    def rename_chat(self, chat_id: str, title: str) -> None:
        """Give a stored chat, or the open one, another title.

        Raises:
            SessionError: The title is blank, or nothing is stored.
        """
        title = " ".join(well_formed(title).split())
        if not title:
            raise SessionError("a title needs a word")
        stored = self._stored_chats()
        if chat_id == self.chat.id:
            self.chat.title = title
        stored.rename(chat_id, title)

    def delete_chat(self, chat_id: str) -> None:
        """Delete a stored chat; if it is open, a new one is begun.

        Raises:
            SessionError: It is open and an answer is still coming, or nothing is stored.
        """
        stored = self._stored_chats()
        if chat_id == self.chat.id:
            self.new_chat()
        stored.delete(chat_id)

    def _stored_chats(self) -> StoredChats:
        if self.stored is None:
            raise SessionError("no chats are stored here")
        return self.stored

    def close(self) -> None:
        """End the engine and close the files.

        An answer that is still coming ends here as cancelled. What was not stored yet is stored
        now, unless that takes too long.
        """
        self._stream.drain()
        if self.busy and not self.replaying:
            self._flow.end("cancelled", "phasescope was closed", None)
        self._link.close()
        self._stream.close()
        if self._store is not None:
            self._store.close(FLUSH_S)
        if self._history is not None:
            self._history.close()

    # -------------------------------------------------------------------------- the stream

    def tick(self) -> Iterator[Update]:
        """Take in what has come, one event after the other as they are asked for.

        While one is looked at, the session is as that event left it.
        """
        return self._stream.news()

    def wait(self, timeout: float | None = None) -> list[Update]:
        """As `tick`, but wait for an event up to `timeout` seconds if there is none."""
        self._stream.wait(timeout)
        return self._stream.updates()

    def _listen(self, event: Event, record: TurnRecord | None) -> None:
        """Do what an event asks for; a recording brings its chat along."""
        if self.replaying:
            self._follow(event)
        else:
            self._act(event)
        trace = self.live.trace
        if trace is None:
            return
        if isinstance(event, PromptReady | TokenBatch) and not self.replaying:
            ready = self.live.ready
            self._keeper.progress(trace, ready.model.name if ready is not None else "")
        elif isinstance(event, TurnEnded) and record is not None:
            refused = event.reason == "error" and event.kind in REFUSED
            if self._keeper.end(trace, event, record, refused=refused) and not self.replaying:
                self._announce_chat()

    def _act(self, event: Event) -> None:
        """Send what waited for a model, or end it."""
        match event:
            case EngineReady():
                if self._store is not None:
                    self._store.set_setting(LAST_MODEL, event.model.path)
                self._link.load_ended()
                if not self._link.loads:
                    self._flow.model_ready()
            case LoadFailed():
                self._link.load_ended()
                if self.busy and not self._link.loads:
                    self._flow.end("error", event.message, "model")
            case EngineExited():
                self._link.loads = 0
                if self.busy:
                    self._flow.engine_exited(event)
            case _:
                pass

    def _follow(self, event: Event) -> None:
        """Go along with the chat of a recording."""
        match event:
            case ChatOpened():
                if event.chat_id != self.chat.id:
                    self._played[self.chat.id] = self.chat, self._keeper.records
                    fresh = Chat(event.chat_id), ()
                    self._keeper.open(*self._played.get(event.chat_id, fresh))
                self.chat.follow(event.messages)
            case TurnRequested():
                request = event.request
                asks = event.user_text is not None
                self._keeper.follow(request.messages, asks=asks, resumes=request.resume)
            case _:
                pass

    def _announce_chat(self, *, without_last: bool = False) -> None:
        """Tell the stream which chat is open, and on which branch."""
        messages = self.chat.messages()
        past: tuple[PastTurn, ...] = ()
        if self.chat.id != self.live.chat_id:
            past = self._keeper.past()
            # Turns of one chat have different numbers, also those of an earlier session.
            self._flow.number = max(self._flow.number, self._keeper.last_turn)
        said = messages[:-1] if without_last else messages
        self._stream.take(ChatOpened(self.chat.id, self.chat.title, said, past))

    # ---------------------------------------------------------------------------- the turn

    def _must_say_something(self, text: str) -> None:
        if not text.strip():
            raise SessionError("the message is empty")

    def _must_be_free(self) -> None:
        if self.replaying:
            raise SessionError("a recording is played back; it takes no messages")
        if self.busy:
            raise SessionError("an answer is still coming; stop it first, or wait for its end")

    def _request_turn(
        self, user_text: str | None, script: Script | None = None, *, resume: bool = False
    ) -> None:
        sampling = self.settled_sampling
        request = self._flow.request(self.chat, sampling, script or Script(), resume=resume)
        self._flow.begin(request, user_text)
