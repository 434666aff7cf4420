"""The course: plans, links that hold what they name, claims that are so, no answer for students."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from browsing import ROOT, follow, open_page
from lrp_book import sessions, student
from test_exercise_numbers import EVERYTHING, OURS, curves, r_of, state

import lrp_companion as lrp
from lrp_companion.checks import InputError
from lrp_companion.lab.load import load_run
from lrp_companion.metrics import bootstrap_mean
from lrp_companion.schema import AXIS_OPTIONS
from lrp_companion.toys.product import Product
from lrp_companion.toys.softmax_step import SoftmaxStep

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
LINKS = [(page, *match) for page, text in PAGES.items() for match in LINK.findall(text)]
EXERCISE = re.compile(r"\{ref\}`([^`<]+) <(ex-[\w-]+)>`")


def section(text: str, heading: str) -> str:
    (body,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return body


def rows(text: str) -> list[list[str]]:
    """The first table of a text, without its head."""
    table: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("|"):
            table.append([cell.strip() for cell in line.strip("|").split("|")])
        elif table:
            break
    return table[2:]


def goals(text: str) -> list[str]:
    return re.findall(r"^\d\. (.+)$", re.split(r"^## ", text, flags=re.MULTILINE)[1], re.MULTILINE)


# -- plans, goals, marks -------------------------------------------------------------------------------------


def test_exercises_are_called_by_their_titles() -> None:
    written = [*(ROOT / "book").rglob("*.md"), *(ROOT / "notebooks").glob("*.ipynb")]
    sources = "\n".join(path.read_text(encoding="utf-8").replace("\\n", "\n") for path in written)
    titles = {
        label: title
        for title, label in re.findall(r"\{exercise\} ([^\"\n]+)[\"\n, ]+:label: ([\w-]+)", sources)
    }
    mentions = [pair for text in PAGES.values() for pair in EXERCISE.findall(text)]
    assert len(mentions) > 30 and not [(name, label) for name, label in mentions if titles.get(label) != name]
    assert not [text for text in PAGES.values() if re.search(r"\{ref\}`ex-", text)], (
        "a number alone says nothing"
    )


def test_marks_sum_to_100() -> None:
    marks = rows(section(PAGES["project.md"], "Marks"))
    assert sum(int(points) for _, points, *_ in marks) == 100
    assert all(len(row) == 4 and all(row) for row in marks)


def test_oral_questions_have_an_answer_and_a_follow_up() -> None:
    questions = re.findall(
        r"^(\d+)\. \*\*(.+?)\*\*\n\n +(.+?)\n +\*Follow-up:\* (.+)$", TEACHER["oral"], re.MULTILINE
    )
    assert [int(number) for number, *_ in questions] == list(range(1, 15))
    assert all(ask.rstrip("*")[-1] in "?." and len(answer.split()) >= 8 for _, ask, answer, _ in questions)


def test_no_result_is_typed_in() -> None:
    """A decimal number stands in a link's state or in code only; results are read on the chapters' pages."""
    for page, text in PAGES.items():
        plain = re.sub(
            r"```(?:python|bash)\n.*?```|<[^<>`]*#[^<>`]*>", "", EXERCISE.sub("", text), flags=re.DOTALL
        )
        decimals = [] if "sheet" in page else re.findall(r"\d+\.\d+", plain)  # a sheet is the deck's notes
        assert not decimals, (page, decimals)


# -- what the answers say is so ------------------------------------------------------------------------------


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


def test_autograd_gives_every_factor_all_of_the_product(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", STUDENT["session1"], re.DOTALL)
    exec(compile(code, "session 1", "exec"), {})
    assert capsys.readouterr().out == f"{[24.0] * 3}\n" * 2
    assert [float(x) for x in Product((2, 3, 4)).loo()] == [24.0] * 3


def test_shares_that_session_1_shows() -> None:
    assert (
        Product((3, 3, 3), "(x1 x2) x3").relevance()[2]
        == max(Product((3, 3, 3), "(x1 x2) x3").relevance())
        == 13.5
    )
    assert len(set(Product((2, 3, 4, 5), "(x1 x2) (x3 x4)").relevance())) == 1


def test_rollout_removes_other_words_and_the_logit_falls_later() -> None:
    path = curves(2, "loo", "rollout")
    assert path["label"] == "positive"
    methods = path["methods"]
    first = [
        [step["tokens"] if isinstance(step, dict) else step for step in methods[name]["morf"]["steps"][:2]]
        for name in ("loo", "rollout")
    ]
    assert not set(map(str, first[0])) & set(map(str, first[1]))
    assert methods["rollout"]["morf"]["mean"] > methods["loo"]["morf"]["mean"]


def test_the_vote_of_session_2_turns_and_its_masks_do_not_travel() -> None:
    word, everything = r_of(0, OURS), r_of(0, EVERYTHING)
    assert word[0] > word[-1] and everything[0] < everything[-1]
    hunted = {place: r_of(place, EVERYTHING) for place in (0, 2, 4)}
    travels = [hunted[j].argmax() == hunted[i].argmax() for i in hunted for j in hunted if i != j]
    assert np.mean(travels) < 0.5
    assert max(hunted[4][1 << layer] for layer in range(12)) < 0.8 < hunted[4].max()


def test_sliders_answer_as_the_page_says() -> None:
    even, apart = SoftmaxStep([0, 0, 0, 0], [1, 1, 1, 1]), SoftmaxStep([0, 0, 0, 0], [1, 1, 1, 2])
    assert np.allclose(even.loo(), 0) and (even.cp_lrp() > 0).all() and (even.attnlrp() > 0).all()
    assert (np.abs(apart.loo() - even.loo()) > 0.01).all(), "LOO moves at every token"
    assert np.allclose(apart.cp_lrp()[:3], even.cp_lrp()[:3]) and apart.cp_lrp()[3] > even.cp_lrp()[3]
    here, there = (SoftmaxStep(np.array([2, 1, 0, 0]) - c, [1, -0.5, 0.5, 0.25]) for c in (0, 8))
    for name in ("loo", "cp_lrp"):
        assert np.allclose(getattr(here, name)(), getattr(there, name)())
    assert here.attnlrp().sum() == pytest.approx(there.attnlrp().sum())
    assert lrp.pearson(here.attnlrp(), here.loo()) > 0 > lrp.pearson(there.attnlrp(), there.loo())


def test_a_constant_at_the_logits_moves_attnlrp_once_a_value_differs() -> None:
    for values, moves in (([1, 1, 1, 1], False), ([1, 1, 1, 2], True)):
        here, there = (SoftmaxStep([c] * 4, values) for c in (0, 1))
        assert np.allclose(here.loo(), there.loo())
        assert np.allclose(here.attnlrp(), there.attnlrp()) != moves


def test_three_layers_of_the_later_half_move_r_as_the_deck_says() -> None:
    r, later = r_of(0, EVERYTHING), sum(1 << layer for layer in range(6, 12))
    steps = {layer: r[later ^ 1 << layer - 1] - r[later] for layer in (9, 8, 3)}
    assert steps[9] < -0.01 and steps[8] < -0.01 and steps[3] > 0.01


def test_no_switch_alone_reverses_the_order_and_site_with_tokens_does() -> None:
    run = load_run(ROOT / "results/sst2-companion")
    for axis, options in AXIS_OPTIONS.items():
        for option in set(options):
            changed = replace(OURS, **{axis: option})
            assert (run.r("cp-lrp", changed) - run.r("attnlrp", changed)).mean() < 0, (axis, option)


def test_the_switchboards_first_run_turns_with_the_protocol() -> None:
    run = load_run(ROOT / "results/sst2-companion")
    words, positions = (
        bootstrap_mean(run.r("cp-lrp", at) - run.r("attnlrp", at)) for at in (OURS, EVERYTHING)
    )
    assert words.high < 0 < positions.low


# -- links ---------------------------------------------------------------------------------------------------


def test_one_name_on_a_page_is_one_state() -> None:
    """A name that leads to two states, or a state under a name that contradicts another page's, is a slip."""
    for page in PAGES:
        links = [(name, link) for where, name, link in LINKS if where == page]
        assert len({name for name, _ in set(links)}) == len(set(links)), page
    assert len(LINKS) >= 40


def test_links_of_the_built_course_lead_to_the_state_that_they_name(site, html, browser):
    """Each address that the pages' links resolve to, opened once: the widget wakes in that state, in view."""
    if not (html / "book/course/instructor/session1.html").is_file():
        pytest.skip("the built book is older than the course; run make book")
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    addresses: dict[str, str] = {}
    for page in PAGES:
        opened, watch = open_page(context, f"{site}/book/course/{page.removesuffix('.md')}.html")
        resolved = opened.locator("article a.companion-state").evaluate_all(
            "links => links.map(link => [link.innerText, link.href])"
        )
        given = [(name, link) for where, name, link in LINKS if where == page]
        assert [name for name, _ in resolved] == [name for name, _ in given] and watch.nothing(), (
            page,
            watch,
        )
        addresses.update({address: link for (_, address), (_, link) in zip(resolved, given, strict=True)})
        opened.close()
    assert set(addresses.values()) == {link for *_, link in LINKS}
    awake: dict[Any, Any] = {}
    for address, link in addresses.items():
        place, name, given = state(unquote(link).replace("+", "%2B"))
        assert f"/{place}.html#" in address
        follow(context, awake, address, name, given)
    context.close()


# -- the student edition -------------------------------------------------------------------------------------


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
    for piece in re.split(r"[|\n]", LINK.sub("", EXERCISE.sub("", text))):
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
    everything = "\n".join(kept.values())
    asked = {goal for text in STUDENT.values() for goal in goals(text)}
    answers = [piece for text in TEACHER.values() for piece in told(text) if piece[3:] not in asked]
    assert len(answers) > 100 and not [piece for piece in answers if piece in everything]
    assert "no mark hangs on it" in PAGES["project.md"] and "no mark hangs on it" not in everything
    for name in SESSIONS:
        assert kept[f"book/course/{name}.md"] == STUDENT[name], (
            "a student's page is the same in both editions"
        )


def test_the_student_edition_keeps_the_table_of_contents_otherwise(stripped: Path) -> None:
    full, shortened = ((folder / "_toc.yml").read_text().splitlines() for folder in (ROOT, stripped))
    assert [line for line in full if "instructor/" not in line] == shortened
    assert len(full) - len(shortened) == len(TEACHER)


def test_a_link_to_an_instructors_page_outside_its_box_is_refused(tmp_path: Path) -> None:
    (tmp_path / "course/instructor").mkdir(parents=True)
    (tmp_path / "course/instructor/one.md").write_text("# Answers\n")
    (tmp_path / "course/index.md").write_text("# Course\n\nSee [the answers](instructor/one.md).\n")
    with pytest.raises(InputError, match=r"student edition of index.md: got a link to instructor/one.md"):
        student.strip_folder(tmp_path)


def test_instructors_pages_say_that_they_are(stripped: Path) -> None:
    for text in TEACHER.values():
        assert text.startswith("# For instructors: ") and "This page is not in the student edition." in text
    sheets = [f"sheet{number}" for number in (1, 2, 3)]
    assert sorted(TEACHER) == sorted(["inventory", "oral", *SESSIONS, *sheets])


def test_no_file_of_the_built_student_edition_has_an_answer() -> None:
    """Pages, their sources, the index of the search: what `make student` made, if it was run."""
    built = ROOT / "_build/student/html"
    if not (built / "book/course/session1.html").is_file():
        pytest.skip("there is no student edition with the course; run make student")
    files = [
        path for path in built.rglob("*") if path.suffix in (".html", ".js", ".md", ".txt", ".json", ".inv")
    ]
    marks = [
        "instructor/",
        "For instructors",
        "minute by minute, with answers",
        "no mark hangs on it",
        "The widget is stuck",
        "Follow-up",
    ]
    assert len(files) > 40 and not [
        (path.name, mark) for path in files for mark in marks if mark in path.read_text(errors="ignore")
    ]
    full = (ROOT / "_build/html/book/course/index.html").read_text(encoding="utf-8")
    assert "For instructors" in full and "instructor/oral.html" in full
