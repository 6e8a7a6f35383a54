"""What a running node writes, kafka-python and aiokafka read: keys, headers, times and all.

Both ways: their batches are taken as they are, and what lies in the segment files is theirs again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.nodes import LiveNode, run_on_node
from support.kafka_codecs import PEERS, SAMPLES, Sample, peer_batch, peer_records
from tidelog.records.batch import batch_headers
from tidelog.records.builder import BatchBuilder
from tidelog.records.compression import Compression

COPIES = 3


def our_batch(samples: list[Sample], compression: Compression) -> bytes:
    """The batch that our codec builds of these records."""
    builder = BatchBuilder(64 << 20)
    for sample in samples:
        assert builder.append(sample.value, sample.key, sample.headers, sample.timestamp)
    return builder.build(compression)


def segment_batches(data_dir: Path) -> list[bytes]:
    """Every batch in the segment files, as it lies there."""
    found = []
    for path in sorted(data_dir.glob("topics/*/0/*.log")):
        content, position = path.read_bytes(), 0
        for header in batch_headers(content, whole=True):
            found.append(content[position : position + header.size])
            position += header.size
    return found


@pytest.mark.parametrize("stamps", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("compression", list(Compression), ids=lambda one: one.name.lower())
def test_other_decoders_read_what_a_node_has_written(
    tmp_path: Path, compression: Compression, stamps: str
) -> None:
    async def scenario(node: LiveNode) -> None:
        await node.client.create("orders", configs={"message.timestamp.type": stamps})
        sent = [our_batch(SAMPLES, compression) for _ in range(COPIES)]
        sent += [peer_batch(peer, SAMPLES, int(compression)) for peer in sorted(PEERS)]
        for content in sent:
            ack = await node.client.produce("orders", content)
            assert not ack.HasField("error"), ack.error
        stored = segment_batches(node.data_dir)
        assert len(stored) == len(sent)
        for peer in PEERS:
            found = [record for content in stored for record in peer_records(peer, content)]
            assert [offset for offset, _ in found] == list(range(len(sent) * len(SAMPLES)))
            samples = [sample for _, sample in found]
            if stamps == "LogAppendTime":
                assert len({sample.timestamp for sample in samples}) <= len(sent)
                samples = [
                    Sample(original.timestamp, *sample[1:])
                    for original, sample in zip(SAMPLES * len(sent), samples, strict=True)
                ]
            assert samples == SAMPLES * len(sent)
        ours = await node.client.fetch_all("orders")
        assert [(record.key, record.value, list(record.headers)) for record in ours] == [
            sample[1:] for sample in SAMPLES * len(sent)
        ]

    run_on_node(tmp_path / "data", scenario)
