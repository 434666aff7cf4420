"""Sphinx extension: the book's main findings on any page, from the committed records.

The role `finding` prints one number (`analysis/findings.py` lists them), the directive `findings-figure`
draws the headline, and `first-toggles` puts one sentence with its twelve switches: a first look at the widget
of chapter 3.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

import lrp_companion
from lrp_book.analysis.findings import finding, protocol_differences
from lrp_book.committed import records
from lrp_book.sphinx.your_sentence import MODEL, examples_of_the_book
from lrp_book.views.findings import protocol_figure
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.methods import attribute
from lrp_companion.methods.lrp import layer_lattice
from lrp_companion.widgets.layer_toggles import LayerToggles

RESULTS = Path(__file__).resolve().parents[3] / "results"
PICTURE = "findings.png"


class FindingRole(SphinxRole):
    """The role `finding`: a number by its name; the page is rebuilt when a record changes."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the number as text."""
        return [nodes.inline(self.rawtext, finding(self.text, RESULTS), classes=["lrp-number"])], []


class FindingsFigure(SphinxDirective):
    """The headline as a figure, with its numbers as the text alternative."""

    def run(self) -> list[nodes.Node]:
        """Return the picture; its file lies among the static ones."""
        figure = protocol_figure(protocol_differences(records(RESULTS)))
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
