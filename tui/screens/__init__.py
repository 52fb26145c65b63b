"""The window's screens."""
