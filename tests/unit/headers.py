"""Headers of models that need no file."""

from typing import Any

import msgspec

from models.header import ModelHeader, RecurrentShape, TensorType

MIB = 1 << 20
GIB = 1 << 30


def llama_header(**changes: Any) -> ModelHeader:  # noqa: ANN401 (fields of many types)
    """Four layers of full attention: 8 KV heads of 64 elements, 1 GiB of weights.

    A token takes 4 layers * 2 * 8 * 64 * 2 bytes = 8 KiB of f16 cache.
    """
    header = ModelHeader(
        path="/models/small.Q4_0.gguf",
        name="small",
        architecture="llama",
        quantization="Q4_0",
        declared_quantization="Q4_0",
        file_bytes=GIB + MIB,
        tensor_bytes=GIB,
        n_tensors=40,
        params=2 * 10**9,
        bits_per_weight=4.5,
        tensors_by_type=(TensorType(type="Q4_0", count=40, bytes=GIB),),
        n_ctx_train=131_072,
        n_layer=4,
        n_embd=1024,
        n_vocab=32_000,
        n_ff=(4096,) * 4,
        n_ff_expert=0,
        n_head=(16,) * 4,
        n_head_kv=(8,) * 4,
        head_dim_k=64,
        head_dim_v=64,
        head_dim_k_swa=64,
        head_dim_v_swa=64,
        n_swa=0,
        swa_layers=None,
        kv_layers=(True,) * 4,
        recurrent_layers=(False,) * 4,
        latent_attention=False,
        recurrent=RecurrentShape(),
        memory_kind="attention",
        memory_known=True,
        expert_count=0,
        expert_used_count=0,
        template="{{ messages }}",
        tokenizer_model="llama",
        tokenizer_pre=None,
        split_count=1,
    )
    return msgspec.structs.replace(header, **changes)
