"""Tiny models with random F32 weights, one of each kind of memory, that llama.cpp really runs.

They share a byte-level BPE tokenizer of 295 tokens: all bytes, 34 merges, and the ChatML and
thinking markers; one has a SentencePiece tokenizer. Weights are scaled so that logits spread by
about 3 and depend on old tokens as well as on new ones. Control tokens have logit 0, so greedy
decoding never ends by itself. One more model has no memory and says what it was written to say.
A file is written once into a directory and found there afterwards.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from gguf import GGUFWriter, LlamaFileType, TokenType
from numpy.typing import NDArray

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

N_EMBD = 128
N_HEAD = 4
N_HEAD_KV = 2
HEAD_DIM = 32
N_FF = 256
WINDOW = 64
SSM_INNER = 2 * N_EMBD
SSM_STATE = 16
SSM_CONV = 4
SSM_RANK = 8

LLAMA_LAYERS = 3
SWA_LAYERS = 4
MAMBA_LAYERS = 3
HYBRID_LAYERS = 4
HYBRID_KV_HEADS = (0, 2, 0, 4)
"""Unequal, so that values are padded without flash attention."""

END = "<|im_end|>"
CONTROL = ("<|endoftext|>", "<|im_start|>", END)
SPM_CONTROL = ("<unk>", "<s>", "</s>")
MARKERS = ("<think>", "</think>")
SPECIALS = len(CONTROL) + len(MARKERS)
"""Tokens at the end of each vocabulary that greedy decoding never chooses."""
PAIRS = (
    *("Ġ t", "h e", "Ġ a", "i n", "r e", "o n", "Ġt he", "e r", "Ġ s", "a t", "Ġ w", "Ġ o"),
    *("e n", "Ġ c", "i t", "i s", "a n", "o r", "e s", "Ġ b", "e d", "Ġ f", "in g", "Ġ p"),
    *("o u", "Ġa n", "a l", "a r", "Ġt o", "Ġ m", "Ġo f", "Ġ in", "Ġ d", "Ġan d"),
)


def tiny_llama(
    folder: Path, *, template: str | None = CHATML, n_ctx_train: int = 2048, seed: int = 1
) -> Path:
    """A dense llama: three layers of full attention with a KV cache."""
    return _cached(folder, "llama", _write_llama, options=(template, n_ctx_train, seed))


def tiny_swa(
    folder: Path, *, template: str | None = CHATML, n_ctx_train: int = 2048, seed: int = 1
) -> Path:
    """A gemma3 whose layers 0 and 2 of four have a sliding window of 64 tokens."""
    return _cached(folder, "swa", _write_swa, options=(template, n_ctx_train, seed))


def tiny_mamba(
    folder: Path, *, template: str | None = CHATML, n_ctx_train: int = 2048, seed: int = 1
) -> Path:
    """A mamba: three layers with a recurrent state and no KV cache."""
    return _cached(folder, "mamba", _write_mamba, options=(template, n_ctx_train, seed))


def tiny_hybrid(
    folder: Path, *, template: str | None = CHATML, n_ctx_train: int = 2048, seed: int = 1
) -> Path:
    """A jamba: recurrent and attention layers in turn, two of each."""
    return _cached(folder, "hybrid", _write_hybrid, options=(template, n_ctx_train, seed))


def tiny_spm(
    folder: Path, *, template: str | None = CHATML, n_ctx_train: int = 2048, seed: int = 1
) -> Path:
    """The dense llama with a SentencePiece tokenizer that begins a text with `<s>`."""
    return _cached(
        folder, "spm", _write_llama, options=(template, n_ctx_train, seed), vocabulary=_spm()
    )


def tiny_parrot(
    folder: Path,
    *reply: bytes | str,
    template: str = CHATML,
    control: Sequence[str] = (),
    words: Sequence[str] = (),
) -> Path:
    """A llama that answers a prompt ending in a newline with a fixed reply, token by token.

    Args:
        folder: Where the file goes.
        reply: Bytes, of which each is a token, and texts of control tokens or markers. No token
            comes twice, because the last token alone decides the next.
        template: Chat template.
        control: More control tokens.
        words: More tokens, which no text is tokenized into.
    """
    vocabulary = _bpe(control, words)
    letters = _byte_letters()
    chain = [vocabulary.tokens.index(letters[ord("\n")])]
    for part in reply:
        names = [part] if isinstance(part, str) else [letters[byte] for byte in part]
        chain += map(vocabulary.tokens.index, names)
    if len(set(chain)) < len(chain):
        raise ValueError("a token of the reply comes twice")

    def write(path: Path, n_vocab: int, seed: int) -> _Model:
        return _write_parrot(path, n_vocab, seed, chain)

    name = hashlib.sha256(repr((reply, control, words)).encode()).hexdigest()[:8]
    options = (template, 2048, 1)
    return _cached(folder, f"parrot-{name}", write, options=options, vocabulary=vocabulary)


class _Model:
    """A model that is being written: random weights in the order they are asked for."""

    def __init__(self, path: Path, architecture: str, n_layer: int, seed: int) -> None:
        self.writer = GGUFWriter(path, architecture)
        self.random = np.random.default_rng(seed)
        self.writer.add_block_count(n_layer)
        self.writer.add_embedding_length(N_EMBD)
        self.writer.add_file_type(LlamaFileType.ALL_F32)
        self.writer.add_layer_norm_rms_eps(1e-5)

    def matrix(self, name: str, rows: int, columns: int, gain: float = 1.0) -> None:
        """A matrix that keeps the size of a normed input times a gain.

        Args:
            name: Tensor name without `.weight`.
            rows: Outputs.
            columns: Inputs.
            gain: Standard deviation of an output for inputs of 1.
        """
        values = self.random.normal(0.0, gain / np.sqrt(columns), (rows, columns))
        self.add(f"{name}.weight", values)

    def ones(self, name: str, size: int, value: float = 1.0) -> None:
        """A vector of equal values, such as the weight of a norm."""
        self.add(f"{name}.weight", np.full(size, value))

    def add(self, name: str, values: NDArray[np.float64]) -> None:
        """A tensor with its full name."""
        self.writer.add_tensor(name, values.astype(np.float32))

    def embeddings(self, n_vocab: int, scale: float = 1.0) -> None:
        """Token embeddings, and an output matrix for logits that spread by 3."""
        self.add("token_embd.weight", self.random.normal(0.0, scale, (n_vocab, N_EMBD)))
        output = self.random.normal(0.0, 3 / np.sqrt(N_EMBD), (n_vocab, N_EMBD))
        output[-SPECIALS:] = 0.0
        self.add("output.weight", output)
        self.ones("output_norm", N_EMBD)

    def attention(
        self, layer: int, kv_heads: int = N_HEAD_KV, *, gain: float = 1.6, output_gain: float = 2.0
    ) -> None:
        """Query, key, value and output matrices; the gain makes attention choose."""
        block = f"blk.{layer}"
        self.ones(f"{block}.attn_norm", N_EMBD)
        self.matrix(f"{block}.attn_q", N_HEAD * HEAD_DIM, N_EMBD, gain)
        self.matrix(f"{block}.attn_k", kv_heads * HEAD_DIM, N_EMBD, gain)
        self.matrix(f"{block}.attn_v", kv_heads * HEAD_DIM, N_EMBD)
        self.matrix(f"{block}.attn_output", N_EMBD, N_HEAD * HEAD_DIM, output_gain)

    def feed_forward(self, layer: int, *, down_gain: float = 1.0) -> None:
        """Gate, up and down matrices of a gated feed-forward part."""
        block = f"blk.{layer}"
        self.ones(f"{block}.ffn_norm", N_EMBD)
        self.matrix(f"{block}.ffn_gate", N_FF, N_EMBD)
        self.matrix(f"{block}.ffn_up", N_FF, N_EMBD)
        self.matrix(f"{block}.ffn_down", N_EMBD, N_FF, down_gain)

    def state_space(self, layer: int) -> None:
        """A selective state space that forgets over some twenty tokens and more."""
        block = f"blk.{layer}"
        self.ones(f"{block}.attn_norm", N_EMBD)
        self.matrix(f"{block}.ssm_in", 2 * SSM_INNER, N_EMBD)
        self.matrix(f"{block}.ssm_conv1d", SSM_INNER, SSM_CONV)
        self.add(f"{block}.ssm_conv1d.bias", np.zeros(SSM_INNER))
        self.matrix(f"{block}.ssm_x", SSM_RANK + 2 * SSM_STATE, SSM_INNER, 2.0)
        self.matrix(f"{block}.ssm_dt", SSM_INNER, SSM_RANK)
        self.add(f"{block}.ssm_dt.bias", np.full(SSM_INNER, -2.0))
        self.add(f"{block}.ssm_a", -self.random.uniform(0.05, 1.0, (SSM_INNER, SSM_STATE)))
        self.add(f"{block}.ssm_d", np.ones(SSM_INNER))
        self.matrix(f"{block}.ssm_out", N_EMBD, SSM_INNER, 2.0)

    def state_space_sizes(self) -> None:
        """Metadata of the state space."""
        self.writer.add_ssm_conv_kernel(SSM_CONV)
        self.writer.add_ssm_inner_size(SSM_INNER)
        self.writer.add_ssm_state_size(SSM_STATE)
        self.writer.add_ssm_time_step_rank(SSM_RANK)

    def attention_sizes(self, kv_heads: int | tuple[int, ...] = N_HEAD_KV) -> None:
        """Metadata of attention and feed-forward layers."""
        self.writer.add_head_count(N_HEAD)
        self.writer.add_head_count_kv(list(kv_heads) if isinstance(kv_heads, tuple) else kv_heads)
        self.writer.add_key_length(HEAD_DIM)
        self.writer.add_value_length(HEAD_DIM)
        self.writer.add_feed_forward_length(N_FF)
        self.writer.add_rope_dimension_count(HEAD_DIM)


def _write_llama(path: Path, n_vocab: int, seed: int) -> _Model:
    model = _Model(path, "llama", LLAMA_LAYERS, seed)
    model.attention_sizes()
    model.embeddings(n_vocab)
    for layer in range(LLAMA_LAYERS):
        model.attention(layer)
        model.feed_forward(layer)
    return model


def _write_parrot(path: Path, n_vocab: int, seed: int, chain: Sequence[int]) -> _Model:
    """One layer that adds nothing: the output looks at the embedding of the last token."""
    model = _Model(path, "llama", 1, seed)
    model.attention_sizes()
    embeddings = model.random.normal(0.0, 1.0, (n_vocab, N_EMBD))
    output = np.zeros((n_vocab, N_EMBD))
    for token, following in pairwise(chain):
        output[following] = embeddings[token] * (20.0 / N_EMBD)
    model.add("token_embd.weight", embeddings)
    model.add("output.weight", output)
    model.ones("output_norm", N_EMBD)
    model.attention(0, output_gain=0.0)
    model.feed_forward(0, down_gain=0.0)
    return model


def _write_swa(path: Path, n_vocab: int, seed: int) -> _Model:
    model = _Model(path, "gemma3", SWA_LAYERS, seed)
    model.attention_sizes()
    model.writer.add_sliding_window(WINDOW)
    model.writer.add_sliding_window_pattern(2)
    # gemma3 multiplies embeddings by the root of their width.
    model.embeddings(n_vocab, 1 / np.sqrt(N_EMBD))
    for layer in range(SWA_LAYERS):
        model.attention(layer)
        model.feed_forward(layer)
        model.ones(f"blk.{layer}.attn_q_norm", HEAD_DIM, 1.6)
        model.ones(f"blk.{layer}.attn_k_norm", HEAD_DIM, 1.6)
        model.ones(f"blk.{layer}.post_attention_norm", N_EMBD)
        model.ones(f"blk.{layer}.post_ffw_norm", N_EMBD)
    return model


def _write_mamba(path: Path, n_vocab: int, seed: int) -> _Model:
    model = _Model(path, "mamba", MAMBA_LAYERS, seed)
    model.state_space_sizes()
    model.embeddings(n_vocab)
    for layer in range(MAMBA_LAYERS):
        model.state_space(layer)
    return model


def _write_hybrid(path: Path, n_vocab: int, seed: int) -> _Model:
    model = _Model(path, "jamba", HYBRID_LAYERS, seed)
    model.attention_sizes(HYBRID_KV_HEADS)
    model.state_space_sizes()
    model.embeddings(n_vocab)
    for layer, kv_heads in enumerate(HYBRID_KV_HEADS):
        if kv_heads:
            model.attention(layer, kv_heads)
        else:
            model.state_space(layer)
            model.ones(f"blk.{layer}.ssm_dt_norm", SSM_RANK)
            model.ones(f"blk.{layer}.ssm_b_norm", SSM_STATE)
            model.ones(f"blk.{layer}.ssm_c_norm", SSM_STATE)
        model.feed_forward(layer)
    return model


class _Vocabulary(NamedTuple):
    """A tokenizer as a GGUF file has it; it has either merges or scores."""

    model: str
    tokens: list[str]
    types: list[int]
    merges: list[str]
    scores: list[float]
    bos: str
    eos: str
    add_bos: bool

    def write(self, writer: GGUFWriter) -> None:
        """Put it into a file's metadata."""
        writer.add_tokenizer_model(self.model)
        writer.add_token_list(self.tokens)
        writer.add_token_types(self.types)
        if self.merges:
            writer.add_tokenizer_pre("gpt-2")
            writer.add_token_merges(self.merges)
        if self.scores:
            writer.add_token_scores(self.scores)
            writer.add_unk_token_id(self.tokens.index("<unk>"))
        writer.add_eos_token_id(self.tokens.index(self.eos))
        writer.add_bos_token_id(self.tokens.index(self.bos))
        writer.add_add_bos_token(self.add_bos)


def _cached(
    folder: Path,
    kind: str,
    write: Callable[[Path, int, int], _Model],
    *,
    options: tuple[str | None, int, int],
    vocabulary: _Vocabulary | None = None,
) -> Path:
    """The model's file in a folder, written if it is not there yet."""
    template, n_ctx_train, seed = options
    vocabulary = vocabulary or _bpe()
    digest = hashlib.sha256(repr(options).encode()).hexdigest()[:8]
    path = folder / f"tiny-{kind}-{digest}.gguf"
    if path.exists():
        return path
    unfinished = path.with_suffix(f".{os.getpid()}.part")
    model = write(unfinished, len(vocabulary.tokens), seed)
    writer = model.writer
    writer.add_name(f"Tiny {kind}")
    writer.add_context_length(n_ctx_train)
    vocabulary.write(writer)
    if template is not None:
        writer.add_chat_template(template)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    unfinished.replace(path)
    return path


def _bpe(control: Sequence[str] = (), words: Sequence[str] = ()) -> _Vocabulary:
    """Bytes, merges, control tokens, thinking markers."""
    control = (*CONTROL, *control)
    tokens = [*_byte_letters(), *(pair.replace(" ", "") for pair in PAIRS), *words]
    types = [int(TokenType.NORMAL)] * len(tokens)
    return _Vocabulary(
        model="gpt2",
        tokens=[*tokens, *control, *MARKERS],
        types=[
            *types,
            *[int(TokenType.CONTROL)] * len(control),
            *[int(TokenType.USER_DEFINED)] * len(MARKERS),
        ],
        merges=list(PAIRS),
        scores=[],
        bos=CONTROL[0],
        eos=END,
        add_bos=False,
    )


def _spm() -> _Vocabulary:
    """Bytes, letters, the merged pieces in order of preference, control tokens, markers."""
    letters = ["▁", *map(chr, range(ord("!"), ord("~") + 1))]
    merged = [pair.replace(" ", "").replace("Ġ", "▁") for pair in PAIRS]
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    tokens = [*byte_tokens, *merged, *letters, *SPM_CONTROL, *MARKERS]
    types = [
        *[int(TokenType.BYTE)] * len(byte_tokens),
        *[int(TokenType.NORMAL)] * (len(merged) + len(letters)),
        int(TokenType.UNKNOWN),
        *[int(TokenType.CONTROL)] * (len(SPM_CONTROL) - 1),
        *[int(TokenType.USER_DEFINED)] * len(MARKERS),
    ]
    scores = [0.0] * len(tokens)
    for rank in range(len(merged) + len(letters)):
        scores[len(byte_tokens) + rank] = -float(rank)
    return _Vocabulary(
        model="llama",
        tokens=tokens,
        types=types,
        merges=[],
        scores=scores,
        bos="<s>",
        eos="</s>",
        add_bos=True,
    )


def _byte_letters() -> list[str]:
    """GPT-2's printable letter for each byte."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]
