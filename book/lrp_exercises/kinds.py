"""Kinds of wrong answers that serve every exercise, told from inputs and results alone.

An answer is compared with the right one for changed inputs, and with the right one multiplied, shifted,
sorted or rounded. A kind is told only if it explains all answers. Each finder returns a sentence or "".
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lrp_exercises.cards import Case, Exercise
from lrp_exercises.comparing import Answer, Answers, alike, all_same, close, same

Array = np.ndarray
ROUGH = 2e-3  # relative: what rounding, low precision and small stabilisers change


@dataclass(frozen=True)
class Asked:
    """A wrong answer. `call` runs the reader's function, `right` the printed solution."""

    exercise: Exercise
    cases: list[Case]
    given: Answers
    expected: Answers
    tolerance: float
    call: Callable[[Any], Answer]
    right: Callable[[Any], Answer]

    @cached_property
    def wrong(self) -> list[int]:
        """Numbers of the cases with a wrong answer."""
        pairs = zip(self.given, self.expected, strict=True)
        return [k for k, pair in enumerate(pairs) if not same(*pair, self.tolerance)]

    @cached_property
    def parts(self) -> list[int]:
        """Numbers of the parts that are wrong somewhere."""
        count = len(self.exercise.parts)
        return [
            p for p in range(count) if any(not same((a[p],), (b[p],), self.tolerance) for a, b in self.rows)
        ]

    @property
    def numbers(self) -> list[int]:
        """The places of the inputs that can be calculated with."""
        return [k for k, x in enumerate(self.cases[0].inputs) if is_numbers(x)]

    @property
    def rows(self) -> list[tuple[Answer, Answer]]:
        """Given and expected."""
        return list(zip(self.given, self.expected, strict=True))

    def arrays(self) -> Iterator[tuple[Case, int, Array, Array]]:
        """Case, part, given and expected, of every part that is wrong somewhere."""
        for case, (a, b) in zip(self.cases, self.rows, strict=True):
            yield from ((case, p, a[p], b[p]) for p in self.parts)

    def explained(self, change: Callable[[Any], Any], by: Callable[[Any], Answer] | None = None) -> bool:
        """Whether the right answers (or those of `by`) to changed inputs are the given ones."""
        by = by or self.right
        rest = [k for k in range(len(self.cases)) if k not in self.wrong]
        with contextlib.suppress(Exception), np.errstate(all="ignore"):
            return all(
                alike(self.given[k], by(change(self.cases[k].inputs)), self.tolerance)
                for k in [*self.wrong, *rest]
            )
        return False


def is_numbers(value: Any) -> bool:
    """Whether an input can be calculated with: not a mask, not a grouping."""
    return isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")


def _names(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


# -- the right answer for other inputs -----------------------------------------------------------------------


def _ranks(x: Array) -> Array:
    return np.less.outer(x, x).sum(0) + (np.equal.outer(x, x).sum(0) + 1) / 2 if np.ndim(x) == 1 else x


def _softmax(x: Array) -> Array:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


OTHER = "This is the right answer to other inputs: "
INPUTS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("absolute values in place of {}", np.abs),
    ("the sign of {} reversed", np.negative),
    ("negative numbers set to 0 in {}", lambda x: np.maximum(x, 0)),
    ("ranks in place of {}", _ranks),
    ("zeros in place of {}", np.zeros_like),
    ("ones in place of {}", np.ones_like),
    ("{} divided by its sum", lambda x: x / np.sum(x, axis=-1, keepdims=True)),
    ("the mean of {} subtracted first", lambda x: x - np.mean(x, axis=-1, keepdims=True)),
    ("{} squared", np.square),
    ("{} put through a softmax", _softmax),
    ("{} transposed", lambda x: x.T),
    ("{} in reverse order", lambda x: x[::-1]),
    ("{} sorted", lambda x: np.sort(x, axis=0)),
)
"""Changes of inputs, with words that end this sentence."""


def other_inputs(asked: Asked) -> str:
    """Some of the inputs changed alike, or two of them swapped."""
    names = asked.exercise.arguments
    usable = asked.numbers
    subsets = [s for size in range(1, len(usable) + 1) for s in itertools.combinations(usable, size)]
    for (says, change), chosen in itertools.product(INPUTS, subsets):

        def changed(inputs: Any, change: Any = change, chosen: Any = chosen) -> list[Any]:
            return [change(x) if k in chosen else x for k, x in enumerate(inputs)]

        if asked.explained(changed):
            return f"{OTHER}{says.format(_names([names[k] for k in chosen]))}. "
    for i, j in itertools.combinations(usable, 2):

        def swapped(inputs: Any, places: Any = {i: j, j: i}) -> list[Any]:  # noqa: B006
            return [inputs[places.get(k, k)] for k in range(len(inputs))]

        if asked.explained(swapped):
            return f"{OTHER}{names[i]} and {names[j]} in each other's place. "
    return ""


# -- the right answer, multiplied or divided -----------------------------------------------------------------


def _fits(value: Any, like: Array) -> bool:
    with contextlib.suppress(ValueError):
        return is_numbers(value) and np.broadcast_shapes(np.shape(value), like.shape) == like.shape
    return False


def times_an_input(asked: Asked) -> str:
    """Each wrong part multiplied or divided by an input, or by its own one (R_a, a)."""
    names, parts = asked.exercise.arguments, asked.exercise.parts
    own = [next((k for k, name in enumerate(names) if part.endswith(f"_{name}")), -1) for part in parts]
    number = range(len(names))
    rules: list[tuple[str, Callable[[Case, int], Any]]] = [
        ("", lambda case, p: case.inputs[own[p]] if own[p] >= 0 else None),
        *((names[k], lambda case, p, k=k: case.inputs[k]) for k in number),
    ]
    for (by, of), divided in itertools.product(rules, (False, True)):
        if all(_multiplied(a, b, of(case, p), asked.tolerance, divided) for case, p, a, b in asked.arrays()):
            done = "divided by" if divided else "multiplied by"
            each = [f"{parts[p]} ({done} {by or names[own[p]]})" for p in asked.parts]
            besides = "" if by else " Relevance is g times the activation: which of the two is asked for?"
            return f"Right but for one factor: {_names(each)}.{besides} "
    return ""


def _multiplied(a: Array, b: Array, by: Any, tolerance: float, divided: bool) -> bool:
    if by is None or not _fits(by, b):
        return False
    with np.errstate(all="ignore"):
        return alike((a,), (b / by if divided else b * by,), tolerance)


# -- patterns of the results ---------------------------------------------------------------------------------


def _scale(a: Array, b: Array, tolerance: float) -> float | None:
    """The c with a = c b, if there is one; NaN if any would do."""
    if not np.isfinite(a).all() or not np.isfinite(b).all():
        return None if not close(a, b).all() else np.nan
    if not b.any():
        return np.nan if not a.any() else None
    c = float((a * b).sum() / (b * b).sum())
    return c if close(a, c * b, tolerance).all() else None


Factors = dict[Any, list[float]]


def _factors(asked: Asked, by_row: bool) -> Factors | None:
    """The factors, for each size of the inputs, or None if an answer is not right up to one factor."""
    found: Factors = {}
    drawn = {(p, repr(case.inputs)): (case, p, a, b) for case, p, a, b in asked.arrays()}  # each input once
    for case, p, a, b in drawn.values():
        for one, wanted in zip(a, b, strict=True) if by_row else [(a, b)]:
            c = _scale(one, wanted, asked.tolerance)
            if not c:  # of zeros nothing is known
                return None
            if not np.isnan(c):
                sizes = tuple(getattr(x, "shape", ()) for x in case.inputs)
                found.setdefault((case.label, p, sizes), []).append(c)
    return found


def _equal(numbers: list[float]) -> bool:
    return bool(np.ptp(numbers) < 1e-9 * max(map(abs, numbers)))


def factor_by_size(asked: Asked) -> str:
    """Right up to a factor that is the same for all inputs of a size, or of any size in one part."""
    found = None if asked.exercise.whole else _factors(asked, by_row=False)
    off = [of for of in (found or {}).values() if len(of) > 1 and abs(of[0] - 1) > 1e-6]
    if not found or not off or not all(map(_equal, found.values())):
        return ""  # no size with two inputs that have another factor than 1
    factors = [c for of in found.values() for c in of]
    if _equal(factors):
        parts = _names([asked.exercise.parts[p] for p in asked.parts])
        return f"Every number of {parts} is {factors[0]:.6g} times what it should be. "
    if min(factors) < 0:  # no count is
        return ""
    told = "The formula is right up to a factor that depends on the size of the inputs alone"
    return f"{told}: a sum for a mean, a mean for a sum, or a division by another count. "


def factor_by_input(asked: Asked) -> str:
    """Right up to one factor for each input, or each row."""
    sizes = [b.shape for *_, b in asked.arrays()]
    if asked.exercise.whole or any(not shape or shape[-1] < 2 for shape in sizes):
        return ""
    if _factors(asked, by_row=False):
        told = "On each input all numbers are off by one and the same factor"
        return f"{told}: what everything is divided by, or multiplied by, is wrong. "
    if all(len(shape) == 2 for shape in sizes) and _factors(asked, by_row=True):
        return "In each row all numbers are off by the same factor: what a row is divided by is wrong. "
    return ""


def in_order(asked: Asked) -> str:
    """The right numbers in other places."""
    for *_, a, b in asked.arrays():
        if not close(np.sort(a, axis=None), np.sort(b, axis=None), asked.tolerance).all():
            return ""
    return "The numbers are right, but in another order: which entry belongs to which place? "


def rounded(asked: Asked) -> str:
    """The right numbers rounded, or nearly right."""
    if all_same(asked.given, [tuple(map(np.floor, answer)) for answer in asked.expected]):
        return "The numbers are right, but rounded down. "
    for digits in range(7):
        if all_same(asked.given, [tuple(np.round(b, digits) for b in answer) for answer in asked.expected]):
            return f"The numbers are right, but rounded to {digits} decimals: return them as they are. "
    if not asked.exercise.whole and all_same(asked.given, asked.expected, ROUGH):
        told = "All numbers are nearly right. Is something rounded, in low precision, or is a small number"
        return f"{told} added where it does not belong? "
    return ""


# -- where it is wrong ---------------------------------------------------------------------------------------


def where_an_input_is_0(asked: Asked) -> str:
    """Right wherever one input is 0: the error is in how it enters."""
    right = set(range(len(asked.cases))) - set(asked.wrong)
    numbers = [j for j, x in enumerate(asked.cases[0].inputs) if is_numbers(x)]
    vanish = {j: {k for k, case in enumerate(asked.cases) if not np.any(case.inputs[j])} for j in numbers}
    if not (off := [j for j in numbers if vanish[j] and vanish[j] <= right]):
        return ""
    name = asked.exercise.arguments[max(off, key=lambda j: len(vanish[j]))]
    asks = "what is it added to, and with which sign and size" if name == "eps" else "how does it enter"
    return f"All is right where {name} is 0, so the error is in what {name} does: {asks}? "


def special_inputs(asked: Asked) -> str:
    """Wrong only where an input has equal numbers or a 0; the input is told that singles them out best."""
    names, found = asked.exercise.arguments, []
    for says, has in (("equal numbers", has_ties), ("a 0", _has_zero)):
        for j, name in enumerate(names):
            met = {k for k, case in enumerate(asked.cases) if has(case.inputs[j])}
            if set(asked.wrong) <= met and len(met) < len(asked.cases):
                found.append((len(met) - len(asked.wrong), says, name))
    if not found or (least := min(row[0] for row in found)) >= len(asked.wrong):
        return ""
    says = next(row[1] for row in found if row[0] == least)
    where = " or ".join(row[2] for row in found if row[:2] == (least, says))
    return f"It is wrong only where {where} has {says}: what does your code do with {says} there? "


def _has_zero(x: Any) -> bool:
    return isinstance(x, np.ndarray) and bool((x == 0).any())


def has_ties(x: Any) -> bool:
    """Whether a vector has equal numbers."""
    return is_numbers(x) and np.ndim(x) == 1 and len(np.unique(x)) < x.size


def members(asked: Asked) -> str:
    """Of whole numbers: one that does not belong in the answer, and one that is missing."""
    for _, _, a, b in asked.arrays() if asked.exercise.whole else ():
        if (extra := np.setdiff1d(a, b)).size:
            missing = np.setdiff1d(b, a)[0]
            return f"{extra[0]:g} is in your answer and does not belong there; {missing} is missing. "
    return ""


def always_zero(asked: Asked) -> str:
    """A part that has to be 0 everywhere and is not, or is 0 everywhere and must not be."""
    for p in asked.parts:
        name = asked.exercise.parts[p]
        if not any(b[p].any() for b in asked.expected):
            return f"The right answer is 0 everywhere for {name}: nothing may reach it. "
        if not any(a[p].any() for a in asked.given):
            return f"You return 0 everywhere for {name}. "
    return ""


def an_input(asked: Asked) -> str:
    """The answer is an input as it came in."""
    for k, name in enumerate(asked.exercise.arguments):
        if is_numbers(asked.cases[0].inputs[k]) and all(
            same((a,), (np.asarray(case.inputs[k]),), asked.tolerance) for case, _, a, _ in asked.arrays()
        ):
            return f"You return {name} unchanged. "
    return ""


WHOLE_PARTS = (always_zero, an_input)
FINDERS = (
    factor_by_size, other_inputs, times_an_input,
    rounded, factor_by_input,
)  # fmt: skip
PLACES = (members, where_an_input_is_0, special_inputs, in_order)


def first_told(finders: Sequence[Callable[[Asked], str]], asked: Asked) -> str:
    """What the first finder says that explains the answer, or "". One that fails explains nothing."""
    for finder in finders:
        with contextlib.suppress(Exception), np.errstate(all="ignore"):
            if told := finder(asked):
                return told
    return ""
