"""Coding exercises that check themselves: `check("softmax-rule", my_function)` names the likely slip.

A function is run on random inputs with a fixed seed and compared with a slow form of the rule, written from
the paper's equation. Nothing here imports the package's rules, and torch is imported only on request. To add
an exercise, write its card and reference in the file of its theme (the format is in `cards`).
"""

from __future__ import annotations

from lrp_book.exercises.cards import Case, Exercise, Slip
from lrp_book.exercises.catalogue import Catalogue, check, exercises, hint
from lrp_book.exercises.checking import Result

__all__ = ["Case", "Catalogue", "Exercise", "Result", "Slip", "check", "exercises", "hint"]
