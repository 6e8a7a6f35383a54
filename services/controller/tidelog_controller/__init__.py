"""The controller: topics, placement, leader choice, configs and ids of the cluster."""

from tidelog_controller.controller import Controller

__all__ = ["Controller"]
