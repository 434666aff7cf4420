"""The quizzes as files: five questions a chapter, one right answer each, a reason for every answer."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="sphinx comes with the extra book")

from lrp_book.sphinx.quizzes import read_quiz
from sphinx.errors import ExtensionError

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
