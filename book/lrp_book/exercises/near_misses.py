"""Near misses of a wrong answer: the solution with one thing changed, and the change in words.

If no known slip explains an answer, the solution is changed in one place after another (an operator, a sign,
an axis, a number, a term left out). If an answer behaves like one of these, the feedback names the kind of
change but not the place.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from lrp_book.exercises.solutions import SOLUTIONS

Function = Callable[..., Any]
Changed = tuple[str, ast.AST]

PLUS_MINUS = "if a plus were a minus, or a minus a plus"
TIMES_OVER = "if something were multiplied where it is divided by, or divided by where it is multiplied"
SUM_PRODUCT = "if a sum stood where a product belongs, or a product where a sum belongs"
SWAPPED = "if the two sides of a difference or a quotient were swapped"
SIGN = "if a minus sign were missing, or one too many"
NUMBER = "with another number in one place, such as a factor or an exponent"
AXIS = "if one sum, mean or largest entry ran over another axis"
TERM = "if a term or a factor were left out"
FUNCTION = "with another function in one place, such as a mean for a sum"
CALL = "without one of its functions"
INDEX = "with another index"
_OPERATORS: dict[type[ast.operator], tuple[tuple[type[ast.operator], str], ...]] = {
    ast.Add: ((ast.Sub, PLUS_MINUS), (ast.Mult, SUM_PRODUCT)),
    ast.Sub: ((ast.Add, PLUS_MINUS), (ast.Mult, SUM_PRODUCT)),
    ast.Mult: ((ast.Div, TIMES_OVER), (ast.Add, SUM_PRODUCT)),
    ast.Div: ((ast.Mult, TIMES_OVER), (ast.Add, SUM_PRODUCT)),
    ast.Pow: ((ast.Mult, NUMBER),),
}
_FUNCTIONS = {
    "sum": ("mean", "max", "prod"), "mean": ("sum", "max"), "sqrt": ("abs", "square"),
    "abs": ("negative", "sign"), "exp": ("exp2", "negative"), "sign": ("abs", "negative"), "prod": ("sum",),
    "max": ("min",), "softmax": ("log_softmax",), "var": ("std",), "argsort": ("sort",), "delete": ("take",),
    "triu_indices": ("tril_indices",), "corrcoef": ("cov",),
}  # fmt: skip
_WHOLE: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
    ("without its sign: absolute values were taken", np.abs),
    ("squared", np.square),
    ("with a 1 added", lambda x: x + 1),
    ("with a 1 subtracted", lambda x: x - 1),
    ("in reverse order", lambda x: x[::-1] if x.ndim else x),
    ("with its columns in reverse order", lambda x: x[:, ::-1] if x.ndim > 1 else x),
    ("transposed", lambda x: x.T if x.ndim == 2 and x.shape[0] == x.shape[1] else x),
)


def whole_changes() -> tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...]:
    """Changes of a whole result, with words that end "This is the right answer, ..."."""
    return _WHOLE


@lru_cache
def near_misses(name: str) -> tuple[tuple[str, Function], ...]:
    """Every change of a solution, with words that end "behaves as the right formula would ..."."""
    return tuple(_changed_solutions(SOLUTIONS[name]))


def _changed_solutions(code: str) -> Iterator[tuple[str, Function]]:
    (function,) = (node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef))
    arguments = [argument.arg for argument in function.args.args]
    seen = {ast.unparse(function)}
    for place, node in enumerate(ast.walk(function)):
        for number, _ in enumerate(_changes(node)):
            other = copy.deepcopy(function)
            target = list(ast.walk(other))[place]
            says, new = list(_changes(target))[number]
            if not _put(other, target, new):
                continue
            text = ast.unparse(ast.fix_missing_locations(other))
            if text not in seen:
                seen.add(text)
                unused = [argument for argument in arguments if not _used(other, argument)]
                yield f"if {' and '.join(unused)} did not enter" if unused else says, _compiled(text)


def _used(function: ast.FunctionDef, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(function))


def _changes(node: ast.AST) -> Iterator[Changed]:
    if isinstance(node, ast.BinOp):
        for operator, others in _OPERATORS.items():
            for other, says in others if isinstance(node.op, operator) else ():
                yield says, ast.BinOp(node.left, other(), node.right)
        yield TERM, node.left
        yield TERM, node.right
        if isinstance(node.op, ast.Sub | ast.Div):
            yield SWAPPED, ast.BinOp(node.right, node.op, node.left)
    elif isinstance(node, ast.UnaryOp):
        yield SIGN, node.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        number: Any = node.value
        for value in (number + 1, number - 1, -number):
            yield NUMBER, ast.Constant(value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from _calls(node, node.func)
    elif isinstance(node, ast.Subscript):
        yield INDEX, node.value
    elif isinstance(node, ast.keyword) and node.arg == "axis":
        yield AXIS, ast.keyword("axis", ast.Constant(0))


def _calls(node: ast.Call, function: ast.Attribute) -> Iterator[Changed]:
    for other in _FUNCTIONS.get(function.attr, ()):
        renamed = ast.Attribute(function.value, other, ast.Load())
        yield FUNCTION, ast.Call(renamed, node.args, node.keywords)
    on_array = not (isinstance(function.value, ast.Name) and function.value.id == "np")
    if on_array and function.attr in ("sum", "mean", "max", "var", "softmax"):
        for axis in (0, -2):
            if node.args:
                yield AXIS, ast.Call(function, [ast.Constant(axis), *node.args[1:]], node.keywords)
    yield CALL, function.value if on_array else node.args[0]


def _put(root: ast.AST, target: ast.AST, new: ast.AST) -> bool:
    """Put a node in another's place."""
    for parent in ast.walk(root):
        for field, value in ast.iter_fields(parent):
            if value is target:
                setattr(parent, field, new)
                return True
            if isinstance(value, list) and any(item is target for item in value):
                setattr(parent, field, [new if item is target else item for item in value])
                return True
    return False


def _compiled(text: str) -> Function:
    """The function of this package's own code."""
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, "a changed solution", "exec"), scope)
    named = re.search(r"def (\w+)", text)
    assert named
    function: Function = scope[named[1]]
    return function
