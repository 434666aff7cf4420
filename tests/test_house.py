"""The house's measure and map: lines of 110 characters, and every folder of code named in CONTRIBUTING.md."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("lrp_companion", "book", "tests", "benchmarks", "training")
LENGTH = 110


def test_lines_have_110_characters_at_most() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if len(line) > LENGTH
    ]
    assert not long


def test_the_map_of_the_code_names_every_folder() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    houses = ("lrp_companion", "book/lrp_book")
    folders = {path.parent.name for house in houses for path in (ROOT / house).glob("*/__init__.py")}
    assert not {name for name in folders if not re.search(rf"\b{name}/", page)}
