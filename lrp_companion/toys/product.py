"""Products of scalars as trees: the smallest case in which relevance depends on how a function is grouped.

A grouping of n factors says which multiplications are done, and in which order. It is a leaf (the index of a
factor, from 0) or a tuple of groupings: `((0, 1), 2)` is `(x1 x2) x3`, and `(0, 1, 2)` is one multiplication
of all three. Numbers may be floats, ints or `Fraction`s; with the latter two every result is exact.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

from lrp_companion.checks import InputError

Grouping = int | tuple["Grouping", ...]


def flat(count: int) -> Grouping:
    """One multiplication of all factors at once.

    >>> write(flat(4))
    'x1 x2 x3 x4'
    """
    return tuple(range(count))


def parse(text: str) -> Grouping:
    """Read a grouping as it is written on paper; each factor x1, x2, ... appears once.

    >>> parse("(x1 x2) x3")
    ((0, 1), 2)
    """
    stack: list[list[Grouping]] = [[]]
    try:
        for piece in re.findall(r"[()]|[^\s()·*]+", text):
            if piece == "(":
                stack.append([])
            elif piece == ")":
                inner = stack.pop()
                stack[-1].append(inner[0] if len(inner) == 1 else tuple(inner))
            else:
                stack[-1].append(int(piece.removeprefix("x")) - 1)
        (top,) = stack
        return _checked(top[0] if len(top) == 1 else tuple(top))
    except (IndexError, ValueError):
        expected, hint = "factors x1, x2, ... once each, with balanced brackets", "write it like '(x1 x2) x3'"
        raise InputError("parse", got=f"grouping {text!r}", expected=expected, hint=hint) from None


def _checked(grouping: Grouping) -> Grouping:
    """A grouping that holds each of its factors once, in groups of two or more; else `ValueError`."""
    groups = [grouping]
    for group in groups:
        if isinstance(group, tuple):
            if len(group) < 2:
                raise ValueError(f"a group of {len(group)} factors")
            groups += group
    leaves = leaves_of(grouping)
    if sorted(leaves) != list(range(len(leaves))) or len(leaves) < 2:
        raise ValueError(f"factors {[leaf + 1 for leaf in leaves]}, not each once")
    return grouping


def write(grouping: Grouping) -> str:
    """A grouping in the notation of `parse`.

    >>> write(((0, 1), (2, 3)))
    '(x1 x2) (x3 x4)'
    """
    if isinstance(grouping, int):
        return f"x{grouping + 1}"
    return " ".join(write(part) if isinstance(part, int) else f"({write(part)})" for part in grouping)


def leaves_of(grouping: Grouping) -> tuple[int, ...]:
    """Indices of the factors in a grouping, from left to right."""
    if isinstance(grouping, int):
        return (grouping,)
    return tuple(leaf for factor in grouping for leaf in leaves_of(factor))


def shares(grouping: Grouping) -> tuple[Fraction, ...]:
    """The fraction of the output's relevance that reaches each factor, whatever the factors' values.

    A factor's share is the product of 1/(number of parts) over the multiplications above it.

    >>> [str(share) for share in shares(parse("(x1 x2) x3"))]
    ['1/4', '1/4', '1/2']
    """
    ones = Product([Fraction(1)] * len(leaves_of(grouping)), grouping)
    return cast("tuple[Fraction, ...]", ones.relevance())


class Product:
    """A product of n >= 2 factors, computed in the order of its grouping.

    Parameters
    ----------
    values : the factors.
    grouping : a grouping of them, or its text; the default is `flat`.

    Raises
    ------
    ValueError : a grouping of other factors.

    >>> p = Product([2, 3, 4], "(x1 x2) x3")
    >>> p.value, p.relevance(), p.loo(), p.integrated_gradients()
    (24, (6, 6, 12), (24, 24, 24), (8, 8, 8))
    """

    def __init__(self, values: Sequence[Any], grouping: Grouping | str | None = None) -> None:
        self.values = tuple(values)
        given = flat(len(self.values)) if grouping is None else grouping
        self.grouping = parse(given) if isinstance(given, str) else _checked(given)
        if len(leaves_of(self.grouping)) != len(self.values):
            raise ValueError(f"{len(self.values)} factors in the grouping {write(self.grouping)}")

    @property
    def value(self) -> Any:
        """The product, multiplied in the order of the grouping."""
        return self._value_of(self.grouping)

    def _value_of(self, grouping: Grouping) -> Any:
        if isinstance(grouping, int):
            return self.values[grouping]
        return math.prod(self._value_of(part) for part in grouping)

    def relevance(self) -> tuple[Any, ...]:
        """Relevance of every factor by the uniform rule, from the output, which is its own relevance.

        The relevance of a product of k factors goes to them in k equal parts. For k = 2 these are the halves
        of Eq. (3) and (4) of the paper at one scalar, epsilon 0.
        """
        out, waiting = list(self.values), [(self.grouping, self.value)]
        for node, amount in waiting:
            if isinstance(node, int):
                out[node] = amount
            else:
                waiting += [(part, _divide(amount, len(node))) for part in node]
        return tuple(out)

    def loo(self) -> tuple[Any, ...]:
        """Leave-One-Out: `f(x) - f(x with x_i = 0)`, computed by setting the factor to 0."""
        without = ([0 if k == i else x for k, x in enumerate(self.values)] for i in range(len(self.values)))
        return tuple(self.value - Product(values, self.grouping).value for values in without)

    def integrated_gradients(self) -> tuple[Any, ...]:
        """Integrated gradients from the zero baseline, which here is the Aumann-Shapley value; closed form.

        `IG_i = x_i . integral over a in [0,1] of d f(a x) / dx_i`, and the integrand is `a^(n-1)` times the
        other factors, so that `IG_i = f / n` (Sundararajan et al. 2017).
        """
        n = len(self.values)
        return tuple(
            _divide(x * math.prod(y for j, y in enumerate(self.values) if j != i), n)
            for i, x in enumerate(self.values)
        )


def _divide(amount: Any, parts: int) -> Any:
    """Exact for ints and Fractions; whole numbers stay ints so that a page reads 12 and not 12.0."""
    return _tidy(Fraction(amount) / parts) if isinstance(amount, (int, Fraction)) else amount / parts


def _tidy(amount: Any) -> Any:
    return int(amount) if isinstance(amount, Fraction) and amount.denominator == 1 else amount
