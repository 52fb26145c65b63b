"""The least that prefill and decode can cost from Python: llama.cpp's calls and nothing else.

Run as a process of its own: `python -m tests.bench.bare_loop MODEL N_PROMPT N_GEN THREADS [sample]`
prints the rates as JSON. With `sample` each decoded token is chosen greedily from the logits,
without it tokens are random, as in llama-bench. The context is made as phasescope makes it.
"""

import ctypes
import json
import random
import sys
from time import perf_counter

from llama_cpp import llama_cpp as lib


def main(path: str, n_prompt: int, n_gen: int, threads: int, *, sample: bool) -> None:
    """Load, warm up, measure once and print."""
    silent = lib.llama_log_callback(lambda _level, _text, _data: None)
    lib.llama_log_set(silent, None)
    lib.llama_backend_init()
    model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
    parameters = lib.llama_context_default_params()
    parameters.n_ctx = n_prompt + n_gen + 8
    parameters.n_batch = 2048
    parameters.n_ubatch = 512
    parameters.n_threads = threads
    parameters.n_threads_batch = threads
    parameters.n_outputs_max = 1
    parameters.no_perf = False
    context = lib.llama_init_from_model(model, parameters)
    chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
    lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_greedy())
    n_vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    rng = random.Random(1)
    memory = lib.llama_get_memory(context)

    def decode(tokens: list[int]) -> None:
        array = (ctypes.c_int32 * len(tokens))(*tokens)
        assert lib.llama_decode(context, lib.llama_batch_get_one(array, len(tokens))) == 0
        lib.llama_synchronize(context)

    decode([rng.randrange(n_vocab)])
    lib.llama_memory_clear(memory, True)
    prompt = [rng.randrange(n_vocab) for _ in range(n_prompt)]
    began = perf_counter()
    if prompt:
        decode(prompt)
    prefill_s = perf_counter() - began
    token = lib.llama_sampler_sample(chain, context, -1) if sample else rng.randrange(n_vocab)
    began = perf_counter()
    for _ in range(n_gen):
        decode([token])
        token = lib.llama_sampler_sample(chain, context, -1) if sample else rng.randrange(n_vocab)
    decode_s = perf_counter() - began
    rates = {
        "prefill": n_prompt / prefill_s if n_prompt else None,
        "decode": n_gen / decode_s if n_gen else None,
    }
    print(json.dumps(rates))


if __name__ == "__main__":
    _, model_path, prompt_tokens, gen_tokens, n_threads, *rest = sys.argv
    main(model_path, int(prompt_tokens), int(gen_tokens), int(n_threads), sample=rest == ["sample"])
