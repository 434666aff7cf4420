"""The map of the code in CONTRIBUTING.md: it names every folder, and what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_map_of_the_code_names_every_folder() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    houses = ("lrp_companion", "book/lrp_book", "book/lrp_exercises")
    folders = {path.parent.name for house in houses for path in (ROOT / house).glob("*/__init__.py")}
    assert not {name for name in folders if not re.search(rf"\b{name}/", page)}


def test_every_path_on_the_map_of_the_code_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:lrp_companion|tests|training|book|notebooks)/[\w./]*)`", text))
    assert len(named) > 10
    missing = [path for path in sorted(named) if not (ROOT / path).exists() and "my_widget" not in path]
    assert not missing
