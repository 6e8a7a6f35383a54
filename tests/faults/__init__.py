"""Faults for real processes."""
