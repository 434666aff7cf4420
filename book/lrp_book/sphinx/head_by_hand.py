"""Sphinx extension: the directive `head-by-hand` draws the primer's head as a stepper (`HeadStepper`)."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import lrp_companion
from lrp_companion.widgets.head_stepper import HeadStepper


class HeadByHand(SphinxDirective):
    """One head with the numbers of the worked example, whose defaults are the widget's."""

    def run(self) -> list[nodes.Node]:
        """Return the widget as raw HTML."""
        return [nodes.raw("", HeadStepper().page_html(), format="html", classes=["output", "text_html"])]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive (called by Sphinx)."""
    app.add_directive("head-by-hand", HeadByHand)
    return {"version": lrp_companion.__version__, "parallel_read_safe": True, "parallel_write_safe": True}
