"""Pipelines: sources, views in SQL and sinks in one file, run by `tidelog streams`."""
