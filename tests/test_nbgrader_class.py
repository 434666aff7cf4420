"""A class of 25 through nbgrader itself, from its source to marks: `LRP_NBGRADER=1 pytest` with this file.

nbgrader lives in an environment of its own, which the first run makes in `_build/nbgrader-venv` (a minute,
from the package index); `LRP_NBGRADER` may also name the folder of another one's programs. Grading takes
two minutes.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import numpy as np
import pytest
from browsing import ROOT
from grading_class import ASSIGNMENT, CLASS, DUE, IN_TIME, answers, hand_in, hand_in_all
from lrp_book.marks import read
from lrp_book.nbgrader import write_course

WANTED = os.environ.get("LRP_NBGRADER", "")
pytestmark = pytest.mark.skipif(not WANTED, reason="set LRP_NBGRADER=1: it takes minutes")
Call = Callable[..., "subprocess.CompletedProcess[str]"]
SEED = 20260301
SCHOOL = ("e2_rules", "e3_softmax", "e4_agreement", "e5_judges")


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of nbgrader's program and its Python."""
    if WANTED != "1":
        return Path(WANTED)
    home = ROOT / "_build" / "nbgrader-venv"
    if not (home / "bin/nbgrader").is_file():
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        packages = ["nbgrader==0.9.6", "ipykernel"]
        subprocess.run([home / "bin/python", "-m", "pip", "install", "--quiet", *packages], check=True)
        (site,) = home.glob("lib/python*/site-packages")  # NumPy and torch are those of this environment
        (site / "zz_here.pth").write_text(f"{Path(np.__file__).parents[1]}\n")
    return home / "bin"


@pytest.fixture(scope="module")
def call(programs: Path, course: Path) -> Call:
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'book'}",
        "OMP_NUM_THREADS": "1",
    }

    def nbgrader(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(programs / "nbgrader"), *words]
        return subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True)

    return nbgrader


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("course")
    write_course(ROOT / "notebooks/exercises", folder, seed=SEED)
    config = folder / "nbgrader_config.py"
    config.write_text(config.read_text().replace("timeout = 60", "timeout = 8"))
    roster = [["id", "first_name", "last_name", "email"]]
    roster += [[name, "Ada", f"Student {name}", f"{name}@example.org"] for name in CLASS]
    with (folder / "roster.csv").open("w", newline="") as file:
        csv.writer(file).writerows(roster)
    return folder


@pytest.fixture(scope="module")
def graded(course: Path, call: Call) -> set[str]:
    """The class graded as the page says; the students that nbgrader names, since it could not grade them."""
    for name in (ASSIGNMENT, *SCHOOL):
        assert call("generate_assignment", name).returncode == 0
    assert call("db", "student", "import", "roster.csv").returncode == 0
    assert call("db", "assignment", "add", ASSIGNMENT, f"--duedate={DUE}").returncode == 0
    hand_in_all(course)
    done = call("autograde", ASSIGNMENT)
    failed = re.findall(rf"error processing assignment '{ASSIGNMENT}' for student '(\w+)'", done.stderr)
    assert bool(failed) == bool(done.returncode)
    hand_in(course, "s04", answers(), IN_TIME.replace("09:", "10:"))
    assert call("autograde", ASSIGNMENT, "--student=s04").returncode == 0
    assert call("generate_feedback", ASSIGNMENT).returncode == 0
    assert call("export").returncode == 0
    return set(failed)


def test_students_get_no_solution_and_no_hidden_test(course: Path, graded: set[str]) -> None:
    released = sorted((course / "release").glob("*/*.ipynb"))
    assert len(released) == 1 + len(SCHOOL)
    for path in released:
        text = path.read_text()
        assert "Your code here." in text and "raise NotImplementedError" in text
        assert not [word for word in ("SOLUTION", "HIDDEN", str(SEED), "grade(") if word in text]


def test_everybody_has_the_points_that_the_work_is_worth(course: Path, graded: set[str]) -> None:
    marks = {mark.student: mark for mark in read(course) if mark.assignment == ASSIGNMENT}
    assert {name: mark.score for name, mark in marks.items()} == {name: CLASS[name][2] for name in CLASS}
    assert {mark.out_of for mark in marks.values()} == {3.0}, "points cannot be forged"
    assert {name for name, mark in marks.items() if mark.late} == {"s05", "s06"}
    by_hand = {name: mark.why for name, mark in marks.items() if mark.why}
    assert graded == {name for name, why in by_hand.items() if "could not be graded" in why}
    assert {name for name, why in by_hand.items() if why == "nothing handed in"} == {"s07", "s08"}
    assert by_hand.keys() - graded - {"s07", "s08"} == {"s19"} and "metadata" in by_hand["s19"]


def test_feedback_says_what_is_wrong(course: Path, graded: set[str]) -> None:
    pages = {path.parents[1].name: path.read_text() for path in (course / "feedback").glob("*/*/*.html")}
    assert {name for name, (_, _, points) in CLASS.items() if points is not None} <= pages.keys()
    assert "cannot be called as product_rule(a, b, relevance)" in pages["s12"]
    assert f"(Seed {SEED}.)" in pages["s18"] and "AssertionError" not in pages["s01"]


def test_the_printed_solutions_have_every_point(course: Path, call: Call, graded: object) -> None:
    for name in SCHOOL:
        source = nbformat.read(course / "source" / name / f"{name}.ipynb", as_version=4)
        place = course / "submitted/s01" / name
        place.mkdir(parents=True)
        nbformat.write(source, place / f"{name}.ipynb")
        assert call("autograde", name, "--student=s01").returncode == 0
    assert call("export").returncode == 0
    marks = [mark for mark in read(course) if mark.student == "s01"]
    assert len(marks) == 1 + len(SCHOOL) and all(mark.score == mark.out_of for mark in marks)
