"""From a file's metadata to what each layer keeps in memory, as llama.cpp decides it."""

from typing import NamedTuple, Protocol

from models.architectures import (
    HYBRID,
    HYBRID_BY_FEED_FORWARD,
    HYBRID_BY_HEADS,
    HYBRID_BY_INTERVAL,
    HYBRID_PARALLEL,
    KNOWN,
    KV_FROM_START,
    LATENT,
    RECURRENT,
    SHARED_KV,
    SLIDING,
    WINDOW_ON_ATTENTION,
)
from models.header import MemoryKind, RecurrentShape

MOST_LAYERS = 512
"""llama.cpp's limit (`LLAMA_MAX_LAYERS`)."""


class MetadataError(Exception):
    """A value that llama.cpp needs is missing or cannot be true; the message names it."""


class Values(Protocol):
    """Numbers of a file's metadata, by key."""

    def integers(self, key: str) -> int | tuple[int, ...] | None:
        """The number or list of numbers at a key, None without the key."""


class Numbers:
    """Numbers of one architecture, checked.

    Args:
        values: The file's metadata.
        architecture: Prefix of its keys.
    """

    def __init__(self, values: Values, architecture: str) -> None:
        self._values = values
        self._prefix = architecture

    def number(self, key: str, default: int | None = None) -> int:
        """One number of 0 or more.

        Raises:
            MetadataError: The key is missing without a default, or the value is negative or a
                list.
        """
        value = self._read(key)
        if value is None:
            if default is None:
                raise MetadataError(f"{self._prefix}.{key} is missing")
            return default
        if isinstance(value, tuple):
            raise MetadataError(f"{self._prefix}.{key} is a list where one number belongs")
        return value

    def largest(self, key: str) -> int:
        """One number, or the largest of a list; 0 without the key."""
        value = self._read(key)
        if isinstance(value, tuple):
            return max(value, default=0)
        return value or 0

    def per_layer(self, key: str, n_layer: int, default: int) -> tuple[int, ...]:
        """A number for each layer, from one number for all or from a list.

        Raises:
            MetadataError: The list has another length.
        """
        value = self.per_layer_or_none(key, n_layer)
        return (default,) * n_layer if value is None else value

    def per_layer_or_none(self, key: str, n_layer: int) -> tuple[int, ...] | None:
        """As `per_layer`; None without the key."""
        value = self._read(key)
        if value is None:
            return None
        if not isinstance(value, tuple):
            return (value,) * n_layer
        if len(value) != n_layer:
            raise MetadataError(
                f"{self._prefix}.{key} has {len(value)} values for {n_layer} layers"
            )
        return value

    def pattern(self, key: str) -> int | tuple[int, ...] | None:
        """A number or a list of any length; None without the key."""
        return self._read(key)

    def _read(self, key: str) -> int | tuple[int, ...] | None:
        value = self._values.integers(f"{self._prefix}.{key}")
        smallest = min(value, default=0) if isinstance(value, tuple) else value
        if smallest is not None and smallest < 0:
            raise MetadataError(f"{self._prefix}.{key} is negative")
        return value


class Layers(NamedTuple):
    """The layers of a model and what they keep; fields as in `ModelHeader`."""

    n_layer: int
    n_embd: int
    n_ff: tuple[int, ...]
    n_head: tuple[int, ...]
    n_head_kv: tuple[int, ...]
    head_dim_k: int
    head_dim_v: int
    head_dim_k_swa: int
    head_dim_v_swa: int
    n_swa: int
    swa_layers: tuple[bool, ...] | None
    kv_layers: tuple[bool, ...]
    recurrent_layers: tuple[bool, ...]
    latent_attention: bool
    recurrent: RecurrentShape
    memory_kind: MemoryKind
    memory_known: bool


def read_layers(values: Values, architecture: str) -> Layers:
    """Works out the layers of a model.

    Args:
        values: The file's metadata.
        architecture: Its `general.architecture`.

    Raises:
        MetadataError: A value is missing or cannot be true.
    """
    numbers = Numbers(values, architecture)
    n_all = numbers.number("block_count")
    n_ahead = numbers.number("nextn_predict_layers", 0)
    n_layer = n_all - n_ahead
    if not 0 < n_layer <= n_all <= MOST_LAYERS:
        raise MetadataError(f"{architecture}.block_count of {n_all} cannot be true")
    n_embd = numbers.number("embedding_length")
    all_heads = numbers.per_layer("attention.head_count", n_all, 0)
    all_kv = numbers.per_layer_or_none("attention.head_count_kv", n_all) or all_heads
    n_ff = numbers.per_layer("feed_forward_length", n_all, 0)[:n_layer]
    n_head, n_head_kv = all_heads[:n_layer], all_kv[:n_layer]
    head_dim = n_embd // n_head[0] if n_head[0] else 0
    has_heads = bool(n_head[0]) or architecture == "plamo2"
    k = numbers.number("attention.key_length", head_dim) if has_heads else 0
    v = numbers.number("attention.value_length", head_dim) if has_heads else 0
    recurrent_layers = _recurrent_layers(numbers, architecture, n_head_kv, n_ff, n_all)
    n_swa, swa_layers = _sliding_layers(numbers, architecture, recurrent_layers)
    # A hybrid's default layer filter lets its look-ahead layers into the KV cache.
    ahead_unclear = n_ahead > 0 and architecture in HYBRID_BY_HEADS
    return Layers(
        n_layer=n_layer,
        n_embd=n_embd,
        n_ff=n_ff,
        n_head=n_head,
        n_head_kv=n_head_kv,
        head_dim_k=k,
        head_dim_v=v,
        head_dim_k_swa=numbers.number("attention.key_length_swa", k),
        head_dim_v_swa=numbers.number("attention.value_length_swa", v),
        n_swa=n_swa,
        swa_layers=swa_layers,
        kv_layers=_kv_layers(numbers, architecture, recurrent_layers, n_ff, n_all),
        recurrent_layers=recurrent_layers,
        latent_attention=architecture in LATENT
        and numbers.number("attention.key_length_mla", 0) > 0
        and numbers.number("attention.value_length_mla", 0) > 0,
        recurrent=_recurrent_shape(numbers, architecture, k),
        memory_kind=_memory_kind(architecture, swa_layers),
        memory_known=architecture in KNOWN and swa_layers is not None and not ahead_unclear,
    )


def _recurrent_layers(
    numbers: Numbers,
    architecture: str,
    n_head_kv: tuple[int, ...],
    n_ff: tuple[int, ...],
    n_all: int,
) -> tuple[bool, ...]:
    """Which layers have a recurrent state."""
    n_layer = len(n_head_kv)
    if architecture in RECURRENT or architecture in HYBRID_PARALLEL:
        return (True,) * n_layer
    if architecture in HYBRID_BY_HEADS:
        return tuple(heads == 0 for heads in n_head_kv)
    if architecture in HYBRID_BY_FEED_FORWARD:
        return tuple(
            heads == 0 and width == 0 for heads, width in zip(n_head_kv, n_ff, strict=True)
        )
    if architecture in HYBRID_BY_INTERVAL:
        listed = numbers.per_layer_or_none("attention.recurrent_layers", n_all)
        if listed is not None:
            return tuple(value != 0 for value in listed[:n_layer])
        every = numbers.number("full_attention_interval", HYBRID_BY_INTERVAL[architecture])
        if every == 0:
            raise MetadataError(f"{architecture}.full_attention_interval is 0")
        return tuple((layer + 1) % every != 0 for layer in range(n_layer))
    return (False,) * n_layer


def _sliding_layers(
    numbers: Numbers, architecture: str, recurrent_layers: tuple[bool, ...]
) -> tuple[int, tuple[bool, ...] | None]:
    """The window and the layers that have it; the layers are None where only the file could say.

    Source: `load_swa_pattern` and `set_swa_pattern` (llama-model.cpp, llama-hparams.cpp).
    """
    n_layer = len(recurrent_layers)
    if architecture not in KNOWN:
        return 0, None
    window = _window(numbers, architecture, n_layer)
    if window == 0:
        return 0, (False,) * n_layer
    if architecture in WINDOW_ON_ATTENTION:
        return window, tuple(not recurrent for recurrent in recurrent_layers)
    rule = SLIDING[architecture]
    pattern = numbers.pattern("attention.sliding_window_pattern")
    if isinstance(pattern, tuple):
        listed = tuple(value != 0 for value in pattern[:n_layer])
        return window, listed + (False,) * (n_layer - len(listed))
    if pattern is None and rule.every == 0:
        return window, None
    every = rule.every if pattern is None else pattern
    full = 0 if rule.dense_first else every - 1
    return window, tuple(every == 0 or layer % every != full for layer in range(n_layer))


def _window(numbers: Numbers, architecture: str, n_layer: int) -> int:
    """Tokens of the sliding window, 0 without one."""
    if architecture in WINDOW_ON_ATTENTION:
        return numbers.number("attention.sliding_window", 0)
    rule = SLIDING.get(architecture)
    if rule is None or rule.n_layer not in {None, n_layer}:
        return 0
    window = numbers.number("attention.sliding_window", rule.absent)
    return (rule.forced or window) if window else 0


def _kv_layers(
    numbers: Numbers,
    architecture: str,
    recurrent_layers: tuple[bool, ...],
    n_ff: tuple[int, ...],
    n_all: int,
) -> tuple[bool, ...]:
    """Which layers own a KV cache."""
    n_layer = len(recurrent_layers)
    if architecture in RECURRENT:
        return (False,) * n_layer
    if architecture in HYBRID_PARALLEL:
        return (True,) * n_layer
    if architecture in HYBRID_BY_FEED_FORWARD:
        return tuple(
            not recurrent and width == 0
            for recurrent, width in zip(recurrent_layers, n_ff, strict=True)
        )
    if architecture in HYBRID:
        return tuple(not recurrent for recurrent in recurrent_layers)
    first = KV_FROM_START.get(architecture, n_all)
    if architecture in SHARED_KV:
        first = n_all - numbers.number("attention.shared_kv_layers", 0)
    return tuple(layer < first for layer in range(n_layer))


def _recurrent_shape(numbers: Numbers, architecture: str, head_dim_k: int) -> RecurrentShape:
    return RecurrentShape(
        conv_kernel=numbers.number("ssm.conv_kernel", 0),
        inner_size=numbers.number("ssm.inner_size", 0),
        state_size=numbers.number("ssm.state_size", 0),
        group_count=numbers.number("ssm.group_count", 0),
        wkv_head_size=numbers.number("wkv.head_size", 0),
        token_shift_count=numbers.number("token_shift_count", 2),
        shortconv_cache=numbers.number("shortconv.l_cache", 0),
        kda_head_dim=numbers.number("kda.head_dim", 0),
        linear_head_dim=head_dim_k if architecture == "minimax-01" else 0,
    )


def _memory_kind(architecture: str, swa_layers: tuple[bool, ...] | None) -> MemoryKind:
    if architecture in RECURRENT:
        return "recurrent"
    if architecture in HYBRID:
        return "hybrid"
    return "sliding_window" if swa_layers and any(swa_layers) else "attention"
