"""What every Tidelog service stands on.

Ports and adapters, the metadata store, serving, lifecycle, configuration and metrics.
"""
