"""Sphinx extension: quizzes at the end of chapters, answered in the page without a kernel.

`book/quizzes/NAME.toml` holds the questions of the page whose file is called NAME; the quiz is added to the
page's end when it is read, so an executed notebook is never edited for it. What is written into the page is
read without a script, with the answers folded; `static/quiz.js` makes a form of it.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

HEADING = "Check yourself"
FOLDER = "book/quizzes"
_MARK = "companion-quiz"


def read_quiz(path: Path) -> list[dict[str, Any]]:
    """The questions of a file: `ask`, and `options` with `text`, `why`, and one with `right = true`."""
    questions: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["questions"]
    for number, question in enumerate(questions, start=1):
        if sum(option.get("right", False) is True for option in question["options"]) != 1:
            raise ExtensionError(f"{path.name}, question {number}: expected exactly one with right = true")
    return questions


class QuizDirective(SphinxDirective):
    """`{quiz} NAME`: the questions of `book/quizzes/NAME.toml`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the quiz as lists and folds."""
        path = Path(self.env.srcdir, FOLDER, f"{self.arguments[0]}.toml")
        if not path.is_file():
            raise self.error(f"there is not a quiz {FOLDER}/{path.name}")
        self.env.note_dependency(str(path))
        quiz = nodes.container(classes=[_MARK])
        for number, question in enumerate(read_quiz(path), start=1):
            quiz += self._question(number, question)
        return [quiz]

    def _question(self, number: int, question: dict[str, Any]) -> nodes.Node:
        options = question["options"]
        asked = self._written(question["ask"])
        asked[0].insert(0, nodes.strong("", f"Question {number}. "))
        reasons = [self._written(option["why"]) for option in options]
        for option, reason in zip(options, reasons, strict=True):
            reason[0].insert(0, nodes.strong("", "Right. " if option.get("right") else "No. "))
        answers = _letters(reasons)
        for option, item in zip(options, answers, strict=True):
            item["classes"].append("quiz-right" if option.get("right") else "quiz-wrong")
        choices = _letters([self._written(option["text"]) for option in options])
        fold = f'<details class="quiz-answers"><summary>Answers to question {number}</summary>'
        return nodes.container(
            "",
            nodes.container("", *asked, classes=["quiz-ask"]),
            nodes.container("", choices, classes=["quiz-options"]),
            nodes.raw("", fold, format="html"),
            answers,
            nodes.raw("", "</details>", format="html"),
            classes=["quiz-question"],
        )

    def _written(self, text: str) -> list[nodes.Node]:
        """Text as the page's own markup."""
        written = self.parse_text_to_nodes(text.strip())
        if not written or not isinstance(written[0], nodes.paragraph):
            raise self.error(f"a quiz text begins with plain words, not: {text[:60]!r}")
        return written


def _letters(entries: list[list[nodes.Node]]) -> nodes.enumerated_list:
    items = [nodes.list_item("", *entry) for entry in entries]
    return nodes.enumerated_list("", *items, enumtype="upperalpha", prefix="", suffix=".")


def append_quiz(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add the quiz of a page, if it has one, to the page's source."""
    name = docname.rpartition("/")[2]
    if not Path(app.srcdir, FOLDER, f"{name}.toml").is_file():
        return
    text = f"## {HEADING}\n\n```{{quiz}} {name}\n```\n"
    if str(app.env.doc2path(docname)).endswith(".ipynb"):
        notebook = json.loads(source[0])
        cell = {"cell_type": "markdown", "metadata": {}, "source": text}
        notebook["cells"].append({**cell, "id": "quiz"} if "id" in notebook["cells"][0] else cell)
        source[0] = json.dumps(notebook)
    else:
        source[0] = f"{source[0].rstrip()}\n\n{text}"


def load_script(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Load the quiz's script and style on pages that have one."""
    if doctree is not None and any(_MARK in node["classes"] for node in doctree.findall(nodes.container)):
        app.add_js_file("companion/quiz.js", loading_method="defer", priority=650)
        app.add_css_file("companion/quiz.css")


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the extension (called by Sphinx)."""
    app.add_directive("quiz", QuizDirective)
    app.connect("source-read", append_quiz)
    app.connect("html-page-context", load_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
