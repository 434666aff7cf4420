"""The errors of the package, and checks of arguments that raise them. No other module is imported."""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Sequence
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
    """Return `value` if it is one of `options`; else raise `InputError`.

    >>> choose("attribute", "site", "word", ("word", "embedding"))
    'word'
    """
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

    >>> whole("attribute", "n_steps", 50, hint="try n_steps=50")
    50
    """
    if is_whole(value) and least <= value and (most is None or value <= most):
        return int(value)
    expected = f", at least {least}" if most is None else f" from {least} to {most}"
    raise InputError(operation, got=f"{name} {shown(value)}", expected=f"a whole number{expected}", hint=hint)


def is_whole(value: object) -> TypeGuard[int | np.integer]:
    """Whether `value` is an integer of Python or NumPy but not a boolean.

    >>> is_whole(np.int64(3)), is_whole(3.0), is_whole(True)
    (True, False, False)
    """
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def is_name(value: object) -> TypeGuard[str]:
    """Whether `value` can name something that is registered: letters and digits, joined by `-`, `_` and `.`.

    >>> is_name("xlm-roberta"), is_name("__class__"), is_name("a b"), is_name("")
    (True, False, False, False)
    """
    return isinstance(value, str) and re.fullmatch(r"[^\W_]+(?:[-_.][^\W_]+)*", value) is not None


def number(
    operation: str,
    name: str,
    value: object,
    *,
    least: float | None = None,
    above: float | None = None,
    below: float | None = None,
    hint: str,
) -> float:
    """Return `value` as a float if it is finite and within the bounds; else raise `InputError`.

    `least` is a bound that the value may take; `above` and `below` it may not.

    >>> number("attribute", "epsilon", 1e-6, least=0, hint="try epsilon=0.0")
    1e-06
    """
    bounds = (("at least", operator.ge, least), ("above", operator.gt, above), ("below", operator.lt, below))
    asked = [(words, holds, bound) for words, holds, bound in bounds if bound is not None]
    given = _finite(value)
    if given is not None and all(holds(given, bound) for _, holds, bound in asked):
        return given
    bounded = " and ".join(f"{words} {bound:g}" for words, _, bound in asked)
    expected = f"a finite number, {bounded}" if asked else "a finite number"
    raise InputError(operation, got=f"{name} {shown(value)}", expected=expected, hint=hint)


def _finite(value: object) -> float | None:
    """Return `value` as a float; None for a boolean, another type, NaN, infinity, or too large an integer."""
    if not (is_whole(value) or isinstance(value, (float, np.floating))):
        return None
    try:
        given = float(value)
    except OverflowError:
        return None
    return given if math.isfinite(given) else None


def as_path(operation: str, name: str, given: str | os.PathLike[str]) -> Path:
    """Return a path with `~` expanded; it need not exist. An empty one would name the working directory.

    >>> as_path("run", "--out", "runs/first").name
    'first'
    """
    if not os.fspath(given).strip():
        hint = "name a file or a folder"
        raise InputError(operation, got=f"an empty {name}", expected="a path", hint=hint)
    return Path(given).expanduser()
