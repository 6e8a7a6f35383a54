"""The group coordinator: consumer groups and their offsets."""
