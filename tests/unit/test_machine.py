"""What the machine offers: control groups, cores and power."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import NamedTuple

import psutil
import pytest

from backend import machine
from backend.machine import (
    WindowSampler,
    available_memory_bytes,
    power_source,
    total_memory_bytes,
    usable_cores,
)
from backend.protocol import WindowSample

GIB = 1 << 30


class ControlGroups:
    """A cgroup v2 tree in files."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "cgroup"
        self.own = folder / "own"
        self.root.mkdir()
        self.own.write_text("0::/\n")

    def put(self, group: str, files: Mapping[str, str]) -> None:
        folder = self.root / group
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            folder.joinpath(name).write_text(text)


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ControlGroups:
    groups = ControlGroups(tmp_path)
    monkeypatch.setattr(machine, "CGROUPS", groups.root)
    monkeypatch.setattr(machine, "OWN_CGROUP", groups.own)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 16 if logical else 8)
    system = SimpleNamespace(total=128 * GIB, available=100 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: system)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(16)), raising=False)
    return groups


# ---------------------------------------------------------------------------------- cores


def test_without_a_limit_all_physical_cores_are_usable(groups: ControlGroups) -> None:
    assert usable_cores() == 8
    groups.put("", {"cpu.max": "max 100000\n"})
    assert usable_cores() == 8


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("400000 100000", 4), ("150000 100000", 1), ("20000 100000", 1), ("1600000 100000", 8)],
)
def test_a_quota_bounds_the_cores(quota: str, cores: int, groups: ControlGroups) -> None:
    groups.put("", {"cpu.max": f"{quota}\n"})
    assert usable_cores() == cores


@pytest.mark.parametrize("content", ["", "nonsense", "100000", "a b", "1 2 3"])
def test_a_quota_that_cannot_be_read_is_none(content: str, groups: ControlGroups) -> None:
    groups.put("", {"cpu.max": content})
    assert usable_cores() == 8


def test_affinity_bounds_the_cores(groups: ControlGroups, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {3, 5}, raising=False)
    assert usable_cores() == 2
    groups.put("", {"cpu.max": "100000 100000"})
    assert usable_cores() == 1


def test_the_tightest_group_on_the_way_up_counts(groups: ControlGroups) -> None:
    groups.own.write_text("12:cpuset:/\n0::/user.slice/app.scope\n")
    groups.put("user.slice/app.scope", {"cpu.max": "600000 100000"})
    groups.put("user.slice", {"cpu.max": "300000 100000"})
    groups.put("elsewhere", {"cpu.max": "100000 100000"})
    assert usable_cores() == 3


def test_a_group_that_is_not_mounted_here_leaves_the_root(groups: ControlGroups) -> None:
    groups.own.write_text("0::/docker/0123456789abcdef\n")
    groups.put("", {"cpu.max": "200000 100000"})
    assert usable_cores() == 2
    groups.own.write_text("0::/../outside\n")
    assert usable_cores() == 2
    groups.own.unlink()
    assert usable_cores() == 2


@pytest.mark.usefixtures("groups")
def test_a_machine_that_does_not_know_its_physical_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 6 if logical else None)
    assert usable_cores() == 6
    monkeypatch.setattr(psutil, "cpu_count", lambda **_options: None)
    assert usable_cores() == 1


# --------------------------------------------------------------------------------- memory


def test_memory_without_a_limit_is_the_systems(groups: ControlGroups) -> None:
    assert available_memory_bytes() == 100 * GIB
    groups.put("", {"memory.max": "max\n", "memory.current": f"{GIB}\n"})
    assert available_memory_bytes() == 100 * GIB


def test_memory_is_what_is_left_below_the_limit(groups: ControlGroups) -> None:
    groups.put("", {"memory.max": f"{4 * GIB}\n", "memory.current": f"{GIB}\n"})
    assert available_memory_bytes() == 3 * GIB


def test_a_limit_is_all_the_memory_there_is(groups: ControlGroups) -> None:
    assert total_memory_bytes() == 128 * GIB
    groups.put("", {"memory.max": f"{500 * GIB}", "memory.current": "0"})
    assert total_memory_bytes() == 128 * GIB
    groups.put("", {"memory.max": f"{4 * GIB}", "memory.current": f"{GIB}"})
    assert total_memory_bytes() == 4 * GIB


def test_a_limit_above_what_the_system_has_counts_for_nothing(groups: ControlGroups) -> None:
    groups.put("", {"memory.max": f"{500 * GIB}", "memory.current": "0"})
    assert available_memory_bytes() == 100 * GIB


def test_cached_files_can_be_had_back(groups: ControlGroups) -> None:
    stat = f"anon {GIB}\nfile {5 * GIB}\ninactive_file {2 * GIB}\nactive_file {GIB}\nshmem {GIB}\n"
    groups.put(
        "",
        {"memory.max": f"{8 * GIB}", "memory.current": f"{7 * GIB}", "memory.stat": stat},
    )
    assert available_memory_bytes() == 4 * GIB


def test_a_group_over_its_limit_has_nothing_left(groups: ControlGroups) -> None:
    groups.put("", {"memory.max": f"{GIB}", "memory.current": f"{2 * GIB}"})
    assert available_memory_bytes() == 0


@pytest.mark.parametrize(
    "files",
    [
        {"memory.max": "nonsense", "memory.current": "1"},
        {"memory.max": "1000"},
        {"memory.max": "1000", "memory.current": ""},
    ],
)
def test_a_limit_that_cannot_be_read_is_none(
    files: Mapping[str, str], groups: ControlGroups
) -> None:
    groups.put("", files)
    assert available_memory_bytes() == 100 * GIB


def test_the_group_with_the_least_left_counts(groups: ControlGroups) -> None:
    groups.own.write_text("0::/a/b\n")
    groups.put("a/b", {"memory.max": f"{4 * GIB}", "memory.current": f"{GIB}"})
    groups.put("a", {"memory.max": f"{6 * GIB}", "memory.current": f"{5 * GIB}"})
    assert available_memory_bytes() == GIB


# ---------------------------------------------------------------------------------- power


@pytest.mark.parametrize(
    ("battery", "power"),
    [
        (None, None),
        (SimpleNamespace(power_plugged=None, percent=50), None),
        (SimpleNamespace(power_plugged=True, percent=50), "mains"),
        (SimpleNamespace(power_plugged=False, percent=50), "battery"),
    ],
)
def test_power(battery: object, power: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery, raising=False)
    assert power_source() == power


def test_power_on_a_system_that_knows_no_batteries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(psutil, "sensors_battery", raising=False)
    assert power_source() is None


@pytest.mark.parametrize(("told", "percent"), [(76, 76.0), (103, 100.0), (-1, 0.0)])
def test_the_charge_of_a_battery_lies_within_its_bounds(
    told: int, percent: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    battery = SimpleNamespace(power_plugged=None, percent=told)
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery, raising=False)
    sample = WindowSampler().sample(None)
    assert (sample.power, sample.battery_percent) == (None, percent)


def test_a_battery_that_cannot_be_read_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError(19, "No such device")

    monkeypatch.setattr(psutil, "sensors_battery", broken, raising=False)
    assert power_source() is None


# -------------------------------------------------------------------------------- samples


class Core(NamedTuple):
    """A core's clocks as Linux has them, in seconds; `user` contains `guest`."""

    user: float = 0.0
    system: float = 0.0
    idle: float = 0.0
    iowait: float = 0.0
    guest: float = 0.0


class Child:
    """A process that psutil would find: its CPU time is set, and whether it is still itself."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.cpu_s = 0.0
        self.rss = 3 * GIB
        self.running = True

    def is_running(self) -> bool:
        return self.running

    def cpu_times(self) -> SimpleNamespace:
        return SimpleNamespace(user=self.cpu_s, system=0.0)

    def memory_info(self) -> SimpleNamespace:
        return SimpleNamespace(rss=self.rss)


class Clocks:
    """A machine whose clocks are set by hand, and a sampler on it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 50.0
        self.cores = [Core(), Core()]
        self.own = Child(1)
        self.children: dict[int, Child] = {}
        monkeypatch.setattr(machine, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(psutil, "cpu_times", lambda **_options: list(self.cores))
        monkeypatch.setattr(psutil, "Process", self._process)
        self.sampler = WindowSampler()

    def _process(self, pid: int | None = None) -> Child:
        if pid is None:
            return self.own
        if pid not in self.children:
            raise psutil.NoSuchProcess(pid)
        return self.children[pid]

    def sample(
        self, seconds: float, *cores: Core, own_s: float = 0.0, pid: int | None = None
    ) -> WindowSample:
        """A sample after so many seconds, in which the cores and this process did so much."""
        self.now_s += seconds
        self.cores = [
            Core(*(old + new for old, new in zip(before, core, strict=True)))
            for before, core in zip(self.cores, cores, strict=True)
        ]
        self.own.cpu_s += own_s
        return self.sampler.sample(pid)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


def test_shares_are_of_the_time_since_the_sample_before(clocks: Clocks) -> None:
    first = clocks.sample(1.0, Core(idle=1), Core(idle=1))
    assert (first.ui_cpu_percent, first.cpu_percent, first.core_percent) == (None, None, ())
    assert (first.engine_cpu_percent, first.others_cpu_percent) == (None, None)
    # In 10 s one core was busy for 3 + 1 s and the other for none; 0.25 s were this process's.
    second = clocks.sample(10.0, Core(3, 1, 6), Core(idle=9, iowait=1), own_s=0.25)
    assert second.ui_cpu_percent == pytest.approx(2.5)
    assert second.core_percent == pytest.approx((40.0, 0.0))
    assert second.cpu_percent == pytest.approx(20.0)
    assert second.engine_cpu_percent is None
    assert second.others_cpu_percent == pytest.approx(37.5)
    # In 0.4 s a tick of the clock would be a share of 2.5 %: there is none.
    third = clocks.sample(0.4, Core(0.4), Core(idle=0.4), own_s=0.01)
    assert (third.ui_cpu_percent, third.cpu_percent, third.core_percent) == (None, None, ())
    assert third.others_cpu_percent is None


def test_what_engine_and_window_did_not_do_others_did(clocks: Clocks) -> None:
    child = clocks.children[7] = Child(7)
    clocks.sample(1.0, Core(idle=1), Core(idle=1), pid=7)
    child.cpu_s += 2.4
    # Of 4 s of two cores, 3.6 s were busy: 2.4 s the engine, 0.1 s the window, 1.1 s others.
    sample = clocks.sample(2.0, Core(2), Core(1.5, 0.1, 0.4), own_s=0.1, pid=7)
    assert sample.engine_cpu_percent == pytest.approx(120.0)
    assert sample.ui_cpu_percent == pytest.approx(5.0)
    assert sample.others_cpu_percent == pytest.approx(55.0)
    assert sample.engine_rss_bytes == 3 * GIB
    assert sample.ui_rss_bytes == 3 * GIB


def test_nothing_is_less_than_none(clocks: Clocks) -> None:
    child = clocks.children[7] = Child(7)
    clocks.sample(1.0, Core(idle=1), Core(idle=1), pid=7)
    child.cpu_s += 1.01
    # The engine's clock is finer than the cores', and one core was idle longer than it was there.
    sample = clocks.sample(1.0, Core(1.0), Core(-0.01, 0.0, 1.01), pid=7)
    assert sample.engine_cpu_percent == pytest.approx(101.0)
    assert str(sample.others_cpu_percent) == "0.0"
    assert sample.core_percent == pytest.approx((100.0, 0.0))
    assert str(sample.core_percent[1]) == "0.0"


def test_a_guests_time_counts_once(clocks: Clocks) -> None:
    clocks.sample(1.0, Core(idle=1), Core(idle=1))
    sample = clocks.sample(1.0, Core(user=0.5, idle=0.5, guest=0.5), Core(idle=1))
    assert sample.core_percent == pytest.approx((50.0, 0.0))
    assert sample.others_cpu_percent == pytest.approx(50.0)


def test_an_engine_that_came_or_went_in_between_leaves_others_unknown(clocks: Clocks) -> None:
    busy, idle = Core(1.0), Core(idle=1.0)
    clocks.sample(1.0, idle, idle)
    child = clocks.children[7] = Child(7)
    child.cpu_s = 1.0
    came = clocks.sample(1.0, busy, idle, pid=7)
    assert (came.engine_cpu_percent, came.others_cpu_percent) == (None, None)
    assert came.engine_rss_bytes == 3 * GIB
    child.cpu_s += 1.0
    assert clocks.sample(1.0, busy, idle, pid=7).others_cpu_percent == pytest.approx(0.0)
    child.running = False
    went = clocks.sample(1.0, busy, idle, pid=7)
    assert (went.engine_cpu_percent, went.others_cpu_percent) == (None, None)
    gone = clocks.sample(1.0, busy, idle, pid=7)
    assert gone.others_cpu_percent == pytest.approx(100.0)


@pytest.mark.parametrize("end", ["reused", "waits to be collected", "collected"])
def test_a_child_that_is_gone_has_no_figures(end: str, clocks: Clocks) -> None:
    child = clocks.children[7] = Child(7)
    clocks.sample(1.0, Core(idle=1), Core(idle=1), pid=7)
    match end:
        case "reused":
            child.running = False
        case "waits to be collected":
            child.rss = 0
        case _:
            clocks.children.clear()
            clocks.sampler.sample(None)
    sample = clocks.sample(1.0, Core(idle=1), Core(idle=1), pid=7)
    assert (sample.engine_cpu_percent, sample.engine_rss_bytes) == (None, None)


def test_a_new_child_is_looked_at_afresh(clocks: Clocks) -> None:
    clocks.children = {7: Child(7), 8: Child(8)}
    clocks.children[8].cpu_s = 40.0
    idle = Core(idle=1)
    clocks.sample(1.0, idle, idle, pid=7)
    assert clocks.sample(1.0, idle, idle, pid=8).engine_cpu_percent is None
    clocks.children[8].cpu_s += 0.5
    assert clocks.sample(1.0, Core(0.5), idle, pid=8).engine_cpu_percent == pytest.approx(50.0)


def test_a_core_that_comes_or_goes_leaves_no_comparison(clocks: Clocks) -> None:
    clocks.sample(1.0, Core(idle=1), Core(idle=1))
    clocks.cores = [Core()]
    sample = clocks.sample(1.0, Core(idle=1), own_s=0.5)
    assert (sample.cpu_percent, sample.core_percent, sample.others_cpu_percent) == (None, (), None)
    assert sample.ui_cpu_percent == pytest.approx(50.0)


@pytest.mark.parametrize(
    ("told", "clock"),
    [
        (SimpleNamespace(current=2596.12), 2596.12),
        (SimpleNamespace(current=0.0), None),
        (SimpleNamespace(current=3.2), None),
        (SimpleNamespace(current=3_200_000.0), None),
        (None, None),
        (NotImplementedError("can't find current frequency file"), None),
        (FileNotFoundError(2, "No such file"), None),
    ],
)
def test_the_clock_is_what_the_system_tells_if_it_can_be(
    told: object, clock: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cpu_freq() -> object:
        if isinstance(told, Exception):
            raise told
        return told

    monkeypatch.setattr(psutil, "cpu_freq", cpu_freq)
    assert WindowSampler().sample(None).clock_mhz == clock


def test_a_figure_that_is_dear_to_read_is_read_less_often(
    clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent_s = 0.0
    read_at: list[float] = []

    def dear() -> SimpleNamespace:
        nonlocal spent_s
        spent_s += 0.002
        read_at.append(clocks.now_s)
        return SimpleNamespace(current=1000.0 + len(read_at))

    monkeypatch.setattr(machine, "thread_time", lambda: spent_s)
    monkeypatch.setattr(psutil, "cpu_freq", dear)
    idle = Core(idle=1)
    told = [clocks.sample(1.0, idle, idle).clock_mhz for _ in range(9)]
    # 2 ms are half a thousandth of 4 s.
    assert told == [1001.0] * 4 + [1002.0] * 4 + [1003.0]
    assert read_at == [51.0, 55.0, 59.0]


def test_a_sample_of_this_machine(tmp_path: Path) -> None:
    sampler = WindowSampler()
    sampler.sample(os.getpid())
    deadline = monotonic() + 2 * machine.SHORTEST_S
    while monotonic() < deadline:
        tmp_path.exists()
    sample = sampler.sample(os.getpid())
    assert len(sample.core_percent) == psutil.cpu_count()
    assert all(0 <= load <= 100 for load in sample.core_percent)
    assert sample.engine_cpu_percent == pytest.approx(sample.ui_cpu_percent, rel=0.05)
    assert sample.engine_rss_bytes is not None
    assert sample.engine_rss_bytes > 1 << 20
    assert sample.available_bytes is not None
    assert sample.memory_bytes is not None
    assert 0 < sample.available_bytes <= sample.memory_bytes


def test_a_process_that_never_was_has_no_figures() -> None:
    sample = WindowSampler().sample(2**22 + 1)
    assert (sample.engine_rss_bytes, sample.engine_cpu_percent) == (None, None)


def test_a_child_that_ended_has_no_memory() -> None:
    command = [sys.executable, "-c", "print('up', flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == b"up"
        sampler = WindowSampler()
        alive = sampler.sample(child.pid).engine_rss_bytes
        assert alive is not None
        assert alive > 1 << 20
        child.kill()
        # It waits to be collected until its end is asked for.
        deadline = monotonic() + 10
        while sampler.sample(child.pid).engine_rss_bytes is not None:
            assert monotonic() < deadline
        child.wait()
        assert sampler.sample(child.pid).engine_rss_bytes is None
