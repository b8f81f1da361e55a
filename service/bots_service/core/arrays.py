"""The array types of the core."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Counts = NDArray[np.int64]
Tasks = NDArray[np.int32]  # indices of tasks in their dataset; a task keeps its index for ever

Scalar = TypeVar("Scalar", bound=np.generic)


def frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return the array, made read-only: values in the core are shared between threads."""
    array.flags.writeable = False
    return array


def ordered_sum(values: Floats) -> float:
    """Return the sum, added one after the other: numpy's own order depends on the machine."""
    return float(np.add.accumulate(values)[-1]) if len(values) else 0.0
