"""What the machine is and does: cores, memory, load and power."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, thread_time
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

import psutil

from backend.protocol import WindowSample

PowerSource = Literal["battery", "mains"]

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")

SHORTEST_S = 0.5
"""A shorter time has no shares: the system counts CPU time in ticks of 10 ms or more."""

SUPPLY_EVERY_S = 5.0
"""Asking a battery can take milliseconds, and neither charge nor plug changes quickly."""

READING_SHARE = 0.0005
"""Share of one core that reading a figure which is costly on some systems may take."""

LOWEST_MHZ, HIGHEST_MHZ = 100.0, 10_000.0
"""Between these a processor's clock lies; some systems say 0 or count in GHz."""


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
    return _memory().available


def total_memory_bytes() -> int:
    """Memory of the machine, or what its control groups allow of it, in bytes."""
    return _memory().total


def power_source() -> PowerSource | None:
    """What powers the machine; None where it does not tell."""
    return _supply().source


class WindowSampler:
    """Samples the machine, the engine's process and this process itself.

    The figures are shares of the time since the sample before; the first sample has none, nor has
    one that follows within `SHORTEST_S`. Each sampler has a beginning of its own, so that several
    can measure different spans.
    """

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._engine: psutil.Process | None = None
        self._before: _Moment | None = None
        self._supply = _Seldom(_supply, SUPPLY_EVERY_S)
        self._clock = _Seldom(_clock_mhz, 0.0)

    def sample(self, engine_pid: int | None) -> WindowSample:
        """One sample.

        Args:
            engine_pid: Process id of the engine's child; None while there is none.
        """
        now = monotonic()
        own = self._process.cpu_times()
        engine = self._engine_use(engine_pid)
        moment = _Moment(
            s=now,
            own_s=own.user + own.system,
            engine_pid=None if engine is None else engine_pid,
            engine_s=None if engine is None else engine.cpu_s,
            cores=tuple(_core_times(core) for core in psutil.cpu_times(percpu=True)),
        )
        before, self._before = self._before, moment
        shares = _Shares()
        if before is not None and now - before.s >= SHORTEST_S:
            shares = _shares(before, moment)
        supply = self._supply.read(now)
        memory = _memory()
        return WindowSample(
            ui_cpu_percent=shares.own,
            cpu_percent=shares.machine,
            engine_rss_bytes=None if engine is None else engine.rss_bytes,
            power=supply.source,
            battery_percent=supply.percent,
            core_percent=shares.cores,
            clock_mhz=self._clock.read(now),
            engine_cpu_percent=shares.engine,
            others_cpu_percent=shares.others,
            ui_rss_bytes=int(self._process.memory_info().rss),
            memory_bytes=memory.total,
            available_bytes=memory.available,
        )

    def _engine_use(self, pid: int | None) -> "_ProcessUse | None":
        """CPU time and memory of the child; None once it is gone, whoever has its id now."""
        if pid is None:
            self._engine = None
            return None
        try:
            if self._engine is None or self._engine.pid != pid:
                self._engine = None
                self._engine = psutil.Process(pid)
            if not self._engine.is_running():
                return None
            used = self._engine.cpu_times()
            rss = int(self._engine.memory_info().rss)
        except psutil.Error:
            return None
        # A process that has ended and waits to be collected has no memory left.
        return _ProcessUse(used.user + used.system, rss) if rss else None


class _ProcessUse(NamedTuple):
    """CPU time since its start and resident memory of a process."""

    cpu_s: float
    rss_bytes: int


class _CoreTimes(NamedTuple):
    """Time of a logical core since the machine's start, and what of it was idle, in seconds."""

    total_s: float
    idle_s: float


class _Moment(NamedTuple):
    """All clocks of CPU time at one moment `s`; without an engine that runs its two are None."""

    s: float
    own_s: float
    engine_pid: int | None
    engine_s: float | None
    cores: tuple[_CoreTimes, ...]


class _CpuTimes(Protocol):
    """A core's clocks as psutil tells them: a field for each kind of use."""

    def __iter__(self) -> Iterator[float]: ...

    @property
    def idle(self) -> float: ...


class _Shares(NamedTuple):
    """CPU time between two moments in per cent: of one core, `machine` of all of them."""

    own: float | None = None
    engine: float | None = None
    others: float | None = None
    machine: float | None = None
    cores: tuple[float, ...] = ()


class _Supply(NamedTuple):
    """What powers the machine, and the charge of its battery in per cent."""

    source: PowerSource | None = None
    percent: float | None = None


class _Memory(NamedTuple):
    """Memory of the machine, and what of it a process can still take, in bytes."""

    total: int
    available: int


T = TypeVar("T")


class _Seldom(Generic[T]):
    """A figure that some systems are slow to tell: the costlier it is, the older it may be.

    Args:
        read: Reads it.
        every_s: It is never read again sooner than this.
    """

    def __init__(self, read: Callable[[], T], every_s: float) -> None:
        self._read = read
        self._every_s = every_s
        self._kept: tuple[float, T] | None = None

    def read(self, now: float) -> T:
        """The figure at the time `now`, or the one that is kept of before."""
        if self._kept is None or now >= self._kept[0]:
            began = thread_time()
            value = self._read()
            wait_s = max(self._every_s, (thread_time() - began) / READING_SHARE)
            self._kept = (now + wait_s, value)
        return self._kept[1]


def _shares(before: _Moment, now: _Moment) -> _Shares:
    """What the time between two moments was used for."""
    to_percent = 100 / (now.s - before.s)
    own = (now.own_s - before.own_s) * to_percent
    engine = None
    same = before.engine_pid == now.engine_pid
    if same and before.engine_s is not None and now.engine_s is not None:
        engine = (now.engine_s - before.engine_s) * to_percent
    if len(before.cores) != len(now.cores) or not now.cores:
        return _Shares(own=own, engine=engine)
    totals: list[float] = []
    busy: list[float] = []
    for old, new in zip(before.cores, now.cores, strict=True):
        total = max(0.0, new.total_s - old.total_s)
        # The system may count a little more idle time than all time.
        busy.append(max(0.0, total - max(0.0, new.idle_s - old.idle_s)))
        totals.append(total)
    # An engine that came or went in between used nobody knows how much.
    known = 0.0 if same and now.engine_pid is None else engine
    return _Shares(
        own=own,
        engine=engine,
        others=None if known is None else max(0.0, sum(busy) * to_percent - known - own),
        machine=100 * sum(busy) / sum(totals) if sum(totals) > 0 else None,
        cores=tuple(
            100 * part / total if total > 0 else 0.0
            for part, total in zip(busy, totals, strict=True)
        ),
    )


def _core_times(core: "_CpuTimes") -> _CoreTimes:
    """One core's clocks. Linux counts the time of guests in `user` as well as apart."""
    guests = getattr(core, "guest", 0.0) + getattr(core, "guest_nice", 0.0)
    return _CoreTimes(sum(core) - guests, core.idle + getattr(core, "iowait", 0.0))


def _supply() -> _Supply:
    if not hasattr(psutil, "sensors_battery"):
        return _Supply()
    try:
        battery = psutil.sensors_battery()
    except (NotImplementedError, OSError, RuntimeError, ValueError):
        return _Supply()
    if battery is None:
        return _Supply()
    plugged: bool | None = battery.power_plugged
    source: PowerSource | None = "mains" if plugged else "battery"
    return _Supply(None if plugged is None else source, min(100.0, max(0.0, battery.percent)))


def _clock_mhz() -> float | None:
    """Mean clock of the cores; None where the system does not tell or cannot be right."""
    try:
        clock = psutil.cpu_freq()
    except (AttributeError, NotImplementedError, OSError, RuntimeError, ValueError):
        return None
    if clock is None or not LOWEST_MHZ <= clock.current <= HIGHEST_MHZ:
        return None
    return float(clock.current)


def _memory() -> _Memory:
    """The system's memory, bounded by the control groups."""
    system = psutil.virtual_memory()
    groups = _cgroup_memory()
    if groups is None:
        return _Memory(int(system.total), int(system.available))
    return _Memory(
        min(int(system.total), groups.total), min(int(system.available), groups.available)
    )


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


def _cgroup_memory() -> _Memory | None:
    """The control groups' tightest limit, and the least that is left below one; None without.

    Cached files count as free, as they do in the system's own figure: a model that was only read
    before must not stand in the way of its being loaded.
    """
    groups: list[_Memory] = []
    for folder in _control_groups():
        with suppress(OSError, ValueError):
            limit = folder.joinpath("memory.max").read_text(encoding="ascii").strip()
            if limit != "max":
                used = int(folder.joinpath("memory.current").read_text(encoding="ascii"))
                left = int(limit) - max(0, used - _cached_bytes(folder))
                groups.append(_Memory(int(limit), max(0, left)))
    if not groups:
        return None
    return _Memory(min(g.total for g in groups), min(g.available for g in groups))


def _cached_bytes(folder: Path) -> int:
    """Bytes of a control group that are cached files (`memory.stat`)."""
    cached = 0
    with suppress(OSError, ValueError):
        for line in folder.joinpath("memory.stat").read_text(encoding="ascii").splitlines():
            name, value = line.split()
            if name in ("active_file", "inactive_file"):
                cached += int(value)
    return cached
