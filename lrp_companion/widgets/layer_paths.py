"""The paths of bypassed layers next to the paper's: r with LOO layer by layer, and how the ends differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import traitlets

from lrp_companion.show.tables import table
from lrp_companion.widgets.base import Widget

TRAITS = {"run": "runs", "protocol": "protocols", "path": "paths"}
OTHER_END = {"front-to-back": "back-to-front", "back-to-front": "front-to-back"}


class LayerPaths(Widget, front="layer_paths"):
    """Mean r with LOO as layers are bypassed, with its interval and the paper's printed values in one chart.

    Parameters
    ----------
    data : what `depth_paths` returns.
    run : the key of the run that is shown first.
    address : the widget's name in the page.

    Attributes
    ----------
    run : the key of the run: data set and model.
    protocol : "words", "positions" or "sums".
    path : "front-to-back", "back-to-front" or "single".
    layer : the layer k that is read, from 1; the last one where a run has fewer. At first the one at which as
        many layers from the other end give the most different r; the last one for single layers.

    >>> LayerPaths(depth_paths(runs), run="sst2-companion")  # doctest: +SKIP
    LayerPaths(4 runs; sst2-companion, words + positions, all tokens, back to front)
    """

    links = ("run", "protocol", "path", "layer")
    run = traitlets.Unicode().tag(sync=True)
    protocol = traitlets.Unicode("positions").tag(sync=True)
    path = traitlets.Unicode("back-to-front").tag(sync=True)
    layer = traitlets.Int(1).tag(sync=True)

    def __init__(self, data: Mapping[str, Any], *, run: str | None = None, address: str = "paths") -> None:
        super().__init__(data=dict(data), run=run or data["runs"][0]["key"], address=address)
        self.layer = self._farthest_apart()

    def _shown(self) -> Mapping[str, Any]:
        return next(row for row in self.data["runs"] if row["key"] == self.run)

    def _farthest_apart(self) -> int:
        """The layer at which the path is farthest from as many layers taken from the other end."""
        shown, other = self._shown(), OTHER_END.get(self.path)
        if other is None:
            return int(shown["layers"])
        cells = shown["cells"][self.protocol]
        pairs = zip(cells[self.path]["mean"], reversed(cells[other]["mean"]), strict=True)
        gaps = [0 if None in pair else abs(pair[0] - pair[1]) for pair in pairs]
        return 1 + gaps.index(max(gaps))

    def _label(self, name: str) -> str:
        rows, value = self.data[TRAITS[name]], getattr(self, name)
        return next(row["label"] for row in rows if row["key"] == value)

    def fallback(self) -> str:
        """Return the run and protocol in force as a table: every path by layer, and the paper's values."""
        shown = self._shown()
        cells, paper, labels = shown["cells"][self.protocol], shown["paper"], self.data["paths"]
        rows = []
        for k in range(shown["layers"]):
            row: dict[str, Any] = {"layer k": k + 1}
            for path in labels:
                row[path["label"]] = _interval(cells[path["key"]], k)
                if paper:
                    row[f"{path['label']}, the paper's"] = paper[path["key"]][k]
            rows.append(row)
        caption = f"{shown['label']}, n = {shown['n']:,}, {self._label('protocol')}: mean r with LOO"
        return table(rows, caption=caption, digits=2)._repr_html_()

    def summary(self) -> str:
        """Return how many runs there are, and what is shown."""
        count = len(self.data["runs"])
        shown = f"{self.run}, {self._label('protocol')}, {self._label('path')}"
        return f"{count} run{'s' * (count > 1)}; {shown}"


def _interval(cells: Mapping[str, Any], k: int) -> str:
    """A mean with its interval as tables print it."""
    mean, low, high = (cells[side][k] for side in ("mean", "low", "high"))
    if mean is None:
        return "undefined"
    return f"{mean:.2f}" if low is None else f"{mean:.2f} [{low:.2f}, {high:.2f}]"
