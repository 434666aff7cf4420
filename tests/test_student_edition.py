"""The student edition: solutions are gone, all else stays, notebooks run up to their first gap."""

from __future__ import annotations

import copy
import re
import zipfile
from pathlib import Path
from typing import Any

import nbformat
import pytest

pytest.importorskip("papermill", reason="papermill comes with the extra book")

from browsing import ROOT, complaints_of_axe
from grading_class import with_numpy_alone
from lrp_book import student
from lrp_book.sphinx.quizzes import read_quiz
from lrp_book.student import (
    BEGIN,
    END,
    GAP,
    student_notebook,
    without_code_solutions,
    without_solution_blocks,
)
from lrp_exercises import exercises
from test_exercise_numbers import ASKED, SOLVED

from lrp_companion.checks import InputError

EXERCISES = sorted((ROOT / "notebooks/exercises").glob("*.ipynb"))


def cells(path: Path, kind: str = "code") -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == kind]


def test_a_gap_replaces_each_solution_and_nothing_else() -> None:
    source = (
        f"def f(x):\n    {BEGIN}\n    y = 2\n    return x * y\n    {END}\n\n\nprint(f(1))\n"
        f"{BEGIN}\na = 1\n{END}\nb = 2\n"
    )
    assert without_code_solutions(source) == f"def f(x):\n    {GAP}\n\n\nprint(f(1))\n{GAP}\nb = 2\n"
    assert without_code_solutions("x = 1  # BEGIN\n") == "x = 1  # BEGIN\n"


def test_solution_blocks_go_with_all_that_is_in_them() -> None:
    long = "````{solution} one\n:class: dropdown\n```python\nx\n```\nsecret\n````\n"
    short = "```{solution} two\nsecret\n```\n:::{solution} three\nsecret\n:::\n"
    assert without_solution_blocks(f"A\n\n{long}\n{short}\nB\n") == "A\n\nB\n"
    shown = "````md\n```{solution} as it is written\nexample\n```\n````\n"
    assert without_solution_blocks(shown) == shown, "a block that only shows how a solution is written stays"
    inside = ":::{admonition} Box\n```{solution} one\nsecret\n```\nstays\n:::\n"
    assert without_solution_blocks(inside) == ":::{admonition} Box\nstays\n:::\n"
    with pytest.raises(InputError, match="a solution in line 2; expected its end"):
        without_solution_blocks("A\n```{solution} one\n")


@pytest.mark.parametrize("path", EXERCISES, ids=lambda path: path.stem)
def test_a_student_notebook_differs_in_solutions_and_outputs_only(path: Path) -> None:
    whole = nbformat.read(path, as_version=4)
    before = copy.deepcopy(whole)
    edition = student_notebook(whole)
    assert whole == before, "the solution notebook is not touched"
    assert edition.metadata == whole.metadata and len(edition.cells) == len(whole.cells)
    gaps = 0
    for old, new in zip(whole.cells, edition.cells, strict=True):
        assert (old.cell_type, old.id, old.metadata) == (new.cell_type, new.id, new.metadata)
        if BEGIN not in old.source:
            assert old.source == new.source
            continue
        head, _, rest = old.source.partition(BEGIN)
        tail = rest.partition(END)[2]
        assert new.source == f"{head}{GAP}{tail}" and BEGIN not in new.source and END not in new.source
        gaps += 1
    assert gaps >= 3 and not any(cell.get("outputs") for cell in edition.cells)


def test_no_file_of_the_student_edition_holds_a_solution(html: Path) -> None:
    """No words of a solution on a page, no line of one in code."""
    student = ROOT / "_build/student/html"
    if not student.is_dir():
        pytest.skip("there is no student edition; run make student")
    asked, words = " ".join(ASKED.values()), [re.findall(r"\w[\w ,']{24,}", text) for text in SOLVED.values()]
    lines = [line.strip() for one in exercises() for line in one.solution.splitlines()[1:]]
    pieces = {max(of, key=len) for of in words if of} | {line for line in lines if len(line) > 30}
    pieces -= {piece for piece in pieces if piece in asked or set(piece) & set("<>&\"'")}
    whole, without = (
        "".join(path.read_text(errors="ignore") for path in sorted(folder.rglob("*")) if path.suffix in READ)
        for folder in (html, student)
    )
    assert len([piece for piece in pieces if piece in whole]) > 40
    assert not [piece for piece in pieces if piece in without] and "Your code here." in without


READ = (".html", ".txt", ".md", ".ipynb")


QUIZ = "notebooks/01_product_counterexample.html"


def test_a_quiz_is_answered_by_keyboard(site: str, visit: Any) -> None:
    page, of = visit(f"{site}/{QUIZ}"), len(read_quiz(ROOT / "book/quizzes/01_product_counterexample.toml"))
    page.wait_for_selector(".companion-quiz[data-ready]")
    first = page.locator(".quiz-question").first
    assert first.get_by_role("group", name="Question 1.").count() == 1, (
        "the question is the legend of its answers"
    )
    radios, check, status = (
        first.get_by_role("radio"),
        first.get_by_role("button", name="Check"),
        first.get_by_role("status"),
    )
    assert first.locator("details").is_hidden(), "no answer shows before one is given"
    check.click()
    assert status.inner_text() == "Choose an answer first."
    radios.nth(0).focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert "✗ Question 1, answer A:" in status.inner_text() and "No. Equal shares" in status.inner_text()
    assert first.locator("details").is_hidden() and page.locator(".quiz-score").inner_text() == ""
    radios.nth(0).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert "✓ Question 1, answer B:" in status.inner_text() and "Right." in status.inner_text()
    assert "No." not in status.inner_text()
    assert page.locator(".quiz-score").inner_text() == f"1 of {of} answered, 0 at the first try."
    first.locator("summary").click()
    others = first.locator(".quiz-answers li:visible")
    assert [item.inner_text()[:3] for item in others.all()] == ["No.", "No."]
    assert others.evaluate_all("items => items.map(item => item.value)") == [1, 3], (
        "letters A and C: B is shown above"
    )
    second = page.locator(".quiz-question").nth(1)
    assert second.is_hidden(), "a question at a time"
    page.get_by_role("button", name="Next question").press("Enter")
    assert first.is_hidden()
    assert second.get_by_role("radio").first.evaluate("radio => radio === document.activeElement")
    second.get_by_role("radio").nth(2).check()
    second.get_by_role("button", name="Check").click()
    assert page.locator(".quiz-score").inner_text() == f"2 of {of} answered, 1 at the first try."
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
        assert not complaints_of_axe(page, ".companion-quiz")
    asked = page.evaluate(
        "[document.querySelectorAll('.companion-quiz .math').length, "
        "document.querySelectorAll('.companion-quiz mjx-container').length]"
    )
    assert asked[0] == asked[1] > 0


def test_a_quiz_is_read_without_a_script(site: str, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site}/{QUIZ}")
    first = page.locator(".quiz-question").first
    assert first.get_by_role("list").count() >= 1 and first.locator(".quiz-options li").count() == 3
    fold = first.locator("details")
    assert fold.locator("li").first.is_hidden()
    fold.locator("summary").click()
    assert [item.inner_text()[:3] for item in fold.locator("li").all()] == ["No.", "Rig", "No."]
    context.close()


def test_the_bundle_needs_numpy_alone(tmp_path: Path) -> None:
    """Solutions that are not about torch pass, and wrong answers are told what is wrong, in a process that
    finds nothing else to import: three slips asked for SciPy, and ended in a traceback.
    """
    notebooks = student.write_notebooks(ROOT / "notebooks/exercises", tmp_path / "out")
    with zipfile.ZipFile(student.write_bundle(ROOT, notebooks, tmp_path / "x.zip")) as bundle:
        bundle.extractall(tmp_path)
    here = tmp_path / "lrp-exercises"
    assert len(list(here.glob("*.ipynb"))) == 5 and (here / "README.txt").is_file()
    code = """
import numpy as np
from lrp_exercises import check, exercises
import lrp_exercises
assert lrp_exercises.__file__.startswith(HERE)
for one in exercises():
    scope = {"np": np}
    exec(one.solution, scope)
    result = check(one.name, scope[one.signature.partition("(")[0]])
    print(result.passes or result.message)
    for wrong in (lambda *a: 0.3, lambda *a: a[0], lambda *a: (a[0], a[-1]), lambda *a: None):
        assert not check(one.name, wrong) and check(one.name, wrong).message
"""
    done = with_numpy_alone(here, code.replace("HERE", repr(str(here))))
    assert done.returncode == 0, done.stderr
    told = ["This check needs torch, which is not installed: pip install torch."]
    assert done.stdout.splitlines() == [
        line for one in exercises() for line in (told if one.autograd else ["True"])
    ]
