"""The configuration keys of topics and brokers, and where their values come from."""
