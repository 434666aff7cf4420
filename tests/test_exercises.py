"""Exercises that check themselves: right answers pass, and a wrong one hears what is wrong with it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from lrp_book.records.embedding_shift import EmbeddingG
from lrp_book.records.planted import measured
from lrp_exercises import InputError, check, exercises, hint
from lrp_exercises.cards import compiled, exercise
from lrp_exercises.catalogue import EXERCISES, THEMES
from lrp_exercises.checking import SEED, SEEDS, examine

import lrp_companion as lrp
from lrp_companion import rules
from lrp_companion.metrics import faithfulness
from lrp_companion.toys import product
from lrp_companion.toys.softmax_step import SoftmaxStep

Function = Callable[..., Any]
every_exercise = pytest.mark.parametrize("name", EXERCISES)


def soft(z: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(z - z.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def t(x: Any) -> torch.Tensor:
    return torch.as_tensor(x)


def row_sums(e: np.ndarray) -> np.ndarray:
    return e.sum(-1, keepdims=True)


def norm_sd(x: np.ndarray, small: float) -> np.ndarray:
    return np.sqrt(x.var(-1, keepdims=True) + small)


# -- the reference answers against the package's rules, which are another implementation ---------------------


def above_0(z: np.ndarray) -> np.ndarray:
    """The package carries R / z, which has a limit at 0 and no value."""
    return np.where(z == 0, 1e-200, z)


def package_epsilon(
    relevance: np.ndarray, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float
) -> np.ndarray:
    z = above_0(weight @ x + bias)
    return x * rules.linear(t(relevance / z), t(weight), t(z), eps=eps).numpy()


def package_residual(
    relevance: np.ndarray, x: np.ndarray, branch: np.ndarray, eps: float
) -> tuple[np.ndarray, np.ndarray]:
    z = above_0(x + branch)
    g = rules.add(t(relevance / z), t(z), eps=eps).numpy()
    return x * g, branch * g


def package_norm(g_y: np.ndarray, x: np.ndarray, gamma: np.ndarray, small: float) -> np.ndarray:
    return rules.layer_norm(t(g_y), t(gamma), t(norm_sd(x, small)), t(x)).numpy()


def package_matmul(g_o: np.ndarray, a: np.ndarray, v: np.ndarray, eps: float) -> tuple[Any, Any]:
    return rules.matmul(t(g_o), t(a), t(v), t(a @ v), eps=eps)


def package_agreement(scores: np.ndarray, loo: np.ndarray, special: np.ndarray) -> float:
    return lrp.agreement(scores, loo, special, lrp.Protocol())


def package_order(scores: np.ndarray, special: np.ndarray) -> np.ndarray:
    return np.concatenate(faithfulness.removal_order(scores, removable=~special))


def package_gated(g_y: np.ndarray, z: np.ndarray, u: np.ndarray) -> tuple[Any, Any]:
    gate = torch.nn.functional.silu(t(z))
    g_gate, g_u = rules.gated(t(g_y), gate, t(u), gate * t(u))
    return g_gate * rules.slope(t(z), gate, at_zero=0.5), g_u


def package_shifted(word: np.ndarray, g: np.ndarray, c: np.ndarray) -> np.ndarray:
    none = np.zeros(len(g))
    return EmbeddingG({"word": (word * g).sum(-1)}, g, none, none.astype(bool)).relevance(c)


def root(x: np.ndarray, small: float) -> np.ndarray:
    return np.sqrt((x**2).mean(-1, keepdims=True) + small)


def package_partial(scores: np.ndarray, loo: np.ndarray, other: np.ndarray) -> float:
    """What is left of the map and of LOO once a line through the other is taken off, correlated."""
    off = [values - np.polyval(np.polyfit(other, values, 1), other) for values in (scores, loo)]
    return float(np.corrcoef(*off)[0, 1])


def pair_r(maps: np.ndarray) -> np.ndarray:
    return np.corrcoef(maps)[np.triu_indices(len(maps), 1)]


def package_shares(grouping: Any) -> Any:
    """The package's products have two factors or more."""
    return [1.0] if grouping == 0 else product.shares(grouping)


def package_shapley(game: np.ndarray) -> np.ndarray:
    """By what each set gives that none of its parts does, shared out (chapter 7)."""
    sets = list(itertools.product((0, 1), repeat=game.ndim))
    extra: dict[tuple[int, ...], float] = {}
    for one in sorted(sets, key=sum):
        parts = (part for part in extra if all(a <= b for a, b in zip(part, one, strict=True)))
        extra[one] = game[one] - sum(extra[part] for part in parts)
    return sum(np.array(one) * extra[one] / max(sum(one), 1) for one in sets)


def package_on_top(scores: np.ndarray, planted: np.ndarray) -> float:
    rows = zip(scores, planted, strict=True)
    ranks = [measured(row, np.zeros(len(row), bool), np.flatnonzero(mark))["signed"] for row, mark in rows]
    return float(np.mean([max(of) <= len(of) for of in ranks]))


PACKAGE: dict[str, Function] = {
    "product-rule": lambda a, b, r: tuple(zip(*[(Fraction(x) / 2, Fraction(x) / 2) for x in r], strict=True)),
    "grouped-product": package_shares,
    "product-loo": lambda values: product.Product(values).loo(),
    "epsilon-rule": package_epsilon,
    "residual-rule": package_residual,
    "layer-norm-rule": package_norm,
    "matmul-rule": package_matmul,
    "softmax-rule": lambda g, z: rules.softmax(t(g), t(z).softmax(-1)),
    "attention-values": lambda g, z, v: rules.attention_values(t(g), t(z).softmax(-1), t(soft(z) @ v)),
    "attention-loo": lambda z, v: SoftmaxStep(z - z.mean(), v).loo(),
    "detached-attention": lambda z, v: z.softmax(-1).detach() @ v,
    "agreement": package_agreement,
    "morf-order": package_order,
    "mean-logit": lambda logits: faithfulness.Curve(logits, np.arange(len(logits)), "morf", 1).mean_logit,
    "rms-norm-rule": lambda g, x, w, s: rules.rms_norm(t(g), t(w), t(root(x, s)), t(x)),
    "gated-rule": package_gated,
    "shifted-words": package_shifted,
    "least-shift": lambda r, g: np.linalg.pinv(g[None]) @ np.array([-r]),
    "partial-agreement": package_partial,
    "mean-pair-r": lambda maps: pair_r(maps).mean(),
    "without-each": lambda a, b: [lrp.pearson(np.delete(a, k), np.delete(b, k)) for k in range(len(a))],
    "rank-agreement": faithfulness.CORRELATIONS["spearman"],
    "shapley-values": package_shapley,
    "planted-on-top": package_on_top,
    "answer-map": lambda maps: np.nansum(maps, 0)[: maps.shape[1] - len(maps)],
    "shifted-logits": lambda z, v, c: c / 2 * SoftmaxStep(z - z.mean(), v).attention * (v - soft(z) @ v),
    "sum-to-one": lambda maps: [faithfulness.normalise(row, "sum-to-one") for row in maps],
}


@every_exercise
def test_the_packages_own_rule_passes(name: str) -> None:
    result, cases = check(name, PACKAGE[name]), EXERCISES[name].cases(np.random.default_rng(SEED))
    assert result, result
    assert result.passes and repr(result) == f"passes: {name}. Right on {SEEDS * len(cases)} random inputs."


# -- typical wrong answers, as a student writes them ---------------------------------------------------------


def halves(grouping: Any, share: float = 1.0) -> dict[int, float]:
    if isinstance(grouping, int):
        return {grouping: share}
    return {k: s for part in grouping for k, s in halves(part, share / 2).items()}


def full_layer_norm(g_y: np.ndarray, x: np.ndarray, gamma: np.ndarray, small: float) -> np.ndarray:
    leaf = t(x).requires_grad_()
    y = torch.nn.functional.layer_norm(leaf, (x.shape[1],), weight=t(gamma), eps=small)
    return torch.autograd.grad((t(g_y) * y).sum(), leaf)[0].numpy()


def centred(h: np.ndarray, axis: int = -1) -> np.ndarray:
    return h - h.mean(axis, keepdims=True)


def damped(g_o: np.ndarray, o: np.ndarray, eps: float) -> np.ndarray:
    return np.abs(o) / (np.abs(o) + eps / 2) * g_o


def pearson_by(s: np.ndarray, g: np.ndarray) -> float:
    return s @ g / np.linalg.norm(s) / np.linalg.norm(g)


def with_p_value(s: np.ndarray, g: np.ndarray) -> Any:
    return scipy.stats.pearsonr(s, g)


WRONG = re.findall(
    r"^([\w-]+): (.*?)  # (.*)$",
    r"""
product-rule: (a * relevance / a, b * relevance / b)  # half of Eq. \(3\) is missing
product-rule: [relevance / (1 + b / a), relevance / (1 + a / b)]  # epsilon rule for the sum
product-rule: [abs(x) * relevance / (abs(a) + abs(b)) for x in (a, b)]  # sizes do not matter
product-rule: [x * relevance for x in (b, a)]  # gradient times R
product-rule: (relevance,) * 3  # returned 3 things; expected 2: R_a, R_b
grouped-product: list(dict(sorted(halves(grouping).items())).values())  # parts gives thirds
grouped-product: [1 / len(halves(grouping))] * len(halves(grouping))  # flat product
grouped-product: [float(package_shares(grouping)[k]) for k in halves(grouping)]  # reading order
grouped-product: package_shares(grouping)[::-1]  # reverse order
product-loo: values.prod() - values.prod() / values  # as if it were 1|NaN in 1 of 3 .*division by zero
product-loo: [values.prod() * (1 - 1 / x) if x else -12.0 for x in values]  # as if it were 1
product-loo: np.full(len(values), -np.prod(values))  # sign is reversed
product-loo: np.full(len(values), values.prod() / len(values))  # equal shares
product-loo: [np.prod([*values[:i], *values[i + 1 :]]) for i in range(len(values))]  # gradient
product-loo: np.append(np.full(len(values) - 1, values.prod()), np.nan)  # NaN in 1 of 3 places of the LOO
product-loo: np.prod(values)  # one for each of the 3 entries
epsilon-rule: x * (relevance / (weight @ x + bias + eps) @ weight)  # stabiliser has no sign
epsilon-rule: package_epsilon(relevance, x, weight, 0 * bias, eps)  # bias is missing
epsilon-rule: x * (weight.T @ (relevance / (weight @ x + bias)))  # Epsilon is not used
epsilon-rule: package_epsilon(relevance, x, weight, bias, eps) / x  # factor x_i is missing
epsilon-rule: x * (relevance / (np.abs(weight @ x + bias) + eps) @ weight)  # sign of z is lost
epsilon-rule: x * (weight @ (relevance / (weight @ x + bias)))  # ValueError.*transpose missing
residual-rule: [part * relevance / (x + branch + eps) for part in (x, branch)]  # stabiliser has no sign
residual-rule: (0.5 * relevance, 0.5 * relevance)  # Halves are for products
residual-rule: (np.zeros_like(relevance), relevance)  # forgot the residual path
residual-rule: (relevance, relevance)  # right for g, not for relevance
residual-rule: package_residual(relevance, x, branch, eps)[::-1]  # two results are swapped: return R_x first
layer-norm-rule: full_layer_norm(g_y, x, gamma, small)  # full derivative.*detach
layer-norm-rule: g_y / norm_sd(x, small) * gamma  # mean is not taken back
layer-norm-rule: package_norm(g_y, x, np.ones_like(gamma), small)  # gamma is missing
layer-norm-rule: gamma * package_norm(g_y, x, np.ones_like(gamma), small)  # Gamma comes too late
layer-norm-rule: centred(gamma * g_y / norm_sd(x, small) ** 2)  # divide by the variance
layer-norm-rule: centred(gamma * g_y / norm_sd(x, small), 0)  # wrong axis
matmul-rule: (g_o @ v.T, a.T @ g_o)  # plain gradient
matmul-rule: (damped(g_o, a @ v, eps) @ v.T, a.T @ damped(g_o, a @ v, eps))  # half is missing: each
matmul-rule: package_matmul(g_o, a, v, 2 * eps)  # too strong
matmul-rule: (damped(g_o, a @ v, eps) @ v.T / 2, a.T @ damped(g_o, a @ v, eps))  # missing at v
matmul-rule: package_matmul(g_o, a, v, eps)[::-1]  # two results are swapped
matmul-rule: package_matmul(g_o, a, v, eps)[0].T  # returned one Tensor; expected 2: g_a, g_v
matmul-rule: [x.T for x in package_matmul(g_o, a, v, eps)]  # transposed
matmul-rule: (g_o @ v / 2, a @ g_o / 2)  # ValueError.*transpose missing
softmax-rule: soft(z) * g_a  # second term of Eq
softmax-rule: soft(z) * (g_a + (soft(z) * g_a).sum(-1, keepdims=True))  # sign was dropped
softmax-rule: soft(z) * centred(g_a)  # plain mean
softmax-rule: soft(z) * (g_a - (soft(z) * g_a).sum(0))  # wrong axis: over the keys
softmax-rule: rules.softmax(t(g_a), t(np.exp(z) / np.exp(z).sum(-1, keepdims=True)))  # overflows
softmax-rule: g_a - soft(z) * g_a.sum(-1, keepdims=True)  # as printed, which is for R_A
softmax-rule: z * (g_a - soft(z) * g_a.sum(-1, keepdims=True))  # with g written for R
softmax-rule: z * (g_a - (z * g_a).sum(-1, keepdims=True))  # softmax.z. is missing
softmax-rule: soft(z) * (g_a - (soft(z) * g_a).sum())  # One sum over everything
softmax-rule: soft(z) * (g_a - (soft(z) * g_a).sum(-1))  # raised ValueError|keepdims
softmax-rule: 2 * soft(z) * g_a  # Two things at once.*second term.*twice
softmax-rule: 3 * rules.softmax(t(g_a), t(soft(z)))  # 3 times
softmax-rule: rules.softmax(t(g_a), t(soft(z))).ravel()  # Got shape \(6,\) for g_z; expected \(2, 3\)
softmax-rule: rules.softmax(t(g_a), t(soft(z))).float()  # keep that precision
attention-values: soft(z).T @ g_o / 2  # Halved.*v receives everything
attention-values: soft(z, 0).T @ g_o  # wrong axis
attention-values: soft(z) @ g_o  # transpose missing
attention-values: v * (soft(z).T @ g_o)  # This is relevance
attention-values: g_o.T @ soft(z)  # transposed: the numbers are right
attention-loo: soft(z) * v  # do not share the attention again
attention-loo: soft(z) * v - soft(z) * (soft(z) @ v)  # denominator 1 - A_i
attention-loo: [(soft(z) - soft(z * (np.arange(len(z)) != i))) @ v for i in range(len(z))]  # absent token
attention-loo: -SoftmaxStep(z - z.mean(), v).loo()  # sign is reversed
detached-attention: z.softmax(-1) @ v  # No detach
detached-attention: z.softmax(-1) @ v.detach()  # wrong factor
detached-attention: (z.softmax(-1) @ v).detach()  # all of the output is detached
detached-attention: z.detach().softmax(0) @ v  # wrong axis
detached-attention: (z.softmax(-1) @ v).detach().numpy()  # returned ndarray; expected a torch tensor
agreement: lrp.pearson(scores, loo)  # Special tokens are counted
agreement: lrp.pearson(scores[special], loo[special])  # mask is reversed
agreement: pearson_by(scores[~special], loo[~special])  # means are not subtracted
agreement: pearson_by(*(centred(x)[~special] for x in (scores, loo)))  # mean is taken before
agreement: lrp.spearman(scores[~special], loo[~special])  # Spearman
agreement: lrp.pearson(np.where(special, 0, scores), np.where(special, 0, loo))  # set to 0 and still counted
agreement: np.corrcoef([scores[~special], loo[~special]])  # whole matrix of np.corrcoef
agreement: with_p_value(scores[~special], loo[~special])  # r and a p-value
agreement: [lrp.pearson(scores[~special], loo[~special])]  # list of one number
morf-order: np.flatnonzero(~special)[np.argsort(-scores[~special])]  # not stable
morf-order: sorted(np.flatnonzero(~special), key=lambda k: scores[k])  # LeRF
morf-order: sorted(range(len(scores)), key=lambda k: -scores[k])  # Special tokens are removed
morf-order: sorted(range((~special).sum()), key=lambda k: -scores[~special][k])  # count within the words
morf-order: sorted(np.flatnonzero(~special), key=lambda k: (-scores[k], -k))  # kind='stable'
morf-order: sorted(np.flatnonzero(~special), key=lambda k: -abs(scores[k]))  # absolute value
morf-order: np.sort(scores[~special])[::-1]  # indices, not scores
morf-order: package_order(scores, special).astype(float)  # Got dtype float64 .*expected whole numbers
mean-logit: sum(logits) / len(logits)  # f_0, is in your mean
mean-logit: logits[0] - np.mean(logits)  # AOPC
mean-logit: sum(logits) - logits[0]  # sum: divide by K
mean-logit: np.mean(logits[:-1])  # last entry is left out
mean-logit: np.mean(logits[1:-1])  # Both ends are left out
mean-logit: np.mean(logits[2:])  # Off by one
mean-logit: sum(logits[1:]) / (len(logits) - 2)  # You divide by K - 1
mean-logit: logits[1:]  # One number is asked for
mean-logit: np.inf  # infinity
mean-logit: True  # Got dtype bool for the mean logit; expected float64
mean-logit: 1j  # dtype complex128
sum-to-one: [row / np.abs(row).sum() for row in maps]  # sum of absolute values
sum-to-one: maps / maps.sum(0)  # wrong axis
sum-to-one: maps / np.sum(maps)  # each row by its own
sum-to-one: [row / abs(row.sum()) for row in maps]  # sign of the sum is dropped
sum-to-one: soft(maps)  # This is a softmax
sum-to-one: maps / maps.sum(1)  # transpose missing, or an axis wrong
rms-norm-rule: centred(gamma * g_y / root(x, small))  # subtracts no mean
rms-norm-rule: gamma * g_y / norm_sd(x, small)  # standard deviation
rms-norm-rule: gamma * g_y / np.linalg.norm(x, axis=-1, keepdims=True)  # divide by the norm of x
rms-norm-rule: gamma * g_y * root(x, small)  # multiply by the root
rms-norm-rule: gamma * g_y / root(x, small)[:, 0]  # transpose missing|keepdims
gated-rule: (u * g_y / 2, package_gated(g_y, z, u)[1])  # g_z is that of silu
gated-rule: package_gated(2 * g_y, z, u)  # half is missing
gated-rule: package_gated(g_y, z, u)[::-1]  # two results are swapped
gated-rule: (0 * g_y, 2 * package_gated(g_y, z, u)[1])  # held constant and u receives all
shifted-words: np.einsum("te,te->t", word, g)  # before the shift
shifted-words: package_shifted(word, g, -c)  # wrong sign
shifted-words: (word + c) @ g  # transpose missing, or an axis wrong
shifted-words: (word * g).sum(1) + g.mean(0) @ c  # mean change
least-shift: relevance / (g @ g) * g  # doubles the relevance
least-shift: -relevance * g / np.linalg.norm(g)  # by its square
least-shift: -relevance / g / len(g)  # not the smallest
least-shift: np.zeros_like(g)  # the largest difference
partial-agreement: lrp.pearson(scores, loo)  # still in it
partial-agreement: lrp.pearson(scores - other, loo - other)  # subtracted as it is
partial-agreement: lrp.pearson(scores - np.polyval(np.polyfit(other, scores, 1), other), loo)  # scores alone
mean-pair-r: np.corrcoef(maps).mean()  # with itself
mean-pair-r: pair_r(maps.T).mean()  # those of tokens
mean-pair-r: pair_r(maps).sum()  # sum over the pairs
mean-pair-r: pair_r(maps)  # One number is asked for
""",
    re.MULTILINE,
)


def written(name: str, answer: str) -> Function:
    """A student's answer, from what it returns."""
    return eval(f"lambda {', '.join(EXERCISES[name].arguments)}: {answer}", globals())


@pytest.mark.parametrize(("name", "answer", "told"), WRONG)
def test_a_typical_slip_is_named(name: str, answer: str, told: str) -> None:
    result = check(name, written(name, answer))
    assert not result and re.search(told, result.message, re.DOTALL), result


def stabilised(sign: Any, r: Any, x: Any, w: Any, b: Any, eps: float) -> Any:
    z = w @ x + b
    return x * (w.T @ (r / (z + eps * sign(r, z))))


LUCKY: list[tuple[str, Function]] = [
    ("product-loo", lambda x: np.full(len(x), abs(x.prod()))),
    ("product-loo", lambda x: np.full(len(x), np.exp(np.log(abs(x)).sum()))),
    ("epsilon-rule", lambda *of: stabilised(lambda r, z: -np.sign(r), *of)),
    ("epsilon-rule", lambda *of: stabilised(lambda r, z: np.sign(r), *of)),
    ("epsilon-rule", lambda *of: stabilised(lambda r, z: np.sign(z), *of)),
    ("residual-rule", lambda r, x, b, e: tuple(of * r / (x + b + e * np.sign(x + b)) for of in (x, b))),
    ("mean-logit", lambda f: abs(f[1:].mean())),
    ("mean-pair-r", lambda maps: max(0, pair_r(maps).mean())),
    ("mean-pair-r", lambda maps: abs(pair_r(maps).mean())),
    ("agreement", lambda s, g, out: np.nan_to_num(np.corrcoef(s[~out], g[~out])[0, 1])),
    ("attention-values", lambda g, z, v: (np.exp(z) / np.exp(z).sum(-1, keepdims=True)).T @ g),
    ("detached-attention", lambda z, v: (z.exp() / z.exp().sum(-1, keepdim=True)).detach() @ v),
    ("grouped-product", lambda grouping: SEEN[repr(grouping)]),
    ("grouped-product", lambda grouping: product.shares(tuple(grouping))),
    ("gated-rule", lambda g, z, u: [k * np.exp(z) / (1 + np.exp(z)) * g / 2 for k in (u, z)]),
    (
        "softmax-rule",
        lambda g, z: rules.softmax(t(g), t(np.exp(z - z.max()) / row_sums(np.exp(z - z.max())))),
    ),
    ("attention-values", lambda g, z, v: (np.exp(z - z.max()) / row_sums(np.exp(z - z.max()))).T @ g),
    ("shifted-logits", lambda z, v, c: np.exp(z) / sum(np.exp(z)) * c / 2 * (v - soft(z) @ v)),
]
SEEN = {
    "((0, 1), 2)": [1 / 4, 1 / 4, 1 / 2],
    "(0, (1, (2, 3)))": [1 / 2, 1 / 4, 1 / 8, 1 / 8],
    "((0, 1, 2), (3, 4))": [1 / 6, 1 / 6, 1 / 6, 1 / 4, 1 / 4],
    "((2, 0), 1)": [1 / 4, 1 / 2, 1 / 4],
}


@pytest.mark.parametrize(("name", "function"), LUCKY)
def test_an_answer_that_is_right_on_some_inputs_alone_is_refused(name: str, function: Function) -> None:
    result = check(name, function)
    assert not result and not re.search("CP-LRP|wrong axis", result.message), result


def test_a_solution_is_finite_where_z_is_0() -> None:
    for name in ("epsilon-rule", "residual-rule"):
        cases = EXERCISES[name].cases(np.random.default_rng(SEED))
        given = [compiled(EXERCISES[name].solution)(*case.inputs) for case in cases]
        assert all(np.isfinite(part).all() for answer in given for part in answer)


def test_numbers_are_told_apart_and_sizes_are_drawn() -> None:
    message = check("mean-logit", lambda f: f[1:].mean() * (1 + 1e-8)).message
    near = check("mean-logit", lambda f: f[1:].mean() + 1e-8).message
    for text in (message, near):
        pair = re.search(r"Got (\S+) for .*; expected (\S+)", text)
        assert pair is None or pair[1] != pair[2], text
    assert re.search(r"Got (\S+) for .*; expected (?!\1)", near)
    for name, one in EXERCISES.items():
        drawn = [repr(one.cases(np.random.default_rng(s))[-1]) for s in range(4)]
        assert len(set(drawn)) > 1, name


def test_flat_arrays_are_told_nothing_of_axes() -> None:
    for answer in ("np.argsort(-scores)[1:-2]", "scores[special] - scores[~special]"):
        assert not re.search(
            "axis|axes|keepdims|transpose", check("morf-order", written("morf-order", answer)).message
        )


# -- the cards -----------------------------------------------------------------------------------------------


@every_exercise
def test_the_printed_solution_is_what_the_slow_reference_gives(name: str) -> None:
    one = EXERCISES[name]
    assert one.answer.__code__.co_varnames[: len(one.arguments)] == one.arguments
    assert all(examine(one, compiled(one.solution), seed=seed) for seed in (0, 4))


@every_exercise
def test_every_known_slip_differs_from_the_answer_and_is_told_in_its_own_words(name: str) -> None:
    slips = EXERCISES[name].slips
    for slip in slips:
        assert check(name, compiled(slip.code)).message == slip.says
    assert len({slip.says for slip in slips}) == len({slip.code for slip in slips}) == len(slips) >= 3


def test_a_card_and_a_reference_are_all_that_an_exercise_needs() -> None:
    def double(x: np.ndarray) -> np.ndarray:
        return np.array([2 * value for value in x])

    made = exercise(CARD, theme="tests")(double)
    assert repr(made).splitlines() == ["double (tests): Twice", "    double(x)", "    Return twice x."]
    assert examine(made, lambda x: x + x) and made.hints == ("How much?", "More than once.", "x + x")
    assert examine(made, lambda x: 2 * x * x).message == "Squared: x enters once."
    assert examine(made, lambda x: x - x).message == "A sign, and nothing is left."
    assert "as the right formula would if a sum stood" in examine(made, lambda x: x + 2).message


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("2 * x ->", "2 / x ->", "got '2 / x'; expected a text of the solution"),
        ("  # A sign, and nothing is left.", "", "got 'return x - x'; expected what its slip is told"),
        ("## slips\n", "", "got 'double: Twice -> twice x'; expected a head and inputs, solution, slips"),
    ],
)
def test_a_card_with_a_mistake_is_refused(old: str, new: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        exercise(CARD.replace(old, new), theme="tests")


CARD = """double: Twice -> twice x
Return
twice x.
## inputs
of two numbers: n(2)
of one: np.ones(1)
## solution
def double(x):
    return 2 * x
## slips
2 * x -> y
y -> 2 * x**2
# Squared:
# x enters once.
return x - x  # A sign, and nothing is left.
## hints
How much?
More than
 once.
x + x
"""


@every_exercise
def test_what_no_slip_explains_is_located_and_hinted_at(name: str) -> None:
    """Noise on the right answer: never a bare "wrong"."""
    exercise, noise = EXERCISES[name], np.random.default_rng(1)

    def noisy(part: Any) -> Any:
        return np.roll(part, 1) if exercise.whole else part + noise.normal(size=np.shape(part))

    def strange(*inputs: Any) -> Any:
        out = exercise.answer(*inputs)
        if exercise.autograd:
            return 1.1 * out + 0.3
        return tuple(map(noisy, out)) if isinstance(out, tuple) else noisy(out)

    message = check(name, strange).message
    assert exercise.hints[0] in message and "the largest difference" in message, message
    assert not re.search(r"\bwrong\b\.?$", message)


@every_exercise
def test_failures_of_the_students_code_are_told(name: str) -> None:
    exercise = EXERCISES[name]

    def failing(*inputs: Any) -> Any:
        return {}["missing"]

    def open_gap(*inputs: Any) -> Any:
        raise NotImplementedError("Your code here.")

    assert re.search(
        r"raised KeyError at `return \{\}\[.missing.\]` on inputs .*missing", check(name, failing).message
    )
    assert check(name, open_gap).message == "There is still a gap: write the function's body."
    assert f"cannot be called as {exercise.signature}" in check(name, lambda: 0).message
    if not exercise.autograd:
        assert "returned None: is there a return" in check(name, lambda *inputs: None).message
        assert re.search(
            r"Got (str .half.|dtype <U4) for|returned one str; expected \d",
            check(name, lambda *inputs: "half").message,
        )


def test_inputs_that_are_changed_in_place_are_told() -> None:
    def in_place(g: np.ndarray, z: np.ndarray) -> np.ndarray:
        z -= z.max(-1, keepdims=True)
        a = soft(z)
        return a * (g - (a * g).sum(-1, keepdims=True))

    assert "changes its argument z in place" in check("softmax-rule", in_place).message


def test_right_parts_and_right_inputs_are_told() -> None:
    def second_is_odd(g: np.ndarray, a: np.ndarray, v: np.ndarray, eps: float) -> tuple[Any, Any]:
        g_a, g_v = package_matmul(g, a, v, eps)
        return g_a, g_v + 0.1

    assert "Right is: g_a." in check("matmul-rule", second_is_odd).message

    def without_bias_only(r: np.ndarray, x: np.ndarray, w: np.ndarray, b: np.ndarray, e: float) -> np.ndarray:
        return package_epsilon(r, x, w, b, e) + b.sum()

    assert (
        "right on inputs without bias, epsilon 0: what do the others have"
        in check("epsilon-rule", without_bias_only).message
    )


def test_tensors_are_given_where_they_are_asked_for() -> None:
    def rule(g: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        a = torch.softmax(z, -1)
        return a * (g - (a * g).sum(-1, keepdim=True))

    assert check("softmax-rule", rule, framework="torch")
    assert not check("softmax-rule", rule)


def test_checks_repeat_and_leave_no_trace_in_the_global_generator() -> None:
    np.random.seed(3)
    before = np.random.get_state()[1].copy()  # type: ignore[index]
    assert check("softmax-rule", lambda g, z: g) == check("softmax-rule", lambda g, z: g)
    assert np.array_equal(before, np.random.get_state()[1])  # type: ignore[index,arg-type]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: check("softmaxrule", np.mean), "did you mean 'softmax-rule'"),
        (lambda: check("zzz", np.mean), r"exercises\(\) lists them"),
        (lambda: check(3, np.mean), "got exercise 3"),  # type: ignore[arg-type]
        (
            lambda: check("softmax-rule", 0.5),
            r"got 0.5 in place of a function; expected a function softmax_rule\(g_a, z\)",
        ),  # type: ignore[arg-type]
        (
            lambda: check("softmax-rule", np.mean, framework="jax"),
            "framework 'jax'; expected one of numpy, torch",
        ),
        (lambda: exercises("softmax"), "theme 'softmax'; expected one of products and grouping"),
        (lambda: hint("softmax-rule", 9), "got hint 9; expected a whole number from 1 to 3"),
        (lambda: hint("softmax-rule", 0), "got hint 0"),
        (lambda: hint("nothing"), "got exercise 'nothing'"),
    ],
)
def test_bad_calls_are_refused(call: Function, told: str) -> None:
    with pytest.raises(InputError, match=told):
        call()


def test_ctrl_c_is_no_answer() -> None:
    def stopped(*inputs: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check("mean-logit", stopped)


def test_lists_hints_and_results_are_read_as_text_and_as_markup() -> None:
    assert len(exercises()) >= 10 and {exercise.theme for exercise in exercises()} == set(THEMES)
    assert all(len(exercises(theme)) >= 3 for theme in THEMES)
    assert all(name in repr(exercises()) and f">{name}<" in exercises()._repr_html_() for name in EXERCISES)
    assert hint("softmax-rule") != hint("softmax-rule", 2)
    html = check("mean-logit", lambda f: {}["<b>"])._repr_html_()
    assert "<b>" not in html and "&lt;b&gt;" in html and "not yet" in html
    assert "passes" in check("mean-logit", PACKAGE["mean-logit"])._repr_html_()
    assert not check("mean-logit", np.mean) and bool(check("mean-logit", PACKAGE["mean-logit"]))


@every_exercise
def test_inputs_of_a_case_have_several_shapes_and_double_precision(name: str) -> None:
    cases = EXERCISES[name].cases(np.random.default_rng(SEED))
    assert len(cases) >= 2 and len({case.label for case in cases}) == len(cases)
    for case in cases:
        assert len(case.inputs) == len(EXERCISES[name].arguments)
        assert all(
            value.dtype in (np.float64, bool) for value in case.inputs if isinstance(value, np.ndarray)
        )


@pytest.mark.parametrize("name", EXERCISES)
def test_hints_are_a_question_a_pointer_and_a_line(name: str) -> None:
    question, pointer, line = EXERCISES[name].hints
    assert question.endswith("?") and pointer.endswith(".")
    for text in (question, pointer):  # code comes last; a formula is none
        assert not re.search(r"return|lambda|np\.|\.sum\(|\.mean\(|\.T\b|\[.*\]", text), text
    assert re.search(r"[=@/()]", line) and not line.endswith(".")
