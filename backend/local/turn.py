"""One turn in the child: render, tokenize, plan the cache, prefill, decode."""

import sys
from collections.abc import Callable
from time import perf_counter_ns
from typing import NamedTuple

import psutil

from backend.chat.prompt import Prompt
from backend.chat.templates import ChatTemplateError
from backend.local.cancel import CancelFlag
from backend.local.decode import Decode, DecodeResult, TokenText
from backend.local.kv import Conversation
from backend.local.llama import ABORTED, LlamaError
from backend.local.loading import LoadedModel
from backend.local.prefill import PrefillResult
from backend.local.sampling import Sampler, sampling_fault
from backend.protocol import (
    ErrorKind,
    Event,
    PrefillProgress,
    PromptReady,
    PromptRendered,
    StopReason,
    TurnAccepted,
    TurnEnded,
    TurnRequest,
)


class TurnError(Exception):
    """A turn cannot be answered; the text is one sentence."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind


class _Made(NamedTuple):
    """A prompt, and when it was made.

    Attributes:
        answer: What there was of an answer that is gone on with; None for a new one.
        drop_chars, resumed_n: As in `PromptReady`.
    """

    prompt: Prompt
    answer: str | None
    drop_chars: int
    resumed_n: int
    began_ns: int
    rendered_ns: int
    tokenized_ns: int


class Turn:
    """Runs one request on a loaded model and sends its events.

    Args:
        request: What to answer.
        accepted_ns: When the request came.
        loaded: The model.
        cancel: Set from another thread to end the turn.
        send: Sends events off.
    """

    def __init__(
        self,
        request: TurnRequest,
        accepted_ns: int,
        loaded: LoadedModel,
        cancel: CancelFlag,
        send: Callable[[Event], None],
    ) -> None:
        self._request = request
        self._accepted_ns = accepted_ns
        self._loaded = loaded
        self._cancel = cancel
        self._send = send
        self._prompt_n = 0
        self._prompt_ns: int | None = None
        self._prompt_done = 0
        self._text = TokenText(request.sampling.stop)
        self._kept = ""
        self._faults = major_faults()

    def run(self) -> None:
        """Answer, from `TurnAccepted` to `TurnEnded`, whatever happens."""
        turn = self._request.turn
        self._send(TurnAccepted(turn, self._accepted_ns))
        self._loaded.context.reset_perf()
        try:
            result = self._answer()
        except TurnError as error:
            self._end("error", str(error), error.kind)
            return
        if result is None:
            done, total = self._prompt_done, self._prompt_n
            self._end("cancelled", f"during prefill, after {done:,} of {total:,} tokens")
            return
        self._end(
            result.reason,
            result.detail,
            "engine" if result.reason == "error" else None,
            result,
        )

    def _answer(self) -> DecodeResult | None:
        """Prefill and decode; None if prefill was cancelled.

        Raises:
            TurnError: The prompt cannot be made, does not fit, or llama.cpp failed.
        """
        request, loaded = self._request, self._loaded
        new = self._plan()
        prefill = loaded.prefill.run(
            new, self._report_progress, stop_at=request.cancel_at_prompt_token
        )
        self._prompt_ns = prefill.spent_ns
        if not self._take_in(new, prefill):
            return None
        sampler = Sampler(request.sampling, loaded.vocabulary.n_tokens, loaded.context.n_ctx)
        sampler.accept_prompt(loaded.cache.tokens)
        decode = Decode(loaded.context, loaded.cache, loaded.vocabulary, self._cancel, self._send)
        try:
            result = decode.run(
                request.turn,
                sampler,
                prompt_ns=prefill.spent_ns,
                limit=request.sampling.max_tokens,
                cancel_after=request.cancel_after_tokens,
                text=self._text,
            )
        finally:
            sampler.close()
        loaded.cache.answered(self._kept + result.text)
        return result

    def _plan(self) -> list[int]:
        """Make the prompt and fit the cache to it; the tokens that are left to compute."""
        request, loaded = self._request, self._loaded
        fault = sampling_fault(request.sampling)
        if fault is not None:
            raise TurnError("engine", fault)
        made = self._make_prompt()
        prompt = made.prompt
        total, n_ctx = len(prompt.ids), loaded.context.n_ctx
        if total == 0:
            raise TurnError("template", "the chat template made an empty prompt")
        if total >= n_ctx:
            raise TurnError(
                "prompt_too_long",
                f"the prompt has {total:,} tokens and the context holds {n_ctx:,}; shorten the "
                "message, start a new chat, or load with a larger context (-c; in the window F7, "
                "n_ctx)",
            )
        outcome = loaded.cache.plan(
            Conversation(
                request.chat_id,
                request.messages,
                prompt.text,
                prompt.ids,
                request.continues,
                resumed=made.answer,
            ),
            loaded.vocabulary.spell,
        )
        self._prompt_n = total - outcome.kept
        planned = perf_counter_ns()
        first_after_load, loaded.fresh = loaded.fresh, False
        self._send(
            PromptReady(
                turn=request.turn,
                t_ns=planned,
                render_ns=made.rendered_ns - made.began_ns,
                tokenize_ns=made.tokenized_ns - made.rendered_ns,
                cache_ns=planned - made.tokenized_ns,
                prompt_tokens=total,
                cache_n=outcome.kept,
                prompt_n=self._prompt_n,
                cache=outcome,
                kv=loaded.kv_state(),
                lead=prompt.lead,
                n_ctx_left=n_ctx - total + 1,
                first_after_load=first_after_load,
                ids=tuple(prompt.ids),
                drop_chars=made.drop_chars,
                resumed_n=made.resumed_n,
            )
        )
        return prompt.ids[outcome.kept :]

    def _make_prompt(self) -> _Made:
        """Render and tokenize.

        Raises:
            TurnError: The template or llama.cpp refused, or there is nothing to go on with.
        """
        request, prompts = self._request, self._loaded.prompts
        asked, answer = request.messages, None
        if request.resume:
            asked, answer = request.messages[:-1], request.messages[-1] if asked else None
            if answer is None or answer.role != "assistant":
                raise TurnError("engine", "there is no answer to go on with")
        drop_chars = resumed_n = 0
        try:
            began = perf_counter_ns()
            rendered = prompts.render(asked)
            after_render = perf_counter_ns()
            self._send(PromptRendered(request.turn, after_render))
            prompt = prompts.tokenize(rendered)
            if answer is not None:
                prompt, resumed_n, spoken = prompts.go_on(prompt, answer)
                drop_chars = self._text.go_on(spoken, answer.content)
                self._kept = answer.content[: len(answer.content) - drop_chars]
            after_tokenize = perf_counter_ns()
        except ChatTemplateError as error:
            raise TurnError("template", str(error)) from error
        except LlamaError as error:
            raise TurnError("engine", str(error)) from error
        return _Made(
            prompt=prompt,
            answer=answer.content if answer is not None else None,
            drop_chars=drop_chars,
            resumed_n=resumed_n,
            began_ns=began,
            rendered_ns=after_render,
            tokenized_ns=after_tokenize,
        )

    def _take_in(self, new: list[int], prefill: PrefillResult) -> bool:
        """Note what prefill put into the cache; False if it was cancelled.

        Raises:
            TurnError: llama.cpp failed.
        """
        cache = self._loaded.cache
        before = len(cache.tokens)
        cache.tokens += new
        if prefill.status == 0:
            self._prompt_done = len(new)
            return True
        cache.recount()
        self._prompt_done = max(0, len(cache.tokens) - before)
        if prefill.status == ABORTED:
            return False
        raise TurnError(
            "engine", f"llama.cpp could not process the prompt (status {prefill.status})"
        )

    def _report_progress(self, done: int) -> None:
        self._send(
            PrefillProgress(
                turn=self._request.turn,
                t_ns=perf_counter_ns(),
                done=done,
                total=self._prompt_n,
            )
        )

    def _end(
        self,
        reason: StopReason,
        detail: str | None,
        kind: ErrorKind | None = None,
        result: DecodeResult | None = None,
    ) -> None:
        loaded = self._loaded
        faults = major_faults()
        self._send(
            TurnEnded(
                turn=self._request.turn,
                t_ns=perf_counter_ns(),
                reason=reason,
                detail=detail,
                kind=kind,
                prompt_ns=self._prompt_ns,
                decode_ns=result.decode_ns if result else None,
                decode_sample_ns=result.sample_ns if result else None,
                prompt_done=self._prompt_done,
                kv=loaded.kv_state(),
                tail=result.tail if result else "",
                perf=loaded.context.perf() if self._prompt_ns is not None else None,
                engine_rss_bytes=int(psutil.Process().memory_info().rss),
                major_faults=(
                    faults - self._faults
                    if faults is not None and self._faults is not None
                    else None
                ),
            )
        )


def major_faults() -> int | None:
    """Page faults of this process that read from disk; None where the system does not tell."""
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415 (POSIX only)

    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt
