"""Arrow arrays of what NumPy or Python holds, without `pa.array`.

The columnar readers make their columns here. `pa.array` looks first whether it was given a pandas
object: where pandas is installed, the first call imports it, which takes as long as reading 300,000
records. Invariant: reading columns never imports pandas, and numbers are not copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidelog.errors import MessageTooLarge

#: Arrow's binary columns count their bytes in 32 bits.
_LARGEST_BYTES: Final = 2**31 - 1


def of_numbers(numbers: Any, kind: Any) -> Any:
    """The numbers of an array of NumPy's as an Arrow array of a type as wide as theirs."""
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def of_bytes(values: Sequence[bytes | None], kind: Any) -> Any:
    """Bytes, or UTF-8, as an Arrow array of `binary` or `string`."""
    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value or b"") for value in values], out=ends[1:])
    if ends[-1] > _LARGEST_BYTES:
        raise MessageTooLarge(
            f"{ends[-1]} bytes do not fit into one Arrow column of 2 GiB",
            hint="Decode fewer batches at a time",
        )
    valid = np.array([value is not None for value in values], np.bool_)
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    joined = b"".join([value for value in values if value])
    return pa.Array.from_buffers(
        kind, len(values), [bits, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(joined)]
    )
