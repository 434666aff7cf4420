"""The reader's sentence, explained in the page by the engine of `static/engine/`: no kernel, no server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import traitlets

from lrp_companion.attribution import Attribution
from lrp_companion.schema import TOKEN_CHOICES
from lrp_companion.show.tokens import token_heatmap
from lrp_companion.terminal import visible
from lrp_companion.widgets.base import Widget, check_address

SITES = ("word", "word+position")
MOST_LAYERS = 12
"""The most layers for which the page offers to compute all `2**layers` masks."""


class YourSentence(Widget, front="your_sentence"):
    """A text box for pages: LOO, AttnLRP, CP-LRP and mask gradient of the typed text, with layer switches.

    It is for pages with a staged model: the book's and those of `lrp-companion export-page`.
    In a notebook with a kernel, `LiveSentence` does this.

    Parameters
    ----------
    model : the page's description of the model: `name`, `labels`, `layers`, in bytes `fetched` and
        `memory`, whether its tokenizer `drops` characters that are not seen, and whether it is `multi`-label.
    folder : the model's folder, relative to the page, with a slash at the end.
    examples : sample texts; the first one is in the box.
    maps : maps of each example, shown until the model is loaded; LOO first.
    address : the widget's name in the page.
    """

    links = (
        *("text", "other", "compare", "mode", "bypassed", "amounts"),
        *("site", "tokens", "target", "removed"),
    )
    text = traitlets.Unicode("").tag(sync=True)
    other = traitlets.Unicode("").tag(sync=True)
    compare = traitlets.Bool(False).tag(sync=True)
    bypassed = traitlets.List(traitlets.Int()).tag(sync=True)
    amounts = traitlets.List(traitlets.Float()).tag(sync=True)
    mode = traitlets.Enum(["switches", "half-open"], "switches").tag(sync=True)
    site = traitlets.Enum(list(SITES), "word").tag(sync=True)
    tokens = traitlets.Enum(list(TOKEN_CHOICES), "no-special").tag(sync=True)
    target = traitlets.Int(-1).tag(sync=True)
    removed = traitlets.Int(-1).tag(sync=True)

    def __init__(
        self,
        model: dict[str, Any],
        *,
        folder: str,
        examples: Sequence[str],
        maps: Sequence[Sequence[Attribution]],
        address: str = "sentence",
    ) -> None:
        self._maps = list(maps[0])
        layers = model["layers"]
        data = {
            **model,
            "folder": folder,
            "sites": list(SITES),
            "masks": layers <= MOST_LAYERS,
            "examples": list(examples),
            "computed": [
                {
                    "tokens": [visible(token) for token in of_text[0].pieces],
                    "special": of_text[0].special.tolist(),
                    "maps": {record.method: record.scores.round(6).tolist() for record in of_text},
                }
                for of_text in maps
            ],
        }
        super().__init__(
            data=data,
            text=examples[0],
            other=examples[1 % len(examples)],
            amounts=[0.0] * layers,
            address=check_address("YourSentence", address),
        )

    def fallback(self) -> str:
        """Return the maps of the first example, computed when the page was made."""
        loo, *others = self._maps
        return token_heatmap(others, titles=[record.method for record in others], loo=loo).html()

    def summary(self) -> str:
        """Return the model's name and its number of layers."""
        return f"{self.data['name']}, {self.data['layers']} layers"
