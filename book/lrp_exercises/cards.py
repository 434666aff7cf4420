"""An exercise in code: a card, on the function that is its slow reference.

    name: title -> names of what is returned
    the task
    ## inputs
    label of a case: its inputs, as Python; `n(2, 3)` draws normal numbers of that shape from `rng`, and `p`,
     `q` and `s` are different sizes, drawn anew for every seed
    ## solution
    the function as the book prints it
    ## slips
    old text -> new text  # what is said of an answer that behaves like the solution after this edit
    ## hints
    a question, a pointer, and the line of the solution that matters

An edit replaces its old text everywhere in the body; one without an arrow replaces the last line. Several
edits, a line each, make one slip. A line that begins with a space goes on with the line before it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np


class InputError(ValueError):
    """A call with something that is not meant: what came, what was expected, the next step."""

    def __init__(self, operation: str, *, got: str, expected: str, hint: str) -> None:
        super().__init__(f"{operation}: got {got}; expected {expected}. Next step: {hint}.")


Function = Callable[..., Any]
Array = np.ndarray
Pair = tuple[Array, Array]


class Case(NamedTuple):
    """One set of inputs. `label` finishes the sentence "on inputs ..."."""

    label: str
    inputs: tuple[Any, ...]


class Slip(NamedTuple):
    """A known wrong variant of the solution, and the feedback for a function that behaves like it."""

    code: str
    says: str


@dataclass(frozen=True)
class Exercise:
    """What a card says: `parts` are names of what is returned, `inputs` pairs of a case's label and its text.

    The slips come with the likelier first; `answer` is the reference. `whole`: the answer consists of whole
    numbers, such as indices. `autograd`: the function is differentiated, so it gets torch tensors.
    """

    name: str
    title: str
    theme: str
    task: str
    parts: tuple[str, ...]
    inputs: tuple[tuple[str, str], ...]
    solution: str
    slips: tuple[Slip, ...]
    hints: tuple[str, ...]
    answer: Function
    whole: bool
    autograd: bool

    @property
    def signature(self) -> str:
        """The function to write, as text."""
        return self.solution.partition("\n")[0].removeprefix("def ").rstrip(":")

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the arguments, read from the signature."""
        return tuple(self.signature.partition("(")[2].rstrip(")").split(", "))

    def cases(self, rng: np.random.Generator) -> list[Case]:
        """The inputs, drawn in order."""
        sizes = zip("pqs", rng.spawn(1)[0].permutation(range(2, 8)).tolist(), strict=False)
        drawn = {"rng": rng, "n": lambda *shape: rng.normal(size=shape), **dict(sizes)}
        scope = {**self.answer.__globals__, **drawn}
        return [Case(label, eval(f"({text},)", scope)) for label, text in self.inputs]

    def __repr__(self) -> str:
        return f"{self.name} ({self.theme}): {self.title}\n    {self.signature}\n    {self.task}"


def exercise(
    card: str, *, theme: str, whole: bool = False, autograd: bool = False
) -> Callable[[Function], Exercise]:
    """Make an exercise of the reference that follows.

    Raises
    ------
    InputError : a card without one of its parts, an edit whose old text is not in the solution.
    """
    if len(sections := re.split(r"^## \w+\n", card, flags=re.MULTILINE)) != 5:
        raise _bad(card.partition("\n")[0], "a head and inputs, solution, slips and hints")
    head, inputs, solution, slips, hints = sections
    first, *task = head.splitlines()
    name, title, parts = re.split(": | -> ", first)
    drawn = tuple((label, text) for label, _, text in (item.partition(": ") for item in _items(inputs)))
    *pairs, rest = re.split(r"((?:#.*\n)+)", slips)
    if rest:
        raise _bad(rest.strip(), "what its slip is told, after a #")
    variants = tuple(
        Slip(edited(solution, code.strip().split("\n")), " ".join(says.replace("# ", "").split()))
        for code, says in zip(pairs[::2], pairs[1::2], strict=True)
    )
    told = (" ".join(task), tuple(parts.split(", ")), drawn, solution, variants, _items(hints))
    return lambda answer: Exercise(name, title, theme, *told, answer, whole, autograd)


def _bad(got: str, expected: str) -> InputError:
    return InputError("exercise", got=repr(got), expected=expected, hint="correct the card")


def _items(text: str) -> tuple[str, ...]:
    return tuple(re.sub(r"\n +", " ", text).splitlines())


def edited(solution: str, edits: Sequence[str]) -> str:
    """A solution with edits made in its body.

    >>> print(edited("def half(x):\\n    return x / 2", ["/ 2 -> * 2"]))
    def half(x):
        return x * 2
    """
    head, body = solution.rstrip().split("\n", 1)
    for edit in edits:
        old, arrow, new = map(str.strip, edit.partition("->"))
        if arrow and old not in body:
            raise _bad(old, f"a text of the solution:\n{body}")
        body = body.replace(old, new) if arrow else "\n".join([*body.split("\n")[:-1], f"    {old}"])
    return f"{head}\n{body}"


@cache
def compiled(code: str) -> Function:
    """The function of this package's code."""
    scope: dict[str, Any] = {"np": np}
    exec(compile(code, "a solution", "exec"), scope)
    (name,) = (node.name for node in ast.parse(code).body if isinstance(node, ast.FunctionDef))
    function: Function = scope[name]
    return function
