"""Answers as arrays, and how two of them are compared."""

from __future__ import annotations

import numpy as np

TOLERANCE = 1e-9  # relative to the largest entry: sums in another order differ by 1e-15 or so
SINGLE = 2e-5  # the same for results in single precision

Answer = tuple[np.ndarray, ...]
Answers = list[Answer]


def near(got: np.ndarray, wanted: np.ndarray, tolerance: float = TOLERANCE) -> bool:
    """Whether two arrays are equal up to a tolerance; NaN equals NaN."""
    if got.shape != wanted.shape:
        return False
    return bool(close(got, wanted, tolerance).all())


def close(got: np.ndarray, wanted: np.ndarray, tolerance: float = TOLERANCE) -> np.ndarray:
    """The same, entry by entry."""
    finite = wanted[np.isfinite(wanted)]
    scale = max(1e-3, float(np.abs(finite).max())) if finite.size else 1.0
    return np.asarray(np.isclose(got, wanted, rtol=0, atol=tolerance * scale, equal_nan=True))


def same(got: Answer, wanted: Answer, tolerance: float = TOLERANCE) -> bool:
    """The same of all parts of an answer."""
    return all(near(a, b, tolerance) for a, b in zip(got, wanted, strict=True))


def all_same(got: Answers, wanted: Answers, tolerance: float = TOLERANCE) -> bool:
    """The same of the answers to all inputs."""
    return all(same(a, b, tolerance) for a, b in zip(got, wanted, strict=True))


def alike(got: Answer, wanted: Answer, tolerance: float = TOLERANCE) -> bool:
    """The same, where infinity counts as NaN: two ways of dividing by 0."""
    plain = [tuple(np.where(np.isfinite(x), x, np.nan) for x in answer) for answer in (got, wanted)]
    return same(plain[0], plain[1], tolerance)


def factor(got: Answers, wanted: Answers, tolerance: float) -> float | None:
    """The number c with got = c * wanted in all cases, if there is one besides 0 and 1."""
    pairs = [pair for x, y in zip(got, wanted, strict=True) for pair in zip(x, y, strict=True)]
    same_shape = [(a.ravel(), b.ravel()) for a, b in pairs if a.shape == b.shape]
    if not same_shape:
        return None
    a, b = (np.concatenate(side) for side in zip(*same_shape, strict=True))
    a, b = a[np.isfinite(b)], b[np.isfinite(b)]
    if not np.isfinite(a).all() or not (b @ b > 0):
        return None
    found = float(a @ b / (b @ b))
    with np.errstate(all="ignore"):
        scaled = [tuple(found * array for array in answer) for answer in wanted]
    if abs(found) < 1e-6 or abs(found - 1) < 1e-6 or not all_same(got, scaled, tolerance):
        return None
    return float(f"{found:.6g}")
