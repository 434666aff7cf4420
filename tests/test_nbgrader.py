"""The exercise notebooks for nbgrader: its tags, one point per exercise, and solutions that earn it."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import nbformat
import pytest
from lrp_book.exercises import exercises
from lrp_book.nbgrader import course_notebook, write_course
from lrp_book.student import without_code_solutions

from lrp_companion.checks import InputError

EXERCISES = Path(__file__).parent.parent / "notebooks" / "exercises"
KEYS = {"grade", "grade_id", "locked", "schema_version", "solution", "task"}


def run(notebook: Any, *, gaps: bool) -> dict[str, bool]:
    """Whether each graded cell passes; with `gaps` the functions are empty."""
    space: dict[str, Any] = {}
    passed = {}
    for cell in notebook.cells:
        tags = cell.metadata.nbgrader
        if cell.cell_type != "code":
            continue
        code = without_code_solutions(cell.source) if gaps else cell.source
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                exec(code, space)
                right = True
            except (AssertionError, NotImplementedError):
                right = False
        if tags.grade:
            passed[tags.grade_id] = right
    return passed


def test_every_exercise_is_one_point_and_its_solution_earns_it(tmp_path: Path) -> None:
    points: dict[str, bool] = {}
    for path in write_course(EXERCISES, tmp_path):
        assert path.parent.name == path.stem
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        all_tags = [cell.metadata.nbgrader for cell in notebook.cells]
        assert len({tags.grade_id for tags in all_tags}) == len(all_tags)
        for cell, tags in zip(notebook.cells, all_tags, strict=True):
            assert set(tags) == KEYS | ({"points"} if tags.grade else set())
            assert tags.schema_version == 3 and tags.locked is not tags.solution
            assert not cell.get("outputs")
        points |= run(notebook, gaps=False)
        assert not any(run(notebook, gaps=True).values())
    assert points == dict.fromkeys(exercises().names, True)


def test_a_solution_without_a_check_is_refused() -> None:
    cell = nbformat.v4.new_code_cell("def f():\n    # BEGIN SOLUTION\n    return 1\n    # END SOLUTION\n")
    with pytest.raises(InputError, match="0 checks in cell 1 of e.ipynb"):
        course_notebook(nbformat.v4.new_notebook(cells=[cell]), name="e.ipynb")
