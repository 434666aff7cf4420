"""Sphinx extension: large data of a widget in a separate file, which pages with the same widget share.

A file is a script, because a page opened from disk may load no other kind, and is named by its content: the
decks show the widgets of the chapters, so a browser that has seen the chapter has the deck's data already.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from lrp_book.sphinx.slides import WIDGET
from lrp_companion.widgets import base as widgets

LARGE = 100_000  # characters of data from which on they are shared
FOLDER = "_static/companion/data"


def shared(markup: str, address: str) -> tuple[str, dict[str, str]]:
    """Return a page's markup with large widget data taken out, and the scripts that hold them, by name.

    In the place of its data a widget has their name; `address` leads from the page to the folder of scripts.
    """
    scripts: dict[str, str] = {}

    def take(widget: re.Match[str]) -> str:
        blob = json.loads(widget["data"])
        text = widgets.embed(blob["state"].get("data"))
        if len(text) < LARGE:
            return widget[0]
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        loads = "" if name in scripts else f'<script src="{address}/{name}.js"></script>'
        scripts[name] = f'(window.companionData ??= {{}})["{name}"] = {text};\n'
        del blob["state"]["data"]
        return loads + widget["open"] + widgets.embed({**blob, "shared": name}) + widget["close"]

    return WIDGET.sub(take, markup), scripts


def share(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Write the data that a page's widgets can share next to the book's other scripts."""
    if doctree is None or app.builder.format != "html" or "body" not in context:
        return
    address = f"{context['content_root']}{FOLDER}"
    context["body"], scripts = shared(context["body"], address)
    for name, text in scripts.items():
        path = Path(app.outdir, FOLDER, f"{name}.js")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the extension (called by Sphinx)."""
    app.connect("html-page-context", share, priority=960)  # once `slides` has laid the decks out
    return {"parallel_read_safe": True, "parallel_write_safe": True}
