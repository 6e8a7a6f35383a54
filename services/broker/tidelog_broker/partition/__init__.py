"""Partitions: what a leader decides (`core`), what it does, and who waits on it (`waiting`)."""
