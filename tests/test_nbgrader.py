"""The exercise notebooks for nbgrader: tags, a point and a hidden test per exercise, solutions that pass."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from browsing import ROOT
from grading_class import with_numpy_alone
from lrp_book.nbgrader import CONFIG, write_course
from lrp_book.student import without_code_solutions
from lrp_exercises import check, exercises
from lrp_exercises.catalogue import EXERCISES as CARDS
from lrp_exercises.catalogue import grade

EXERCISES = ROOT / "notebooks" / "exercises"
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
    config, *notebooks = write_course(EXERCISES, tmp_path, seed=5)
    assert config == tmp_path / "nbgrader_config.py" and compile(config.read_text(), "config", "exec")
    for path in notebooks:
        assert path.parent == tmp_path / "source" / path.stem
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


def test_the_hidden_test_has_other_numbers_and_sizes_than_check() -> None:
    exercise = CARDS["product-loo"]
    seen = [case.inputs[0] for seed in range(4) for case in exercise.cases(np.random.default_rng(seed))]

    def knows_check(values: np.ndarray) -> list[float]:
        right = any(np.array_equal(one, values) for one in seen)
        return [values.prod() if right else 0.0 for _ in values]

    assert check("product-loo", knows_check)
    with pytest.raises(AssertionError, match=r"\(Seed 90\.\)"):
        grade("product-loo", knows_check, seed=90)
    sizes = {
        case.inputs[0].shape for seed in range(90, 94) for case in exercise.cases(np.random.default_rng(seed))
    }
    assert len(sizes) > 1


def test_the_image_has_what_the_tests_need(tmp_path: Path) -> None:
    """It lacked the exercises once: everybody had 0 points. The fourth exercise of a notebook needs torch."""
    image = re.findall(
        r"^COPY (\S+) /lrp/(\S+)$", (ROOT / "book/course/grading.md").read_text(), re.MULTILINE
    )
    for here, there in image:
        shutil.copytree(ROOT / here, tmp_path / "lrp" / there)
    for path in write_course(EXERCISES, tmp_path / "course", seed=5)[1:]:
        code = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        done = with_numpy_alone(tmp_path / "lrp", "\n".join(of for of in code if "detached" not in of))
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("cells", "after"),
    [
        ("T F", "F T"),
        ("T G F", "G F T"),
        ("G T F", "G F T"),
        ("F T F", "F T F"),
        ("T F F N", "F F T N"),
        ("T G", "T G"),
    ],
)
def test_a_test_stands_below_its_function(cells: str, after: str) -> None:
    """Two hand-ins lost a point: students move cells. G is the gap, F a function that was written."""
    function = "def loo(values):\n    return "
    gap = f"{function}0\nraise NotImplementedError"
    source = {"T": 'check("product-loo", loo)', "F": f"{function}1", "N": "1", "G": gap}
    made = [nbformat.v4.new_code_cell(source[name], metadata={"name": name}) for name in cells.split()]
    part = CONFIG[CONFIG.index("def below_its_function") : CONFIG.index("c = get_config")]
    exec(part, scope := {"re": re})
    scope["below_its_function"](made, next(cell for cell in made if cell.metadata.name == "T"))
    assert " ".join(cell.metadata.name for cell in made) == after
