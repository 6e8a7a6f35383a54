"""InitProducerId: the identity by which an idempotent producer's batches are recognised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.errors import InvalidTransactionState, TidelogError
from tidelog.wire.v1 import producer_ids_pb2
from tidelog_runtime.wire_errors import to_wire

if TYPE_CHECKING:
    from tidelog_broker.api.caller import Caller
    from tidelog_broker.broker import Broker

#: An epoch beyond this one doesn't fit the batch header: the producer gets a new id instead.
LAST_EPOCH: Final = 32_766


async def init_producer_id(
    broker: Broker, caller: Caller, request: producer_ids_pb2.InitProducerIdRequest
) -> producer_ids_pb2.InitProducerIdResponse:
    """A new id with epoch 0, or the next epoch of the id the caller holds."""
    response = producer_ids_pb2.InitProducerIdResponse(producer_id=-1, producer_epoch=-1)
    try:
        if request.transactional_id:
            raise InvalidTransactionState(
                f"Transactional id {request.transactional_id!r} was refused: this cluster has no"
                " transactions yet",
                hint="Leave transactional_id empty for an idempotent producer",
            )
        holds_id = request.HasField("producer_id")
        if holds_id and request.producer_id >= 0 and 0 <= request.producer_epoch < LAST_EPOCH:
            response.producer_id = request.producer_id
            response.producer_epoch = request.producer_epoch + 1
        else:
            response.producer_id = await broker.producer_ids.next()
            response.producer_epoch = 0
    except TidelogError as error:
        response.error.CopyFrom(to_wire(error))
    return response
