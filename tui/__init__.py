"""The terminal window and the command line."""
