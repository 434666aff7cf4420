"""Analysis of variance against least squares, and tables whose answer is known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from lrp_book.ch06_protocol import variance_shares

from lrp_companion.checks import InputError


def by_least_squares(table: np.ndarray) -> dict[tuple[int, ...], float]:
    """Squares of main effects and pairs: what a fit gains by the set's dummies beyond all smaller sets."""
    index = np.indices(table.shape).reshape(table.ndim, -1).T
    y = table.ravel()

    def dummies(factors: tuple[int, ...]) -> np.ndarray:
        levels = [range(table.shape[k]) for k in factors]
        return np.array(
            [
                [
                    float(all(row[k] == v for k, v in zip(factors, value, strict=True)))
                    for value in itertools.product(*levels)
                ]
                for row in index
            ]
        )

    def left(sets: list[tuple[int, ...]]) -> float:
        design = np.hstack([np.ones((len(y), 1)), *[dummies(factors) for factors in sets]])
        return float(((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2).sum())

    singles = [(k,) for k in range(table.ndim)]
    out = {factor: left([]) - left([factor]) for factor in singles}
    for pair in itertools.combinations(range(table.ndim), 2):
        smaller = [(pair[0],), (pair[1],)]
        out[pair] = left(smaller) - left([*smaller, pair])
    return out


def test_sums_of_squares_are_those_of_least_squares():
    table = np.random.default_rng(5).normal(size=(3, 2, 4, 2)) + np.arange(3)[:, None, None, None]
    names = ["p", "q", "r", "s"]
    by_choices = {row["choices"]: row for row in variance_shares(table, names)}
    for axes, squares in by_least_squares(table).items():
        assert by_choices[tuple(names[k] for k in axes)]["squares"] == pytest.approx(
            squares, rel=1e-9, abs=1e-9
        )
    assert sum(row["share"] for row in by_choices.values()) == pytest.approx(1)
    assert by_choices["more together",]["share"] > 0


def test_variance_of_tables_whose_answer_is_known():
    x, y, z = np.array([0.0, 1.0]), np.array([-1.0, 0.0, 1.0]), np.array([0.0, 0.0])
    added = {
        row["choices"]: row["share"]
        for row in variance_shares(x[:, None, None] + y[:, None] + z, ["x", "y", "z"])
    }
    assert added["x",] == pytest.approx(0.25 / (0.25 + 2 / 3)) and added["z",] == 0
    assert added["x", "y"] == pytest.approx(0)
    together = {row["choices"]: row["share"] for row in variance_shares((x - 0.5)[:, None] * y, ["x", "y"])}
    assert together["x", "y"] == pytest.approx(1) and together["x",] == pytest.approx(0)
    assert math.isnan(variance_shares(np.ones((2, 2)), ["x", "y"])[0]["share"])
    rows = variance_shares(np.array([[1.0, 2.0]]), ["x", "y"])
    assert [row["choices"] for row in rows] == [("y",)], "a choice with one option varies nothing"
    for bad in (np.full((2, 2), np.nan), np.ones(3)):
        with pytest.raises(InputError, match="every cell defined"):
            variance_shares(bad, ["x", "y"])
