"""The exercise notebooks as a course that runs nbgrader imports them: its tags, one graded cell per exercise.

A cell that defines a function and checks it becomes two: the function, which nbgrader empties between the
lines of a solution, and a locked cell worth one point that fails unless `check` passes.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import nbformat

from lrp_book.student import BEGIN
from lrp_companion.checks import InputError

SCHEMA = 3
_CHECK = re.compile(r'^check\("(?P<name>[\w-]+)", (?P<function>\w+)(?P<options>[^)]*)\)$', re.MULTILINE)


def tags(grade_id: str, *, grade: bool = False, solution: bool = False, points: int | None = None) -> Any:
    """The metadata of one cell, in nbgrader's schema; what is not a solution is locked.

    >>> tags("product-rule", solution=True)["nbgrader"]["locked"]
    False
    """
    settings: dict[str, Any] = {
        "grade": grade, "grade_id": grade_id, "locked": not solution, "schema_version": SCHEMA,
        "solution": solution, "task": False,
    }  # fmt: skip
    return {"nbgrader": settings if points is None else settings | {"points": points}}


def course_notebook(notebook: nbformat.NotebookNode, *, name: str = "notebook") -> nbformat.NotebookNode:
    """Return a copy for nbgrader's folder `source`: solutions stay, outputs go.

    Raises
    ------
    InputError : a cell with a solution that no `check` of its own follows.
    """
    out = copy.deepcopy(notebook)
    out.cells = []
    for number, cell in enumerate(notebook.cells, start=1):
        cell = copy.deepcopy(cell)
        if cell.cell_type != "code" or BEGIN not in cell.source:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
            cell.metadata = {**cell.metadata, **tags(f"text-{number:02d}")}
            out.cells.append(cell)
            continue
        checks = list(_CHECK.finditer(cell.source))
        if len(checks) != 1:
            got, expected = f"{len(checks)} checks in cell {number} of {name}", "one with a solution"
            raise InputError("nbgrader", got=got, expected=expected, hint="give every exercise its own cell")
        (match,) = checks
        task = nbformat.v4.new_code_cell(_CHECK.sub("", cell.source).rstrip() + "\n", id=cell.id)
        task.metadata = {**cell.metadata, **tags(f"{match['name']}-function", solution=True)}
        call = f'check("{match["name"]}", {match["function"]}{match["options"]})'
        graded = nbformat.v4.new_code_cell(
            f"result = {call}\nassert result, result.message\n", id=f"{cell.id}-graded"
        )
        graded.metadata = tags(match["name"], grade=True, points=1)
        out.cells += [task, graded]
    return out


def write_course(source: Path, target: Path) -> list[Path]:
    """Write every notebook of a folder as `target/NAME/NAME.ipynb`, the layout of nbgrader's `source`."""
    written = []
    for path in sorted(source.glob("*.ipynb")):
        place = target / path.stem
        place.mkdir(parents=True, exist_ok=True)
        notebook = course_notebook(nbformat.read(path, as_version=4), name=path.name)
        nbformat.write(notebook, place / path.name)
        written.append(place / path.name)
    return written
