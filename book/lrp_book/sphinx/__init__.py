"""Sphinx extensions of the book, one for each role or directive, and what stages its assets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

Made = str | Sequence[str | nodes.Node]


def shows(make: Callable[[Any], Made], **settings: Any) -> type[SphinxDirective]:
    """A directive that puts what a function makes for it: HTML, lines of a page, or nodes."""

    def run(directive: SphinxDirective) -> list[nodes.Node]:
        made = make(directive)
        if isinstance(made, str):
            return [nodes.raw("", made, format="html", classes=["output", "text_html"])]
        put = [part for part in made if isinstance(part, nodes.Node)]
        return put or directive.parse_text_to_nodes("\n".join(map(str, made)))

    return type("Shows", (SphinxDirective,), {"run": run, **settings})
