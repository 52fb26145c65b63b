"""Loading a model in the child: read its header, size the context, load, warm up."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import NamedTuple, TypedDict

import msgspec

from backend.chat.prompt import PromptBuilder
from backend.chat.roles import NO_SYSTEM, takes_system
from backend.chat.templates import ChatTemplate, ChatTemplateError
from backend.local.cancel import CancelFlag
from backend.local.devices import device_facts
from backend.local.kv import KvCache, MemoryKind
from backend.local.llama import (
    Context,
    LlamaError,
    Model,
    binding_version,
    supports_gpu_offload,
    system_info,
)
from backend.local.log import LlamaLog
from backend.local.memory import CacheSizes, read_cache_sizes
from backend.local.prefill import Prefill
from backend.local.vocabulary import Vocabulary
from backend.machine import available_memory_bytes, usable_cores
from backend.metrics.statistics import ms
from backend.protocol import (
    ContextFacts,
    EngineFacts,
    EngineReady,
    Event,
    KvState,
    LoadCause,
    LoadProgress,
    LoadRequest,
    ModelFacts,
    ModelRead,
    TemplateRuns,
)
from backend.settings import EngineSettings
from models.errors import ModelFileError
from models.gguf import read_header
from models.header import ModelHeader
from models.memory import CACHE_TYPES, cache_type_fault, estimate_memory, largest_n_ctx

DEFAULT_N_CTX = 8192
"""The context is as long as the model was trained for, but not longer than this by itself."""

LARGEST_SETTING = (1 << 31) - 1
"""What llama.cpp's counts can hold."""

GIB = 1 << 30


class LoadError(Exception):
    """A model cannot be used; the text is one sentence with cause and remedy.

    Attributes:
        need_template: A chat template is all that is missing.
    """

    def __init__(self, message: str, *, need_template: bool = False) -> None:
        super().__init__(message)
        self.need_template = need_template


class ContextChoice(NamedTuple):
    """The context size to ask for, what it takes, and what is worth a warning."""

    n_ctx: int
    need_bytes: int
    warnings: list[str]


class LoadPlan(NamedTuple):
    """What is loaded, after all that can be known beforehand was checked."""

    path: Path
    cause: LoadCause
    settings: EngineSettings
    header: ModelHeader
    source: str
    n_ctx: int
    warnings: tuple[str, ...]


class _MemoryShape(TypedDict):
    """The settings that decide how much memory a context takes."""

    type_k: str
    type_v: str
    swa_full: bool
    n_ubatch: int
    flash_attn: bool


class LoadedModel:
    """A model with its context, vocabulary, prompt builder and cache book-keeping."""

    def __init__(
        self,
        *,
        model: Model,
        context: Context,
        vocabulary: Vocabulary,
        prompts: PromptBuilder,
        prefill: Prefill,
        cache: KvCache,
        sizes: CacheSizes,
    ) -> None:
        self.model = model
        self.context = context
        self.vocabulary = vocabulary
        self.prompts = prompts
        self.prefill = prefill
        self.cache = cache
        self.sizes = sizes
        self.fresh = True

    def kv_state(self) -> KvState:
        """The KV cache as it is now."""
        first, last = self.context.position_range()
        return self.sizes.state(
            n_ctx=self.context.n_ctx,
            tokens=len(self.cache.tokens),
            positions=(first, last),
        )

    def close(self) -> None:
        """Free everything."""
        self.context.close()
        self.model.close()


class Loader:
    """Loads models, one after another, and tells how it goes.

    Args:
        send: Sends events off.
        log: llama.cpp's log.
        cancel: Set from another thread to end a load.
        devices: Names of the devices that llama.cpp computes on.
    """

    def __init__(
        self,
        send: Callable[[Event], None],
        log: LlamaLog,
        cancel: CancelFlag,
        devices: tuple[str, ...],
    ) -> None:
        self._send = send
        self._log = log
        self._cancel = cancel
        self._devices = devices

    def load(self, request: LoadRequest) -> LoadedModel:
        """Load what a request names; sends `ModelRead`, `LoadProgress`… and `EngineReady`.

        Raises:
            LoadError: It cannot be used.
        """
        began = perf_counter_ns()
        self._log.mark()
        path = Path(request.model_path)
        try:
            header = read_header(path)
        except ModelFileError as error:
            raise LoadError(str(error)) from error
        available = (
            available_memory_bytes() if request.available_bytes is None else request.available_bytes
        )
        settings, warnings = fit_settings(request.settings, header)
        choice = choose_n_ctx(settings, header, available)
        n_ctx = choice.n_ctx
        warnings += choice.warnings
        warnings += header.sampling_warnings
        source = header.template or None
        if request.chat_template is not None:
            source = request.chat_template
        self._send(
            ModelRead(
                header=header,
                n_ctx=n_ctx,
                need_bytes=choice.need_bytes,
                available_bytes=available,
                need_template=source is None,
                warnings=tuple(warnings),
            )
        )
        if source is None:
            raise LoadError(
                f"{path.name} has no chat template, so it may not be a chat model; give one with "
                "--chat-template-file",
                need_template=True,
            )
        plan = LoadPlan(path, request.cause, settings, header, source, n_ctx, tuple(warnings))
        return self._load(plan, began)

    def _load(self, plan: LoadPlan, began: int) -> LoadedModel:
        """Load as planned.

        Args:
            plan: What to load, and how.
            began: When the load began, ns.
        """
        path, settings, header = plan.path, plan.settings, plan.header
        n_threads = settings.n_threads or usable_cores()
        n_threads_batch = settings.n_threads_batch or n_threads
        try:
            model = Model(path, settings, self._on_progress)
        except LlamaError as error:
            raise LoadError(self._load_failure(path)) from error
        if self._cancel.is_set:
            model.close()
            raise LoadError(_stopped(path))
        try:
            context = Context(
                model, plan.n_ctx, settings, n_threads=n_threads, n_threads_batch=n_threads_batch
            )
        except LlamaError as error:
            model.close()
            reason = self._log.first_error() or "no reason was logged"
            raise LoadError(f"{path.name}: {error} ({reason})") from error
        vocabulary = Vocabulary(model)
        try:
            template = ChatTemplate(
                plan.source,
                bos_text=vocabulary.text_of(vocabulary.bos_id),
                eos_text=vocabulary.text_of(vocabulary.eos_id),
            )
        except ChatTemplateError as error:
            context.close()
            model.close()
            raise LoadError(f"{path.name}: {error}", need_template=True) from error
        self._send(TemplateRuns(running=True))
        system = takes_system(template)
        self._send(TemplateRuns(running=False))
        prefill = Prefill(context, self._cancel, inside=model.n_gpu_layers == 0)
        kind = MemoryKind(
            n_swa=0 if settings.swa_full else model.n_swa,
            rolls_back=not (model.recurrent or model.hybrid),
        )
        loaded = LoadedModel(
            model=model,
            context=context,
            vocabulary=vocabulary,
            prompts=PromptBuilder(template, vocabulary, takes_system=system),
            prefill=prefill,
            cache=KvCache(context, kind, plan.cause),
            sizes=read_cache_sizes(header, context, settings, self._log),
        )
        load_ns = perf_counter_ns() - began
        devices = self._devices if model.n_gpu_layers else ("CPU",)
        warm_began = perf_counter_ns()
        if not prefill.learn(lambda: context.warm_up(_warm_up_tokens(vocabulary))):
            loaded.close()
            raise LoadError(_stopped(path))
        self._send(
            EngineReady(
                model=model_facts(header),
                context=ContextFacts(
                    n_ctx=context.n_ctx,
                    n_ctx_train=header.n_ctx_train,
                    n_batch=context.n_batch,
                    n_ubatch=context.n_ubatch,
                    n_threads=n_threads,
                    n_threads_batch=n_threads_batch,
                    n_gpu_layers=model.n_gpu_layers,
                    flash_attn=flash_attention(settings, self._log),
                    type_k=settings.type_k,
                    type_v=settings.type_v,
                    swa_full=settings.swa_full,
                ),
                kv=loaded.kv_state(),
                engine=engine_facts(),
                devices=devices,
                cause=plan.cause,
                load_ms=ms(load_ns),
                warmup_ms=ms(perf_counter_ns() - warm_began),
                progress_is_estimated=prefill.estimates,
                warnings=plan.warnings if system else (*plan.warnings, NO_SYSTEM),
                device_facts=device_facts(devices),
            )
        )
        return loaded

    def _on_progress(self, share: float) -> bool:
        self._send(LoadProgress(share))
        return not self._cancel.is_set

    def _load_failure(self, path: Path) -> str:
        if self._cancel.is_set:
            return _stopped(path)
        reason = self._log.first_error() or "no reason was logged"
        return f"{path.name} could not be loaded; llama.cpp says: {reason}"


def flash_attention(settings: EngineSettings, log: LlamaLog) -> bool | None:
    """Whether flash attention is on: what llama.cpp made of `auto` it only says in its log."""
    if settings.flash_attn != "auto":
        return settings.flash_attn == "on"
    decided = log.matching(r"Flash Attention.*\b(enabled|disabled)")
    return decided[-1][1] == "enabled" if decided else None


def engine_facts() -> EngineFacts:
    """What runs the model."""
    return EngineFacts(name="llama.cpp", version=binding_version(), build=system_info())


def model_facts(header: ModelHeader) -> ModelFacts:
    """The part of a header that a turn record names."""
    return ModelFacts(
        name=header.name,
        path=header.path,
        architecture=header.architecture,
        quantization=header.quantization,
        declared_quantization=header.declared_quantization,
        file_bytes=header.file_bytes,
        tensor_bytes=header.tensor_bytes,
        params=header.params,
        bits_per_weight=header.bits_per_weight,
    )


def fit_settings(settings: EngineSettings, header: ModelHeader) -> tuple[EngineSettings, list[str]]:
    """Settings that this model can run with, and what had to be changed or is worth a warning.

    Raises:
        LoadError: A setting makes no sense.
    """
    warnings: list[str] = []
    _check_settings(settings)
    settings = _fit_cache_types(settings, header, warnings)
    if CACHE_TYPES[settings.type_v].block > 1 and settings.flash_attn != "on":
        if settings.flash_attn == "off":
            warnings.append(
                f"a V cache in {settings.type_v} needs flash attention, so it is turned on"
            )
        settings = msgspec.structs.replace(settings, flash_attn="on")
    if settings.n_gpu_layers > 0 and not supports_gpu_offload():
        warnings.append(
            f"-ngl {settings.n_gpu_layers} has no effect: there is no GPU that this build of "
            "llama.cpp can use, so all layers stay on the CPU"
        )
    cores = usable_cores()
    for flag, threads in (("-t", settings.n_threads), ("-tb", settings.n_threads_batch)):
        if threads is not None and threads > cores:
            warnings.append(
                f"{flag} {threads} is more than the {cores} usable cores: threads will wait for "
                "each other"
            )
    return settings, warnings


def _fit_cache_types(
    settings: EngineSettings, header: ModelHeader, warnings: list[str]
) -> EngineSettings:
    """Fall back to f16 where a type does not fit; latent attention needs one type for both."""
    type_k, type_v = settings.type_k, settings.type_v
    fallback = "f16"
    fault = cache_type_fault(
        header, type_k=type_k, type_v=type_k if header.latent_attention else fallback
    )
    if fault is not None:
        warnings.append(f"{fault}, so {fallback} is used")
        type_k = fallback
    if header.latent_attention:
        fallback = type_k
    fault = cache_type_fault(header, type_k=type_k, type_v=type_v)
    if fault is not None:
        warnings.append(f"{fault}, so {fallback} is used")
        type_v = fallback
    return msgspec.structs.replace(settings, type_k=type_k, type_v=type_v)


def _check_settings(settings: EngineSettings) -> None:
    """Refuse what no model can run with.

    Raises:
        LoadError: A setting makes no sense.
    """
    for flag, number in (
        ("-c", settings.n_ctx),
        ("-b", settings.n_batch),
        ("-ub", settings.n_ubatch),
        ("-t", settings.n_threads),
        ("-tb", settings.n_threads_batch),
    ):
        if number is not None and not 1 <= number <= LARGEST_SETTING:
            raise LoadError(f"{flag} {number} makes no sense; give a number from 1 on")
    for flag, name in (("-ctk", settings.type_k), ("-ctv", settings.type_v)):
        if name not in CACHE_TYPES:
            raise LoadError(f"{flag} {name} is no cache type; there are {', '.join(CACHE_TYPES)}")


def choose_n_ctx(settings: EngineSettings, header: ModelHeader, available: int) -> ContextChoice:
    """The context size to ask for: as set, or the trained one up to 8192, or what fits.

    Only the system's memory is known. With layers on a GPU a part is in the memory of that, so
    then nothing is made smaller or refused, only warned about.

    Raises:
        LoadError: Weights and cache do not fit into the memory there is.
    """
    trained = header.n_ctx_train
    wanted = settings.n_ctx or min(trained or DEFAULT_N_CTX, DEFAULT_N_CTX)
    warnings: list[str] = []
    if wanted > trained > 0:
        warnings.append(
            f"-c {wanted} is longer than the {trained} tokens that the model was trained for"
        )
    shape = _MemoryShape(
        type_k=settings.type_k,
        type_v=settings.type_v,
        swa_full=settings.swa_full,
        n_ubatch=settings.n_ubatch,
        flash_attn=settings.flash_attn != "off",
    )
    need = estimate_memory(header, wanted, **shape)
    if need.total_bytes <= available:
        return ContextChoice(wanted, need.total_bytes, warnings)
    if settings.n_gpu_layers != 0 and supports_gpu_offload():
        warnings.append(
            f"the model needs about {need.total_bytes / GIB:.1f} GiB with a context of {wanted} "
            f"tokens, and {available / GIB:.1f} GiB of the system's memory are free: what is not "
            "on the GPU has to fit there"
        )
        return ContextChoice(wanted, need.total_bytes, warnings)
    fits = None
    if settings.n_ctx is None:
        fits = largest_n_ctx(header, available, wanted, **shape)
    if fits is None:
        raise LoadError(
            f"{Path(header.path).name} needs about {need.total_bytes / GIB:.1f} GiB with a context "
            f"of {wanted} tokens, and {available / GIB:.1f} GiB of memory are free; take a smaller "
            "model or quantization, a shorter context (-c), a smaller KV cache (-ctk q8_0 -ctv "
            "q8_0), or close other programs"
        )
    warnings.append(
        f"memory is short: the context is {fits} tokens instead of {wanted} "
        f"({available / GIB:.1f} GiB are free)"
    )
    return ContextChoice(fits, estimate_memory(header, fits, **shape).total_bytes, warnings)


def _stopped(path: Path) -> str:
    return f"loading {path.name} was stopped"


def _warm_up_tokens(vocabulary: Vocabulary) -> list[int]:
    """As llama.cpp's tools: the tokens that begin and end a text, else the first one."""
    known = [token for token in (vocabulary.bos_id, vocabulary.eos_id) if token >= 0]
    return known or [0]
