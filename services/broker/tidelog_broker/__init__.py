"""The broker: partition replicas on its disk, led and followed, served over gRPC."""
