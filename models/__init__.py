"""Model files: finding, recognising and reading them, and the memory that they need."""
