"""First aid: what follows from what a machine shows."""

import json
from pathlib import Path

import pytest

from backend.first_aid import (
    Advice,
    Graphics,
    Installation,
    installation_here,
    look_for_graphics,
    no_model,
    source_of,
    unused_gpu,
)
from backend.history import History
from backend.session.stored import StoredChats
from backend.store import StoreWriter

HERE = Installation(".venv/bin/python -m pip install", "/src/phasescope")


def advice(
    graphics: Graphics, *, gpu_offload: bool = False, finds_gpu: bool = False
) -> Advice | None:
    return unused_gpu(graphics, HERE, "0.3.36", gpu_offload=gpu_offload, finds_gpu=finds_gpu)


def card(root: Path, name: str, vendor: str, slot: str, vram: int | None = None) -> None:
    """A PCI device that draws, as Linux shows it."""
    device = root / "sys/devices" / slot
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n")
    if vram is not None:
        (device / "mem_info_vram_total").write_text(f"{vram}\n")
    drm = root / "sys/class/drm"
    (drm / name).mkdir(parents=True)
    (drm / name / "device").symlink_to(device)


def look(root: Path) -> Graphics:
    return look_for_graphics(root, system="linux", nvidia_smi=False)


def test_without_a_model_the_window_names_the_starter_and_its_own_way_to_a_file() -> None:
    said = no_model(HERE, in_window=True).sentence
    assert ".venv/bin/python -m pip install '/src/phasescope[starter]'" in said
    assert "F5" in said
    assert "/model PATH" in said
    assert "-m PATH" in no_model(HERE, in_window=False).sentence
    assert "F5" not in no_model(HERE, in_window=False).sentence


def test_an_editable_installation_stays_one() -> None:
    command = HERE._replace(editable=True).starter_command()
    assert command.endswith("pip install -e '/src/phasescope[starter]'")


def test_a_checkout_is_installed_again_from_where_it_is(tmp_path: Path) -> None:
    def noted(folder: Path, info: dict[str, object]) -> str:
        return json.dumps({"url": folder.as_uri(), "dir_info": info})

    spaced = tmp_path / "my checkout"
    spaced.mkdir()
    assert source_of(noted(tmp_path, {"editable": True})) == (str(tmp_path), True)
    assert source_of(noted(spaced, {})) == (str(spaced), False)
    assert source_of(noted(tmp_path / "gone", {})) == ("phasescope", False)


@pytest.mark.parametrize(
    "direct_url",
    [None, "", "{", "[]", '{"url": 3}', '{"url": "https://example.org/phasescope.whl"}'],
)
def test_without_a_folder_the_name_is_installed(direct_url: str | None) -> None:
    assert source_of(direct_url) == ("phasescope", False)


def test_what_was_said_once_is_not_said_again(tmp_path: Path) -> None:
    history = History(tmp_path / "chats.db")
    for first in (True, False, False):
        store = StoreWriter(history.path)
        assert StoredChats(history, store).first_time("gpu not used") == first
        store.close(5.0)
    history.close()


def test_this_installation_can_be_named() -> None:
    assert "[starter]" in installation_here().starter_command()


@pytest.mark.parametrize(
    ("graphics", "option"),
    [
        (Graphics(nvidia=True), "GGML_CUDA"),
        (Graphics(amd=True), "GGML_HIP"),
        (Graphics(intel=True), "GGML_VULKAN"),
        (Graphics(apple=True), "GGML_METAL"),
        (Graphics(nvidia=True, intel=True), "GGML_CUDA"),
    ],
)
def test_a_build_for_the_processor_alone_is_told_of_the_gpu(
    graphics: Graphics, option: str
) -> None:
    said = advice(graphics)
    assert said is not None
    assert said.remedy.endswith(
        f'CMAKE_ARGS="-D{option}=on" .venv/bin/python -m pip install --force-reinstall --no-deps '
        "--no-cache-dir llama-cpp-python==0.3.36"
    )


def test_a_gpu_that_is_used_or_not_there_needs_no_word() -> None:
    assert advice(Graphics()) is None
    assert advice(Graphics(nvidia=True), gpu_offload=True, finds_gpu=True) is None


def test_a_gpu_that_a_fitting_build_does_not_find_is_another_matter() -> None:
    said = advice(Graphics(nvidia=True), gpu_offload=True)
    assert said is not None
    assert said.name != getattr(advice(Graphics(nvidia=True)), "name", None)
    assert "driver" in said.remedy


def test_powershell_takes_the_option_another_way() -> None:
    command = HERE._replace(windows=True).engine_command("GGML_CUDA", "0.3.36")
    assert command.startswith('$env:CMAKE_ARGS="-DGGML_CUDA=on"; ')


def test_nothing_is_seen_where_nothing_is(tmp_path: Path) -> None:
    assert look(tmp_path) == Graphics()


def test_nvidia_is_seen_by_its_driver_or_its_tool(tmp_path: Path) -> None:
    (tmp_path / "proc/driver/nvidia/gpus").mkdir(parents=True)
    assert not look(tmp_path).nvidia
    (tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0").mkdir()
    assert look(tmp_path).nvidia
    assert look_for_graphics(tmp_path / "no", system="win32", nvidia_smi=True).nvidia


@pytest.mark.parametrize(
    ("vram", "counts"), [(512 << 20, False), (2 << 30, False), (16 << 30, True), (None, True)]
)
def test_amd_counts_with_memory_of_its_own(tmp_path: Path, vram: int | None, counts: bool) -> None:
    card(tmp_path, "card0", "0x1002", "0000:03:00.0", vram)
    assert not look(tmp_path).amd
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kfd").touch()
    assert look(tmp_path).amd == counts


@pytest.mark.parametrize(("slot", "counts"), [("0000:00:02.0", False), ("0000:03:00.0", True)])
def test_graphics_in_an_intel_processor_do_not_count(
    tmp_path: Path, slot: str, counts: bool
) -> None:
    card(tmp_path, "card0", "0x8086", slot)
    assert look(tmp_path) == Graphics(intel=counts)


def test_connectors_of_a_card_are_no_cards(tmp_path: Path) -> None:
    card(tmp_path, "card0-HDMI-A-1", "0x8086", "0000:03:00.0")
    assert look(tmp_path) == Graphics()


@pytest.mark.parametrize(("processor", "counts"), [("arm64", True), ("x86_64", False)])
def test_of_macs_those_with_apples_processor_have_a_gpu(processor: str, counts: bool) -> None:
    found = look_for_graphics(system="darwin", processor=processor, nvidia_smi=True)
    assert found == Graphics(apple=counts)
