"""The schema between services, generated from proto/tidelog_runtime/wire (see tools/gen_protos.py)."""
