"""The quizzes as Moodle XML, read back by a parser that knows only the format."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from browsing import ROOT

pytest.importorskip("sphinx", reason="sphinx comes with the extra book")

from lrp_book import quiz_export as export
from lrp_book.sphinx.quizzes import FOLDER, read_quiz

FILES = sorted((ROOT / FOLDER).glob("*.toml"))
HARD = [
    {
        "ask": r"Is $\nabla f = {a}$ ~ `x := {1: 2}`?",
        "options": [
            {"text": "*Yes* & <no>", "why": r"Because $a_i \neq b$ # 1."},
            {"text": "1 = 1: so", "why": "A [link](x.md) too.", "right": True},
        ],
    }
]


def expected(questions: list) -> list[tuple[str, list[tuple[bool, str, str]]]]:
    return [
        (
            export.as_html(q["ask"]),
            [
                (bool(o.get("right")), export.as_html(o["text"]), export.as_html(o["why"]))
                for o in q["options"]
            ],
        )
        for q in questions
    ]


@pytest.fixture(params=[*FILES, None], ids=lambda path: path.stem if path else "hard")
def quiz(request: pytest.FixtureRequest) -> list:
    return read_quiz(request.param) if request.param else HARD


def test_moodle_is_read_back(quiz: list) -> None:
    made = export.moodle("a & b", quiz)
    assert moodle_questions(made) == expected(quiz) and made.count("<text>a &amp; b ") == len(quiz)


def moodle_questions(text: str) -> list[tuple[str, list[tuple[bool, str, str]]]]:
    found = []
    for question in ElementTree.fromstring(text.encode()).findall("question[@type='multichoice']"):
        assert question.findtext("single") == "true"
        answers = question.findall("answer")
        assert sorted(one.get("fraction") for one in answers) == ["0"] * (len(answers) - 1) + ["100"]
        options = [
            (a.get("fraction") == "100", a.findtext("text"), a.findtext("feedback/text")) for a in answers
        ]
        found.append((question.findtext("questiontext/text"), options))
    return found


def test_the_built_book_has_them() -> None:
    place = ROOT / "_build" / "html" / export.OUT
    if not place.parent.is_dir():
        pytest.skip("the book is not built: make book")
    assert len(list(place.iterdir())) == len(FILES) + 1
    page = (ROOT / "_build" / "html" / "book" / "course" / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'href="\.\./\.\./quizzes/([^"]+)"', page)
    assert len(links) >= 10 and all((place / name).is_file() for name in links)
