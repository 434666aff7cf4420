"""Small models with every step in sight: a product, one softmax step, linear attention on digits.

A product of scalars is the smallest case in which relevance depends on how a function is grouped. A grouping
of n factors says which multiplications are done, and in which order: a leaf (the index of a factor, from 0)
or a tuple of groupings. `((0, 1), 2)` is `(x1 x2) x3`, and `(0, 1, 2)` is one multiplication of all three.
Numbers may be floats, ints or `Fraction`s; with the latter two every result is exact.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np

from lrp_companion.checks import InputError

Grouping = int | tuple["Grouping", ...]


def flat(count: int) -> Grouping:
    """One multiplication of all factors at once."""
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
    """A grouping in the notation of `parse`."""
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


@dataclass(frozen=True)
class SoftmaxStep:
    """One attention read-out, `o = sum_i A_i v_i` with `A = softmax(z)`: one query that reads n tokens, or
    many such queries at once.

    Values are numbers: with vectors `v_i` and an incoming gradient `g` only the products `g . v_i` matter,
    because everything here is linear in the values. The central quantity is the gradient of the token's
    keep-mask, `D_i = A_i (v_i - o)`, with the sum 0. Removing the token changes the output by
    `D_i / (1 - A_i)`: LOO by attention mask. Eq. (5) of You et al. 2025 keeps `z_i D_i`. Epsilon is 0.

    Attributes
    ----------
    logits, values : float64, shape (..., n) with n >= 2: the scores z and the numbers v that are read. Every
        result has this shape, except `output` and the sums, which lose the last axis.

    >>> step = SoftmaxStep([0.0, 0.0, 0.0, 0.0], [8.0, 0.0, 0.0, 0.0])
    >>> float(step.output), step.cp_lrp().tolist(), step.loo().round(6).tolist()
    (2.0, [2.0, 0.0, 0.0, 0.0], [2.0, -0.666667, -0.666667, -0.666667])
    """

    logits: np.ndarray
    values: np.ndarray

    def __post_init__(self) -> None:
        z, v = _numbers(self.logits), _numbers(self.values)
        if z.shape != v.shape or z.ndim < 1:
            raise ValueError(f"logits of shape {z.shape} and values of shape {v.shape}")
        object.__setattr__(self, "logits", z)
        object.__setattr__(self, "values", v)

    def __repr__(self) -> str:
        return f"SoftmaxStep(tokens={self.logits.shape[-1]}, queries={self.logits[..., 0].size})"

    @property
    def attention(self) -> np.ndarray:
        """`A_i = exp(z_i) / sum_j exp(z_j)`."""
        weights = self._weights()
        return weights / weights.sum(-1, keepdims=True)

    @property
    def output(self) -> np.ndarray:
        """`o = sum_i A_i v_i`, shape (...)."""
        return (self.attention * self.values).sum(-1)

    def cp_lrp(self) -> np.ndarray:
        """CP-LRP (Ali et al. 2022): A is a constant, so the values get all relevance, `R_i = A_i v_i`.

        The sum is o.
        """
        return self.attention * self.values

    def value_relevance(self) -> np.ndarray:
        """AttnLRP's half at the values, Eq. (3b): `R_{v_i} = 1/2 A_i v_i`, equal to that at the attention."""
        return 0.5 * self.cp_lrp()

    def logit_relevance(self) -> np.ndarray:
        """AttnLRP's relevance at the logits, Eq. (3a) into Eq. (5):
        `R_{z_i} = z_i (R_{A_i} - A_i sum_j R_{A_j}) = 1/2 z_i D_i`.

        It equals `1/2 z_i (1 - A_i) LOO_i`: LOO times a factor that depends on the level of the logits.

        >>> SoftmaxStep([1.0, 1.0], [2.0, 0.0]).logit_relevance().tolist()
        [0.25, -0.25]
        """
        return 0.5 * self.logits * self.mask_gradient()

    def attnlrp(self) -> np.ndarray:
        """AttnLRP in all: `R_i = 1/2 A_i v_i + 1/2 z_i D_i`, each token's value and logit together."""
        return self.value_relevance() + self.logit_relevance()

    def mask_gradient(self) -> np.ndarray:
        """`D_i = A_i (v_i - o)`: the gradient of o with respect to the token's keep-mask, and to its logit.

        The sum is 0.
        """
        share = self._weights()
        rest = _others(share) / share.sum(-1, keepdims=True)  # 1 - A_i, without cancellation
        return self.attention * rest * self._gain()

    def loo(self) -> np.ndarray:
        """The true change when token i is masked and A renormalised:
        `LOO_i = o - o_i = A_i (v_i - o) / (1 - A_i)`.

        With `v_i - o = (1 - A_i)(v_i - o_i)` this is `A_i (v_i - o_i)`: the token's value compared with what
        is read in its place. No rounding error is left by a token with nearly all of the attention.

        >>> SoftmaxStep([0.0, 2.0, 5.0], [3.0, 3.0, 3.0]).loo().tolist()
        [0.0, 0.0, 0.0]
        """
        return self.attention * self._gain()

    def _weights(self) -> np.ndarray:
        """`exp(z_i - max z)`: the same softmax, no overflow."""
        return np.exp(self.logits - self.logits.max(-1, keepdims=True))

    def _gain(self) -> np.ndarray:
        """`v_i - o_i` with `o_i = sum_{j != i} exp(z_j) v_j / sum_{j != i} exp(z_j)`, read without token i.

        Only differences of values matter. They are taken first, so that equal values give exactly 0.
        """
        weights, relative = self._weights(), self.values - self.values[..., :1]
        return relative - _others(weights * relative) / _others(weights)


def _others(x: np.ndarray) -> np.ndarray:
    """`sum_{j != i} x_j` for every i: the sum before i plus the sum after it."""
    before, behind = np.zeros_like(x), np.zeros_like(x)
    before[..., 1:] = np.cumsum(x, axis=-1)[..., :-1]
    behind[..., :-1] = np.cumsum(x[..., ::-1], axis=-1)[..., ::-1][..., 1:]
    return before + behind


def _numbers(given: Any) -> np.ndarray:
    out = np.array(given, dtype=np.float64)
    out.setflags(write=False)
    return out
