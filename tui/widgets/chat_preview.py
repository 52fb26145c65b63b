"""A chat at a glance: its system prompt, its first and last messages, the sums of its figures."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from textual.content import Content

from backend.chat.thinking import split_thinking
from backend.chat.tree import Chat, Node
from backend.history import HistoryReader, Query
from backend.metrics.record import TurnRecord
from tui.figures import count, milliseconds
from tui.shelf import ChatItem
from tui.text import harmless, one_line
from tui.widgets.chat_list import facts_of, title_of

TEXT_LENGTH = 1_200
"""Characters of a message at most."""

BEFORE_FOUND = 240
"""Characters before the place that was found at most."""

SHOWN_WHOLE = 4
"""Messages of a chat of which none is left out."""

FOUND_STYLE = "bold underline $text-warning"
DIM = "$text-muted"


def read_preview(path: Path, item: ChatItem, query: Query) -> Content:
    """A preview of a stored chat, and of the place in it that was found.

    Raises:
        HistoryError: The store cannot be read.
    """
    with closing(HistoryReader(path)) as reader:
        chat = reader.load_chat(item.row.id)
        records = reader.records(item.row.id)
    return preview_of(chat, records, item, query)


def preview_of(chat: Chat, records: Sequence[TurnRecord], item: ChatItem, query: Query) -> Content:
    """The same of what was read."""
    parts = [
        _marked(title_of(item.row), query, "bold"),
        Content.styled(facts_of(item.row), DIM),
        *(Content.styled(line, DIM) for line in totals(records)),
    ]
    known = {node.id for node in chat.nodes()}
    if item.node_id in known:
        node = chat.node(item.node_id)
        elsewhere = "" if node in chat.path() else ", on another branch"
        parts += _section(f"Found{elsewhere}: {_speaker(node)}", node.content, query)
    if chat.system:
        parts += _section("System prompt", chat.system, query)
    path = chat.path()
    left_out = len(path) - SHOWN_WHOLE
    for at, node in enumerate(path):
        if at < SHOWN_WHOLE // 2 or at >= len(path) - SHOWN_WHOLE // 2:
            parts += _section(_speaker(node), _said(node), None)
        elif at == SHOWN_WHOLE // 2:
            messages = "1 message" if left_out == 1 else f"{left_out:,} messages"
            parts += [Content(""), Content.styled(f"… {messages} between …", DIM)]
    return Content("\n").join(parts)


def totals(records: Sequence[TurnRecord]) -> Iterator[str]:
    """The sums of all turns that the engine took up: prefill, decode, reuse.

    What no turn has does not count, nor does a prefill that was stopped: how far it came is not on
    record.
    """
    records = [record for record in records if record.prompt_n is not None]
    if not records:
        return
    computed = [record for record in records if record.timings.ttft_ms is not None]
    prompt_n = sum(r.prompt_n or 0 for r in computed)
    prompt_ms = sum(r.timings.prompt_ms or 0.0 for r in computed)
    cache_n = sum(r.cache_n or 0 for r in computed)
    predicted_n = sum(r.predicted_n for r in records)
    predicted_ms = sum(r.timings.predicted_ms or 0.0 for r in records)
    turns = "1 turn" if len(records) == 1 else f"{len(records):,} turns"
    yield (
        f"{turns}: prefill {count(prompt_n)} tok in {milliseconds(prompt_ms or None)}, "
        f"decode {count(predicted_n)} tok in {milliseconds(predicted_ms or None)}"
    )
    yield f"reused {count(cache_n)} of {count(cache_n + prompt_n)} prompt tokens"


def _section(heading: str, text: str, query: Query | None) -> Iterator[Content]:
    """A text under a heading, cut; with a query, around the first place that has it."""
    yield Content("")
    yield Content.styled(heading, "bold $text-primary")
    spans = query.spans(text) if query is not None else []
    begin = max(0, spans[0][0] - BEFORE_FOUND) if spans else 0
    end = begin + TEXT_LENGTH
    shown = f"{'…' if begin else ''}{text[begin:end].strip()}{'…' if end < len(text) else ''}"
    plain = harmless(shown).replace("\t", "    ")
    yield Content(plain) if query is None else _marked(plain, query, "")


def _marked(text: str, query: Query, style: str) -> Content:
    content = Content.styled(text, style)
    for begin, end in query.spans(text):
        content = content.stylize(FOUND_STYLE, begin, end)
    return content


def _speaker(node: Node) -> str:
    return "you" if node.role == "user" else one_line(node.model) or "answer"


def _said(node: Node) -> str:
    return node.content if node.role == "user" else split_thinking(node.content, node.lead)[1]
