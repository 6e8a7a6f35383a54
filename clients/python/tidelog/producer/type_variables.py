"""The types of keys and values; a producer without serializers takes what needs none.

Apart from the modules that use them because mypyc can't compile a type variable with a default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

#: What needs no serializer.
Payload = bytes | bytearray | memoryview | str

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Payload)
    V = TypeVar("V", default=Payload)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
