"""Near misses of a wrong answer: the solution with one thing changed, and the change in words.

If no known slip explains an answer, the solution is changed in one place after another (an operator, a sign,
an axis, a number, a term left out). If an answer behaves like one of these, the feedback names the kind of
change but not the place.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np

Text = Callable[[ast.AST], str]

PLUS_MINUS = "if a plus were a minus, or a minus a plus"
TIMES_OVER = "if something were multiplied where it is divided by, or divided by where it is multiplied"
SUM_PRODUCT = "if a sum stood where a product belongs, or a product where a sum belongs"
SWAPPED = "if the two sides of a difference or a quotient were swapped"
SIGN = "if a minus sign were missing, or one too many"
NUMBER = "with another number in one place, such as a factor or an exponent"
AXIS = "if one sum, mean or largest entry ran over another axis"
TERM = "if a term or a factor were left out"
FUNCTION = "with another function in one place, such as a mean for a sum"
DOWN = "if a quotient were rounded down"
INSIDE = "with absolute values in one place"
CLIPPED = "with negative numbers set to 0 in one place"
EVERYTHING = "if one sum, mean or largest entry ran over everything"
CALL = "without one of its functions"
INDEX = "with another index"
_OPERATORS: dict[type[ast.operator], dict[str, str]] = {
    ast.Add: {"-": PLUS_MINUS, "*": SUM_PRODUCT},
    ast.Sub: {"+": PLUS_MINUS, "*": SUM_PRODUCT},
    ast.Mult: {"/": TIMES_OVER, "+": SUM_PRODUCT},
    ast.Div: {"*": TIMES_OVER, "+": SUM_PRODUCT, "//": DOWN},
    ast.Pow: {"*": NUMBER},
}
_FUNCTIONS = {
    "sum": ("mean", "max", "prod"),
    "mean": ("sum", "max", "median"),
    "sqrt": ("abs", "square"),
    "abs": ("negative", "sign"),
    "exp": ("exp2", "negative"),
    "sign": ("abs", "negative"),
    "prod": ("sum",),
    "max": ("min",),
    "softmax": ("log_softmax",),
    "var": ("std",),
    "argsort": ("sort",),
    "delete": ("take",),
    "triu_indices": ("tril_indices",),
    "corrcoef": ("cov",),
}
WHOLE: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
    ("without its sign: absolute values were taken", np.abs),
    ("squared", np.square),
    ("with a 1 added", lambda x: x + 1),
    ("with a 1 subtracted", lambda x: x - 1),
    ("in reverse order", lambda x: x[::-1] if x.ndim else x),
    ("with its columns in reverse order", lambda x: x[:, ::-1] if x.ndim > 1 else x),
    ("transposed", lambda x: x.T if x.ndim == 2 and x.shape[0] == x.shape[1] else x),
)
"""Changes of a whole result, with words that end "This is the right answer, ..."."""


@cache
def near_misses(code: str) -> tuple[tuple[str, str], ...]:
    """Every change of a solution, the likelier first; words end "behaves as the right formula would ..."."""
    before, out = _unused(code), []
    for says, changed in edits(code, _changes):
        new = [name for name in _unused(changed) if name not in before]
        out.append((f"if {' and '.join(new)} did not enter" if new else says, changed))
    return tuple(sorted(out, key=lambda pair: pair[0] in (INSIDE, CLIPPED, DOWN)))


def _unused(code: str) -> list[str]:
    tree: Any = ast.parse(code)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return [argument.arg for argument in tree.body[0].args.args if argument.arg not in used]


def edits(code: str, changes: Callable[[Any, Text], Iterator[tuple[str, str]]]) -> Iterator[tuple[str, str]]:
    """Each code that differs in one part, with what `changes(part, text of a part)` calls the change."""
    tree = ast.parse(code)
    lines = [0, *accumulate(len(line) for line in code.splitlines(keepends=True))]

    def span(at: Any) -> slice:
        return slice(lines[at.lineno - 1] + at.col_offset, lines[at.end_lineno - 1] + at.end_col_offset)

    seen = {ast.unparse(tree)}
    for node in ast.walk(tree):
        for says, new in changes(node, lambda part: code[span(part)]):
            place = span(node)
            changed = ast.unparse(ast.parse(code[: place.start] + new + code[place.stop :]))
            if changed not in seen:
                seen.add(changed)
                yield says, changed


def _changes(node: Any, text: Text) -> Iterator[tuple[str, str]]:
    """What a part of the code is changed to, with the kind of change."""
    if isinstance(node, ast.BinOp | ast.Call):
        yield INSIDE, f"np.abs({text(node)})"
        yield CLIPPED, f"np.maximum({text(node)}, 0)"
    if isinstance(node, ast.BinOp):
        left, right = f"({text(node.left)})", f"({text(node.right)})"
        for symbol, says in _OPERATORS.get(type(node.op), {}).items():
            yield says, f"({left} {symbol} {right})"
        yield TERM, left
        yield TERM, right
        if isinstance(node.op, ast.MatMult):
            yield FUNCTION, f"{right}.mean()"
        if isinstance(node.op, ast.Sub | ast.Div):
            yield SWAPPED, f"({right} {'-' if isinstance(node.op, ast.Sub) else '/'} {left})"
    elif isinstance(node, ast.UnaryOp):
        yield SIGN, f"({text(node.operand)})"
    elif isinstance(node, ast.Constant) and type(number := node.value) in (int, float):
        for value in (number + 1, number - 1, -number):  # type: ignore[operator]
            yield NUMBER, f"({value})"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from _calls(node, node.func, text)
    elif isinstance(node, ast.Subscript):
        yield INDEX, f"({text(node.value)})"
    elif isinstance(node, ast.keyword) and node.arg == "axis":
        yield AXIS, "axis=0"


def _calls(node: ast.Call, function: ast.Attribute, text: Text) -> Iterator[tuple[str, str]]:
    of, first, *rest = [f"({text(function.value)})", *map(text, [*node.args, *node.keywords]), ""]
    on_array = of != "(np)"
    for other in _FUNCTIONS.get(function.attr, ()):
        if other == "median" and on_array:  # no method of an array
            yield FUNCTION, f"np.median({', '.join([of, first, *rest])})"
        else:
            yield FUNCTION, f"{of}.{other}({', '.join([first, *rest])})"
    if on_array and node.args and function.attr in ("sum", "mean", "max", "var", "softmax"):
        yield EVERYTHING, f"{of}.{function.attr}()"
        for axis in (0, -2):
            yield AXIS, f"{of}.{function.attr}({', '.join([str(axis), *rest])})"
    yield CALL, of if on_array else f"({first})"
