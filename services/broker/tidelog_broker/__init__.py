"""The broker: partition replicas on its disk, led and followed, served over gRPC."""

from tidelog.records import COMPILED

__all__ = ["COMPILED"]
