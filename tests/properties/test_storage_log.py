"""Whatever is done to a log, it agrees with a list of batches."""

from __future__ import annotations

import random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from storage_kit.batches import batch, header_of, headers
from storage_kit.crash_model import check_derived_state, check_gap_free, stored_batches
from storage_kit.directories import NOW_MS, open_directory, open_log

from simulation.disk import SimulatedDisk
from tidelog.records.batch import read_header
from tidelog_broker.storage import StorageConfig


class LogMachine(RuleBasedStateMachine):
    """A log beside a plain list."""

    @initialize(seed=st.integers(0, 1 << 32))
    def begin(self, seed: int) -> None:
        self.disk = SimulatedDisk(random.Random(seed))
        self.config = StorageConfig(free_bytes_min=0, snapshot_interval_bytes=800, max_open_files=2)
        self.directory = open_directory(self.disk, self.config)
        self.log = open_log(self.directory)
        self.model: list[tuple[int, int]] = []
        self.epoch = 0
        self.sequence = 0

    @rule(
        sizes=st.lists(st.integers(0, 120), min_size=1, max_size=4),
        timestamp=st.integers(0, 1000),
        idempotent=st.booleans(),
    )
    def append(self, sizes: list[int], timestamp: int, idempotent: bool) -> None:
        producer = (3, 0, self.sequence) if idempotent else (-1, -1, -1)
        content = batch(*(b"v" * size for size in sizes), timestamp=timestamp, producer=producer)
        base_offset = self.log.append(
            content, header_of(content), leader_epoch=self.epoch, now_ms=NOW_MS
        )
        self.model.append((base_offset, timestamp))
        assert self.log.log_end - base_offset == len(sizes)
        self.sequence += len(sizes) if idempotent else 0

    @rule()
    def commit(self) -> None:
        self.log.sync()
        self.log.high_watermark = self.log.durable_end
        self.directory.journal_ends()
        self.directory.volume.journal.sync()

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        span = self.log.log_end - self.log.log_start
        offset = self.log.log_start + int(share * span)
        self.log.truncate_to(offset, now_ms=NOW_MS)
        self.model = [one for one in self.model if one[0] < self.log.log_end]
        self.epoch += 1
        producers = self.log.body().load_producers(self.log.log_end, 0).summary()
        self.sequence = producers[3][1][-1][1] + 1 if 3 in producers else 0

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        span = self.log.high_watermark - self.log.log_start
        self.log.advance_log_start(self.log.log_start + int(share * span), now_ms=NOW_MS)

    @rule(cleanly=st.booleans())
    def restart(self, cleanly: bool) -> None:
        end = self.log.log_end
        if cleanly:
            self.directory.close()
        else:
            self.disk = self.disk.kill()
        self.directory = open_directory(self.disk, self.config)
        assert self.directory.was_clean is cleanly
        self.log = open_log(self.directory)
        assert self.log.log_end == end

    @rule(share=st.floats(0, 1), max_bytes=st.integers(1, 2000))
    def read(self, share: float, max_bytes: int) -> None:
        span = self.log.log_end - self.log.log_start
        offset = self.log.log_start + int(share * span)
        found = headers(self.log.read(offset, max_bytes, end=self.log.log_end))
        if offset == self.log.log_end:
            assert not found
            return
        assert found[0].base_offset <= offset <= found[0].last_offset
        assert sum(header.size for header in found) <= max(max_bytes, found[0].size)

    @rule(timestamp=st.integers(0, 1001))
    def look_up_time(self, timestamp: int) -> None:
        found = self.log.offset_for_timestamp(timestamp)
        ends = [*(base for base, _ in self.model), self.log.log_end][1:]
        expected = next(
            (
                max(base, self.log.log_start)
                for (base, one), end in zip(self.model, ends, strict=True)
                if one >= timestamp and end > self.log.log_start
            ),
            None,
        )
        assert (None if found is None else found.offset) == expected

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "log"):
            return
        found = stored_batches(self.log)
        bases = [read_header(content).base_offset for content in found]
        held = [base for base, _ in self.model]
        assert bases == held[len(held) - len(bases) :]
        check_gap_free(self.log, found)
        check_derived_state(self.log, found)


TestLog = LogMachine.TestCase
