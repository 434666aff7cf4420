"""A chapter's story and its numbers: the cut, and how long a chapter is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from browsing import ROOT, frames, open_page, resize
from lrp_book.sphinx.appendix import TAG, numbers_page, split, write_pages
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from lrp_companion import InputError

NUMBERS = {"tags": [TAG]}
HEIGHTS = {"05_reproduction": 14_000, "06_protocol_audit": 16_000, "07_remedy": 14_000, "08_wirings": 14_000}
"""How tall a chapter may be on a screen 1360 px wide; on a phone it may be 1.4 times that."""
CHAPTERS = tuple(HEIGHTS)
SCREEN = {"width": 1360, "height": 900}


def stored(name: str) -> nbformat.NotebookNode:
    return nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)


def test_a_notebook_without_the_tag_is_one_page(tmp_path: Path) -> None:
    notebook = new_notebook(cells=[new_markdown_cell("# A story")])
    assert split(notebook) == [notebook]
    nbformat.write(notebook, tmp_path / "a.ipynb")
    assert [page.name for page in write_pages(tmp_path / "a.ipynb", tmp_path)] == ["a.ipynb"]


def test_all_pages_keep_all_cells_in_order(tmp_path: Path) -> None:
    cells = [new_markdown_cell("# A"), new_code_cell("1"), new_markdown_cell("# B", metadata=NUMBERS)]
    cells += [new_code_cell("2"), new_markdown_cell("# C", metadata=NUMBERS)]
    nbformat.write(new_notebook(cells=cells), tmp_path / "a.ipynb")
    (tmp_path / "source").mkdir()
    pages = write_pages(tmp_path / "a.ipynb", tmp_path / "source")
    first = tmp_path / "source/a.ipynb"
    assert pages == [first, numbers_page(first), numbers_page(first, 2)]
    sources = [[cell.source for cell in nbformat.read(page, 4).cells] for page in pages]
    assert sources == [["# A", "1"], ["# B", "2"], ["# C"]]


@pytest.mark.parametrize(
    "cells",
    [
        [new_code_cell("1", metadata=NUMBERS)],
        [new_markdown_cell("## Not a title", metadata=NUMBERS)],
        [new_markdown_cell("# A", metadata=NUMBERS), new_markdown_cell("(b)=", metadata=NUMBERS)],
    ],
)
def test_a_cut_without_a_title_is_refused(cells: list[Any]) -> None:
    with pytest.raises(InputError, match="one that begins with a heading"):
        split(new_notebook(cells=cells))


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_begins_with_its_answer(name: str) -> None:
    """After the first heading and one picture at most: three to eight sentences, made from records."""
    story, *numbers = split(stored(name))
    assert numbers
    first = next(cell for cell in story.cells if cell.get("id", "").endswith("-answers"))
    (output,) = first.outputs
    sentences = "".join(output.data["text/markdown"]).splitlines()
    assert 3 <= len(sentences) <= 8 and all(line.startswith("- **") or "**" in line for line in sentences)
    shown = [cell for cell in story.cells[: story.cells.index(first)] if cell.cell_type == "code"]
    assert sum(len(cell.outputs) for cell in shown) <= 1, "more than one picture stands before the answer"


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_code_that_a_page_shows_fits_it(path: Path) -> None:
    """Plumbing is folded; a line that is shown has at most 78 letters."""
    for cell in nbformat.read(path, as_version=4).cells:
        folded = {"hide-input", "remove-input", "remove-cell"} & set(cell.metadata.get("tags", []))
        if cell.cell_type == "code" and not folded:
            long = [line for line in cell.source.splitlines() if len(line) > 78]
            assert not long, (cell.get("id"), long)


@pytest.fixture(scope="module", params=HEIGHTS)
def chapter(request: pytest.FixtureRequest, html: Path, browser: Any) -> Any:
    """One chapter, opened once for all tests of it."""
    context = browser.new_context(viewport=SCREEN)
    page, watch = open_page(context, (html / f"notebooks/{request.param}.html").as_uri())
    frames(page, 30)
    yield request.param, page
    assert watch.nothing(), watch
    context.close()


def height(page: Any) -> int:
    return page.evaluate("document.querySelector('article').scrollHeight")


def test_a_chapter_is_not_too_long(chapter: tuple[str, Any]) -> None:
    name, page = chapter
    assert height(page) <= HEIGHTS[name]
    resize(page, 390, 844)
    assert height(page) <= 1.4 * HEIGHTS[name]
    resize(page, **SCREEN)


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_page_of_numbers_is_not_too_long(name: str, html: Path, visit: Any) -> None:
    for path in sorted((html / "notebooks").glob(f"{name}_numbers*.html")):
        page = visit(path.as_uri(), viewport=SCREEN)
        frames(page, 30)
        assert height(page) <= 25_000, path.stem


def test_the_address_of_a_section_that_moved_leads_to_it(html: Path, browser: Any) -> None:
    """What the first page was still loading is left there."""
    first = (html / "notebooks/05_reproduction_numbers.html").as_uri()
    page, _ = open_page(browser.new_context(), f"{first}#numbers-5-not-run")
    page.wait_for_url("**/05_reproduction_numbers_3.html#numbers-5-not-run")
    page.context.close()


def test_no_table_of_a_chapter_overflows(chapter: tuple[str, Any]) -> None:
    _, page = chapter
    wide = page.evaluate(
        """() => [...document.querySelectorAll('.lrp-table > div, article .pst-scrollable-table-container')]
            .filter(box => !box.closest('.lrp-widget') && box.scrollWidth > box.clientWidth + 1)
            .map(box => `${box.scrollWidth} of ${box.clientWidth}: ${box.innerText.slice(0, 60)}`)"""
    )
    assert not wide


def test_the_answer_stands_on_the_first_screens(chapter: tuple[str, Any]) -> None:
    _, page = chapter
    top = page.evaluate(
        "document.querySelector('article .cell_output li').getBoundingClientRect().top + window.scrollY"
    )
    assert top <= 1.5 * SCREEN["height"], "one picture and the question stand before it"
