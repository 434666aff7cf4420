"""A chapter in several pages: its story, and all the numbers behind it.

A notebook is one file. The book shows what begins at a cell with the tag `all-numbers` as a page of its own,
so that a chapter can be read through and every table can still be found; a second such cell begins a second
page of numbers.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path

import nbformat

from lrp_companion.checks import InputError

TAG = "all-numbers"
SUFFIX = "_numbers"


def split(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """Return a notebook's story and its pages of numbers: one page for each cell with the tag `all-numbers`.

    >>> from nbformat.v4 import new_markdown_cell, new_notebook
    >>> cells = [new_markdown_cell("# Story"), new_markdown_cell("# Numbers", metadata={"tags": [TAG]})]
    >>> [page.cells[0].source for page in split(new_notebook(cells=cells))]
    ['# Story', '# Numbers']
    """
    starts = [k for k, cell in enumerate(notebook.cells) if TAG in cell.metadata.get("tags", [])]
    for title in (notebook.cells[start] for start in starts):
        lines = [line for line in title.source.splitlines() if line and not line.startswith("(")]
        if title.cell_type != "markdown" or not (lines and lines[0].startswith("# ")):
            got, expected = f"a cell with the tag {TAG}", "one that begins with a heading '# ...'"
            raise InputError("appendix", got=got, expected=expected, hint="correct the notebook")
    pages = []
    for start, end in zip([0, *starts], [*starts, None], strict=True):
        pages.append(copy.deepcopy(notebook))
        pages[-1].cells = pages[-1].cells[start:end]
    return pages


def numbers_page(page: Path, number: int = 1) -> Path:
    """Return the path of a chapter's first, second, ... page of numbers.

    >>> [numbers_page(Path("notebooks/05_reproduction.ipynb"), k).name for k in (1, 2)]
    ['05_reproduction_numbers.ipynb', '05_reproduction_numbers_2.ipynb']
    """
    return page.with_name(f"{page.stem}{SUFFIX}{f'_{number}' if number > 1 else ''}{page.suffix}")


def chapter(page: str) -> str:
    """Return the name of the chapter that a page of numbers belongs to; of any other page its own.

    >>> chapter("notebooks/05_reproduction_numbers_2"), chapter("notebooks/05_reproduction")
    ('notebooks/05_reproduction', 'notebooks/05_reproduction')
    """
    return re.sub(rf"{SUFFIX}(_\d+)?$", "", page)


def write_pages(executed: Path, folder: Path) -> list[Path]:
    """Write the pages of an executed notebook into a folder of the book's sources; return their paths."""
    first = folder / executed.name
    written = []
    for number, page in enumerate(split(nbformat.read(executed, as_version=4))):
        written.append(numbers_page(first, number) if number else first)
        nbformat.write(page, written[-1])
    return written
