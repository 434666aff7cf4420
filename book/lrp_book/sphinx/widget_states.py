"""Sphinx extension: links to a widget in a given state.

{state}`both layers open <notebooks/03_bert_layers#layers.bypassed=2,3>` leads to the page and sets the widget
there. The target is a page of the book, a `#`, and what the widget's own *Link to this state* shows, with or
without escapes.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import ReferenceRole

_LOG = logging.getLogger(__name__)


class state_link(nodes.Inline, nodes.TextElement):
    """A link to a page and a state, until all pages are known."""


class StateRole(ReferenceRole):
    """The role `state`."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the link with its target as it was written."""
        page, _, state = self.target.partition("#")
        node = state_link(self.rawtext, self.title, page=page, state=state)
        self.set_source_info(node)
        return [node], []


def resolve(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Turn every state link into a link; warn of a page that there is not, and of a link without a state."""
    for node in list(doctree.findall(state_link)):
        page, state = node["page"], node["state"]
        if page not in app.env.found_docs or "=" not in state:
            page_is_there = page in app.env.found_docs
            what = f"no state in {node.rawsource!r}" if page_is_there else f"no page {page!r}"
            _LOG.warning(f"state link: {what}; expected PAGE#widget.key=value", location=node)
            node.replace_self(nodes.inline("", *node.children))
            continue
        address = f"{app.builder.get_relative_uri(docname, page)}#{quote(unquote(state), safe='=&.,')}"
        options: dict[str, Any] = {"refuri": address, "internal": True, "classes": ["companion-state"]}
        node.replace_self(nodes.reference("", "", *node.children, **options))


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the extension (called by Sphinx)."""
    app.add_node(state_link)
    app.add_role("state", StateRole())
    app.connect("doctree-resolved", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
