"""The house's words and measures: names that say something, lines of 110 characters, a map without gaps."""

from __future__ import annotations

import io
import json
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "lrp_companion"
FOLDERS = ("lrp_companion", "tests", "benchmarks", "training")
FILLER = {"own", "found"}
LENGTH = 110


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def names(text: str) -> list[str]:
    """Every name in a source text; words in comments and strings are prose."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.NAME]


def test_names_are_told_from_prose() -> None:
    assert names('own = "found"  # found\n') == ["own"]


@pytest.mark.parametrize("folder", ["lrp_companion", "tests"])
def test_a_name_says_what_it_holds(folder: str) -> None:
    fillers = {}
    for path in sources(folder):
        if used := FILLER & set(names(path.read_text(encoding="utf-8"))):
            fillers[str(path.relative_to(ROOT))] = used
    assert not fillers


def test_lines_have_110_characters_at_most() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sources(*FOLDERS)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if len(line) > LENGTH
    ]
    assert not long


def test_the_map_of_the_code_names_every_module_and_package() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    mapped = set(re.findall(r"^\| `lrp_companion/(\w+)(?:\.py|/)` \|", page, re.MULTILINE))
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    packages = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert mapped == modules | packages


TRANSLATED = (  # phrases that a native speaker stumbles over, and what to write instead
    ("proves the mathematics", "checks the mathematics against ..."),
    ("tries to tell the same", "aims to recover the same information"),
    ("what part of a limit", "a fraction of a limit"),
    ("do not know each other", "may not import one another"),
    ("Who knows ", "If you already know"),
    ("Some figures answer", "Some figures are interactive"),
    ("written for and not tried", "supported but untested"),
    ("Held is", "We fix ..."),
    ("does not come again", "does not replicate"),
    ("come nearly as near", "come almost as close"),
    ("stop to rise", "stop rising"),
    ("stands beside", "is shown next to"),
    ("protocol order", "reading order"),
)


@pytest.mark.parametrize(("phrase", "better"), TRANSLATED)
def test_phrases_that_read_as_translated_do_not_come_back(phrase: str, better: str) -> None:
    folders = {"book": "*.md", "notebooks": "*.ipynb", "lrp_companion": "*.py"}
    paths = [path for folder, kind in folders.items() for path in sorted((ROOT / folder).rglob(kind))]
    for path in [*paths, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
        assert phrase not in text, f"{path.relative_to(ROOT)}: write {better!r}"
