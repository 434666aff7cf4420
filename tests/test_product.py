"""Products of scalars: equal shares of the flat product = Shapley = Aumann-Shapley, and grouping."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrp_companion.checks import InputError
from lrp_companion.toys.product import (
    Product,
    all_groupings,
    flat,
    leaves_of,
    left,
    parse,
    right,
    shares,
    write,
)

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


class TestThePapersExample:
    def test_figure_1(self) -> None:
        model_a, model_b = Product([2, 3, 4], left(3)), Product([2, 3, 4], right(3))
        assert model_a.value == model_b.value == 24
        assert model_a.relevance() == (6, 6, 12)
        assert model_b.relevance() == (12, 6, 6)
        assert model_a.loo() == model_b.loo() == (24, 24, 24)

    def test_steps_are_the_derivation_in_section_3_1(self) -> None:
        first, second = Product([2, 3, 4], left(3)).steps()
        assert (first.whole, first.value, first.relevance, first.parts, first.share) == (
            "(x1 x2) x3",
            24,
            24,
            ("x1 x2", "x3"),
            12,
        )
        assert (second.whole, second.value, second.relevance, second.parts, second.share) == (
            "x1 x2",
            6,
            12,
            ("x1", "x2"),
            6,
        )
        assert second.part_values == (2, 3)
        (only,) = Product([2, 3, 4]).steps()  # the flat product: one multiplication of three
        assert (only.relevance, only.parts, only.share) == (24, ("x1", "x2", "x3"), 8)

    def test_shares_do_not_depend_on_the_values(self) -> None:
        assert shares(left(3)) == (Fraction(1, 4), Fraction(1, 4), Fraction(1, 2))
        assert shares(right(3)) == (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4))
        assert shares(flat(3)) == (Fraction(1, 3),) * 3


class TestGroupings:
    @pytest.mark.parametrize("n", range(2, 8))
    def test_there_are_catalan_many_and_they_are_all_different(self, n: int) -> None:
        trees = list(all_groupings(n))
        assert len(trees) == len(set(trees)) == math.comb(2 * n - 2, n - 1) // n
        assert left(n) in trees and right(n) in trees
        assert all(leaves_of(tree) == tuple(range(n)) for tree in trees)

    @pytest.mark.parametrize("n", range(2, 7))
    def test_text_round_trip(self, n: int) -> None:
        for tree in [*all_groupings(n), flat(n)]:
            assert parse(write(tree)) == tree

    def test_parse_takes_signs_and_order(self) -> None:
        assert parse("x3·(x1*x2)") == (2, (0, 1))
        assert parse("((x1 x2))") == (0, 1)

    @pytest.mark.parametrize(
        "text", ["", "x1", "x1 (x2", "x1 x2)", "x1 x1", "x1 x3", "x0 x1", "x1 + x2", "x1 () x2"]
    )
    def test_bad_text_is_refused(self, text: str) -> None:
        with pytest.raises(InputError, match=r"parse: got grouping .* expected factors x1, x2"):
            parse(text)


class TestIdentities:
    @given(FACTORS)
    def test_equal_shares_are_the_shapley_values(self, values: list[Fraction]) -> None:
        product = Product(values)
        assert (
            product.relevance()
            == product.shapley()
            == tuple(shapley_by_orders(values))
            == (product.value / len(values),) * len(values)
        )

    @given(FACTORS)
    def test_equal_shares_are_the_aumann_shapley_value(self, values: list[Fraction]) -> None:
        product = Product(values)
        assert product.integrated_gradients() == product.relevance()
        nodes, weights = np.polynomial.legendre.leggauss(4)  # exact up to degree 7
        for i, x in enumerate(values):
            others = [float(y) for j, y in enumerate(values) if j != i]
            integral = sum(
                w / 2 * math.prod((t + 1) / 2 * y for y in others)
                for t, w in zip(nodes, weights, strict=True)
            )
            assert float(x) * integral == pytest.approx(
                float(product.integrated_gradients()[i]), rel=1e-12, abs=1e-12
            )

    @given(FACTORS)
    def test_loo_gives_every_factor_everything(self, values: list[Fraction]) -> None:
        product = Product(values)
        assert product.loo() == (product.value,) * len(values)

    @given(FACTORS, st.data())
    def test_every_grouping_conserves_and_none_changes_value_loo_or_shapley(self, values, data):
        tree = data.draw(st.sampled_from(list(all_groupings(len(values)))))
        grouped, flat = Product(values, tree), Product(values)
        assert grouped.value == flat.value
        assert sum(grouped.relevance()) == flat.value
        assert grouped.relevance() == tuple(share * flat.value for share in shares(tree))
        assert grouped.loo() == flat.loo() and grouped.shapley() == flat.shapley()
        assert grouped.mask_gradient() == flat.loo()

    def test_a_product_of_zero_has_no_relevance(self) -> None:
        assert Product([0.0, 3.0, 4.0], left(3)).relevance() == (0.0, 0.0, 0.0)

    def test_floats(self) -> None:
        assert Product([0.5, -3.0, 4.0], right(3)).relevance() == (-3.0, -1.5, -1.5)
        assert Product([0.5, -3.0, 4.0]).shapley() == pytest.approx((-2, -2, -2))


TREES = (((0, 1), 3), (0, 1), ((0, 1), 1), ((0,), (1, 2)))


def test_big_integers_are_numbers() -> None:
    assert Product([10**400, 2]).value == 2 * 10**400
