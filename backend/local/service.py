"""What the child does with requests: one at a time, cancelling from beside."""

import os
import threading
from queue import SimpleQueue
from time import perf_counter_ns
from typing import BinaryIO, NamedTuple, TextIO, assert_never

from llama_cpp import llama_cpp as lib

from backend.local.bench import BenchError, run_bench
from backend.local.cancel import CancelFlag
from backend.local.counting import count_prompt
from backend.local.devices import device_facts, device_names
from backend.local.llama import supports_gpu_offload
from backend.local.loading import LoadedModel, Loader, LoadError, engine_facts
from backend.local.log import LlamaLog
from backend.local.turn import Turn
from backend.protocol import (
    BenchEnded,
    BenchRequest,
    CacheDropped,
    CancelRequest,
    CountRequest,
    DropCacheRequest,
    EngineStarted,
    Event,
    LoadFailed,
    LoadProgress,
    LoadRequest,
    LogLines,
    PromptCounted,
    ShutdownRequest,
    TurnAccepted,
    TurnEnded,
    TurnRequest,
)
from backend.wire import MessageWriter, WireError, request_reader


class _Arrived(NamedTuple):
    """A request, when it came by the clock of this process, and as the how many-th."""

    request: LoadRequest | TurnRequest | CountRequest | DropCacheRequest | BenchRequest
    t_ns: int
    number: int


class Service:
    """Serves one client until it shuts the child down or goes away.

    A thread reads requests, so that a cancel is seen while the main thread computes.
    """

    def __init__(self, requests: BinaryIO, events: BinaryIO, log_file: TextIO) -> None:
        self._reader = request_reader(requests)
        self._writer = MessageWriter(events)
        self._queue: SimpleQueue[_Arrived | None] = SimpleQueue()
        self._cancel = CancelFlag()
        self._lock = threading.Lock()
        self._running: TurnRequest | None = None
        self._cancelled_turn = 0
        self._arrived = 0
        self._cancelled_until = 0
        self._last_count = 0
        self._closing = False
        self._loaded: LoadedModel | None = None
        self._loaded_ns = 0
        self._log = LlamaLog(lambda line: print(line, file=log_file))
        lib.llama_backend_init()
        self._devices = device_names()

    def serve(self) -> None:
        """Answer requests until the client ends it; what still waits is then left undone."""
        self._send(
            EngineStarted(
                pid=os.getpid(),
                engine=engine_facts(),
                devices=self._devices,
                gpu_offload=supports_gpu_offload(),
                device_facts=device_facts(self._devices),
            )
        )
        threading.Thread(target=self._read, name="requests", daemon=True).start()
        while (arrived := self._queue.get()) is not None and not self._closing:
            self._handle(arrived)
            self._send_log()

    def _read(self) -> None:
        """Queue requests; a cancel does not wait in the queue."""
        while True:
            try:
                request = self._reader.read()
            except WireError as error:
                self._log.note(f"phasescope: {error}")
                request = None
            if isinstance(request, CancelRequest):
                self._cancel_now(request)
                continue
            if request is None or isinstance(request, ShutdownRequest):
                # Nobody listens any more: do not finish the answer in progress.
                with self._lock:
                    self._closing = True
                    self._cancel.set()
                self._queue.put(None)
                return
            with self._lock:
                self._arrived += 1
                if isinstance(request, CountRequest):
                    self._last_count = self._arrived
            self._queue.put(_Arrived(request, perf_counter_ns(), self._arrived))

    def _cancel_now(self, request: CancelRequest) -> None:
        with self._lock:
            if request.turn is None:
                self._cancelled_until = self._arrived
                self._cancel.set()
                return
            self._cancelled_turn = max(self._cancelled_turn, request.turn)
            if self._running is not None and self._running.turn <= request.turn:
                self._cancel.set()

    def _handle(self, arrived: _Arrived) -> None:
        match arrived.request:
            case LoadRequest() as request:
                self._listen_to_cancel(arrived)
                self._load(request)
            case TurnRequest() as request:
                # A message that came while a model was loading is accepted when it is loaded.
                self._turn(request, max(arrived.t_ns, self._loaded_ns))
            case CountRequest() as request:
                self._count(request, arrived)
            case DropCacheRequest():
                self._drop_cache()
            case BenchRequest() as request:
                self._listen_to_cancel(arrived)
                self._bench(request)
            case _ as never:
                assert_never(never)

    def _listen_to_cancel(self, arrived: _Arrived) -> None:
        """Before a load or a benchmark: forget what does not mean it."""
        with self._lock:
            self._clear_cancel()
            if arrived.number <= self._cancelled_until:
                self._cancel.set()

    def _clear_cancel(self) -> None:
        """Forget a cancel that was meant for something else; the end is meant for all."""
        if not self._closing:
            self._cancel.clear()

    def _load(self, request: LoadRequest) -> None:
        if self._loaded is not None:
            self._loaded.close()
            self._loaded = None
        loader = Loader(self._send_of_load, self._log, self._cancel, self._devices)
        try:
            self._loaded = loader.load(request)
            self._loaded_ns = perf_counter_ns()
        except LoadError as error:
            self._send_log()
            self._send(LoadFailed(str(error), need_template=error.need_template))

    def _turn(self, request: TurnRequest, accepted_ns: int) -> None:
        loaded = self._loaded
        if loaded is None:
            self._send(TurnAccepted(request.turn, accepted_ns))
            self._send(_failed(request, "no model is loaded"))
            return
        with self._lock:
            self._clear_cancel()
            if self._cancelled_turn >= request.turn:
                self._cancel.set()
            self._running = request
        Turn(request, accepted_ns, loaded, self._cancel, self._send).run()
        with self._lock:
            self._running = None
            self._clear_cancel()

    def _count(self, request: CountRequest, arrived: _Arrived) -> None:
        """Answer the newest count, and that when nothing else waits."""
        if arrived.number < self._last_count:
            return
        if not self._queue.empty():
            self._queue.put(arrived)
        elif self._loaded is None:
            self._send(PromptCounted(request.number, 0, 0, 0, 0, 0, "no model is loaded"))
        else:
            self._send(count_prompt(request, self._loaded, self._send))

    def _drop_cache(self) -> None:
        if self._loaded is not None:
            cells = self._loaded.cache.drop()
            self._send(CacheDropped(cells=cells, kv=self._loaded.kv_state()))

    def _bench(self, request: BenchRequest) -> None:
        loaded = self._loaded
        if loaded is None:
            self._send(BenchEnded(cancelled=False, error="no model is loaded"))
            return
        loaded.cache.drop()
        try:
            done = run_bench(
                request, loaded.context, loaded.vocabulary.n_tokens, self._cancel, self._send
            )
        except BenchError as error:
            self._send(BenchEnded(cancelled=False, error=str(error)))
            return
        self._send(BenchEnded(cancelled=not done))

    def _send(self, event: Event) -> None:
        """Send an event; without a client there is nothing left to do but end."""
        try:
            self._writer.write(event)
        except OSError:
            os._exit(0)

    def _send_of_load(self, event: Event) -> None:
        """Send an event of a load, which can be long: its log goes along."""
        if isinstance(event, LoadProgress):
            self._send_log()
        self._send(event)

    def _send_log(self) -> None:
        lines = self._log.unsent()
        if lines:
            self._send(LogLines(lines))


def _failed(request: TurnRequest, message: str) -> TurnEnded:
    return TurnEnded(
        turn=request.turn,
        t_ns=perf_counter_ns(),
        reason="error",
        detail=message,
        kind="engine",
        prompt_ns=None,
        decode_ns=None,
        decode_sample_ns=None,
        prompt_done=None,
        kv=None,
    )
