"""Properties that the right answer has and a wrong one has not, found by calling the reader's function again.

On what does it depend, and what happens if an input is put in another order? Only a property that the right
answer has on all inputs is told.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lrp_exercises.comparing import Answer, same
from lrp_exercises.kinds import Asked, first_told

Array = np.ndarray
Change = Callable[[Sequence[Any]], list[Any]]


def broken_property(asked: Asked) -> str:
    """The first property that the right answer has and this one has not, or ""."""
    return first_told((memory, _dependence, _order), asked)


def memory(asked: Asked) -> str:
    """Is the answer to the same inputs another one later?"""
    pairs = itertools.islice(zip(asked.given, asked.cases, strict=True), 8)
    if all(same(a, asked.call(case.inputs)) for a, case in pairs):
        return ""
    return "Called again with the same inputs, your function returns other numbers: what does it remember? "


def _on(asked: Asked, arguments: Sequence[int], change: Callable[[Any], Any]) -> Change:
    return lambda inputs: [change(x) if k in arguments else x for k, x in enumerate(inputs)]


def _answers(asked: Asked, change: Change) -> list[tuple[Answer, Answer, Answer, Answer]]:
    """The right answer and the given one, each before and after the change, where all are finite."""
    out: list[tuple[Answer, Answer, Answer, Answer]] = []
    for case, a, b in zip(asked.cases, asked.given, asked.expected, strict=True):
        try:
            inputs = change(case.inputs)
            four = (b, asked.right(inputs), a, asked.call(inputs))
        except Exception:
            return []
        if all(np.isfinite(part).all() for answer in four for part in answer):
            out.append(four)
    return out


def _breaks(asked: Asked, change: Change, wish: Callable[[Array], Array]) -> bool:
    """Whether right answers become `wish` of what they were, and given ones, where wrong, mostly do not."""
    rows = _answers(asked, change)
    if len(rows) < 2 or not all(same(tuple(map(wish, old)), new) for old, new, *_ in rows):
        return False
    broken = [not same(tuple(map(wish, old)), new, 1e-7) for *_, old, new in rows]
    return 2 * sum(broken) >= len(rows)


def _moved(x: Any) -> Any:
    if isinstance(x, np.ndarray) and x.dtype == bool:
        return np.roll(x, 1, axis=-1) if x.any() else np.arange(x.size).reshape(x.shape) < 1
    return x + np.random.default_rng(5).random(np.shape(x)) + 0.3


def _dependence(asked: Asked) -> str:
    inputs = asked.cases[0].inputs
    moved = {k: _on(asked, [k], _moved) for k, x in enumerate(inputs) if isinstance(x, (float, np.ndarray))}
    for k, change in moved.items():
        rows = _answers(asked, change)
        if rows and all(same(given, new) and not same(right, other) for right, other, given, new in rows):
            return f"Your answer does not change with {asked.exercise.arguments[k]}, the right one does. "
    for k, change in moved.items():
        if _breaks(asked, change, lambda y: y):
            return f"Your answer changes with {asked.exercise.arguments[k]}, the right one does not. "
    return ""


def _order(asked: Asked) -> str:
    """Entries, rows, columns or axes moved on by one: the right answer stays, or moves along."""
    changes: list[Change] = [
        lambda inputs: [_rolled(x, 0, inputs) for x in inputs],
        lambda inputs: [_rolled(x, -1, inputs) for x in inputs],
        lambda inputs: [np.moveaxis(x, -1, 0) for x in inputs],
    ]
    wishes: list[Callable[[Array], Array]] = [
        lambda y: y,
        lambda y: np.roll(y, 1, axis=0),
        lambda y: np.roll(y, 1, axis=-1),
    ]
    for change, wish in itertools.product(changes, wishes if not asked.exercise.whole else ()):
        if _breaks(asked, change, wish):
            return "If the inputs are put in another order, the right answer follows; yours does not. "
    return ""


def _rolled(x: Any, axis: int, inputs: Sequence[Any]) -> Any:
    length = next(y for y in inputs if isinstance(y, np.ndarray)).shape[axis]
    return np.roll(x, 1, axis=axis) if isinstance(x, np.ndarray) and x.shape[axis] == length else x
