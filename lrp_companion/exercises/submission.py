"""The content of a submitted notebook: cells, which function answers which exercise, what to look at."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_BYTES = 20_000_000
ORDINARY = ("numpy", "torch", "math", "lrp_companion")
"""Imports that the exercises need; others are reported to the teacher."""
NOTABLE = ("open", "exec", "eval", "__import__", "compile", "globals", "vars", "getattr", "setattr")


@dataclass(frozen=True)
class Answered:
    """One call of `check`: its exercise, the function as written, and whether it wants tensors."""

    exercise: str
    function: str
    torch: bool


@dataclass(frozen=True)
class Submission:
    """A submitted notebook.

    Attributes
    ----------
    student, notebook : the folder's name, or the notebook's where it lies in no folder; and the notebook's.
    cells : the code of its cells.
    answers : by exercise; the last call of `check` counts.
    notable : imports and calls that no exercise needs, for the teacher to look at.
    problem : why it cannot be read; "" if it can.
    """

    student: str
    notebook: str
    cells: tuple[str, ...] = ()
    answers: tuple[Answered, ...] = ()
    notable: tuple[str, ...] = ()
    problem: str = ""


def handed_in(folder: Path) -> list[tuple[str, Path]]:
    """Student and path of every notebook, in one folder per student or one file per student; sorted."""
    notebooks = []
    for path in sorted(folder.rglob("*.ipynb")):
        parts = path.relative_to(folder).parts
        if any(part.startswith(".") or part.endswith("-checkpoint.ipynb") for part in parts):
            continue
        notebooks.append((parts[0] if len(parts) > 1 else path.stem, path))
    return notebooks


def submission(student: str, path: Path) -> Submission:
    """Read a notebook without running any of it."""

    def refused(problem: str) -> Submission:
        return Submission(student, path.name, problem=problem)

    try:
        if path.is_symlink() or not path.is_file():
            return refused("it is a link, or no file")
        if path.stat().st_size > MOST_BYTES:
            return refused(f"it has more than {MOST_BYTES // 1_000_000} MB")
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        cells = tuple(
            _python("".join(cell["source"])) for cell in content["cells"] if cell["cell_type"] == "code"
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return refused(f"it is not a notebook ({type(error).__name__})")
    answers: dict[str, Answered] = {}
    notable: list[str] = []
    for cell in cells:
        try:
            tree = ast.parse(cell)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # running it says what is wrong
        for node in ast.walk(tree):
            notable += _notable(node)
            if isinstance(node, ast.Call) and (answer := _checked(node)) is not None:
                answers[answer.exercise] = answer
    return Submission(student, path.name, cells, tuple(answers.values()), tuple(sorted(set(notable))))


def _python(source: str) -> str:
    """A cell without the lines that only a notebook understands."""
    lines = source.splitlines()
    return "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in lines)


def _checked(call: ast.Call) -> Answered | None:
    """The exercise and the function of a call `check("name", function)`."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name != "check" or len(call.args) != 2:
        return None
    exercise = call.args[0]
    if not (isinstance(exercise, ast.Constant) and isinstance(exercise.value, str)):
        return None
    wants = {word.arg: word.value for word in call.keywords}.get("framework")
    torch = isinstance(wants, ast.Constant) and wants.value == "torch"
    return Answered(exercise.value, ast.unparse(call.args[1]), torch)


def _notable(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [f"import {x.name}" for x in node.names if x.name.split(".")[0] not in ORDINARY]
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        deep = module.startswith("lrp_companion") and module != "lrp_companion.exercises"
        return [f"import {module}"] if deep or module.split(".")[0] not in ORDINARY else []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NOTABLE:
        return [f"{node.func.id}()"]
    return []
