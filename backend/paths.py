"""Where a user's data and logs are, on every system."""

import os
from pathlib import Path

import platformdirs

APP = "phasescope"

DATA_VARIABLE = "PHASESCOPE_DATA_DIR"
"""Environment variable that moves all data, logs and settings to one folder."""

SETTINGS_VARIABLE = "PHASESCOPE_SETTINGS"
"""Environment variable that names another settings file."""


def at_home(typed: str) -> Path:
    """A path with the home folder for `~`; as it is where there is no such user."""
    return Path(os.path.expanduser(typed))  # noqa: PTH111 (Path's own raises)


def data_dir() -> Path:
    """Folder of the chats; made if it is not there."""
    moved = os.environ.get(DATA_VARIABLE)
    folder = Path(moved) if moved else platformdirs.user_data_path(APP, appauthor=False)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def log_dir() -> Path:
    """Folder of the engine's logs; an engine makes it when it starts."""
    moved = os.environ.get(DATA_VARIABLE)
    return Path(moved) / "log" if moved else platformdirs.user_log_path(APP, appauthor=False)


def database_path() -> Path:
    """The SQLite file with all chats and turn records."""
    return data_dir() / "chats.db"


def settings_path() -> Path:
    """The settings file, which need not be there."""
    named = os.environ.get(SETTINGS_VARIABLE)
    if named:
        return at_home(named)
    moved = os.environ.get(DATA_VARIABLE)
    folder = Path(moved) if moved else platformdirs.user_config_path(APP, appauthor=False)
    return folder / "settings.toml"
