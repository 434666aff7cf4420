"""A chapter in two pages: its story, and all the numbers behind it.

A notebook is one file, whose last part begins at the cell with the tag `all-numbers`. The book shows that
part as a separate page, so that a chapter can be read through and every table can still be found.
"""

from __future__ import annotations

import copy
from pathlib import Path

import nbformat

from lrp_companion.checks import InputError

TAG = "all-numbers"
SUFFIX = "_numbers"


def split(notebook: nbformat.NotebookNode) -> tuple[nbformat.NotebookNode, nbformat.NotebookNode | None]:
    """Return a notebook's story and its numbers; the second is None if no cell has the tag `all-numbers`.

    Raises
    ------
    InputError
        If several cells have the tag, or that cell does not begin with a heading of the first level: a page
        needs a title.

    >>> from nbformat.v4 import new_markdown_cell, new_notebook
    >>> cells = [new_markdown_cell("# Story"), new_markdown_cell("# Numbers", metadata={"tags": [TAG]})]
    >>> [page.cells[0].source for page in split(new_notebook(cells=cells))]
    ['# Story', '# Numbers']
    """
    starts = [k for k, cell in enumerate(notebook.cells) if TAG in cell.metadata.get("tags", [])]
    if not starts:
        return notebook, None
    title = notebook.cells[starts[0]]
    lines = [line for line in title.source.splitlines() if line and not line.startswith("(")]
    if len(starts) > 1 or title.cell_type != "markdown" or not (lines and lines[0].startswith("# ")):
        got = f"{len(starts)} cells with the tag {TAG}" if len(starts) > 1 else "a cell without a title"
        expected = "one cell, which begins with a heading '# ...'"
        raise InputError("appendix", got=got, expected=expected, hint="correct the notebook")
    story, numbers = copy.deepcopy(notebook), copy.deepcopy(notebook)
    story.cells, numbers.cells = story.cells[: starts[0]], numbers.cells[starts[0] :]
    return story, numbers


def numbers_page(page: Path) -> Path:
    """Return the path of the page with a chapter's numbers.

    >>> numbers_page(Path("notebooks/05_reproduction.ipynb")).name
    '05_reproduction_numbers.ipynb'
    """
    return page.with_name(f"{page.stem}{SUFFIX}{page.suffix}")


def write_pages(executed: Path, folder: Path) -> list[Path]:
    """Write the pages of an executed notebook into a folder of the book's sources; return their paths."""
    story, numbers = split(nbformat.read(executed, as_version=4))
    first = folder / executed.name
    nbformat.write(story, first)
    if numbers is None:
        return [first]
    nbformat.write(numbers, second := numbers_page(first))
    return [first, second]
