"""What each architecture keeps in memory: facts about llama.cpp as llama-cpp-python 0.3.36 has it.

Source: `llama_model::create_memory` (llama-model.cpp), `llm_arch_is_recurrent` and
`llm_arch_is_hybrid` (llama-arch.cpp) and `load_arch_hparams` of each file in `src/models`.
"""

from typing import NamedTuple

RECURRENT = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
"""No KV cache at all: one state of fixed size."""

HYBRID_BY_HEADS = frozenset(
    {"jamba", "plamo2", "granitehybrid", "lfm2", "lfm2moe", "kimi-linear", "kimi-k3", "bailingmoe3"}
)
"""Hybrids whose recurrent layers are those without KV heads; the others have a KV cache."""

HYBRID_BY_INTERVAL = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4, "minimax-01": 8}
"""Hybrids with full attention in every n-th layer, unless the file lists its recurrent layers."""

HYBRID_BY_FEED_FORWARD = frozenset({"nemotron_h", "nemotron_h_moe"})
"""Hybrids in which a layer with a feed-forward width has no memory, and one without KV heads is
recurrent."""

HYBRID_PARALLEL = frozenset({"falcon-h1"})
"""Hybrids in which every layer has both a KV cache and a recurrent state."""

HYBRID_UNKNOWN = frozenset({"glm5-next", "qwen4exp", "deepseek4"})
"""Hybrids with further caches (indexers, compressed keys) that are not computed here."""

HYBRID = (
    HYBRID_BY_HEADS
    | frozenset(HYBRID_BY_INTERVAL)
    | HYBRID_BY_FEED_FORWARD
    | HYBRID_PARALLEL
    | HYBRID_UNKNOWN
)

LATENT = frozenset({"deepseek2", "mistral4", "kimi-linear", "kimi-k3", "bailingmoe3"})
"""Multi-head latent attention where the file gives both MLA head sizes: a K cache, no V cache."""


class SlidingRule(NamedTuple):
    """Which layers of an architecture have a sliding window when the file does not say.

    Attributes:
        every: Each `every`-th layer is full, the others have the window; 0: only the file says.
        dense_first: The full layer comes first in its group, else last.
        absent: The window where the file has no entry; 0: no sliding window then.
        forced: The window whatever the file's entry is, unless that is 0; 0: the entry holds.
        n_layer: The rule holds for models of this many layers alone; None: for all.
    """

    every: int
    dense_first: bool = False
    absent: int = 0
    forced: int = 0
    n_layer: int | None = None


SLIDING = {
    "afmoe": SlidingRule(4),
    "cohere2": SlidingRule(4),
    "cohere2moe": SlidingRule(4, dense_first=True),
    "exaone-moe": SlidingRule(4),
    "exaone4": SlidingRule(4, absent=4096, n_layer=64),
    "gemma2": SlidingRule(2, absent=4096),
    "gemma3": SlidingRule(6),
    "gemma3n": SlidingRule(5),
    "gemma4": SlidingRule(0),
    "gpt-oss": SlidingRule(2),
    "granite_swa": SlidingRule(0),
    "laguna": SlidingRule(4, dense_first=True),
    "llama4": SlidingRule(4, absent=8192, forced=8192),
    "maple": SlidingRule(0),
    "mellum": SlidingRule(4),
    "mimo2": SlidingRule(0),
    "muse-glimmer": SlidingRule(4),
    "olmo2": SlidingRule(4),
    "plamo3": SlidingRule(8),
    "smallthinker": SlidingRule(4, dense_first=True, forced=4096),
    "spark2_5": SlidingRule(0),
    "step35": SlidingRule(0),
}
"""Architectures with sliding-window layers. All others ignore a window that the file names,
phi3 among them; lfm2 gives it to all of its attention layers."""

WINDOW_ON_ATTENTION = frozenset({"lfm2"})
"""Hybrids whose attention layers all have the window that the file names."""

KV_FROM_START = {"gemma3n": 20}
"""Only this many first layers own a KV cache; the later ones use theirs."""

SHARED_KV = frozenset({"gemma4"})
"""Architectures whose last layers share KV caches, as many as the file says."""

PLAIN = frozenset(
    {
        "apertus",
        "arcee",
        "arctic",
        "baichuan",
        "bailingmoe",
        "bailingmoe2",
        "bitnet",
        "bloom",
        "chameleon",
        "chatglm",
        "codeshell",
        "cogvlm",
        "command-r",
        "dbrx",
        "deci",
        "deepseek",
        "deepseek2-ocr",
        "dots1",
        "ernie4_5",
        "ernie4_5-moe",
        "exaone",
        "falcon",
        "gemma",
        "glm4",
        "glm4moe",
        "gpt2",
        "gptneox",
        "granite",
        "granitemoe",
        "grok",
        "grovemoe",
        "hrm_text",
        "hunyuan-dense",
        "hunyuan-moe",
        "hunyuan_vl",
        "hy_v3",
        "internlm2",
        "jais",
        "jais2",
        "llama",
        "maincoder",
        "minicpm",
        "minicpm3",
        "minimax-m2",
        "mistral3",
        "mpt",
        "nemotron",
        "olmo",
        "olmoe",
        "openelm",
        "orion",
        "paddleocr",
        "pangu-embedded",
        "phi2",
        "phi3",
        "phimoe",
        "plamo",
        "plm",
        "qwen",
        "qwen2",
        "qwen2moe",
        "qwen2vl",
        "qwen3",
        "qwen3moe",
        "qwen3vl",
        "qwen3vlmoe",
        "refact",
        "seed_oss",
        "smollm3",
        "stablelm",
        "starcoder",
        "starcoder2",
        "talkie",
        "xverse",
    }
)
"""Architectures with a KV cache of all tokens in each layer, and nothing else."""

KNOWN = PLAIN | LATENT | frozenset(SLIDING) | RECURRENT | (HYBRID - HYBRID_UNKNOWN)
"""Architectures whose memory is computed as llama.cpp allocates it."""

NO_CHAT = {
    **dict.fromkeys(
        (
            "bert",
            "modern-bert",
            "nomic-bert",
            "nomic-bert-moe",
            "neo-bert",
            "jina-bert-v2",
            "jina-bert-v3",
            "eurobert",
            "gemma-embedding",
            "llama-embed",
            "t5encoder",
        ),
        "an encoder for embeddings",
    ),
    "clip": "the vision or audio part of a model",
    "t5": "an encoder-decoder model",
    **dict.fromkeys(("dream", "llada", "llada-moe", "rnd1"), "a diffusion language model"),
    **dict.fromkeys(("eagle3", "dflash", "gemma4-assistant"), "a draft head of another model"),
    **dict.fromkeys(("wavtokenizer-dec", "qwen3tts", "pockettts"), "a speech model"),
    "controlvector": "a control vector for another model",
}
"""Architectures that cannot answer a chat, and what they are."""
