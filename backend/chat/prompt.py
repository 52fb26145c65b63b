"""A conversation turned into the tokens of a prompt.

The ids equal llama.cpp's tokenization of the whole rendered text, with two exceptions:

- An answer keeps the very tokens that the model generated, because its text need not tokenize
  back to the same ids; only the text between answers is tokenized, and what was tokenized before
  is remembered.
- The text of a control token inside a message stays text. Templates cannot be trusted to keep
  the two apart, so before rendering such a text gets a character put into it that occurs
  nowhere else; afterwards that character shows where it went, and is taken out again.
"""

import codecs
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

from backend.chat.literals import longest_of
from backend.chat.roles import without_system
from backend.chat.templates import ChatTemplate, ChatTemplateError
from backend.chat.thinking import (
    ANSWER_OPENINGS,
    MARKERS,
    split_text,
    wants_bare,
)
from backend.protocol import ChatMessage, Role

REPLACEMENT = "\ufffd"
"""What stands in a text for half a character."""

LEAD_LENGTH = 48
"""Characters before an answer that locate it in a later rendering."""

SHORT_LEAD = 24
"""Fewer will do where a template changes what stands farther before."""

REMEMBERED = 512
"""Pieces of text whose tokens are remembered."""

PRIVATE_USE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))
"""Code points that mean nothing to anybody: those of the first plane and the last two."""


class ControlToken(NamedTuple):
    """A token that its text turns into.

    Attributes:
        strips_left, strips_right: It swallows white space at its sides.
        shown: In an answer it is text to a reader: a marker of thinking.
    """

    token: int
    strips_left: bool = False
    strips_right: bool = False
    shown: bool = False


class Tokenizer(Protocol):
    """What a prompt needs of a vocabulary."""

    @property
    def control_tokens(self) -> Mapping[str, ControlToken]:
        """Control tokens by their text."""

    @property
    def add_bos(self) -> bool:
        """Whether a prompt begins with the token `bos_id`."""

    @property
    def bos_id(self) -> int:
        """The beginning-of-sequence token; negative if there is none."""

    def tokenize(self, text: str, *, parse_special: bool, continues: bool = False) -> list[int]:
        """Tokens of a text; `continues`: it follows other text directly."""

    def piece(self, token: int) -> bytes:
        """Bytes that a generated token adds to the text."""


class Prompt(NamedTuple):
    """A prompt: its text, its tokens, and its last characters."""

    text: str
    ids: list[int]
    lead: str


class Resumed(NamedTuple):
    """A prompt that ends inside an answer.

    Attributes:
        prompt: It; `lead` is what stands before the answer.
        n_tokens: Tokens at its end that are of the answer.
        spoken: The bytes that they spell, of which the last character may be cut.
    """

    prompt: Prompt
    n_tokens: int
    spoken: bytes


class _Answer(NamedTuple):
    """Where an answer stands in the rendered text, and its own tokens."""

    start: int
    end: int
    ids: tuple[int, ...]


class _Span(NamedTuple):
    start: int
    end: int


class RenderedConversation(NamedTuple):
    """A rendered conversation: its text, and where control tokens are spelled by messages."""

    text: str
    spelled: tuple[_Span, ...]
    messages: tuple[ChatMessage, ...]


class PromptBuilder:
    """Builds prompts for one model and template, remembering what it has tokenized.

    Args:
        template: The chat template.
        tokenizer: The model's vocabulary.
        takes_system: Whether the template takes a system message; see `backend.chat.roles`.
    """

    def __init__(
        self, template: ChatTemplate, tokenizer: Tokenizer, *, takes_system: bool = True
    ) -> None:
        self._template = template
        self._takes_system = takes_system
        self._tokenizer = tokenizer
        self._pieces: OrderedDict[tuple[str, tuple[_Span, ...], bool], list[int]] = OrderedDict()
        self._fitted: dict[tuple[str, tuple[int, ...], str], list[_Fit]] = {}
        texts = tokenizer.control_tokens
        self._control = longest_of(texts)
        self._control_in_answers = longest_of(
            text for text, control in texts.items() if not control.shown
        )

    def render(self, messages: Sequence[ChatMessage]) -> RenderedConversation:
        """Run the template.

        Raises:
            ChatTemplateError: The template raised, or no character is left to guard with.
        """
        if not self._takes_system:
            messages = without_system(messages)
        contents = (message.content for message in messages)
        guard = _unused_character(chain((self._template.source,), contents))
        text = self._template.render([self._told(message, guard) for message in messages])
        spelled: list[_Span] = []
        if guard in text:
            text, spelled = self._unguard(text, guard)
        return RenderedConversation(text, tuple(spelled), tuple(messages))

    def tokenize(self, rendered: RenderedConversation, *, draft: bool = False) -> Prompt:
        """Turn a rendered conversation into tokens.

        Args:
            rendered: The conversation.
            draft: Its last message is still being written: it is not remembered.
        """
        text = rendered.text
        ids: list[int] = []
        position = 0
        for answer in self._locate_answers(rendered):
            ids += self._text_ids(text, position, answer.start, rendered.spelled)
            ids += answer.ids
            position = answer.end
        ids += self._text_ids(text, position, len(text), rendered.spelled, remember=not draft)
        tokenizer = self._tokenizer
        if tokenizer.add_bos and (not ids or ids[0] != tokenizer.bos_id):
            ids.insert(0, tokenizer.bos_id)
        return Prompt(text, ids, text[-LEAD_LENGTH:])

    def go_on(self, prompt: Prompt, answer: ChatMessage) -> Resumed:
        """The prompt that a cut answer goes on from.

        Args:
            prompt: The conversation up to the question.
            answer: What there is of the answer. Without its own tokens, or where they are those
                of another model, its text is tokenized.
        """
        ids = list(answer.token_ids)
        spoken = b"".join(map(self._tokenizer.piece, ids))
        if not _spells(spoken, answer.content):
            # Half a character, of which the bytes are not known, is left out.
            content = answer.content.removesuffix(REPLACEMENT)
            spoken = content.encode()
            ids = self._answer_ids(content)
        text = prompt.text + answer.content
        return Resumed(Prompt(text, prompt.ids + ids, prompt.lead), len(ids), spoken)

    def _answer_ids(self, content: str) -> list[int]:
        """Tokens of an answer's text: the texts of control tokens in it stay text."""
        control = self._control_in_answers
        found = control.finditer(content) if control is not None else ()
        spelled = [_Span(match.start(), match.end()) for match in found]
        return self._tokenize_text(content, spelled, continues=True) if content else []

    def _told(self, message: ChatMessage, guard: str) -> dict[str, str]:
        """A message as the template gets it."""
        role, content = message.role, message.content
        if role == "assistant" and wants_bare(content, message.lead):
            thinking, content = split_text(content, message.lead)
            told = {"thinking": self._guarded(role, thinking, guard)}
        else:
            told = {}
        return {"role": role, "content": self._guarded(role, content, guard), **told}

    def _guarded(self, role: Role, text: str, guard: str) -> str:
        control = self._control_in_answers if role == "assistant" else self._control
        if control is None:
            return text
        return control.sub(lambda match: match[0][0] + guard + match[0][1:], text)

    def _unguard(self, text: str, guard: str) -> tuple[str, list[_Span]]:
        """Take the guard out again; where it stood, a message spells a control token."""
        parts = text.split(guard)
        clean = "".join(parts)
        spans: list[_Span] = []
        position = 0
        for part in parts[:-1]:
            position += len(part)
            match = self._control.match(clean, position - 1) if self._control else None
            if match is not None:
                spans.append(_Span(match.start(), match.end()))
        return clean, spans

    def _locate_answers(self, rendered: RenderedConversation) -> list[_Answer]:
        """Find the answers whose own tokens are known, in order."""
        text = rendered.text
        answers: list[_Answer] = []
        cursor = 0
        for message in rendered.messages:
            answer = self._locate(message, text, cursor) if message.token_ids else None
            if answer is not None:
                answers.append(answer)
                cursor = answer.end
                continue
            found = text.find(message.content.strip(), cursor)
            if found >= 0:
                cursor = found + len(message.content.strip())
        return answers

    def _locate(self, message: ChatMessage, text: str, cursor: int) -> _Answer | None:
        """Find one answer behind its lead; None if the template rewrote it."""
        for lead in _leads(message.lead):
            for fit in self._fits(message):
                # The lead may be the end of the message before, which the cursor has passed.
                found = text.find(lead + fit.text, max(0, cursor - len(lead)))
                if found >= 0:
                    start = found + len(lead)
                    return _Answer(start, start + len(fit.text), fit.ids)
        return None

    def _fits(self, message: ChatMessage) -> "list[_Fit]":
        """What a template may make of an answer, as far as whole tokens spell it."""
        key = (message.content, message.token_ids, message.lead)
        if key not in self._fitted:
            if len(self._fitted) >= REMEMBERED:
                self._fitted.clear()
            self._fitted[key] = _fits(message, self._tokenizer)
        return self._fitted[key]

    def _text_ids(
        self,
        text: str,
        start: int,
        end: int,
        spelled: Sequence[_Span],
        *,
        remember: bool = True,
    ) -> list[int]:
        """Tokens of text between answers, remembered from the turn before."""
        if start == end:
            return []
        inside = tuple(
            _Span(span.start - start, span.end - start)
            for span in spelled
            if start <= span.start and span.end <= end
        )
        key = (text[start:end], inside, start > 0)
        ids = self._pieces.get(key)
        if ids is None:
            ids = self._tokenize_text(text[start:end], inside, continues=start > 0)
            if not remember:
                return ids
            self._pieces[key] = ids
            if len(self._pieces) > REMEMBERED:
                self._pieces.popitem(last=False)
        else:
            self._pieces.move_to_end(key)
        return ids

    def _tokenize_text(self, text: str, spelled: Sequence[_Span], *, continues: bool) -> list[int]:
        tokenize = self._tokenizer.tokenize
        if not spelled:
            return tokenize(text, parse_special=True, continues=continues)
        ids: list[int] = []
        for part in self._raw_parts(text, spelled):
            ids += tokenize(
                part.text,
                parse_special=not part.plain,
                continues=(continues or part.start > 0) and not part.after_control,
            )
        return ids

    def _raw_parts(self, text: str, spelled: Sequence[_Span]) -> list["_Part"]:
        """Cut a text so that what lies between two real control tokens stays in one part.

        A part in which a message spells a control token is plain: nothing in it is parsed. That
        is the cut llama.cpp itself makes around the real ones.
        """
        parts: list[_Part] = []
        parsed_from = 0
        for raw in self._between_control_tokens(text, spelled):
            if not any(raw.start <= span.start < raw.end for span in spelled):
                continue
            if parsed_from < raw.start:
                parts.append(_Part(text[parsed_from : raw.start], parsed_from))
            body = text[raw.start : raw.end]
            if raw.left is not None and raw.left.strips_right:
                body = body.lstrip()
            if raw.right is not None and raw.right.strips_left:
                body = body.rstrip()
            parts.append(_Part(body, raw.start, plain=True, after_control=raw.left is not None))
            parsed_from = raw.end
        if parsed_from < len(text):
            parts.append(_Part(text[parsed_from:], parsed_from))
        return parts

    def _between_control_tokens(self, text: str, spelled: Sequence[_Span]) -> list["_Raw"]:
        """The stretches of text between control tokens that the template wrote."""
        assert self._control is not None
        raws: list[_Raw] = []
        start = 0
        left: ControlToken | None = None
        for match in self._control.finditer(text):
            if any(span.start < match.end() and match.start() < span.end for span in spelled):
                continue
            right = self._tokenizer.control_tokens[match[0]]
            raws.append(_Raw(start, match.start(), left, right))
            start, left = match.end(), right
        raws.append(_Raw(start, len(text), left, None))
        return raws


class _Raw(NamedTuple):
    start: int
    end: int
    left: ControlToken | None
    right: ControlToken | None


class _Part(NamedTuple):
    text: str
    start: int
    plain: bool = False
    after_control: bool = False


class _Fit(NamedTuple):
    text: str
    ids: tuple[int, ...]


def _fits(message: ChatMessage, tokenizer: Tokenizer) -> list[_Fit]:
    """An answer whole, trimmed, and without its thinking, each with the tokens that spell it."""
    ids = message.token_ids
    content = message.content
    text, edges = _spelled(tokenizer.piece(token) for token in ids)
    fits: list[_Fit] = []
    if text == content:
        fits.append(_Fit(content, ids))
    candidates = [content, content.strip()]
    answer = split_text(content, message.lead).answer
    candidates += [answer, answer.strip()]
    candidates += [
        content.rsplit(closing)[-1].strip() for _, closing in MARKERS if closing in content
    ]
    for candidate in dict.fromkeys(candidates):
        if not candidate or any(fit.text == candidate for fit in fits):
            continue
        offset = text.rfind(candidate)
        first, last = edges.get(offset), edges.get(offset + len(candidate))
        if offset >= 0 and first is not None and last is not None:
            fits.append(_Fit(candidate, ids[first:last]))
    return fits


def _spelled(pieces: Iterable[bytes]) -> tuple[str, dict[int, int]]:
    """The text of tokens, and which token begins at each place between two whole characters."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    texts: list[str] = []
    edges = {0: 0}
    length = 0
    for index, piece in enumerate(pieces, start=1):
        texts.append(decoder.decode(piece))
        length += len(texts[-1])
        unfinished, _ = decoder.getstate()
        if not unfinished:
            edges.setdefault(length, index)
    texts.append(decoder.decode(b"", final=True))
    return "".join(texts), edges


def _spells(spoken: bytes, content: str) -> bool:
    """Whether an answer's text came of these bytes.

    Its last character may be cut, and text that was held back may be missing at its end.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(spoken)
    if content in (text, text + decoder.decode(b"", final=True)):
        return True
    return bool(content) and text.startswith(content)


def _leads(lead: str) -> list[str]:
    """The lead as a template may have it later.

    It loses thinking that a template puts only at the end, opened or empty, and gets what stands
    before an answer that is given without its thinking.
    """
    leads = [lead]
    bare = lead.rstrip()
    for opening, closing in MARKERS:
        opened = bare.removesuffix(closing).rstrip() if bare.endswith(closing) else bare
        if opened.endswith(opening) and opened != opening:
            leads.append(opened.removesuffix(opening))
    leads += [known[-SHORT_LEAD:] for known in leads if len(known) > SHORT_LEAD]
    return [*leads, *(known + opening for known in leads for opening in ANSWER_OPENINGS)]


def _unused_character(texts: Iterable[str]) -> str:
    """A private-use character that no text holds.

    Raises:
        ChatTemplateError: There is none.
    """
    joined = "".join(texts)
    first = chr(PRIVATE_USE[0].start)
    if first not in joined:
        return first
    held = set(joined)
    for code in chain.from_iterable(PRIVATE_USE):
        if chr(code) not in held:
            return chr(code)
    raise ChatTemplateError(
        "the messages hold every private-use character there is, so what they say cannot be told "
        "from the marks of the chat template; shorten them"
    )
