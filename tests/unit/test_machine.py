"""What the machine offers: control groups, cores and power."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from backend import machine
from backend.machine import WindowSampler, available_memory_bytes, power_source, usable_cores

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
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=100 * GIB))
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
        (SimpleNamespace(power_plugged=None), None),
        (SimpleNamespace(power_plugged=True), "mains"),
        (SimpleNamespace(power_plugged=False), "battery"),
    ],
)
def test_power(battery: object, power: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery, raising=False)
    assert power_source() == power


def test_power_on_a_system_that_knows_no_batteries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(psutil, "sensors_battery", raising=False)
    assert power_source() is None


# -------------------------------------------------------------------------------- samples


def test_shares_are_of_the_time_since_the_sample_before(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cores(tuple[float, float, float]):
        @property
        def idle(self) -> float:
            return self[2]

    own = iter([(1.0, 0.5), (1.2, 0.55), (1.21, 0.55), (1.71, 0.55)])
    cores = iter(
        [
            Cores((10, 10, 100)),
            Cores((13, 11, 116)),
            Cores((13.01, 11, 116)),
            Cores((13.0, 11, 117)),
        ]
    )
    monkeypatch.setattr(machine, "monotonic", iter([50.0, 60.0, 60.4, 61.0]).__next__)
    monkeypatch.setattr(psutil, "cpu_times", lambda: next(cores))
    sampler = WindowSampler()

    class Process:
        def cpu_times(self) -> SimpleNamespace:
            user, system = next(own)
            return SimpleNamespace(user=user, system=system)

    sampler._process = Process()  # type: ignore[assignment]
    first, second, third, fourth = (sampler.sample(None) for _ in range(4))
    assert (first.ui_cpu_percent, first.cpu_percent) == (None, None)
    # 0.25 s of 10 s; of 20 s of all cores 16 were idle.
    assert second.ui_cpu_percent == pytest.approx(2.5)
    assert second.cpu_percent == pytest.approx(20.0)
    # In 0.4 s a tick of the clock would be a share of 2.5 %: there is none.
    assert (third.ui_cpu_percent, third.cpu_percent) == (None, None)
    # Of 0.99 s of all cores 1 s was idle: no load is less than none.
    assert fourth.ui_cpu_percent == pytest.approx(0.5 / 0.6 * 100)
    assert str(fourth.cpu_percent) == "0.0"
    assert second.engine_rss_bytes is None


def test_the_memory_of_a_process_that_is_gone_is_unknown() -> None:
    sampler = WindowSampler()
    own = sampler.sample(os.getpid()).engine_rss_bytes
    assert own is not None
    assert own > 1 << 20
    assert sampler.sample(2**22 + 1).engine_rss_bytes is None
