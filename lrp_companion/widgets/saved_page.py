"""A widget as one file: its state, style and script in a page that loads nothing else."""

from __future__ import annotations

import os

from lrp_companion.checks import InputError, shown
from lrp_companion.extras import extra
from lrp_companion.show.export import ending, page, write
from lrp_companion.widgets.base import Widget, front_end, page_script


@extra("save")
def save_widget(widget: Widget, path: str | os.PathLike) -> None:
    """Save a widget as a page that works without a network, a kernel or a server.

    The page shows the state that the widget has now.

    Raises
    ------
    InputError : no widget; a path that does not end in .html, or a folder that does not exist.
    """
    if not isinstance(widget, Widget):
        expected, hint = "a widget of the package", "pass the widget, then the path"
        raise InputError("save_widget", got=shown(widget), expected=expected, hint=hint)
    operation = f"{type(widget).__name__}.save"
    ending(operation, path, (".html",))
    body = f"<h1>{type(widget).__name__}</h1>{widget.page_html()}"
    # no text can end the style or the script: both are the package's files
    style = "body{margin:1em auto;max-width:70em;padding:0 1em;font:16px/1.4 sans-serif}"
    style += front_end(widget.front, "css")
    text = page(repr(widget), body, style=style, script=page_script(widget.front))
    write(operation, path, text.encode())
