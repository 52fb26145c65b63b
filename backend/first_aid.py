"""First aid: what keeps phasescope from working well on this machine, and what to do about it.

What is wrong and what to do are a sentence each. What the machine shows is gathered apart from
what follows from it.
"""

import platform
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import msgspec

from backend.protocol import EngineStarted

ENGINE_PACKAGE = "llama-cpp-python"

OWN_MEMORY = 4 << 30
"""Bytes of its own from which an AMD GPU counts as one: processors' graphics have less."""

AMD, INTEL = "0x1002", "0x8086"
"""PCI vendors."""


class Advice(NamedTuple):
    """Something that is wrong.

    Attributes:
        name: Short and lasting, to remember that it was said.
        wrong: What is wrong, in a sentence.
        remedy: What to do, in another.
    """

    name: str
    wrong: str
    remedy: str

    @property
    def sentence(self) -> str:
        """Both, as an error says them."""
        wrong, remedy = self.wrong, self.remedy
        return f"{wrong[0].lower()}{wrong[1:].rstrip('.')}; {remedy[0].lower()}{remedy[1:]}"


class Installation(NamedTuple):
    """How phasescope got here.

    Attributes:
        installer: The command that installs packages beside it.
        source: What to name to the installer to have phasescope again.
        editable: It runs from its sources where they are.
        windows: The commands are for PowerShell.
    """

    installer: str
    source: str
    editable: bool = False
    windows: bool = False

    def starter_command(self) -> str:
        """Installs the starter model."""
        wanted = f"{self.source}[starter]"
        named = f"'{wanted}'" if self.windows else quote(wanted)
        return f"{self.installer} {'-e ' if self.editable else ''}{named}"

    def engine_command(self, option: str, engine_version: str) -> str:
        """Compiles the engine with an option of its build."""
        reinstall = (
            f"{self.installer} --force-reinstall --no-deps --no-cache-dir "
            f"{ENGINE_PACKAGE}=={engine_version}"
        )
        if self.windows:
            return f'$env:CMAKE_ARGS="-D{option}=on"; {reinstall}'
        return f'CMAKE_ARGS="-D{option}=on" {reinstall}'


class _FolderFacts(msgspec.Struct, frozen=True):
    """On a folder that something was installed from."""

    editable: bool = False


class _Origin(msgspec.Struct, frozen=True):
    """The part of `direct_url.json` (PEP 610) that is of use."""

    url: str = ""
    dir_info: _FolderFacts = _FolderFacts()


class Graphics(NamedTuple):
    """GPUs worth computing on that the system shows, by what llama.cpp is built with for them."""

    nvidia: bool = False
    amd: bool = False
    intel: bool = False
    apple: bool = False


BUILDS = (
    # Graphics' attribute, how it is called, the option of the build, what that needs.
    ("nvidia", "an NVIDIA GPU", "GGML_CUDA", "the CUDA toolkit"),
    ("amd", "an AMD GPU", "GGML_HIP", "ROCm"),
    ("intel", "an Intel GPU", "GGML_VULKAN", "the Vulkan SDK"),
    ("apple", "a GPU of Apple's", "GGML_METAL", "Xcode's command line tools"),
)


def no_model(installation: Installation, *, in_window: bool) -> Advice:
    """There is no model to load: neither one of the user's nor the starter.

    Args:
        installation: How phasescope got here.
        in_window: It is said in the window, which stays open.
    """
    again, name = (" and press F5", "/model PATH") if in_window else ("", "-m PATH")
    return Advice(
        "no model",
        "There is no model yet.",
        f"Install the starter (98 MB) with {installation.starter_command()}{again}, or name a GGUF "
        f"file with {name}",
    )


def unused_gpu(
    graphics: Graphics,
    installation: Installation,
    engine_version: str,
    *,
    gpu_offload: bool,
    finds_gpu: bool,
) -> Advice | None:
    """A GPU that llama.cpp does not compute on; None if there is none, or it does.

    Args:
        graphics: GPUs that the system shows.
        installation: How phasescope got here.
        engine_version: Of the engine's package.
        gpu_offload: This build of llama.cpp can compute on a GPU.
        finds_gpu: llama.cpp finds one.
    """
    found = next((each for each in BUILDS if getattr(graphics, each[0])), None)
    if found is None or finds_gpu:
        return None
    _, called, option, needs = found
    if gpu_offload:
        return Advice(
            "gpu not found",
            f"There is {called}, but llama.cpp does not find it.",
            "Look whether its driver runs and whether you may use it; a build for another GPU has "
            f"to be compiled again: {installation.engine_command(option, engine_version)}",
        )
    return Advice(
        "gpu not used",
        f"There is {called}, but this build of llama.cpp computes on the processor alone.",
        f"Compile it for the GPU, with {needs} installed: "
        f"{installation.engine_command(option, engine_version)}",
    )


def unused_gpu_here(started: EngineStarted) -> Advice | None:
    """A GPU of this machine that the engine that has started does not compute on."""
    from importlib.metadata import version  # noqa: PLC0415 (slow to import, seldom needed)

    finds_gpu = any(device.kind in ("gpu", "igpu") for device in started.device_facts)
    graphics = Graphics() if finds_gpu else look_for_graphics()
    if not any(graphics):
        return None
    return unused_gpu(
        graphics,
        installation_here(),
        version(ENGINE_PACKAGE),
        gpu_offload=started.gpu_offload,
        finds_gpu=finds_gpu,
    )


def no_model_here(*, in_window: bool) -> Advice:
    """`no_model` for this installation."""
    return no_model(installation_here(), in_window=in_window)


def look_for_graphics(
    root: Path = Path("/"),
    *,
    system: str = sys.platform,
    processor: str | None = None,
    nvidia_smi: bool | None = None,
) -> Graphics:
    """The GPUs that the system shows in its files.

    Graphics that are a part of the processor are none: their memory is the processor's, and
    decode would be no faster.

    Args:
        root: Where the files of the system are.
        system: As `sys.platform`.
        processor: As `platform.machine()`; None: ask.
        nvidia_smi: NVIDIA's tool is there; None: look for it.
    """
    if system == "darwin":
        return Graphics(apple=(processor or platform.machine()) == "arm64")
    if nvidia_smi is None:
        nvidia_smi = shutil.which("nvidia-smi") is not None
    cards = _cards(root)
    amd = [card for card in cards if _text(card / "vendor") == AMD]
    return Graphics(
        nvidia=nvidia_smi or bool(_entries(root / "proc/driver/nvidia/gpus")),
        amd=(root / "dev/kfd").exists() and any(_has_own_memory(card) for card in amd),
        intel=any(_text(card / "vendor") == INTEL and _is_on_a_bus(card) for card in cards),
    )


def _cards(root: Path) -> list[Path]:
    """The folders of the PCI devices that draw."""
    entries = _entries(root / "sys/class/drm")
    return [each / "device" for each in entries if each.name.removeprefix("card").isdecimal()]


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _has_own_memory(card: Path) -> bool:
    """Whether an AMD GPU has memory of its own, or does not tell."""
    told = _text(card / "mem_info_vram_total")
    return not told.isdecimal() or int(told) >= OWN_MEMORY


def _is_on_a_bus(card: Path) -> bool:
    """Whether a PCI device is behind a bridge, as cards are; a processor's own is on bus 0."""
    parts = card.resolve().name.split(":")
    return len(parts) == 3 and parts[1] != "00"


def installation_here() -> Installation:
    """How phasescope was installed here."""
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415

    windows = sys.platform == "win32"
    python = f"& '{sys.executable}'" if windows else quote(sys.executable)
    if find_spec("pip") is not None:
        installer = f"{python} -m pip install"
    elif shutil.which("uv") is not None:
        target = f"'{sys.executable}'" if windows else python
        installer = f"uv pip install --python {target}"
    else:
        installer = "pip install"
    try:
        told = distribution("phasescope").read_text("direct_url.json")
    except PackageNotFoundError:
        told = None
    source, editable = source_of(told)
    return Installation(installer, source, editable, windows)


def source_of(direct_url: str | None) -> tuple[str, bool]:
    """The folder that phasescope was installed from, and whether it runs from there.

    Args:
        direct_url: What the installer noted (PEP 610); None: nothing.

    Returns:
        The folder; the name `phasescope` if it was none, or is gone.
    """
    from urllib.parse import urlsplit  # noqa: PLC0415
    from urllib.request import url2pathname  # noqa: PLC0415

    try:
        origin = msgspec.json.decode(direct_url or "{}", type=_Origin)
        url = urlsplit(origin.url)
    except (msgspec.DecodeError, ValueError):
        return "phasescope", False
    folder = Path(url2pathname(url.path)) if url.scheme == "file" else None
    if folder is None or not folder.is_dir():
        return "phasescope", False
    return str(folder), origin.dir_info.editable
