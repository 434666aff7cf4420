"""Exercises that check themselves: right answers pass, and a wrong one hears what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from lrp_book.exercises import check, exercises, hint
from lrp_book.exercises.catalogue import EXERCISES
from lrp_book.exercises.checking import SEED, THEMES, _all_same, variant
from lrp_book.records.embedding_shift import EmbeddingG
from lrp_book.worth import partial_r

import lrp_companion as lrp
from lrp_companion import rules
from lrp_companion.checks import InputError
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


def norm_sd(x: np.ndarray, small: float) -> np.ndarray:
    return np.sqrt(x.var(-1, keepdims=True) + small)


# -- the reference answers against the package's rules, which are another implementation ---------------------


def package_epsilon(
    relevance: np.ndarray, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float
) -> np.ndarray:
    z = weight @ x + bias
    return x * rules.linear(t(relevance / z), t(weight), t(z), eps=eps).numpy()


def package_residual(
    relevance: np.ndarray, x: np.ndarray, branch: np.ndarray, eps: float
) -> tuple[np.ndarray, np.ndarray]:
    z = x + branch
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
    r = [np.array([np.corrcoef(*pair)[0, 1]]) for pair in ((scores, loo), (scores, other), (loo, other))]
    return float(partial_r(*r)[0])


def pair_r(maps: np.ndarray) -> np.ndarray:
    return np.corrcoef(maps)[np.triu_indices(len(maps), 1)]


PACKAGE: dict[str, Function] = {
    "product-rule": lambda a, b, r: tuple(zip(*[(Fraction(x) / 2, Fraction(x) / 2) for x in r], strict=True)),
    "grouped-product": lambda grouping: product.shares(grouping),
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
    "sum-to-one": lambda maps: [faithfulness.normalise(row, "sum-to-one") for row in maps],
}


@every_exercise
def test_the_packages_own_rule_passes(name: str) -> None:
    result, cases = check(name, PACKAGE[name]), EXERCISES[name].cases(np.random.default_rng(SEED))
    assert result, result
    assert result.passes and repr(result) == f"passes: {name}. Right on {len(cases)} random inputs."


# -- typical wrong answers, as a student writes them ---------------------------------------------------------


def halved_everywhere(grouping: Any, share: float = 1.0, out: dict | None = None) -> np.ndarray:
    out = {} if out is None else out
    if isinstance(grouping, int):
        out[grouping] = share
    else:
        for part in grouping:
            halved_everywhere(part, share / 2, out)
    return np.array([out[k] for k in sorted(out)])


def flattened(grouping: Any) -> list[int]:
    return [grouping] if isinstance(grouping, int) else [k for part in grouping for k in flattened(part)]


def in_reading_order(grouping: Any, share: float = 1.0) -> list[float]:
    return (
        [share]
        if isinstance(grouping, int)
        else [s for part in grouping for s in in_reading_order(part, share / len(grouping))]
    )


def full_layer_norm(g_y: np.ndarray, x: np.ndarray, gamma: np.ndarray, small: float) -> np.ndarray:
    leaf = t(x).requires_grad_()
    y = torch.nn.functional.layer_norm(leaf, (x.shape[1],), weight=t(gamma), eps=small)
    return torch.autograd.grad((t(g_y) * y).sum(), leaf)[0].numpy()


def norm_with(h: Function, back: Function) -> Function:
    def rule(g_y: np.ndarray, x: np.ndarray, gamma: np.ndarray, small: float) -> np.ndarray:
        return back(h(g_y, x, gamma, small))

    return rule


def centred(h: np.ndarray) -> np.ndarray:
    return h - h.mean(-1, keepdims=True)


def gradient_only(g: np.ndarray, a: np.ndarray, v: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    return g @ v.T, a.T @ g


def damped(o: np.ndarray, eps: float) -> np.ndarray:
    return np.abs(o) / (np.abs(o) + eps / 2)


def jacobian_wrong_axis(g: np.ndarray, z: np.ndarray) -> np.ndarray:
    a = soft(z)
    return a * (g - (a * g).sum(0, keepdims=True))


def exp_over_sum(g: np.ndarray, z: np.ndarray) -> np.ndarray:
    a = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
    return a * (g - (a * g).sum(-1, keepdims=True))


def masked_by_zero(z: np.ndarray, v: np.ndarray) -> np.ndarray:
    out = []
    for i in range(len(z)):
        other = z.copy()
        other[i] = 0
        out.append(soft(z) @ v - soft(other) @ v)
    return np.array(out)


WRONG: list[tuple[str, Function, str]] = [
    ("product-rule", lambda a, b, r: (r, r), r"half of Eq. \(3\) is missing"),
    ("product-rule", lambda a, b, r: (a / (a + b) * r, b / (a + b) * r), "epsilon rule for the sum"),
    (
        "product-rule",
        lambda a, b, r: (abs(a) / (abs(a) + abs(b)) * r, abs(b) / (abs(a) + abs(b)) * r),
        "sizes do not matter",
    ),
    ("product-rule", lambda a, b, r: (b * r, a * r), "gradient times R"),
    ("product-rule", lambda a, b, r: (-r / 2, -r / 2), "sign was dropped"),
    ("grouped-product", halved_everywhere, "One of three parts gives thirds"),
    ("grouped-product", lambda g: [1 / len(flattened(g))] * len(flattened(g)), "flat product"),
    ("grouped-product", in_reading_order, "reading order"),
    ("grouped-product", lambda g: product.shares(g)[::-1], "reverse order"),
    ("product-loo", lambda x: x.prod() - x.prod() / x, "as if it were 1|NaN in 1 of 3 .*division by zero"),
    ("product-loo", lambda x: [x.prod() - np.delete(x, i).prod() for i in range(len(x))], "as if it were 1"),
    ("product-loo", lambda x: [-x.prod()] * len(x), "sign is reversed"),
    ("product-loo", lambda x: [x.prod() / len(x)] * len(x), "equal shares"),
    ("product-loo", lambda x: [np.delete(x, i).prod() for i in range(len(x))], "gradient"),
    ("epsilon-rule", lambda r, x, w, b, e: x * (r / (w @ x + b + e) @ w), "stabiliser has no sign"),
    ("epsilon-rule", lambda r, x, w, b, e: x * (r / (w @ x + e * np.sign(w @ x)) @ w), "bias is missing"),
    ("epsilon-rule", lambda r, x, w, b, e: x * (r / (w @ x + b) @ w), "Epsilon is not used"),
    (
        "epsilon-rule",
        lambda r, x, w, b, e: r / (w @ x + b + e * np.sign(w @ x + b)) @ w,
        "factor x_i is missing",
    ),
    ("epsilon-rule", lambda r, x, w, b, e: x * (r / (np.abs(w @ x + b) + e) @ w), "sign of z is lost"),
    ("epsilon-rule", lambda r, x, w, b, e: x * (w @ (r / (w @ x + b))), "ValueError at `.*transpose missing"),
    (
        "residual-rule",
        lambda r, x, y, e: (x / (x + y + e) * r, y / (x + y + e) * r),
        "stabiliser has no sign",
    ),
    ("residual-rule", lambda r, x, y, e: (r / 2, r / 2), "Halves are for products"),
    ("residual-rule", lambda r, x, y, e: (np.zeros_like(r), r), "forgot the residual path"),
    ("residual-rule", lambda r, x, y, e: (r, r), "right for g, not for relevance"),
    (
        "residual-rule",
        lambda r, x, y, e: package_residual(r, x, y, e)[::-1],
        "two results are swapped: return R_x first",
    ),
    ("layer-norm-rule", full_layer_norm, "full derivative.*detach"),
    ("layer-norm-rule", lambda g, x, w, s: w * g / norm_sd(x, s), "mean is not taken back"),
    ("layer-norm-rule", lambda g, x, w, s: centred(g / norm_sd(x, s)), "gamma is missing"),
    ("layer-norm-rule", lambda g, x, w, s: w * centred(g / norm_sd(x, s)), "Gamma comes too late"),
    (
        "layer-norm-rule",
        lambda g, x, w, s: centred(w * g / (x.var(-1, keepdims=True) + s)),
        "divide by the variance",
    ),
    (
        "layer-norm-rule",
        norm_with(lambda g, x, w, s: w * g / norm_sd(x, s), lambda h: h - h.mean(0)),
        "wrong axis",
    ),
    ("matmul-rule", gradient_only, "plain gradient"),
    (
        "matmul-rule",
        lambda g, a, v, e: ((damped(a @ v, e) * g) @ v.T, a.T @ (damped(a @ v, e) * g)),
        "half is missing: each",
    ),
    (
        "matmul-rule",
        lambda g, a, v, e: (0.5 * (damped(a @ v, 2 * e) * g) @ v.T, 0.5 * a.T @ (damped(a @ v, 2 * e) * g)),
        "too strong",
    ),
    (
        "matmul-rule",
        lambda g, a, v, e: ((damped(a @ v, e) * g) @ v.T / 2, a.T @ (damped(a @ v, e) * g)),
        "missing at v",
    ),
    ("matmul-rule", lambda g, a, v, e: package_matmul(g, a, v, e)[::-1], "two results are swapped|Got shape"),
    (
        "matmul-rule",
        lambda g, a, v, e: package_matmul(g, a, v, e)[0].T,
        "returned one Tensor; expected 2: g_a, g_v",
    ),
    ("matmul-rule", lambda g, a, v, e: tuple(x.T for x in package_matmul(g, a, v, e)), "transposed"),
    ("matmul-rule", lambda g, a, v, e: (g @ v / 2, a @ g / 2), "ValueError at `.*transpose missing"),
    ("softmax-rule", lambda g, z: soft(z) * g, "second term of Eq"),
    ("softmax-rule", lambda g, z: soft(z) * (g + (soft(z) * g).sum(-1, keepdims=True)), "sign was dropped"),
    ("softmax-rule", lambda g, z: soft(z) * (g - g.mean(-1, keepdims=True)), "plain mean"),
    ("softmax-rule", jacobian_wrong_axis, "wrong axis: over the keys"),
    ("softmax-rule", exp_over_sum, "overflows"),
    ("softmax-rule", lambda g, z: g - soft(z) * g.sum(-1, keepdims=True), "as printed, which is for R_A"),
    ("softmax-rule", lambda g, z: soft(z) * (g - (soft(z) * g).sum(-1)), "raised ValueError|keepdims"),
    ("softmax-rule", lambda g, z: 2 * soft(z) * g, "Two things at once.*second term.*twice"),
    ("softmax-rule", lambda g, z: 3 * rules.softmax(t(g), t(z).softmax(-1)), "3 times"),
    ("attention-values", lambda g, z, v: soft(z).T @ g / 2, "Halved.*v receives everything"),
    ("attention-values", lambda g, z, v: soft(z, 0).T @ g, "wrong axis"),
    ("attention-values", lambda g, z, v: soft(z) @ g, "transpose missing"),
    ("attention-values", lambda g, z, v: v * (soft(z).T @ g), "This is relevance"),
    ("attention-values", lambda g, z, v: (soft(z).T @ g).T, "transposed: the numbers are right"),
    ("attention-loo", lambda z, v: soft(z) * v, "do not share the attention again"),
    ("attention-loo", lambda z, v: soft(z) * (v - soft(z) @ v), "denominator 1 - A_i"),
    ("attention-loo", masked_by_zero, "not an absent token"),
    ("attention-loo", lambda z, v: -SoftmaxStep(z - z.mean(), v).loo(), "sign is reversed"),
    ("detached-attention", lambda z, v: z.softmax(-1) @ v, "No detach"),
    ("detached-attention", lambda z, v: z.softmax(-1) @ v.detach(), "wrong factor"),
    ("detached-attention", lambda z, v: (z.softmax(-1) @ v).detach(), "all of the output is detached"),
    ("detached-attention", lambda z, v: z.detach().softmax(0) @ v, "wrong axis"),
    (
        "detached-attention",
        lambda z, v: (z.softmax(-1) @ v).detach().numpy(),
        "returned ndarray; expected a torch tensor",
    ),
    ("agreement", lambda s, g, m: np.corrcoef(s, g)[0, 1], "Special tokens are counted"),
    ("agreement", lambda s, g, m: np.corrcoef(s[m], g[m])[0, 1], "mask is reversed"),
    (
        "agreement",
        lambda s, g, m: s[~m] @ g[~m] / np.linalg.norm(s[~m]) / np.linalg.norm(g[~m]),
        "means are not subtracted",
    ),
    ("agreement", lambda s, g, m: lrp.spearman(s[~m], g[~m]), "Spearman"),
    ("agreement", lambda s, g, m: np.corrcoef(s * ~m, g * ~m)[0, 1], "set to 0 and still counted"),
    ("agreement", lambda s, g, m: np.corrcoef(s[~m], g[~m]), "whole matrix of np.corrcoef"),
    ("agreement", lambda s, g, m: scipy.stats.pearsonr(s[~m], g[~m]), "r and a p-value"),
    ("agreement", lambda s, g, m: [lrp.pearson(s[~m], g[~m])], "list of one number"),
    ("morf-order", lambda s, m: np.flatnonzero(~m)[np.argsort(-s[~m])], "not stable"),
    ("mean-logit", lambda f: f[1:-1].mean(), "Both ends are left out"),
    ("mean-logit", lambda f: f[2:].mean(), "Off by one"),
    ("matmul-rule", lambda g, a, v, e: rules.matmul(t(g), t(a), t(v), t(a @ v), eps=e)[::-1], "are swapped"),
    ("product-loo", lambda x: np.prod(x), "one for each of the 3 entries"),
    ("softmax-rule", lambda g, z: z * (g - soft(z) * g.sum(-1, keepdims=True)), "with g written for R"),
    ("softmax-rule", lambda g, z: z * (g - (z * g).sum(-1, keepdims=True)), "softmax.z. is missing"),
    ("softmax-rule", lambda g, z: soft(z) * (g - (soft(z) * g).sum()), "One sum over everything"),
    ("morf-order", lambda s, m: np.flatnonzero(~m)[np.argsort(s[~m], kind="stable")], "LeRF"),
    ("morf-order", lambda s, m: np.argsort(-s, kind="stable"), "Special tokens are removed"),
    ("morf-order", lambda s, m: np.argsort(-s[~m], kind="stable"), "count within the words"),
    ("morf-order", lambda s, m: np.flatnonzero(~m)[np.argsort(s[~m], kind="stable")[::-1]], "kind='stable'"),
    (
        "morf-order",
        lambda s, m: np.flatnonzero(~m)[np.argsort(-np.abs(s[~m]), kind="stable")],
        "absolute value",
    ),
    ("morf-order", lambda s, m: np.sort(s[~m])[::-1], "indices, not scores"),
    ("mean-logit", np.mean, "f_0, is in your mean"),
    ("mean-logit", lambda f: (f[0] - f).mean(), "AOPC"),
    ("mean-logit", lambda f: f[1:].sum(), "sum: divide by K"),
    ("mean-logit", lambda f: f[:-1].mean(), "last entry is left out"),
    ("mean-logit", lambda f: f[1:], "Got shape .* axis is summed"),
    ("sum-to-one", lambda x: x / np.abs(x).sum(1, keepdims=True), "sum of absolute values"),
    ("sum-to-one", lambda x: x / x.sum(0), "wrong axis"),
    ("sum-to-one", lambda x: x / x.sum(), "each row by its own"),
    ("sum-to-one", lambda x: x / abs(x.sum(1, keepdims=True)), "sign of the sum is dropped"),
    ("sum-to-one", lambda x: x / x.sum(1), "transpose missing, or an axis wrong"),
    ("rms-norm-rule", lambda g, x, w, s: centred(w * g / root(x, s)), "subtracts no mean"),
    ("rms-norm-rule", lambda g, x, w, s: w * g / norm_sd(x, s), "standard deviation"),
    (
        "rms-norm-rule",
        lambda g, x, w, s: w * g / np.linalg.norm(x, axis=-1, keepdims=True),
        "divide by the norm of x",
    ),
    ("rms-norm-rule", lambda g, x, w, s: w * g * root(x, s), "multiply by the root"),
    ("rms-norm-rule", lambda g, x, w, s: w * g / np.sqrt((x**2).mean(-1) + s), "transpose missing|keepdims"),
    ("gated-rule", lambda g, z, u: (u * g / 2, z / (1 + np.exp(-z)) * g / 2), "g_z is that of silu"),
    ("gated-rule", lambda g, z, u: package_gated(2 * g, z, u), "half is missing"),
    ("gated-rule", lambda g, z, u: package_gated(g, z, u)[::-1], "two results are swapped"),
    ("gated-rule", lambda g, z, u: (0 * g, z / (1 + np.exp(-z)) * g), "held constant and u receives all"),
    ("shifted-words", lambda w, g, c: (w * g).sum(1), "before the shift"),
    ("shifted-words", lambda w, g, c: ((w - c) * g).sum(1), "wrong sign"),
    ("shifted-words", lambda w, g, c: (w + c) @ g, "transpose missing, or an axis wrong"),
    ("shifted-words", lambda w, g, c: (w * g).sum(1) + g.mean(0) @ c, "mean change"),
    ("least-shift", lambda r, g: r * g / (g @ g), "doubles the relevance"),
    ("least-shift", lambda r, g: -r * g / np.linalg.norm(g), "by its square"),
    ("least-shift", lambda r, g: -r / g / len(g), "not the smallest"),
    ("least-shift", lambda r, g: np.zeros_like(g), "the largest difference"),
    ("partial-agreement", lambda s, g, o: np.corrcoef(s, g)[0, 1], "still in it"),
    ("partial-agreement", lambda s, g, o: np.corrcoef(s - o, g - o)[0, 1], "the largest difference"),
    (
        "partial-agreement",
        lambda s, g, o: np.corrcoef(s - np.polyval(np.polyfit(o, s, 1), o), g)[0, 1],
        "out of the scores alone",
    ),
    ("mean-pair-r", lambda x: np.corrcoef(x).mean(), "with itself"),
    ("mean-pair-r", lambda x: np.corrcoef(x.T)[np.triu_indices(len(x.T), 1)].mean(), "those of tokens"),
    ("mean-pair-r", lambda x: pair_r(x).sum(), "sum over the pairs"),
    ("mean-pair-r", pair_r, "look|Look|Got shape"),
]


@pytest.mark.parametrize(
    ("name", "function", "told"), WRONG, ids=[f"{name}-{k}" for k, (name, _, _) in enumerate(WRONG)]
)
def test_a_typical_slip_is_named(name: str, function: Function, told: str) -> None:
    result = check(name, function)
    assert not result and re.search(told, result.message, re.DOTALL), result


@every_exercise
def test_three_typical_slips_or_more_are_tried(name: str) -> None:
    assert len([1 for exercise, _, _ in WRONG if exercise == name]) >= 3


@every_exercise
def test_every_known_slip_differs_from_the_answer_and_is_told_in_its_own_words(name: str) -> None:
    exercise = EXERCISES[name]
    answer = variant(exercise, exercise.answer)
    for slip in exercise.slips:
        assert not _all_same(variant(exercise, slip.function), answer), slip.says
        assert check(name, slip.function).message == slip.says
    assert len({slip.says for slip in exercise.slips}) == len(exercise.slips) >= 3


@every_exercise
def test_what_no_slip_explains_is_located_and_hinted_at(name: str) -> None:
    """Noise on the right answer, in every case or in the last alone: never a bare "wrong"."""
    exercise = EXERCISES[name]
    if exercise.autograd:
        answers: list[Function] = [lambda z, v: (z.softmax(-1).detach() @ v) * 1.1 + 0.3]
    else:
        noise = np.random.default_rng(1)

        def strange(*inputs: Any) -> Any:
            parts = exercise.answer(*inputs)
            parts = parts if isinstance(parts, tuple) else (parts,)
            wrong = tuple(
                np.roll(p, 1) if exercise.whole else p + noise.normal(size=np.shape(p)) for p in parts
            )
            return wrong if len(wrong) > 1 else wrong[0]

        answers = [strange]
    for function in answers:
        message = check(name, function).message
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


def test_nan_is_told_with_its_place() -> None:
    assert (
        "NaN in 1 of 3 places of the LOO scores on inputs of three numbers"
        in check("product-loo", lambda x: np.append(PACKAGE["product-loo"](x)[1:], np.nan)).message
    )
    assert "infinity" in check("mean-logit", lambda f: np.inf).message


def test_shapes_types_and_precision_are_told() -> None:
    rule = PACKAGE["softmax-rule"]
    assert (
        "Got shape (6,) for g_z; expected (2, 3)"
        in check("softmax-rule", lambda g, z: rule(g, z).ravel()).message
    )
    assert "keep that precision" in check("softmax-rule", lambda g, z: rule(g, z).float()).message
    assert (
        "Got dtype bool for the mean logit; expected float64" in check("mean-logit", lambda f: True).message
    )
    assert "dtype complex128" in check("mean-logit", lambda f: 1j).message
    assert (
        "Got dtype float64 for the order; expected whole numbers"
        in check("morf-order", lambda s, m: PACKAGE["morf-order"](s, m).astype(float)).message
    )
    assert (
        "returned 3 things; expected 2: R_a, R_b" in check("product-rule", lambda a, b, r: (r, r, r)).message
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


def test_a_mean_over_one_entry_too_few_is_named() -> None:
    said = check("mean-logit", lambda logits: sum(logits[1:]) / (len(logits) - 2)).message
    assert "You divide by K - 1" in said
