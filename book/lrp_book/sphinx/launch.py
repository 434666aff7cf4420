"""Sphinx extension: links to run the notebooks on Binder and Colab, and what stands above their first cells.

`_config.yml` is the only place with the repository's address. While that is empty, no page has a launch link
and no notebook has the cell for Colab; `python -m lrp_book.sphinx.launch` brings the notebooks in
line with it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

from lrp_companion.checks import CompanionError, InputError

ROOT = Path(__file__).resolve().parents[3]
STATIC = Path(__file__).parent / "static"
BINDER, COLAB = "https://mybinder.org", "https://colab.research.google.com"
CELL = "colab-install"
SWITCH = (
    '<button class="code-switch" type="button"><span class="shown">Hide code</span>'
    '<span class="hidden">Show code</span></button>'
)
ZIP = ' <a href="{href}" download>Run it on your machine: notebook and records (zip, {size})</a>'
_ADDRESS = re.compile(r"https://github\.com/[A-Za-z0-9-]+/[A-Za-z0-9._-]+")


def repository(root: Path) -> tuple[str, str]:
    """Return the address and the branch that `_config.yml` names; the address is empty while there is none.

    Raises
    ------
    InputError
        If the address is not that of a repository on GitHub: Colab opens no other.
    """
    named = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8")).get("repository", {})
    address = str(named.get("url") or "").rstrip("/").removesuffix(".git")
    branch = str(named.get("branch") or "main")
    if address and not _ADDRESS.fullmatch(address):
        got, expected = f"repository.url {address!r}", "https://github.com/OWNER/NAME"
        raise InputError("launch", got=got, expected=expected, hint="correct _config.yml")
    return address, branch


def buttons(address: str) -> dict[str, str]:
    """Return the theme's options for launch buttons; none without an address.

    >>> buttons("")
    {}
    """
    if not address:
        return {}
    return {"binderhub_url": BINDER, "colab_url": COLAB, "notebook_interface": "jupyterlab"}


def install_cell(address: str, branch: str, *, exercises: bool = False) -> str:
    """Return the source of a notebook's first cell, which installs the project on Colab, and only there.

    Exercises need a folder of it and the NumPy that is there.
    """
    install = ["    %pip install --quiet ./companion ./companion/book", "    %cd -q companion"]
    return "\n".join(
        [
            "import sys",
            'if "google.colab" in sys.modules:  # the package, and the records next to it',
            f"    !git clone --quiet --depth 1 --branch {branch} {address} companion",
            *(["    %cd -q companion/book"] if exercises else install),
        ]
    )


def with_cell(notebook: nbformat.NotebookNode, source: str) -> nbformat.NotebookNode:
    """Return the notebook with this first cell, hidden in the book, or without one if the source is empty.

    Nothing else changes but the numbers of the cells, as if all had been run from the top.
    """
    out = nbformat.from_dict(notebook)
    out.cells = [cell for cell in out.cells if cell.get("id") != CELL]
    if source:
        cell = nbformat.v4.new_code_cell(source, id=CELL, metadata={"tags": ["remove-cell"]})
        out.cells.insert(0, cell)
    for number, cell in enumerate((cell for cell in out.cells if cell.cell_type == "code"), start=1):
        cell.execution_count = number
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number
    return out


def update(root: Path) -> list[Path]:
    """Bring the first cell of every notebook in line with the address; return the files that were changed."""
    address, branch = repository(root)
    changed = []
    for path in sorted((root / "notebooks").rglob("*.ipynb")):
        exercises = path.parent.name == "exercises"
        source = install_cell(address, branch, exercises=exercises) if address else ""
        before = nbformat.read(path, as_version=4)
        after = with_cell(before, source)
        if [cell.source for cell in after.cells] != [cell.source for cell in before.cells]:
            nbformat.write(after, path)
            changed.append(path)
    return changed


def add_links(app: Sphinx, config: Config) -> None:
    """Give the theme its launch buttons, and Sphinx the scripts and styles of quizzes, decks and sheets."""
    options = config.html_theme_options
    offered = buttons(options.get("repository_url", ""))
    options["launch_buttons"] = {**options.get("launch_buttons", {}), **offered}
    config.html_static_path.append(str(STATIC))


def offer_doors(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Put below the title of a page with cells a switch, which shows or hides the code of all pages, and the
    chapter's zip.
    """
    if 'class="cell_input' in context.get("body", ""):
        bundle, doors = Path(app.srcdir, "zips", f"{Path(pagename).name}.zip"), SWITCH
        if bundle.is_file():
            kilobytes = bundle.stat().st_size / 1000
            size = f"{kilobytes:.0f} kB" if kilobytes < 100 else f"{kilobytes / 1000:.1f} MB"
            doors += ZIP.format(href=f"{context['content_root']}zips/{bundle.name}", size=size)
        context["body"] = context["body"].replace("</h1>", f"</h1>\n<p>{doors}</p>", 1)
        app.add_js_file("companion/code.js")
        app.add_css_file("companion/code.css")


def picture_first(app: Sphinx, doctree: nodes.document) -> None:
    """Put a chapter's first picture or widget before its first cell, for who does not read code."""
    parts = list(doctree.findall(nodes.container)) if app.env.docname.startswith("notebooks/0") else []
    cells = [part for part in parts if part.get("nb_element") == "cell_code"]
    for cell in cells:
        shown = cell.children[-1]
        if "lrp-widget" in shown.astext() or any(shown.findall(nodes.image)):
            cell.remove(shown)
            home = cells[0].parent
            home.insert(home.index(cells[0]), nodes.container("", shown, classes=["cell"]))
            break


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the extension (called by Sphinx)."""
    app.connect("config-inited", add_links)
    app.connect("doctree-read", picture_first)
    app.connect("html-page-context", offer_doors)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def main() -> int:
    """Update the notebooks and say which; return 2 for a bad address."""
    try:
        changed = update(ROOT)
    except CompanionError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(f"changed: {path.relative_to(ROOT)}" for path in changed) or "nothing to change")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
