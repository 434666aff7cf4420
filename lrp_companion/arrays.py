"""Numbers in any form as arrays; anything else is refused in one line. NumPy only."""

from __future__ import annotations

from typing import Any

import numpy as np

from lrp_companion.schema import InputError, shown


def real_array(operation: str, name: str, values: Any) -> np.ndarray:
    """Return real numbers of any shape as float64.

    Raises
    ------
    InputError : text, complex numbers, rows of different lengths, or anything else but an array of numbers.

    >>> real_array("agreement", "scores", [1, 2]).tolist()
    [1.0, 2.0]
    """
    try:
        given = np.asarray(values)
        if given.dtype.kind in "biuf" or (given.dtype.kind == "O" and not isinstance(values, (str, bytes))):
            return given.astype(np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: a tensor with a gradient
        pass
    got, expected = f"{name} {shown(values)}", "real numbers"
    raise InputError(operation, got=got, expected=expected, hint="pass a list or an array of numbers")
