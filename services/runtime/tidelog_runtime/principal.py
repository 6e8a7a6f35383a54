"""Who calls: every handler of every service gets a principal with its request.

Until authentication exists the listener decides: clients come in as ANONYMOUS, the services of
the cluster reach each other through the internal listener as INTERNAL, and only that one may
write internal topics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Principal:
    """An identity, written as Kafka writes it: `User:anonymous`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @property
    def is_internal(self) -> bool:
        """True for the services of the cluster themselves."""
        return self.kind == "Service"


ANONYMOUS: Final = Principal("User", "anonymous")
INTERNAL: Final = Principal("Service", "internal")
