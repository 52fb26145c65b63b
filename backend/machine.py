"""What the machine is and does: cores, memory, load and power."""

import os
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Literal

import psutil

from backend.protocol import WindowSample

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")

SHORTEST_S = 0.5
"""A shorter time has no shares: the system counts CPU time in ticks of 10 ms or more."""


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

    The figures are shares of the time since the sample before; the first sample has none, nor has
    one that follows within `SHORTEST_S`. Each sampler has a beginning of its own, so that several
    can measure different spans.
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
        if before is not None and now - before[0] >= SHORTEST_S:
            own_percent = 100 * (own.user + own.system - before[1]) / (now - before[0])
            if total > before[2]:
                # The system may count a little more idle time than all time.
                cpu_percent = max(0.0, 100 * (1 - (idle - before[3]) / (total - before[2])))
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


def _control_groups() -> list[Path]:
    """Folders of this process's control group and of all above it (cgroup v2)."""
    try:
        lines = OWN_CGROUP.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        lines = []
    own = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "")
    folder = CGROUPS / own.strip("/")
    return [folder, *(above for above in folder.parents if above.is_relative_to(CGROUPS))]


def _cgroup_cpu_quota() -> float | None:
    """CPUs that the control groups allow (`cpu.max`); None without a limit."""
    quotas: list[float] = []
    for folder in _control_groups():
        with suppress(OSError, ValueError):
            quota, period = folder.joinpath("cpu.max").read_text(encoding="ascii").split()
            if quota != "max":
                quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def _cgroup_memory_left() -> int | None:
    """Bytes below the control groups' limits; None without a limit.

    Cached files count as free, as they do in the system's own figure: a model that was only read
    before must not stand in the way of its being loaded.
    """
    left: list[int] = []
    for folder in _control_groups():
        with suppress(OSError, ValueError):
            limit = folder.joinpath("memory.max").read_text(encoding="ascii").strip()
            if limit != "max":
                used = int(folder.joinpath("memory.current").read_text(encoding="ascii"))
                left.append(max(0, int(limit) - max(0, used - _cached_bytes(folder))))
    return min(left, default=None)


def _cached_bytes(folder: Path) -> int:
    """Bytes of a control group that are cached files (`memory.stat`)."""
    cached = 0
    with suppress(OSError, ValueError):
        for line in folder.joinpath("memory.stat").read_text(encoding="ascii").splitlines():
            name, value = line.split()
            if name in ("active_file", "inactive_file"):
                cached += int(value)
    return cached
