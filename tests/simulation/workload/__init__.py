"""What clients do to the node under test: produce, read, create, delete and trim."""
