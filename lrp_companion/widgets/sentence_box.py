"""A text box for the widget above it in a page, answered by the engine of `static/engine/`: no kernel."""

from __future__ import annotations

from typing import Any

from lrp_companion.checks import choose
from lrp_companion.widgets.base import Widget

FEEDS = ("layer_toggles", "layer_flow")
"""Front ends that take a reader's text; `sentence_box.js` says how."""


class SentenceBox(Widget, front="sentence_box"):
    """A text box for the widget above it, in a page without a kernel but with a staged model.

    Parameters
    ----------
    model, folder : as in `YourSentence`.
    feeds : the front end above that shows what is typed: "layer_toggles" or "layer_flow".
    """

    def __init__(self, model: dict[str, Any], *, folder: str, feeds: str) -> None:
        choose("SentenceBox", "feeds", feeds, FEEDS)
        super().__init__(data={**model, "folder": folder, "feeds": feeds}, address=f"own-{feeds}")

    def fallback(self) -> str:
        """Return a line for readers without scripts."""
        return "<p>With JavaScript, a text box stands here that explains a sentence of your own.</p>"

    def summary(self) -> str:
        """Return the model's name."""
        return str(self.data["name"])
