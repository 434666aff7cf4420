"""Sphinx extension: the book's main findings on any page, from the committed records.

The role `finding` prints one number that an executed notebook keeps (`say.keep`), the directive
`findings-figure` draws the headline, and `first-toggles` puts one sentence with its twelve switches: a first
look at the widget of chapter 3.
"""

from __future__ import annotations

import difflib
import html
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

import lrp_companion
from lrp_book.ch05_worth import protocol_figure
from lrp_book.committed import records
from lrp_book.say import kept_in
from lrp_book.sphinx.your_sentence import MODEL, examples_of_the_book
from lrp_companion.checks import SourceError
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.methods import attribute
from lrp_companion.methods.lrp import layer_lattice
from lrp_companion.widgets.layer_toggles import LayerToggles

RESULTS = Path(__file__).resolve().parents[3] / "results"
PICTURE = "findings.png"


@cache
def kept_numbers(notebook: Path, changed: float) -> dict[str, str]:
    """The numbers that a notebook keeps, read again if it was `changed`."""
    return kept_in(notebook)


def finding(name: str, notebooks: Iterable[Path]) -> str:
    """Return a number that one of the executed notebooks keeps, by its name.

    Raises
    ------
    SourceError : none keeps a number of this name.
    """
    known: dict[str, str] = {}
    for notebook in notebooks:
        known |= kept_numbers(notebook, notebook.stat().st_mtime)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=4, cutoff=0)
        expected = f"a number that a notebook keeps: {'; '.join(near) or 'none does'}"
        hint = "run make book, which executes the notebooks"
        raise SourceError("finding", got=f"finding {name!r}", expected=expected, hint=hint)
    return known[name]


class FindingRole(SphinxRole):
    """The role `finding`: a number by its name; the page is rebuilt when a notebook changes."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the number as text."""
        notebooks = sorted(Path(self.env.srcdir, "notebooks").glob("*.ipynb"))
        for notebook in notebooks:
            self.env.note_dependency(str(notebook))
        return [nodes.inline(self.rawtext, finding(self.text, notebooks), classes=["lrp-number"])], []


class FindingsFigure(SphinxDirective):
    """The headline as a figure, with its numbers as the text alternative."""

    def run(self) -> list[nodes.Node]:
        """Return the picture; its file lies among the static ones."""
        figure = protocol_figure(records(RESULTS))
        folder = Path(self.env.app.doctreedir, "companion_findings")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PICTURE).write_bytes(figure._repr_png_())
        up, alt = "../" * self.env.docname.count("/"), html.escape(figure.alt)
        picture = f'<p class="companion-figure"><img src="{up}_static/{PICTURE}" alt="{alt}" width="690"></p>'
        return [nodes.raw("", picture, format="html")]


class FirstToggles(SphinxDirective):
    """One sentence, LOO, AttnLRP and CP-LRP, and the switches: the first embedded review that is short."""

    def run(self) -> list[nodes.Node]:
        """Return the widget as raw HTML."""
        clf = load_classifier(MODEL)
        (text,) = examples_of_the_book(clf, count=1)
        lattice, (loo,) = layer_lattice(clf, text), attribute(clf, text, method="loo")
        widget = LayerToggles(lattice, loo, address="first", reduced=True)
        return [nodes.raw("", widget.page_html(), format="html", classes=["output", "text_html"])]


def hand_over(app: Sphinx) -> None:
    """Name the folder of the figure among the static ones."""
    folder = Path(app.doctreedir, "companion_findings")
    folder.mkdir(parents=True, exist_ok=True)
    app.config.html_static_path.append(str(folder))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register role and directives (called by Sphinx)."""
    app.add_role("finding", FindingRole())
    app.add_directive("findings-figure", FindingsFigure)
    app.add_directive("first-toggles", FirstToggles)
    app.connect("builder-inited", hand_over)
    return {"version": lrp_companion.__version__, "parallel_read_safe": True, "parallel_write_safe": True}
