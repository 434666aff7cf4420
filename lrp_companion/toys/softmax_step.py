"""One attention read-out, `o = sum_i A_i v_i` with `A = softmax(z)`: the rules, and the effect of removal.

Values are numbers: with vectors `v_i` and an incoming gradient `g` only the products `g . v_i` matter,
because everything here is linear in the values. The central quantity is the gradient of the token's
keep-mask,

    D_i = A_i (v_i - o),   sum_i D_i = 0.

Removing the token changes the output by `D_i / (1 - A_i)`: LOO by attention mask. Eq. (5) of You et al. 2025
keeps `z_i D_i`. Epsilon is 0 throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class SoftmaxStep:
    """One query that reads n tokens, or many such queries at once.

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
