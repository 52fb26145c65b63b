"""A model's vocabulary: text to tokens and back, and which tokens mean what."""

import ctypes
import re
from functools import cached_property

from llama_cpp import llama_cpp as lib

from backend.chat.literals import longest_of
from backend.chat.prompt import ControlToken
from backend.chat.thinking import HARMONY, SHOWN
from backend.local.llama import (
    ATTR_CONTROL,
    ATTR_LSTRIP,
    ATTR_RSTRIP,
    ATTR_UNKNOWN,
    ATTR_USER_DEFINED,
    VOCAB_SPM,
    LlamaError,
    Model,
)

PIECE_BYTES = 256


class Vocabulary:
    """Tokenizer of a loaded model; implements `backend.chat.prompt.Tokenizer`."""

    def __init__(self, model: Model) -> None:
        self._vocab = lib.llama_model_get_vocab(model.pointer)
        self._spm = int(lib.llama_vocab_type(self._vocab)) == VOCAB_SPM
        self._pieces: dict[int, bytes] = {}
        self._buffer = ctypes.create_string_buffer(PIECE_BYTES)
        self.n_tokens = int(lib.llama_vocab_n_tokens(self._vocab))
        self.bos_id = int(lib.llama_vocab_bos(self._vocab))
        self.eos_id = int(lib.llama_vocab_eos(self._vocab))
        self.add_bos = bool(lib.llama_vocab_get_add_bos(self._vocab)) and self.bos_id >= 0

    def is_end_of_generation(self, token: int) -> bool:
        """Whether a token ends an answer (a model can have several such tokens)."""
        return bool(lib.llama_vocab_is_eog(self._vocab, token))

    def text_of(self, token: int) -> str:
        """A token's text as the vocabulary spells it, e.g. `<|im_end|>`; '' for no token."""
        if token < 0:
            return ""
        text: bytes = lib.llama_vocab_get_text(self._vocab, token)
        return text.decode("utf-8", errors="replace")

    @cached_property
    def control_tokens(self) -> dict[str, ControlToken]:
        """Tokens whose text turns into them when special tokens are parsed, by text."""
        found: dict[str, ControlToken] = {}
        for token in range(self.n_tokens):
            attr = int(lib.llama_vocab_get_attr(self._vocab, token))
            if not attr & (ATTR_CONTROL | ATTR_UNKNOWN | ATTR_USER_DEFINED):
                continue
            text = self.text_of(token)
            if text and (text in HARMONY or not attr & ATTR_USER_DEFINED):
                found[text] = ControlToken(
                    token,
                    strips_left=bool(attr & ATTR_LSTRIP),
                    strips_right=bool(attr & ATTR_RSTRIP),
                    shown=text in SHOWN or bool(attr & ATTR_USER_DEFINED),
                )
        return found

    @cached_property
    def _always_parsed(self) -> re.Pattern[str] | None:
        """Texts of control tokens that llama.cpp parses though it is told to parse none."""
        return longest_of(text for text in HARMONY if text in self.control_tokens)

    @cached_property
    def _shown_control_tokens(self) -> frozenset[int]:
        """Control tokens that are text to a reader: the markers of thinking."""
        return frozenset(control.token for control in self.control_tokens.values() if control.shown)

    def piece(self, token: int) -> bytes:
        """The bytes that a generated token adds to the text; markers of the format add none.

        Nor does a token that the vocabulary does not have: an answer's own tokens can be those of
        the model that the chat had before.
        """
        if not 0 <= token < self.n_tokens:
            return b""
        known = self._pieces.get(token)
        if known is not None:
            return known
        special = token in self._shown_control_tokens
        piece = self._piece(token, special=special)
        self._pieces[token] = piece
        return piece

    def spell(self, tokens: list[int]) -> str:
        """Tokens as text, control tokens spelled out."""
        joined = b"".join(self._piece(token, special=True) for token in tokens)
        return joined.decode("utf-8", errors="replace")

    def _piece(self, token: int, *, special: bool) -> bytes:
        buffer = self._buffer
        size = lib.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, special)
        if size < 0:
            buffer = ctypes.create_string_buffer(-size)
            size = lib.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, special)
        return buffer.raw[: max(0, size)]

    def tokenize(self, text: str, *, parse_special: bool, continues: bool = False) -> list[int]:
        """Tokens of a text, without any that the text does not spell.

        Args:
            text: The text.
            parse_special: Whether the text of a control token becomes that token.
            continues: The text follows other text directly, so that no vocabulary's rule for
                the start of a text (a space put before it) may apply.

        Raises:
            LlamaError: llama.cpp cannot tokenize it.
        """
        if not parse_special and self._always_parsed is not None:
            # Cut within its text, a control token cannot be made of it.
            cuts = [match.start() + 1 for match in self._always_parsed.finditer(text)]
            if cuts:
                starts = (0, *cuts)
                ids: list[int] = []
                for start, end in zip(starts, (*cuts, len(text)), strict=True):
                    ids += self.tokenize(
                        text[start:end], parse_special=False, continues=continues or start > 0
                    )
                return ids
        if continues and self._spm and not self._starts_with_control(text):
            return self._tokenize_after_newline(text, parse_special=parse_special)
        return self._tokenize(text, parse_special=parse_special)

    def _starts_with_control(self, text: str) -> bool:
        return self._control is not None and self._control.match(text) is not None

    @cached_property
    def _control(self) -> re.Pattern[str] | None:
        return longest_of(self.control_tokens)

    def _tokenize_after_newline(self, text: str, *, parse_special: bool) -> list[int]:
        """SentencePiece puts a space before a text; a newline in front takes it instead."""
        lead = self._tokenize("\n", parse_special=parse_special)
        whole = self._tokenize("\n" + text, parse_special=parse_special)
        if whole[: len(lead)] != lead:
            return self._tokenize(text, parse_special=parse_special)
        return whole[len(lead) :]

    def _tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        data = text.encode("utf-8", errors="replace")
        room = len(data) + 8
        buffer = (ctypes.c_int32 * room)()
        count = lib.llama_tokenize(self._vocab, data, len(data), buffer, room, False, parse_special)
        if count < 0:
            raise LlamaError(f"llama.cpp could not tokenize a text of {len(data)} bytes")
        return list(buffer[:count])
