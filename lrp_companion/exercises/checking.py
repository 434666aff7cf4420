"""How a reader's function is compared with a reference and with known slips, and what is said about it."""

from __future__ import annotations

import html
import importlib
import itertools
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

THEMES = ("products and grouping", "rules and conservation", "softmax and attention", "measuring agreement")
SEED = 0
TOLERANCE = 1e-9  # relative to the largest entry: sums in another order differ by 1e-15 or so
SINGLE = 2e-5  # the same for results in single precision
_FACTORS = {
    2.0: "Every number is twice what it should be: is a half missing?",
    0.5: "Every number is half of what it should be: one half too many.",
    4.0: "Every number is four times what it should be: are two halves missing?",
    0.25: "Every number is a quarter of what it should be: halved twice too often.",
    -1.0: "Every number has the other sign: a minus was dropped, or a difference turned round.",
}

Function = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """One set of inputs. `label` finishes the sentence "on inputs ..."."""

    label: str
    inputs: tuple[Any, ...]


@dataclass(frozen=True)
class Slip:
    """A known wrong variant of an answer, and what to say to somebody whose function behaves like it."""

    function: Function
    says: str


@dataclass(frozen=True)
class Exercise:
    """One exercise in code.

    Attributes
    ----------
    name, title, theme : what it is called and where it belongs.
    signature : the function to write, as text.
    task : what the function returns, with shapes.
    arguments : their names, in order.
    parts : names of what is returned, in order.
    answer : the reference, slow and plain.
    cases : makes the inputs from a random generator.
    slips : known wrong variants, the likelier first.
    hints : from gentle to telling.
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
    """What `check` found. It counts as true if the function passes."""

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

    found: tuple[Exercise, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(one.name for one in self.found)

    def __getitem__(self, place: Any) -> Any:
        return self.found[place]

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[Exercise]:
        return iter(self.found)

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.found))

    def _repr_html_(self) -> str:
        head = "".join(
            f'<th scope="col" style="text-align: left">{name}</th>'
            for name in ("name", "theme", "function", "task")
        )
        rows = "".join(
            f'<tr><th scope="row" style="text-align: left">{html.escape(one.name)}</th>'
            + "".join(f'<td style="text-align: left">{cell}</td>' for cell in _cells(one))
            + "</tr>"
            for one in self.found
        )
        return f"<table><caption>Exercises in code</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cells(one: Exercise) -> tuple[str, str, str]:
    return html.escape(one.theme), f"<code>{html.escape(one.signature)}</code>", html.escape(one.task)


class _Told(Exception):
    """An answer that cannot be compared; its text says why."""


def examine(exercise: Exercise, function: Function, *, torch: bool = False) -> Result:
    """Run a function on all cases and say what is likely wrong with it."""
    cases = exercise.cases(np.random.default_rng(SEED))
    expected = [_plain(_reference(exercise, case), exercise) for case in cases]
    try:
        given = [_run(exercise, function, case, torch=torch) for case in cases]
    except _Told as told:
        return Result(exercise.name, False, str(told))
    if all(_same(g, e) for g, e in zip(given, expected, strict=True)):
        return Result(exercise.name, True, f"Right on {len(cases)} random inputs.")
    return Result(exercise.name, False, _explain(exercise, cases, given, expected))


def variant(exercise: Exercise, function: Function) -> list[tuple[np.ndarray, ...]]:
    """The answers of one of our own functions to all cases: the reference's or a slip's."""
    with np.errstate(all="ignore"):
        return [
            _plain(
                _differentiated(function, case.inputs) if exercise.autograd else function(*case.inputs),
                exercise,
            )
            for case in exercise.cases(np.random.default_rng(SEED))
        ]


def _reference(exercise: Exercise, case: Case) -> Any:
    return (
        _differentiated(exercise.answer, case.inputs) if exercise.autograd else exercise.answer(*case.inputs)
    )


def _run(exercise: Exercise, function: Function, case: Case, *, torch: bool) -> tuple[np.ndarray, ...]:
    inputs = tuple(value.copy() if isinstance(value, np.ndarray) else value for value in case.inputs)
    try:
        with np.errstate(all="ignore"):
            if exercise.autograd:
                answer = _differentiated(function, inputs)
            else:
                answer = function(*(_tensor(value) for value in inputs) if torch else inputs)
    except NotImplementedError:
        raise _Told("There is still a gap: write the function's body.") from None
    except _Told:
        raise
    except Exception as error:
        raise _Told(_failure(exercise, case, error)) from error
    for name, before, after in zip(exercise.arguments, case.inputs, inputs, strict=True):
        if isinstance(before, np.ndarray) and not np.array_equal(before, after, equal_nan=True):
            raise _Told(
                f"Your function changes its argument {name} in place: work on a copy, for example with {name} = {name}.copy()."
            )
    try:
        return _plain(answer, exercise)
    except _Told as told:
        raise _Told(f"{told} (On inputs {case.label}: {_shapes(exercise, case)}.)") from None


def _failure(exercise: Exercise, case: Case, error: Exception) -> str:
    own = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "lrp_companion" not in frame.filename
    ]
    at = f" at `{own[0].line}`" if own and own[0].line else ""
    if isinstance(error, TypeError) and not own:
        return f"Your function cannot be called as {exercise.signature}: {error}. Give it these arguments, in this order."
    told = f"Your function raised {type(error).__name__}{at} on inputs {case.label} ({_shapes(exercise, case)}): {error}"
    if isinstance(error, (ValueError, RuntimeError)) and any(
        word in str(error) for word in ("shape", "dimension", "broadcast", "size")
    ):
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
    count = len(exercise.parts)
    if count == 1:
        parts: Sequence[Any] = (answer,)
    elif isinstance(answer, (tuple, list)):
        parts = answer
    else:
        parts = ()
    if len(parts) != count:
        got = f"{len(answer)} things" if isinstance(answer, (tuple, list)) else f"one {type(answer).__name__}"
        raise _Told(
            f"Your function returned {got}; expected {count}: {', '.join(exercise.parts)}, as a tuple."
        )
    return tuple(
        _array(part, name, whole=exercise.whole) for part, name in zip(parts, exercise.parts, strict=True)
    )


def _array(part: Any, name: str, *, whole: bool) -> np.ndarray:
    if hasattr(part, "detach"):
        part = part.detach().cpu().numpy()
    try:
        out = np.asarray(part)
        if out.dtype == object and not whole:
            out = np.asarray(part, dtype=np.float64)  # Fractions, for instance
    except (TypeError, ValueError):
        raise _Told(
            f"Got {type(part).__name__} {str(part)[:60]!r} for {name}; expected an array of numbers."
        ) from None
    if out.dtype == bool or out.dtype.kind not in "iuf":
        raise _Told(
            f"Got dtype {out.dtype} for {name}; expected {'whole numbers' if whole else 'float64 numbers'}."
        )
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


Answers = list[tuple[np.ndarray, ...]]


def _all_same(got: Answers, wanted: Answers, tolerance: float = TOLERANCE) -> bool:
    return all(_same(a, b, tolerance) for a, b in zip(got, wanted, strict=True))


def _explain(exercise: Exercise, cases: list[Case], given: Answers, expected: Answers) -> str:
    single = any(part.dtype == np.float32 or part.dtype == np.float16 for answer in given for part in answer)
    tolerance = SINGLE if single else TOLERANCE
    if single and _all_same(given, expected, tolerance):
        kind = next(
            part.dtype
            for answer in given
            for part in answer
            if part.dtype.kind == "f" and part.dtype != np.float64
        )
        return f"The formula is right, but the result is {kind}: the inputs are float64, keep that precision."
    ours = [variant(exercise, slip.function) for slip in exercise.slips]
    for slip, wrong in zip(exercise.slips, ours, strict=True):
        if _all_same(given, wrong, tolerance):
            return slip.says
    if (told := _about_shape(exercise, cases, given, expected)) or (
        told := _about_nan(exercise, cases, given, expected)
    ):
        return told
    if (factor := _factor(given, expected, tolerance)) is not None:
        return _FACTORS.get(
            factor, f"Every number is {factor:g} times what it should be: a constant factor is wrong."
        )
    if len(exercise.parts) == 2 and _all_same([(b, a) for a, b in given], expected, tolerance):
        return f"The two results are swapped: return {exercise.parts[0]} first."
    for slip, wrong in zip(exercise.slips, ours, strict=True):
        factor = _factor(given, wrong, tolerance)
        if factor is not None:
            return f"Two things at once. {slip.says} And besides: {_FACTORS.get(factor, f'there is a constant factor of {factor:g}.')}"
    return _where(exercise, cases, given, expected, tolerance)


def _about_shape(exercise: Exercise, cases: list[Case], given: Answers, expected: Answers) -> str:
    for case, got, wanted in zip(cases, given, expected, strict=True):
        for name, a, b in zip(exercise.parts, got, wanted, strict=True):
            if a.shape == b.shape:
                continue
            told = f"Got shape {a.shape} for {name}; expected {b.shape} on inputs {case.label} ({_shapes(exercise, case)})."
            if a.ndim == b.ndim == 2 and _near(a.T, b):
                return f"{told} It is transposed: the numbers are right."
            if a.size == b.size:
                return f"{told} As many numbers, in another arrangement: look at the order of axes."
            return f"{told} Look at which axis is summed over, and at keepdims."
    return ""


def _about_nan(exercise: Exercise, cases: list[Case], given: Answers, expected: Answers) -> str:
    for case, got, wanted in zip(cases, given, expected, strict=True):
        for name, a, b in zip(exercise.parts, got, wanted, strict=True):
            bad = ~np.isfinite(a) & np.isfinite(b)
            if bad.any():
                found = "NaN" if np.isnan(a).any() else "infinity"
                return (
                    f"Got {found} in {int(bad.sum())} of {a.size} places of {name} on inputs {case.label}: "
                    "look for a division by zero or an exponential that overflows."
                )
            if (np.isnan(b) & ~np.isnan(a)).any():
                return f"Got a number for {name} on inputs {case.label}, where it is undefined: return NaN there."
    return ""


def _factor(got: Answers, wanted: Answers, tolerance: float) -> float | None:
    """The number c with got = c * wanted in all cases, if there is one besides 0 and 1."""
    pairs = [
        (a.ravel(), b.ravel())
        for x, y in zip(got, wanted, strict=True)
        for a, b in zip(x, y, strict=True)
        if a.shape == b.shape
    ]
    a, b = (
        (np.concatenate(side) if side else np.zeros(0) for side in zip(*pairs, strict=True))
        if pairs
        else (np.zeros(0), np.zeros(0))
    )
    if not a.size or not np.isfinite(a).all() or not np.isfinite(b).all() or not (b @ b > 0):
        return None
    factor = float(a @ b / (b @ b))
    scaled = [tuple(factor * part for part in answer) for answer in wanted]
    if abs(factor) < 1e-6 or abs(factor - 1) < 1e-6 or not _all_same(got, scaled, tolerance):
        return None
    return float(f"{factor:.6g}")


def _where(exercise: Exercise, cases: list[Case], given: Answers, expected: Answers, tolerance: float) -> str:
    right = [
        case.label
        for case, got, wanted in zip(cases, given, expected, strict=True)
        if _same(got, wanted, tolerance)
    ]
    case, got, wanted = next(
        (c, g, w) for c, g, w in zip(cases, given, expected, strict=True) if not _same(g, w, tolerance)
    )  # one differs, else the function had passed
    parts = [
        name for name, a, b in zip(exercise.parts, got, wanted, strict=True) if not _near(a, b, tolerance)
    ]
    name, a, b = next((n, a, b) for n, a, b in zip(exercise.parts, got, wanted, strict=True) if n == parts[0])
    place = np.unravel_index(int(np.argmax(np.abs(np.nan_to_num(a - b)))), b.shape) if b.ndim else ()
    spot = f" at {[int(k) for k in place]}" if place else ""
    told = f"Got {float(a[place]):.6g}{spot} for {name} on inputs {case.label}; expected {float(b[place]):.6g} (the largest difference)."
    if len(parts) < len(exercise.parts):
        fine = ", ".join(part for part in exercise.parts if part not in parts)
        told += f" Right is: {fine}."
    if right:
        told += f" It is right on inputs {'; '.join(right)}: what do the others have that these have not?"
    return f"{told} Hint: {exercise.hints[0]}"


def _tensor(value: Any) -> Any:
    """A torch tensor of an array; torch is loaded here and nowhere else."""
    return (
        importlib.import_module("torch").from_numpy(value.copy()) if isinstance(value, np.ndarray) else value
    )


def _differentiated(function: Function, inputs: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """The output of a function of tensors and the gradients of its sum, weighted by fixed numbers, for every
    input.
    """
    torch = importlib.import_module("torch")
    tensors = [_tensor(value).requires_grad_() for value in inputs]
    out = function(*tensors)
    if not isinstance(out, torch.Tensor):
        raise _Told(
            f"Your function returned {type(out).__name__}; expected a torch tensor that can be differentiated."
        )
    weights = torch.arange(1.0, out.numel() + 1, dtype=torch.float64).reshape(out.shape).cos()
    if not out.requires_grad:
        raise _Told(
            "Nothing is left to differentiate: all of the output is detached. Only one factor is held constant, the other is not."
        )
    gradients = torch.autograd.grad((weights * out).sum(), tensors, allow_unused=True)
    zeros = [torch.zeros_like(t) if g is None else g for t, g in zip(tensors, gradients, strict=True)]
    return tuple(part.detach().numpy() for part in itertools.chain([out], zeros))
