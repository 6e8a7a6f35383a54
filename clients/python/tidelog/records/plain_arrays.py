"""Arrow arrays of what NumPy or Python holds, without `pa.array`.

The columnar readers make their columns here. `pa.array` looks first whether it was given a pandas
object: where pandas is installed, the first call imports it, which takes as long as reading 300,000
records. Invariant: reading columns never imports pandas, and numbers are not copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def of_numbers(numbers: Any, kind: Any) -> Any:
    """The numbers of an array of NumPy's as an Arrow array of a type as wide as theirs."""
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def of_bytes(values: Sequence[bytes | None], kind: Any) -> Any:
    """Bytes, or UTF-8, as an Arrow array of `binary` or `string`."""
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(value or b"") for value in values], out=ends[1:])
    valid = np.array([value is not None for value in values], np.bool_)
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    joined = b"".join([value for value in values if value])
    return pa.Array.from_buffers(
        kind, len(values), [bits, pa.py_buffer(ends), pa.py_buffer(joined)]
    )
