"""Sentences of a chapter with their numbers, and the few numbers that other pages need."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrp_companion.checks import InputError
from lrp_companion.metrics import Interval

DIGITS = 2
NUMBERS = Path("_build", "numbers")
"""Where `keep` writes, under the folder that notebooks run in: one file for each chapter."""


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
        lines = [f"- {sentence}" for sentence in self.sentences]
        if self.left_out:
            lines.append(f"- *{self._note()}*")
        return "\n".join(lines)

    def __repr__(self) -> str:
        shown = [*self.sentences, *([self._note()] if self.left_out else [])]
        return "\n".join(f"- {sentence}" for sentence in shown)

    def _note(self) -> str:
        return f"Left out: {self.left_out} more, whose records are not in this folder."


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


def keep(chapter: str, numbers: dict[str, Callable[[], Any]]) -> None:
    """Write a chapter's numbers for the role `finding` of other pages, those whose records are here.

    An interval keeps its mean and limits, as text, under its name, its mean under "NAME, mean", and its
    number of examples under "NAME, n".
    """
    out: dict[str, str] = {}
    for name, value_of in numbers.items():
        with contextlib.suppress(MissingRecord):
            value = value_of()
            out[name] = number(value)
            if isinstance(value, Interval):
                out |= {f"{name}, mean": number(value.mean), f"{name}, n": f"{value.n:,}"}
    NUMBERS.mkdir(parents=True, exist_ok=True)
    part = NUMBERS / f".{chapter}.{os.getpid()}"
    part.write_text(json.dumps(out, ensure_ascii=False, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    part.replace(NUMBERS / f"{chapter}.json")
