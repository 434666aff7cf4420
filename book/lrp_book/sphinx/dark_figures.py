"""Sphinx extension: the text alternative that a figure carries in its file is put beside it in a page.

Figures are drawn once, on white; a filter of `pages.css` turns them on dark pages.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from PIL import Image
from sphinx.application import Sphinx

FIGURE = re.compile(
    r'<img\b(?P<before>[^>]*?)\bsrc="(?P<place>(?:\.\./)*_(?:images|static)/(?P<name>[\w.-]+\.png))"'
)
ALT = re.compile(r'\balt="[^"]*"')


def described(picture: Path) -> str:
    """What a figure says of itself (`show.figures`), or "" if it says nothing."""
    with Image.open(picture) as image:
        return str(getattr(image, "text", {}).get("Description", ""))


def describe(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Mark a page's figures for the filter, and give each its text."""
    sources = {name: Path(app.srcdir, source) for source, name in app.builder.images.items()}

    def marked(match: re.Match[str]) -> str:
        before, source = match["before"], sources.get(match["name"])
        if source is not None and (told := described(source)):
            before = ALT.sub(lambda _: f'alt="{html.escape(told, quote=True)}"', before)
        return f'<img class="dark-light"{before}src="{match["place"]}"'

    if "body" in context:
        context["body"] = FIGURE.sub(marked, context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the extension (called by Sphinx)."""
    app.connect("html-page-context", describe, priority=950)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
