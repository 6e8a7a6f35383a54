"""Scenarios: what runs in a simulated world, and what must hold while it does."""
