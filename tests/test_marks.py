"""Marks as columns of Moodle and Canvas, and who to look at; a class has nbgrader's own gradebook."""

from __future__ import annotations

from pathlib import Path

import pytest
from lrp_book.marks import Mark, by_hand, columns, main

MARKS = [
    *(Mark(name, "", "", "", "two", None, 4.0, "nothing handed in", {}) for name in ("ada", "bob", "cem")),
    Mark("ada", "Lovelace", "Ada", "ada@example.org", "one", 2.0, 2.0, "", {"a": 1.0, "b": 1.0}),
    Mark("bob", "O, Neil", "Bob", "bob@example.org", "one", 0.5, 2.0, "late", {"a": 0.5, "b": 0.0}),
    Mark("cem", "", "", "", "one", None, 2.0, "could not be graded", {}),
]


def test_the_columns_of_both_platforms() -> None:
    """What is no mark stays empty: both read that as none."""
    moodle, canvas = columns(MARKS).values()
    assert moodle[0] == ["ID number", "First name", "Last name", "Email address", "one"]
    assert moodle[1] == ["ada", "Ada", "Lovelace", "ada@example.org", "2"]
    assert [row[-1] for row in moodle[1:]] == ["2", "0.5", ""]
    assert canvas[0] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "one"]
    assert canvas[1] == ["    Points Possible", "", "", "", "", "2"]
    assert canvas[3] == ["O, Neil, Bob", "", "", "bob", "", "0.5"] and canvas[4][0] == "cem"


def test_who_is_looked_at_by_hand() -> None:
    told = ["one, late: bob", "one, could not be graded: cem", "one, from nobody in the gradebook: b0b"]
    assert by_hand(MARKS, [("one", "ada"), ("one", "b0b")]) == told
    nothing = [mark._replace(points=dict.fromkeys(mark.points, 0.0)) for mark in MARKS]
    assert [line.partition(";")[0] for line in by_hand(nothing, [])[2:]] == [
        "a: nobody has a point",
        "b: nobody has a point",
    ]


def test_a_folder_without_a_gradebook_is_refused(tmp_path: Path) -> None:
    """An old `grades.csv` was once read beside a new gradebook: 0 for three students who had 3 of 3."""
    (tmp_path / "grades.csv").write_text("student_id,score\nada,1\n")
    with pytest.raises(SystemExit, match="got no gradebook.db in .*run nbgrader autograde there"):
        main([str(tmp_path)])
