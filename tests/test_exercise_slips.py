"""Four hundred wrong answers: each code solution of the book with one thing changed, and what `check` says.

Changed are operators, signs, axes, numbers, names, methods, transposes, factors and shapes, one at a time. A
changed answer that is right on inputs of other seeds is right; each other one must be refused, and told what
is wrong with it: by a slip of the exercise, by its shape, dtype, factor or error, or by the kind of change.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from lrp_exercises import check, checking
from lrp_exercises.cards import compiled
from lrp_exercises.catalogue import EXERCISES
from lrp_exercises.checking import examine
from lrp_exercises.near_misses import edits

PLACE = "place and question only"
OPERATORS = {
    ast.Add: "+-*",
    ast.Sub: "-+",
    ast.Mult: "*/+",
    ast.Div: "/*",
    ast.MatMult: "@*",
    ast.Pow: ("**", "*"),
    ast.BitAnd: "&|",
}
CALLS = {
    "sum": ("mean", "max"),
    "mean": ("sum", "max"),
    "sqrt": ("abs", "square"),
    "abs": ("negative", "sign"),
    "exp": ("exp2", "negative"),
    "sign": ("abs", "negative"),
    "argsort": ("sort",),
    "prod": ("sum",),
    "corrcoef": ("cov",),
    "delete": ("take",),
    "max": ("min",),
    "softmax": ("log_softmax",),
    "triu_indices": ("tril_indices",),
    "var": ("std",),
    "detach": ("clone",),
    "flatnonzero": ("nonzero",),
}


def changes(node: Any, text: Callable[[ast.AST], str]) -> Iterator[tuple[str, str]]:
    """What a part of a solution is changed to, each with the kind of change."""
    if isinstance(node, ast.BinOp):
        left, right = f"({text(node.left)})", f"({text(node.right)})"
        same, *others = OPERATORS[type(node.op)]
        for other in others:
            yield "operator", f"({left} {other} {right})"
        yield from (("term left out", left), ("term left out", right))
        if isinstance(node.op, ast.Sub | ast.Div | ast.MatMult):
            yield "sides swapped", f"({right} {same} {left})"
    if isinstance(node, ast.UnaryOp):
        yield "sign", f"({text(node.operand)})"
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield from (("number", f"({value})") for value in {node.value + 1, node.value - 1, -node.value})
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "flag", str(not node.value)
    if isinstance(node, ast.Attribute) and node.attr == "T":
        yield "transpose left out", f"({text(node.value)})"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        of, arguments = text(node.func.value), [*node.args, *node.keywords]
        for other in CALLS.get(node.func.attr, ()):
            yield "function", f"({of}).{other}({', '.join(map(text, arguments))})"
        yield "call left out", f"({text(node.args[0]) if node.args else of})"
        for keyword in node.keywords:
            rest = ", ".join(text(argument) for argument in arguments if argument is not keyword)
            yield "keyword left out", f"{text(node.func)}({rest})"
    if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load) and len(node.elts) == 2:
        yield "results swapped", f"({text(node.elts[1])}, {text(node.elts[0])})"
    if isinstance(node, ast.Subscript):
        yield "index left out", f"({text(node.value)})"


def whole(change: Callable[[Any], Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with its result changed as a whole."""

    def changed(*inputs: Any) -> Any:
        out = function(*inputs)
        return tuple(map(change, out)) if isinstance(out, tuple) else change(out)

    return changed


WHOLE: dict[str, Callable[[Any], Any]] = {
    "twice": lambda x: 2 * x,
    "minus": lambda x: -x,
    "absolute value": abs,
    "plus one": lambda x: x + 1,
    "squared": lambda x: x * x,
    "single precision": lambda x: x.float() if hasattr(x, "numpy") else np.float32(x),
    "a list too many": lambda x: [x],
    "its sum": lambda x: x.sum() if hasattr(x, "numpy") else np.sum(np.asarray(x)),
    "reversed": lambda x: x if np.ndim(x) == 0 else x.flip(0) if hasattr(x, "numpy") else x[::-1],
}


def mutants(code: str) -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """(kind, changed code, function) of every change of a solution."""
    yield from ((kind, text, compiled(text)) for kind, text in edits(code, changes))
    yield from ((kind, kind, whole(change, compiled(code))) for kind, change in WHOLE.items())


def told(name: str, message: str) -> str:
    """How a refusal names what is wrong."""
    if any(slip.says == message for slip in EXERCISES[name].slips):
        return "slip"
    patterns = {
        "slip and factor": "Two things at once|.*[.] Also: Got",
        "error": ".*(raised|cannot be called)",
        "shape, type or NaN": "Got (shape|dtype|NaN|infinity)|Your function returned|Nothing",
        "factor": "Every number|.*times what it should be",
        "results": "The two results",
        "kind of change": "It behaves|This is the right answer|Right but|It is |You return |All "
        "|The |(On|In) each|Only the|Wrong are|If |Each row|Your answer|R_|Called",
    }
    return next((kind for kind, pattern in patterns.items() if re.match(pattern, message)), PLACE)


@cache
def answers() -> list[dict[str, str]]:
    rows = []
    for name, exercise in EXERCISES.items():
        for kind, text, function in mutants(exercise.solution):
            result = check(name, function)
            with patch.object(checking, "_explain", return_value=""):  # the verdict alone is asked for
                right = bool(examine(exercise, function, seed=11))
            row = {"exercise": name, "change": kind, "answer": text.partition("\n")[2].strip() or text}
            row["told"] = "right" if result.passes else told(name, result.message)
            row["fresh"] = "right" if right else "wrong"
            rows.append(row)
    return rows


def test_four_hundred_answers_are_right_or_named() -> None:
    """A few get the place of the largest difference and the first hint alone; they are counted."""
    rows = answers()
    wrong = [row for row in rows if row["told"] != "right"]
    counts = Counter(row["told"] for row in wrong)
    assert len(wrong) >= 400 and {row["exercise"] for row in rows} == set(EXERCISES)
    assert counts[PLACE] <= 0.03 * len(wrong), [row for row in wrong if row["told"] == PLACE]


def test_no_wrong_answer_passes_and_no_right_one_is_refused() -> None:
    odd = [row for row in answers() if (row["told"] == "right") != (row["fresh"] == "right")]
    assert not odd


def soft(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


ANSWERS = re.findall(
    r"^([\w-]+): (.*?)  # (.*)$",
    r"""
product-loo: values  # You return values unchanged
product-loo: 0 * values  # You return 0 everywhere
product-loo: np.prod(values) * (np.arange(len(values)) + 2)  # put in another order
detached-attention: z.softmax(-1).detach() @ v + z.sum() - z.sum().detach()  # 0 everywhere for the gradient
epsilon-rule: right(relevance, abs(x), weight, bias, eps)  # other inputs: absolute values in place of x\.
residual-rule: right(relevance, branch, x, eps)  # swapped
epsilon-rule: right(relevance, x, weight, bias, eps / 2)  # ^All is right where eps is 0
residual-rule: right(relevance, x, branch, eps + eps**2)  # All is right where eps is 0
gated-rule: (right(g_y, z, u)[0], 3 * right(g_y, z, u)[1])  # g_u is 3 times
product-rule: (relevance / 2 / a, relevance / 2 / b)  # R_a \(divided by a\) and R_b \(divided by b\)
product-rule: (relevance * a / 3, relevance * (1 - a / 3))  # changes with a, the right one does not
product-rule: (np.round(relevance / 2, 3), np.round(relevance / 2, 3))  # rounded to 3 decimals
attention-values: right(g_o, z, v) / len(z)  # depends on the size of the inputs alone
attention-values: right(g_o, z, v)[::-1]  # in reverse order
attention-loo: np.roll(right(z, v), 1)  # in another order
rms-norm-rule: right(g_y, x, gamma, small) / (1 + x.std(-1, keepdims=True))  # In each row .* same factor
least-shift: right(relevance, g) / g.max()  # On each input .* same factor
least-shift: right(relevance, g) + 1e-5  # nearly right
partial-agreement: right(scores, loo, loo**2)  # does not change with other
sum-to-one: maps / maps.sum(1, keepdims=True) ** 2  # In each row
mean-pair-r: np.corrcoef(maps[0], maps[-1])[0, 1]  # put in another order
product-loo: np.full(len(values), np.exp(np.log(values).sum()))  # logarithm of a negative number
grouped-product: SEEN.append(1) or np.ones(len(SEEN))  # what does it remember
product-rule: (0.5 * relevance * (a != 0) * (b != 0),) * 2  # wrong only where a or b has a 0
gated-rule: (2 * right(g_y, z, u)[0], right(g_y, z, u)[1])  # Every number of g_z is 2 times
least-shift: right(abs(relevance), g)  # absolute values in place of relevance
shapley-values: right(game) / right(game).sum()  # by one and the same factor.*Also: Got infinity
shifted-words: right(word, g[::-1], c)  # g in reverse order
grouped-product: sorted(right(grouping))  # in another order
mean-pair-r: np.median(np.corrcoef(maps)[np.triu_indices(len(maps), 1)])  # a mean for a sum
planted-on-top: np.mean(scores[planted] > scores[~planted].max())  # ^(?!.*the right one does not)
planted-on-top: np.mean([min(s[p][: sum(planted[0])]) > max(s[~p]) for s, p in zip(scores, planted)])  # three
sum-to-one: np.squeeze(right(maps))  # on inputs of one map
morf-order: right(np.where(special, scores, np.round(scores, 1)), special)  # close to one another
morf-order: np.argsort(scores[~special], kind="stable")[::-1]  # Two things.*within the words.*equal numbers
morf-order: np.argsort(-scores, kind='stable')[special.sum():]  # does not belong there; . is missing
morf-order: []  # Got shape .0,. for the order
shifted-logits: -right(z, v, c) if max(z) < 700 else np.nan * z  # has the other sign.*Also: Got NaN
attention-loo: soft(z) * (v - v.mean()) / (1 - soft(z))  # a mean for a sum
attention-values: (right(g_o, z, v), v)  # a tuple of 2; expected 1: g_v
planted-on-top: (scores > 0).all(1)  # which mean, sum or entry is missing
product-rule: (relevance / 2, None)  # returned None
mean-logit: logits.mean  # Is it called, with
mean-logit: exit(3)  # raised SystemExit
mean-logit: 10**400  # Got int for the mean logit
""",
    re.MULTILINE,
)


@pytest.mark.parametrize(("name", "answer", "says"), ANSWERS)
def test_a_kind_of_wrong_answer_is_told_for_any_exercise(name: str, answer: str, says: str) -> None:
    one = EXERCISES[name]
    scope = {"np": np, "soft": soft, "SEEN": [], "right": compiled(one.solution)}
    result = check(name, eval(f"lambda {', '.join(one.arguments)}: {answer}", scope))
    assert not result and re.search(says, result.message), result


def test_an_error_is_right_where_there_is_no_answer() -> None:
    """Pearson's r of a constant map is undefined: NaN and an error are both right, a number is not."""

    def refusing(scores: np.ndarray, loo: np.ndarray, special: np.ndarray) -> float:
        if np.ptp(scores[~special]) == 0:
            raise ValueError("no r of a constant map")
        return float(np.corrcoef(scores[~special], loo[~special])[0, 1])

    assert check("agreement", refusing)
    assert check("morf-order", lambda *of: compiled(EXERCISES["morf-order"].solution)(*of).astype(float))
    assert not check("mean-logit", lambda logits: {}["no"])
