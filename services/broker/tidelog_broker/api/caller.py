"""Who makes a call, as every handler gets it."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog_runtime.principal import Principal


@dataclass(frozen=True, slots=True)
class Caller:
    """The principal of a call and what helps to find it in logs."""

    principal: Principal
    client_id: str
    peer: str
