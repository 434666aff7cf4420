"""Theme: rules and conservation. Slow forms on relevance itself where the paper has them so."""

from __future__ import annotations

import numpy as np

from lrp_book.exercises.checking import THEMES, Case, Exercise, Slip

Pair = tuple[np.ndarray, np.ndarray]


def sign(z: np.ndarray) -> np.ndarray:
    """+1 or -1; +1 at 0, so that a stabiliser never vanishes."""
    return np.where(z < 0, -1.0, 1.0)


def epsilon_rule(
    relevance: np.ndarray, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float
) -> np.ndarray:
    """Eq. (1), contribution by contribution: `z_ij = x_i W_ji`.

    The bias is one more contribution and keeps its share.
    """
    out = np.zeros_like(x)
    for j in range(len(relevance)):
        total = sum(x[i] * weight[j, i] for i in range(len(x))) + bias[j]
        for i in range(len(x)):
            out[i] += x[i] * weight[j, i] / (total + eps * (-1 if total < 0 else 1)) * relevance[j]
    return out


def _epsilon(
    relevance: np.ndarray, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float, *, kind: str
) -> np.ndarray:
    """Eq. (1) with one thing done otherwise."""
    z = weight @ x + (0 if kind == "no bias" else bias)
    below = {
        "unsigned": z + eps,
        "no eps": z,
        "absolute": np.abs(z) + eps,
        "half": 2 * z + eps * sign(z),
        "minus": z - eps * sign(z),
    }.get(kind, z + eps * sign(z))
    if kind == "wrong axis":
        parts = x[:, None] * weight.T
        sums = parts.sum(1, keepdims=True)
        return (parts / (sums + eps * sign(sums)) * relevance).sum(1)
    if kind == "bias shared":
        return ((x[:, None] * weight.T + bias / len(x)) / below * relevance).sum(1)
    out = (relevance / below) @ weight
    return out if kind == "g" else x * out


def _linear_cases(rng: np.random.Generator) -> list[Case]:
    def draw(inside: int, outside: int, eps: float, *, bias: float = 1.0) -> tuple:
        x, weight = rng.normal(size=inside), rng.normal(size=(outside, inside))
        return rng.normal(size=outside), x, weight, bias * rng.normal(size=outside), eps

    return [
        Case("without bias, epsilon 0", draw(4, 3, 0.0, bias=0.0)),
        Case("with a bias, epsilon 0", draw(3, 5, 0.0)),
        Case("with a bias, epsilon 0.3", draw(6, 4, 0.3)),
        Case("with as many outputs as inputs, epsilon 0.1", draw(4, 4, 0.1)),
    ]


def residual_rule(relevance: np.ndarray, x: np.ndarray, branch: np.ndarray, eps: float) -> Pair:
    """Eq. (1) with unit weights for `z = x + branch`, entry by entry."""
    z = x + branch
    return x / (z + eps * sign(z)) * relevance, branch / (z + eps * sign(z)) * relevance


def _residual_cases(rng: np.random.Generator) -> list[Case]:
    def draw(*shape: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return rng.normal(size=shape), rng.normal(size=shape), rng.normal(size=shape)

    return [
        Case("with epsilon 0", (*draw(3, 4), 0.0)),
        Case("with epsilon 0.2", (*draw(2, 5), 0.2)),
        Case(
            "that cancel, epsilon 0.1",
            (np.array([1.0, 2.0]), np.array([3.0, 1.0]), np.array([-3.05, -0.95]), 0.1),
        ),
    ]


def _residual(relevance: np.ndarray, x: np.ndarray, branch: np.ndarray, below: np.ndarray) -> Pair:
    return x / below * relevance, branch / below * relevance


def layer_norm_rule(g_y: np.ndarray, x: np.ndarray, gamma: np.ndarray, small: float) -> np.ndarray:
    "Row by row through the matrix of LayerNorm with sd held constant: `diag(gamma / sd) (I - 1 1^T / n)`."
    out = np.zeros_like(x)
    n = x.shape[1]
    for t, row in enumerate(x):
        sd = np.sqrt(sum((value - row.mean()) ** 2 for value in row) / n + small)
        out[t] = (np.diag(gamma / sd) @ (np.eye(n) - np.ones((n, n)) / n)).T @ g_y[t]
    return out


def _layer_norm(
    g_y: np.ndarray, x: np.ndarray, gamma: np.ndarray, small: float, *, kind: str = ""
) -> np.ndarray:
    axis = 0 if kind == "statistics over tokens" else -1
    variance = x.var(axis, keepdims=True, ddof=1 if kind == "sample" else 0)
    small = 0.0 if kind == "no small" else small
    sd = variance + small if kind == "variance" else np.sqrt(variance + small)
    h = (1.0 if kind in ("no gamma", "gamma last") else gamma) * g_y / sd
    if kind == "no mean":
        return h
    out = h - h.mean(0 if kind == "mean over tokens" else -1, keepdims=True)
    if kind == "gradient":
        hat = (x - x.mean(-1, keepdims=True)) / sd
        out = out - hat * (h * hat).mean(-1, keepdims=True)
    if kind == "plus":
        out = h + h.mean(-1, keepdims=True)
    return gamma * out if kind == "gamma last" else out


def _layer_norm_cases(rng: np.random.Generator) -> list[Case]:
    def draw(tokens: int, width: int, small: float) -> tuple:
        g_y, x = rng.normal(size=(tokens, width)), 2 * rng.normal(size=(tokens, width)) + 1
        return g_y, x, rng.normal(size=width) + 1, small

    return [
        Case("of two tokens, three wide", draw(2, 3, 1e-12)),
        Case("of as many tokens as it is wide", draw(4, 4, 1e-5)),
        Case("with a large constant inside the root", draw(3, 5, 0.5)),
    ]


def matmul_rule(g_o: np.ndarray, a: np.ndarray, v: np.ndarray, eps: float) -> Pair:
    """Eq. (3a) and (3b), entry by entry; the activation is divided out, so R becomes g."""
    o = a @ v
    g_a, g_v = np.zeros_like(a), np.zeros_like(v)
    for j in range(a.shape[0]):
        for p in range(v.shape[1]):
            damped = o[j, p] / (2 * o[j, p] + eps * (-1 if o[j, p] < 0 else 1)) * g_o[j, p]
            for i in range(a.shape[1]):
                g_a[j, i] += v[i, p] * damped
                g_v[i, p] += a[j, i] * damped
    return g_a, g_v


def _matmul(
    g_o: np.ndarray,
    a: np.ndarray,
    v: np.ndarray,
    s: np.ndarray | float,
    first: float = 0.5,
    second: float = 0.5,
) -> Pair:
    return first * (s * g_o) @ v.T, second * a.T @ (s * g_o)


def _size(a: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.abs(a @ v)


def _matmul_cases(rng: np.random.Generator) -> list[Case]:
    def draw(n: int, k: int, m: int, eps: float) -> tuple:
        return rng.normal(size=(n, m)), rng.normal(size=(n, k)), rng.normal(size=(k, m)), eps

    return [
        Case("of three different sizes, epsilon 0", draw(2, 3, 4, 0.0)),
        Case("of three different sizes, epsilon 0.3", draw(4, 2, 3, 0.3)),
        Case("that are square, epsilon 0.1", draw(3, 3, 3, 0.1)),
    ]


def _plain_transposed(g_o: np.ndarray, a: np.ndarray, v: np.ndarray, eps: float) -> Pair:
    """Both results transposed; where the sizes differ, the check of shapes says it first."""
    g_a, g_v = matmul_rule(g_o, a, v, eps)
    return g_a.T, g_v.T


def _relevance_form(g_o: np.ndarray, a: np.ndarray, v: np.ndarray, eps: float) -> Pair:
    g_a, g_v = matmul_rule(g_o, a, v, eps)
    return a * g_a, v * g_v


_NOT_SIGNED = (
    "The stabiliser has no sign: with eps added to a negative z the division can blow up. Add eps * sign(z)."
)
_NO_EPS = "Epsilon is not used: the denominator is z + eps * sign(z)."

EXERCISES = (
    Exercise(
        name="epsilon-rule",
        title="The epsilon rule of a linear map",
        theme=THEMES[1],
        signature="epsilon_rule(relevance, x, weight, bias, eps)",
        task=(
            "For z = weight @ x + bias, weight (out, in), relevance (out,) at z: return the relevance "
            "of x by Eq. (1), shape (in,). The bias is one more contribution and keeps its share."
        ),
        answer=epsilon_rule,
        cases=_linear_cases,
        parts=("the relevance",),
        slips=(
            Slip(lambda *a: _epsilon(*a, kind="unsigned"), _NOT_SIGNED),
            Slip(
                lambda *a: _epsilon(*a, kind="no bias"),
                "The bias is missing in the denominator: "
                "z is the whole output, the bias is one of its contributions.",
            ),
            Slip(
                lambda *a: _epsilon(*a, kind="bias shared"),
                "You share the bias out among the inputs. Here it keeps its share, which reaches no input.",
            ),
            Slip(lambda *a: _epsilon(*a, kind="no eps"), _NO_EPS),
            Slip(
                lambda *a: _epsilon(*a, kind="absolute"),
                "The denominator is |z| + eps, so the sign of z is lost: use z + eps * sign(z).",
            ),
            Slip(
                lambda *a: _epsilon(*a, kind="minus"),
                "The stabiliser has the wrong sign: "
                "it moves z away from zero, z + eps * sign(z), not towards it.",
            ),
            Slip(
                lambda *a: _epsilon(*a, kind="wrong axis"),
                "The sum in the denominator runs over the wrong axis: "
                "for each output j, sum over the inputs.",
            ),
            Slip(
                lambda *a: _epsilon(*a, kind="g"),
                "This is g = R / x: the factor x_i is missing at the end.",
            ),
            Slip(
                lambda *a: _epsilon(*a, kind="half"),
                "One half too many: the 2 z of Eq. (3) is for products of two activations. In Eq. "
                "(1) weights get no share.",
            ),
        ),
        hints=(
            "Input i contributes x_i W_ji to output j. What fraction of z_j is that?",
            (
                "Eq. (1) gives R_i as a sum over j of that fraction times R_j. The bias is in z_j, "
                "and epsilon takes the sign of z_j."
            ),
            "x * (weight.T @ (relevance / (z + eps * np.where(z < 0, -1, 1))))",
        ),
    ),
    Exercise(
        name="residual-rule",
        title="A residual sum",
        theme=THEMES[1],
        signature="residual_rule(relevance, x, branch, eps)",
        task=(
            "For z = x + branch with relevance at z, all of one shape: return (R_x, R_branch) by Eq. "
            "(1) with unit weights."
        ),
        answer=residual_rule,
        cases=_residual_cases,
        parts=("R_x", "R_branch"),
        slips=(
            Slip(lambda r, x, b, eps: _residual(r, x, b, x + b + eps), _NOT_SIGNED),
            Slip(
                lambda r, x, b, eps: (r / 2, r / 2),
                "You halve. Halves are for products, Eq. (3); "
                "a sum shares by contribution, x / z and branch / z.",
            ),
            Slip(
                lambda r, x, b, eps: (0 * r, r),
                "You forgot the residual path: everything goes through the branch, and x gets nothing.",
            ),
            Slip(
                lambda r, x, b, eps: (r, r),
                "Both summands get all of it. "
                "That is right for g, not for relevance, which is shared by contribution.",
            ),
            Slip(lambda r, x, b, eps: _residual(r, x, b, x + b), _NO_EPS),
            Slip(
                lambda r, x, b, eps: _residual(r, x, b, np.abs(x) + np.abs(b) + eps),
                "You divide by |x| + |branch|: the sum itself, with its sign, belongs there.",
            ),
            Slip(
                lambda r, x, b, eps: (residual_rule(r, x, b, eps)[0], r),
                "The branch gets all of the relevance and x also gets its share: together that is too much.",
            ),
        ),
        hints=(
            "Which weights does a sum have as a linear map?",
            ("With unit weights each summand's fraction of z is x / z, and epsilon damps both alike."),
            ("scale = relevance / (z + eps * np.where(z < 0, -1, 1)); return x * scale, branch * scale"),
        ),
    ),
    Exercise(
        name="layer-norm-rule",
        title="LayerNorm with a constant standard deviation",
        theme=THEMES[1],
        signature="layer_norm_rule(g_y, x, gamma, small)",
        task=(
            "For y = gamma (x - mean) / sd + beta, with sd = sqrt(variance + small) held constant and "
            "epsilon 0: carry g from y to x. "
            "g_y and x are (T, n), gamma is (n,), mean and variance run over the last axis; returns (T, n)."
        ),
        answer=layer_norm_rule,
        cases=_layer_norm_cases,
        parts=("g_x",),
        slips=(
            Slip(
                lambda *a: _layer_norm(*a, kind="gradient"),
                "This is the full derivative: sd is differentiated, too. "
                "The rule holds it constant (detach it).",
            ),
            Slip(
                lambda *a: _layer_norm(*a, kind="no mean"),
                "The mean is not taken back: x minus its mean is linear in x, so h - mean(h) comes back.",
            ),
            Slip(
                lambda *a: _layer_norm(*a, kind="mean over tokens"),
                "The mean on the way back runs over the wrong axis: "
                "over the entries of one token, not over tokens.",
            ),
            Slip(
                lambda *a: _layer_norm(*a, kind="statistics over tokens"),
                "Mean and variance of x run over the wrong axis: "
                "LayerNorm takes them over the entries of one token.",
            ),
            Slip(lambda *a: _layer_norm(*a, kind="no gamma"), "The weight gamma is missing."),
            Slip(
                lambda *a: _layer_norm(*a, kind="gamma last"),
                "Gamma comes too late: in the backward pass it comes first, before the mean.",
            ),
            Slip(
                lambda *a: _layer_norm(*a, kind="variance"),
                "You divide by the variance: take its square root.",
            ),
            Slip(
                lambda *a: _layer_norm(*a, kind="sample"),
                "The variance divides by n - 1. LayerNorm divides by n (torch: unbiased=False).",
            ),
            Slip(
                lambda *a: _layer_norm(*a, kind="no small"), "The small constant inside the root is missing."
            ),
            Slip(
                lambda *a: _layer_norm(*a, kind="plus"),
                "A sign was dropped: the mean is subtracted, h - mean(h).",
            ),
        ),
        hints=(
            "With sd a constant, y is linear in x. What is its matrix?",
            (
                "The matrix is diag(gamma / sd) (I - 1 1^T / n), and g goes back by its "
                "transpose: scale first, then subtract the mean."
            ),
            "h = gamma * g_y / sd; return h - h.mean(-1, keepdims=True)",
        ),
    ),
    Exercise(
        name="matmul-rule",
        title="A product of two activations",
        theme=THEMES[1],
        signature="matmul_rule(g_o, a, v, eps)",
        task=(
            "For o = a @ v with a (n, k), v (k, m) and g_o (n, m): carry g to both factors by Eq. "
            "(3), g = R / activation: (g_a, g_v), of the shapes of a and v."
        ),
        answer=matmul_rule,
        cases=_matmul_cases,
        parts=("g_a", "g_v"),
        slips=(
            Slip(
                lambda g, a, v, e: _matmul(g, a, v, _size(a, v) / (_size(a, v) + e / 2), 1.0, 1.0),
                "A half is missing: each of the two factors receives half, Eq. (3).",
            ),
            Slip(
                lambda g, a, v, e: _matmul(g, a, v, _size(a, v) / (_size(a, v) + e)),
                "The stabiliser is too strong: Eq. (3) adds eps to 2 o, so in s it is eps / 2.",
            ),
            Slip(
                lambda g, a, v, e: _matmul(g, a, v, _size(a, v) / (_size(a, v) + e), 1.0, 1.0),
                "A half is missing: each factor receives half. "
                "With it eps is added to 2 o, so in s it is eps / 2.",
            ),
            Slip(
                lambda g, a, v, e: _matmul(g, a, v, 1.0),
                "Epsilon is not used: s = |o| / (|o| + eps / 2) multiplies g_o.",
            ),
            Slip(
                lambda g, a, v, e: _matmul(g, a, v, 1.0, 1.0, 1.0),
                "This is the plain gradient. A half is missing for each factor, and the stabiliser.",
            ),
            Slip(lambda g, a, v, e: _matmul(g, a, v, (a @ v) / (a @ v + e / 2)), _NOT_SIGNED),
            Slip(
                lambda g, a, v, e: _matmul(g, a, v, _size(a, v) / (_size(a, v) + e / 2), 0.5, 1.0),
                "The half is missing at v: only a was halved.",
            ),
            Slip(
                lambda g, a, v, e: _matmul(g, a, v, _size(a, v) / (_size(a, v) + e / 2), 1.0, 0.5),
                "The half is missing at a: only v was halved.",
            ),
            Slip(
                lambda g, a, v, e: _matmul(g, a, v, _size(a, v) / (_size(a, v) + e), 0.0, 1.0),
                "This is CP-LRP's rule: a held constant, v receiving all. Eq. (3) gives each factor half.",
            ),
            Slip(_relevance_form, "This is relevance, a * g_a and v * g_v: return g itself."),
            Slip(_plain_transposed, "Both results are transposed: g has the shape of its activation."),
        ),
        hints=(
            ("What are the two gradients of o = a @ v, and what does Eq. (3) change about them?"),
            ("Each factor gets half of its gradient, after g_o was damped by s = |o| / (|o| + eps / 2)."),
            "s * g_o @ v.T / 2, a.T @ (s * g_o) / 2",
        ),
    ),
)
