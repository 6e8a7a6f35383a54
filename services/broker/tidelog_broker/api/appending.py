"""The way of a produce request's batches into their partitions, one after the other.

`produce.py` calls this for the unary call and for the stream. A request may hold a thousand
batches, so this and all it calls down to the file is compiled where there is a compiler. The
invariant: every item of the request gets its own item of the answer, in the same place, whatever
becomes of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.errors import TidelogError
from tidelog.model import Offset, TopicId
from tidelog.records.batch import buffer_bytes
from tidelog.wire.v1 import common_pb2, produce_pb2
from tidelog_broker.partition.replicas import Replicas
from tidelog_runtime.disk import Buffer

if TYPE_CHECKING:
    from tidelog_broker.api.produce import ProduceAnswer
    from tidelog_runtime.principal import Principal

#: What an answer under way takes for each partition beside the batch: a million tiny batches that
#: wait for a stalled disk are no small thing.
HELD_BYTES_A_PARTITION: Final = 1_024


def append_all(
    replicas: Replicas,
    request: produce_pb2.ProduceRequest,
    batches: Sequence[Buffer],
    answer: ProduceAnswer,
    *,
    principal: Principal,
    now_ms: int,
    refuse: Callable[[produce_pb2.PartitionAck, TidelogError], None],
) -> None:
    """Writes the batches, which belong to the request's items one by one, and fills the answer.

    `refuse` says in an item of the answer why its batch was not written.
    """
    pending = answer.pending
    all_in_sync = request.acks == common_pb2.ACKS_ALL
    add = answer.response.partitions.add
    held_bytes = 0
    wakes_readers = False
    items = request.partitions
    assert len(items) == len(batches)
    for index, item in enumerate(items):
        batch = batches[index]
        held_bytes += buffer_bytes(batch) + HELD_BYTES_A_PARTITION
        # An attribute costs less than a keyword of `add`, and one that stays empty nothing.
        ack = add()
        topic, topic_id, number = item.topic, item.topic_id, item.partition
        ack.partition = number
        if topic:
            ack.topic = topic
        if topic_id:
            ack.topic_id = topic_id
        try:
            partition = replicas.find(topic, TopicId(topic_id), number, principal)
            wakes_readers = wakes_readers or partition.has_readers
            epoch = item.leader_epoch
            # An epoch of 0 may be one that was not given; whoever names ours is right anyway.
            is_known = epoch == partition.core.leader_epoch or item.HasField("leader_epoch")
            done = partition.append(
                batch, epoch if is_known else None, all_in_sync=all_in_sync, now_ms=now_ms
            )
        except TidelogError as error:
            refuse(ack, error)
            continue
        ack.base_offset = done.base_offset
        ack.append_time_ms = done.append_time_ms
        log_start = partition.log.log_start
        if log_start:
            ack.log_start_offset = log_start
        if done.duplicate:
            ack.duplicate = True
        if all_in_sync and done.end_offset > partition.core.high_watermark:
            partition.wait_for_commit(Offset(done.end_offset), pending, index)
    pending.close()
    answer.held_bytes = held_bytes
    answer.wakes_readers = wakes_readers
