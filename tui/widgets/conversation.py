"""What the session's events mean for the transcript: messages, answers and notices."""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from backend.chat.thinking import split_thinking
from backend.chat.tree import Node
from backend.metrics.trace import TurnTrace
from backend.protocol import EngineExited, EngineReady, LoadFailed, ModelRead
from backend.session import Said
from tui.figures import milliseconds, size
from tui.widgets.answers import UNKNOWN_MODEL, AnswerEntry, LiveAnswer
from tui.widgets.entries import Entry, NoticeEntry, UserEntry
from tui.widgets.transcript import Transcript

WELCOME = (
    "Every answer has two phases. Prefill digests the whole prompt in one go: it decides how "
    "long you wait for the first token. Decode gives one token after the other: it decides the "
    "pace. Both are timed here for every message; /tour explains the panels."
)

ENGINE_GONE = (
    "The chat is kept. Your next message starts a new engine, F5 starts one now, ^r answers the "
    "last message again."
)

TAIL_LINES = 6
"""Lines of llama.cpp's log shown when the engine has ended."""


class _Placed:
    """A notice and the message that it stands under; None: at the top."""

    def __init__(self, notice: NoticeEntry, under: str | None) -> None:
        self.notice = notice
        self.under = under


class Conversation:
    """Fills a transcript from the chat as the session has it.

    Args:
        transcript: Where it is shown.
    """

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._chat_id: str | None = None
        self._said: Sequence[Said] = ()
        self._entries: dict[str, UserEntry | AnswerEntry] = {}
        self._live: LiveAnswer | None = None
        self._resumed: Node | None = None
        self._notices: list[_Placed] = []
        self._welcome = NoticeEntry(WELCOME)
        self._need: str | None = None
        self._after_answer: NoticeEntry | None = None

    # --------------------------------------------------------------------------- messages

    def open(self, chat_id: str, said: Sequence[Said]) -> None:
        """Show a chat's branch; of the same chat, what phasescope said there stays."""
        if chat_id != self._chat_id:
            self._chat_id = chat_id
            self._entries = {}
            self._notices = []
        self._said = said
        here = {item.node.id for item in said}
        last = self._notices[-1] if self._notices else None
        self._notices = [
            placed
            for placed in self._notices
            if placed.under is None or placed.under in here or placed is last
        ]
        if last is not None and last.under is not None and last.under not in here:
            last.under = self._end()
        self._show()

    def begin(self, said: Sequence[Said], model: str | None, resumed: Node | None) -> None:
        """A turn begins.

        Args:
            said: The conversation that it answers.
            model: The model's name.
            resumed: The answer that it goes on with.
        """
        self._said = said
        self._live = LiveAnswer(model or UNKNOWN_MODEL)
        self._resumed = resumed
        if resumed is not None:
            self._live.begin_after(*split_thinking(resumed.content, resumed.lead))
        self._show()
        self._transcript.follow()

    def grow(self, trace: TurnTrace) -> None:
        """The answer has come so far."""
        resumed, live = self._resumed, self._live
        dropped = trace.prompt.drop_chars if trace.prompt is not None else 0
        if resumed is not None and live is not None and dropped and trace.token_ids:
            # The cut went through a character: its stand-in goes, and it comes again.
            live.begin_after(*split_thinking(resumed.content[:-dropped], resumed.lead))
            self._transcript.relayout(len(self._transcript.entries) - 1)
            self._resumed = None
        self._transcript.grow(trace.thinking, trace.answer)

    def end(self, said: Sequence[Said], *, problem: str | None = None) -> None:
        """The turn is over.

        Args:
            said: The conversation, with its answer if there is one.
            problem: Why it was refused; None for a turn that was answered, at least in part.
        """
        self._said = said
        self._live = None
        if self._after_answer is not None:
            self._notices.append(_Placed(self._after_answer, self._end()))
            self._after_answer = None
        elif problem is not None and not self.just_said(problem):
            self._notices.append(_Placed(NoticeEntry(problem, fault=True), self._end()))
        here = {item.node.id for item in said}
        for placed in self._notices:
            if placed.under is not None and placed.under not in here:
                placed.under = self._end()
        self._show()

    def _end(self) -> str | None:
        """The message at the end of the branch."""
        return self._said[-1].node.id if self._said else None

    def _show(self) -> None:
        """Bring the transcript to what there is, keeping the entries that stay the same."""
        under = {
            key: [placed.notice for placed in group]
            for key, group in groupby(
                sorted(self._notices, key=lambda placed: placed.under or ""),
                attrgetter("under"),
            )
        }
        entries: list[Entry] = [*under.get(None, [])]
        known, self._entries = self._entries, {}
        for item in self._said:
            entry = self._entry(item, known.get(item.node.id))
            self._entries[item.node.id] = entry
            entries += (entry, *under.get(item.node.id, []))
        if self._live is not None:
            entries.append(self._live)
        if not self._said and self._live is None:
            entries.insert(0, self._welcome)
        self._transcript.show(entries)

    def _entry(self, said: Said, known: UserEntry | AnswerEntry | None) -> UserEntry | AnswerEntry:
        last = said.node.id == self._end() and self._live is None
        if known is not None and known.said == said and known.last == last:
            return known
        if said.node.role == "user":
            return UserEntry(said, last=last)
        return AnswerEntry(said, last=last)

    # ---------------------------------------------------------------------------- notices

    def notice(self, text: str, details: Sequence[str] = (), *, fault: bool = False) -> None:
        """Say something; an answer that is coming stays the last entry."""
        self._place(NoticeEntry(text, details, fault=fault))

    def _place(self, notice: NoticeEntry) -> None:
        self._notices.append(_Placed(notice, self._end()))
        self._show()
        self._transcript.follow()

    def model_read(self, event: ModelRead) -> None:
        """A model's header is known, and what loading it will take."""
        self._need = (
            f"It needs ≈{size(event.need_bytes)} of memory; {size(event.available_bytes)} are free."
        )

    def engine_ready(self, event: EngineReady) -> None:
        """A model is loaded."""
        need = (self._need,) if self._need is not None else ()
        self.notice(
            f"{event.model.name} loaded in {milliseconds(event.load_ms)}, "
            f"warmed up in {milliseconds(event.warmup_ms)}; outside of any TTFT.",
            (*need, *event.warnings),
        )

    def load_failed(self, event: LoadFailed) -> None:
        """A model could not be loaded."""
        way_on = (
            "F8 goes on with the common ChatML template, shift+F8 as plain completion: the model "
            "writes on where your text ends."
            if event.need_template
            else "F5 tries again."
        )
        if not self.just_said(event.message):
            self.notice(event.message, (way_on,), fault=True)

    def engine_exited(self, event: EngineExited) -> None:
        """The engine's process is gone."""
        tail = event.log_tail[-TAIL_LINES:]
        quoted = ("The last lines of llama.cpp's log:", *tail) if tail else ()
        notice = NoticeEntry(event.message, (*quoted, ENGINE_GONE), fault=True)
        if self._live is not None:
            # It belongs under what came of the answer.
            self._after_answer = notice
        else:
            self._place(notice)

    def just_said(self, text: str) -> bool:
        """Whether one of the newest notices says so already."""
        return any(placed.notice.text == text for placed in self._notices[-2:])
