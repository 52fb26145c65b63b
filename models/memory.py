"""The memory that a model needs: KV caches as llama.cpp allocates them, weights, an allowance.

Sources: `llama_kv_cache`, `llama_kv_cache_iswa` and `llama_memory_recurrent` (constructors),
`llama_hparams::n_embd_r` and `n_embd_s`, and the `llama_context` constructor, as llama-cpp-python
0.3.36 has them. All for one sequence (`n_seq_max` 1).
"""

from typing import Literal, NamedTuple

import msgspec

from models.header import ModelHeader

CacheKind = Literal["full", "swa", "recurrent"]
"""Cells for all tokens, for a sliding window, or one state of fixed size."""

SMALLEST_N_CTX = 512
"""A context below this is of no use for a chat."""

_CELLS_MULTIPLE = 256
"""llama.cpp rounds contexts and sliding-window caches up to a multiple of this."""

_F32_BYTES = 4
_MASK_BYTES = 2
"""Bytes of the attention mask for each token of a micro-batch and each cell, as f16."""
_FIXED_ALLOWANCE = 16 * 2**20
"""Bytes for graph, thread and library buffers that do not grow."""


class CacheType(NamedTuple):
    """How a type stores elements.

    Attributes:
        block: Elements of a block.
        bytes: Bytes of a block.
    """

    block: int
    bytes: int


CACHE_TYPES = {
    "f32": CacheType(1, 4),
    "f16": CacheType(1, 2),
    "bf16": CacheType(1, 2),
    "q8_0": CacheType(32, 34),
    "q4_0": CacheType(32, 18),
    "q4_1": CacheType(32, 20),
    "iq4_nl": CacheType(32, 18),
    "q5_0": CacheType(32, 22),
    "q5_1": CacheType(32, 24),
}
"""Types that llama.cpp takes for K and V caches, with their blocks (ggml-common.h)."""


class KvCacheLayout(msgspec.Struct, frozen=True, kw_only=True):
    """One of a model's caches.

    Attributes:
        kind: What its cells hold.
        layers: Layers that have it.
        cells: Cells: tokens that it can hold; 1 for a recurrent state.
        k_bytes: Bytes of all keys; of a recurrent state the convolution's part (R).
        v_bytes: Bytes of all values; of a recurrent state the state itself (S).
        type_k, type_v: Their types.
    """

    kind: CacheKind
    layers: int
    cells: int
    k_bytes: int
    v_bytes: int
    type_k: str
    type_v: str

    @property
    def bytes(self) -> int:
        """All bytes of the cache."""
        return self.k_bytes + self.v_bytes

    @property
    def bytes_per_cell(self) -> int:
        """Bytes of one cell in all layers."""
        return self.bytes // self.cells


class KvLayout(msgspec.Struct, frozen=True, kw_only=True):
    """All caches of a model in a context.

    Attributes:
        n_ctx: Tokens of the context as llama.cpp rounds it.
        caches: The caches; a model with a sliding window has a full and a window cache.
        total_bytes: Bytes of all caches.
        bytes_per_token: Bytes that one more token takes in the caches that grow with the text: a
            window cache smaller than the context and a recurrent state do not.
        known: The layout is the one that llama.cpp allocates; else it is a guess as for plain
            attention, and llama.cpp's log has the figures.
    """

    n_ctx: int
    caches: tuple[KvCacheLayout, ...]
    total_bytes: int
    bytes_per_token: int
    known: bool


class MemoryNeed(msgspec.Struct, frozen=True, kw_only=True):
    """What a loaded model takes.

    Attributes:
        weights_bytes: The tensors. Weights that the processor repacks are counted once: the
            mapped file behind them can be dropped from memory.
        kv_bytes: The caches.
        compute_bytes: An allowance for compute buffers, meant to be rather too large.
        total_bytes: The sum.
        known: As in `KvLayout`.
    """

    weights_bytes: int
    kv_bytes: int
    compute_bytes: int
    total_bytes: int
    known: bool


def padded_cells(cells: int) -> int:
    """Cells, or tokens of a context, as llama.cpp rounds them up."""
    return -(-cells // _CELLS_MULTIPLE) * _CELLS_MULTIPLE


def row_bytes(cache_type: str, elements: int) -> int:
    """Bytes of a row of a cache.

    Args:
        cache_type: A key of `CACHE_TYPES`.
        elements: Elements of the row.

    Raises:
        ValueError: The type is unknown, or the row is no whole number of its blocks.
    """
    layout = CACHE_TYPES.get(cache_type)
    if layout is None:
        raise ValueError(f"{cache_type} is no cache type; there are {', '.join(CACHE_TYPES)}")
    if elements % layout.block:
        raise ValueError(
            f"{elements} elements are no multiple of {cache_type}'s block of {layout.block}"
        )
    return elements // layout.block * layout.bytes


def cache_type_fault(
    header: ModelHeader, *, type_k: str, type_v: str, flash_attn: bool = True
) -> str | None:
    """Why llama.cpp would refuse a pair of cache types for a model.

    Source: the checks of `llama_init_from_model`.

    Args:
        header: The model.
        type_k: Type of the keys.
        type_v: Type of the values.
        flash_attn: Flash attention is on or left to llama.cpp, not off.

    Returns:
        A sentence for the user, None where the types fit.
    """
    for cache_type in (type_k, type_v):
        if cache_type not in CACHE_TYPES:
            return f"{cache_type} is no cache type; there are {', '.join(CACHE_TYPES)}"
    if header.memory_kind == "recurrent":
        return None
    if header.latent_attention and type_k != type_v:
        return "this model needs the same type for the K and the V cache"
    if CACHE_TYPES[type_v].block > 1 and not flash_attn:
        return f"a V cache in {type_v} needs flash attention"
    for letter, cache_type, dims in (
        ("K", type_k, _head_dims(header, header.head_dim_k, header.head_dim_k_swa)),
        ("V", type_v, _head_dims(header, header.head_dim_v, header.head_dim_v_swa)),
    ):
        block = CACHE_TYPES[cache_type].block
        for dim in dims:
            if dim % block:
                return (
                    f"a {letter} cache in {cache_type} needs a head size that is a multiple of "
                    f"{block}; this model's is {dim}"
                )
    return None


def kv_layout(
    header: ModelHeader,
    *,
    n_ctx: int,
    type_k: str = "f16",
    type_v: str = "f16",
    swa_full: bool = False,
    n_ubatch: int = 512,
    flash_attn: bool = True,
) -> KvLayout:
    """The caches that llama.cpp allocates for a model.

    A layer's keys take cells * row_bytes(type_k, KV heads * head size), its values likewise.
    Without flash attention all layers' values have the width of the widest layer.

    Args:
        header: The model.
        n_ctx: Tokens of the context, before rounding.
        type_k: Type of the keys.
        type_v: Type of the values.
        swa_full: Sliding-window caches get as many cells as the context.
        n_ubatch: Most tokens in one compute step.
        flash_attn: Flash attention is on or left to llama.cpp, not off.

    Raises:
        ValueError: A type is unknown or does not fit the model's rows.
    """
    cells = padded_cells(n_ctx)
    swa_layers = header.swa_layers or (False,) * header.n_layer
    window_cells = cells if swa_full else padded_cells(min(cells, header.n_swa + n_ubatch))
    caches: list[KvCacheLayout] = []
    kinds: tuple[tuple[CacheKind, bool, int], ...] = (
        ("full", False, cells),
        ("swa", True, window_cells),
    )
    for kind, in_window, kind_cells in kinds:
        layers = [
            layer
            for layer in range(header.n_layer)
            if header.kv_layers[layer] and swa_layers[layer] == in_window
        ]
        if layers:
            caches.append(
                _kv_cache(
                    header,
                    kind,
                    layers,
                    cells=kind_cells,
                    type_k=type_k,
                    type_v=type_v,
                    flash_attn=flash_attn,
                )
            )
    if any(header.recurrent_layers):
        caches.append(_recurrent_cache(header))
    growing = (cache for cache in caches if cache.kind != "recurrent" and cache.cells == cells)
    return KvLayout(
        n_ctx=cells,
        caches=tuple(caches),
        total_bytes=sum(cache.bytes for cache in caches),
        bytes_per_token=sum(cache.bytes_per_cell for cache in growing),
        known=header.memory_known,
    )


def estimate_memory(
    header: ModelHeader,
    n_ctx: int,
    *,
    type_k: str = "f16",
    type_v: str = "f16",
    swa_full: bool = False,
    n_ubatch: int = 512,
    flash_attn: bool = True,
    n_outputs: int = 1,
) -> MemoryNeed:
    """What a model takes when it is loaded with a context.

    The compute buffer is an allowance, not a computation: for each token of a micro-batch five
    rows of the model's width and four of its feed-forward width, the attention mask over all
    cells, without flash attention the scores of all heads too; the logits of all outputs twice;
    and 16 MiB.

    Args:
        header: The model.
        n_ctx: Tokens of the context, before rounding.
        type_k: Type of the keys.
        type_v: Type of the values.
        swa_full: Sliding-window caches get as many cells as the context.
        n_ubatch: Most tokens in one compute step.
        flash_attn: Flash attention is on or left to llama.cpp, not off.
        n_outputs: Tokens of a batch whose logits are asked for.

    Raises:
        ValueError: As `kv_layout`.
    """
    layout = kv_layout(
        header,
        n_ctx=n_ctx,
        type_k=type_k,
        type_v=type_v,
        swa_full=swa_full,
        n_ubatch=n_ubatch,
        flash_attn=flash_attn,
    )
    attention_cells = sum(cache.cells for cache in layout.caches if cache.kind != "recurrent")
    heads = max(header.n_head)
    width = max(header.n_embd, heads * max(header.head_dim_k, header.head_dim_k_swa))
    feed_forward = max(*header.n_ff, header.n_ff_expert * header.expert_used_count)
    per_cell = _MASK_BYTES if flash_attn else _F32_BYTES * (heads + 1)
    per_token = (
        _F32_BYTES * (5 * width + 4 * feed_forward + 6 * header.recurrent.inner_size)
        + per_cell * attention_cells
    )
    logits = 2 * _F32_BYTES * header.n_vocab * n_outputs
    compute = n_ubatch * per_token + logits + _FIXED_ALLOWANCE
    return MemoryNeed(
        weights_bytes=header.tensor_bytes,
        kv_bytes=layout.total_bytes,
        compute_bytes=compute,
        total_bytes=header.tensor_bytes + layout.total_bytes + compute,
        known=layout.known,
    )


def largest_n_ctx(
    header: ModelHeader,
    available_bytes: int,
    upto: int,
    *,
    type_k: str = "f16",
    type_v: str = "f16",
    swa_full: bool = False,
    n_ubatch: int = 512,
    flash_attn: bool = True,
    n_outputs: int = 1,
) -> int | None:
    """The largest context whose estimated memory is available.

    Args:
        header: The model.
        available_bytes: Bytes that the model may take.
        upto: Tokens that are wanted at most.
        type_k: Type of the keys.
        type_v: Type of the values.
        swa_full: Sliding-window caches get as many cells as the context.
        n_ubatch: Most tokens in one compute step.
        flash_attn: Flash attention is on or left to llama.cpp, not off.
        n_outputs: Tokens of a batch whose logits are asked for.

    Returns:
        `upto` where that fits, else the largest fitting multiple of 256, None where not even
        512 tokens fit.

    Raises:
        ValueError: As `kv_layout`.
    """

    def fits(n_ctx: int) -> bool:
        need = estimate_memory(
            header,
            n_ctx,
            type_k=type_k,
            type_v=type_v,
            swa_full=swa_full,
            n_ubatch=n_ubatch,
            flash_attn=flash_attn,
            n_outputs=n_outputs,
        )
        return need.total_bytes <= available_bytes

    if fits(upto):
        return upto
    smallest = SMALLEST_N_CTX // _CELLS_MULTIPLE
    low, high = smallest, padded_cells(upto) // _CELLS_MULTIPLE
    if high <= smallest or not fits(SMALLEST_N_CTX):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle * _CELLS_MULTIPLE):
            low = middle
        else:
            high = middle
    return low * _CELLS_MULTIPLE


def _head_dims(header: ModelHeader, full: int, window: int) -> tuple[int, ...]:
    """Head sizes that the model's layers really have."""
    swa_layers = header.swa_layers or (False,)
    return (*((full,) if not all(swa_layers) else ()), *((window,) if any(swa_layers) else ()))


def _v_elements(header: ModelHeader, layer: int) -> int:
    in_window = header.swa_layers is not None and header.swa_layers[layer]
    return header.n_head_kv[layer] * (header.head_dim_v_swa if in_window else header.head_dim_v)


def _kv_cache(
    header: ModelHeader,
    kind: CacheKind,
    layers: list[int],
    *,
    cells: int,
    type_k: str,
    type_v: str,
    flash_attn: bool,
) -> KvCacheLayout:
    """A cache of keys and values."""
    head_dim_k = header.head_dim_k_swa if kind == "swa" else header.head_dim_k
    widest = max(_v_elements(header, layer) for layer in range(header.n_layer))
    k_row = sum(row_bytes(type_k, header.n_head_kv[layer] * head_dim_k) for layer in layers)
    v_row = sum(
        row_bytes(type_v, _v_elements(header, layer) if flash_attn else widest) for layer in layers
    )
    return KvCacheLayout(
        kind=kind,
        layers=len(layers),
        cells=cells,
        k_bytes=cells * k_row,
        v_bytes=0 if header.latent_attention else cells * v_row,
        type_k=type_k,
        type_v=type_v,
    )


def _recurrent_cache(header: ModelHeader) -> KvCacheLayout:
    """The recurrent state of one sequence, always in f32."""
    shape = header.recurrent
    heads = header.n_head[0]
    layers = sum(header.recurrent_layers)
    before = max(shape.conv_kernel - 1, 0)
    if shape.wkv_head_size:
        r_elements = shape.token_shift_count * header.n_embd
        s_elements = header.n_embd * shape.wkv_head_size
    elif shape.shortconv_cache:
        r_elements = header.n_embd * (shape.shortconv_cache - 1)
        s_elements = shape.state_size * shape.inner_size
    elif shape.kda_head_dim:
        r_elements = 3 * (before or 3) * heads * shape.kda_head_dim
        s_elements = shape.kda_head_dim**2 * heads
    else:
        r_elements = before * (shape.inner_size + 2 * shape.group_count * shape.state_size)
        s_elements = (
            shape.linear_head_dim**2 * heads
            if shape.linear_head_dim
            else shape.state_size * shape.inner_size
        )
    return KvCacheLayout(
        kind="recurrent",
        layers=layers,
        cells=1,
        k_bytes=layers * r_elements * _F32_BYTES,
        v_bytes=layers * s_elements * _F32_BYTES,
        type_k="f32",
        type_v="f32",
    )
