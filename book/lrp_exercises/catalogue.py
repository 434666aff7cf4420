"""All exercises by name, and the three functions that a reader uses."""

from __future__ import annotations

import difflib
import html
from collections.abc import Callable, Iterable
from typing import Any

from lrp_exercises import agreement, judges, products, rules, softmax
from lrp_exercises.cards import Exercise, InputError
from lrp_exercises.checking import Result, examine

_ALL = [one for module in (products, rules, softmax, agreement, judges) for one in vars(module).values()]
EXERCISES = {one.name: one for one in _ALL if isinstance(one, Exercise)}
THEMES = tuple(dict.fromkeys(one.theme for one in EXERCISES.values()))


class Catalogue(tuple[Exercise, ...]):
    """Exercises in the order of the book."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(exercise.name for exercise in self)

    def __repr__(self) -> str:
        return "\n".join(map(repr, self))

    def _repr_html_(self) -> str:
        left = 'style="text-align: left"'
        head = "".join(
            f'<th scope="col" {left}>{title}</th>' for title in ("name", "theme", "function", "task")
        )
        rows = ""
        for one in self:
            name, theme, signature, task = map(html.escape, (one.name, one.theme, one.signature, one.task))
            cells = "".join(f"<td {left}>{cell}</td>" for cell in (theme, f"<code>{signature}</code>", task))
            rows += f'<tr><th scope="row" {left}>{name}</th>{cells}</tr>'
        caption = "<caption>Exercises in code</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def check(name: str, function: Callable[..., Any]) -> Result:
    """Compare a function with the slow form of a rule on random inputs, and say what is likely wrong with it.

    Parameters
    ----------
    name : an exercise, as `exercises()` lists them.
    function : called with the exercise's arguments, in order; float64 arrays and plain numbers.

    Returns
    -------
    Result
        true if the function passes; else its message names the likely slip, or the function's exception.

    Raises
    ------
    InputError : a name that is not an exercise, something that cannot be called.

    >>> check("mean-logit", lambda logits: sum(logits) / len(logits))
    not yet: mean-logit. The logit of the whole input, f_0, is in your mean: average what is recorded after
    each removal, f_1 to f_K.
    >>> check("mean-logit", lambda logits: sum(logits[1:]) / (len(logits) - 1))
    passes: mean-logit. Right on 24 random inputs.
    """
    exercise = _find("check", name)
    if not callable(function):
        got, expected = f"{function!r} in place of a function", f"a function {exercise.signature}"
        raise InputError("check", got=got, expected=expected, hint="pass its name, without calling it")
    return examine(exercise, function)


def grade(name: str, function: Callable[..., Any], *, seed: int) -> None:
    """Pass a function that is right on numbers and sizes drawn from a seed: `check`, on other inputs.

    Raises
    ------
    AssertionError : what `check` would say of a function that is not right.
    InputError : an unknown exercise.

    >>> grade("product-rule", lambda a, b, relevance: (relevance / 2, relevance / 2), seed=7)
    """
    result = examine(_find("grade", name), function, seed=seed)
    if not result.passes:
        raise AssertionError(f"{result.message} (Seed {seed}.)")


def exercises(theme: str | None = None) -> Catalogue:
    """List all exercises, or those of one theme.

    Raises
    ------
    InputError : an unknown theme.

    >>> exercises("softmax and attention").names[:2]
    ('softmax-rule', 'attention-values')
    """
    if theme not in (None, *THEMES):
        raise _not_one_of("exercises", f"theme {theme!r}", THEMES)
    return Catalogue(one for one in EXERCISES.values() if theme in (None, one.theme))


def hint(name: str, number: int = 1) -> str:
    """Return a hint for an exercise: 1 is a question, 2 a pointer, 3 the line of the solution that matters.

    Raises
    ------
    InputError : a name that is not an exercise, or a hint that does not exist.

    >>> hint("sum-to-one")
    'What is a map divided by, if its sum is negative?'
    """
    hints = _find("hint", name).hints
    if number not in range(1, len(hints) + 1):
        expected, next_step = f"a whole number from 1 to {len(hints)}", f"hints of {name} count from 1"
        raise InputError("hint", got=f"hint {number!r}", expected=expected, hint=next_step)
    return hints[number - 1]


def _find(operation: str, name: str) -> Exercise:
    if isinstance(name, str) and name in EXERCISES:
        return EXERCISES[name]
    near = difflib.get_close_matches(str(name), EXERCISES, n=1)
    hint = f"did you mean {near[0]!r}" if near else "exercises() lists them"
    raise _not_one_of(operation, f"exercise {name!r}", EXERCISES, hint)


def _not_one_of(
    operation: str, got: str, names: Iterable[str], hint: str = "choose one of these"
) -> InputError:
    return InputError(operation, got=got, expected=f"one of {', '.join(names)}", hint=hint)
