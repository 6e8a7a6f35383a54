"""The schema between services, generated from proto/tidelog_runtime (`make gen`)."""
