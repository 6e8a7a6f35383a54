"""DescribeConfigs and AlterConfigs: what holds for a topic or a broker, and where it was set."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tidelog.errors import InvalidConfig, InvalidRequest, TidelogError, UnknownTopic
from tidelog.wire.v1 import admin_pb2
from tidelog_broker.api.metadata import HINTS_MAX, unknown_topic
from tidelog_runtime.config import ConfigKey, ConfigValues, SourceKind
from tidelog_runtime.configs.topic import topic_values
from tidelog_runtime.control import AlterOperation, ConfigAlteration, TopicAlteration
from tidelog_runtime.wire_errors import to_wire

if TYPE_CHECKING:
    from tidelog_broker.api.caller import Caller
    from tidelog_broker.broker import Broker

SOURCES: Final = {
    SourceKind.TOPIC: admin_pb2.DYNAMIC_TOPIC_CONFIG,
    SourceKind.DEFAULT: admin_pb2.DEFAULT_CONFIG,
}
OPERATIONS: Final = {
    admin_pb2.ALTER_SET: AlterOperation.SET,
    admin_pb2.ALTER_DELETE: AlterOperation.DELETE,
    admin_pb2.ALTER_APPEND: AlterOperation.APPEND,
    admin_pb2.ALTER_SUBTRACT: AlterOperation.SUBTRACT,
}


def _entry(values: ConfigValues, key: ConfigKey, *, read_only: bool) -> admin_pb2.ConfigEntry:
    source = values.source(key.name).kind
    return admin_pb2.ConfigEntry(
        key=key.name,
        value=values.text(key.name),
        source=SOURCES.get(source, admin_pb2.STATIC_BROKER_CONFIG),
        read_only=read_only,
        default_value=key.format(key.default),
        type=key.type.wire_name,
        documentation=key.documentation,
    )


def _entries(
    values: ConfigValues, asked: Sequence[str], *, read_only: bool
) -> list[admin_pb2.ConfigEntry]:
    definition = values.definition
    keys = [definition.key(name) for name in dict.fromkeys(asked)] if asked else definition.keys
    return [_entry(values, key, read_only=read_only) for key in keys]


def _describe(
    broker: Broker, item: admin_pb2.DescribeConfigsResource, *, with_hint: bool
) -> list[admin_pb2.ConfigEntry]:
    resource = item.resource
    if resource.type == admin_pb2.CONFIG_RESOURCE_TOPIC:
        topic = broker.view.topic(resource.name)
        if topic is None:
            raise unknown_topic(broker.view, resource.name, with_hint=with_hint)
        values = topic_values(topic.configs, broker.config.values)
        return _entries(values, item.keys, read_only=False)
    if resource.type == admin_pb2.CONFIG_RESOURCE_BROKER:
        if resource.name not in ("", str(broker.broker_id)):
            raise InvalidRequest(
                f"Broker {broker.broker_id} was asked for the configs of broker"
                f" {resource.name!r}: ask that one"
            )
        return _entries(broker.config.values, item.keys, read_only=True)
    raise InvalidRequest(
        f"Configs of resource type {resource.type} are neither topic's nor broker's"
    )


async def describe_configs(
    broker: Broker, caller: Caller, request: admin_pb2.DescribeConfigsRequest
) -> admin_pb2.DescribeConfigsResponse:
    """One answer a resource, in the order of the request; what is asked again is not answered."""
    response = admin_pb2.DescribeConfigsResponse()
    different = {item.SerializeToString(deterministic=True): item for item in request.resources}
    hints_left = HINTS_MAX
    for item in different.values():
        answer = response.resources.add(resource=item.resource)
        try:
            answer.entries.extend(_describe(broker, item, with_hint=hints_left > 0))
        except TidelogError as error:
            hints_left -= isinstance(error, UnknownTopic)
            answer.error.CopyFrom(to_wire(error))
        # All configs of one resource, or the nearest key, take a millisecond.
        await asyncio.sleep(0)
    return response


def _alterations(item: admin_pb2.ResourceAlteration) -> TopicAlteration:
    resource = item.resource
    if resource.type == admin_pb2.CONFIG_RESOURCE_BROKER:
        raise InvalidConfig(
            "A broker's configs can't be altered while it runs",
            hint="Change its file, environment or flags and start it anew",
        )
    if resource.type != admin_pb2.CONFIG_RESOURCE_TOPIC:
        raise InvalidRequest(f"Resource type {resource.type} has no configs to alter")
    alterations = []
    for alteration in item.alterations:
        operation = OPERATIONS.get(alteration.operation)
        if operation is None:
            raise InvalidRequest(f"Operation {alteration.operation} on a config is not known")
        alterations.append(ConfigAlteration(alteration.key, operation, alteration.value))
    return TopicAlteration(resource.name, alterations)


async def alter_configs(
    broker: Broker, caller: Caller, request: admin_pb2.AlterConfigsRequest
) -> admin_pb2.AlterConfigsResponse:
    """One answer a resource; the alterations of one happen together or not at all."""
    response = admin_pb2.AlterConfigsResponse()
    hints_left = HINTS_MAX
    for item in request.resources:
        answer = response.resources.add(resource=item.resource)
        try:
            alterations = _alterations(item)
            if hints_left <= 0 and broker.view.topic(alterations.name) is None:
                # The controller would look for the nearest name once more.
                raise unknown_topic(broker.view, alterations.name, with_hint=False)
            (outcome,) = await broker.controller.alter_configs(
                [alterations],
                principal=caller.principal,
                validate_only=request.validate_only,
            )
            if outcome.error is not None:
                raise outcome.error
        except TidelogError as error:
            hints_left -= isinstance(error, UnknownTopic)
            answer.error.CopyFrom(to_wire(error))
        # The controller need not have waited for anything, and a refusal takes milliseconds.
        await asyncio.sleep(0)
    await broker.assignments.wait_current()
    return response
