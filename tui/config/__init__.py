"""The user's settings: one typed object out of a file, the environment and flags."""
