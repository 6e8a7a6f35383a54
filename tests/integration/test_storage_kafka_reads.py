"""Segment files are plain record batches: other people's decoders read them as they lie."""

from __future__ import annotations

from pathlib import Path

import pytest
from storage_kit.batches import batch, header_of
from storage_kit.directories import NOW_MS, open_directory, open_log

from support.kafka_codecs import PEERS, peer_records
from tidelog.records.compression import Compression
from tidelog_broker.storage import LogConfig
from tidelog_runtime.adapters.local_disk import LocalDisk


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("peer", sorted(PEERS))
def test_segment_files_are_read_by_other_decoders(
    tmp_path: Path, peer: str, compression: Compression
) -> None:
    directory = open_directory(LocalDisk(tmp_path))
    log = open_log(directory, LogConfig(segment_bytes=1500))
    expected = []
    for number in range(40):
        values = [b"%d-%d " % (number, one) * 10 for one in range(number % 4 + 1)]
        content = batch(*values, timestamp=1000 + number, compression=compression)
        log.append(content, header_of(content), leader_epoch=3, now_ms=NOW_MS)
        expected += values
    directory.close()
    found = []
    for path in sorted(tmp_path.glob("topics/*/0/*.log")):
        content = path.read_bytes()
        position = 0
        while position < len(content):
            # A batch's length counts from behind its first twelve bytes.
            size = 12 + int.from_bytes(content[position + 8 : position + 12], "big")
            records = peer_records(peer, content[position : position + size])
            found += [(offset, sample.value) for offset, sample in records]
            position += size
    assert found == list(enumerate(expected))
