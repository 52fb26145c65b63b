"""Everything that runs a model and measures it; knows nothing of the window."""
