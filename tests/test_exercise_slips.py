"""Four hundred wrong answers: each code solution of the book with one thing changed, and what `check` says.

Changed are operators, signs, axes, numbers, names, methods, transposes, factors and shapes, one at a time. A
changed answer that is right on inputs of other seeds is right; each other one must be refused, and told what
is wrong with it: by a slip of the exercise, by its shape, dtype, factor or error, or by the kind of change.
"""

from __future__ import annotations

import ast
import copy
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lrp_book.exercises import check
from lrp_book.exercises.catalogue import EXERCISES
from lrp_book.exercises.checking import _same, answered, variant
from test_exercise_numbers import code_solutions

PLACE = "place and question only"
WORDS = ("slip", "slip and factor", "kind of change", "factor", "results or precision")
TABLE = Path(__file__).with_name("exercise_slips.json")


def soft(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


OPERATORS: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult,),
    ast.MatMult: (ast.Mult,),
    ast.Pow: (ast.Mult,),
}
CALLS = {
    "sum": ("mean", "max"), "mean": ("sum", "max"), "sqrt": ("abs", "square"), "abs": ("negative", "sign"),
    "exp": ("exp2", "negative"), "sign": ("abs", "negative"), "argsort": ("sort",), "prod": ("sum",),
    "corrcoef": ("cov",), "delete": ("take",), "max": ("min",), "softmax": ("log_softmax",),
    "triu_indices": ("tril_indices",), "var": ("std",), "detach": ("clone",), "flatnonzero": ("nonzero",),
}  # fmt: skip


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """A node with one thing changed, each with the kind of change."""
    if isinstance(node, ast.BinOp):
        for kind, others in OPERATORS.items():
            for other in others if isinstance(node.op, kind) else ():
                yield "operator", ast.BinOp(node.left, other(), node.right)
        yield "term left out", node.left
        yield "term left out", node.right
        if isinstance(node.op, ast.Sub | ast.Div | ast.MatMult):
            yield "sides swapped", ast.BinOp(node.right, node.op, node.left)
    if isinstance(node, ast.UnaryOp):
        yield "sign", node.operand
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
    ):
        for value in {node.value + 1, node.value - 1, -node.value} - {node.value}:
            yield "number", ast.Constant(value)
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "flag", ast.Constant(not node.value)
    if isinstance(node, ast.keyword) and node.arg in ("axis", "keepdims", "kind", "ddof"):
        yield "keyword left out", ast.keyword(None, ast.Dict([], []))
    if isinstance(node, ast.Attribute) and node.attr == "T":
        yield "transpose left out", node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        for other in CALLS.get(node.func.attr, ()):
            yield (
                "function",
                ast.Call(ast.Attribute(node.func.value, other, ast.Load()), node.args, node.keywords),
            )
        yield "call left out", node.args[0] if node.args else node.func.value
    if isinstance(node, ast.Compare):
        other_side = {ast.Lt: ast.Gt(), ast.Gt: ast.Lt(), ast.Eq: ast.NotEq()}
        if type(node.ops[0]) in other_side:
            yield "comparison", ast.Compare(node.left, [other_side[type(node.ops[0])]], node.comparators)
    if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load) and len(node.elts) == 2:
        yield "results swapped", ast.Tuple(node.elts[::-1], ast.Load())
    if isinstance(node, ast.Subscript):
        yield "index left out", node.value


def whole_changes(function: Callable[..., Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """An answer with its result changed as a whole."""

    def after(change: Callable[[Any], Any]) -> Callable[..., Any]:
        def changed(*inputs: Any) -> Any:
            out = function(*inputs)
            return tuple(map(change, out)) if isinstance(out, tuple) else change(out)

        return changed

    yield "twice", after(lambda x: 2 * x)
    yield "minus", after(lambda x: -x)
    yield "absolute value", after(abs)
    yield "plus one", after(lambda x: x + 1)
    yield "squared", after(lambda x: x * x)
    yield "single precision", after(lambda x: np.float32(x) if not hasattr(x, "numpy") else x.float())
    yield "a list too many", after(lambda x: [x])
    yield "its sum", after(lambda x: np.sum(np.asarray(x)) if not hasattr(x, "numpy") else x.sum())
    yield "reversed", after(lambda x: x if np.ndim(x) == 0 else x.flip(0) if hasattr(x, "numpy") else x[::-1])


def mutants(code: str) -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """(kind, changed code, function) of every change of the function in a solution."""
    tree = ast.parse(code)
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    seen = {ast.unparse(function)}
    for place in range(sum(1 for _ in ast.walk(function))):
        node = list(ast.walk(function))[place]
        for number in range(len(list(changes(node)))):
            other = copy.deepcopy(function)
            target = list(ast.walk(other))[place]
            kind, new = list(changes(target))[number]
            if not replaced(other, target, new):
                continue
            text = ast.unparse(ast.fix_missing_locations(other))
            if text not in seen:
                seen.add(text)
                yield kind, text, compiled(text)
    for kind, changed in whole_changes(compiled(ast.unparse(function))):
        yield kind, kind, changed


def replaced(root: ast.AST, target: ast.AST, new: ast.AST) -> bool:
    """Put a node in another's place; False where a keyword cannot simply be left out, or nothing holds it."""
    for parent in ast.walk(root):
        for name, value in ast.iter_fields(parent):
            if value is target:
                setattr(parent, name, new)
                return True
            if isinstance(value, list) and any(item is target for item in value):
                kept = [new if item is target else item for item in value]
                if isinstance(target, ast.keyword):
                    kept = [item for item in value if item is not target]
                setattr(parent, name, kept)
                return True
    return False


def compiled(text: str) -> Callable[..., Any]:
    import torch

    scope: dict[str, Any] = {"np": np, "torch": torch}
    exec(compile(text, "answer", "exec"), scope)
    return scope[re.search(r"def (\w+)", text)[1]]  # type: ignore[index]


def is_right(name: str, function: Callable[..., Any]) -> bool:
    """Whether an answer is the reference's on inputs of three other seeds."""
    exercise = EXERCISES[name]
    for seed in (11, 12, 13):
        cases = exercise.cases(np.random.default_rng(seed))
        given = answered(exercise, function, cases)
        if isinstance(given, str):
            return False
        expected = variant(exercise, exercise.answer, cases)
        if not all(_same(a, b) for a, b in zip(given, expected, strict=True)):
            return False
    return True


def told(name: str, message: str) -> str:
    """How a refusal names what is wrong."""
    exercise = EXERCISES[name]
    if any(slip.says == message for slip in exercise.slips):
        return "slip"
    if message.startswith("Two things at once"):
        return "slip and factor"
    if "raised" in message or "cannot be called" in message:
        return "error"
    if message.startswith(
        ("Got shape", "Got dtype", "Got NaN", "Got infinity", "Your function returned", "Nothing")
    ):
        return "shape, type or NaN"
    if "times what it should be" in message or message.startswith("Every number"):
        return "factor"
    if "swapped" in message or "precision" in message or "in place" in message:
        return "results or precision"
    if message.startswith(("It behaves as", "This is the right answer,")):
        return "kind of change"
    return PLACE


@lru_cache
def answers() -> list[dict[str, str]]:
    rows = []
    for _, code in code_solutions():
        name = re.search(r'check\("([\w-]+)"', code)[1]  # type: ignore[index]
        for kind, text, function in mutants(code):
            with np.errstate(all="ignore"):
                result = check(name, function)
                right = is_right(name, function)
            row = {"exercise": name, "change": kind, "answer": text.partition("\n")[2].strip() or text}
            row["told"] = "right" if result.passes else told(name, result.message)
            row["says"] = result.message if row["told"] in WORDS else ""
            row["fresh"] = "right" if right else "wrong"
            rows.append(row)
    return rows


def shown(row: dict[str, str]) -> dict[str, str]:
    """A row as the table keeps it: what is said, where it does not hold figures of the processor."""
    says = row["says"].partition(". Got ")[0] if row["told"] == "kind of change" else row["says"]
    return {key: row[key] for key in ("exercise", "change", "answer", "told")} | {"says": says}


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


def test_the_table_of_slip_and_hint_is_what_check_says() -> None:
    """`LRP_WRITE_SLIPS=1 pytest tests/test_exercise_slips.py` writes the table anew."""
    rows = [shown(row) for row in answers()]
    if os.environ.get("LRP_WRITE_SLIPS"):
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        TABLE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    assert json.loads(TABLE.read_text(encoding="utf-8")) == rows


def test_the_solutions_that_near_misses_change_are_the_books() -> None:
    from lrp_book.exercises.solutions import SOLUTIONS

    printed = {}
    for _, code in code_solutions():
        (function,) = (node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef))
        printed[re.search(r'check\("([\w-]+)"', code)[1]] = ast.dump(function)  # type: ignore[index]
    ours = {name: ast.dump(ast.parse(code).body[0]) for name, code in SOLUTIONS.items()}
    assert ours == printed and set(ours) == set(EXERCISES)


@pytest.mark.parametrize(
    ("name", "function", "says"),
    [
        (
            "softmax-rule",
            lambda g, z: soft(z) * (g - soft(z).sum(-1, keepdims=True)),
            "if a term or a factor",
        ),
        ("gated-rule", lambda g, z, u: (u * g / 4, z * g / 4), "It behaves as|largest difference"),
        ("least-shift", lambda r, g: (r * g / (g @ g)) ** 2, "This is the right answer, squared"),
        (
            "rms-norm-rule",
            lambda g, x, w, s: w / np.sqrt((x**2).mean(-1, keepdims=True) + s),
            "if g_y did not",
        ),
    ],
)
def test_a_near_miss_is_told_by_its_kind(name: str, function: Callable[..., Any], says: str) -> None:
    assert re.search(says, check(name, function).message)
