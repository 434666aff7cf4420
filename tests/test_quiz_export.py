"""The quizzes as GIFT, Moodle XML and QTI 2.1: read back by parsers that know only the formats."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
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


def read_gift(text: str) -> list[tuple[str, list[tuple[bool, str, str]]]]:
    """Questions of a GIFT file by the format's rules alone: a backslash takes a character as it is."""
    kept = {f"\x00{ord(char)};": char for char in "\\~=#{}:"}
    text = re.sub(r"^//.*$|^\$CATEGORY:.*$", "", text, flags=re.M)
    text = re.sub(r"\\([\\~=#{}:])", lambda m: f"\x00{ord(m[1])};", text)

    def plain(part: str) -> str:
        return re.sub(r"\x00\d+;", lambda m: kept[m[0]], part).strip()

    out = []
    for title, ask, body in re.findall(r"::(.*?)::\[html\](.*?)\{(.*?)\}", text, re.S):
        assert title and not set("~=#{}") & set(ask)
        options = re.findall(r"([=~])([^=~#]*)#([^=~#]*)", body)
        out.append((plain(ask), [(sign == "=", plain(t), plain(w)) for sign, t, w in options]))
    return out


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


def test_gift_is_read_back(quiz: list) -> None:
    assert read_gift(export.gift("a quiz", quiz)) == expected(quiz)


def test_moodle_is_read_back(quiz: list) -> None:
    root = ElementTree.fromstring(export.moodle("a & b", quiz).encode())
    found = []
    for question in root.findall("question[@type='multichoice']"):
        assert question.findtext("single") == "true"
        assert question.findtext("name/text", "").startswith("a & b")
        answers = question.findall("answer")
        assert sorted(one.get("fraction") for one in answers) == ["0"] * (len(answers) - 1) + ["100"]
        options = [
            (a.get("fraction") == "100", a.findtext("text"), a.findtext("feedback/text")) for a in answers
        ]
        found.append((question.findtext("questiontext/text"), options))
    assert found == expected(quiz)


def test_qti_is_a_package_of_items(quiz: list) -> None:
    """Elements and their order as the schema of an assessmentItem has them; identifiers are unique."""
    files = export.qti("a quiz", quiz)
    manifest = ElementTree.fromstring(files.pop("imsmanifest.xml").encode())
    resources = manifest.findall(f"{{{export.CP}}}resources/{{{export.CP}}}resource")
    assert {one.get("href") for one in resources} == set(files) and len(files) == len(quiz)
    assert {one.get("type") for one in resources} == {"imsqti_item_xmlv2p1"}
    assert [child.tag.split("}")[1] for child in manifest] == ["metadata", "organizations", "resources"]
    for (name, text), question in zip(files.items(), quiz, strict=True):
        item, ns = ElementTree.fromstring(text.encode()), f"{{{export.QTI}}}"
        assert name == f"{item.get('identifier')}.xml" and re.fullmatch(r"[A-Za-z_][\w.-]*", name)
        assert [child.tag.removeprefix(ns) for child in item] == [
            "responseDeclaration",
            "outcomeDeclaration",
            "outcomeDeclaration",
            "itemBody",
            "responseProcessing",
        ]
        choices = item.findall(f".//{ns}simpleChoice")
        (right,) = (value.text for value in item.findall(f"{ns}responseDeclaration//{ns}value"))
        letters = [one.get("identifier") for one in choices]
        assert len(set(letters)) == len(letters) == len(question["options"])
        assert question["options"][letters.index(right)]["right"]
        assert [one.find(f"{ns}feedbackInline").get("identifier") for one in choices] == letters


def test_files_are_the_same_at_every_call(tmp_path: Path) -> None:
    first, second = (export.write(ROOT / FOLDER, tmp_path / name) for name in ("a", "b"))
    assert len(first) == 3 * (len(FILES) + 1)
    together = read_gift((tmp_path / "a" / f"{export.TOGETHER}.gift").read_text(encoding="utf-8"))
    chapters = [path for path in FILES if path.stem != "inventory"]
    assert together == [question for path in chapters for question in expected(read_quiz(path))]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    for path in first:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as package:
                assert package.testzip() is None and "imsmanifest.xml" in package.namelist()


def test_the_built_book_has_them() -> None:
    place = ROOT / "_build" / "html" / export.OUT
    if not place.parent.is_dir():
        pytest.skip("the book is not built: make book")
    assert len(list(place.iterdir())) == 3 * (len(FILES) + 1)
    page = (ROOT / "_build" / "html" / "book" / "course" / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'href="\.\./\.\./quizzes/([^"]+)"', page)
    assert len(links) >= 30 and all((place / name).is_file() for name in links)
