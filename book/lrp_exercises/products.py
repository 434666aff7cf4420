"""Theme: products and grouping."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from lrp_exercises.cards import Array, Pair, exercise

card = partial(exercise, theme="products and grouping")


@card("""product-rule: Relevance of two factors -> R_a, R_b
For y = a b, number by number, hand the relevance of y to a and b by the uniform rule, Eq. (3) with epsilon 0:
(R_a, R_b). All are arrays of one shape; where a b is 0, take the limit.
## inputs
of single products: n(4), n(4), n(4)
with a negative factor: -1 - rng.random(3), rng.random(3) + 1, n(3)
with equal factors: np.full(2, 3.0), np.full(2, 3.0), np.array([9.0, -1.0])
with factors of 0: np.array([0.0, 2, 0]), np.array([3.0, 0, 0]), n(3)
of drawn size: n(p), n(p), n(p)
## solution
def product_rule(a, b, relevance):
    return relevance / 2, relevance / 2
## slips
/ 2 ->  # Both factors get all of the relevance, so it doubles: the half of Eq. (3) is missing.
return abs(a) / (abs(a) + abs(b)) * relevance, abs(b) / (abs(a) + abs(b)) * relevance
# Your shares follow the sizes of the factors. In a product sizes do not matter: each factor gets half.
return a / (a + b) * relevance, b / (a + b) * relevance
# This is the epsilon rule for the sum a + b, Eq. (1). For a product a b, Eq. (3) gives each factor half.
return b * relevance, a * relevance
# This is the gradient times R, g and not relevance, and without its half: R_a = R / 2.
return b * relevance / 2, a * relevance / 2
# Relevance was multiplied by the other factor: R_a = R / 2 holds it already.
relevance -> -relevance  # A sign was dropped: both halves have the sign of the relevance that comes in.
return relevance, 0 * relevance
# Everything goes to the first factor: the uniform rule gives the second as much.
return 0 * relevance, relevance
# Everything goes to the second factor, as CP-LRP does. Eq. (3) gives each half.
## hints
Put y = a b into Eq. (3): what cancels?
The fraction (a b) / (2 y) is the same for every pair of numbers.
return relevance / 2, relevance / 2
""")
def product_rule(a: Array, b: Array, relevance: Array) -> Pair:
    """Eq. (3) for y = a b with epsilon 0, number by number: `a b / (2 y) R` for both, or its limit."""
    shares = [u * v / (2 * (u * v)) if u * v else 0.5 for u, v in zip(a, b, strict=True)]
    parts = np.array(shares) * relevance
    return parts, parts


def tree(rng: np.random.Generator, leaves: list[int]) -> Any:
    """A drawn grouping of the leaves, cut in two or three at every multiplication."""
    if len(leaves) == 1:
        return leaves[0]
    count = min(len(leaves) - 1, int(rng.integers(1, 3)))
    cuts = sorted(rng.choice(np.arange(1, len(leaves)), count, replace=False))
    return tuple(tree(rng, leaves[a:b]) for a, b in zip([0, *cuts], [*cuts, len(leaves)], strict=True))


@card("""grouped-product: Shares of a grouping -> the shares
A grouping is a factor's index (from 0) or a tuple of two or more groupings, such as ((0, 1), 2). Return the
share of the relevance that reaches each factor, in the order of their indices, shape (n,).
## inputs
multiplied from the left: ((0, 1), 2)
multiplied from the right: (0, (1, (2, 3)))
with a multiplication of three: ((0, 1, 2), (3, 4))
with the factors in another order: ((2, 0), 1)
of one factor: 0
of twelve factors: tree(rng, rng.permutation(12).tolist())
of a drawn grouping: tree(rng, rng.permutation(p + 1).tolist())
## solution
def shares(grouping):
    found = {}

    def descend(node, share):
        if isinstance(node, int):
            found[node] = share
        else:
            for part in node:
                descend(part, share / len(node))

    descend(grouping, 1.0)
    return [found[k] for k in sorted(found)]
## slips
return [1 / len(found) for _ in found]
# All shares are equal: that is the flat product. Follow the tree, and divide at each multiplication.
share / len(node) -> share / 2
# You halve at every multiplication. One of three parts gives thirds: divide by the number of its parts.
sorted(found) -> found  # The shares are in reading order: put them in the order of the factors' indices.
sorted(found) -> sorted(found, reverse=True)
# The shares are in reverse order: left and right are swapped.
# The factor multiplied last is closest to the output.
share / len(node) -> share / 2
1.0 -> 2.0  # One half is missing on every path: the outermost multiplication divides, too.
share / len(node) -> share / len(grouping)
# You divide by the number of the outermost parts everywhere: each multiplication has its own number.
share / len(node) -> share  # Each factor gets everything, as in LOO: divide at each multiplication.
share / len(node) -> share / len(node) if isinstance(part, int) else share
# Only single factors get a part: a product inside gets its part, too, and hands that on.
return [0.5 ** min(list(found).index(k) + 1, len(found) - 1) for k in sorted(found)]
# You halve from factor to factor in reading order: the tree is lost. Follow it.
sorted(found) -> sorted(found, key=str)  # Indices are sorted as text, in which 10 comes before 2.
## hints
What share does a part get of a multiplication that has k parts?
Go down from the output with the share 1. A function that calls itself notes the share at an index, and goes
 on with a smaller one at a tuple.
for part in node: descend(part, share / len(node))
""")
def shares(grouping: Any) -> Array:
    """Share of each factor, by its index: 1 / (number of parts) at every multiplication above it."""
    return np.array([share for _, share in sorted(_shares(grouping).items())])


def _shares(node: Any) -> dict[int, float]:
    if isinstance(node, int):
        return {node: 1.0}
    return {k: share / len(node) for part in node for k, share in _shares(part).items()}


@card("""product-loo: Leave-One-Out of a product -> the LOO scores
For f = x_1 ... x_n with x = values, shape (n,), return f(x) - f(x with x_i = 0) for every i, shape (n,).
## inputs
of three numbers: np.array([2.0, 3.0, 4.0])
of five random numbers: n(5)
with a factor 0: np.array([0.0, 3.0, 4.0])
with a negative product: np.array([-2.0, 3.0, 4.0])
of drawn size: n(p)
## solution
def loo(values):
    return [values.prod() for _ in values]
## slips
return [values.prod() - np.delete(values, i).prod() for i in range(len(values))]
# You leave the factor out of the product, as if it were 1. To remove it here is to set it to 0.
values.prod() -> -values.prod()  # The sign is reversed: LOO is f(x) minus f without the factor.
.prod() -> .prod() / len(values)  # These are equal shares f / n. LOO asks each factor alone: no division.
return [np.delete(values, i).prod() for i in range(len(values))]
# This is the gradient, the product of the others. LOO is a difference of two outputs.
.prod() -> .prod() / 2  # One half too many: LOO is not a relevance rule, and nothing is split.
return values[values != 0].prod() + 0 * values
# Factors of 0 are left out of the product: with one of them f is 0.
## hints
What is the product once x_i is 0?
Do what the formula says: a copy with a 0 in it for every i, and one subtraction.
without = values.copy(); without[i] = 0; np.prod(values) - np.prod(without)
""")
def product_loo(values: Array) -> Array:
    """`f(x) - f(x with x_i = 0)` for the product of all values, by doing it."""
    places = range(len(values))
    return np.array(
        [math.prod(values) - math.prod(np.where(np.arange(len(values)) == i, 0, values)) for i in places]
    )
