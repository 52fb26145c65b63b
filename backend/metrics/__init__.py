"""Timestamps in, figures out: pure functions over the event stream."""
