"""Sphinx extension: the book's main findings on any page, from the committed records.

The role `finding` prints one number of `front_numbers`. The directive `outlier-scene` puts page one's scene,
`first-toggles` two sentences with their twelve switches: a first look at the widget of chapter 3;
`head-by-hand` draws the primer's head.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

from lrp_book import front
from lrp_book.sphinx import shows
from lrp_companion.checks import choose
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.methods import attribute
from lrp_companion.methods.lrp import layer_lattice
from lrp_companion.widgets.layers import LayerToggles
from lrp_companion.widgets.toys import HeadStepper

RESULTS = Path(__file__).resolve().parents[3] / "results"


@cache
def findings() -> dict[str, str]:
    """The numbers of the small print by their names."""
    return dict(front.front_numbers(str(RESULTS)))


class FindingRole(SphinxRole):
    """The role `finding`: a number by its name."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the number as text."""
        text = findings()[choose("finding", "number", self.text, list(findings()))]
        return [nodes.inline(self.rawtext, text, classes=["lrp-number"])], []


def first_toggles(_: Any) -> list[nodes.Node]:
    """Two picked sentences, LOO, AttnLRP and CP-LRP, the switches, and how far the other reviews go."""
    clf, texts = load_classifier(front.MODEL), list(front.EXAMPLES[1:3])
    lattices = [layer_lattice(clf, text) for text in texts]
    widget = LayerToggles(lattices, attribute(clf, texts, method="loo"), address="first", reduced=True)
    shown = nodes.raw("", widget.page_html(), format="html", classes=["output", "text_html"])
    return [shown, nodes.paragraph("", front.picked_note())]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register role and directives (called by Sphinx)."""
    app.add_role("finding", FindingRole())
    app.add_directive("outlier-scene", shows(lambda _: front.outlier_scene(reduced=True).page_html()))
    app.add_directive("first-toggles", shows(first_toggles))
    app.add_directive("head-by-hand", shows(lambda _: HeadStepper().page_html()))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
