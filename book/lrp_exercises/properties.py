"""Properties that the right answer has and a wrong one has not, found by calling the reader's function again.

On what does it depend? What happens if an input is doubled, reversed, shifted, or put in another order, and
what do the results sum to? Only a property that the right answer has on all inputs is told.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lrp_exercises.comparing import Answer, close, same
from lrp_exercises.kinds import Asked, first_told

Array = np.ndarray
Change = Callable[[Sequence[Any]], list[Any]]


def broken_property(asked: Asked) -> str:
    """The first property that the right answer has and this one has not, or ""."""
    return first_told((memory, _dependence, _ranks, _totals, _scaling, _shift, _order, _reach), asked)


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


def _follows(asked: Asked, change: Change, wish: Callable[[Array], Array]) -> bool:
    """Whether given answers become `wish` of what they were."""
    return all(same(tuple(map(wish, old)), new, 1e-7) for *_, old, new in _answers(asked, change))


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


def _ranks(asked: Asked) -> str:
    """Does the answer see less of an input than the right one: its order alone?"""
    for k in asked.numbers:
        rows = _answers(asked, _on(asked, [k], lambda x: x + x**3 + 1.3))
        seen = [not same(right, other) for right, other, *_ in rows]
        if 2 * sum(seen) > len(rows) and all(same(given, new) for *_, given, new in rows):
            name = asked.exercise.arguments[k]
            return f"Your answer sees only the order of {name}, as ranks do; the right one sees the sizes. "
    return ""


THEN = {1: "stays as it is", 2: "doubles, too", 0.5: "is halved", 4: "is four times as large"}


def _times(factor: float) -> Callable[[Array], Array]:
    return lambda x: factor * x


def _scaling(asked: Asked) -> str:
    usable, names = asked.numbers, asked.exercise.arguments
    for size, factor in itertools.product((1, 2), THEN):
        for chosen in itertools.combinations(usable, size):
            doubled = _on(asked, chosen, _times(2))
            if _breaks(asked, doubled, _times(factor)):
                yours = next((THEN[f] for f in THEN if _follows(asked, doubled, _times(f))), "does not")
                what = " and ".join(names[k] for k in chosen) + (" is" if size == 1 else " are")
                return f"If {what} doubled, the right answer {THEN[factor]}; yours {yours}. "
    for k, (factor, then) in itertools.product(usable, ((1, THEN[1]), (-1, "changes its sign, too"))):
        if _breaks(asked, _on(asked, [k], _times(-1)), _times(factor)):
            return f"If {names[k]} changes its sign, the right answer {then}; yours does something else. "
    return ""


def _shift(asked: Asked) -> str:
    for k in asked.numbers:
        if _breaks(asked, _on(asked, [k], lambda x: x + 1.0), lambda y: y):
            name = asked.exercise.arguments[k]
            return f"If 1 is added to all of {name}, the right answer stays; yours changes. "
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


ENDS = {0: "first", -1: "last", 1: "second", 2: "third"}


def _reach(asked: Asked) -> str:
    """Which part of the answer sees one entry, row or column of an input?"""
    numbers = [] if asked.exercise.whole else asked.numbers  # a new score moves all in an order
    for k, axis, place in itertools.product(numbers, (0, -1), ENDS):
        if min(np.ndim(case.inputs[k]) for case in asked.cases) < (1 if axis == 0 else 2):
            continue

        def moved(x: Array, up: float = 1, axis: int = axis, place: int = place) -> Array:
            out = x.copy()
            if place < x.shape[axis]:
                line = np.moveaxis(out, axis, 0)[place, ...]
                line += up * (1 + np.random.default_rng(5).random(line.shape))
            return out

        def far(x: Array, moved: Callable[..., Array] = moved) -> Array:
            return moved(x, up=-99)

        marks = [_marks(four) for four in _answers(asked, _on(asked, [k], moved))]
        thing = "entry" if np.ndim(asked.cases[0].inputs[k]) == 1 else "column" if axis else "row"
        what = f"the {ENDS[place]} {thing} of {asked.exercise.arguments[k]}"
        seen = [(right, given) for right, given in marks if right.any()]
        if len(seen) > 2 and not any(given.any() for _, given in seen):
            return f"Your answer does not see {what}, the right one does. "
        blind = len(marks) > 2 and not seen and 2 * sum(given.any() for _, given in marks) > len(marks)
        if blind and not any(right.any() for right, _ in map(_marks, _answers(asked, _on(asked, [k], far)))):
            return f"Your answer changes with {what}, the right one does not. "
        if not any(right.size > 1 for right, _ in seen):  # one number has no parts
            continue
        if len(seen) > 2 and 2 * sum((given & ~right).any() for right, given in seen) > len(seen):
            return f"If {what} changes, entries of your answer change that have nothing to do with it. "
        if len(seen) > 2 and 2 * sum((right & ~given).any() for right, given in seen) > len(seen):
            return f"If {what} changes, more of the right answer changes than of yours. "
    return ""


def _marks(four: tuple[Answer, Answer, Answer, Answer]) -> tuple[Array, Array]:
    """Which entries of the right answer, and of the given one, are others after the change."""
    right, after, given, later = (np.concatenate([np.ravel(part) for part in answer]) for answer in four)
    return ~close(right, after), ~close(given, later)


def _totals(asked: Asked) -> str:
    """Sums that are 0 or 1 on all inputs, or those of two parts that are an input."""
    parts, finite = asked.exercise.parts, [np.isfinite(x).all() for of in asked.rows for a in of for x in a]
    if asked.exercise.whole or asked.exercise.autograd or not all(finite):
        return ""
    if len(parts) == 1 and asked.expected[0][0].ndim:
        sums = [(a[0].sum(-1), b[0].sum(-1)) for a, b in asked.rows]
        for total in (0, 1):
            broken = sum(not np.allclose(got, total, atol=1e-7) for got, _ in sums)
            if 2 * broken > len(sums) and all(np.allclose(wanted, total, atol=1e-9) for _, wanted in sums):
                each = (
                    "Each row of the right answer" if asked.expected[0][0].ndim == 2 else "The right answer"
                )
                return f"{each} sums to {total}; yours does not. "
    if len(parts) == 2 and all(b[0].shape == b[1].shape for b in asked.expected):
        for k in asked.numbers:
            whole = [case.inputs[k] for case in asked.cases]
            kept = all(np.allclose(x, sum(b)) for x, b in zip(whole, asked.expected, strict=True))
            if kept and not all(np.allclose(x, sum(a)) for x, a in zip(whole, asked.given, strict=True)):
                return (
                    f"{' and '.join(parts)} have to add up to {asked.exercise.arguments[k]}; yours do not. "
                )
    return ""
