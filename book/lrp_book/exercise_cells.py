"""What pages and notebooks have from an exercise's card: the function to fill in, its solution, its task.

A page has a block ```` ```{gap} NAME ```` with a comment, and ```` ```{answer} NAME ````. In a notebook the
cell that checks an exercise, and the Markdown cell before it, are the card's: `make notebooks` writes them,
and those of a new card at the end.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
from lrp_exercises.cards import Exercise
from lrp_exercises.catalogue import EXERCISES

from lrp_book.sphinx.quizzes import FOLDER, read_quiz
from lrp_book.student import BEGIN, END

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS: dict[str, tuple[Any, ...]] = {
    "products and grouping": ("01_product_counterexample", 0, 1),
    "rules and conservation": ("primer", 1, 2),
    "softmax and attention": ("04_softmax_rule", 0, 1),
    "measuring agreement": ("06_protocol_audit", 1, 2),
    "outliers and judges": ("07_remedy", 3, 4),
}
"""A theme's two questions, from the quiz of a page, with answers that unfold."""
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
    """The notebook with each exercise of its theme as its card has it, and at the end two questions."""
    last = "check-your-understanding"
    cells = notebook.cells = [cell for cell in notebook.cells if cell.get("id") != last]
    source = "\n".join(cell.source for cell in cells)
    theme = source.partition('\nexercises("')[2].partition('"')[0]
    for one in EXERCISES.values():
        if one.theme == theme and call(one) not in source:
            text = nbformat.v4.new_markdown_cell(id=f"{one.name}-task", metadata={"tags": []})
            code = nbformat.v4.new_code_cell(call(one), id=one.name, metadata={"tags": []})
            cells += [text, code]
    for text, cell in zip(cells, cells[1:], strict=False):
        if cell.cell_type == "code" and (found := CHECK.search(cell.source)):
            one = EXERCISES[found[1]]
            head, body = one.solution.rstrip().split("\n", 1)
            text.source = f"## {one.title}\n\n{one.task}"
            cell.source = f"{head}\n    {BEGIN}\n{body}\n    {END}\n\n\n{call(one)}"
    quiz, *numbers = QUESTIONS[theme]
    asked = [read_quiz(ROOT / FOLDER / f"{quiz}.toml")[k] for k in numbers]
    text = "\n\n".join(["## Check your understanding", *map(_question, asked)])
    cells.append(nbformat.v4.new_markdown_cell(text, id=last, metadata={"tags": []}))
    return notebook


def _question(one: dict[str, Any]) -> str:
    options = list(zip("ABCD", one["options"], strict=False))
    whys = [f"- {letter}: {'right. ' * ('right' in of)}{of['why']}" for letter, of in options]
    answers = ["<details><summary>Answer</summary>", "", *whys, "", "</details>"]
    return "\n".join([one["ask"], "", *(f"- {letter}: {of['text']}" for letter, of in options), "", *answers])
