"""Benchmarks of Tidelog: `make bench` runs them all; docs/performance.md keeps the figures."""
