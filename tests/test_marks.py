"""nbgrader's marks as columns of Moodle and Canvas; a zero that is no mark stays empty and is named."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import nbformat
import pytest
from lrp_book.marks import main, read, write
from lrp_book.nbgrader import tags

from lrp_companion.checks import InputError

HEAD = (
    "assignment,duedate,timestamp,student_id,last_name,first_name,email,raw_score,late_submission_penalty,"
    "score,max_score\n"
)
DUE, BEFORE, AFTER = "2026-03-01 12:00:00", "2026-02-28 09:00:00", "2026-03-02 09:00:00"


def notebook(path: Path, *names: str) -> None:
    cells = [nbformat.v4.new_code_cell("", metadata=tags(name, grade=True, points=1)) for name in names]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Five students: right, late, nothing handed in, not graded, metadata lost and a test deleted."""
    rows = [
        *(f"two,,,{name},,,,0.0,0.0,0.0,4.0" for name in ("ada", "bob", "cem", "dan", "eve")),
        f"one,{DUE},{BEFORE},ada,Lovelace,Ada,ada@example.org,2.0,0.0,2.0,2.0",
        f'one,{DUE},{AFTER},bob,"O, Neil",Bob,bob@example.org,1.0,0.5,0.5,2.0',
        f"one,{DUE},,cem,Öz,Cem,cem@example.org,0.0,0.0,0.0,2.0",
        f"one,{DUE},{BEFORE},dan,,,,0.0,0.0,0.0,2.0",
        f"one,{DUE},{BEFORE},eve,E,Eve,eve@example.org,1.0,0.0,1.0,2.0",
    ]
    (tmp_path / "grades.csv").write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")
    notebook(tmp_path / "source/one/one.ipynb", "a", "b", "c")
    for name, cells in {"ada": "abc", "bob": "abc", "dan": "", "eve": "a"}.items():
        notebook(tmp_path / f"submitted/{name}/one/one.ipynb", *cells)
        if cells:
            notebook(tmp_path / f"autograded/{name}/one/one.ipynb", *cells)
    bare = nbformat.read(path := tmp_path / "autograded/eve/one/one.ipynb", as_version=4)
    bare.cells.append(nbformat.v4.new_code_cell('result = check("b", answer)'))
    nbformat.write(bare, path)
    return tmp_path


def test_marks_and_what_is_none(course: Path) -> None:
    marks = {mark.student: mark for mark in read(course) if mark.assignment == "one"}
    scores = {"ada": 2.0, "bob": 0.5, "cem": None, "dan": None, "eve": None}
    assert {name: mark.score for name, mark in marks.items()} == scores
    assert [name for name, mark in marks.items() if mark.late] == ["bob"]
    assert marks["cem"].why == "nothing handed in" and "could not be graded" in marks["dan"].why
    assert marks["eve"].why == "its test cells were deleted: c; its cells lost nbgrader's metadata: b"


def test_an_old_export_is_not_mixed_with_a_new_gradebook(course: Path) -> None:
    (course / "gradebook.db").touch()
    os.utime(course / "grades.csv", (0, 0))
    with pytest.raises(InputError, match="older than the gradebook.*run nbgrader export again"):
        read(course)


def test_the_columns_of_both_platforms(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(course)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[:2] == ["one, late: bob", "one, nothing handed in: cem"] and len(told) == 4 + 2
    assert told[3] == "one, its test cells were deleted: c; its cells lost nbgrader's metadata: b: eve"
    moodle, canvas = (
        list(csv.reader((course / name).open(encoding="utf-8"))) for name in ("moodle.csv", "canvas.csv")
    )
    assert moodle[0] == ["ID number", "First name", "Last name", "Email address", "one"]
    assert moodle[1] == ["ada", "Ada", "Lovelace", "ada@example.org", "2"]
    assert [row[-1] for row in moodle[1:]] == ["2", "0.5", "", "", ""]
    assert canvas[0] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "one"]
    assert canvas[1] == ["    Points Possible", "", "", "", "", "2"]
    assert canvas[3] == ["O, Neil, Bob", "", "", "bob", "", "0.5"] and canvas[5][0] == "dan"
    assert {len(row) for row in canvas} == {6}
    assert {path.name for path in write(course)} == {"moodle.csv", "canvas.csv"}
