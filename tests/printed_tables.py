"""Every table that chapters 5 to 8 print, by its caption: a list that keeps tables from getting lost.

`python tests/printed_tables.py` writes `tests/printed_tables.json` anew from the stored notebooks. Do that
when records change numbers on purpose; a caption that goes needs a reason in the commit.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "printed_tables.json"
CHAPTERS = ("05_reproduction", "06_protocol_audit", "07_remedy", "08_wirings")
SIGNS = "✓◐✗?±"


def tables(notebook: Path) -> Iterator[tuple[str, list[str]]]:
    """The caption and the cells' texts of every table among a stored notebook's outputs."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            page = "".join(output.get("data", {}).get("text/html", ""))
            for figure in BeautifulSoup(page, "html.parser").select("figure.lrp-table"):
                caption = figure.find("figcaption")
                texts = [
                    re.sub(r"\s+", "", item.get_text()).lstrip(SIGNS) for item in figure.select("th, td")
                ]
                yield (caption.get_text() if caption else ""), texts


def digest(texts: list[str]) -> str:
    """A short hash of a table's cells, blanks and the signs of verdicts left out."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def printed() -> dict[str, dict[str, str]]:
    """Caption to hash, by chapter."""
    chapters = {name: tables(ROOT / "notebooks" / f"{name}.ipynb") for name in CHAPTERS}
    return {name: {caption: digest(texts) for caption, texts in rows} for name, rows in chapters.items()}


if __name__ == "__main__":
    LIST.write_text(json.dumps(printed(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
