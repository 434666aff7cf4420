"""A text box, in Jupyter, that explains the reader's sentence; a page says that it needs a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets

from lrp_companion.checks import CompanionError
from lrp_companion.widgets.layer_flow import LayerFlow
from lrp_companion.widgets.layer_toggles import LayerToggles

NO_KERNEL = "In Jupyter, with a kernel, a text box stands here that explains a sentence of your own."


class LiveSentence(ipywidgets.VBox):
    """`LayerToggles` or `LayerFlow` with a text box above: type a sentence, press Enter, and it is explained.

    Parameters
    ----------
    widget : the widget to feed.
    explain : text to what the widget's `show` takes: for `LayerToggles` its `Lattice` and its LOO, for
        `LayerFlow` a mapping of methods to `LayerRelevance`. It may raise `CompanionError`, whose message is
        shown.

    >>> def explain(text):  # doctest: +SKIP
    ...     return lrp.layer_lattice(clf, text), lrp.attribute(clf, text, method="loo")[0]
    >>> LiveSentence(toggles, explain)  # doctest: +SKIP
    """

    def __init__(self, widget: LayerToggles | LayerFlow, explain: Callable[[str], Any]) -> None:
        self.widget, self.explain, self._last = widget, explain, ""
        self.text = ipywidgets.Text(
            placeholder="a sentence of your own",
            description="Sentence",
            continuous_update=False,
            layout=ipywidgets.Layout(width="60%"),
        )
        self.button = ipywidgets.Button(description="Explain", tooltip="Compute this sentence")
        self.said = ipywidgets.Label("")
        self.button.on_click(lambda _: self.run())
        self.text.observe(lambda _: self.run(), names="value")
        super().__init__([ipywidgets.HBox([self.text, self.button]), self.said, widget])

    def run(self) -> None:
        """Explain the sentence in the text box; an error is shown below, and the widget stays the same."""
        if not self.text.value.strip() or self.text.value == self._last:
            return  # a click also takes the focus from the box, which then reports the same text
        self._last = self.text.value
        self.button.disabled, self.said.value = True, "Computing ..."
        self.widget.add_class("lrp-stale")
        try:
            made = self.explain(self.text.value)
            show: Callable[..., None] = self.widget.show
            show(*(made if isinstance(made, tuple) else (made,)))
            self.said.value = ""
        except CompanionError as error:
            self.said.value = str(error)
        finally:
            self.button.disabled = False
            self.widget.remove_class("lrp-stale")

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options) or {}
        line = f'<p class="lrp-no-kernel" data-feeds="{self.widget.front}"><em>{NO_KERNEL}</em></p>'
        page = self.widget.page_html() + line
        return {**bundle, "text/plain": repr(self), "text/html": page}

    def __repr__(self) -> str:
        return f"LiveSentence({self.widget!r})"
