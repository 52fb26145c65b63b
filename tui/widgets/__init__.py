"""What the window is put together from."""
