"""A text box for the layer switches of a page, answered by the engine of `static/engine/`: no kernel."""

from __future__ import annotations

from typing import Any

from lrp_companion.widgets.base import Widget


class LiveToggles(Widget, front="live_toggles"):
    """A text box for the `LayerToggles` above it in a page, where no kernel runs but a model is staged.

    Parameters
    ----------
    model, folder : as in `YourSentence`.
    """

    def __init__(self, model: dict[str, Any], *, folder: str) -> None:
        super().__init__(data={**model, "folder": folder}, address="own")

    def fallback(self) -> str:
        """Return a line for readers without scripts."""
        return "<p>With JavaScript, a text box stands here that explains a sentence of your own.</p>"

    def summary(self) -> str:
        """Return the model's name."""
        return str(self.data["name"])
