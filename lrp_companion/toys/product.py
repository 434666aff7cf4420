"""Products of scalars as trees: the smallest case in which relevance depends on how a function is grouped.

A grouping of n factors says which multiplications are done, and in which order. It is a leaf (the index of a
factor, from 0) or a tuple of groupings: `((0, 1), 2)` is `(x1 x2) x3`, and `(0, 1, 2)` is one multiplication
of all three. Numbers may be floats, ints or `Fraction`s; with the latter two every result is exact.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from numbers import Real
from typing import Any, cast

from lrp_companion.checks import InputError, whole

Grouping = int | tuple["Grouping", ...]
MAX_SHAPLEY_FACTORS = 16


def left(count: int) -> Grouping:
    """Multiply from the left: `((x1 x2) x3) ...`, as the paper's Model A (section 3.1).

    >>> write(left(4))
    '((x1 x2) x3) x4'
    """
    tree: Grouping = (0, 1)
    for leaf in range(2, _check_count(count)):
        tree = (tree, leaf)
    return tree


def right(count: int) -> Grouping:
    """Multiply from the right: `x1 (x2 (x3 ...))`, as the paper's Model B (section 3.1).

    >>> write(right(4))
    'x1 (x2 (x3 x4))'
    """
    tree: Grouping = (_check_count(count) - 2, count - 1)
    for leaf in reversed(range(count - 2)):
        tree = (leaf, tree)
    return tree


def flat(count: int) -> Grouping:
    """One multiplication of all factors at once.

    >>> write(flat(4))
    'x1 x2 x3 x4'
    """
    return tuple(range(_check_count(count)))


def all_groupings(count: int) -> Iterator[Grouping]:
    """Every pairwise grouping that keeps the order of the factors.

    There are C(n-1) of them, a Catalan number.

    >>> [write(tree) for tree in all_groupings(3)]
    ['x1 (x2 x3)', '(x1 x2) x3']
    >>> [sum(1 for _ in all_groupings(n)) for n in (2, 3, 4, 5, 6)]
    [1, 2, 5, 14, 42]
    """
    return _pairings(range(_check_count(count)))


def _pairings(leaves: Sequence[int]) -> Iterator[Grouping]:
    if len(leaves) == 1:
        yield leaves[0]
    for cut in range(1, len(leaves)):
        for first in _pairings(leaves[:cut]):
            for second in _pairings(leaves[cut:]):
                yield (first, second)


def parse(text: str) -> Grouping:
    """Read a grouping as it is written on paper; each factor x1, x2, ... appears once.

    >>> parse("(x1 x2) x3")
    ((0, 1), 2)
    """
    pieces = re.findall(r"[()]|x\d+|[^\s()·*]+", text)
    stack: list[list[Grouping]] = [[]]
    for piece in pieces:
        if piece == "(":
            stack.append([])
        elif piece == ")" and len(stack) > 1 and stack[-1]:
            inner = stack.pop()
            stack[-1].append(inner[0] if len(inner) == 1 else tuple(inner))
        elif re.fullmatch(r"x\d+", piece):
            stack[-1].append(int(piece[1:]) - 1)
        else:
            raise _not_a_grouping(text)
    if len(stack) != 1:
        raise _not_a_grouping(text)
    tree = stack[0][0] if len(stack[0]) == 1 else tuple(stack[0])
    if isinstance(tree, int) or not _is_grouping_of(tree, len(leaves_of(tree))):
        raise _not_a_grouping(text)
    return tree


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

    >>> [str(share) for share in shares(left(3))], [str(share) for share in shares(right(3))]
    (['1/4', '1/4', '1/2'], ['1/2', '1/4', '1/4'])
    """
    ones = Product([Fraction(1)] * len(leaves_of(grouping)), grouping)
    return cast("tuple[Fraction, ...]", ones.relevance())


@dataclass(frozen=True)
class Step:
    """One multiplication, backward: `relevance` arrives at `whole`, and each of `parts` gets `share`."""

    whole: str
    value: Any
    relevance: Any
    parts: tuple[str, ...]
    part_values: tuple[Any, ...]
    share: Any

    def __str__(self) -> str:
        received = f"{' and '.join(self.parts)} receive {self.share} each"
        return f"{self.whole} = {self.value} has relevance {self.relevance}: {received}"


class Product:
    """A product of n >= 2 factors, computed in the order of its grouping.

    Parameters
    ----------
    values : the factors, finite numbers.
    grouping : a grouping of them, or its text; the default is `flat`.

    Raises
    ------
    InputError : fewer than two factors, a factor that is not a finite number, a grouping of other factors.

    >>> p = Product([2, 3, 4], "(x1 x2) x3")
    >>> p.value, p.relevance(), p.loo(), p.shapley()
    (24, (6, 6, 12), (24, 24, 24), (8, 8, 8))
    """

    def __init__(self, values: Sequence[Any], grouping: Grouping | str | None = None) -> None:
        self.values = tuple(values)
        _check_count(len(self.values))
        for value in self.values:
            is_real = isinstance(value, Real) and not isinstance(value, bool)
            if not is_real or not -math.inf < value < math.inf:
                got, hint = f"factor {value!r}", "pass ints, floats or Fractions"
                raise InputError("Product", got=got, expected="finite numbers", hint=hint)
        if grouping is None:
            grouping = flat(len(self.values))
        self.grouping: Grouping = parse(grouping) if isinstance(grouping, str) else grouping
        if not _is_grouping_of(self.grouping, len(self.values)):
            got = f"a grouping of factors {[leaf + 1 for leaf in leaves_of(self.grouping)]}"
            expected = f"each of the factors 1 to {len(self.values)} once, in groups of two or more"
            hint = "build it with left, right, flat or parse"
            raise InputError("Product", got=got, expected=expected, hint=hint)

    @property
    def value(self) -> Any:
        """The product, multiplied in the order of the grouping."""
        return self._value_of(self.grouping)

    def _value_of(self, grouping: Grouping) -> Any:
        if isinstance(grouping, int):
            return self.values[grouping]
        return math.prod(self._value_of(part) for part in grouping)

    def steps(self) -> list[Step]:
        """The backward pass of relevance, one record per multiplication, outermost first.

        The uniform rule: the relevance of a product of k factors goes to them in k equal parts. For k = 2
        these are the halves of Eq. (3) and (4) of the paper at one scalar, epsilon 0. At the output,
        relevance is the output.

        >>> print(Product([2, 3, 4], left(3)).steps()[0])
        (x1 x2) x3 = 24 has relevance 24: x1 x2 and x3 receive 12 each
        """
        records: list[Step] = []
        waiting: list[tuple[Grouping, Any]] = [(self.grouping, self.value)]
        while waiting:
            node, relevance = waiting.pop(0)
            if isinstance(node, int):
                continue
            share = _divide(relevance, len(node))
            parts, values = tuple(map(write, node)), tuple(map(self._value_of, node))
            records.append(Step(write(node), self._value_of(node), relevance, parts, values, share))
            waiting += [(factor, share) for factor in node]
        return records

    def relevance(self) -> tuple[Any, ...]:
        """Relevance of every factor by the uniform rule, following the grouping."""
        out = list(self.values)

        def descend(node: Grouping, relevance: Any) -> None:
            if isinstance(node, int):
                out[node] = relevance
            else:
                for part in node:
                    descend(part, _divide(relevance, len(node)))

        descend(self.grouping, self.value)
        return tuple(out)

    def loo(self) -> tuple[Any, ...]:
        """Leave-One-Out: `f(x) - f(x with x_i = 0)`, computed by setting the factor to 0."""
        without = ([0 if k == i else x for k, x in enumerate(self.values)] for i in range(len(self.values)))
        return tuple(self.value - Product(values, self.grouping).value for values in without)

    def mask_gradient(self) -> tuple[Any, ...]:
        """Gradient of a mask of the factors, `df(w x)/dw_i` at w = 1, by the chain rule through the grouping.

        `x_i df/dx_i`. In each w_i the product is a straight line, so this slope is LOO, under every grouping.

        >>> Product([2, 3, 4], "(x1 x2) x3").mask_gradient(), Product([2, 3, 4], "x1 (x2 x3)").mask_gradient()
        ((24, 24, 24), (24, 24, 24))
        """
        out = list(self.values)

        def descend(node: Grouping, gradient: Any) -> None:
            if isinstance(node, int):
                out[node] = gradient * self.values[node]
                return
            for place, part in enumerate(node):
                others = math.prod(self._value_of(other) for k, other in enumerate(node) if k != place)
                descend(part, gradient * others)

        descend(self.grouping, 1)
        return tuple(out)

    def shapley(self) -> tuple[Any, ...]:
        """Shapley values of the game in which a factor outside the coalition is set to 0.

        `phi_i = sum over S without i of |S|! (n - |S| - 1)! / n! (v(S + i) - v(S))` (Shapley 1953), with
        `v(S)` the product whose factors outside S are 0. At most 16 factors, because the sum has 2^(n-1)
        terms for each.
        """
        n = len(self.values)
        if n > MAX_SHAPLEY_FACTORS:
            expected, hint = f"at most {MAX_SHAPLEY_FACTORS}", "the sum runs over all coalitions"
            raise InputError("Product.shapley", got=f"{n} factors", expected=expected, hint=hint)

        def worth(coalition: set[int]) -> Any:
            return math.prod(x if k in coalition else 0 for k, x in enumerate(self.values))

        out = []
        for i in range(n):
            others = [k for k in range(n) if k != i]
            terms = [
                (
                    Fraction(math.factorial(size) * math.factorial(n - size - 1), math.factorial(n)),
                    worth({*chosen, i}) - worth(set(chosen)),
                )
                for size in range(n)
                for chosen in combinations(others, size)
            ]
            out.append(_tidy(sum(weight * gain for weight, gain in terms if gain)))
        return tuple(out)

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


def _is_grouping(grouping: Grouping) -> bool:
    return isinstance(grouping, int) or (len(grouping) >= 2 and all(_is_grouping(part) for part in grouping))


def _is_grouping_of(grouping: Grouping, count: int) -> bool:
    """Whether a grouping holds each of `count` factors once, in groups of two or more."""
    return sorted(leaves_of(grouping)) == list(range(count)) and _is_grouping(grouping)


def _divide(amount: Any, parts: int) -> Any:
    """Exact for ints and Fractions; whole numbers stay ints so that a page reads 12 and not 12.0."""
    return _tidy(Fraction(amount) / parts) if isinstance(amount, (int, Fraction)) else amount / parts


def _tidy(amount: Any) -> Any:
    return int(amount) if isinstance(amount, Fraction) and amount.denominator == 1 else amount


def _check_count(count: int) -> int:
    return whole("Product", "number of factors", count, least=2, hint="a product has two factors or more")


def _not_a_grouping(text: str) -> InputError:
    return InputError(
        "parse",
        got=f"grouping {text!r}",
        expected="factors x1, x2, ... once each, with balanced brackets",
        hint="write it like '(x1 x2) x3'",
    )
