"""What pages and notebooks have from an exercise's card: the function to fill in, its solution, its task.

A page has a block ```` ```{gap} NAME ```` with a comment, and ```` ```{answer} NAME ````. In a notebook the
cell that checks an exercise, and the Markdown cell before it, are the card's: `make notebooks` writes them.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from lrp_exercises.cards import Exercise
from lrp_exercises.catalogue import EXERCISES

from lrp_book.student import BEGIN, END

BLOCK = re.compile(r"^```\{(gap|answer)\} (\S+)\n(?:(.+)\n)?```$", re.MULTILINE)
CHECK = re.compile(r'^check\("([\w-]+)"', re.MULTILINE)


def call(one: Exercise) -> str:
    """The line that checks an answer."""
    return f'check("{one.name}", {one.signature.partition("(")[0]})'


def in_page(match: re.Match[str]) -> str:
    """The code that stands for a block of a page."""
    kind, name, comment = match.groups()
    one = EXERCISES[name]
    head, body = one.solution.rstrip().split("\n", 1)
    imports = "import numpy as np\n\n" if "np." in body else ""
    if kind == "gap":
        imports = "import numpy as np\nfrom lrp_exercises import check\n\n"
        body = "    ..." + f"                       # {comment}" * bool(comment)
    return f"```python\n{imports}{head}\n{body}\n\n{call(one)}\n```"


def write_pages(folder: Path) -> None:
    """Fill the blocks of a copy of the pages, in place."""
    for page in folder.glob("exercises/*.md"):
        page.write_text(BLOCK.sub(in_page, page.read_text(encoding="utf-8")), encoding="utf-8")


def fill(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with each exercise as its card has it."""
    for text, cell in zip(notebook.cells, notebook.cells[1:], strict=False):
        if cell.cell_type == "code" and (found := CHECK.search(cell.source)):
            one = EXERCISES[found[1]]
            head, body = one.solution.rstrip().split("\n", 1)
            text.source = f"## {one.title}\n\n{one.task}"
            cell.source = f"{head}\n    {BEGIN}\n{body}\n    {END}\n\n\n{call(one)}"
    return notebook
