"""A class through nbgrader itself, from its source to marks: `LRP_NBGRADER=1 pytest` with this file.

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
        "PYTHONPATH": str(ROOT / "book"),  # as the page says
        "OMP_NUM_THREADS": "1",
    }

    def nbgrader(*words: str) -> subprocess.CompletedProcess[str]:
        marks = [str(programs / "python"), "-m", "lrp_book.marks", "."]
        command = marks if words == ("marks",) else [str(programs / "nbgrader"), *words]
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
    assert done.returncode and "another assignment, with tests of softmax-rule" in done.stderr
    hand_in(course, "s04", answers(), IN_TIME.replace("09:", "10:"))
    assert f"{ASSIGNMENT}, handed in again: run nbgrader autograde: s04" in call("marks").stdout
    assert call("autograde", ASSIGNMENT, "--student=s04").returncode == 0
    assert call("generate_feedback", ASSIGNMENT).returncode == 0
    return set(failed)


def test_students_get_no_solution_and_no_hidden_test(course: Path, graded: set[str]) -> None:
    released = sorted((course / "release").glob("*/*.ipynb"))
    assert len(released) == 1 + len(SCHOOL)
    for path in released:
        text = path.read_text()
        assert "Your code here." in text and "raise NotImplementedError" in text
        assert not [word for word in ("SOLUTION", "HIDDEN", str(SEED), "grade(") if word in text]


def points(course: Path) -> dict[str, list[str]]:
    """Everybody's marks as in the file for Moodle."""
    with (course / "moodle.csv").open(encoding="utf-8") as file:
        return {row[0]: row[4:] for row in csv.reader(file)}


def test_everybody_has_the_points_that_the_work_is_worth(course: Path, call: Call, graded: set[str]) -> None:
    *lines, _, _ = call("marks").stdout.splitlines()
    said = dict(line.removeprefix(f"{ASSIGNMENT}, ").rsplit(": ", 1) for line in lines)
    wanted = {name: "" if value is None else f"{value:g}" for name, (*_, value) in CLASS.items()}
    assert points(course) == {"ID number": [ASSIGNMENT], **{name: [value] for name, value in wanted.items()}}
    told = {why.partition(":")[0]: set(who.split(", ")) for why, who in said.items()}
    assert told == {
        "late": {"s05", "s06"},
        "nothing handed in": {"s07", "s08"},
        "could not be graded": graded - {"s5O"},
        "from nobody in the gradebook": {"s5O"},
    }
    assert graded == {"s20", "s22", "s25", "s28", "s5O"}


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
    call("marks")
    _, possible, *students = csv.reader((course / "canvas.csv").open(encoding="utf-8"))
    assert len(possible) == 6 + len(SCHOOL) and possible[5:] == students[0][5:]
