"""The typed messages between a client and an engine.

Requests travel from the client to the engine, events from the engine to the client. Events are
the one stream that feeds the panels, the turn records and the recordings; a recording is this
stream on file. Every `*_ns` is a reading of `time.perf_counter_ns` in the process that runs the
model, so that neither the pipe nor the painting of a window falsifies a figure. The messages
`TurnRequested`, `ChatOpened` and `WindowSample` are put into the stream by the client itself.

On the wire a message is a 4-byte little-endian length and its MessagePack body, tagged `type`.
"""

from typing import Literal

import msgspec

from backend.settings import EngineSettings, SamplingSettings
from models.header import ModelHeader
from models.memory import CacheKind

Role = Literal["system", "user", "assistant"]

LoadCause = Literal["start", "engine_restarted", "model_changed", "settings_changed"]
"""Why a model is loaded: it decides the cache reason of the first turn afterwards."""

StopReason = Literal["eog", "length", "stop", "cancelled", "context_full", "error"]

CacheReason = Literal[
    "dropped",
    "engine_restarted",
    "model_changed",
    "settings_changed",
    "restored",
    "chat_switched",
    "first_turn",
    "turns_dropped",
    "system_changed",
    "history_edited",
    "regenerated",
    "template_rewrote",
    "retokenized",
    "appended",
]
"""Why a turn reused what it reused; the first that holds, in this order."""

ErrorKind = Literal["model", "template", "prompt_too_long", "engine", "busy"]
"""What a failure is about, so that a client can offer the right way on."""


class Message(msgspec.Struct, frozen=True, tag_field="type", tag=str):
    """Base of every message on the pipe."""


class ChatMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of a conversation as an engine gets it.

    Attributes:
        role: Who speaks.
        content: The text; of an assistant's message, all that the model generated, thinking
            and its markers included.
        token_ids: Of an assistant's message: the very tokens that were generated. They are
            reused as they are, because generated text need not tokenize back to the same ids.
        lead: Of an assistant's message: the last characters of the rendered prompt that the
            answer followed. It locates the answer in a later rendering without doubt.
    """

    role: Role
    content: str
    token_ids: tuple[int, ...] = ()
    lead: str = ""


# --------------------------------------------------------------------------------- requests


class LoadRequest(Message, frozen=True):
    """Load a model (again). Answered by `ModelRead`, `LoadProgress`…, `EngineReady`/`LoadFailed`.

    Attributes:
        chat_template: A template that replaces the model's own.
        available_bytes: Memory that the load may take; None: ask the system.
    """

    model_path: str
    settings: EngineSettings
    cause: LoadCause = "start"
    chat_template: str | None = None
    available_bytes: int | None = None


class TurnRequest(Message, frozen=True):
    """Answer a conversation. Answered by `TurnAccepted` … `TurnEnded`.

    Attributes:
        turn: Number of the turn within the session, counted from 1.
        turn_id: Identifier that is unique everywhere.
        chat_id: The chat it belongs to; a KV cache filled by another chat is named as such.
        messages: The conversation, oldest first, ending in a user's message (with `resume` in
            the answer to it).
        started_at: Wall-clock time of sending, ISO 8601 with offset.
        continues: An earlier turn of the chat, on any branch, reached a model's cache.
        resume: The last message is an answer that was cut off; it is gone on with.
        cancel_after_tokens: Stop by itself after so many sampled tokens (scripted cancelling).
        cancel_at_prompt_token: Stop by itself once prefill has come so far (scripted cancelling).
    """

    turn: int
    turn_id: str
    chat_id: str
    messages: tuple[ChatMessage, ...]
    sampling: SamplingSettings
    started_at: str
    continues: bool = False
    resume: bool = False
    cancel_after_tokens: int | None = None
    cancel_at_prompt_token: int | None = None


class CountRequest(Message, frozen=True):
    """Say what a conversation would cost if it were sent now. Answered by `PromptCounted`.

    Nothing is computed and the KV cache stays as it is.

    Attributes:
        number: Comes back with the answer.
        messages: As in `TurnRequest`; the last one is the draft.
    """

    number: int
    chat_id: str
    messages: tuple[ChatMessage, ...]
    continues: bool = False


class CancelRequest(Message, frozen=True):
    """Stop what is under way; within 100 ms on the CPU.

    Attributes:
        turn: The turn to stop, also if it is still waiting; None: a load or a benchmark.
    """

    turn: int | None = None


class DropCacheRequest(Message, frozen=True):
    """Empty the KV cache. Answered by `CacheDropped`."""


class BenchRequest(Message, frozen=True):
    """Measure prefill and decode as llama-bench does. Answered by `BenchSample`…, `BenchEnded`.

    Attributes:
        n_prompt: Tokens per prefill test; 0 leaves the test out.
        n_gen: Tokens per decode test; 0 leaves the test out.
        n_depth: Tokens that are in the cache before each test.
        repetitions: Samples per test.
    """

    n_prompt: int
    n_gen: int
    n_depth: int
    repetitions: int


class ShutdownRequest(Message, frozen=True):
    """End the child process."""


Request = (
    LoadRequest
    | TurnRequest
    | CountRequest
    | CancelRequest
    | DropCacheRequest
    | BenchRequest
    | ShutdownRequest
)


# ----------------------------------------------------------------------------------- facts


class EngineFacts(msgspec.Struct, frozen=True):
    """What runs the model.

    Attributes:
        name: `llama.cpp` for the local engine.
        version: Version of the binding, e.g. `llama-cpp-python 0.3.36`.
        build: The processor features and backends that llama.cpp was built with and uses.
    """

    name: str
    version: str
    build: str


class ModelFacts(msgspec.Struct, frozen=True):
    """The model as a turn record names it."""

    name: str
    path: str
    architecture: str
    quantization: str
    declared_quantization: str | None
    file_bytes: int
    tensor_bytes: int
    params: int
    bits_per_weight: float


class ContextFacts(msgspec.Struct, frozen=True):
    """The context as llama.cpp made it (not as it was asked for).

    Attributes:
        flash_attn: None where llama.cpp was left to choose and does not tell.
    """

    n_ctx: int
    n_ctx_train: int
    n_batch: int
    n_ubatch: int
    n_threads: int
    n_threads_batch: int
    n_gpu_layers: int
    flash_attn: bool | None
    type_k: str
    type_v: str
    swa_full: bool


class KvCacheState(msgspec.Struct, frozen=True):
    """One of a model's caches: its size, and how much of it is in use.

    Attributes:
        kind: `full`, `swa` (sliding window) or `recurrent`.
        k_bytes: Bytes allocated for K (for `recurrent`: the rolling state R).
        v_bytes: Bytes allocated for V (for `recurrent`: the state S).
        cells_used_exact: False where llama.cpp does not tell and positions stand in (≈).
    """

    kind: CacheKind
    layers: int
    cells: int
    cells_used: int
    k_bytes: int
    v_bytes: int
    type_k: str
    type_v: str
    cells_used_exact: bool = True


class KvState(msgspec.Struct, frozen=True):
    """The KV cache of a context.

    Attributes:
        cells: Tokens that the context can hold (n_ctx as llama.cpp rounded it).
        cells_used: Tokens in it.
        bytes_used: Bytes of the cells in use, over all caches.
        bytes_allocated: Bytes that llama.cpp reserved, over all caches. Both are None where
            neither the model nor the log tells.
        bytes_per_token: Bytes that one more token takes; None where it depends on the place.
        source: `model`: computed per layer and equal to llama.cpp's log; `log`: the
            architecture is unknown and the log's figures are used.
    """

    cells_used: int
    cells: int
    bytes_used: int | None
    bytes_allocated: int | None
    bytes_per_token: int | None
    caches: tuple[KvCacheState, ...]
    source: Literal["model", "log"] = "model"


class CacheOutcome(msgspec.Struct, frozen=True):
    """What a turn took over from the KV cache, and why not more.

    Attributes:
        reason: The first reason that holds.
        at: First token position that differs from what the cache held; None if none does.
        kept: Tokens taken over.
        lost: Tokens that were in the cache and were thrown away.
        before: Text that the cache held at `at`; None if nothing differs.
        after: Text that the prompt has at `at`; None if nothing differs.
        no_rollback: A sound rollback was not possible on this memory, so all was recomputed.
        hint: A few words on the cause, where the texts leave no doubt.
    """

    reason: CacheReason
    at: int | None
    kept: int
    lost: int
    before: str | None
    after: str | None
    no_rollback: bool = False
    hint: str | None = None


# ----------------------------------------------------------------------------------- events


class DeviceFacts(msgspec.Struct, frozen=True):
    """A device that llama.cpp computes on.

    Attributes:
        name: As llama.cpp calls it (`CPU`, `CUDA0`, `Metal`).
        description: The maker's name of it.
        kind: What it is.
        total_bytes, free_bytes: Its memory when it was looked at; None where it does not tell.
    """

    name: str
    description: str
    kind: Literal["cpu", "gpu", "igpu", "accelerator"]
    total_bytes: int | None = None
    free_bytes: int | None = None


class EngineStarted(Message, frozen=True):
    """The child process runs.

    Attributes:
        devices: Names of the devices that llama.cpp can compute on, the CPU included.
        gpu_offload: Whether this build of llama.cpp can offload layers to a GPU.
        device_facts: More on each of `devices`, its memory as it is before a load.
    """

    pid: int
    engine: EngineFacts
    devices: tuple[str, ...]
    gpu_offload: bool
    device_facts: tuple[DeviceFacts, ...] = ()


class ModelRead(Message, frozen=True):
    """The header of the model that is about to be loaded.

    Attributes:
        n_ctx: The context size that will be asked for.
        need_bytes: Weights, KV cache and compute buffers at that size, estimated.
        available_bytes: Memory that is there.
        need_template: The file has no chat template and none was given.
    """

    header: ModelHeader
    n_ctx: int
    need_bytes: int
    available_bytes: int
    need_template: bool
    warnings: tuple[str, ...] = ()


class LoadProgress(Message, frozen=True):
    """Share of the weights that is loaded, 0 to 1."""

    fraction: float


class EngineReady(Message, frozen=True):
    """A model is loaded and warmed up.

    Attributes:
        load_ms: From the request to the loaded context; never part of a TTFT.
        warmup_ms: The one warm-up decode, as llama.cpp's tools do it.
        progress_is_estimated: Prefill progress follows compute steps inside a batch (≈).
        device_facts: More on each of `devices`, its memory as it was after the load.
    """

    model: ModelFacts
    context: ContextFacts
    kv: KvState
    engine: EngineFacts
    devices: tuple[str, ...]
    cause: LoadCause
    load_ms: float
    warmup_ms: float
    progress_is_estimated: bool
    warnings: tuple[str, ...] = ()
    device_facts: tuple[DeviceFacts, ...] = ()


class LoadFailed(Message, frozen=True):
    """The model cannot be used; `message` is one sentence with cause and remedy.

    Attributes:
        need_template: All that is missing is a chat template (ChatML can be offered).
    """

    message: str
    need_template: bool = False


class EngineExited(Message, frozen=True):
    """The child process is gone (put into the stream by the client's end of the pipe).

    Attributes:
        expected: The client had asked for it.
        message: One sentence on what happened.
        log_tail: llama.cpp's last lines.
        kind: What a turn that was under way failed of; `template` where the client ended a
            template that took too long.
    """

    expected: bool
    message: str
    log_tail: tuple[str, ...] = ()
    kind: ErrorKind = "engine"


class LogLines(Message, frozen=True):
    """What llama.cpp logged, whole lines, gathered."""

    lines: tuple[str, ...]


class PastTurn(msgspec.Struct, frozen=True):
    """An earlier turn of a chat: tokens reused, prefilled and decoded.

    Counts are None for a turn that failed before its prompt was planned.
    """

    turn: int
    cache_n: int | None
    prompt_n: int | None
    predicted_n: int


class ChatOpened(Message, frozen=True):
    """The client turned to a chat: a new one, or a stored one with its messages.

    Attributes:
        past: The turns of the chat so far, on all its branches, oldest first.
    """

    chat_id: str
    title: str
    messages: tuple[ChatMessage, ...]
    past: tuple[PastTurn, ...] = ()


class TurnRequested(Message, frozen=True):
    """The client sent a turn to the engine.

    Attributes:
        user_text: The new user message; None when an answer is generated again.
    """

    request: TurnRequest
    user_text: str | None


class TurnAccepted(Message, frozen=True):
    """The engine took the turn; all times of the turn count from `t_ns`."""

    turn: int
    t_ns: int


class PromptRendered(Message, frozen=True):
    """The chat template has come to its end; until then a client may lose patience."""

    turn: int
    t_ns: int


class TemplateRuns(Message, frozen=True):
    """The chat template is rendered outside a turn: it began, or has come to its end.

    Told to the client's end of the pipe, which may lose patience, and to nobody behind it.
    """

    running: bool


class PromptReady(Message, frozen=True):
    """The prompt is rendered, tokenized and planned against the cache; prefill begins.

    Attributes:
        t_ns: When prefill begins.
        render_ns, tokenize_ns, cache_ns: Durations of the steps before.
        prompt_tokens: Tokens of the whole prompt, `cache_n` + `prompt_n`.
        kv: The cache as it stands before prefill.
        lead: The last characters of the rendered prompt, before the answer.
        n_ctx_left: Tokens that can still be generated before the context is full.
        ids: The tokens of the whole prompt.
        drop_chars: Of an answer that is gone on with: so many characters at the end of what it
            was are given out again, or as others, with the new text (half a character, or what
            may be the beginning of a stop string). They go when the first token comes.
        resumed_n: Tokens at the end of the prompt that are of that answer.
    """

    turn: int
    t_ns: int
    render_ns: int
    tokenize_ns: int
    cache_ns: int
    prompt_tokens: int
    cache_n: int
    prompt_n: int
    cache: CacheOutcome
    kv: KvState
    lead: str
    n_ctx_left: int
    first_after_load: bool
    ids: tuple[int, ...] = ()
    drop_chars: int = 0
    resumed_n: int = 0


class PrefillProgress(Message, frozen=True):
    """How far prefill is.

    Attributes:
        done: New prompt tokens computed so far (an estimate inside a batch).
    """

    turn: int
    t_ns: int
    done: int
    total: int


class TokenBatch(Message, frozen=True):
    """Sampled tokens, gathered; the first one is sent at once.

    Attributes:
        ids: The tokens, an end-of-generation token included.
        t_ns: When each was sampled.
        pieces: The text that each completed: whole characters only, so a piece may be empty
            and the next hold the character; markers of the chat format are left out.
        first: Timing of prefill, with the first token of a turn only.
    """

    turn: int
    ids: tuple[int, ...]
    t_ns: tuple[int, ...]
    pieces: tuple[str, ...]
    first: "PrefillTiming | None" = None


class PrefillTiming(msgspec.Struct, frozen=True):
    """Prefill as it was: `prompt_ns` in decode calls until the logits are there."""

    prompt_ns: int
    first_sample_ns: int


class TurnEnded(Message, frozen=True):
    """The turn is over, well or not.

    Attributes:
        reason: Why it ended; `detail` says it in a sentence where there is more to say.
        kind: With reason `error`: what it is about.
        prompt_ns: Time in prefill's decode calls (also of a prefill that was cancelled). The
            durations and `perf` are None when it did not come to that; they, `prompt_done` and
            `kv` are None when the engine died in the turn.
        decode_ns: Time in decode calls after the first token, until the logits are there.
        decode_sample_ns: Time in sampling after the first token.
        prompt_done: New prompt tokens that are in the cache now.
        tail: Text held back until now (for a stop string, or an unfinished character).
        perf: llama.cpp's own counters, as a cross-check.
        engine_rss_bytes: Resident memory of the child.
        major_faults: Page faults that read from disk during the turn; None where unknown.
    """

    turn: int
    t_ns: int
    reason: StopReason
    detail: str | None
    kind: ErrorKind | None
    prompt_ns: int | None
    decode_ns: int | None
    decode_sample_ns: int | None
    prompt_done: int | None
    kv: KvState | None
    tail: str = ""
    perf: "PerfCounters | None" = None
    engine_rss_bytes: int | None = None
    major_faults: int | None = None


class PerfCounters(msgspec.Struct, frozen=True):
    """`llama_perf_context` of one turn: a cross-check, never the source of a figure."""

    t_p_eval_ms: float
    n_p_eval: int
    t_eval_ms: float
    n_eval: int


class PromptCounted(Message, frozen=True):
    """What the conversation of a `CountRequest` would cost.

    Attributes:
        message_tokens: Tokens of the draft's text alone.
        prompt_tokens: Tokens of the whole prompt, `cache_n` + `prompt_n`.
        n_ctx: Tokens that the context holds.
        problem: Why it could not be counted, in one sentence; the counts are then 0.
    """

    number: int
    message_tokens: int
    prompt_tokens: int
    cache_n: int
    prompt_n: int
    n_ctx: int
    problem: str | None = None


class CacheDropped(Message, frozen=True):
    """The KV cache was emptied on request."""

    cells: int
    kv: KvState


class BenchSample(Message, frozen=True):
    """One run of a benchmark test.

    Attributes:
        n_prompt, n_gen: One of them is 0: a test of prefill, or of decode.
        ns: Duration of the run.
    """

    n_prompt: int
    n_gen: int
    n_depth: int
    ns: int


class BenchEnded(Message, frozen=True):
    """All runs are done, or were stopped; `error` is one sentence if they could not be done."""

    cancelled: bool
    error: str | None = None


class WindowSample(Message, frozen=True):
    """What the machine and the client's own process do, sampled by the client.

    Attributes:
        ui_cpu_percent: CPU time of the client's process, share of one core.
        cpu_percent: Load of all cores, 0 to 100.
        engine_rss_bytes: Resident memory of the child.
        power: `battery`, `mains` or None where unknown.
        battery_percent: Charge of the battery, 0 to 100.
        core_percent: Load of each logical core, 0 to 100.
        clock_mhz: Clock of the cores at this moment, their mean.
        engine_cpu_percent: CPU time of the child, share of one core.
        others_cpu_percent: CPU time of everything else on the machine, share of one core.
        ui_rss_bytes: Resident memory of the client's process.
        memory_bytes, available_bytes: Memory of the machine, and what a process can still take.
        turn: The turn whose whole time the shares are of; None: the time since the last sample.
    """

    ui_cpu_percent: float | None
    cpu_percent: float | None
    engine_rss_bytes: int | None
    power: Literal["battery", "mains"] | None
    turn: int | None = None
    battery_percent: float | None = None
    core_percent: tuple[float, ...] = ()
    clock_mhz: float | None = None
    engine_cpu_percent: float | None = None
    others_cpu_percent: float | None = None
    ui_rss_bytes: int | None = None
    memory_bytes: int | None = None
    available_bytes: int | None = None


Event = (
    EngineStarted
    | ModelRead
    | LoadProgress
    | EngineReady
    | LoadFailed
    | EngineExited
    | LogLines
    | ChatOpened
    | TurnRequested
    | TurnAccepted
    | PromptRendered
    | TemplateRuns
    | PromptReady
    | PrefillProgress
    | TokenBatch
    | TurnEnded
    | PromptCounted
    | CacheDropped
    | BenchSample
    | BenchEnded
    | WindowSample
)
