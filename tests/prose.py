"""How easily pages read, counted: `python tests/prose.py`, in `make lint`.

Of each page the words in a sentence (mean), the share of sentences with three commas or more, and qualifiers
and numbers per 1,000 words. Pages that a newcomer meets first have to keep within the limits; of all others
the counts are printed.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIRST = ("book/index.md", "README.md", "book/which_method.md")
LIMITS = {"words a sentence": 20, "% with three commas": 12, "qualifiers": 8, "numbers": 30}
QUALIFIERS = re.compile(
    r"\b(by rank|by Pearson|Pearson|by both statistics|at the words|with positions|all tokens|undecided|open"
    r"|in none|by little|undivided|divided|as in the paper|too|interval)\b"
)
NUMBER = re.compile(r"(?<![\w.])[\u2212-]?\d+(?:[.,]\d+)*|\{finding\}`[^`]*`")
TEXT = ("admonition", "note", "tip", "exercise", "solution", "prf:", "grid", "dropdown")
"""Directives whose content is read as text."""


def prose(text: str) -> str:
    """A page's sentences: no code, formulas, tables, headings or pictures; of a link its text."""
    lines, fence = [], ""
    for line in re.sub(r"\$\$.*?\$\$|<!--.*?-->", "", text, flags=re.DOTALL).splitlines():
        mark, name = re.findall(r"^\s*(`{3,}|:{3,})?(?:\{([\w:-]+))?", line)[0]
        if fence:
            fence = "" if line.strip() == fence else fence
        elif mark and mark[0] == "`" and line.strip() != mark and not name.startswith(TEXT):
            fence = mark
        elif not mark and not re.match(r"\s*(\||#|:\w|\(\w+\)=$)", line):
            lines.append(line)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", "\n".join(lines))
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\{(?!finding)[a-z:]+\}`([^`<]*)[^`]*`", r"\1", text)
    text = re.sub(
        r" \[[−-]?\d+\.\d+, [−-]?\d+\.\d+\]", "", text
    )  # seen on hover alone (`sphinx/intervals.py`)
    text = re.sub(r"\$[^$\n]+\$", "x", text)
    return re.sub(r"<[^>]*>|[*_]", "", text)


def said(path: Path) -> str:
    """A page's prose; of a notebook that of its chapter, sentences that code makes among it."""
    text = path.read_text(encoding="utf-8")
    if path.name == "README.md":
        return prose(text.partition("\nIt accompanies")[0])
    if path.suffix != ".ipynb":
        return prose(text)
    out = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            if re.search("^# All the numbers", source, re.MULTILINE):
                break
            out.append(source)
        for output in cell.get("outputs", ()):
            out.append("".join(output.get("data", {}).get("text/markdown", "")))
    return "\n\n".join(map(prose, out))


def counts(text: str) -> dict[str, float]:
    """The counts of `LIMITS` in some prose.

    >>> counts("One, two, three, four words. The interval holds 0.")["% with three commas"]
    50.0
    """
    blocks = re.split(r"\n\s*\n|\n(?=\s*[-*] |\s*\d+\. )", text)
    whole = [re.sub(r"\s+", " ", block).strip() for block in blocks]
    parts = [one for block in whole for one in re.split(r"(?<=[.!?:]) +(?=\W*[A-Z])", block)]
    sentences = [one for one in parts if len(one.split()) > 3]
    words = sum(len(one.split()) for one in sentences) or 1
    return {
        "words a sentence": words / max(len(sentences), 1),
        "% with three commas": 100 * sum(one.count(",") > 2 for one in sentences) / max(len(sentences), 1),
        "qualifiers": 1000 * len(QUALIFIERS.findall(text)) / words,
        "numbers": 1000 * len(NUMBER.findall(text)) / words,
    }


def complaints() -> Iterator[str]:
    """Print the counts of every page; one line for each that is over a limit where it must not be."""
    chapters = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("notebooks/0*.ipynb"))
    for name in (*FIRST, "book/small_print.md", *chapters):
        found = counts(said(ROOT / name))
        print(f"{name:40}", "  ".join(f"{value:5.1f} {what}" for what, value in found.items()))
        for what, most in LIMITS.items():
            if name in FIRST and found[what] > most:
                yield f"{name}: {found[what]:.1f} {what}; {most} are the most"


if __name__ == "__main__":
    sys.exit("\n".join(complaints()) or 0)
