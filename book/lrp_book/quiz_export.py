r"""The quizzes for learning platforms as Moodle XML, from the files of the pages.

As a Sphinx extension it writes `NAME.xml` of each quiz beside the built pages; the role `quiz-files` links to
that of one quiz. Text becomes HTML; formulas keep their TeX between `\(` and `\)` for MathJax; links keep
their words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

from lrp_book.sphinx.quizzes import FOLDER, read_quiz

OUT = "quizzes"
TOGETHER, INVENTORY = "all-chapters", "inventory"  # the latter is asked twice, so it is kept apart
LICENCE = "LRP Companion, CC BY 4.0"
Question = Mapping[str, Any]
_CODE = re.compile(r"(`[^`]+`|\$\$[^$]+\$\$|\$[^$]+\$)")


def as_html(text: str) -> str:
    r"""The text of a question as HTML, which is well-formed XML, too.

    >>> as_html("Is $a < b$ in `x[0]`? *No*; see [](../a.ipynb) and [the primer](p.md).")
    'Is \\(a &lt; b\\) in <code>x[0]</code>? <em>No</em>; see the book and the primer.'
    """
    out = []
    for piece in _CODE.split(" ".join(text.split())):
        if piece.startswith("$"):
            out.append(rf"\({escape(piece.strip('$'))}\)")
        elif piece.startswith("`"):
            out.append(f"<code>{escape(piece.strip('`'))}</code>")
        else:
            plain = re.sub(r"\[\]\([^)]*\)", "the book", piece)
            plain = escape(re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", plain))
            plain = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", plain)
            out.append(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", plain))
    return "".join(out)


def moodle(name: str, questions: Sequence[Question]) -> str:
    """The questions as Moodle XML: one right option each, shuffled, with a reason for every option."""
    parts = [
        f"<question type='category'><category><text>$course$/top/LRP Companion/{escape(name)}</text>"
        "</category></question>"
    ]
    for number, question in enumerate(questions, 1):
        answers = "".join(
            f"<answer fraction='{100 if option.get('right') else 0}' format='html'>"
            f"{_text(option['text'])}<feedback format='html'>{_text(option['why'])}</feedback></answer>"
            for option in question["options"]
        )
        parts.append(
            f"<question type='multichoice'><name><text>{escape(name)} {number}</text></name>"
            f"<questiontext format='html'>{_text(question['ask'])}</questiontext>"
            "<defaultgrade>1</defaultgrade><single>true</single><shuffleanswers>true</shuffleanswers>"
            f"<answernumbering>abc</answernumbering>{answers}</question>"
        )
    body = "\n".join(parts)
    return f"<?xml version='1.0' encoding='UTF-8'?>\n<!-- {LICENCE} -->\n<quiz>\n{body}\n</quiz>\n"


def _text(text: str) -> str:
    return f"<text>{escape(as_html(text))}</text>"


def write(quizzes: Path, out: Path) -> list[Path]:
    """Write every quiz of a folder, and the chapters' together; return the files.

    They have the same bytes at every call.
    """
    out.mkdir(parents=True, exist_ok=True)
    each = {path.stem: read_quiz(path) for path in sorted(quizzes.glob("*.toml"))}
    together = [question for name, questions in each.items() if name != INVENTORY for question in questions]
    written = []
    for name, questions in (each | ({TOGETHER: together} if together else {})).items():
        written.append(out / f"{name}.xml")
        written[-1].write_text(moodle(name, questions), encoding="utf-8")
    return written


class QuizFiles(SphinxRole):
    """The role `quiz-files`: a link to the file of a quiz."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the link, relative to the page."""
        up = "../" * self.env.docname.count("/")
        link = f'<a href="{up}{OUT}/{self.text}.xml" download>Moodle XML</a>'
        return [nodes.raw("", link, format="html")], []


def beside_the_pages(app: Sphinx, error: Exception | None) -> None:
    """Write the exports into the built book."""
    if error is None and app.builder.format == "html":
        write(Path(app.srcdir, FOLDER), Path(app.outdir, OUT))


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the extension (called by Sphinx)."""
    app.add_role("quiz-files", QuizFiles())
    app.connect("build-finished", beside_the_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
