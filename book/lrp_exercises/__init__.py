"""Coding exercises that check themselves: `check("softmax-rule", my_function)` names the likely slip.

A function is run on random inputs with a fixed seed and compared with a slow form of the rule, written from
the paper's equation. It needs NumPy alone; torch is imported only on request. To add
an exercise, write its card and reference in the file of its theme (the format is in `cards`).
"""

from __future__ import annotations

from lrp_exercises.cards import Case, Exercise, InputError, Slip
from lrp_exercises.catalogue import Catalogue, check, exercises, hint
from lrp_exercises.checking import Result

__all__ = ["Case", "Catalogue", "Exercise", "InputError", "Result", "Slip", "check", "exercises", "hint"]
