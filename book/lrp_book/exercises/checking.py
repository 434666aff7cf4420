"""Compares a reader's function with a reference and with known slips, and gives feedback."""

from __future__ import annotations

import contextlib
import html
import importlib
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrp_book.exercises.near_misses import near_misses, whole_changes

THEMES = ("products and grouping", "rules and conservation", "softmax and attention", "measuring agreement")
SEED = 0
TOLERANCE = 1e-9  # relative to the largest entry: sums in another order differ by 1e-15 or so
SINGLE = 2e-5  # the same for results in single precision
_FACTORS = {
    2.0: "Every number is twice what it should be: is a half missing?",
    0.5: "Every number is half of what it should be: one half too many.",
    4.0: "Every number is four times what it should be: are two halves missing?",
    0.25: "Every number is a quarter of what it should be: halved twice too often.",
    -1.0: "Every number has the other sign: a minus was dropped, or a difference reversed.",
}

Function = Callable[..., Any]
Answers = list[tuple[np.ndarray, ...]]
Given = Answers | str
"""Answers to all cases, or why there are none."""


@dataclass(frozen=True)
class Case:
    """One set of inputs. `label` finishes the sentence "on inputs ..."."""

    label: str
    inputs: tuple[Any, ...]


@dataclass(frozen=True)
class Slip:
    """A known wrong variant of an answer, and the feedback for a function that behaves like it."""

    function: Function
    says: str


@dataclass(frozen=True)
class Exercise:
    """One exercise in code.

    Attributes
    ----------
    name, title, theme : its name, title and theme.
    signature : the function to write, as text.
    task : what the function returns, with shapes.
    arguments : their names, in order.
    parts : names of what is returned, in order.
    answer : the reference, slow and plain.
    cases : makes the inputs from a random generator.
    slips : known wrong variants, the likelier first.
    hints : a question, a pointer, and the line of the solution that matters.
    whole : the answer consists of whole numbers, such as indices.
    autograd : the function is differentiated, so it gets torch tensors.
    """

    name: str
    title: str
    theme: str
    signature: str
    task: str
    answer: Function
    cases: Callable[[np.random.Generator], list[Case]]
    slips: tuple[Slip, ...]
    hints: tuple[str, ...]
    parts: tuple[str, ...] = ("the answer",)
    whole: bool = False
    autograd: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the arguments, read from the signature."""
        inside = self.signature.partition("(")[2].rpartition(")")[0]
        return tuple(name.strip() for name in inside.split(","))

    def __repr__(self) -> str:
        return f"{self.name} ({self.theme}): {self.title}\n    {self.signature}\n    {self.task}"


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


@dataclass(frozen=True)
class Catalogue(Sequence[Exercise]):
    """Exercises in the order of the book."""

    exercises: tuple[Exercise, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(exercise.name for exercise in self)

    def __getitem__(self, place: Any) -> Any:
        return self.exercises[place]

    def __len__(self) -> int:
        return len(self.exercises)

    def __iter__(self) -> Iterator[Exercise]:
        return iter(self.exercises)

    def __repr__(self) -> str:
        return "\n".join(map(repr, self))

    def _repr_html_(self) -> str:
        left = 'style="text-align: left"'
        titles = ("name", "theme", "function", "task")
        head = "".join(f'<th scope="col" {left}>{title}</th>' for title in titles)
        rows = "".join(_html_row(exercise, left) for exercise in self)
        caption = "<caption>Exercises in code</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _html_row(exercise: Exercise, style: str) -> str:
    name, theme, signature, task = map(
        html.escape, (exercise.name, exercise.theme, exercise.signature, exercise.task)
    )
    cells = "".join(f"<td {style}>{cell}</td>" for cell in (theme, f"<code>{signature}</code>", task))
    return f'<tr><th scope="row" {style}>{name}</th>{cells}</tr>'


class _Told(Exception):
    """An answer that cannot be compared; its text says why."""


def examine(exercise: Exercise, function: Function, *, torch: bool = False) -> Result:
    """Run a function on all cases and say what is likely wrong with it."""
    cases = exercise.cases(np.random.default_rng(SEED))
    return judged(exercise, cases, answered(exercise, function, cases, torch=torch))


def answered(exercise: Exercise, function: Function, cases: list[Case], *, torch: bool = False) -> Given:
    """A function's answers to the cases, or a text that says why one cannot be compared."""
    try:
        return [_run(exercise, function, case, torch=torch) for case in cases]
    except _Told as told:
        return str(told)


def judged(exercise: Exercise, cases: list[Case], given: Given) -> Result:
    """The verdict on the answers to the cases; no code but this package's is run."""
    if isinstance(given, str):
        return Result(exercise.name, False, given)
    expected = [_plain(_called(exercise, exercise.answer, case.inputs), exercise) for case in cases]
    if all(_same(g, e) for g, e in zip(given, expected, strict=True)):
        return Result(exercise.name, True, f"Right on {len(cases)} random inputs.")
    return Result(exercise.name, False, _explain(exercise, cases, given, expected))


def variant(exercise: Exercise, function: Function, cases: list[Case] | None = None) -> Answers:
    """The answers to all cases of a function that this package wrote: the reference or a slip."""
    cases = exercise.cases(np.random.default_rng(SEED)) if cases is None else cases
    with np.errstate(all="ignore"):
        return [_plain(_called(exercise, function, case.inputs), exercise) for case in cases]


def _called(exercise: Exercise, function: Function, inputs: Sequence[Any]) -> Any:
    return _differentiated(function, inputs) if exercise.autograd else function(*inputs)


def _run(exercise: Exercise, function: Function, case: Case, *, torch: bool) -> tuple[np.ndarray, ...]:
    inputs = tuple(value.copy() if isinstance(value, np.ndarray) else value for value in case.inputs)
    try:
        with np.errstate(all="ignore"):
            wants_tensors = torch and not exercise.autograd  # which makes its tensors itself
            given = tuple(map(_tensor, inputs)) if wants_tensors else inputs
            answer = _called(exercise, function, given)
    except NotImplementedError:
        raise _Told("There is still a gap: write the function's body.") from None
    except _Told:
        raise
    except Exception as error:
        raise _Told(_failure(exercise, case, error)) from error
    for name, before, after in zip(exercise.arguments, case.inputs, inputs, strict=True):
        if isinstance(before, np.ndarray) and not np.array_equal(before, after, equal_nan=True):
            told = f"Your function changes its argument {name} in place: "
            raise _Told(f"{told}work on a copy, for example with {name} = {name}.copy().")
    try:
        return _plain(answer, exercise)
    except _Told as told:
        raise _Told(f"{told} (On inputs {case.label}: {_shapes(exercise, case)}.)") from None


def _failure(exercise: Exercise, case: Case, error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    readers = [frame for frame in frames if "lrp_companion" not in frame.filename]
    at = f" at `{readers[0].line}`" if readers and readers[0].line else ""
    if isinstance(error, TypeError) and not readers:
        told = f"Your function cannot be called as {exercise.signature}: {error}."
        return f"{told} Give it these arguments, in this order."
    inputs = f"inputs {case.label} ({_shapes(exercise, case)})"
    told = f"Your function raised {type(error).__name__}{at} on {inputs}: {error}"
    of_shapes = any(word in str(error) for word in ("shape", "dimension", "broadcast", "size"))
    if of_shapes and isinstance(error, (ValueError, RuntimeError)):
        return f"{told.rstrip('.')}. The shapes do not fit: is a transpose missing, or an axis wrong?"
    return told


def _shapes(exercise: Exercise, case: Case) -> str:
    pairs = zip(exercise.arguments, case.inputs, strict=True)
    return ", ".join(
        f"{name} {value.shape}" if isinstance(value, np.ndarray) else f"{name} = {value}"
        for name, value in pairs
    )


def _plain(answer: Any, exercise: Exercise) -> tuple[np.ndarray, ...]:
    """The answer as arrays, one per part."""
    if answer is None:
        raise _Told("Your function returned None: is there a return at its end?")
    count, several = len(exercise.parts), isinstance(answer, (tuple, list))
    values: Sequence[Any] = (answer,) if count == 1 else answer if several else ()
    if len(values) != count:
        got = f"{len(answer)} things" if several else f"one {type(answer).__name__}"
        wanted = f"{count}: {', '.join(exercise.parts)}, as a tuple"
        raise _Told(f"Your function returned {got}; expected {wanted}.")
    named = zip(values, exercise.parts, strict=True)
    return tuple(_array(value, name, whole=exercise.whole) for value, name in named)


def _array(value: Any, name: str, *, whole: bool) -> np.ndarray:
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    try:
        out = np.asarray(value)
        if out.dtype == object and not whole:
            out = np.asarray(value, dtype=np.float64)  # Fractions, for instance
    except (TypeError, ValueError):
        got = f"{type(value).__name__} {str(value)[:60]!r}"
        raise _Told(f"Got {got} for {name}; expected an array of numbers.") from None
    if out.dtype == bool or out.dtype.kind not in "iuf":
        wanted = "whole numbers" if whole else "float64 numbers"
        raise _Told(f"Got dtype {out.dtype} for {name}; expected {wanted}.")
    if whole and out.dtype.kind == "f":
        raise _Told(f"Got dtype {out.dtype} for {name}; expected whole numbers: indices, not scores.")
    return out


def _near(got: np.ndarray, wanted: np.ndarray, tolerance: float = TOLERANCE) -> bool:
    if got.shape != wanted.shape or not np.array_equal(np.isnan(got), np.isnan(wanted)):
        return False
    finite = wanted[np.isfinite(wanted)]
    scale = max(1e-3, float(np.abs(finite).max())) if finite.size else 1.0
    return bool(np.allclose(got, wanted, rtol=0, atol=tolerance * scale, equal_nan=True))


def _same(got: Sequence[np.ndarray], wanted: Sequence[np.ndarray], tolerance: float = TOLERANCE) -> bool:
    return all(_near(a, b, tolerance) for a, b in zip(got, wanted, strict=True))


def _all_same(got: Answers, wanted: Answers, tolerance: float = TOLERANCE) -> bool:
    return all(_same(a, b, tolerance) for a, b in zip(got, wanted, strict=True))


def _explain(exercise: Exercise, cases: list[Case], given: Answers, expected: Answers) -> str:
    dtypes = [array.dtype for answer in given for array in answer]
    narrow = [dtype for dtype in dtypes if dtype in (np.float32, np.float16)]
    tolerance = SINGLE if narrow else TOLERANCE
    if narrow and _all_same(given, expected, tolerance):
        told = f"The formula is right, but the result is {narrow[0]}"
        return f"{told}: the inputs are float64, keep that precision."
    ours = [variant(exercise, slip.function, cases) for slip in exercise.slips]
    for slip, wrong in zip(exercise.slips, ours, strict=True):
        if _all_same(given, wrong, tolerance):
            return slip.says
    if len(exercise.parts) == 2 and _all_same([(b, a) for a, b in given], expected, tolerance):
        return f"The two results are swapped: return {exercise.parts[0]} first."
    told = _wrong_shape(exercise, cases, given, expected) or _wrong_nan(exercise, cases, given, expected)
    if told:
        return told
    if (factor := _factor(given, expected, tolerance)) is not None:
        told = f"Every number is {factor:g} times what it should be: a constant factor is wrong."
        return _FACTORS.get(factor, told)
    for slip, wrong in zip(exercise.slips, ours, strict=True):
        factor = _factor(given, wrong, tolerance)
        if factor is not None:
            besides = _FACTORS.get(factor, f"there is a constant factor of {factor:g}.")
            return f"Two things at once. {slip.says} Also: {besides}"
    place = _where(exercise, cases, given, expected, tolerance)
    near = _near_miss(exercise, cases, given, expected, tolerance)
    return f"{near} {place}" if near else place


def _near_miss(
    exercise: Exercise, cases: list[Case], given: Answers, expected: Answers, tolerance: float
) -> str:
    """The kind of change that makes the solution behave like this answer, or "" if one change does not."""
    for says, change in whole_changes():
        changed = [tuple(map(change, answer)) for answer in expected]
        if _all_same(given, changed, tolerance) and not _all_same(changed, expected, tolerance):
            return f"This is the right answer, {says}."
    for says, function in near_misses(exercise.name):
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            changed = variant(exercise, function, cases)
            if _all_same(given, changed, tolerance):
                return f"It behaves as the right formula would {says}."
    return ""


def _wrong_shape(exercise: Exercise, cases: list[Case], given: Answers, expected: Answers) -> str:
    for case, got, wanted in zip(cases, given, expected, strict=True):
        for name, a, b in zip(exercise.parts, got, wanted, strict=True):
            if a.shape == b.shape:
                continue
            inputs = f"inputs {case.label} ({_shapes(exercise, case)})"
            told = f"Got shape {a.shape} for {name}; expected {b.shape} on {inputs}."
            if a.ndim == 0:
                return f"{told} That is one number; there is one for each of the {b.size} entries."
            if b.ndim == 0 and a.size == 1:
                return f"{told} It is a list of one number: return the number itself, as float(...) gives it."
            if a.ndim == b.ndim == 2 and _near(a.T, b):
                return f"{told} It is transposed: the numbers are right."
            if a.size == b.size:
                return f"{told} As many numbers, in another arrangement: look at the order of axes."
            return f"{told} Look at which axis is summed over, and at keepdims."
    return ""


def _wrong_nan(exercise: Exercise, cases: list[Case], given: Answers, expected: Answers) -> str:
    for case, got, wanted in zip(cases, given, expected, strict=True):
        for name, a, b in zip(exercise.parts, got, wanted, strict=True):
            bad = ~np.isfinite(a) & np.isfinite(b)
            if bad.any():
                value = "NaN" if np.isnan(a).any() else "infinity"
                places = f"{int(bad.sum())} of {a.size} places of {name}"
                return (
                    f"Got {value} in {places} on inputs {case.label}: "
                    "look for a division by zero or an exponential that overflows."
                )
            if (np.isnan(b) & ~np.isnan(a)).any():
                told = f"Got a number for {name} on inputs {case.label}"
                return f"{told}, where it is undefined: return NaN there."
    return ""


def _factor(got: Answers, wanted: Answers, tolerance: float) -> float | None:
    """The number c with got = c * wanted in all cases, if there is one besides 0 and 1."""
    pairs = [
        (a.ravel(), b.ravel())
        for x, y in zip(got, wanted, strict=True)
        for a, b in zip(x, y, strict=True)
        if a.shape == b.shape
    ]
    if not pairs:
        return None
    a, b = (np.concatenate(side) for side in zip(*pairs, strict=True))
    if not a.size or not np.isfinite(a).all() or not np.isfinite(b).all() or not (b @ b > 0):
        return None
    factor = float(a @ b / (b @ b))
    scaled = [tuple(factor * array for array in answer) for answer in wanted]
    if abs(factor) < 1e-6 or abs(factor - 1) < 1e-6 or not _all_same(got, scaled, tolerance):
        return None
    return float(f"{factor:.6g}")


def _where(exercise: Exercise, cases: list[Case], given: Answers, expected: Answers, tolerance: float) -> str:
    answers = list(zip(cases, given, expected, strict=True))
    right = [case.label for case, got, wanted in answers if _same(got, wanted, tolerance)]
    # One case differs, else the function had passed.
    case, got, wanted = next(answer for answer in answers if not _same(*answer[1:], tolerance))
    triples = zip(exercise.parts, got, wanted, strict=True)
    wrong = [(name, a, b) for name, a, b in triples if not _near(a, b, tolerance)]
    name, a, b = wrong[0]
    place = np.unravel_index(int(np.argmax(np.abs(np.nan_to_num(a - b)))), b.shape) if b.ndim else ()
    spot = f" at {[int(k) for k in place]}" if place else ""
    told = f"Got {float(a[place]):.6g}{spot} for {name} on inputs {case.label}"
    told += f"; expected {float(b[place]):.6g} (the largest difference)."
    fine = [part for part in exercise.parts if part not in [name for name, _, _ in wrong]]
    if fine:
        told += f" Right is: {', '.join(fine)}."
    if right:
        told += f" It is right on inputs {'; '.join(right)}: what do the others have that these have not?"
    return f"{told} Hint: {exercise.hints[0]}"


def _tensor(value: Any) -> Any:
    """A torch tensor of an array; torch is loaded here and nowhere else."""
    is_array = isinstance(value, np.ndarray)
    return importlib.import_module("torch").from_numpy(value.copy()) if is_array else value


def _differentiated(function: Function, inputs: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """The output of a function of tensors, and the gradients at its inputs of a fixed weighted sum of it."""
    torch = importlib.import_module("torch")
    tensors = [_tensor(value).requires_grad_() for value in inputs]
    out = function(*tensors)
    if not isinstance(out, torch.Tensor):
        told = f"Your function returned {type(out).__name__}"
        raise _Told(f"{told}; expected a torch tensor that can be differentiated.")
    weights = torch.arange(1.0, out.numel() + 1, dtype=torch.float64).reshape(out.shape).cos()
    if not out.requires_grad:
        raise _Told(
            "Nothing is left to differentiate: all of the output is detached. "
            "Only one factor is held constant, the other is not."
        )
    gradients = torch.autograd.grad((weights * out).sum(), tensors, allow_unused=True)
    zeros = [torch.zeros_like(t) if g is None else g for t, g in zip(tensors, gradients, strict=True)]
    return tuple(tensor.detach().numpy() for tensor in (out, *zeros))
