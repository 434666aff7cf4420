"""The course: plans, links that hold what they name, claims that are so, no answer for students."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from browsing import ROOT
from lrp_book import sessions, student
from test_exercise_numbers import OURS

from lrp_companion.lab.load import load_run
from lrp_companion.schema import AXIS_OPTIONS

BOOK = Path(tempfile.mkdtemp(prefix="course-"))
"""The book's own pages as a build lays them out: with what is made of each session's deck."""
atexit.register(shutil.rmtree, BOOK, ignore_errors=True)
shutil.copytree(
    ROOT / "book", BOOK, ignore=shutil.ignore_patterns("lrp_book", "*.egg-info"), dirs_exist_ok=True
)
sessions.write_pages(BOOK)
COURSE = BOOK / "course"
SESSIONS = ("session1", "session2", "session3")
STUDENT = {name: (COURSE / f"{name}.md").read_text(encoding="utf-8") for name in SESSIONS}
TEACHER = {
    path.stem: path.read_text(encoding="utf-8") for path in sorted((COURSE / "instructor").glob("*.md"))
}
PAGES = {
    path.relative_to(COURSE).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(COURSE.rglob("*.md"))
}
LINK = re.compile(r"\{state\}`([^`]*?) <([^`>]*)>`")
REF = re.compile(r"\{ref\}`[^`]*`")


def goals(text: str) -> list[str]:
    return re.findall(r"^\d\. (.+)$", re.split(r"^## ", text, flags=re.MULTILINE)[1], re.MULTILINE)


def test_the_commands_of_the_project_are_commands() -> None:
    from lrp_companion.cli import parser

    (block,) = re.findall(r"```bash\n(.*?)```", PAGES["project.md"], re.DOTALL)
    called = [line.split()[1:] for line in block.splitlines() if line.startswith(".venv/bin/lrp-companion")]
    assert len(called) == 5
    for arguments in called:
        parser().parse_args(arguments)
    assert "-p results runs/mine" in block and 'results = "results"' in (
        ROOT / "notebooks/06_protocol_audit.ipynb"
    ).read_text().replace('\\"', '"')


def test_no_switch_alone_reverses_the_order_and_site_with_tokens_does() -> None:
    run = load_run(ROOT / "results/sst2-companion")
    for axis, options in AXIS_OPTIONS.items():
        for option in set(options):
            changed = replace(OURS, **{axis: option})
            assert (run.r("cp-lrp", changed) - run.r("attnlrp", changed)).mean() < 0, (axis, option)


@pytest.fixture(scope="module")
def stripped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The book's own pages as the student edition has them."""
    folder = tmp_path_factory.mktemp("student")
    shutil.copytree(BOOK, folder / "book")
    shutil.copy(ROOT / "_toc.yml", folder)
    student.strip_folder(folder)
    return folder


def told(text: str) -> Iterator[str]:
    """What only an instructor's page says: its prose and cells, without what the student's page has too."""
    for piece in re.split(r"[|\n]", LINK.sub("", REF.sub("", text))):
        if len(words := re.sub(r"[^\w\s]", " ", piece).split()) >= 7 and "include" not in words:
            yield piece.strip()


def test_the_student_edition_has_no_instructors_page_no_link_to_one_and_no_answer(stripped: Path) -> None:
    kept = {
        path.relative_to(stripped).as_posix(): path.read_text(encoding="utf-8")
        for path in stripped.rglob("*")
        if path.suffix in (".md", ".yml")
    }
    quizzes = {path.stem for path in (stripped / "book/quizzes").iterdir()}
    assert {path.stem for path in (COURSE.parent / "quizzes").iterdir()} - quizzes == {"inventory"}
    assert not list(stripped.rglob("*instructor*"))
    assert {f"book/course/{name}.md" for name in SESSIONS} <= set(kept)
    assert not [name for name, text in kept.items() if re.search(r"instructor/|For instructors", text)]
    everything = "\n".join(text for name, text in kept.items() if "transcript" not in name)  # what all hear
    asked = {goal for text in STUDENT.values() for goal in goals(text)}
    answers = [piece for text in TEACHER.values() for piece in told(text) if piece[3:] not in asked]
    assert len(answers) > 100 and not [piece for piece in answers if piece in everything]
    assert "no mark hangs on it" in PAGES["project.md"] and "no mark hangs on it" not in everything
    for name in SESSIONS:
        head, _, page = STUDENT[name].partition(":::{container} instructors\n")
        links, _, rest = page.partition("\n:::\n\n")
        assert kept[f"book/course/{name}.md"] == head + rest, "a student's page is the same but for one line"
        assert links.count("](instructor/") == 2 and "Deck](" in head and "transcript](" in head
