"""Run a student's cells and answer exercises with their functions: a process that `grading` starts.

Run by its path, so that the package of the exercises, which holds the answers, is not imported. Arguments:
the descriptors to read from and to write to. Everything here may be changed by the student's code; it decides
nothing. It gets inputs, and gives back arrays; they are judged in another process.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import os
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ANSWERS = ("catalogue", "products", "rules", "softmax", "agreement", "grading")
PACKAGE = "lrp_companion.exercises"


class _WithoutAnswers(importlib.abc.MetaPathFinder):
    """No module that holds an answer can be imported."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> None:
        if name.startswith(f"{PACKAGE}.") and name.rpartition(".")[2] in ANSWERS:
            raise ImportError(f"{name} is closed while exercises are graded")


def _close_answers() -> None:
    """In place of the package of the exercises a module in which `check` says nothing."""
    stub = types.ModuleType(PACKAGE)
    stub.__path__ = [str(Path(__file__).parent)]
    for name in ("check", "hint", "exercises"):
        setattr(stub, name, lambda *arguments, **options: None)
    sys.modules[PACKAGE] = stub
    sys.meta_path.insert(0, _WithoutAnswers())


def _close_network() -> None:
    """Where the system cannot close the network: no socket from Python."""

    def refuse(event: str, arguments: Any) -> None:
        if event.startswith("socket."):
            raise PermissionError("no network while exercises are graded")

    sys.addaudithook(refuse)


def _run_cells(cells: Sequence[str], space: dict[str, Any]) -> list[str]:
    """Run the cells in order; one that fails does not stop the next. What failed, one line each."""
    failed = []
    for number, cell in enumerate(cells, 1):
        try:
            exec(compile(cell, f"<cell {number}>", "exec"), space)
        except BaseException as error:
            failed.append(f"cell {number}: {type(error).__name__}: {error}"[:300])
    return failed


def _no_cases(generator: Any) -> list[Any]:
    """The cases come from the other process."""
    return []


def main(source: int, sink: int) -> None:
    """Read cells, run them, and answer one line for every exercise."""
    _close_answers()
    from lrp_companion.exercises import wire
    from lrp_companion.exercises.checking import Case, Exercise, answered

    lines, out = os.fdopen(source, encoding="utf-8"), os.fdopen(sink, "w", encoding="utf-8")

    def tell(value: Any) -> None:
        out.write(wire.written(value) + "\n")
        out.flush()

    order = wire.read(lines.readline())
    if order["close network"]:
        _close_network()
    space: dict[str, Any] = {"__name__": "__main__"}
    tell(_run_cells(order["cells"], space))
    for line in lines:
        asked = wire.read(line)
        told = asked["exercise"]
        told["parts"] = tuple(told["parts"])
        exercise = Exercise(
            **told, title="", theme="", task="", answer=len, cases=_no_cases, slips=(), hints=()
        )
        cases = [Case(label, inputs) for label, inputs in asked["cases"]]
        try:
            with contextlib.redirect_stdout(None):
                function = eval(asked["function"], space)
                tell(answered(exercise, function, cases, torch=asked["torch"]))
        except BaseException as error:
            tell(f"{asked['function']} cannot be used: {type(error).__name__}: {error}"[:300])


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
