"""What this machine, build and configuration offer, and what is wrong with them."""

import platform
import sys
from importlib.metadata import version
from time import monotonic
from typing import Literal

import msgspec
import psutil

from backend.engine import EngineError
from backend.first_aid import no_model_here, unused_gpu_here
from backend.history import History, HistoryError
from backend.local.process import LocalEngine
from backend.machine import available_memory_bytes, power_source, total_memory_bytes, usable_cores
from backend.paths import data_dir, database_path, log_dir
from backend.protocol import DeviceFacts, EngineExited, EngineFacts, EngineStarted
from models.starter import starter_path

START_S = 60.0
"""Seconds that the engine has to say its name."""


class MachineFacts(msgspec.Struct, frozen=True):
    """Cores and memory."""

    system: str
    processor: str
    logical_cores: int | None
    physical_cores: int | None
    usable_cores: int
    memory_bytes: int
    available_bytes: int
    power: Literal["battery", "mains"] | None


class EngineReport(msgspec.Struct, frozen=True):
    """The engine's build, and how long its process takes to start."""

    facts: EngineFacts
    devices: tuple[str, ...]
    gpu_offload: bool
    start_ms: float
    device_facts: tuple[DeviceFacts, ...] = ()


class Places(msgspec.Struct, frozen=True):
    """Where things are kept."""

    data: str
    chats: str
    logs: str


class Diagnosis(msgspec.Struct, frozen=True):
    """All that was found; `problems` are sentences with a remedy each."""

    phasescope: str
    python: str
    machine: MachineFacts
    engine: EngineReport | None
    places: Places | None
    stored_chats: int | None
    starter: str | None
    problems: tuple[str, ...]


def examine() -> Diagnosis:
    """Look at machine, engine, places and models; starts the engine's process once."""
    problems: list[str] = []
    engine = _engine(problems)
    places, chats = _places(problems)
    starter = starter_path()
    if starter is None:
        problems.append(no_model_here(in_window=False).sentence)
    if sys.maxsize < 2**32:
        problems.append("this is a 32-bit Python; models need a 64-bit one")
    return Diagnosis(
        phasescope=version("phasescope"),
        python=platform.python_version(),
        machine=_machine(),
        engine=engine,
        places=places,
        stored_chats=chats,
        starter=None if starter is None else str(starter),
        problems=tuple(problems),
    )


def _machine() -> MachineFacts:
    return MachineFacts(
        system=platform.platform(),
        processor=platform.processor() or platform.machine(),
        logical_cores=psutil.cpu_count(),
        physical_cores=psutil.cpu_count(logical=False),
        usable_cores=usable_cores(),
        memory_bytes=total_memory_bytes(),
        available_bytes=available_memory_bytes(),
        power=power_source(),
    )


def _engine(problems: list[str]) -> EngineReport | None:
    """Start the engine once and let it tell its build."""
    try:
        began = monotonic()
        engine = LocalEngine(log_dir())
    except (EngineError, OSError) as error:
        problems.append(str(error))
        return None
    try:
        while monotonic() - began < START_S:
            event = engine.wait(1.0)
            if isinstance(event, EngineStarted):
                spent = (monotonic() - began) * 1000
                gpu = unused_gpu_here(event)
                if gpu is not None:
                    problems.append(gpu.sentence)
                return EngineReport(
                    facts=event.engine,
                    devices=event.devices,
                    gpu_offload=event.gpu_offload,
                    start_ms=spent,
                    device_facts=event.device_facts,
                )
            if isinstance(event, EngineExited):
                tail = event.log_tail[-1] if event.log_tail else event.message
                problems.append(
                    f"the engine's process did not start ({tail}); reinstall llama-cpp-python"
                )
                return None
    finally:
        engine.close()
    problems.append(f"the engine's process did not answer within {START_S:.0f} s")
    return None


def _places(problems: list[str]) -> tuple[Places | None, int | None]:
    try:
        places = Places(data=str(data_dir()), chats=str(database_path()), logs=str(log_dir()))
        history = History(database_path())
        chats = len(history.chats())
        history.close()
    except (OSError, HistoryError) as error:
        problems.append(f"chats cannot be stored: {error}")
        return None, None
    return places, chats
