"""Numbers in any form as arrays; anything else is refused in one line. NumPy only."""

from __future__ import annotations

import numbers
from decimal import Decimal
from typing import Any

import numpy as np

from lrp_companion.checks import InputError, shown

MOST = 2**53
"""Up to here float64 holds every whole number; beyond it, two neighbours become one."""
TIED = 1e-6
"""Below this fraction of the largest a difference of scores is rounding of float32: it ranks nothing."""


class NoNumbers(InputError):
    """Something else than an array of real numbers."""


def real_array(operation: str, name: str, values: Any) -> np.ndarray:
    """Return real numbers of any shape as float64.

    Raises
    ------
    InputError : text, complex numbers, dates, rows of different lengths, or anything else but an array of
        numbers; masked entries.

    >>> real_array("agreement", "scores", [1, 2]).tolist()
    [1.0, 2.0]
    """
    return plain_array(operation, name, values).astype(np.float64)


def bool_array(operation: str, name: str, values: Any) -> np.ndarray:
    """Return booleans of any shape; numbers that are exactly 0 or 1 count as False and True.

    Raises
    ------
    InputError : other numbers, such as 0.5 or NaN, the words "True" and "False", rows of different lengths,
        or anything else; masked entries.

    >>> bool_array("removal", "keep", [1, 0, 1]).tolist()
    [True, False, True]
    """
    given = plain_array(operation, name, values, expected="True or False for each")
    if ((given == 0) | (given == 1)).all():
        return given.astype(bool)
    got, hint = f"{name} {shown(values)}", "compare first, such as scores > 0"
    raise InputError(operation, got=got, expected="True or False for each", hint=hint)


def plain_array(operation: str, name: str, values: Any, *, expected: str = "real numbers") -> np.ndarray:
    """Return numbers or booleans as an array of the type that they have; `InputError` as `real_array`.

    >>> plain_array("encode", "image", [[0, 255]]).dtype.kind
    'i'
    """
    masked, given = 0, None
    try:
        masked = masked_entries(values)
        given = np.empty(0) if masked else np.asarray(on_cpu(values))
        fits = given.dtype.kind in "biuf" or (
            given.dtype.kind == "O" and all(map(_is_real, given.ravel().tolist()))
        )
    except Exception:  # rows of several lengths; an object of somebody else's, which may raise anything
        fits = False
    if masked:
        got, expected = f"{name} of which {masked} entries are masked", "a value for every entry"
        hint = "fill them, such as array.filled(0), or leave them out"
        raise InputError(operation, got=got, expected=expected, hint=hint)
    if given is None or not fits or isinstance(values, (str, bytes, bytearray)):
        got, hint = f"{name} {shown(values)}", "pass a list or an array of numbers"
        raise NoNumbers(operation, got=got, expected=expected, hint=hint)
    return given


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


def masked_entries(values: Any) -> int:
    """How many entries are masked in an array of `numpy.ma`, or in those of a list."""
    if isinstance(values, np.ma.MaskedArray):
        return int(np.ma.count_masked(values))
    return sum(map(masked_entries, values)) if isinstance(values, (list, tuple)) else 0


def on_cpu(values: Any) -> Any:
    """A tensor where NumPy can read it, without its gradient; anything else as it is."""
    if not all(callable(getattr(values, name, None)) for name in ("detach", "cpu", "double")):
        return values
    tensor = values.detach().cpu()
    return tensor.double() if tensor.is_floating_point() else tensor


def _is_real(entry: object) -> bool:
    return isinstance(entry, (numbers.Real, Decimal, np.bool_)) and not isinstance(entry, np.timedelta64)
