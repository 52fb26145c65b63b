"""What the session's events mean for the transcript: messages, answers and notices."""

from collections.abc import Sequence

from backend.chat.thinking import ThinkingSplitter
from backend.metrics.record import TurnRecord
from backend.protocol import ChatMessage, EngineExited, EngineReady, LoadFailed, ModelRead
from tui.figures import milliseconds, size
from tui.widgets.entries import AnswerEntry, Entry, LiveAnswer, NoticeEntry, UserEntry
from tui.widgets.transcript import Transcript

WELCOME = (
    "Every answer has two phases. Prefill digests the whole prompt in one go: it decides how "
    "long you wait for the first token. Decode gives one token after the other: it decides the "
    "pace. Both are timed here for every message."
)

UNKNOWN_MODEL = "assistant"

ENGINE_GONE = (
    "The chat is kept. Your next message starts a new engine, F5 starts one now, ^r answers the "
    "last message again."
)

TAIL_LINES = 6
"""Lines of llama.cpp's log shown when the engine has ended."""


class Conversation:
    """Fills a transcript.

    Args:
        transcript: Where it is shown.
    """

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._chat_id: str | None = None
        self._need: str | None = None
        self._after_answer: NoticeEntry | None = None

    def open(self, chat_id: str, messages: Sequence[ChatMessage]) -> None:
        """Show a chat's messages; what the same chat already shows stays, with its figures."""
        said = [message for message in messages if message.role != "system"]
        before = list(self._transcript.entries) if chat_id == self._chat_id else []
        self._chat_id = chat_id
        kept: list[Entry] = []
        for entry in before:
            if isinstance(entry, NoticeEntry):
                kept.append(entry)
            elif said and _shows(entry, said[0]):
                kept.append(entry)
                said.pop(0)
            else:
                break
        kept += [_entry(message) for message in said]
        if len(kept) < len(before) and isinstance(before[-1], NoticeEntry):
            kept.append(before[-1])
        self._transcript.show(kept or [NoticeEntry(WELCOME)])

    def begin(self, user_text: str | None, model: str | None) -> None:
        """A turn begins: a new message, or (None) another answer to the last one."""
        name = model or UNKNOWN_MODEL
        if user_text is not None:
            self._transcript.append(UserEntry(user_text))
        else:
            entries = list(self._transcript.entries)
            while entries and not isinstance(entries[-1], UserEntry):
                entries.pop()
            self._transcript.show(entries)
        self._transcript.append(LiveAnswer(name))

    def grow(self, thinking: Sequence[str], answer: Sequence[str]) -> None:
        """The answer has come so far."""
        self._transcript.grow(thinking, answer)

    def end(self, record: TurnRecord) -> None:
        """The answer is whole."""
        if isinstance(self._last(), LiveAnswer):
            name = record.model.name if record.model is not None else UNKNOWN_MODEL
            entries: list[Entry] = [AnswerEntry(name, record.thinking, record.text, record)]
            if self._after_answer is not None:
                entries.append(self._after_answer)
            self._after_answer = None
            self._transcript.replace_last(entries)

    def refused(self, reason: str, *, message_taken_back: bool) -> None:
        """The turn was not answered in part; its message, if new, goes back to the composer."""
        entries = list(self._transcript.entries)
        said = self._just_said(reason)
        for index in range(len(entries) - 1, -1, -1):
            if isinstance(entries[index], LiveAnswer):
                del entries[index]
            elif isinstance(entries[index], UserEntry):
                if message_taken_back:
                    del entries[index]
                break
        if self._after_answer is not None:
            entries.append(self._after_answer)
            self._after_answer = None
        elif not said:
            entries.append(NoticeEntry(reason, fault=True))
        self._transcript.show(entries)

    def notice(self, text: str, details: Sequence[str] = (), *, fault: bool = False) -> None:
        """Say something; an answer that is coming stays the last entry."""
        entry = NoticeEntry(text, details, fault=fault)
        last = self._last()
        if isinstance(last, LiveAnswer):
            self._transcript.replace_last([entry, last])
        else:
            self._transcript.append(entry)

    def model_read(self, event: ModelRead) -> None:
        """A model's header is known, and what loading it will take."""
        self._need = f"It needs ≈{size(event.need_bytes)} of {size(event.available_bytes)} there."

    def engine_ready(self, event: EngineReady) -> None:
        """A model is loaded."""
        need = (self._need,) if self._need is not None else ()
        self.notice(
            f"{event.model.name} loaded in {milliseconds(event.load_ms)}, "
            f"warmed up in {milliseconds(event.warmup_ms)}; no TTFT contains this.",
            (*need, *event.warnings),
        )

    def load_failed(self, event: LoadFailed) -> None:
        """A model could not be loaded."""
        way_on = (
            "F8 goes on with the common ChatML template."
            if event.need_template
            else "F5 tries again."
        )
        if not self._just_said(event.message):
            self.notice(event.message, (way_on,), fault=True)

    def engine_exited(self, event: EngineExited) -> None:
        """The engine's process is gone."""
        tail = event.log_tail[-TAIL_LINES:]
        quoted = ("The last lines of llama.cpp's log:", *tail) if tail else ()
        notice = NoticeEntry(event.message, (*quoted, ENGINE_GONE), fault=True)
        if isinstance(self._last(), LiveAnswer):
            # It belongs under what came of the answer.
            self._after_answer = notice
        else:
            self._transcript.append(notice)

    def _just_said(self, text: str) -> bool:
        """Whether a notice says so already, before or after the message that is on its way."""
        newest = self._transcript.entries[-3:]
        return any(isinstance(entry, NoticeEntry) and entry.text == text for entry in newest)

    def _last(self) -> Entry | None:
        entries = self._transcript.entries
        return entries[-1] if entries else None


def _shows(entry: Entry, message: ChatMessage) -> bool:
    if message.role == "user":
        return isinstance(entry, UserEntry) and entry.text == message.content
    return isinstance(entry, AnswerEntry) and entry.text == _split(message)[1]


def _entry(message: ChatMessage) -> Entry:
    if message.role == "user":
        return UserEntry(message.content)
    thinking, answer = _split(message)
    return AnswerEntry(UNKNOWN_MODEL, thinking, answer)


def _split(message: ChatMessage) -> tuple[str, str]:
    """Thinking and answer of a stored message, parted as they were when they came."""
    splitter = ThinkingSplitter(message.lead)
    texts = {"thinking": "", "answer": ""}
    for segment in (*splitter.feed_text(message.content), *splitter.finish()):
        texts[segment.channel] += segment.text
    thinking, answer = texts["thinking"], texts["answer"]
    return thinking.strip("\n"), answer.lstrip() if thinking else answer
