"""The errors of the package; checks of arguments, arrays and packages; values as records have them."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

LONGEST, SHORTEST = 499, 120
"""Longest message, and the shortest cut of each of its parts, in characters."""
FORM = "{}: got {}; expected {}. Next step: {}."


class CompanionError(Exception):
    """Base of every error the package raises on purpose.

    The message names the operation, what was received, what was expected, and the next step, in one line of
    fewer than 500 characters; what is longer loses its middle.

    >>> print(InputError("attribute", got="seed -1", expected="a number, at least 0", hint="try seed=0"))
    attribute: got seed -1; expected a number, at least 0. Next step: try seed=0.
    """

    def __init__(self, operation: str, *, got: str, expected: str, hint: str) -> None:
        got, expected, hint = map(_in_one_line, (got, expected, hint.rstrip(".")))
        got = _cut(got, max(SHORTEST, LONGEST - len(FORM.format(operation, "", expected, hint))))
        expected = _cut(expected, max(SHORTEST, LONGEST - len(FORM.format(operation, got, "", hint))))
        hint = _cut(hint, max(SHORTEST, LONGEST - len(FORM.format(operation, got, expected, ""))))
        self.operation, self.got, self.expected, self.hint = operation, got, expected, hint
        super().__init__(FORM.format(operation, got, expected, hint))

    def __str__(self) -> str:  # a subclass that is an OSError, too, would print its own arguments
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        parts = {"got": self.got, "expected": self.expected, "hint": self.hint}
        return partial(type(self), self.operation, **parts), ()


def reason_of(error: object, most: int) -> str:
    """What an error of somebody else says, on one line and cut; its type if it says nothing.

    >>> reason_of(ValueError("no  such file"), 100), reason_of(KeyError(), 100)
    ('no such file', 'KeyError')
    """
    return " ".join(str(error).split())[:most] or type(error).__name__


def _in_one_line(text: str) -> str:
    """The text without line ends; one that is far too long is cut before it is looked through."""
    return " ".join(_cut(text, 10 * LONGEST).splitlines())


def _cut(text: str, longest: int) -> str:
    """The text without its middle if it is too long: its subject stands first, its fault last."""
    if len(text) <= longest:
        return text
    first = (longest - 3) // 2
    return f"{text[:first]}...{text[len(text) - (longest - 3 - first) :]}"


class InputError(CompanionError, ValueError):
    """An argument that cannot be used: its value, shape, or combination with others."""


class SourceError(CompanionError, OSError):
    """Data or a model that cannot be reached or read."""


class ModelError(CompanionError, TypeError):
    """A model that the package cannot explain."""


def shown(value: object, longest: int = 80) -> str:
    """Return a value as a message shows it: in one line, cut if it is long.

    >>> shown("a film"), len(shown(10**5000))
    ("'a film'", 80)
    """
    try:
        text = repr(value)
    except Exception:  # an object of somebody else's; an integer of too many digits
        text = f"a {type(value).__name__} that cannot be printed in {longest} characters".ljust(longest)
    text = " ".join(text.split()) if "\n" in text else text
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def choose(operation: str, name: str, value: object, options: Sequence[str]) -> str:
    """Return `value` if it is one of `options`; else raise `InputError`."""
    if isinstance(value, str) and value in options:
        return value
    raise InputError(
        operation,
        got=f"{name} {shown(value)}",
        expected=f"one of {', '.join(options)}",
        hint=f"choose a {name} from this list",
    )


def whole(
    operation: str, name: str, value: object, *, least: int = 1, most: int | None = None, hint: str
) -> int:
    """Return `value` as an int if it is a whole number from `least` to `most`; else raise `InputError`.

    Here a boolean is not a number, and 2.0 is not a whole number.
    """
    if is_whole(value) and least <= value and (most is None or value <= most):
        return int(value)
    expected = f", at least {least}" if most is None else f" from {least} to {most}"
    raise InputError(operation, got=f"{name} {shown(value)}", expected=f"a whole number{expected}", hint=hint)


def is_whole(value: object) -> TypeGuard[int | np.integer]:
    """Whether `value` is an integer of Python or NumPy but not a boolean."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def check_epsilon(operation: str, epsilon: float) -> float:
    """Return the stabiliser of the rules as a float if it is finite and at least 0; else `InputError`."""
    if 0 <= epsilon < math.inf:
        return float(epsilon)
    hint = "try epsilon=0.0, the exact rule, or 1e-6"
    raise InputError(
        operation, got=f"epsilon {shown(epsilon)}", expected="a finite number, at least 0", hint=hint
    )


def check_layers(operation: str, layers: Iterable[int], count: int) -> frozenset[int]:
    """Return the layers as a set; raise `InputError` for any outside 1..count.

    Layers count from 1, as in the paper.
    """
    chosen = set[int]()
    for layer in layers:  # one by one: a range may be endless
        if not 1 <= (number := operator.index(layer)) <= count:
            expected, hint = f"integers from 1 to {count} (layers count from 1)", "name only layers it has"
            raise InputError(operation, got=f"layer {shown(layer)}", expected=expected, hint=hint)
        chosen.add(number)
    return frozenset(chosen)


SITES = ("word", "word+position", "embedding")
SITE_PARTS = {
    "word": ("word",),
    "word+position": ("word", "position"),
    "embedding": ("word", "position", "type"),
}
"""Where relevance is read, and the parts of the embedding sum that count there."""


def scores_at(parts: Mapping[str, np.ndarray], site: str) -> np.ndarray:
    """Return the sum of the parts that a site reads, without parts that the model does not have.

    >>> scores_at({"word": np.array([1.0]), "position": np.array([0.5])}, "word+position")
    array([1.5])
    """
    return np.sum([parts[name] for name in SITE_PARTS[site] if name in parts], axis=0)


def as_path(operation: str, name: str, given: str | os.PathLike[str]) -> Path:
    """Return a path with `~` expanded; it need not exist. An empty one would name the working directory."""
    if not os.fspath(given).strip():
        hint = "name a file or a folder"
        raise InputError(operation, got=f"an empty {name}", expected="a path", hint=hint)
    return Path(given).expanduser()


TIED = 1e-6
"""Below this fraction of the largest a difference of scores is rounding of float32: it ranks nothing."""


def real_array(operation: str, name: str, values: Any) -> np.ndarray:
    """Return real numbers of any shape as float64; no text, complex numbers, dates or masked entries."""
    return plain_array(operation, name, values).astype(np.float64)


def bool_array(operation: str, name: str, values: Any) -> np.ndarray:
    """Return booleans of any shape; numbers that are exactly 0 or 1 count as False and True."""
    given = plain_array(operation, name, values)
    if ((given == 0) | (given == 1)).all():
        return given.astype(bool)
    got, hint = f"{name} {shown(values)}", "compare first, such as scores > 0"
    raise InputError(operation, got=got, expected="True or False for each", hint=hint)


def plain_array(operation: str, name: str, values: Any) -> np.ndarray:
    """Return numbers or booleans as an array of the type that they have; `InputError` as `real_array`."""
    given = np.asarray(on_cpu(values))
    if given.dtype.kind == "O":  # fractions; NumPy refuses what is no number
        given = given.astype(np.float64)
    if given.dtype.kind in "biuf" and not np.ma.is_masked(values):
        return given
    got, hint = f"{name} {shown(values)}", "pass a list or an array of numbers, none of them masked"
    raise InputError(operation, got=got, expected="real numbers", hint=hint)


PLAIN = frozenset((str, int, float, bool, type(None)))


def as_tuples(value: Any) -> Any:
    """A choice or detail as a record has it: arrays and lists as tuples, numbers as Python's own."""
    if isinstance(value, Mapping):
        return {str(key): one if type(one) in PLAIN else as_tuples(one) for key, one in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return as_tuples(value.tolist())
    return tuple(map(as_tuples, value)) if isinstance(value, (list, tuple, set, frozenset)) else value


def ranking(values: np.ndarray, *, tied: float = TIED, sizes: np.ndarray | None = None) -> np.ndarray:
    """Indices from the largest value to the smallest; values that only rounding tells apart, closer than
    `tied` of the largest size, stay in their order. With `sizes` each pair is held to the larger of its own.
    """
    order = np.argsort(-values, kind="stable")
    sizes = np.full(len(values), np.abs(values).max(initial=0.0)) if sizes is None else sizes
    steps = -np.diff(values[order]) > tied * np.maximum(sizes[order[:-1]], sizes[order[1:]])
    level = np.zeros(len(values), dtype=np.intp)
    level[order[1:]] = np.cumsum(steps)
    return np.argsort(level, kind="stable")


def on_cpu(values: Any) -> Any:
    """A tensor where NumPy can read it, without its gradient; anything else as it is."""
    if not callable(getattr(values, "detach", None)):
        return values
    tensor = values.detach().cpu()
    return tensor.double() if tensor.is_floating_point() else tensor


EXTRAS = {
    **dict.fromkeys(("docutils", "jupyter_book", "nbformat", "papermill", "sphinx"), "book"),
    **dict.fromkeys(("datasets", "mlxtend", "pyarrow"), "data"),
    **dict.fromkeys(("accelerate", "matplotlib", "PIL", "pooch", "scipy", "xarray"), "lab"),
    **dict.fromkeys(("anywidget", "ipywidgets", "rjsmin", "traitlets"), "widgets"),
    "captum": "ig",
    "gguf": "gguf",
    "wasmtime": "page",
}
"""Importable names and the extra of `pyproject.toml` that installs each."""


@contextmanager
def extra(operation: str) -> Iterator[None]:
    """Turn a missing optional package into a one-line error that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        name = EXTRAS[package]
        hint = f'install it: pip install "lrp-companion[{name}]"'
        raise SourceError(
            operation, got=f"no package {package}", expected=f"the extra [{name}]", hint=hint
        ) from None
