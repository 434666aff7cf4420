"""Exercises that check themselves: right answers pass, and a wrong one hears what is wrong with it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from lrp_book.records.embedding_shift import EmbeddingG
from lrp_book.records.planted import ranks as ranks_of
from lrp_exercises import check
from lrp_exercises.cards import compiled, exercise
from lrp_exercises.catalogue import EXERCISES
from lrp_exercises.checking import SEED, SEEDS, examine

import lrp_companion as lrp
from lrp_companion import rules
from lrp_companion.metrics import faithfulness
from lrp_companion.toys import Product, SoftmaxStep, shares

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
    return EmbeddingG((word * g).sum(-1), g, none, none.astype(bool)).relevance(c)


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
    return [1.0] if grouping == 0 else shares(grouping)


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
    ranks = [ranks_of(row, np.zeros(len(row), bool), np.flatnonzero(mark)) for row, mark in rows]
    return float(np.mean([max(of) <= len(of) for of in ranks]))


PACKAGE: dict[str, Function] = {
    "product-rule": lambda a, b, r: tuple(zip(*[(Fraction(x) / 2, Fraction(x) / 2) for x in r], strict=True)),
    "grouped-product": package_shares,
    "product-loo": lambda values: Product(values).loo(),
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
    "overrated-words": lambda w, t, a, b: pd.Series(a - b).groupby([w, t]).mean().groupby(level=0).mean(),
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
    ("grouped-product", lambda grouping: shares(tuple(grouping))),
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


UNUSUAL = {
    "softmax-rule": """def f(g_a, z):
    z -= z.max(-1, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(-1, keepdims=True)
    g_a -= (z * g_a).sum(-1, keepdims=True)
    return np.multiply(z, g_a, out=z)""",
    "product-rule": """def f(a, b, relevance):
    yield relevance / 2
    yield np.float32(relevance / 2)""",
    "shifted-words": "f = lambda word, g, c: np.matrix(((word + c) * g).sum(1)).T",
    "agreement": """def f(scores, loo, special):
    return np.ma.corrcoef(*(np.ma.array(x, mask=special) for x in (scores, loo)))[0, 1]""",
    "detached-attention": "f = lambda z, v: z.sub_(z.max()).softmax(-1).detach_() @ v",
}


@pytest.mark.parametrize(("name", "code"), UNUSUAL.items())
def test_a_right_answer_of_an_unusual_kind_is_right(name: str, code: str) -> None:
    """Refused before: in place, a generator, single precision, a matrix, a masked number."""
    exec(code, scope := {"np": np})
    assert (result := check(name, scope["f"])), result


def test_a_wrong_answer_that_changes_its_argument_is_told_so() -> None:
    def not_put_back(values: np.ndarray) -> list[float]:
        out = []
        for k in range(len(values)):
            values[k] = 0
            out.append(values.prod())
        return out

    assert "it changes its argument values in place" in check("product-loo", not_put_back).message
    assert "returned None" in check("sum-to-one", lambda maps: maps.sort()).message


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
