"""The group coordinator: consumer groups and their offsets."""

from tidelog_group_coordinator.coordinator import GroupCoordinator

__all__ = ["GroupCoordinator"]
