"""Writes the golden batches anew: `python tests/contract/golden/make_golden.py`.

They were made once, by the versions that pyproject.toml names, and stay as they are: a codec that
can no longer read them has lost what lies on somebody's disk.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> None:
    """One file for each client and compression, ours included."""
    sys.path.insert(0, str(HERE.parent.parent))
    from support.kafka_codecs import PEERS, SAMPLES, peer_batch
    from tidelog.records.builder import BatchBuilder
    from tidelog.records.compression import Compression

    builder = BatchBuilder(1 << 20)
    for sample in SAMPLES:
        assert builder.append(sample.value, sample.key, sample.headers, sample.timestamp)
    for codec in Compression:
        name = codec.name.lower()
        for peer in PEERS:
            (HERE / f"{peer}-{name}.batch").write_bytes(peer_batch(peer, SAMPLES, codec))
        (HERE / f"tidelog-{name}.batch").write_bytes(builder.build(codec))


if __name__ == "__main__":
    main()
