"""What all tests stand on."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _data_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """No test reads or writes the chats and settings of whoever runs it."""
    folder = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("PHASESCOPE_DATA_DIR", str(folder))
    return folder
