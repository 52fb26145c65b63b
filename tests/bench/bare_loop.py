"""The least that prefill and decode can cost from Python: llama.cpp's calls and nothing else.

A process of its own, `python -m tests.bench.bare_loop MODEL N_CTX THREADS`. Each line of its input,
`N_PROMPT N_GEN sample|random`, is one run from an empty cache, answered by a line with both rates
as JSON. `sample` chooses each decoded token greedily from the logits; `random` takes random tokens,
as llama-bench does. The context is made as phasescope makes it.
"""

import ctypes
import json
import random
import sys
from time import perf_counter

from llama_cpp import llama_cpp as lib


class BareLoop:
    """A model and a context, and the two loops over them."""

    def __init__(self, path: str, n_ctx: int, threads: int) -> None:
        self._silent = lib.llama_log_callback(lambda _level, _text, _data: None)
        lib.llama_log_set(self._silent, None)
        lib.llama_backend_init()
        model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
        parameters = lib.llama_context_default_params()
        parameters.n_ctx = n_ctx
        parameters.n_batch = 2048
        parameters.n_ubatch = 512
        parameters.n_threads = threads
        parameters.n_threads_batch = threads
        parameters.n_outputs_max = 1
        self._context = lib.llama_init_from_model(model, parameters)
        self._chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
        lib.llama_sampler_chain_add(self._chain, lib.llama_sampler_init_greedy())
        self._n_vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
        self._random = random.Random(1)
        self._decode([self._any_token()])

    def run(self, n_prompt: int, n_gen: int, *, sample: bool) -> dict[str, float | None]:
        """Rates of one prefill and one decode, in tokens per second."""
        lib.llama_memory_clear(lib.llama_get_memory(self._context), True)
        prompt = [self._any_token() for _ in range(n_prompt)]
        began = perf_counter()
        if prompt:
            self._decode(prompt)
        prefilled = perf_counter()
        token = self._next_token(sample=sample and n_prompt > 0)
        after_first = perf_counter()
        for _ in range(n_gen):
            self._decode([token])
            token = self._next_token(sample=sample)
        ended = perf_counter()
        return {
            "prefill": n_prompt / (prefilled - began) if n_prompt else None,
            "decode": n_gen / (ended - after_first) if n_gen else None,
        }

    def _any_token(self) -> int:
        return self._random.randrange(self._n_vocab)

    def _next_token(self, *, sample: bool) -> int:
        if not sample:
            return self._any_token()
        return int(lib.llama_sampler_sample(self._chain, self._context, -1))

    def _decode(self, tokens: list[int]) -> None:
        array = (ctypes.c_int32 * len(tokens))(*tokens)
        assert lib.llama_decode(self._context, lib.llama_batch_get_one(array, len(tokens))) == 0
        lib.llama_synchronize(self._context)


def main() -> None:
    """Answer runs until the input ends."""
    _, path, n_ctx, threads = sys.argv
    loop = BareLoop(path, int(n_ctx), int(threads))
    for line in sys.stdin:
        n_prompt, n_gen, mode = line.split()
        rates = loop.run(int(n_prompt), int(n_gen), sample=mode == "sample")
        print(json.dumps(rates), flush=True)


if __name__ == "__main__":
    main()
