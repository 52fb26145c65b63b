from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.header import ModelHeader, TensorType
from models.layers import MetadataError, read_layers
from models.memory import (
    CACHE_TYPES,
    cache_type_fault,
    estimate_memory,
    kv_layout,
    largest_n_ctx,
    padded_cells,
    row_bytes,
)
from models.quantization import actual_name, declared_name

MIB = 2**20
Metadata = Mapping[str, int | tuple[int, ...]]


class Values:
    """Metadata of a file that does not exist."""

    def __init__(self, architecture: str, values: Metadata) -> None:
        self._values = {f"{architecture}.{key}": value for key, value in values.items()}

    def integers(self, key: str) -> int | tuple[int, ...] | None:
        return self._values.get(key)


def header(architecture: str, values: Metadata) -> ModelHeader:
    """The header of a model with such metadata and 4 GB of weights."""
    return ModelHeader(
        path="/models/m.gguf",
        name="m",
        architecture=architecture,
        quantization="Q4_0",
        declared_quantization="Q4_0",
        file_bytes=4_100_000_000,
        tensor_bytes=4 * 10**9,
        n_tensors=1,
        params=7 * 10**9,
        bits_per_weight=4.57,
        tensors_by_type=(TensorType(type="Q4_0", count=1, bytes=4 * 10**9),),
        n_ctx_train=8192,
        n_vocab=32_000,
        n_ff_expert=0,
        expert_count=0,
        expert_used_count=0,
        template=None,
        tokenizer_model="llama",
        tokenizer_pre=None,
        split_count=1,
        **read_layers(Values(architecture, values), architecture)._asdict(),
    )


LLAMA_3_8B: Metadata = {
    "block_count": 32,
    "embedding_length": 4096,
    "feed_forward_length": 14336,
    "attention.head_count": 32,
    "attention.head_count_kv": 8,
}
QWEN_25_7B: Metadata = {
    "block_count": 28,
    "embedding_length": 3584,
    "feed_forward_length": 18944,
    "attention.head_count": 28,
    "attention.head_count_kv": 4,
}
GEMMA_3_270M: Metadata = {
    "block_count": 18,
    "embedding_length": 640,
    "feed_forward_length": 2048,
    "attention.head_count": 4,
    "attention.head_count_kv": 1,
    "attention.key_length": 256,
    "attention.value_length": 256,
    "attention.sliding_window": 512,
}


@pytest.mark.parametrize(
    ("cache_type", "mib"),
    [
        ("f32", 1024),
        ("f16", 512),
        ("bf16", 512),
        ("q8_0", 272),
        ("q5_1", 192),
        ("q5_0", 176),
        ("q4_1", 160),
        ("q4_0", 144),
        ("iq4_nl", 144),
    ],
)
def test_cache_of_32_layers_8_heads_of_128_and_4096_tokens(cache_type: str, mib: int) -> None:
    model = header("llama", LLAMA_3_8B)
    layout = kv_layout(model, n_ctx=4096, type_k=cache_type, type_v=cache_type)
    assert layout.total_bytes == mib * MIB
    (cache,) = layout.caches
    assert (cache.kind, cache.layers, cache.cells) == ("full", 32, 4096)
    assert cache.k_bytes == cache.v_bytes == mib * MIB // 2
    assert layout.known


@pytest.mark.parametrize(
    ("architecture", "values", "kib"), [("llama", LLAMA_3_8B, 128), ("qwen2", QWEN_25_7B, 56)]
)
def test_bytes_of_one_more_token(architecture: str, values: Metadata, kib: int) -> None:
    layout = kv_layout(header(architecture, values), n_ctx=2048)
    assert layout.bytes_per_token == kib * 1024
    assert layout.bytes_per_token * layout.n_ctx == layout.total_bytes


def test_keys_and_values_have_types_of_their_own() -> None:
    (cache,) = kv_layout(
        header("llama", LLAMA_3_8B), n_ctx=4096, type_k="q8_0", type_v="f16"
    ).caches
    assert (cache.type_k, cache.k_bytes) == ("q8_0", 136 * MIB)
    assert (cache.type_v, cache.v_bytes) == ("f16", 256 * MIB)


@pytest.mark.parametrize(("asked", "cells"), [(1, 256), (256, 256), (257, 512), (1000, 1024)])
def test_contexts_are_rounded_up_to_256(asked: int, cells: int) -> None:
    layout = kv_layout(header("llama", LLAMA_3_8B), n_ctx=asked)
    assert padded_cells(asked) == layout.n_ctx == layout.caches[0].cells == cells


def test_gemma3_counts_both_caches_each_with_its_cells() -> None:
    model = header("gemma3", GEMMA_3_270M)
    assert model.memory_kind == "sliding_window"
    assert model.swa_layers is not None
    assert [layer for layer in range(18) if not model.swa_layers[layer]] == [5, 11, 17]
    row = 2 * 256 * 2
    full, window = kv_layout(model, n_ctx=4096).caches
    assert (full.kind, full.layers, full.cells, full.bytes) == ("full", 3, 4096, 3 * 4096 * row)
    assert (window.kind, window.layers, window.cells) == ("swa", 15, 1024)
    assert window.bytes == 15 * 1024 * row
    full, window = kv_layout(model, n_ctx=4096, swa_full=True).caches
    assert (full.cells, window.cells, window.bytes) == (4096, 4096, 15 * 4096 * row)


def test_only_caches_that_grow_count_for_a_token() -> None:
    model = header("gemma3", GEMMA_3_270M)
    assert kv_layout(model, n_ctx=4096).bytes_per_token == 3 * 1024
    assert kv_layout(model, n_ctx=4096, swa_full=True).bytes_per_token == 18 * 1024
    assert kv_layout(model, n_ctx=1024).bytes_per_token == 18 * 1024


def test_a_smaller_micro_batch_makes_a_smaller_window_cache() -> None:
    model = header("gemma3", GEMMA_3_270M)
    assert kv_layout(model, n_ctx=4096, n_ubatch=100).caches[1].cells == 768


def test_head_counts_can_differ_by_layer_and_values_are_padded_without_flash_attention() -> None:
    values: Metadata = {
        "block_count": 3,
        "embedding_length": 512,
        "attention.head_count": (8, 8, 8),
        "attention.head_count_kv": (2, 4, 8),
    }
    model = header("openelm", values)
    (cache,) = kv_layout(model, n_ctx=256).caches
    assert cache.k_bytes == cache.v_bytes == 256 * (2 + 4 + 8) * 64 * 2
    (cache,) = kv_layout(model, n_ctx=256, flash_attn=False).caches
    assert cache.k_bytes == 256 * (2 + 4 + 8) * 64 * 2
    assert cache.v_bytes == 256 * (8 + 8 + 8) * 64 * 2


def test_gemma4_has_other_heads_in_the_window_and_shares_its_last_layers() -> None:
    values: Metadata = {
        "block_count": 6,
        "embedding_length": 256,
        "attention.head_count": 8,
        "attention.head_count_kv": (2, 2, 1, 2, 2, 1),
        "attention.key_length": 512,
        "attention.value_length": 512,
        "attention.key_length_swa": 256,
        "attention.value_length_swa": 256,
        "attention.sliding_window": 512,
        "attention.sliding_window_pattern": (1, 1, 0, 1, 1, 0),
        "attention.shared_kv_layers": 2,
    }
    full, window = kv_layout(header("gemma4", values), n_ctx=8192).caches
    assert (full.layers, full.k_bytes) == (1, 8192 * 512 * 2)
    assert (window.layers, window.k_bytes) == (3, 1024 * 3 * 2 * 256 * 2)


def test_latent_attention_has_keys_only() -> None:
    values: Metadata = {
        "block_count": 27,
        "embedding_length": 2048,
        "attention.head_count": 16,
        "attention.head_count_kv": 1,
        "attention.key_length": 576,
        "attention.value_length": 512,
        "attention.key_length_mla": 192,
        "attention.value_length_mla": 128,
    }
    model = header("deepseek2", values)
    (cache,) = kv_layout(model, n_ctx=1024).caches
    assert (cache.k_bytes, cache.v_bytes) == (27 * 1024 * 576 * 2, 0)
    assert cache_type_fault(model, type_k="q8_0", type_v="f16") is not None
    assert cache_type_fault(model, type_k="q8_0", type_v="q8_0") is None


def test_mamba_has_a_state_of_fixed_size() -> None:
    values: Metadata = {
        "block_count": 24,
        "embedding_length": 768,
        "ssm.conv_kernel": 4,
        "ssm.inner_size": 1536,
        "ssm.state_size": 16,
    }
    model = header("mamba", values)
    assert model.memory_kind == "recurrent"
    small, large = kv_layout(model, n_ctx=512), kv_layout(model, n_ctx=8192)
    (cache,) = small.caches
    assert large.caches == (cache,)
    assert (cache.kind, cache.layers, cache.cells) == ("recurrent", 24, 1)
    assert cache.k_bytes == 24 * 3 * 1536 * 4
    assert cache.v_bytes == 24 * 16 * 1536 * 4
    assert small.bytes_per_token == 0


def test_qwen3next_has_full_attention_in_each_fourth_layer() -> None:
    values: Metadata = {
        "block_count": 48,
        "embedding_length": 2048,
        "attention.head_count": 16,
        "attention.head_count_kv": 2,
        "attention.key_length": 256,
        "attention.value_length": 256,
        "ssm.conv_kernel": 4,
        "ssm.inner_size": 4096,
        "ssm.state_size": 128,
        "ssm.group_count": 16,
    }
    model = header("qwen3next", values)
    assert model.memory_kind == "hybrid"
    full, state = kv_layout(model, n_ctx=1024).caches
    assert (full.layers, full.bytes) == (12, 12 * 1024 * 2 * 512 * 2)
    assert (state.layers, state.k_bytes) == (36, 36 * 3 * (4096 + 2 * 16 * 128) * 4)
    assert state.v_bytes == 36 * 128 * 4096 * 4
    listed = {**values, "attention.recurrent_layers": (1,) * 40 + (0,) * 8}
    assert sum(header("qwen3next", listed).kv_layers) == 8


def test_lfm2_rwkv_kimi_and_falcon_h1_states() -> None:
    lfm2 = header(
        "lfm2",
        {
            "block_count": 4,
            "embedding_length": 1024,
            "attention.head_count": 16,
            "attention.head_count_kv": (0, 0, 8, 0),
            "shortconv.l_cache": 3,
        },
    )
    full, state = kv_layout(lfm2, n_ctx=256).caches
    assert (full.layers, state.layers, state.k_bytes, state.v_bytes) == (1, 3, 3 * 2048 * 4, 0)
    rwkv = header("rwkv7", {"block_count": 12, "embedding_length": 768, "wkv.head_size": 64})
    (state,) = kv_layout(rwkv, n_ctx=256).caches
    assert (state.k_bytes, state.v_bytes) == (12 * 2 * 768 * 4, 12 * 768 * 64 * 4)
    kimi = header(
        "kimi-linear",
        {
            "block_count": 2,
            "embedding_length": 2304,
            "attention.head_count": 32,
            "attention.head_count_kv": (0, 1),
            "attention.key_length": 576,
            "attention.value_length": 512,
            "attention.key_length_mla": 192,
            "attention.value_length_mla": 128,
            "ssm.conv_kernel": 4,
            "kda.head_dim": 128,
        },
    )
    keys, state = kv_layout(kimi, n_ctx=256).caches
    assert (keys.k_bytes, keys.v_bytes) == (256 * 576 * 2, 0)
    assert (state.k_bytes, state.v_bytes) == (3 * 3 * 4096 * 4, 128 * 128 * 32 * 4)
    falcon = header(
        "falcon-h1",
        {
            "block_count": 5,
            "embedding_length": 512,
            "attention.head_count": 8,
            "ssm.conv_kernel": 4,
            "ssm.inner_size": 1024,
            "ssm.state_size": 64,
        },
    )
    assert [cache.layers for cache in kv_layout(falcon, n_ctx=256).caches] == [5, 5]


@pytest.mark.parametrize(
    ("architecture", "values", "window", "pattern"),
    [
        ("gemma2", {}, 4096, "WFWFWFWF"),
        ("gemma3", {}, 0, "FFFFFFFF"),
        ("gemma3", {"attention.sliding_window": 512}, 512, "WWWWWFWW"),
        ("gpt-oss", {"attention.sliding_window": 128}, 128, "WFWFWFWF"),
        ("cohere2", {"attention.sliding_window": 4096}, 4096, "WWWFWWWF"),
        ("olmo2", {}, 0, "FFFFFFFF"),
        ("llama4", {}, 8192, "WWWFWWWF"),
        ("llama4", {"attention.sliding_window": 0}, 0, "FFFFFFFF"),
        ("smallthinker", {"attention.sliding_window": 2048}, 4096, "FWWWFWWW"),
        ("phi3", {"attention.sliding_window": 2047}, 0, "FFFFFFFF"),
        ("llama", {"attention.sliding_window": 4096}, 0, "FFFFFFFF"),
        ("exaone4", {"attention.sliding_window": 4096}, 0, "FFFFFFFF"),
        (
            "gemma3",
            {"attention.sliding_window": 64, "attention.sliding_window_pattern": 2},
            64,
            "WFWFWFWF",
        ),
        (
            "step35",
            {"attention.sliding_window": 64, "attention.sliding_window_pattern": (1, 0) * 4},
            64,
            "WFWFWFWF",
        ),
    ],
)
def test_which_layers_have_a_window(
    architecture: str, values: dict[str, int | tuple[int, ...]], window: int, pattern: str
) -> None:
    base = {"block_count": 8, "embedding_length": 256, "attention.head_count": 4}
    model = header(architecture, base | values)
    assert model.n_swa == window
    assert model.swa_layers is not None
    assert "".join("W" if swa else "F" for swa in model.swa_layers) == pattern
    assert model.memory_known


def test_layers_that_predict_ahead_are_not_counted() -> None:
    values = {**LLAMA_3_8B, "block_count": 33, "nextn_predict_layers": 1}
    model = header("glm4moe", values)
    assert model.n_layer == 32
    assert kv_layout(model, n_ctx=4096).total_bytes == 512 * MIB


@pytest.mark.parametrize("architecture", ["martian", "deepseek32", "qwen4exp"])
def test_an_architecture_that_is_not_understood_is_a_marked_guess(architecture: str) -> None:
    model = header(architecture, LLAMA_3_8B)
    layout = kv_layout(model, n_ctx=4096)
    assert not layout.known
    assert layout.total_bytes == 512 * MIB
    assert not estimate_memory(model, 4096).known
    assert model.swa_layers is None


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"block_count": 0}, "block_count of 0 cannot be true"),
        ({"block_count": 513}, "block_count of 513 cannot be true"),
        ({"block_count": (1, 2)}, "block_count is a list"),
        ({"nextn_predict_layers": 32}, "cannot be true"),
        ({"embedding_length": -1}, "embedding_length is negative"),
        ({"attention.head_count_kv": (8, 8)}, "has 2 values for 32 layers"),
    ],
)
def test_metadata_that_cannot_be_true(
    changes: dict[str, int | tuple[int, ...]], cause: str
) -> None:
    with pytest.raises(MetadataError, match=cause):
        header("llama", {**LLAMA_3_8B, **changes})


def test_missing_metadata_is_named() -> None:
    with pytest.raises(MetadataError, match=r"llama\.embedding_length is missing"):
        header("llama", {"block_count": 2})


def test_cache_types_that_llama_cpp_refuses() -> None:
    model = header("llama", LLAMA_3_8B)
    assert cache_type_fault(model, type_k="f16", type_v="f16", flash_attn=False) is None
    assert cache_type_fault(model, type_k="q8_0", type_v="f16", flash_attn=False) is None
    fault = cache_type_fault(model, type_k="f16", type_v="q8_0", flash_attn=False)
    assert fault == "a V cache in q8_0 needs flash attention"
    assert cache_type_fault(model, type_k="f16", type_v="q8_0") is None
    odd = header("llama", {**LLAMA_3_8B, "attention.key_length": 80})
    assert cache_type_fault(odd, type_k="q4_0", type_v="f16") == (
        "a K cache in q4_0 needs a head size that is a multiple of 32; this model's is 80"
    )
    assert "no cache type" in (cache_type_fault(model, type_k="q2_K", type_v="f16") or "")
    with pytest.raises(ValueError, match="q2_K is no cache type"):
        kv_layout(model, n_ctx=512, type_k="q2_K")
    with pytest.raises(ValueError, match="no multiple of q8_0's block of 32"):
        row_bytes("q8_0", 80)


def test_the_estimate_adds_up_and_grows_with_the_context() -> None:
    model = header("llama", LLAMA_3_8B)
    small, large = estimate_memory(model, 4096), estimate_memory(model, 8192)
    assert small.weights_bytes == 4 * 10**9
    assert small.kv_bytes == 512 * MIB
    assert small.total_bytes == small.weights_bytes + small.kv_bytes + small.compute_bytes
    assert large.total_bytes > small.total_bytes + 512 * MIB
    assert estimate_memory(model, 4096, n_outputs=512).compute_bytes > small.compute_bytes
    assert estimate_memory(model, 4096, flash_attn=False).compute_bytes > small.compute_bytes


@given(
    available=st.integers(0, 20 * 10**9),
    upto=st.integers(1, 40_000),
    type_k=st.sampled_from(sorted(CACHE_TYPES)),
)
def test_the_largest_context_fits_and_the_next_one_does_not(
    available: int, upto: int, type_k: str
) -> None:
    model = header("llama", LLAMA_3_8B)

    def fits(n_ctx: int) -> bool:
        return estimate_memory(model, n_ctx, type_k=type_k).total_bytes <= available

    found = largest_n_ctx(model, available, upto, type_k=type_k)
    if found is None:
        assert not fits(min(512, upto))
    elif found == upto:
        assert fits(upto)
    else:
        assert 512 <= found < upto
        assert found % 256 == 0
        assert fits(found)
        assert not fits(min(found + 256, upto))


def test_a_header_crosses_a_process_boundary() -> None:
    model = header("gemma3", GEMMA_3_270M)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(model), type=ModelHeader) == model
    layout = kv_layout(model, n_ctx=4096)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(layout), type=type(layout)) == layout


@pytest.mark.parametrize(
    ("bytes_by_type", "declared", "actual"),
    [
        ({"Q4_K": 70, "Q6_K": 30}, "Q4_K_M", "Q4_K_M"),
        ({"Q5_0": 70, "Q4_K": 20, "Q8_0": 10}, "Q4_K_M", "Q5_0"),
        ({"Q4_1": 66, "Q8_0": 30}, "Q4_1", "Q4_1"),
        ({"F16": 10}, None, "F16"),
        ({"IQ3_S": 10, "IQ3_XXS": 9}, "IQ3_XS", "IQ3_XS"),
        ({"Q3_K": 10}, "Q4_K_S", "Q3_K"),
    ],
)
def test_a_declared_mix_is_believed_only_where_the_tensors_agree(
    bytes_by_type: dict[str, int], declared: str | None, actual: str
) -> None:
    assert actual_name(bytes_by_type, declared) == actual


@pytest.mark.parametrize(
    ("file_type", "name"),
    [(None, None), (3, "Q4_1"), (15, "Q4_K_M"), (1024 + 7, "Q8_0"), (0, "F32"), (999, None)],
)
def test_declared_names(file_type: int | None, name: str | None) -> None:
    assert declared_name(file_type) == name
