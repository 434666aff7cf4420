"""The quizzes as files: five questions a chapter, one right answer each, a reason for every answer."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from browsing import ROOT

pytest.importorskip("sphinx", reason="sphinx comes with the extra book")

from lrp_book.sphinx.quizzes import FOLDER, read_quiz
from sphinx.errors import ExtensionError

FILES = sorted((ROOT / FOLDER).glob("*.toml"))
CHAPTERS = {"primer", *(path.stem for path in (ROOT / "notebooks").glob("0*.ipynb"))}


def test_every_chapter_has_a_quiz_and_every_quiz_a_page() -> None:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    chapters = [chapter for part in toc["parts"] for chapter in part["chapters"]]
    sections = [section for chapter in chapters for section in chapter.get("sections", [])]
    pages = {Path(page["file"]).name for page in (*chapters, *sections)}
    names = {path.stem for path in FILES}
    assert len(CHAPTERS) == 10 and CHAPTERS <= names <= pages


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_five_questions_with_a_reason_for_every_answer(path: Path) -> None:
    questions = read_quiz(path)
    assert len(questions) == (12 if path.stem == "inventory" else 5)
    for question in questions:
        options = question["options"]
        assert len(options) >= 3 and len({option["text"] for option in options}) == len(
            {option["why"] for option in options}
        ) == len(options)
        assert all(option["why"].rstrip().endswith(".") for option in options)
    places = [
        [option.get("right", False) for option in question["options"]].index(True) for question in questions
    ]
    assert len(set(places)) >= 2, "the right answer is not always at the same place"


def test_the_length_of_an_option_is_no_sign_that_it_is_right() -> None:
    """Who always takes the longest option, the shortest or the one between scores 40 % at most."""
    quizzes = [question["options"] for path in FILES for question in read_quiz(path)]
    by_length = [sorted(options, key=lambda one: len(one["text"])) for options in quizzes]
    for place in range(3):
        right = [options[place].get("right", False) for options in by_length]
        assert sum(right) <= 0.4 * len(right), (place, sum(right), len(right))


GOOD = (
    "[[questions]]\nask = 'a'\n[[questions.options]]\ntext = 'b'\nwhy = 'c'\nright = true\n"
    "[[questions.options]]\ntext = 'd'\nwhy = 'e'\n"
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no questions"),
        ("[[questions]\n", "is not a quiz"),
        (GOOD.replace("ask = 'a'", "query = 'a'"), "question 1: got query, options; expected ask, options"),
        (GOOD.replace("why = 'e'", ""), "question 1: got text; expected text, why"),
        (GOOD.replace("why = 'e'", "why = 'e'\nrigth = true"), "question 1: got text, why, rigth"),
        (GOOD.replace("right = true", ""), "exactly one with right = true"),
        (GOOD + "right = true\n", "exactly one with right = true"),
        (GOOD.replace("right = true", "right = 'yes'"), "exactly one with right = true"),
        (GOOD.partition("[[questions.options]]\ntext = 'd'")[0], "two options or more"),
    ],
)
def test_a_faulty_quiz_fails_the_build_by_name(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "page.toml"
    path.write_text(GOOD)
    assert len(read_quiz(path)) == 1
    path.write_text(text)
    with pytest.raises(ExtensionError, match=told):
        read_quiz(path)
