"""What the machine is and does: cores, memory, load and power."""

import os
from pathlib import Path
from time import monotonic
from typing import Literal

import psutil

from backend.protocol import WindowSample


def usable_cores() -> int:
    """Physical cores that this process may use: the default number of threads.

    Bounded by the process's CPU affinity and, on Linux, by the quota of its control group.
    """
    logical = psutil.cpu_count() or 1
    physical = psutil.cpu_count(logical=False) or logical
    allowed = logical
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    quota = _cgroup_cpu_quota()
    if quota is not None:
        allowed = min(allowed, max(1, int(quota)))
    return max(1, min(physical, allowed))


def available_memory_bytes() -> int:
    """Memory that a new process can take without swapping, in bytes."""
    available = psutil.virtual_memory().available
    limit = _cgroup_memory_left()
    return int(available if limit is None else min(available, limit))


def power_source() -> Literal["battery", "mains"] | None:
    """What powers the machine; None where it does not tell."""
    if not hasattr(psutil, "sensors_battery"):
        return None
    battery = psutil.sensors_battery()
    if battery is None or battery.power_plugged is None:
        return None
    return "mains" if battery.power_plugged else "battery"


class WindowSampler:
    """Samples the machine, the engine's process and this process itself.

    The figures are shares of the time since the sample before; the first sample has none. Each
    sampler has a beginning of its own, so that several can measure different spans.
    """

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._before: tuple[float, float, float, float] | None = None

    def sample(self, engine_pid: int | None) -> WindowSample:
        """One sample.

        Args:
            engine_pid: Process id of the engine's child; None while there is none.
        """
        now = monotonic()
        own = self._process.cpu_times()
        cores = psutil.cpu_times()
        total, idle = sum(cores), cores.idle + getattr(cores, "iowait", 0.0)
        before, self._before = self._before, (now, own.user + own.system, total, idle)
        own_percent = cpu_percent = None
        if before is not None:
            if now > before[0]:
                own_percent = 100 * (own.user + own.system - before[1]) / (now - before[0])
            if total > before[2]:
                cpu_percent = 100 * (1 - (idle - before[3]) / (total - before[2]))
        return WindowSample(
            ui_cpu_percent=own_percent,
            cpu_percent=cpu_percent,
            engine_rss_bytes=_rss(engine_pid),
            power=power_source(),
        )


def _rss(pid: int | None) -> int | None:
    if pid is None:
        return None
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None


def _cgroup_cpu_quota() -> float | None:
    """CPUs that the control group may use (cgroup v2 `cpu.max`); None without a limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)


def _cgroup_memory_left() -> int | None:
    """Bytes below the control group's limit (cgroup v2); None without a limit."""
    root = Path("/sys/fs/cgroup")
    try:
        limit = root.joinpath("memory.max").read_text(encoding="ascii").strip()
        used = root.joinpath("memory.current").read_text(encoding="ascii").strip()
    except OSError:
        return None
    return None if limit == "max" else max(0, int(limit) - int(used))
