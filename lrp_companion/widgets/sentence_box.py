"""A text box for the `LayerFlow` above it in a page; the engine in `static/engine/` answers, no kernel."""

from __future__ import annotations

from typing import Any

from lrp_companion.widgets.base import Widget


class SentenceBox(Widget, front="sentence_box"):
    """A text box for the `LayerFlow` above it, in a page without a kernel but with a staged model.

    Parameters
    ----------
    live : as in `LayerToggles`.
    """

    def __init__(self, live: dict[str, Any]) -> None:
        super().__init__(data=live, address="own-layer_flow")

    def fallback(self) -> str:
        """Return a line for readers without scripts."""
        return "<p>With JavaScript, a text box stands here that explains a sentence of your own.</p>"

    def summary(self) -> str:
        """Return the model's name."""
        return str(self.data["name"])
