"""Theme: softmax and attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lrp_book.exercises.checking import THEMES, Case, Exercise, Slip


def weights(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """The softmax along an axis, safe for large entries."""
    e = np.exp(z - z.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def softmax_rule(g_a: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Eq. (5) row by row and key by key, with `R_A = A g_A` put in and `R_Z = Z g_Z` divided out."""
    out = np.zeros_like(z)
    for j, row in enumerate(z):
        top = max(row)
        norm = math.fsum(math.exp(value - top) for value in row)
        a = [math.exp(value - top) / norm for value in row]
        total = math.fsum(a[i] * g_a[j, i] for i in range(len(row)))
        for i in range(len(row)):
            out[j, i] = a[i] * g_a[j, i] - a[i] * total
    return out


def _taylor(g_a: np.ndarray, z: np.ndarray, *, kind: str) -> np.ndarray:
    axis = 0 if kind in ("softmax over queries", "all over queries") else -1
    if kind == "overflow":
        e = np.exp(z)
        a = e / e.sum(-1, keepdims=True)
    else:
        a = weights(z, axis)
    along = 0 if kind in ("sum over queries", "all over queries") else -1
    mean = (a * g_a).sum(along, keepdims=True)
    return {
        "no mean": a * g_a,
        "plus": a * (g_a + mean),
        "plain mean": a * (g_a - g_a.mean(-1, keepdims=True)),
        "no outer weight": g_a - mean,
        "mean not weighted again": a * g_a - mean,
        "relevance": z * a * (g_a - mean),
        "diagonal": a * (1 - a) * g_a,
        "half": a * (g_a - mean) / 2,
        "whole sum": a * (g_a - g_a.sum(-1, keepdims=True)),
        "paper form on g": g_a - a * g_a.sum(-1, keepdims=True),
        "paper form with z": z * (g_a - a * g_a.sum(-1, keepdims=True)),
        "no softmax": z * (g_a - (z * g_a).sum(-1, keepdims=True)),
        "sum over all": a * (g_a - (a * g_a).sum()),
        "turned": a * (mean - g_a),
    }.get(kind, a * (g_a - mean))


def _score_cases(rng: np.random.Generator) -> list[Case]:
    return [
        Case("of two queries and three keys", (rng.normal(size=(2, 3)), rng.normal(size=(2, 3)))),
        Case("of as many queries as keys", (rng.normal(size=(4, 4)), 2 * rng.normal(size=(4, 4)))),
        Case("with scores near 800", (rng.normal(size=(2, 3)), 800 + rng.normal(size=(2, 3)))),
    ]


def attention_values(g_o: np.ndarray, z: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Eq. (1) for o = A v with A as weights, epsilon 0, one contribution at a time."""
    a = weights(z)
    out = np.zeros_like(v)
    for j in range(z.shape[0]):
        for i in range(z.shape[1]):
            for p in range(v.shape[1]):
                out[i, p] += a[j, i] * g_o[j, p]
    return out


def _value_cases(rng: np.random.Generator) -> list[Case]:
    def draw(queries: int, keys: int, width: int) -> tuple:
        return (
            rng.normal(size=(queries, width)),
            rng.normal(size=(queries, keys)),
            rng.normal(size=(keys, width)),
        )

    return [
        Case("of two queries, three keys, width four", draw(2, 3, 4)),
        Case("of as many queries as keys", draw(3, 3, 2)),
        Case("of one query", draw(1, 4, 1)),
    ]


def attention_loo(z: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Leave a token out of the softmax and read again, one token at a time."""
    whole = float(weights(z) @ v)
    return np.array([whole - float(weights(np.delete(z, i)) @ np.delete(v, i)) for i in range(len(z))])


def _loo(z: np.ndarray, v: np.ndarray, *, kind: str) -> np.ndarray:
    a = weights(z)
    o = a @ v
    if kind == "logit zeroed":
        return np.array([o - weights(np.where(np.arange(len(z)) == i, 0.0, z)) @ v for i in range(len(z))])
    if kind == "value and logit zeroed":
        keep = [np.arange(len(z)) == i for i in range(len(z))]
        return np.array([o - weights(np.where(k, 0.0, z)) @ np.where(k, 0.0, v) for k in keep])
    return {
        "not renormalised": a * v,
        "mask gradient": a * (v - o),
        "turned": -attention_loo(z, v),
        "without": o - attention_loo(z, v),
        "half": attention_loo(z, v) / 2,
    }[kind]


def _read_cases(rng: np.random.Generator) -> list[Case]:
    return [
        Case("of three tokens", (np.array([math.log(2), 0.1, -0.3]), np.array([4.0, 2.0, -2.0]))),
        Case("of six tokens", (rng.normal(size=6), rng.normal(size=6))),
        Case("with scores near 800", (800 + rng.normal(size=4), rng.normal(size=4))),
    ]


def detached_attention(z: Any, v: Any) -> Any:
    """CP-LRP's graph: attention as a constant, so that the gradient reaches v alone."""
    return z.softmax(-1).detach() @ v


def _graph_cases(rng: np.random.Generator) -> list[Case]:
    return [
        Case("of two queries and three keys", (rng.normal(size=(2, 3)), rng.normal(size=(3, 4)))),
        Case("of as many queries as keys", (rng.normal(size=(3, 3)), rng.normal(size=(3, 2)))),
    ]


def _halved_graph(z: Any, v: Any) -> Any:
    o = z.softmax(-1).detach() @ v
    return o / 2 + o.detach() / 2


def _attnlrp_graph(z: Any, v: Any) -> Any:
    o = z.softmax(-1) @ v
    return o / 2 + o.detach() / 2


EXERCISES = (
    Exercise(
        name="softmax-rule",
        title="The softmax rule",
        theme=THEMES[2],
        signature="softmax_rule(g_a, z)",
        task=(
            "For A = softmax(z) over the last axis: carry g from A to z by Eq. (5), g = R / activation. "
            "All shapes (queries, keys)."
        ),
        answer=softmax_rule,
        cases=_score_cases,
        parts=("g_z",),
        slips=(
            Slip(
                lambda *a: _taylor(*a, kind="overflow"),
                "The exponential overflows for large scores: subtract each row's largest score first. "
                "The softmax does not see it.",
            ),
            Slip(
                lambda *a: _taylor(*a, kind="no mean"),
                "The second term of Eq. (5) is missing: subtract the mean of g_A under the weights A.",
            ),
            Slip(lambda *a: _taylor(*a, kind="plus"), "A sign was dropped: the mean of g_A is subtracted."),
            Slip(
                lambda *a: _taylor(*a, kind="turned"),
                "The difference is reversed: g_A minus its mean, not the mean minus g_A.",
            ),
            Slip(
                lambda *a: _taylor(*a, kind="plain mean"),
                "You subtract the plain mean of g_A. The mean under the weights belongs there: "
                "sum_i A_i g_A_i.",
            ),
            Slip(
                lambda *a: _taylor(*a, kind="whole sum"),
                "You subtract the sum of g_A: its weights are missing, sum_i A_i g_A_i.",
            ),
            Slip(
                lambda *a: _taylor(*a, kind="no outer weight"),
                "The factor A in front is missing: g_z = A (g_A - sum_i A_i g_A_i).",
            ),
            Slip(
                lambda *a: _taylor(*a, kind="mean not weighted again"),
                "The factor A is missing in front of the mean: it multiplies both terms.",
            ),
            Slip(
                lambda *a: _taylor(*a, kind="sum over queries"),
                "The sum runs over the wrong axis: "
                "over the keys of one query (the last axis), not over queries.",
            ),
            Slip(
                lambda *a: _taylor(*a, kind="softmax over queries"),
                "The softmax runs over the wrong axis: "
                "each query's weights sum to one over the keys, the last axis.",
            ),
            Slip(
                lambda *a: _taylor(*a, kind="all over queries"),
                "Softmax and sum run over the wrong axis: keys are the last axis.",
            ),
            Slip(
                lambda *a: _taylor(*a, kind="diagonal"),
                "Only the diagonal of the softmax's derivative is there: "
                "every key's score moves the weights of all keys.",
            ),
            Slip(
                lambda *a: _taylor(*a, kind="paper form on g"),
                "This is Eq. (5) as printed, which is for R_A: with g, R_A = A g_A has to be put in first.",
            ),
            Slip(
                lambda *a: _taylor(*a, kind="paper form with z"),
                "This is Eq. (5) with g written for R. Put in R_A = A g_A and R_z = z g_z: "
                "A comes in, z cancels.",
            ),
            Slip(
                lambda *a: _taylor(*a, kind="no softmax"),
                "The scores z are where the weights belong: A = softmax(z) is missing.",
            ),
            Slip(
                lambda *a: _taylor(*a, kind="sum over all"),
                "One sum over everything is subtracted: each query has its own, over its keys "
                "(the last axis, keepdims=True).",
            ),
            Slip(
                lambda *a: _taylor(*a, kind="relevance"), "This is relevance, R_z = z g_z: return g_z itself."
            ),
            Slip(
                lambda *a: _taylor(*a, kind="half"),
                "One half too many: the half belongs to the product A V, Eq. (3), not to the softmax.",
            ),
        ),
        hints=(
            (
                "Eq. (5) is written for relevance. What is left of it once R = z g at the logits "
                "and R = A g at the weights?"
            ),
            ("In the form for g the rule is the softmax's plain derivative, row by row: z itself cancels."),
            "return A * (g_a - (A * g_a).sum(-1, keepdims=True))",
        ),
    ),
    Exercise(
        name="attention-values",
        title="Attention as CP-LRP sees it",
        theme=THEMES[2],
        signature="attention_values(g_o, z, v)",
        task=(
            "For o = softmax(z) @ v with z (queries, keys), v (keys, width), g_o (queries, width), "
            "and the attention held constant: return g_v, of the shape of v, epsilon 0."
        ),
        answer=attention_values,
        cases=_value_cases,
        parts=("g_v",),
        slips=(
            Slip(
                lambda g, z, v: attention_values(g, z, v) / 2,
                "Halved: that is Eq. (3). "
                "With the attention held constant there is no second factor, so v receives everything.",
            ),
            Slip(
                lambda g, z, v: weights(z, 0).T @ g,
                "The softmax runs over the wrong axis: "
                "each query's weights sum to one over the keys, the last axis.",
            ),
            Slip(
                lambda g, z, v: v * attention_values(g, z, v), "This is relevance, v g_v: return g_v itself."
            ),
            Slip(
                lambda g, z, v: z.T @ g,
                "The scores z are where the attention belongs: the softmax is missing.",
            ),
            Slip(
                lambda g, z, v: attention_values(np.ones_like(g), z, v),
                "g_o is not used: you give back the weights alone.",
            ),
        ),
        hints=(
            "If A is a constant, what kind of map is o = A v?",
            ("A linear map by the matrix A: g goes back by its transpose, and nothing is halved."),
            "return softmax(z).T @ g_o",
        ),
    ),
    Exercise(
        name="attention-loo",
        title="Leave-One-Out of one query",
        theme=THEMES[2],
        signature="attention_loo(z, v)",
        task=(
            "For o = sum_i A_i v_i with A = softmax(z), both (n,): return o minus the output "
            "when token i is masked and the others share the attention, for every i, shape (n,)."
        ),
        answer=attention_loo,
        cases=_read_cases,
        parts=("the LOO scores",),
        slips=(
            Slip(
                lambda *a: _loo(*a, kind="not renormalised"),
                "The others do not share the attention again: A_i v_i is what CP-LRP says. "
                "Divide by the weights that are left.",
            ),
            Slip(
                lambda *a: _loo(*a, kind="mask gradient"),
                "The denominator 1 - A_i is missing: A_i (v_i - o) is the derivative, LOO is the whole step.",
            ),
            Slip(
                lambda *a: _loo(*a, kind="logit zeroed"),
                "You set the score to 0. A score of 0 is a weight of e^0 = 1, not an absent token: "
                "leave it out, or set it to -inf.",
            ),
            Slip(
                lambda *a: _loo(*a, kind="value and logit zeroed"),
                "You set score and value to 0, so the token still takes attention: "
                "leave it out, or set its score to -inf.",
            ),
            Slip(
                lambda *a: _loo(*a, kind="turned"),
                "The sign is reversed: LOO is the whole output minus the output without the token.",
            ),
            Slip(
                lambda *a: _loo(*a, kind="without"),
                "This is the output without token i: subtract it from the whole output.",
            ),
            Slip(
                lambda *a: _loo(*a, kind="half"),
                "One half too many: LOO is not a relevance rule, and nothing is split.",
            ),
        ),
        hints=(
            "Which weights do the other tokens have once token i is masked?",
            ("They share its attention: remove token i from z and v, and take the softmax of the rest."),
            "o - softmax(np.delete(z, i)) @ np.delete(v, i)",
        ),
    ),
    Exercise(
        name="detached-attention",
        title="CP-LRP as a modified gradient",
        theme=THEMES[2],
        signature="detached_attention(z, v)",
        task=(
            "With torch: return o = softmax(z) @ v, z (queries, keys), v (keys, width), "
            "so that autograd carries back what CP-LRP does. The check differentiates it."
        ),
        answer=detached_attention,
        cases=_graph_cases,
        parts=("the output", "the gradient at z", "the gradient at v"),
        autograd=True,
        slips=(
            Slip(
                lambda z, v: z.softmax(-1) @ v,
                "No detach: the gradient still runs through the softmax to z. Hold the attention constant.",
            ),
            Slip(
                lambda z, v: z.softmax(-1) @ v.detach(),
                "The wrong factor is detached: the attention is held constant, not the values.",
            ),
            Slip(
                lambda z, v: z.detach().softmax(0) @ v,
                "The softmax runs over the wrong axis: keys are the last axis.",
            ),
            Slip(_halved_graph, "Halved: with the attention held constant v receives everything, not half."),
            Slip(
                _attnlrp_graph,
                "This halves the product, Eq. (3), and keeps the softmax: AttnLRP. "
                "CP-LRP detaches the attention.",
            ),
        ),
        hints=(
            "Which factor is a constant for CP-LRP?",
            ("In torch a constant is made by detach(): autograd carries nothing back through it."),
            "return z.softmax(-1).detach() @ v",
        ),
    ),
)
