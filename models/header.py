"""What a model file says about itself: plain data that can cross a process boundary."""

from typing import Literal

import msgspec

MemoryKind = Literal["attention", "sliding_window", "recurrent", "hybrid"]
"""How a model remembers: all tokens, a window of them in some layers, one state of fixed size, or
attention and recurrent layers together. It decides what a changed prompt can reuse."""


class TensorType(msgspec.Struct, frozen=True, kw_only=True):
    """All tensors of one type.

    Attributes:
        type: The ggml type, in capitals (`F32`, `Q4_1`, `Q4_K`).
        count: How many tensors.
        bytes: Their bytes together.
    """

    type: str
    count: int
    bytes: int


class RecurrentShape(msgspec.Struct, frozen=True, kw_only=True):
    """What decides the size of a recurrent state; 0 where the architecture has no such thing.

    Attributes:
        conv_kernel: Width of the convolution (`ssm.conv_kernel`).
        inner_size: Inner width (`ssm.inner_size`).
        state_size: State per inner channel (`ssm.state_size`).
        group_count: Groups (`ssm.group_count`).
        wkv_head_size: Head size of RWKV models.
        token_shift_count: Token shifts kept by RWKV models.
        shortconv_cache: Length of the short convolution of LFM2 models (`shortconv.l_cache`).
        kda_head_dim: Head size of delta attention (Kimi).
        linear_head_dim: Head size of lightning attention (MiniMax-01).
    """

    conv_kernel: int = 0
    inner_size: int = 0
    state_size: int = 0
    group_count: int = 0
    wkv_head_size: int = 0
    token_shift_count: int = 2
    shortconv_cache: int = 0
    kda_head_dim: int = 0
    linear_head_dim: int = 0


class ModelHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a model without loading it.

    Attributes:
        path: The file; of a split model its first part.
        name: The file's name without its quantization; `general.name` where a hash names it.
        architecture: `general.architecture`.
        quantization: What the weights really are: the type that holds most bytes of the weight
            matrices, or the declared mix (`Q4_K_M`) where that type is the mix's own.
        declared_quantization: What `general.file_type` says, None where it says nothing.
        file_bytes: Bytes of the file, of all parts together.
        tensor_bytes: Bytes of the tensors.
        n_tensors: Tensors.
        params: Parameters: elements of all tensors.
        bits_per_weight: `tensor_bytes` * 8 / `params`.
        tensors_by_type: The tensors by type, most bytes first.
        n_ctx_train: Tokens of context that the model was trained for.
        n_layer: Layers, without those that only predict several tokens ahead.
        n_embd: Width of an embedding.
        n_vocab: Tokens of the vocabulary.
        n_ff: Width of the feed-forward part of each layer; 0 where it has only experts.
        n_ff_expert: Width of one expert, the largest of all layers; 0 in a dense model.
        n_head: Attention heads of each layer.
        n_head_kv: Key-value heads of each layer.
        head_dim_k, head_dim_v: Elements of one head's key and value in a full layer.
        head_dim_k_swa, head_dim_v_swa: The same in a sliding-window layer.
        n_swa: Tokens of the sliding window, 0 without one.
        swa_layers: Which layers have the window; None where that is not known.
        kv_layers: Which layers own a KV cache.
        recurrent_layers: Which layers have a recurrent state.
        latent_attention: Multi-head latent attention: there is a K cache and no V cache.
        recurrent: Sizes of the recurrent state.
        memory_kind: How the model remembers.
        memory_known: The memory of this architecture is computed as llama.cpp allocates it.
        expert_count, expert_used_count: Experts and how many of them work on a token; 0 in a
            dense model. With counts per layer the largest.
        template: The chat template, None without one.
        tokenizer_model, tokenizer_pre: Kind of tokenizer and of its pre-tokenizer.
        split_count: Files that the model is split into; 1 for a whole one.
        sampling: Sampling settings that the model's makers recommend (`general.sampling.*`), by
            llama.cpp's names of its options (`temp`, `top_k`, …).
        sampling_warnings: What of them cannot be followed, a sentence each.
    """

    path: str
    name: str
    architecture: str
    quantization: str
    declared_quantization: str | None
    file_bytes: int
    tensor_bytes: int
    n_tensors: int
    params: int
    bits_per_weight: float
    tensors_by_type: tuple[TensorType, ...]
    n_ctx_train: int
    n_layer: int
    n_embd: int
    n_vocab: int
    n_ff: tuple[int, ...]
    n_ff_expert: int
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
    expert_count: int
    expert_used_count: int
    template: str | None
    tokenizer_model: str | None
    tokenizer_pre: str | None
    split_count: int
    sampling: dict[str, int | float] = {}
    sampling_warnings: tuple[str, ...] = ()
