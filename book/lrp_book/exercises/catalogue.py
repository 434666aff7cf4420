"""All exercises by name, and the three functions that a reader uses."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from lrp_book.exercises import agreement, newer_blocks, products, references, rules, softmax
from lrp_book.exercises.checking import THEMES, Catalogue, Exercise, Result, examine
from lrp_companion.checks import InputError, choose, whole

_MODULES = (products, rules, newer_blocks, softmax, agreement, references)
EXERCISES: dict[str, Exercise] = {one.name: one for module in _MODULES for one in module.EXERCISES}
FRAMEWORKS = ("numpy", "torch")


def check(name: str, function: Callable[..., Any], *, framework: str = "numpy") -> Result:
    """Compare a function with the slow form of a rule on random inputs, and say what is likely wrong with it.

    Parameters
    ----------
    name : an exercise, as `exercises()` lists them.
    function : called with the exercise's arguments, in order; float64 arrays and plain numbers.
    framework : "numpy", or "torch" for a function of tensors.

    Returns
    -------
    Result
        true if the function passes; else its message names the likely slip, or the function's exception.

    Raises
    ------
    InputError : a name that is not an exercise, something that cannot be called, another framework.

    >>> check("mean-logit", lambda logits: sum(logits) / len(logits))
    not yet: mean-logit. The logit of the whole input, f_0, is in your mean: average what is recorded after
    each removal, f_1 to f_K.
    >>> check("mean-logit", lambda logits: sum(logits[1:]) / (len(logits) - 1))
    passes: mean-logit. Right on 3 random inputs.
    """
    exercise = _find("check", name)
    choose("check", "framework", framework, FRAMEWORKS)
    if not callable(function):
        got, expected = f"{function!r} in place of a function", f"a function {exercise.signature}"
        raise InputError("check", got=got, expected=expected, hint="pass its name, without calling it")
    return examine(exercise, function, torch=framework == "torch")


def exercises(theme: str | None = None) -> Catalogue:
    """List all exercises, or those of one theme.

    Raises
    ------
    InputError : an unknown theme.

    >>> exercises("softmax and attention").names
    ('softmax-rule', 'attention-values', 'attention-loo', 'detached-attention')
    """
    if theme is not None:
        choose("exercises", "theme", theme, THEMES)
    return Catalogue(tuple(e for e in EXERCISES.values() if theme in (None, e.theme)))


def hint(name: str, number: int = 1) -> str:
    """Return a hint for an exercise: 1 is a question, 2 a pointer, 3 the line of the solution that matters.

    Raises
    ------
    InputError : a name that is not an exercise, or a hint that does not exist.

    >>> hint("sum-to-one")
    'What is a map divided by, if its sum is negative?'
    """
    hints = _find("hint", name).hints
    return hints[whole("hint", "hint", number, most=len(hints), hint=f"hints of {name} count from 1") - 1]


def _find(operation: str, name: str) -> Exercise:
    if isinstance(name, str) and name in EXERCISES:
        return EXERCISES[name]
    near = difflib.get_close_matches(str(name), EXERCISES, n=1)
    hint = f"did you mean {near[0]!r}" if near else "exercises() lists them"
    raise InputError(
        operation, got=f"exercise {name!r}", expected=f"one of {', '.join(EXERCISES)}", hint=hint
    )
