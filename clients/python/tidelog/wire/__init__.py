"""The public wire schema, generated from proto/tidelog/wire (see tools/gen_protos.py)."""
