"""The controller: topics, placement, leader choice, configs and ids of the cluster."""
