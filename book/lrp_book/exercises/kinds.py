"""Kinds of wrong answers that serve every exercise, told from inputs and results alone.

An answer is compared with the right one for changed inputs, and with the right one multiplied, shifted, sorted
or rounded. A kind is told only if it explains the answers to all inputs. Each finder returns a sentence or "".
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lrp_book.exercises.cards import Case, Exercise
from lrp_book.exercises.comparing import Answer, Answers, all_same, close, same

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
    def rows(self) -> list[tuple[Answer, Answer]]:
        """Given and expected."""
        return list(zip(self.given, self.expected, strict=True))

    def arrays(self) -> Iterator[tuple[Case, int, Array, Array]]:
        """Case, part, given and expected, of every part that is wrong somewhere."""
        for case, (a, b) in zip(self.cases, self.rows, strict=True):
            yield from ((case, p, a[p], b[p]) for p in self.parts)

    def explained(self, change: Callable[[Any], Any], by: Callable[[Any], Answer] | None = None) -> bool:
        """Whether answers to changed inputs, the right ones or `by`, are the given ones: the wrong ones first."""
        by = by or self.right
        rest = [k for k in range(len(self.cases)) if k not in self.wrong]
        with contextlib.suppress(Exception), np.errstate(all="ignore"):
            return all(
                same(self.given[k], by(change(self.cases[k].inputs)), self.tolerance)
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


INPUTS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("absolute values in place of {}", np.abs),
    ("the sign of {} reversed", np.negative),
    ("negative numbers set to 0 in {}", lambda x: np.maximum(x, 0)),
    ("ranks in place of {}", _ranks),
    ("{} divided by its sum", lambda x: x / np.sum(x, axis=-1, keepdims=True)),
    ("the mean of {} subtracted first", lambda x: x - np.mean(x, axis=-1, keepdims=True)),
    ("{} squared", np.square),
    ("zeros in place of {}", np.zeros_like),
    ("ones in place of {}", np.ones_like),
    ("{} transposed", lambda x: x.T),
    ("{} in reverse order", lambda x: x[::-1]),
    ("{} sorted", lambda x: np.sort(x, axis=0)),
    (
        "all but the first row of {} set to 0",
        lambda x: x * (np.arange(len(x)) < 1).reshape(-1, *[1] * (x.ndim - 1)),
    ),
    ("{} divided by the root of its width", lambda x: x / np.sqrt(x.shape[-1])),
    ("{} divided by its length", lambda x: x / len(x)),
    ("whole numbers in place of {}", np.round),
    ("{} rounded to two decimals", lambda x: np.round(x, 2)),
    ("{} in single precision", lambda x: np.asarray(x).astype(np.float32).astype(float)),
    ("{} in half precision", lambda x: np.asarray(x).astype(np.float16).astype(float)),
)
"""Changes of inputs, with words that end "This would be right with ..."."""


def other_inputs(asked: Asked) -> str:
    """Some of the inputs changed alike, or two of them swapped."""
    names = asked.exercise.arguments
    usable = [k for k, x in enumerate(asked.cases[0].inputs) if is_numbers(x)]
    subsets = [s for size in range(1, len(usable) + 1) for s in itertools.combinations(usable, size)]
    for (says, change), chosen in itertools.product(INPUTS, subsets):

        def changed(inputs: Any, change: Any = change, chosen: Any = chosen) -> list[Any]:
            return [change(x) if k in chosen else x for k, x in enumerate(inputs)]

        if asked.explained(changed):
            return f"This would be right with {says.format(_names([names[k] for k in chosen]))}. "
    for i, j in itertools.combinations(usable, 2):

        def swapped(inputs: Any, i: int = i, j: int = j) -> list[Any]:
            return [inputs[j if k == i else i if k == j else k] for k in range(len(inputs))]

        if asked.explained(swapped):
            return f"This would be right with {names[i]} and {names[j]} in each other's place. "
    return ""


# -- the right answer, multiplied or divided -----------------------------------------------------------------


def _fits(value: Any, like: Array) -> bool:
    with contextlib.suppress(ValueError):
        return is_numbers(value) and np.broadcast_shapes(np.shape(value), like.shape) == like.shape
    return False


def _plain(x: Array) -> Array:
    return np.where(np.isfinite(x), x, np.nan)


def times_an_input(asked: Asked) -> str:
    """Each wrong part multiplied or divided by an input, by its own one (R_a by a), or by the answer."""
    names, parts = asked.exercise.arguments, asked.exercise.parts
    own = {
        p: next((k for k, name in enumerate(names) if part.endswith(f"_{name}")), -1)
        for p, part in enumerate(parts)
    }
    rules: list[tuple[str, Callable[[Case, int, Array], Any]]] = [
        ("its input", lambda case, p, b: case.inputs[own[p]] if own[p] >= 0 else None),
        *((name, lambda case, p, b, k=k: case.inputs[k]) for k, name in enumerate(names)),
        *(
            (f"the first entry of {name}", lambda case, p, b, k=k: _entry(case.inputs[k], 0))
            for k, name in enumerate(names)
        ),
        *(
            (f"the last entry of {name}", lambda case, p, b, k=k: _entry(case.inputs[k], -1))
            for k, name in enumerate(names)
        ),
    ]
    for (says, of), divided in itertools.product(rules, (False, True)):
        if all(
            _multiplied(a, b, of(case, p, b), asked.tolerance, divided) for case, p, a, b in asked.arrays()
        ):
            done, undo = ("divided by", "multiplied by") if divided else ("multiplied by", "divided by")
            told = f"This is the right {_names([parts[p] for p in asked.parts])} {done} {says}: "
            relevance = says == "its input" or parts[asked.parts[0]].endswith(f"_{says}")
            besides = (
                " Relevance is g times the activation: which of the two is asked for?" if relevance else ""
            )
            return f"{told}it would have to be {undo} it.{besides} "
    return ""


def _entry(value: Any, place: int) -> Any:
    return (
        float(value[place])
        if isinstance(value, np.ndarray) and value.ndim == 1 and is_numbers(value)
        else None
    )


def _multiplied(a: Array, b: Array, by: Any, tolerance: float, divided: bool) -> bool:
    if by is None or not _fits(by, b):
        return False
    with np.errstate(all="ignore"):
        return same((_plain(a),), (_plain(b / by if divided else b * by),), tolerance)


# -- patterns of the results ---------------------------------------------------------------------------------


def _scale(a: Array, b: Array, tolerance: float) -> float | None:
    """The c with a = c b, if there is one; NaN if any would do."""
    if not np.isfinite(a).all() or not np.isfinite(b).all():
        return None if not close(a, b).all() else np.nan
    if not b.any():
        return np.nan if not a.any() else None
    c = float((a * b).sum() / (b * b).sum())
    return c if close(a, c * b, tolerance).all() else None


def _told_scale(asked: Asked, wide: bool) -> dict[Any, list[float]] | None:
    """The factors of each size of inputs, or None if an answer is not right up to one factor."""
    found: dict[Any, list[float]] = {}
    for case, p, a, b in asked.arrays():
        lines = list(zip(a, b, strict=True)) if wide and b.ndim == 2 else [(a, b)]
        for one, wanted in lines:
            c = _scale(one, wanted, asked.tolerance)
            if c is None:
                return None
            if not np.isnan(c) and (wanted.size > 1 or not wide):
                found.setdefault((case.label, p, tuple(getattr(x, "shape", ()) for x in case.inputs)), []).append(c)
    return found


def one_factor(asked: Asked) -> str:
    """Right up to one factor an input, or one a row."""
    if asked.exercise.whole:
        return ""
    found = _told_scale(asked, wide=False)
    parts = _names([asked.exercise.parts[p] for p in asked.parts])
    rest = [p for p in range(len(asked.exercise.parts)) if p not in asked.parts]
    if found and any(len(c) > 1 for c in found.values()):
        factors = [c for of in found.values() for c in of]
        if np.ptp(factors) < 1e-9 * max(map(abs, factors)) and rest:
            return f"Every number of {parts} is {factors[0]:.6g} times what it should be. "
        if all(np.ptp(c) < 1e-9 * max(map(abs, c)) for c in found.values()):
            told = "The formula is right up to a factor that depends on the size of the inputs alone"
            return f"{told}: a sum for a mean, a mean for a sum, or a division by another count. "
        if all(b.size > 1 for *_, b in asked.arrays()):
            told = "On each input all numbers are off by one and the same factor, another for other inputs"
            return f"{told}: what everything is divided by, or multiplied by, is wrong. "
    if all(b.ndim == 2 for *_, b in asked.arrays()) and _told_scale(asked, wide=True):
        return (
            "In each row all numbers are off by one and the same factor: what a row is divided by is wrong. "
        )
    return ""


def one_term(asked: Asked) -> str:
    """Right up to one number that is added, for each row or for all entries."""
    if any(b.ndim == 0 or b.shape[-1] < 2 for *_, b in asked.arrays()) or asked.exercise.whole:
        return ""
    for rows in (False, True):
        for _, _, a, b in asked.arrays():
            off, scale = a - b, max(1e-3, float(np.abs(np.nan_to_num(b)).max()))
            spread = np.ptp(off, axis=-1) if rows else np.ptp(off)
            if not (spread <= asked.tolerance * scale).all():
                break
        else:
            each = "In each row all" if rows else "On each input all"
            return f"{each} numbers are off by one added number: what is added or subtracted last is wrong. "
    return ""


def in_order(asked: Asked) -> str:
    """The right numbers in other places."""
    triples = [(np.sort(a, axis=None), np.sort(b, axis=None)) for _, _, a, b in asked.arrays()]
    if all(b.size > 1 for *_, b in asked.arrays()) and all(
        close(a, b, asked.tolerance).all() for a, b in triples
    ):
        return "The numbers are right, but in another order: which entry belongs to which place? "
    return ""


def places(asked: Asked) -> str:
    """Only the first entry (row, column) is right, on all inputs."""
    for axis, thing in ((0, "entry"), (0, "row"), (1, "column")):
        if any(b.ndim != (1 if thing == "entry" else 2) or b.shape[axis] < 2 for *_, b in asked.arrays()):
            continue
        marks = [
            np.moveaxis(close(a, b, asked.tolerance), axis, 0).reshape(b.shape[axis], -1).all(1)
            for *_, a, b in asked.arrays()
        ]
        wrong = [mark for mark in marks if not mark.all()]
        if all(mark[0] for mark in marks) and not any(mark[1] for mark in wrong):
            return (
                f"Only the first {thing} is right: does something change there that the next ones still see? "
            )
        if all(mark[:-1].all() for mark in marks):
            return f"Only the last {thing} is wrong: does a loop or a slice end one too early, or too late? "
        if all(mark[1:].all() for mark in marks):
            return (
                f"Only the first {thing} is wrong: does a loop or a slice begin one too early, or too late? "
            )
    return ""


def rounded(asked: Asked) -> str:
    """The right numbers rounded, or nearly right."""
    for digits in range(7):
        if all_same(asked.given, [tuple(np.round(b, digits) for b in answer) for answer in asked.expected]):
            return f"The numbers are right, but rounded to {digits} decimals: return them as they are. "
    if not asked.exercise.whole and all_same(asked.given, asked.expected, ROUGH):
        told = (
            "All numbers are nearly right. Is something rounded or in low precision, is a small number added"
        )
        return f"{told} that does not belong there, or in another place than it should be? "
    return ""


# -- where it is wrong ---------------------------------------------------------------------------------------


def of_one_input(asked: Asked) -> str:
    """Right exactly where an input is 0, or wrong only where an input has a 0 or equal numbers."""
    right = [k for k in range(len(asked.cases)) if k not in asked.wrong]
    names = asked.exercise.arguments
    numbers = [j for j, x in enumerate(asked.cases[0].inputs) if is_numbers(x)]
    vanish = {j: [k for k, case in enumerate(asked.cases) if not np.any(case.inputs[j])] for j in numbers}
    off = [j for j in numbers if vanish[j] and set(vanish[j]) <= set(right)]
    if off:
        name = names[max(off, key=lambda j: len(vanish[j]))]
        asks = "what is it added to, and with which sign and size" if name == "eps" else "how does it enter"
        return f"All is right where {name} is 0, so the error is in what {name} does: {asks}? "
    for says, has in (("a 0", _has_zero), ("equal numbers", _has_ties)):
        for j in numbers:
            met = {k for k, case in enumerate(asked.cases) if has(case.inputs[j])}
            if (
                set(asked.wrong) <= met
                and len(met) < len(asked.cases)
                and len(met & set(right)) < len(asked.wrong)
            ):
                return f"It is wrong only where {names[j]} has {says}: what does your code do with {says} there? "
    return ""


def _has_zero(x: Any) -> bool:
    return isinstance(x, np.ndarray) and bool((x == 0).any())


def _has_ties(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.ndim == 1 and len(np.unique(x)) < x.size


def by_sign(asked: Asked) -> str:
    """Wrong entries are exactly the negative (or positive) ones of the right answer or of an input."""
    names = asked.exercise.arguments
    of: list[tuple[str, Callable[[Case, Array], Any]]] = [("the right answer", lambda case, b: b)]
    of += [(name, lambda case, b, k=k: case.inputs[k]) for k, name in enumerate(names)]
    entries = [(case, b, ~close(a, b, asked.tolerance)) for case, _, a, b in asked.arrays()]
    for (name, get), (says, test) in itertools.product(
        of, (("negative", lambda x: x < 0), ("positive", lambda x: x > 0), ("0", lambda x: x == 0))
    ):
        if not all(is_numbers(get(case, b)) and np.shape(get(case, b)) == b.shape for case, b, _ in entries):
            continue
        wrong = np.concatenate([mark.ravel() for *_, mark in entries])
        met = np.concatenate([np.ravel(test(get(case, b))) for case, b, _ in entries])
        if not (wrong & ~met).any() and wrong.sum() * 2 > met.sum() and (~met).sum() * 4 > met.size:
            return f"Wrong are only the entries where {name} is {says}: are they treated in another way? "
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
            return f"You return {name} as it came in. "
    return ""


FINDERS = (
    always_zero,
    an_input,
    other_inputs,
    times_an_input,
    rounded,
    one_factor,
    one_term,
    in_order,
    of_one_input,
    places,
    by_sign,
)


def first_told(finders: Sequence[Callable[[Asked], str]], asked: Asked) -> str:
    """What the first finder says that explains the answer, or "": what one cannot read, it does not explain."""
    for finder in finders:
        with contextlib.suppress(Exception), np.errstate(all="ignore"):
            if told := finder(asked):
                return told
    return ""
