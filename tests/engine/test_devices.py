"""The devices that llama.cpp computes on, as ggml tells of them."""

import json
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import psutil

from backend.local.process import LocalEngine
from backend.protocol import DeviceFacts, EngineStarted
from tests.engine.conftest import MakeDriver
from tests.engine.driver import wait_for
from tests.tiny import tiny_llama


def facts_of(names: tuple[str, ...]) -> tuple[DeviceFacts, ...]:
    """What is told of the devices with these names."""
    from backend.local.devices import device_facts  # noqa: PLC0415 (loads llama.cpp)

    return device_facts(names)


def test_the_processor_has_the_machines_memory(logs: Path) -> None:
    engine = LocalEngine(logs)
    try:
        started = wait_for(engine, EngineStarted)
    finally:
        engine.close()
    (cpu,) = [device for device in started.device_facts if device.name == "CPU"]
    assert cpu.kind == "cpu"
    assert cpu.description
    assert cpu.total_bytes == psutil.virtual_memory().total
    # ggml says that all of it is free: that is no figure.
    assert cpu.free_bytes is None
    assert tuple(device.name for device in started.device_facts) == started.devices


def test_a_loaded_model_names_the_devices_that_it_uses(drive: MakeDriver, folder: Path) -> None:
    ready = drive(tiny_llama(folder)).start()
    assert [device.name for device in ready.device_facts] == list(ready.devices) == ["CPU"]


def test_a_device_that_is_not_asked_for_is_not_looked_at(child: ProcessPoolExecutor) -> None:
    assert child.submit(facts_of, ("no such device",)).result() == ()


def test_doctor_names_the_devices_with_their_memory(tmp_path: Path) -> None:
    def doctor(*arguments: str) -> str:
        return subprocess.run(
            [Path(sys.executable).with_name("phasescope"), "doctor", *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
            env={**os.environ, "PHASESCOPE_DATA_DIR": str(tmp_path)},
        ).stdout

    total = psutil.virtual_memory().total
    (cpu,) = json.loads(doctor("--json"))["diagnosis"]["engine"]["device_facts"]
    assert (cpu["name"], cpu["total_bytes"], cpu["free_bytes"]) == ("CPU", total, None)
    (line,) = [line for line in doctor().splitlines() if line.startswith("devices")]
    assert line.split()[1] == "CPU"
    assert line.endswith(f", {total / 2**30:.2f} GiB")
