"""The settings of an admin client: Kafka's names in snake_case."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict

from tidelog.settings import duration_ms, head_text


class AdminKeywords(TypedDict, total=False):
    """The settings of an admin client as keyword arguments; `AdminSettings` has the defaults."""

    #: The name that brokers see in logs and metrics.
    client_id: str
    #: The time limit of one question to a broker.
    request_timeout_ms: float | timedelta
    #: The time limit of a call, its retries included.
    default_api_timeout_ms: float | timedelta


@dataclass(frozen=True, slots=True)
class AdminSettings:
    """The settings of an admin client, checked."""

    client_id: str = head_text("tidelog-admin")
    request_timeout_ms: float = duration_ms(30_000, least=1)
    default_api_timeout_ms: float = duration_ms(60_000, least=1)
