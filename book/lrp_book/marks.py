"""nbgrader's marks as the columns that Moodle and Canvas import, and who has to be looked at by hand.

    nbgrader export
    python -m lrp_book.marks COURSE

nbgrader exports 0 where it gave no mark: nothing handed in, a notebook that could not be graded, cells that
lost their metadata. Such a mark is left empty here, which both platforms read as no mark, and is named.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import nbformat

from lrp_companion.checks import CompanionError, InputError

_NEEDED = {"assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email", "score"}
_CANVAS = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
_MOODLE = ["ID number", "First name", "Last name", "Email address"]


class Mark(NamedTuple):
    """A student's mark for an assignment: None where there is none, and `why` says why; `out_of` points."""

    student: str
    last: str
    first: str
    email: str
    assignment: str
    score: float | None
    out_of: float
    why: str
    late: bool


def read(course: Path) -> list[Mark]:
    """Return all marks of nbgrader's folder of a course, in the order of its `grades.csv`."""
    path = course / "grades.csv"
    if not path.is_file():
        got, hint = f"no {path.name} in {course}", "run nbgrader export there"
        raise InputError("marks", got=got, expected="the folder of a course", hint=hint)
    if any(book.stat().st_mtime > path.stat().st_mtime for book in course.glob("gradebook.db")):
        got, hint = f"a {path.name} older than the gradebook", "run nbgrader export again"
        raise InputError("marks", got=got, expected="what was exported last", hint=hint)
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows or not (_NEEDED | {"max_score"}) <= rows[0].keys():
        got, hint = f"the columns {', '.join(rows[0] if rows else [])}", "run nbgrader export without options"
        raise InputError("marks", got=got, expected=", ".join(sorted(_NEEDED)), hint=hint)
    return [_mark(course, row) for row in rows]


def _mark(course: Path, row: dict[str, str]) -> Mark:
    why = _no_mark(course, row["student_id"], row["assignment"])
    who = (row["student_id"], row["last_name"], row["first_name"], row["email"], row["assignment"])
    late = bool(row["duedate"] and row["timestamp"] > row["duedate"])  # both as YYYY-MM-DD HH:MM:SS
    return Mark(*who, None if why else float(row["score"]), float(row["max_score"]), why, late)


def _no_mark(course: Path, student: str, assignment: str) -> str:
    """Why a student has no mark, or "" if there is one."""
    if not any((course / "submitted" / student / assignment).glob("*")):
        return "nothing handed in"
    graded = sorted((course / "autograded" / student / assignment).glob("*.ipynb"))
    if not graded:
        return "could not be graded: nbgrader's message says why"
    wanted = _points(course.glob(f"source/{assignment}/*.ipynb"))
    lost = sorted(wanted - _points(graded))
    text = "".join(cell.source for path in graded for cell in nbformat.read(path, as_version=4).cells)
    kept = [name for name in lost if f'check("{name}"' in text]
    said = {"its test cells were deleted": set(lost) - set(kept), "its cells lost nbgrader's metadata": kept}
    return "; ".join(f"{why}: {', '.join(sorted(names))}" for why, names in said.items() if names)


def _points(paths: Iterator[Path] | Sequence[Path]) -> set[str]:
    """The names of the cells that give points."""
    cells = [cell for path in paths for cell in nbformat.read(path, as_version=4).cells]
    settings = [cell.metadata.get("nbgrader", {}) for cell in cells]
    return {one["grade_id"] for one in settings if one.get("grade")}


def columns(marks: Sequence[Mark]) -> dict[str, list[list[str]]]:
    """Return the two files as rows: a column for each assignment in which anybody has a mark."""
    out_of = {mark.assignment: f"{mark.out_of:g}" for mark in marks if mark.score is not None}
    students = {mark.student: mark for mark in marks}
    scores = {(mark.student, mark.assignment): f"{mark.score:g}" for mark in marks if mark.score is not None}
    canvas = [[*_CANVAS, *out_of], ["    Points Possible", "", "", "", "", *out_of.values()]]
    moodle = [[*_MOODLE, *out_of]]
    for student, one in students.items():
        given = [scores.get((student, assignment), "") for assignment in out_of]
        name = ", ".join(part for part in (one.last, one.first) if part) or student
        canvas.append([name, "", "", student, "", *given])
        moodle.append([student, one.first, one.last, one.email, *given])
    return {"moodle.csv": moodle, "canvas.csv": canvas}


def write(course: Path) -> list[Path]:
    """Write `moodle.csv` and `canvas.csv` into the course's folder; return them."""
    written = []
    for name, rows in columns(read(course)).items():
        with (course / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
        written.append(course / name)
    return written


def main(arguments: Sequence[str] | None = None) -> int:
    """Write both files, and name who is late and who has no mark; return 2 if there are no marks."""
    parser = argparse.ArgumentParser(prog="python -m lrp_book.marks")
    parser.add_argument("course", type=Path, help="nbgrader's folder of the course")
    try:
        written = write(course := parser.parse_args(arguments).course)
    except CompanionError as error:
        print(error, file=sys.stderr)
        return 2
    marks = read(course)
    begun = {mark.assignment for mark in marks if mark.score is not None}
    told = [(mark, mark.why or "late") for mark in marks if mark.why or mark.late]
    for assignment, why in dict.fromkeys((mark.assignment, why) for mark, why in told):
        who = [mark.student for mark, one in told if (mark.assignment, one) == (assignment, why)]
        if assignment in begun:
            print(f"{assignment}, {why}: {', '.join(who)}")
    print(*written, sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
