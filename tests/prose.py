"""Phrases that pages do not use, and what to write instead: `python tests/prose.py`, in `make lint`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "book/**/*.md", "notebooks/*.ipynb")
PHRASES = {
    r"proves the mathematics": "checks the mathematics against ...",
    r"do not know each other": "may not import one another",
    r"written for and not tried": "supported but untested",
    r"does not come again": "does not replicate",
    r"come nearly as near": "come almost as close",
    r"stop to rise": "stop rising",
    r"Who knows |(?:for who|Who) (?:wants|asks)\b": "if you already know; for more",
    r"\bby the clock\b": "minute by minute",
    r"\b(?:stands?|lies|lie) (?:beside|next to)\b": "is shown next to",
    r"\bof one's own\b": "your own",
    r"\banew\b": "again",
    r"\b(?:at most|with|from) so many\b": "this many",
    r"\bturn(?:s|ed|ing)? (?:the sign|the order|round)\b": "reverses",
    r"\breach(?:es)? across\b": "includes",
    r"\bone after the other\b": "one after another",
    r"\bsays? (?:little|much|nothing) of\b|\bto say of\b": "say about",
    r"\banother (?:method|model|question|thing) than\b": "other than",
    r"\bin the place of\b": "in place of",
    r"\b[Ww](?:hat|hich) part of\b": "what fraction of",
}


def said(path: Path) -> str:
    """A page's prose: of a notebook its Markdown."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return text


def complaints() -> Iterator[str]:
    """One line for each phrase in a page."""
    for path in sorted(path for page in PAGES for path in ROOT.glob(page)):
        for pattern, better in PHRASES.items():
            if match := re.search(pattern.replace(" ", r"\s+"), said(path)):
                yield f"{path.relative_to(ROOT)}: got {match[0]!r}; write {better!r}"


if __name__ == "__main__":
    sys.exit("\n".join(complaints()) or 0)
