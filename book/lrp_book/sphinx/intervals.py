"""Sphinx extension: the interval of a number in a sentence shows on hover, on focus and in print."""

from __future__ import annotations

import html
import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

_VALUE = r"[−-]?\d+\.\d+"
NUMBER = re.compile(rf"(?P<mean>{_VALUE})(?P<interval> \[{_VALUE}, {_VALUE}\])")


def markup(mean: str, interval: str) -> str:
    """The number as HTML: the interval is read aloud and printed, and seen when the number is pointed at.

    >>> markup("0.09", " [0.07, 0.12]")
    '<span class="lrp-mean" tabindex="0">0.09<span class="lrp-range"> [0.07, 0.12]</span></span>'
    """
    inner = f'<span class="lrp-range">{html.escape(interval)}</span>'
    return f'<span class="lrp-mean" tabindex="0">{html.escape(mean)}{inner}</span>'


def tuck_away(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Give every interval in the text of a paragraph its markup."""
    if app.builder.format != "html":
        return
    for text in list(doctree.findall(nodes.Text)):
        if not isinstance(text.parent, (nodes.paragraph, nodes.strong, nodes.emphasis)):
            continue
        parts: list[nodes.Node] = []
        at = 0
        for match in NUMBER.finditer(str(text)):
            parts.append(nodes.Text(str(text)[at : match.start()]))
            parts.append(nodes.raw("", markup(match["mean"], match["interval"]), format="html"))
            at = match.end()
        if parts:
            text.parent.replace(text, [*parts, nodes.Text(str(text)[at:])])


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the extension (called by Sphinx)."""
    app.connect("doctree-resolved", tuck_away)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
