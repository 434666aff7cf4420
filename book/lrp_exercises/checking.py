"""Compares a reader's function with a reference and with known slips, and gives feedback."""

from __future__ import annotations

import contextlib
import copy
import html
import importlib
import io
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from lrp_exercises.cards import Case, Exercise, Function, compiled
from lrp_exercises.comparing import (
    SINGLE,
    TOLERANCE,
    Answer,
    Answers,
    alike,
    all_same,
    close,
    factor,
    near,
    same,
)
from lrp_exercises.kinds import FINDERS, PLACES, WHOLE_PARTS, Asked, factor_by_size, first_told, has_ties
from lrp_exercises.near_misses import WHOLE, near_misses
from lrp_exercises.properties import broken_property, memory

SEED, SEEDS = 0, 4  # the first seed, and how many are drawn from
PATIENCE = 5.0  # seconds in which a wrong function is called again, to find out what is wrong
Slips = list[tuple[str, Answers]]  # what is said of each, and its answers to the cases
_FACTORS = {
    2.0: "Every number is twice what it should be: is a half missing?",
    0.5: "Every number is half of what it should be: one half too many.",
    4.0: "Every number is four times what it should be: are two halves missing?",
    0.25: "Every number is a quarter of what it should be: halved twice too often.",
    -1.0: "Every number has the other sign: a minus was dropped, or a difference reversed.",
}

_CAUSES = "a division by zero, a root or logarithm of a negative number, or an exponential that overflows"


@dataclass(frozen=True)
class Result:
    """The verdict of `check`. It counts as true if the function passes."""

    name: str
    passes: bool
    message: str

    def __bool__(self) -> bool:
        return self.passes

    def __repr__(self) -> str:
        return f"{'passes' if self.passes else 'not yet'}: {self.name}. {self.message}"

    def _repr_html_(self) -> str:
        mark, word, colour = ("✓", "passes", "#1a7f37") if self.passes else ("✗", "not yet", "#b35900")
        return (
            f'<div role="status" style="border-left: 4px solid {colour}; padding: 0.3em 0.8em">'
            f"<strong>{mark} {word}: {html.escape(self.name)}</strong><br>{html.escape(self.message)}</div>"
        )


class _Told(Exception):
    """An answer that cannot be compared; its text says why."""


def examine(exercise: Exercise, function: Function, *, seed: int = SEED) -> Result:
    """Run a function on the cases of several seeds and say what is likely wrong with it."""
    with np.errstate(all="warn"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _examine(exercise, function, seed)
        except Exception as error:
            told = f"The check itself failed, with {type(error).__name__}: {error}. Does a cell assign to"
            return Result(exercise.name, False, f"{told} a function of NumPy? Restart the kernel without it.")


def _examine(exercise: Exercise, function: Function, seed: int) -> Result:
    try:
        drawn, expected = _right(exercise, seed)
        cases = copy.deepcopy(drawn)  # for whoever changes its inputs
        pairs = zip(cases, expected, strict=True)
        given = [_run(exercise, function, case, wanted) for case, wanted in pairs]
    except _Told as told:
        return Result(exercise.name, False, str(told))
    narrow = any(a.dtype in (np.float32, np.float16) for answer in given for a in answer)
    tolerance = SINGLE if narrow else TOLERANCE
    if all_same(given, expected, tolerance):
        return Result(exercise.name, True, f"Right on {len(cases)} random inputs.")

    until = time.monotonic() + PATIENCE

    def call(inputs: Sequence[Any]) -> Answer:
        """The reader's function on other inputs, as long as there is time; a failure is not told."""
        if time.monotonic() > until:
            raise TimeoutError
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return _run(exercise, function, Case("", tuple(copy.deepcopy(inputs))), ())

    solved = partial(_quietly, exercise, compiled(exercise.solution))
    asked = Asked(exercise, drawn, given, expected, tolerance, call, solved)
    wrong = _explain(asked, _slips(exercise, seed))
    return Result(exercise.name, False, wrong + _in_place(exercise, drawn, cases))


def _in_place(exercise: Exercise, drawn: list[Case], cases: list[Case]) -> str:
    """Which argument a wrong function changes: that may be its error."""
    for one, other in zip(drawn, cases, strict=True):
        for name, before, after in zip(exercise.arguments, one.inputs, other.inputs, strict=True):
            if isinstance(before, np.ndarray) and not np.array_equal(before, after, equal_nan=True):
                return f" And it changes its argument {name} in place: is that meant?"
    return ""


@lru_cache(maxsize=8)
def _right(exercise: Exercise, seed: int) -> tuple[list[Case], Answers]:
    """The cases of several seeds and the right answers: the same for every function that is examined."""
    cases = [case for one in range(seed, seed + SEEDS) for case in exercise.cases(np.random.default_rng(one))]
    return cases, variant(exercise, exercise.answer, cases)


@lru_cache(maxsize=8)
def _slips(exercise: Exercise, seed: int) -> Slips:
    """The known slips, on the same cases."""
    cases = copy.deepcopy(_right(exercise, seed)[0])
    return [(slip.says, variant(exercise, compiled(slip.code), cases)) for slip in exercise.slips]


def variant(exercise: Exercise, function: Function, cases: list[Case]) -> Answers:
    """The answers to all cases of a function that this package wrote: the reference or a changed solution."""
    return [_quietly(exercise, function, case.inputs) for case in cases]


def _quietly(exercise: Exercise, function: Function, inputs: Sequence[Any]) -> Answer:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _plain(_called(exercise, function, inputs), exercise, inputs)


def _called(exercise: Exercise, function: Function, inputs: Sequence[Any]) -> Any:
    answer = _differentiated(function, inputs) if exercise.autograd else function(*inputs)
    return list(answer) if isinstance(answer, Iterator) else answer


def _run(exercise: Exercise, function: Function, case: Case, wanted: Answer) -> Answer:
    """The reader's answer. Where the right one is NaN an error will do: both say that there is none."""
    try:
        answer = _called(exercise, function, case.inputs)
    except NotImplementedError:
        raise _Told("There is still a gap: write the function's body.") from None
    except _Told:
        raise
    except (Exception, SystemExit) as error:
        if wanted and all(np.isnan(part).all() for part in wanted):
            return wanted
        raise _Told(_failure(exercise, case, error)) from error
    try:
        given = _plain(answer, exercise, case.inputs)
        return tuple(map(_unlike_a_matrix, given, wanted)) if wanted else given
    except _Told as told:
        raise _Told(f"{told} (On inputs {case.label}: {_shapes(exercise, case)}.)") from None


def _unlike_a_matrix(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """A `np.matrix` has two axes, whatever it stands for."""
    row = isinstance(got, np.matrix) and wanted.ndim < 2 and got.size == wanted.size == max(got.shape)
    return np.asarray(got).reshape(wanted.shape if row else got.shape)


def _failure(exercise: Exercise, case: Case, error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    readers = [frame for frame in frames if Path(frame.filename).parent != Path(__file__).parent]
    at = f" at `{readers[0].line}`" if readers and readers[0].line else ""
    if isinstance(error, TypeError) and not readers:
        told = f"Your function cannot be called as {exercise.signature}: {error}."
        return f"{told} Give it these arguments, in this order."
    inputs = f"inputs {case.label} ({_shapes(exercise, case)})"
    told = f"Your function raised {type(error).__name__}{at} on {inputs}: {str(error)[:300]}"
    of_shapes = any(word in str(error) for word in ("shape", "dimension", "broadcast", "size"))
    if of_shapes and isinstance(error, (ValueError, RuntimeError)):
        flat = all(np.ndim(x) < 2 for x in case.inputs if isinstance(x, np.ndarray))
        asked = "how many entries has each array" if flat else "is a transpose missing, or an axis wrong"
        return f"{told.rstrip('.')}. The shapes do not fit: {asked}?"
    return told


def _shapes(exercise: Exercise, case: Case) -> str:
    pairs = zip(exercise.arguments, case.inputs, strict=True)
    return ", ".join(f"{k} {x.shape}" if isinstance(x, np.ndarray) else f"{k} = {x}" for k, x in pairs)


def _plain(answer: Any, exercise: Exercise, inputs: Sequence[Any]) -> Answer:
    """The answer as arrays, one per part."""
    count, several = len(exercise.parts), isinstance(answer, (tuple, list))
    if count > 1 and not several:  # results of one shape may come as one array
        several = np.shape(answer) == (count, *np.shape(inputs[0]))
    values: Sequence[Any] = answer if several and count > 1 else (answer,)
    if any(value is None for value in values):
        raise _Told("Your function returned None: is there a return at its end?")
    arrays = isinstance(answer, tuple) and any(getattr(value, "ndim", 0) for value in answer)
    if len(values) != count or (arrays and count == 1):
        got = f"a {type(answer).__name__} of {len(answer)}" if several else f"one {type(answer).__name__}"
        wanted = f"{count}: {', '.join(exercise.parts)}{', as a tuple' if count > 1 else ''}"
        raise _Told(f"Your function returned {got}; expected {wanted}.")
    named = zip(values, exercise.parts, strict=True)
    return tuple(_array(value, name, whole=exercise.whole) for value, name in named)


def _array(value: Any, name: str, *, whole: bool) -> np.ndarray:
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ma.MaskedArray):
        value = np.ma.filled(value.astype(float), np.nan)
    try:
        out = np.asanyarray(value)
        if out.dtype == object and not whole:
            out = np.asarray(value, dtype=np.float64)  # Fractions, for instance
    except (TypeError, ValueError, OverflowError):
        besides = " Is it called, with ()?" if callable(value) else ""
        got = f"{type(value).__name__} for {name}; expected an array of numbers"
        raise _Told(f"Got {got}.{besides}") from None
    wanted, fits = ("whole numbers: indices", "iuf") if whole else ("float64 numbers", "iufb")
    if out.dtype.kind not in fits or (whole and not np.array_equal(out, np.round(out))):
        raise _Told(f"Got dtype {out.dtype} for {name}; expected {wanted}.")
    return out.astype(float) if out.dtype == bool else out


def _explain(asked: Asked, slips: Slips) -> str:
    exercise, given, expected, tolerance = asked.exercise, asked.given, asked.expected, asked.tolerance
    for says, wrong in slips:
        if all(alike(a, b, tolerance) for a, b in zip(given, wrong, strict=True)):
            return says
    if len(exercise.parts) == 2 and all_same([(b, a) for a, b in given], expected, tolerance):
        return f"The two results are swapped: return {exercise.parts[0]} first."
    rows = list(zip(asked.cases, given, expected, strict=True))
    for case, got, wanted in rows:
        for name, a, b in zip(exercise.parts, got, wanted, strict=True):
            if a.shape != b.shape:
                inputs = f"inputs {case.label} ({_shapes(exercise, case)})"
                return first_told((memory,), asked).rstrip() or _wrong_shape(a, b, name, inputs)
    if (times := factor(given, expected, tolerance)) is not None:
        told = f"Every number is {times:g} times what it should be: a constant factor is wrong."
        return _FACTORS.get(times, told)
    where = _where(exercise, rows, tolerance)
    if len(asked.parts) < len(exercise.parts) and (told := first_told((factor_by_size,), asked)):
        return told + where
    somewhere_right = any(same(a, b, tolerance) and any(map(np.any, b)) for a, b in asked.rows)
    for says, wrong in slips if not somewhere_right else ():  # else no factor is wrong
        if (times := factor(given, wrong, tolerance)) is not None:
            besides = _FACTORS.get(times, f"there is a constant factor of {times:g}.")
            return f"Two things at once. {says} Also: {besides}"
    if not_finite := _not_finite(asked):
        kept = [k for k, pair in enumerate(asked.rows) if all(map(_as_finite, *pair))]
        rest, some = _only(asked, slips, kept)
        return (
            f"{_explain(rest, some)} Also: {not_finite}"
            if rest.wrong and 2 * len(kept) > len(asked.cases)
            else not_finite
        )
    rest, some = _only(
        asked, slips, [k for k, of in enumerate(asked.cases) if not any(map(has_ties, of.inputs))]
    )
    for says, wrong in some if rest.wrong else ():
        if all_same(rest.given, wrong, tolerance):
            return f"Two things at once. {says} Also: something else is wrong with equal numbers."
    if told := first_told(WHOLE_PARTS, asked) or _near_miss(asked) or first_told(FINDERS, asked):
        return told + where
    return (first_told(PLACES, asked) or broken_property(asked)) + where


def _only(asked: Asked, slips: Slips, kept: list[int]) -> tuple[Asked, Slips]:
    """The same for some of the cases."""
    cases, rows = [asked.cases[k] for k in kept], [asked.rows[k] for k in kept]
    rest = replace(asked, cases=cases, given=[a for a, _ in rows], expected=[b for _, b in rows])
    return rest, [(says, [wrong[k] for k in kept]) for says, wrong in slips]


def _as_finite(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(np.isfinite(a), np.isfinite(b))


def _near_miss(asked: Asked) -> str:
    """The kind of change that makes the solution behave like this answer, or "" if one change does not."""
    for says, change in WHOLE:
        changed = [tuple(map(change, answer)) for answer in asked.expected]
        if all_same(asked.given, changed, asked.tolerance):
            return f"This is the right answer, {says}. "
    for says, code in near_misses(asked.exercise.solution):
        with contextlib.suppress(Exception):
            if asked.explained(lambda inputs: inputs, partial(_quietly, asked.exercise, compiled(code))):
                return f"It behaves as the right formula would {says}. "
    return ""


def _wrong_shape(a: np.ndarray, b: np.ndarray, name: str, inputs: str) -> str:
    told = f"Got shape {a.shape} for {name}; expected {b.shape} on {inputs}."
    if a.ndim == 0:
        return f"{told} That is one number; there is one for each of the {b.size} entries."
    if b.ndim == 0 and a.size == 1:
        return f"{told} It is a list of one number: return the number itself, as float(...) gives it."
    if b.ndim == 0:
        return f"{told} One number is asked for: which mean, sum or entry is missing at the end?"
    if a.ndim == b.ndim == 2 and near(a.T, b):
        return f"{told} It is transposed: the numbers are right."
    if a.size == b.size:
        return f"{told} As many numbers, in another arrangement: look at the order of axes."
    if a.ndim == b.ndim == 1:
        return f"{told} Which entries belong in it, and how many are they?"
    return f"{told} Look at which axis is summed over, and at keepdims."


def _not_finite(asked: Asked) -> str:
    """The first result that is NaN or infinite and should not be, and why, or the other way round."""
    for case, *answers in zip(asked.cases, asked.given, asked.expected, strict=True):
        for name, a, b in zip(asked.exercise.parts, *answers, strict=True):
            if bad := int((~np.isfinite(a) & np.isfinite(b)).sum()):
                got = "NaN" if np.isnan(a).any() else "infinity"
                told = f"Got {got} in {bad} of {a.size} places of {name} on inputs {case.label}"
                return f"{told}: look for {_CAUSES}."
            if (np.isnan(b) & ~np.isnan(a)).any():
                told = f"Got a number for {name} on inputs {case.label}"
                return f"{told}, where it is undefined: return NaN there."
    return ""


def _where(exercise: Exercise, rows: list[tuple[Case, Answer, Answer]], tolerance: float) -> str:
    wrong = {case.label for case, got, wanted in rows if not same(got, wanted, tolerance)}
    right = [label for label in dict.fromkeys(case.label for case, *_ in rows) if label not in wrong]
    # One case differs, else the function had passed.
    case, got, wanted = next(row for row in rows if not same(*row[1:], tolerance))
    triples = list(zip(exercise.parts, got, wanted, strict=True))
    fine = [name for name, a, b in triples if near(a, b, tolerance)]
    name, a, b = next(triple for triple in triples if triple[0] not in fine)
    off = np.where(close(a, b, tolerance), 0, np.nan_to_num(np.abs(a - b), nan=np.inf))
    place = np.unravel_index(int(np.argmax(off)), b.shape) if b.ndim else ()
    spot = f" at {[int(k) for k in place]}" if place else ""
    seen, wished = _told_apart(float(a[place]), float(b[place]))
    told = f"Got {seen}{spot} for {name} on inputs {case.label}"
    told += f"; expected {wished} (the largest difference)."
    if fine:
        told += f" Right is: {', '.join(fine)}."
    if right:
        told += f" It is right on inputs {'; '.join(right)}: what do the others have that these have not?"
    return f"{told} Hint: {exercise.hints[0]}"


def _told_apart(a: float, b: float) -> tuple[str, str]:
    """Two numbers with six digits, or as many more as tell them apart."""
    texts = [(f"{a:.{digits}g}", f"{b:.{digits}g}") for digits in range(6, 18)]
    return next((pair for pair in texts if pair[0] != pair[1]), texts[-1])


def _torch() -> Any:
    """torch, which is loaded here and nowhere else."""
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError:
        raise _Told("This check needs torch, which is not installed: pip install torch.") from None


def _differentiated(function: Function, inputs: Sequence[Any]) -> Answer:
    """The output of a function of tensors, and the gradients at its inputs of a fixed weighted sum of it."""
    torch = _torch()
    tensors = [torch.from_numpy(value.copy()).requires_grad_() for value in inputs]
    out = function(*(tensor.clone() for tensor in tensors))  # autograd refuses what changes a leaf
    if not isinstance(out, torch.Tensor):
        told = f"Your function returned {type(out).__name__}"
        raise _Told(f"{told}; expected a torch tensor that can be differentiated.")
    weights = torch.arange(1.0, out.numel() + 1, dtype=torch.float64).reshape(out.shape).cos()
    if not out.requires_grad:
        told = "Nothing is left to differentiate: all of the output is detached."
        raise _Told(f"{told} Only one factor is held constant, the other is not.")
    gradients = torch.autograd.grad((weights * out).sum(), tensors, allow_unused=True)
    zeros = [torch.zeros_like(t) if g is None else g for t, g in zip(tensors, gradients, strict=True)]
    return tuple(tensor.detach().numpy() for tensor in (out, *zeros))
