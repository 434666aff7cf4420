"""Products of scalars: equal shares of the flat product = Shapley = Aumann-Shapley, and grouping."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrp_companion.toys import Grouping, Product, flat, leaves_of, parse, shares, write


def all_groupings(count: int, first: int = 0) -> Iterator[Grouping]:
    """Every pairwise grouping of so many factors that keeps their order: a Catalan number of them."""
    if count == 1:
        yield first
    for cut in range(1, count):
        yield from product(all_groupings(cut, first), list(all_groupings(count - cut, first + cut)))


FACTORS = st.lists(st.fractions(min_value=-9, max_value=9, max_denominator=20), min_size=2, max_size=5)


def shapley_by_orders(values: list[Fraction]) -> list[Fraction]:
    """Second implementation: the mean gain of a factor over all orders in which factors are switched on."""
    gains = [Fraction(0)] * len(values)
    orders = list(permutations(range(len(values))))
    for order in orders:
        present: set[int] = set()
        for i in order:
            before = math.prod(x if k in present else 0 for k, x in enumerate(values))
            present.add(i)
            gains[i] += math.prod(x if k in present else 0 for k, x in enumerate(values)) - before
    return [gain / len(orders) for gain in gains]


def test_figure_1() -> None:
    model_a, model_b = Product([2, 3, 4], "(x1 x2) x3"), Product([2, 3, 4], "x1 (x2 x3)")
    assert model_a.value == model_b.value == 24
    assert model_a.relevance() == (6, 6, 12) and model_b.relevance() == (12, 6, 6)
    assert model_a.loo() == model_b.loo() == (24, 24, 24)


@pytest.mark.parametrize("n", range(2, 7))
def test_text_round_trip(n: int) -> None:
    trees = list(all_groupings(n))
    assert len(trees) == len(set(trees)) == math.comb(2 * n - 2, n - 1) // n
    for tree in [*trees, flat(n)]:
        assert parse(write(tree)) == tree and leaves_of(tree) == tuple(range(n))


def test_parse_takes_signs_and_order() -> None:
    assert parse("x3·(x1*x2)") == (2, (0, 1)) and parse("((x1 x2))") == (0, 1)


@given(FACTORS)
def test_equal_shares_are_the_shapley_and_the_aumann_shapley_value(values: list[Fraction]) -> None:
    flat = Product(values)
    assert flat.relevance() == tuple(shapley_by_orders(values)) == flat.integrated_gradients()
    nodes, weights = np.polynomial.legendre.leggauss(4)  # exact up to degree 7
    for i, x in enumerate(values):
        others = [float(y) for j, y in enumerate(values) if j != i]
        integral = sum(
            w / 2 * math.prod((t + 1) / 2 * y for y in others) for t, w in zip(nodes, weights, strict=True)
        )
        assert float(x) * integral == pytest.approx(float(flat.relevance()[i]), rel=1e-12, abs=1e-12)


@given(FACTORS, st.data())
def test_every_grouping_conserves_and_none_changes_value_or_loo(values, data):
    tree = data.draw(st.sampled_from(list(all_groupings(len(values)))))
    grouped, flat = Product(values, tree), Product(values)
    assert grouped.value == flat.value == sum(grouped.relevance())
    assert grouped.relevance() == tuple(share * flat.value for share in shares(tree))
    assert grouped.loo() == flat.loo() == (flat.value,) * len(values)


def test_big_integers_are_numbers() -> None:
    assert Product([10**400, 2]).value == 2 * 10**400
