"""Sentences of a chapter with their numbers, and the few numbers that other pages need."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrp_companion.checks import InputError
from lrp_companion.metrics import Interval

DIGITS = 2
MIME = "application/vnd.lrp-companion.numbers+json"
"""What `keep` gives a notebook besides text: the numbers by name."""


class MissingRecord(InputError):
    """The folder of records has no such run."""


def number(value: Any, *, digits: int = DIGITS) -> str:
    """Return a number as sentences print it: an interval as "mean [low, high]", with a true minus sign.

    >>> number(Interval(-0.021, -0.03, -0.014, 872)), number(3), number(0.525)
    ('−0.02 [−0.03, −0.01]', '3', '0.53')
    """
    if isinstance(value, bool | int | str):
        return str(value)
    text = value.text(digits) if isinstance(value, Interval) else f"{value:.{digits}f}"
    return text.replace("-", "\u2212")


@dataclass(frozen=True)
class Sentences:
    """Sentences that show themselves as a list, and how many were left out for want of their records."""

    sentences: tuple[str, ...]
    left_out: int = 0

    def _repr_markdown_(self) -> str:
        return self._listed(note="*{}*")

    def __repr__(self) -> str:
        return self._listed(note="{}")

    def _listed(self, *, note: str) -> str:
        lacking = f"Left out: {self.left_out} more, whose records are not in this folder."
        shown = [*self.sentences, *([note.format(lacking)] if self.left_out else [])]
        return "\n".join(f"- {sentence}" for sentence in shown)


def say(*sentences: Callable[[], str]) -> Sentences:
    """Return the sentences of a cell; one whose records are not in this folder is left out, and counted.

    Each is a function without arguments, so that a missing record is met here:

    >>> say(lambda: f"Both halves give {number(0.5)}.")
    - Both halves give 0.50.
    """
    kept: list[str] = []
    for sentence in sentences:
        with contextlib.suppress(MissingRecord):
            kept.append(sentence())
    return Sentences(tuple(kept), len(sentences) - len(kept))


@dataclass(frozen=True)
class Numbers:
    """Numbers by name, as text; a notebook keeps them in the output of the cell that shows them."""

    by_name: dict[str, str]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {MIME: self.by_name, "text/plain": repr(self)}

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {text}" for name, text in self.by_name.items())


def keep(numbers: dict[str, Callable[[], Any]]) -> Numbers:
    """Return a chapter's numbers for the role `finding` of other pages, those whose records are here.

    An interval keeps its mean and limits, as text, under its name, and its number of examples under "NAME,
    n". The cell is the last of a notebook, with the tag `remove-cell`.

    >>> keep({"r": lambda: Interval(0.5, 0.4, 0.6, 1200), "texts": lambda: 3})
    r: 0.50 [0.40, 0.60]
    r, n: 1,200
    texts: 3
    """
    out: dict[str, str] = {}
    for name, value_of in numbers.items():
        with contextlib.suppress(MissingRecord):
            value = value_of()
            out[name] = number(value)
            if isinstance(value, Interval):
                out[f"{name}, n"] = f"{value.n:,}"
    return Numbers(out)


def kept_in(notebook: Path) -> dict[str, str]:
    """Return the numbers that a notebook keeps in its outputs, none if it keeps none."""
    out: dict[str, str] = {}
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            out |= output.get("data", {}).get(MIME, {})
    return out
