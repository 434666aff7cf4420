"""Sphinx extension: the book's main findings on any page, from the committed records.

The role `finding` prints one number, which an executed notebook keeps (`say.keep`) or `front_numbers` reads
from the records. The directive `outlier-scene` puts the scene with one token, `first-toggles` two sentences
with their twelve switches: a first look at the widget of chapter 3; `head-by-hand` draws the primer's head.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

from lrp_book import front
from lrp_book.committed import records
from lrp_book.say import kept_in
from lrp_companion.checks import SourceError
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.methods import attribute
from lrp_companion.methods.lrp import layer_lattice
from lrp_companion.widgets.base import Widget
from lrp_companion.widgets.head_stepper import HeadStepper
from lrp_companion.widgets.layer_toggles import LayerToggles

RESULTS = Path(__file__).resolve().parents[3] / "results"


@cache
def kept_numbers(notebook: Path, changed: float) -> dict[str, str]:
    """The numbers that a notebook keeps, read again if it was `changed`."""
    return kept_in(notebook)


@cache
def answer() -> dict[str, str]:
    """The numbers of the front page's answer."""
    return dict(front.front_numbers(records(RESULTS)))


def finding(name: str, notebooks: Iterable[Path]) -> str:
    """Return a number that one of the executed notebooks keeps, by its name."""
    known: dict[str, str] = answer() if name.startswith("front, ") else {}
    for notebook in notebooks:
        known = known | kept_numbers(notebook, notebook.stat().st_mtime)
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


class OutlierPlace(SphinxDirective):
    """The scene of chapter 6: one sentence with and without `[CLS]`, above the means over SST-2."""

    def run(self) -> list[nodes.Node]:
        """Return the widget as raw HTML."""
        return [_raw(front.outlier_scene(records(RESULTS).with_maps("sst2-12")))]


class FirstToggles(SphinxDirective):
    """Two picked sentences, LOO, AttnLRP and CP-LRP, and the switches."""

    def run(self) -> list[nodes.Node]:
        """Return the widget as raw HTML, and how far the other reviews go."""
        clf, texts = load_classifier(front.MODEL), list(front.EXAMPLES[:2])
        lattices = [layer_lattice(clf, text) for text in texts]
        widget = LayerToggles(lattices, attribute(clf, texts, method="loo"), address="first", reduced=True)
        return [_raw(widget), nodes.paragraph("", front.picked_note())]


class HeadByHand(SphinxDirective):
    """One head with the numbers of the primer's worked example, whose defaults are the widget's."""

    def run(self) -> list[nodes.Node]:
        """Return the widget as raw HTML."""
        return [_raw(HeadStepper())]


def _raw(widget: Widget) -> nodes.Node:
    return nodes.raw("", widget.page_html(), format="html", classes=["output", "text_html"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register role and directives (called by Sphinx)."""
    app.add_role("finding", FindingRole())
    app.add_directive("outlier-scene", OutlierPlace)
    app.add_directive("first-toggles", FirstToggles)
    app.add_directive("head-by-hand", HeadByHand)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
