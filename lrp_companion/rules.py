"""The relevance rules as pure functions on tensors, one per operation of a Transformer.

The backward pass carries `g = R / a`, relevance per unit of activation (`relevance_gradient`), and not `R`.
Every rule is then a linear map on `g`, nothing is divided by a number near zero, and relevance anywhere is `R
= a * g`. With epsilon 0 this is the gradient of a modified network, in which the normalisers of LayerNorm,
the slopes of the activations and (under CP-LRP) the attention weights count as constants. Arras et al. 2025
call it a modified gradient.

Equation numbers are those of You et al. 2025 (arXiv 2510.18810). `eps` is the stabiliser of Eq. (1), (3) and
(4). Each rule multiplies the `g` that arrives at its output by `stabiliser(output, eps)`, which is
`z / (z + eps sign z)`; without epsilon it leaves out this pass over memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

NARROW = 64
"""Columns up to which one wide product, with its copies, is faster than many narrow ones (measured)."""


Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Row:
    """One row of the table of rules, in MyST Markdown.

    Attributes
    ----------
    operation : the forward operation.
    says : the rule in a few words.
    source : equation and reference.
    backward : what happens to `g`.
    also : other functions of this module that this use needs.
    beyond : whether only families with an order other than BERT's have the operation.
    """

    operation: str
    says: str
    source: str
    backward: str
    also: tuple[str, ...] = ()
    beyond: bool = False


@dataclass(frozen=True)
class Rule:
    """A relevance rule: its name, its function, and its rows in the table of the book."""

    name: str
    function: Callable[..., Any]
    rows: tuple[Row, ...]


RULES: dict[str, Rule] = {}
"""Every rule by name, in the order of this file; the book's table and the tests of all rules read it."""


def rule(*rows: Row) -> Callable[[Function], Function]:
    """Register the decorated function as a relevance rule, under its own name."""

    def register(function: Function) -> Function:
        RULES[function.__name__] = Rule(function.__name__, function, rows)
        return function

    return register


@rule(
    Row(
        "stabiliser",
        "signed epsilon",
        "inside Eq. (1), (3), (4)",
        r"$s_\varepsilon(z) = \lvert z\rvert / (\lvert z\rvert + \varepsilon)$",
    ),
)
def stabiliser(z: Tensor, eps: float) -> Tensor | float:
    """The factor `|z| / (|z| + eps)` by which the epsilon rule damps relevance at an output `z`, Eq. (1).

    The shape is that of `z` and the values are in [0, 1]: exactly 1 for `eps = 0`, also at `z = 0`, where the
    limit of the rule is taken.

    >>> stabiliser(torch.tensor([3.0, -1.0, 0.0]), 1.0).tolist()
    [0.75, 0.5, 0.0]
    """
    if eps == 0:
        return 1.0
    # z / (z + eps sign z) = |z| / (|z| + eps): the sign falls out, and no sum near 0 is divided by
    size = z.abs()
    return size / (size + eps)


def _transposed_product(a: Tensor, g: Tensor) -> Tensor:
    """`a^T g` over the last two axes.

    Leading axes that only a narrow `g` has (many masks of one text) become columns of one product.
    """
    # a (..., k, i), g (M, ..., k, j) with M masks: to (M, ..., i, j)
    if g.ndim > a.ndim and g.shape[-1] <= NARROW:
        return torch.einsum("...ki,...kj->...ij", a, g)
    return a.mT @ g


@rule(
    Row(
        "linear $z = Wx + b$",
        "epsilon; the bias keeps its share",
        "Eq. (1) {cite}`bach2015pixel`",
        r"$g_x = W^\top (s_\varepsilon(z) \odot g_z)$",
    ),
)
def linear(g_z: Tensor, weight: Tensor, z: Tensor, *, eps: float = 0.0) -> Tensor:
    """Epsilon rule for `z = x W^T + b`, Eq. (1): `g_x = (s_eps(z) g_z) W`; the bias keeps its share.

    `weight` (out, in) as in `torch.nn.Linear`; `g_z` and `z` (..., out); returns (..., in).

    >>> linear(torch.ones(1, 1), torch.tensor([[2.0, 3.0]]), torch.tensor([[5.0]])).tolist()
    [[2.0, 3.0]]
    """
    # R_i = sum_j x_i W_ji / (z_j + eps sign z_j) R_j. Put R_j = z_j g_j and R_i = x_i g_i: x_i cancels, and
    # z_j / (z_j + eps sign z_j) is the stabiliser. (..., out) @ (out, in); b is in z only and keeps b_j g_j.
    return (stabiliser(z, eps) * g_z if eps else g_z) @ weight


@rule(
    Row(
        "sum $z = x + y$",
        "epsilon with unit weights",
        "Eq. (1) {cite}`bach2015pixel`",
        r"$g_x = g_y = s_\varepsilon(z) \odot g_z$",
    ),
)
def add(g_z: Tensor, z: Tensor, *, eps: float = 0.0) -> Tensor:
    """Epsilon rule for a sum `z = x + y`, Eq. (1) with unit weights: both summands receive `s_eps(z) g_z`.

    >>> add(torch.ones(2), torch.tensor([1.0, -3.0]), eps=1.0).tolist()
    [0.5, 0.75]
    """
    # R_x = x / (z + eps sign z) R_z, and the same for y: as if by two maps with weight 1
    return stabiliser(z, eps) * g_z if eps else g_z


@rule(
    Row(
        "product $O = AV$",
        "each factor half",
        "Eq. (3) {cite}`achtibat2024attnlrp`",
        r"$g_A = \tfrac12 (s_{\varepsilon/2}(O) \odot g_O) V^\top$, "
        r"$\; g_V = \tfrac12 A^\top (s_{\varepsilon/2}(O) \odot g_O)$",
    ),
    Row(
        r"product $Z = QK^\top/\sqrt d$",
        "each factor half",
        "Eq. (4) {cite}`achtibat2024attnlrp`",
        "as for $O = AV$",
    ),
    Row(
        r"the same with a bias by distance, $Z = QK^\top/\sqrt d + B$",
        "each factor half; the bias keeps its share",
        "Eq. (4) {cite}`achtibat2024attnlrp`",
        "as for $O = AV$, with $Z$ as the output",
        beyond=True,
    ),
    Row(
        r"relative positions (DeBERTa), $Z_{ji} = q_j k_i + q_j P_d + k_i S_d$ over $\sqrt{3 d}$",
        "each factor half; $P$ and $S$ keep theirs",
        "Eq. (4) for each product {cite}`achtibat2024attnlrp`",
        "as for $O = AV$, with $Z$ as the output",
        beyond=True,
    ),
)
def matmul(
    g_o: Tensor,
    a: Tensor,
    b: Tensor,
    o: Tensor,
    *,
    eps: float = 0.0,
    shares: tuple[float, float] = (0.5, 0.5),
) -> tuple[Tensor, Tensor]:
    """Uniform rule for a product of two activations `o = a b`, Eq. (3) and (4): each factor receives half.

    `g_a = 1/2 (s g_o) b^T`, `g_b = 1/2 a^T (s g_o)` with `s = |o| / (|o| + eps/2)`.
    `a` (..., n, k), `b` (..., k, m), `o` and `g_o` (..., n, m); returns shapes of `a` and `b`.
    Other `shares` than halves give the mixtures that the paper compares through grouping.

    >>> one = torch.ones(1, 1)
    >>> [g.item() for g in matmul(one, 2 * one, 3 * one, 6 * one)]
    [1.5, 1.0]
    """
    # R_ji = sum_m a_ji b_im / (2 o_jm + eps sign o_jm) R_jm: the 2 is the half, and leaves eps / 2 beside o
    g = stabiliser(o, eps / 2) * g_o if eps else g_o
    # g_a: (..., n, m) @ (..., m, k); g_b: (..., k, n) @ (..., n, m). `a` may be attention,
    # the largest of all, so what is scaled is its product: in place, as it is new
    return g @ (shares[0] * b.mT), _transposed_product(a, g).mul_(shares[1])


@rule(
    Row(
        r"softmax $A = \mathrm{softmax}(Z)$",
        "Taylor at $Z$",
        "Eq. (5) {cite}`achtibat2024attnlrp`",
        r"$g_Z = A \odot (g_A - \sum_i A_i\, g_{A_i})$",
    ),
)
def softmax(g_a: Tensor, a: Tensor) -> Tensor:
    """Taylor rule for `a = softmax(z)` over the last axis, Eq. (5): the plain Jacobian on `g`.

    `g_z = a (g_a - sum_i a_i g_a_i)`, so that `R_z = z g_z`. Where `a = 0` (a masked key) nothing arrives.
    All shapes (..., k). This rule does not conserve: `sum R_z != sum R_a` in general.

    >>> softmax(torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5])).tolist()
    [0.25, -0.25]
    """
    # Eq. (5): R_z_i = z_i (R_a_i - a_i sum_k R_a_k). With R_a = a g_a and R_z = z g_z, z_i cancels; what
    # remains is the Jacobian a_i (1[i = k] - a_k), with no division by a score near 0. `r_a` is new: in place
    r_a = a * g_a
    return r_a.addcmul_(a, r_a.sum(-1, keepdim=True), value=-1)


@rule(
    Row(
        "product $O = AV$, bypassed",
        "$A$ is a constant: Eq. (1), **not halved**",
        "section 2.3 {cite}`ali2022xai`",
        r"$g_V = A^\top (s_\varepsilon(O) \odot g_O)$, $\; g_A = 0$",
    ),
)
def attention_values(g_o: Tensor, a: Tensor, o: Tensor, *, eps: float = 0.0) -> Tensor:
    """CP-LRP's rule for `o = a v`: the attention `a` is a constant, so the values receive everything.

    `g_v = a^T (s_eps(o) g_o)`, not halved: Eq. (1) with weights `a` (Ali et al. 2022).
    `a` (..., n, k), `o` and `g_o` (..., n, m); returns (..., k, m).

    >>> attention_values(torch.ones(1, 1), torch.tensor([[0.25, 0.75]]), torch.ones(1, 1)).tolist()
    [[0.25], [0.75]]
    """
    # `a` in place of weights, so there is one factor and no half: with a half here, half of the relevance
    # would be lost in every layer
    return _transposed_product(a, stabiliser(o, eps) * g_o if eps else g_o)


@rule(
    Row(
        r"LayerNorm $y = \gamma\,(x - \bar x)/\sigma + \beta$",
        r"$\sigma$ is a constant; $\beta$ keeps its share",
        "{cite}`ali2022xai`",
        r"$h = \gamma\, s_\varepsilon(y) \odot g_y / \sigma$, $\; g_x = h - \bar h$",
    ),
)
def layer_norm(g_y: Tensor, gamma: Tensor, sd: Tensor, y: Tensor, *, eps: float = 0.0) -> Tensor:
    """Rule for `y = gamma (x - mean x) / sd + beta` with `sd` held constant; beta keeps its share.

    The rest is linear, so Eq. (1) applies: `h = gamma s_eps(y) g_y / sd`, `g_x = h - mean(h)` (Ali et al.
    2022). `g_y` and `y` (..., n), `gamma` (n,), `sd` (..., 1) with LayerNorm's small constant inside.

    >>> layer_norm(torch.tensor([1.0, 0.0]), torch.ones(2), torch.ones(1), torch.ones(2)).tolist()
    [0.5, -0.5]
    """
    # y - beta = gamma P x / sd with P = I - 11^T/n, which is symmetric: the transpose is P (gamma / sd)
    h = (stabiliser(y, eps) * g_y if eps else g_y) * (gamma / sd)
    # P h, in place: `h` is new
    return h.sub_(h.mean(-1, keepdim=True))


@rule(
    Row(
        r"RMSNorm $y = \gamma\,x/\rho$, $\rho = \mathrm{rms}(x)$",
        r"$\rho$ is a constant",
        "as for LayerNorm {cite}`ali2022xai`",
        r"$g_x = \gamma\, s_\varepsilon(y) \odot g_y / \rho$",
        beyond=True,
    ),
)
def rms_norm(g_y: Tensor, gamma: Tensor, rms: Tensor, y: Tensor, *, eps: float = 0.0) -> Tensor:
    """Rule for `y = gamma x / rms(x)` with `rms` held constant: `g_x = gamma s_eps(y) g_y / rms`, Eq. (1).

    `g_y` and `y` (..., n), `gamma` (n,), `rms` (..., 1) with RMSNorm's small constant inside.

    >>> two = torch.tensor([2.0])
    >>> rms_norm(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 1.0]), two, torch.ones(2)).tolist()
    [1.5, 1.0]
    """
    # no mean to subtract: a diagonal map, which is its own transpose
    return (stabiliser(y, eps) * g_y if eps else g_y) * (gamma / rms)


@rule(
    Row(
        r"rotation of a query or key, $y = x \odot c + \mathrm{turn}(x) \odot s$ (RoPE)",
        "epsilon; the angles are constants",
        "Eq. (1) {cite}`bach2015pixel`",
        r"$g_x = \tilde g \odot c + \mathrm{turn}^\top(\tilde g \odot s)$, "
        r"$\; \tilde g = s_\varepsilon(y) \odot g_y$",
        also=("turn",),
        beyond=True,
    ),
)
def rotation(g_y: Tensor, cos: Tensor, sin: Tensor, y: Tensor, *, eps: float = 0.0) -> Tensor:
    """Epsilon rule for `y = x cos + turn(x) sin`, Eq. (1): a linear map by constants, so its transpose.

    `turn` maps the halves `(a, b)` of the last axis to `(-b, a)`. `g_y` and `y` (..., T, d), `cos` and `sin`
    (T, d) or with axes in front.

    >>> zero, one = torch.zeros(2), torch.ones(2)
    >>> rotation(torch.tensor([1.0, 3.0]), zero, one, one).tolist()  # a quarter turn, back
    [3.0, -1.0]
    """
    # the transpose of `turn` is `-turn`
    g = stabiliser(y, eps) * g_y if eps else g_y
    return g * cos - turn(g * sin)


@rule(
    Row(
        r"the same, angles as factors (PA-LRP)",
        "sum, then each product: half to $x$, half to the position",
        "Eq. (3), entry by entry {cite}`bakish2025revisiting`",
        r"$g_x = \tfrac12(\tilde g \odot c + \mathrm{turn}^\top(\tilde g \odot s))$, "
        r"$\; g_c = \tfrac12\, \tilde g \odot x$, $\; g_s = \tfrac12\, \tilde g \odot \mathrm{turn}(x)$",
        beyond=True,
    ),
)
def rotation_factors(
    g_y: Tensor, x: Tensor, cos: Tensor, sin: Tensor, y: Tensor, *, eps: float = 0.0
) -> tuple[Tensor, Tensor, Tensor]:
    """PA-LRP's rule for `y = x cos + turn(x) sin`: Eq. (1) for the sum, halves for both products, Eq. (3).

    Returns `g` at `x`, at `cos` and at `sin`, each of the shape of `y`: relevance of a position is
    `cos g_cos` and `sin g_sin`, summed over all that shares the position. Shapes as in `rotation`; `x` has
    the shape of `y`.

    >>> zero, one = torch.zeros(2), torch.ones(2)
    >>> g, g_cos, g_sin = rotation_factors(one, torch.tensor([2.0, 4.0]), one, zero, one)
    >>> g.tolist(), g_cos.tolist(), g_sin.tolist()
    ([0.5, 0.5], [1.0, 2.0], [-2.0, 1.0])
    """
    # the sum first, Eq. (1); then both products, Eq. (3): half to x, half to the angle
    g, turned = add(g_y, y, eps=eps), turn(x)
    straight, g_cos = gated(g, x, cos, x * cos, eps=eps)
    across, g_sin = gated(g, turned, sin, turned * sin, eps=eps)
    # x is a factor of both: as it is, and turned
    return straight - turn(across), g_cos, g_sin


def turn(x: Tensor) -> Tensor:
    """The halves `(a, b)` of the last axis as `(-b, a)`: a quarter turn of pairs; its transpose is `-turn`.

    >>> turn(torch.tensor([1.0, 2.0])).tolist()
    [-2.0, 1.0]
    """
    # (..., d) as two (..., d/2)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


@rule(
    Row(
        r"gated MLP $h = a \odot u$, $a = \varphi(Gx)$, $u = Ux$",
        "each factor half",
        "Eq. (3), entry by entry {cite}`achtibat2024attnlrp`",
        r"$g_a = \tfrac12 u \odot s_{\varepsilon/2}(h) \odot g_h$, "
        r"$\; g_u = \tfrac12 a \odot s_{\varepsilon/2}(h) \odot g_h$",
        beyond=True,
    ),
)
def gated(
    g_h: Tensor,
    a: Tensor,
    u: Tensor,
    h: Tensor,
    *,
    eps: float = 0.0,
    shares: tuple[float, float] = (0.5, 0.5),
) -> tuple[Tensor, Tensor]:
    """Uniform rule for a product `h = a u`, entry by entry, Eq. (3): each factor receives half.

    `g_a = 1/2 (s g_h) u`, `g_u = 1/2 (s g_h) a` with `s = |h| / (|h| + eps/2)`. All shapes equal. In a gated
    MLP `a` is the activated gate. `shares` other than halves are other groupings of the product.

    >>> one = torch.ones(1)
    >>> [g.item() for g in gated(one, 2 * one, 3 * one, 6 * one)]
    [1.5, 1.0]
    """
    # `matmul` without a sum: R_a = 1/2 a u g, of which g_a is the rest without a
    g = stabiliser(h, eps / 2) * g_h if eps else g_h
    return (u * g).mul_(shares[0]), (a * g).mul_(shares[1])


@rule(
    Row(
        r"the same, grouped from the right: $h = z \odot p$, $p = \sigma \odot u$, $a = \sigma \odot z$",
        r"each factor half, twice; the identity at $\sigma$",
        "Eq. (3), entry by entry {cite}`achtibat2024attnlrp`",
        r"$g_a = \tfrac12 u \odot (1 + \tfrac12 s_{\varepsilon/2}(p)) \odot \tilde g$, "
        r"$\; g_u = \tfrac14 a \odot s_{\varepsilon/2}(p) \odot \tilde g$, "
        r"$\; \tilde g = s_{\varepsilon/2}(h) \odot g_h$",
        beyond=True,
    ),
)
def gated_from_the_right(
    g_h: Tensor, a: Tensor, u: Tensor, h: Tensor, p: Tensor, *, eps: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The rule for `h = z (sigma u)` where the gate is `a = sigma z`, as SiLU and GELU are: Eq. (3) twice.

    `z` receives half of the relevance, `sigma` and `u` a quarter each, and `sigma` passes its quarter to `z`,
    of which it is a function. So `u` receives 1/4 and the gate 3/4; `p = sigma u`. All shapes equal.

    >>> one = torch.ones(1)
    >>> [g.item() for g in gated_from_the_right(one, 2 * one, 3 * one, 6 * one, 3 * one)]
    [2.25, 0.5]
    """
    g = stabiliser(h, eps / 2) * g_h if eps else g_h
    # h = z p hands p the half g z / 2, which p = sigma u halves again: a quarter each
    inner = stabiliser(p, eps / 2) * g if eps else g
    # relevance of z: its 1/2 a u g, and sigma's 1/4 a u inner; divided by a = sigma z this is g_a
    return 0.5 * u * (g + 0.5 * inner), 0.25 * a * inner


@rule(
    Row(
        r"the same as one product of three, $h = z \odot \sigma \odot u$",
        r"each factor a third; the identity at $\sigma$",
        "Eq. (3) for three factors {cite}`achtibat2024attnlrp`",
        r"$g_a = \tfrac23\, u \odot s_{\varepsilon/3}(h) \odot g_h$, "
        r"$\; g_u = \tfrac13\, a \odot s_{\varepsilon/3}(h) \odot g_h$",
        beyond=True,
    ),
)
def gated_flat(g_h: Tensor, a: Tensor, u: Tensor, h: Tensor, *, eps: float = 0.0) -> tuple[Tensor, Tensor]:
    """The rule for `h = z sigma u` as one product of three factors: a third each, and `sigma` passes its
    third to `z`.

    All shapes equal.

    >>> one = torch.ones(1)
    >>> [round(g.item(), 4) for g in gated_flat(one, 2 * one, 3 * one, 6 * one)]
    [2.0, 0.6667]
    """
    g = stabiliser(h, eps / 3) * g_h if eps else g_h
    # the thirds of z and of sigma, which passes its own to z, are both at the gate
    return 2 / 3 * u * g, a * g / 3


@rule(
    Row(
        r"gated MLP $h = a \odot u$, gate held",
        "$a$ is a constant: Eq. (1), **not halved**",
        "as CP-LRP treats attention {cite}`ali2022xai`",
        r"$g_u = a \odot s_\varepsilon(h) \odot g_h$, $\; g_a = 0$",
        beyond=True,
    ),
)
def gated_values(g_h: Tensor, a: Tensor, h: Tensor, *, eps: float = 0.0) -> Tensor:
    """The rule for `h = a u` with the gate `a` held constant: `g_u = a s_eps(h) g_h`, not halved, Eq. (1).

    All shapes equal.

    >>> gated_values(torch.ones(1), torch.tensor([2.0]), torch.tensor([6.0])).tolist()
    [2.0]
    """
    # `a` in place of weights: Eq. (1), no half
    return a * (stabiliser(h, eps) * g_h if eps else g_h)


@rule(
    Row(
        r"activation $y = \varphi(z)$",
        "identity, $R_z = R_y$",
        "{cite}`achtibat2024attnlrp`",
        r"$g_z = g_y \odot \varphi(z)/z$, and $\varphi'(0)$ at $z = 0$",
        also=("slope",),
    ),
)
def elementwise(g_y: Tensor, slope: Tensor) -> Tensor:
    """Identity rule for an activation function `y = phi(z)`: `R_z = R_y`, so `g_z = g_y phi(z) / z`.

    `slope` is `phi(z) / z` (see `slope`): it does not depend on `g`, so a tape keeps it. All shapes equal.

    >>> z = torch.tensor([2.0, 0.0])
    >>> elementwise(torch.ones(2), slope(z, z, at_zero=0.5)).tolist()
    [1.0, 0.5]
    """
    # R_z = R_y: z g_z = y g_y
    return g_y * slope


def slope(z: Tensor, y: Tensor, *, at_zero: float) -> Tensor:
    """`y / z` of an activation function `y = phi(z)`; at `z = 0` the limit `phi'(0)`. All shapes equal.

    The limit is 1/2 for GELU, 1 for tanh, and 0 for ReLU as PyTorch has it.

    >>> slope(torch.tensor([2.0, 0.0]), torch.tensor([3.0, 0.0]), at_zero=0.5).tolist()
    [1.5, 0.5]
    """
    # undefined at 0 alone; the quotient is new, so in place
    return (y / z).masked_fill_(z == 0, at_zero)
