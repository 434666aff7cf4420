r"""The quizzes for learning platforms: GIFT, Moodle XML and QTI 2.1, from the files of the pages.

    python -m lrp_book.quiz_export OUT

Writes `NAME.gift`, `NAME.xml` and `NAME.zip` (QTI, a package with its manifest) of each quiz. As a Sphinx
extension it writes them beside the built pages; the role `quiz-files` links to those of one quiz. Text
becomes HTML; formulas keep their TeX between `\(` and `\)` for MathJax; links keep their words.
"""

from __future__ import annotations

import argparse
import html
import re
import zipfile
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
QTI = "http://www.imsglobal.org/xsd/imsqti_v2p1"
CP = "http://www.imsglobal.org/xsd/imscp_v1p1"
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


def gift(name: str, questions: Sequence[Question]) -> str:
    """The questions as GIFT, the plain text format of Moodle and others."""
    out = [f"// {LICENCE}", f"$CATEGORY: LRP Companion/{name}", ""]
    for number, question in enumerate(questions, 1):
        out.append(f"::{name} {number}::[html]{_gift(question['ask'])}{{")
        out += [
            f"{'=' if option.get('right') else '~'}{_gift(option['text'])}#{_gift(option['why'])}"
            for option in question["options"]
        ]
        out += ["}", ""]
    return "\n".join(out)


def _gift(text: str) -> str:
    return re.sub(r"([\\~=#{}:])", r"\\\1", as_html(text))


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


def qti(name: str, questions: Sequence[Question]) -> dict[str, str]:
    """The files of a QTI 2.1 package: an item for each question, and `imsmanifest.xml`."""
    title = html.escape(name, quote=True)
    identifiers = [f"q-{re.sub(r'[^a-z0-9]+', '-', name.lower())}-{n}" for n in range(1, len(questions) + 1)]
    files = {
        f"{identifier}.xml": _item(identifier, f"{title} {number}", question)
        for number, (identifier, question) in enumerate(zip(identifiers, questions, strict=True), 1)
    }
    resources = "".join(
        f"<resource identifier='r-{one}' type='imsqti_item_xmlv2p1' href='{one}.xml'><file href='{one}.xml'/>"
        "</resource>"
        for one in identifiers
    )
    files["imsmanifest.xml"] = (
        f"<?xml version='1.0' encoding='UTF-8'?>\n<!-- {LICENCE} -->\n<manifest xmlns='{CP}' "
        f"identifier='m-{identifiers[0]}'><metadata><schema>QTIv2.1 Package</schema>"
        "<schemaversion>1.0.0</schemaversion></metadata><organizations/>"
        f"<resources>{resources}</resources></manifest>\n"
    )
    return files


def _item(identifier: str, title: str, question: Question) -> str:
    letters = "ABCDEFGH"
    options = list(zip(letters, question["options"], strict=False))
    (right,) = (letter for letter, option in options if option.get("right"))
    choices = "".join(
        f"<simpleChoice identifier='{letter}'>{as_html(option['text'])}<feedbackInline "
        f"outcomeIdentifier='FEEDBACK' identifier='{letter}' showHide='show'> {as_html(option['why'])}"
        "</feedbackInline></simpleChoice>"
        for letter, option in options
    )
    return (
        f"<?xml version='1.0' encoding='UTF-8'?>\n<assessmentItem xmlns='{QTI}' identifier='{identifier}' "
        f"title='{title}' adaptive='false' timeDependent='false'>"
        "<responseDeclaration identifier='RESPONSE' cardinality='single' baseType='identifier'>"
        f"<correctResponse><value>{right}</value></correctResponse></responseDeclaration>"
        "<outcomeDeclaration identifier='SCORE' cardinality='single' baseType='float'>"
        "<defaultValue><value>0</value></defaultValue></outcomeDeclaration>"
        "<outcomeDeclaration identifier='FEEDBACK' cardinality='single' baseType='identifier'/>"
        "<itemBody><choiceInteraction responseIdentifier='RESPONSE' shuffle='true' maxChoices='1'>"
        f"<prompt>{as_html(question['ask'])}</prompt>{choices}</choiceInteraction></itemBody>"
        "<responseProcessing><responseCondition><responseIf><match><variable identifier='RESPONSE'/>"
        "<correct identifier='RESPONSE'/></match><setOutcomeValue identifier='SCORE'>"
        "<baseValue baseType='float'>1</baseValue></setOutcomeValue></responseIf></responseCondition>"
        "<setOutcomeValue identifier='FEEDBACK'><variable identifier='RESPONSE'/></setOutcomeValue>"
        "</responseProcessing></assessmentItem>\n"
    )


def write(quizzes: Path, out: Path) -> list[Path]:
    """Write every quiz of a folder, and the chapters' together, in the three formats; return the files.

    They have the same bytes at every call.
    """
    out.mkdir(parents=True, exist_ok=True)
    written = []
    each = {path.stem: read_quiz(path) for path in sorted(quizzes.glob("*.toml"))}
    together = [question for name, questions in each.items() if name != INVENTORY for question in questions]
    for name, questions in (each | ({TOGETHER: together} if together else {})).items():
        for end, text in (("gift", gift(name, questions)), ("xml", moodle(name, questions))):
            written.append(out / f"{name}.{end}")
            written[-1].write_text(text, encoding="utf-8")
        written.append(out / f"{name}.zip")
        with zipfile.ZipFile(written[-1], "w", zipfile.ZIP_DEFLATED) as package:
            for place, text in qti(name, questions).items():
                package.writestr(zipfile.ZipInfo(place), text)
    return written


KINDS = {"gift": "GIFT", "xml": "Moodle XML", "zip": "QTI"}


class QuizFiles(SphinxRole):
    """The role `quiz-files`: links to the three files of a quiz."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the links, relative to the page."""
        up = "../" * self.env.docname.count("/")
        links = (f'<a href="{up}{OUT}/{self.text}.{end}" download>{kind}</a>' for end, kind in KINDS.items())
        return [nodes.raw("", ", ".join(links), format="html")], []


def beside_the_pages(app: Sphinx, error: Exception | None) -> None:
    """Write the exports into the built book."""
    if error is None and app.builder.format == "html":
        write(Path(app.srcdir, FOLDER), Path(app.outdir, OUT))


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the extension (called by Sphinx)."""
    app.add_role("quiz-files", QuizFiles())
    app.connect("build-finished", beside_the_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", help="folder for the files")
    parser.add_argument("--quizzes", default=FOLDER, help="folder with NAME.toml")
    args = parser.parse_args()
    print(len(write(Path(args.quizzes), Path(args.out))), "files in", args.out)


if __name__ == "__main__":
    main()
