"""Numbers in any form as arrays. NumPy only."""

from __future__ import annotations

from typing import Any

import numpy as np

from lrp_companion.checks import InputError, shown

TIED = 1e-6
"""Below this fraction of the largest a difference of scores is rounding of float32: it ranks nothing."""


def real_array(operation: str, name: str, values: Any) -> np.ndarray:
    """Return real numbers of any shape as float64.

    Raises
    ------
    InputError : text, complex numbers, dates; masked entries. NumPy refuses rows of different lengths.

    >>> real_array("agreement", "scores", [1, 2]).tolist()
    [1.0, 2.0]
    """
    return plain_array(operation, name, values).astype(np.float64)


def bool_array(operation: str, name: str, values: Any) -> np.ndarray:
    """Return booleans of any shape; numbers that are exactly 0 or 1 count as False and True.

    Raises
    ------
    InputError : other numbers, such as 0.5 or NaN; as `real_array`.

    >>> bool_array("removal", "keep", [1, 0, 1]).tolist()
    [True, False, True]
    """
    given = plain_array(operation, name, values)
    if ((given == 0) | (given == 1)).all():
        return given.astype(bool)
    got, hint = f"{name} {shown(values)}", "compare first, such as scores > 0"
    raise InputError(operation, got=got, expected="True or False for each", hint=hint)


def plain_array(operation: str, name: str, values: Any) -> np.ndarray:
    """Return numbers or booleans as an array of the type that they have; `InputError` as `real_array`.

    >>> plain_array("encode", "image", [[0, 255]]).dtype.kind
    'i'
    """
    given = np.asarray(on_cpu(values))
    if given.dtype.kind == "O":  # fractions; NumPy refuses what is no number
        given = given.astype(np.float64)
    if given.dtype.kind in "biuf" and not np.ma.is_masked(values):
        return given
    got, hint = f"{name} {shown(values)}", "pass a list or an array of numbers, none of them masked"
    raise InputError(operation, got=got, expected="real numbers", hint=hint)


def ranking(values: np.ndarray, *, tied: float = TIED, sizes: np.ndarray | None = None) -> np.ndarray:
    """Indices from the largest value to the smallest; values that only rounding tells apart, closer than
    `tied` of the largest size, stay in their order. With `sizes` each pair is held to the larger of its own.

    >>> ranking(np.array([0.25, 1.0, -0.5, 1.0 + 1e-9])).tolist()
    [1, 3, 0, 2]
    """
    order = np.argsort(-values, kind="stable")
    sizes = np.full(len(values), np.abs(values).max(initial=0.0)) if sizes is None else sizes
    steps = -np.diff(values[order]) > tied * np.maximum(sizes[order[:-1]], sizes[order[1:]])
    level = np.zeros(len(values), dtype=np.intp)
    level[order[1:]] = np.cumsum(steps)
    return np.argsort(level, kind="stable")


def on_cpu(values: Any) -> Any:
    """A tensor where NumPy can read it, without its gradient; anything else as it is."""
    if not callable(getattr(values, "detach", None)):
        return values
    tensor = values.detach().cpu()
    return tensor.double() if tensor.is_floating_point() else tensor
