"""The exercise notebooks as nbgrader's source: its tags, and for each exercise one point and a hidden test.

A cell that defines a function and checks it becomes two: the function, which nbgrader empties between the
lines of a solution, and a locked cell worth one point. Students get `check` there; the hidden test, which
nbgrader adds when it grades, runs the code of `check` on numbers and sizes drawn from a seed of the course.
"""

from __future__ import annotations

import copy
import re
import secrets
from pathlib import Path
from typing import Any

import nbformat

from lrp_book.student import BEGIN, GAP
from lrp_companion.checks import InputError

SCHEMA = 3
CONFIG = f"""\
import re

from nbformat.v4 import new_code_cell
from nbgrader.preprocessors import CheckCellMetadata, ClearOutput, DeduplicateIds
from nbgrader.preprocessors import OverwriteCells, OverwriteKernelspec


def name(cell):
    return cell.metadata.get("nbgrader", {{}}).get("grade_id")


class OwnCells(DeduplicateIds):
    # A cell that a student copied, or whose metadata are of no version known here, is the student's own;
    # nbgrader alone would end there, and grade nobody whose name comes later.
    def preprocess_cell(self, cell, resources, cell_index):
        if cell.metadata.get("nbgrader", {{}}).get("schema_version") == {SCHEMA}:
            cell, resources = super().preprocess_cell(cell, resources, cell_index)
        if cell.metadata.get("nbgrader", {{}}).get("schema_version") != {SCHEMA}:
            cell.metadata.pop("nbgrader", None)
        return cell, resources


class AllTests(OverwriteCells):
    # A test that was deleted, renamed or has lost its metadata comes back at the end, a cell of an unknown
    # name is the student's own; nbgrader alone would give no point, or no mark at all.
    def preprocess_cell(self, cell, resources, cell_index):
        cell, resources = super().preprocess_cell(cell, resources, cell_index)
        if name(cell) is None:
            cell.metadata.pop("nbgrader", None)
        return cell, resources

    def add_missing_grade_cells(self, nb, resources):
        source = self.gradebook.find_notebook(self.notebook_id, self.assignment_id)
        points = {{cell.name: cell.max_score for cell in source.grade_cells}}
        there = set(map(name, nb.cells))
        if self.strange and not there & set(points):
            raise ValueError("a notebook of another assignment, with tests of " + ", ".join(self.strange))
        missing = [cell for cell in source.source_cells if cell.name in points and cell.name not in there]
        nb.cells += [self.missing_cell_transform(cell, points[cell.name]) for cell in missing]
        return nb, resources

    def preprocess(self, nb, resources):
        self.strange = [name(cell) for cell in nb.cells if cell.metadata.get("nbgrader", {{}}).get("grade")]
        for cell in list(nb.cells):  # a function merged into a cell that will be replaced stays above it
            locked = cell.cell_type == "code" and cell.metadata.get("nbgrader", {{}}).get("locked")
            if locked and re.search(r"^(def |\\w+ *= *lambda)", cell.source, re.M):
                nb.cells.insert(nb.cells.index(cell), new_code_cell(cell.source))
        nb, resources = super().preprocess(nb, resources)
        for test in [cell for cell in nb.cells if cell.metadata.get("nbgrader", {{}}).get("grade")]:
            below_its_function(nb.cells, test)
        return nb, resources


def below_its_function(cells, test):
    # Students move cells: a test with no written function above it goes below the last one.
    function = re.search(r'check\\("[^"]+", (\\w+)\\)', test.source)[1]
    written = re.compile(rf"^(def {{function}}\\b|{{function}} *=)(?![\\s\\S]*NotImplementedError)", re.M)
    at = cells.index(test)
    there = [k for k, cell in enumerate(cells) if cell.cell_type == "code" and written.search(cell.source)]
    if there and there[0] > at:
        cells.insert(there[-1], cells.pop(at))


c = get_config()
c.Autograde.sanitize_preprocessors = [ClearOutput, OwnCells, OverwriteKernelspec, AllTests, CheckCellMetadata]
c.Autograde.create_student = False  # a mistyped name is an error
c.OverwriteCells.add_missing_cells = True
c.ClearSolutions.code_stub = {{"python": {GAP!r}}}
c.ExecutePreprocessor.timeout = 60  # seconds for a cell
c.ExecutePreprocessor.interrupt_on_timeout = True
"""
_GRADED = """\
from lrp_exercises import check
result = check("{name}", {function})
assert result, result.message
### BEGIN HIDDEN TESTS
from lrp_exercises.catalogue import grade
grade("{name}", {function}, seed={seed})
### END HIDDEN TESTS
"""
_CHECK = re.compile(r'^check\("(?P<name>[\w-]+)", (?P<function>\w+)\)$', re.MULTILINE)


def tags(grade_id: str, *, grade: bool = False, solution: bool = False, points: int | None = None) -> Any:
    """The metadata of one cell, in nbgrader's schema; what is not a solution is locked.

    >>> tags("product-rule", solution=True)["nbgrader"]["locked"]
    False
    """
    settings: dict[str, Any] = {
        "grade": grade,
        "grade_id": grade_id,
        "locked": not solution,
        "schema_version": SCHEMA,
        "solution": solution,
        "task": False,
    }
    return {"nbgrader": settings if points is None else settings | {"points": points}}


def course_notebook(
    notebook: nbformat.NotebookNode, *, name: str = "notebook", seed: int = 0
) -> nbformat.NotebookNode:
    """Return a copy for nbgrader's folder `source`: solutions stay, outputs go, hidden tests have the seed.

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
        graded = nbformat.v4.new_code_cell(
            _GRADED.format(**match.groupdict(), seed=seed), id=f"{cell.id}-graded"
        )
        graded.metadata = tags(match["name"], grade=True, points=1)
        out.cells += [task, graded]
    return out


def write_course(source: Path, target: Path, *, seed: int | None = None) -> list[Path]:
    """Write a course for nbgrader: its configuration, and every notebook of a folder as its source.

    Without a seed one is drawn, and kept for the next time, so that no student can know on which numbers the
    hidden tests run.
    """
    target.mkdir(parents=True, exist_ok=True)
    kept = target / "seed.txt"
    if seed is None:
        seed = int(kept.read_text()) if kept.is_file() else secrets.randbelow(2**31)
    kept.write_text(f"{seed}\n")
    written = [target / "nbgrader_config.py"]
    written[0].write_text(CONFIG, encoding="utf-8")
    for path in sorted(source.glob("*.ipynb")):
        place = target / "source" / path.stem
        place.mkdir(parents=True, exist_ok=True)
        notebook = course_notebook(nbformat.read(path, as_version=4), name=path.name, seed=seed)
        nbformat.write(notebook, place / path.name)
        written.append(place / path.name)
    return written
