"""The marks of nbgrader's gradebook as the columns that Moodle and Canvas import, and who to look at by hand.

    python -m lrp_book.marks COURSE

This runs where nbgrader does. A zero that is no mark, since nothing was handed in or nothing could be graded,
is left empty, which both platforms read as no mark, and is named.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

_CANVAS = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
_MOODLE = ["ID number", "First name", "Last name", "Email address"]


class Mark(NamedTuple):
    """A student's mark for an assignment, None where there is none; `told` is what to know of it, or why.

    `points` are those of each exercise.
    """

    student: str
    last: str
    first: str
    email: str
    assignment: str
    score: float | None
    out_of: float
    told: str
    points: dict[str, float]


def read(course: Path) -> list[Mark]:
    """Return a mark for every assignment and student in the gradebook of a course.

    Raises
    ------
    SystemExit : no gradebook there.
    """
    if not (course / "gradebook.db").is_file():
        raise SystemExit(f"marks: got no gradebook.db in {course}; expected the folder of a course. "
                         "Next step: run nbgrader autograde there.")  # fmt: skip
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course.resolve() / 'gradebook.db'}") as book:
        graded = {
            (one.assignment.name, one.student.id): one for a in book.assignments for one in a.submissions
        }
        return [
            _mark(course, student, assignment, graded.get((assignment.name, student.id)))
            for assignment in book.assignments
            for student in book.students
        ]


def _mark(course: Path, student: Any, assignment: Any, graded: Any) -> Mark:
    place = Path(student.id, assignment.name)
    files = sorted((course / "submitted" / place).glob("*.ipynb"))
    none = ""
    if not any((course / "submitted" / place).glob("*")):
        none = "nothing handed in"
    elif not graded or not any((course / "autograded" / place).glob("*.ipynb")):
        none = "could not be graded: nbgrader's message says why"
    elif len({_time(course / of / place) for of in ("submitted", "autograded")}) > 1:
        none = "handed in again: run nbgrader autograde"
    told = [none or ("late" if graded.total_seconds_late > 0 else "")]
    if len(files) > 1 and not none:
        told.append(f"{len(files)} notebooks, of which {assignment.name}.ipynb counts")
    score = None if none else max(0.0, graded.score - graded.late_submission_penalty)
    names = (student.last_name or "", student.first_name or "", student.email or "")
    points = {} if none else {one.name: one.score for of in graded.notebooks for one in of.grades}
    say = "; ".join(filter(None, told))
    return Mark(student.id, *names, assignment.name, score, assignment.max_score, say, points)


def _time(folder: Path) -> str:
    path = folder / "timestamp.txt"
    return path.read_text().strip() if path.is_file() else ""


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


def by_hand(marks: Sequence[Mark], handed_in: Sequence[tuple[str, str]]) -> list[str]:
    """Return what to look at, a line for each kind; `handed_in` has each assignment's folders by student."""
    begun = {mark.assignment for mark in marks if mark.score is not None}
    known = {mark.student for mark in marks}
    told = [(mark.assignment, mark.told, mark.student) for mark in marks if mark.told]
    told += [(of, "from nobody in the gradebook", who) for of, who in handed_in if who not in known]
    kinds = dict.fromkeys((of, why) for of, why, _ in told if of in begun)
    lines = [
        f"{of}, {why}: {', '.join(who for *kind, who in told if kind == [of, why])}" for of, why in kinds
    ]
    best: dict[str, float] = {}
    for name, points in ((name, points) for mark in marks for name, points in mark.points.items()):
        best[name] = max(points, best.get(name, 0))
    runs = "nobody has a point; is what it needs (lrp_exercises, torch) where the notebooks run?"
    return lines + [f"{name}: {runs}" for name, points in best.items() if not points]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write both files into the course's folder, and name who has to be looked at."""
    parser = argparse.ArgumentParser(prog="python -m lrp_book.marks")
    parser.add_argument("course", type=Path, help="nbgrader's folder of the course")
    course = parser.parse_args(arguments).course
    marks = read(course)
    folders = [(path.name, path.parent.name) for path in sorted(course.glob("submitted/*/*"))]
    print(*by_hand(marks, folders), sep="\n")
    for name, rows in columns(marks).items():
        with (course / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
        print(course / name)


if __name__ == "__main__":
    main()
