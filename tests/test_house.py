"""The house's words and measures: names that say something, lines of 110 characters, a map without gaps."""

from __future__ import annotations

import io
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
