"""Where a reader stands in each partition, and what it notes of what it is shown."""

from __future__ import annotations

from dataclasses import dataclass

from simulation.history import History, LogKey, Read
from tidelog.errors import TidelogError
from tidelog.records.decoder import decode_records
from tidelog.wire.v1 import fetch_pb2


@dataclass(slots=True)
class Position:
    """One reader in one partition. A seek begins a new session; a reconnect does not."""

    topic: str
    log: LogKey
    session: int
    offset: int = 0
    #: Reading begins at the log's start, wherever that is by now.
    is_reset: bool = True
    is_dead: bool = False
    not_before_s: float = 0.0

    def seek(self, offset: int, session: int) -> None:
        """Go on elsewhere."""
        self.offset, self.session = offset, session

    def request(self, max_bytes: int = 0) -> fetch_pb2.FetchPartition:
        """The words for it on the wire."""
        return fetch_pb2.FetchPartition(
            topic=self.topic,
            topic_id=self.log.topic_id,
            partition=self.log.partition,
            session=self.session,
            fetch_offset=self.offset,
            max_bytes=max_bytes,
        )


class Notebook:
    """Writes what a reader sees into the history."""

    def __init__(self, reader: str, history: History) -> None:
        self._reader = reader
        self._history = history

    def note(self, position: Position, answer: fetch_pb2.PartitionRecords, begun_s: float) -> None:
        """Take the records of one answer, and move on behind them."""
        log, session = position.log, position.session
        try:
            records = decode_records(
                answer.records, position.topic, log.partition, start_offset=position.offset
            )
        except TidelogError as error:
            self.anomaly(f"was given bytes of {log} that are no records: {error}")
            return
        if answer.records and (not records or records[0].offset != position.offset):
            self.anomaly(f"asked {log} for {position.offset} and was given something else")
        for record in records:
            if record.value is None:
                self.anomaly(f"was shown a record without a value at {record.offset} of {log}")
                continue
            self._history.reads.append(
                Read(
                    log,
                    self._reader,
                    session,
                    record.offset,
                    record.value,
                    answer.high_watermark,
                    begun_s,
                )
            )
            position.offset = record.offset + 1

    def anomaly(self, text: str) -> None:
        """No correct broker does this."""
        self._history.anomalies.append(f"{self._reader} {text}")
