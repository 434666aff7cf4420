"""Grading: right answers pass, slips are named, and hostile notebooks earn nothing and stop nobody else."""

from __future__ import annotations

import csv
import json
import os
import signal
import socket
import time
from pathlib import Path

import numpy as np
import pytest

from lrp_companion.cli import main
from lrp_companion.exercises import exercises, wire
from lrp_companion.exercises.grade_pages import write_grades
from lrp_companion.exercises.grading import Grades, Mark, grade
from lrp_companion.exercises.submission import handed_in, submission
from lrp_companion.schema import InputError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="grading needs processes of a POSIX system")

ROOT = Path(__file__).parent.parent
START = "import numpy as np\nfrom lrp_companion.exercises import check, hint"
RIGHT = {
    "product-rule": "def product_rule(a, b, relevance):\n    return relevance / 2, relevance / 2\n",
    "product-loo": "def product_loo(values):\n    return np.full(len(values), values.prod())\n",
}
CHECKS = 'check("product-rule", product_rule)\ncheck("product-loo", product_loo)'
HOSTILE = {
    "loop": "while True: pass",
    "exit": "import os\nos._exit(0)",
    "print": """
print("passes: product-rule. Right on 3 random inputs.")
def product_rule(a, b, relevance): pass""",
    "edit": """
import lrp_companion.exercises.checking as checking
checking._same = lambda *a, **k: True
checking.answered = lambda *a, **k: [(np.zeros(1),)] * 3
def product_rule(a, b, relevance): return a, b
def product_loo(values): return 0 * values""",
    "descriptors": """
import os
for k in range(3, 64):
    try: os.write(k, b'"forged"\\n{"map": [["passes", true]]}\\n' * 9)
    except OSError: pass
def product_rule(a, b, relevance): return a, b""",
    "lists": """
import os
for k in range(3, 64):
    try: os.write(k, b'[]\\n' + (b'[' + b', '.join([b'{"tuple": ["a", "b"]}'] * 3) + b']\\n') * 9)
    except OSError: pass
def product_rule(a, b, relevance): return a, b""",
    "memory": """
kept = [bytearray(1 << 30) for _ in range(100)]
def product_rule(a, b, relevance): return kept""",
    "network": """
import socket
try:
    socket.create_connection(("127.0.0.1", PORT), timeout=3)
    reached = True
except OSError:
    reached = False
def product_rule(a, b, relevance):
    return (relevance / 2, relevance / 2) if reached else (a, b)""",
    "children": """
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)
def product_rule(a, b, relevance): return a, b""",
    "answers": """
from lrp_companion.exercises.catalogue import EXERCISES
product_rule = EXERCISES["product-rule"].answer""",
}


def notebook(*cells: str) -> str:
    code = [{"cell_type": "code", "source": cell.splitlines(keepends=True), "metadata": {}} for cell in cells]
    return json.dumps({"cells": code, "nbformat": 4, "nbformat_minor": 5, "metadata": {}})


def hand_in(folder: Path, name: str, *cells: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(notebook(START, *cells), encoding="utf-8")
    return path


def results(grades: Grades, student: str) -> dict[str, str]:
    return {mark.exercise: mark.result for mark in grades.of(student)}


def test_all_solutions_of_the_book_pass(tmp_path: Path) -> None:
    for path in sorted((ROOT / "notebooks" / "exercises").glob("*.ipynb")):
        hand_in(tmp_path, f"anna/{path.name}", *submission("", path).cells)
    grades = grade(tmp_path)
    assert {mark.exercise for mark in grades.marks} == set(exercises().names)
    assert grades.points("anna") == (len(exercises()), len(exercises())) and grades.notable["anna"] == ()


def test_slips_are_named_and_what_is_missing_is_said(tmp_path: Path) -> None:
    slip = "%matplotlib inline\n!ls\ndef product_rule(a, b, relevance):\n    return relevance, relevance"
    hand_in(tmp_path, "ben.ipynb", slip, 'check("product-rule", product_rule)')
    hand_in(tmp_path, "cem.ipynb", "def product_rule(:", 'check("product-rule", product_rule)')
    hand_in(tmp_path, "dora.ipynb", "1 + 1")
    (tmp_path / "eva.ipynb").write_text("{", encoding="utf-8")
    grades = grade(tmp_path, seed=7)
    missing = {"grouped-product": "missing", "product-loo": "missing"}
    assert results(grades, "ben") == {"product-rule": "not yet"} | missing
    (twice,) = (mark.says for mark in grades.of("ben") if mark.exercise == "product-rule")
    assert "half" in twice.lower() or "twice" in twice
    (broken,) = (mark.says for mark in grades.of("cem") if mark.exercise == "product-rule")
    assert "NameError" in broken and "SyntaxError" in broken
    assert [mark.says for mark in grades.of("dora")] == ["no exercise is checked in this notebook"]
    assert "not a notebook" in grades.of("eva")[0].says and grades.points("eva") == (0, 1)


def test_hostile_notebooks_earn_nothing_and_stop_nobody_else(tmp_path: Path) -> None:
    """24 notebooks of students who did their work, and ten that try to get by without."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        for k in range(24):
            hand_in(tmp_path, f"honest-{k:02d}.ipynb", *RIGHT.values(), CHECKS)
        for name, code in HOSTILE.items():
            hand_in(tmp_path, f"hostile-{name}.ipynb", code.replace("PORT", port), CHECKS)
        grades = grade(tmp_path, seconds=15)
    for k in range(24):
        got = results(grades, f"honest-{k:02d}")
        assert got == {"product-rule": "passes", "grouped-product": "missing", "product-loo": "passes"}
    for name in HOSTILE:
        assert grades.points(f"hostile-{name}")[0] == 0, name
    assert set(results(grades, "hostile-loop").values()) == {"stopped", "missing"}
    assert "limit of 15 s" in next(m.says for m in grades.of("hostile-loop") if m.result == "stopped")
    assert "ended itself" in next(m.says for m in grades.of("hostile-exit") if m.result == "stopped")
    assert "import socket" in grades.notable["hostile-network"]
    assert "import lrp_companion.exercises.catalogue" in grades.notable["hostile-answers"]
    if grades.network == "closed by the system":
        deadline = time.monotonic() + 10
        while _left_behind() and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not _left_behind(), "processes of a graded notebook are still there"


def _left_behind() -> list[str]:
    """Command lines of processes that run a student's code."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return [line for line in lines if "student_code.py" in line]


def test_without_the_systems_help_python_closes_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lrp_companion.exercises.grading._own_network", lambda: False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = HOSTILE["network"].replace("PORT", str(server.getsockname()[1]))
        hand_in(tmp_path, "a.ipynb", code, CHECKS)
        hand_in(tmp_path, "b.ipynb", *RIGHT.values(), CHECKS)
        grades = grade(tmp_path)
    assert grades.network == "closed in Python only"
    assert grades.points("a")[0] == 0 and grades.points("b")[0] == 2


def test_pages_and_tables_hold_no_markup_and_no_formula(tmp_path: Path) -> None:
    name = "=cmd()<script>alert(1)</script>"
    says = "<img src=x onerror=alert(1)> \x1b[31m \u202e" + "long " * 400
    grades = Grades((Mark(name, "a.ipynb", "product-rule", "not yet", says),), {name: ()}, "closed", 1.0)
    files = {path.name: path.read_text(encoding="utf-8") for path in write_grades(grades, tmp_path / "out")}
    assert set(files) == {"grades.csv", "students.csv", "index.html", "001-cmd-script-alert-1-script.html"}
    for file, text in files.items():
        assert "\x1b" not in text and "\u202e" not in text, file
        if file.endswith(".html"):
            assert "<script>" not in text and "<img" not in text
    (row,) = list(csv.DictReader(files["grades.csv"].splitlines()))
    assert row["student"].startswith("'=") and len(row["says"]) <= 600


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hand_in(tmp_path / "in", "anna/e1.ipynb", *RIGHT.values(), CHECKS)
    out = tmp_path / "out"
    assert main(["grade", str(tmp_path / "in"), "--out", str(out)]) == 0
    assert "anna   2 of  3" in capsys.readouterr().out and (out / "grades.csv").is_file()
    for arguments, says in (
        (["--out", str(out)], "which holds files"),
        (["--out", str(tmp_path / "new"), "--seconds", "0"], "--seconds"),
        (["--out", str(tmp_path / "new"), "--processes", "0"], "--processes"),
    ):
        assert main(["grade", str(tmp_path / "in"), *arguments]) == 2
        assert says in capsys.readouterr().err
    assert main(["grade", str(tmp_path / "nothing"), "--out", str(tmp_path / "new")]) == 2
    assert "which is not a folder" in capsys.readouterr().err


def test_notebooks_are_found_by_student(tmp_path: Path) -> None:
    checkpoint = "anna/.ipynb_checkpoints/e1-checkpoint.ipynb"
    for name in ("b.ipynb", "anna/e1.ipynb", checkpoint, "anna/sub/e2.ipynb"):
        hand_in(tmp_path, name)
    assert [(student, path.name) for student, path in handed_in(tmp_path)] == [
        ("anna", "e1.ipynb"), ("anna", "e2.ipynb"), ("b", "b.ipynb"),
    ]  # fmt: skip
    (tmp_path / "link.ipynb").symlink_to(tmp_path / "b.ipynb")
    assert "a link" in submission("x", tmp_path / "link.ipynb").problem
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="without notebooks"):
        grade(tmp_path / "empty")


@pytest.mark.parametrize(
    "value",
    [1, 2.5, None, "text", ((0, 1), 2), [np.arange(6.0).reshape(2, 3), (np.int64(3),)], {"a": (True,)}],
    ids=range(7),
)
def test_values_come_back_as_they_were(value: object) -> None:
    back = wire.read(wire.written(value))
    assert type(back) is type(value) and repr(back) == repr(wire.read(wire.written(back)))
    if isinstance(value, list):
        np.testing.assert_array_equal(back[0], value[0])


@pytest.mark.parametrize(
    "line",
    [
        "", "{", "{}", '{"array": ["<f8", [2], "AAAA"]}', '{"array": ["O", [1], "AAAAAAAAAAA="]}',
        '{"array": ["<f8", [-1], ""]}', '{"array": ["<f8", "", 3]}', '{"other": 1}', '{"tuple": 3}',
        "[" * 5000, '{"a": 1, "b": 2}', '{"array": ["nonsense", [1], "AAAA"]}',
        '"' + "x" * wire.MOST + '"',
    ],
    ids=range(13),
)  # fmt: skip
def test_what_is_no_message_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        wire.read(line)


def test_what_cannot_be_sent_is_refused() -> None:
    for value in (object(), np.array([object()]), np.zeros(1, np.longdouble), {1, 2}):
        with pytest.raises(ValueError):
            wire.written(value)


def test_a_killed_process_is_told(tmp_path: Path) -> None:
    """As the first of its own processes it cannot kill itself by a signal; else it ends."""
    for k, end in enumerate((f"os.kill(os.getpid(), {int(signal.SIGKILL)})", "os._exit(0)")):
        hand_in(tmp_path, f"{k}.ipynb", f"import os\ndef product_rule(a, b, relevance): {end}", CHECKS)
    grades = grade(tmp_path, seconds=10)
    assert set(results(grades, "0").values()) <= {"stopped", "not yet", "missing"}
    assert set(results(grades, "1").values()) == {"stopped", "missing"}
