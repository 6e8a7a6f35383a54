"""What every Tidelog service stands on: ports and adapters, metadata store, serving, lifecycle, config, metrics."""
