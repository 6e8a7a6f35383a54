"""Records that wait for their topic: one that can't be handed over keeps no other from its end."""

from __future__ import annotations

import asyncio

import pytest

from tidelog import AsyncProducer, Delivery, OutcomeUnknown, Refused
from tidelog.errors import InvalidPartitions
from tidelog.producer.staging import StagedRecord
from tidelog_node.testing import InProcessCluster


@pytest.mark.parametrize("partition", [-7, 2**70])
def test_a_partition_that_no_topic_has(tidelog_cluster: InProcessCluster, partition: int) -> None:
    """Below zero it means within the producer that the record goes where it likes."""

    async def main() -> None:
        async with AsyncProducer(tidelog_cluster.address) as producer:
            with pytest.raises(InvalidPartitions):
                producer.send_nowait("orders", b"impossible", partition=partition)
            missing = producer.send_nowait("orders", b"not there", partition=5)
            behind = producer.send_nowait("orders", b"behind", partition=0)
            assert (await behind).offset == 0
            with pytest.raises(InvalidPartitions, match="has no partition 5: it has 1"):
                await missing

    asyncio.run(main())
    assert [record.value for record in tidelog_cluster.records("orders")] == [b"behind"]


def test_a_fault_in_handing_over_costs_one_record(tidelog_cluster: InProcessCluster) -> None:
    async def main() -> None:
        async with AsyncProducer(tidelog_cluster.address) as producer:
            staging = producer._staging
            hand_over = staging._hand_over

            def fail_first(topic: str, record: StagedRecord) -> None:
                staging._hand_over = hand_over  # type: ignore[method-assign]
                raise ZeroDivisionError("no partitions")

            staging._hand_over = fail_first  # type: ignore[method-assign]
            first, second = (producer.send_nowait("orders", value) for value in (b"1", b"2"))
            assert (await second).offset == 0
            with pytest.raises(OutcomeUnknown, match="ZeroDivisionError: no partitions"):
                await first
            assert producer._accumulator.used_bytes == 0

    asyncio.run(main())


def test_an_interrupt_in_handing_over_leaves_no_record_without_a_verdict(
    tidelog_cluster: InProcessCluster,
) -> None:
    def cancels(*_: object) -> int:
        raise asyncio.CancelledError

    async def main() -> list[Delivery]:
        async with AsyncProducer(tidelog_cluster.address, partitioner=cancels) as producer:
            sent = [producer.send_nowait("orders", b"x") for _ in range(3)]
            await producer.flush()
            assert producer._accumulator.used_bytes == 0
            return [delivery for delivery in sent if delivery.exception()]

    errors = [delivery.exception() for delivery in asyncio.run(main())]
    assert [type(error) for error in errors] == [OutcomeUnknown, Refused, Refused]
