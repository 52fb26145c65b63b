"""What several unit tests stand on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from backend.history import History

# How long an example takes is the machine's affair, which others may be using at the same time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """A fresh store in `chats.db` of the test's own folder."""
    store = History(tmp_path / "chats.db")
    yield store
    store.close()
