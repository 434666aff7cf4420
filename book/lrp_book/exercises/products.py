"""Theme: products and grouping."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lrp_book.exercises.checking import THEMES, Case, Exercise, Slip

Pair = tuple[np.ndarray, np.ndarray]


def product_rule(a: np.ndarray, b: np.ndarray, relevance: np.ndarray) -> Pair:
    """Eq. (3) for y = a b, number by number, epsilon 0: `R_a = (a b / (2 y)) R = R / 2`."""
    return relevance / 2, relevance / 2


def _product_cases(rng: np.random.Generator) -> list[Case]:
    return [
        Case("of single products", (rng.normal(size=4), rng.normal(size=4), rng.normal(size=4))),
        Case("with a negative factor", (-1 - rng.random(3), rng.random(3) + 1, rng.normal(size=3))),
        Case("with equal factors", (np.full(2, 3.0), np.full(2, 3.0), np.array([9.0, -1.0]))),
    ]


def by_size(a: np.ndarray, b: np.ndarray, relevance: np.ndarray) -> Pair:
    whole = np.abs(a) + np.abs(b)
    return np.abs(a) / whole * relevance, np.abs(b) / whole * relevance


def shares(grouping: Any) -> np.ndarray:
    """Share of each factor, by its index: 1 / (number of parts) at every multiplication above it."""
    share_of: dict[int, float] = {}

    def descend(node: Any, share: float) -> None:
        if isinstance(node, int):
            share_of[node] = share
        else:
            for part in node:
                descend(part, share / len(node))

    descend(grouping, 1.0)
    return np.array([share_of[k] for k in sorted(share_of)])


def _leaves(node: Any) -> list[int]:
    return [node] if isinstance(node, int) else [leaf for part in node for leaf in _leaves(part)]


def _depths(node: Any, depth: int = 0) -> dict[int, int]:
    if isinstance(node, int):
        return {node: depth}
    return {k: d for factor in node for k, d in _depths(factor, depth + 1).items()}


def _by_depth(grouping: Any) -> np.ndarray:
    return np.array([0.5**depth for _, depth in sorted(_depths(grouping).items())])


def _grouping_cases(rng: np.random.Generator) -> list[Case]:
    return [
        Case("multiplied from the left", (((0, 1), 2),)),
        Case("multiplied from the right", ((0, (1, (2, 3))),)),
        Case("with a multiplication of three", (((0, 1, 2), (3, 4)),)),
        Case("with the factors in another order", (((2, 0), 1),)),
    ]


def product_loo(values: np.ndarray) -> np.ndarray:
    """`f(x) - f(x with x_i = 0)` for the product of all values, by doing it."""
    out = []
    for i in range(len(values)):
        without = values.copy()
        without[i] = 0
        out.append(math.prod(values) - math.prod(without))
    return np.array(out)


def _value_cases(rng: np.random.Generator) -> list[Case]:
    return [
        Case("of three numbers", (np.array([2.0, 3.0, 4.0]),)),
        Case("of five random numbers", (rng.normal(size=5),)),
        Case("with a factor 0", (np.array([0.0, 3.0, 4.0]),)),
    ]


def _left_out(values: np.ndarray) -> np.ndarray:
    return np.array([math.prod(values) - math.prod(np.delete(values, i)) for i in range(len(values))])


def _gradient_map(values: np.ndarray) -> np.ndarray:
    return np.array([math.prod(np.delete(values, i)) for i in range(len(values))])


EXERCISES = (
    Exercise(
        name="product-rule",
        title="Relevance of two factors",
        theme=THEMES[0],
        signature="product_rule(a, b, relevance)",
        task=(
            "For y = a b, number by number, hand the relevance of y to a and b by the uniform rule, Eq. "
            "(3) with epsilon 0: (R_a, R_b)."
        ),
        answer=product_rule,
        cases=_product_cases,
        parts=("R_a", "R_b"),
        slips=(
            Slip(
                lambda a, b, r: (r, r),
                "Both factors get all of the relevance, so it doubles: the half of Eq. (3) is missing.",
            ),
            Slip(
                by_size,
                "Your shares follow the sizes of the factors. In a product sizes do not matter: "
                "each factor gets half.",
            ),
            Slip(
                lambda a, b, r: (a / (a + b) * r, b / (a + b) * r),
                "This is the epsilon rule for the sum a + b, Eq. (1). For a product a b, Eq. "
                "(3) gives each factor half.",
            ),
            Slip(
                lambda a, b, r: (b * r, a * r),
                "This is the gradient times R, g and not relevance, and without its half: R_a = R / 2.",
            ),
            Slip(
                lambda a, b, r: (b * r / 2, a * r / 2),
                "Relevance was multiplied by the other factor: R_a = R / 2 holds it already.",
            ),
            Slip(
                lambda a, b, r: (-r / 2, -r / 2),
                "A sign was dropped: both halves have the sign of the relevance that comes in.",
            ),
            Slip(
                lambda a, b, r: (r, 0 * r),
                "Everything goes to the first factor: the uniform rule gives the second as much.",
            ),
            Slip(
                lambda a, b, r: (0 * r, r),
                "Everything goes to the second factor, as CP-LRP does. Eq. (3) gives each half.",
            ),
        ),
        hints=(
            "Put y = a b into Eq. (3): what cancels?",
            "The fraction (a b) / (2 y) is the same for every pair of numbers.",
            "return relevance / 2, relevance / 2",
        ),
    ),
    Exercise(
        name="grouped-product",
        title="Shares of a grouping",
        theme=THEMES[0],
        signature="shares(grouping)",
        task=(
            "A grouping is a factor's index (from 0) or a tuple of groupings, such as ((0, 1), 2). Return "
            "the share of the relevance that reaches each factor, in the order of their indices, shape (n,)."
        ),
        answer=shares,
        cases=_grouping_cases,
        parts=("the shares",),
        slips=(
            Slip(
                lambda g: np.full(len(_leaves(g)), 1 / len(_leaves(g))),
                "All shares are equal: that is the flat product. "
                "Follow the tree, and divide at each multiplication.",
            ),
            Slip(
                _by_depth,
                "You halve at every multiplication. One of three parts gives thirds: "
                "divide by the number of its parts.",
            ),
            Slip(
                lambda g: shares(g)[_leaves(g)],
                "The shares are in reading order: put them in the order of the factors' indices.",
            ),
            Slip(
                lambda g: shares(g)[::-1],
                "The shares are in reverse order: left and right are swapped. "
                "The factor multiplied last is closest to the output.",
            ),
            Slip(
                lambda g: _by_depth(g) * 2,
                "One half is missing on every path: the outermost multiplication divides, too.",
            ),
            Slip(
                lambda g: np.ones(len(_leaves(g))),
                "Each factor gets everything, as in LOO: divide at each multiplication.",
            ),
        ),
        hints=(
            "What share does a part get of a multiplication that has k parts?",
            (
                "Go down from the output with the share 1. A function that calls itself notes the "
                "share at an index, and goes on with a smaller one at a tuple."
            ),
            "for part in node: descend(part, share / len(node))",
        ),
    ),
    Exercise(
        name="product-loo",
        title="Leave-One-Out of a product",
        theme=THEMES[0],
        signature="loo(values)",
        task=(
            "For f = x_1 ... "
            "x_n with x = values, shape (n,), return f(x) - f(x with x_i = 0) for every i, shape (n,)."
        ),
        answer=product_loo,
        cases=_value_cases,
        parts=("the LOO scores",),
        slips=(
            Slip(
                _left_out,
                "You leave the factor out of the product, as if it were 1. "
                "To remove it here is to set it to 0.",
            ),
            Slip(lambda x: -product_loo(x), "The sign is reversed: LOO is f(x) minus f without the factor."),
            Slip(
                lambda x: np.full(len(x), math.prod(x) / len(x)),
                "These are equal shares f / n. LOO asks each factor alone: no division.",
            ),
            Slip(
                _gradient_map,
                "This is the gradient, the product of the others. LOO is a difference of two outputs.",
            ),
            Slip(
                lambda x: x * _gradient_map(x) / 2,
                "One half too many: LOO is not a relevance rule, and nothing is split.",
            ),
        ),
        hints=(
            "What is the product once x_i is 0?",
            ("Do what the formula says: a copy with a 0 in it for every i, and one subtraction."),
            "without = values.copy(); without[i] = 0; np.prod(values) - np.prod(without)",
        ),
    ),
)
