"""Chapter 3's drawings: a text goes up through the layers, relevance comes back down from one logit; r as
layers are bypassed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from lrp_companion.show.canvas import FIGURE_WIDTH, LOOK, Drawing, drawing, headline
from lrp_companion.show.curves import layer_curves
from lrp_companion.show.palette import INK, QUIET, RULE, styles

WORDS = ("[CLS]", "not", "a", "dull", "film", "[SEP]")
ROWS = {0.0: "words + positions", 1.25: "layer 1", 3.0: "layer 11", 4.7: "layer 12"}
"""Where each row of vectors stands, and its name."""


def way_back(*, wide: bool = False) -> Drawing:
    """Return the drawing of a classifier of twelve layers and of the two ways back through its attention.

    >>> way_back()  # doctest: +ELLIPSIS
    Figure: Six tokens in rows, ...
    """
    alt = (
        "Six tokens in rows, from words plus positions up through layers 1 to 12; the logit is read from "
        "[CLS] of layer 12. All relevance begins there and goes down: from a token of one layer to those of "
        "the one below, through their values under both rules, through the attention weights under AttnLRP."
    )
    looks = styles(["attnlrp", "cp-lrp"])
    with mpl.rc_context(LOOK):
        figure, (axes,) = drawing(alt, height=4.2, width=9.0 if wide else FIGURE_WIDTH)
        axes.set(xlim=(-0.6, 9.6), ylim=(-0.75, 6.4))
        axes.axis("off")
        for y, name in ROWS.items():
            for x, word in enumerate(WORDS):
                _box(axes, x, y, word if y == 0 else "")
            axes.text(5.65, y, name, va="center", color=QUIET)
        axes.text(2.5, 2.12, "⋮", ha="center", va="center", fontsize=16, color=QUIET)
        for x in range(len(WORDS)):  # what goes up
            axes.annotate("", (x, 0.97), (x, 0.28), arrowprops={"arrowstyle": "->", "color": RULE})
        for x in range(len(WORDS)):  # what comes down, from [CLS] of the last layer
            for method, side, line in (("cp-lrp", -1, "-"), ("attnlrp", 1, "--")):
                look = {"arrowstyle": "-|>", "color": looks[method].colour, "linestyle": line, "shrinkA": 0}
                look |= {"shrinkB": 0, "connectionstyle": f"arc3,rad={0.03 * side}"}
                axes.annotate("", (x + 0.1 * side, 3.28), (0.1 * side, 4.42), arrowprops=look)
        _box(axes, 0, 5.9, "logit")
        axes.annotate(
            "", (0, 4.98), (0, 5.62), arrowprops={"arrowstyle": "-|>", "color": INK, "linewidth": 2.2}
        )
        said = "All relevance begins here,\nthen is on [CLS], which the logit is read from."
        axes.text(0.55, 5.75, said, va="center")
        axes.text(7.1, 4.15, "through the values:\nboth rules", va="center", color=looks["cp-lrp"].colour)
        axes.text(7.1, 3.35, "through the weights:\nAttnLRP only", va="center", color=looks["attnlrp"].colour)
        axes.text(-0.35, -0.62, "Here a token's relevance is read, and compared with LOO.", va="center")
        headline(figure, "The way back: what is on [CLS] is handed down, layer by layer")
    return figure


def path_curves(curves: Mapping[str, Any], *, title: str, wide: bool = False) -> Drawing:
    """Draw `layer_curves`; the text alternative says which single layers have the lowest and the highest r.

    >>> from lrp_companion.metrics import Interval
    >>> steps = [Interval(r, r, r, 9) for r in (0.5, 0.6, 0.5)]
    >>> drawn = path_curves({"paths": {"single": steps}, "paper": {"single": [0.2, 0.3, 0.4]}}, title="r?")
    >>> print(drawn.alt.replace(". ", ".\\n"))
    r? Mean r with LOO.
    Here: single layer from 0.50 (1) to 0.60 (2).
    The paper: single layer from 0.20 (1) to 0.40 (3).
    """
    figure = layer_curves(**curves, title=title, wide=wide)
    told = [f"Here: {_walks(curves['paths'])}."]
    told += [f"The paper: {_walks(curves['paper'])}."] if curves.get("paper") else []
    figure.alt = f"{title}{'' if title.endswith('?') else '.'} Mean r with LOO. {' '.join(told)}"
    return figure


def _walks(paths: Mapping[str, Sequence[Any]]) -> str:
    """Where each path begins and ends; of single layers the lowest and the highest, with the layer."""
    looks, walks = styles(paths), []
    for name, steps in paths.items():
        means = np.array([getattr(step, "mean", step) for step in steps])
        ends = [int(means.argmin()), int(means.argmax())] if name == "single" else [0, -1]
        first, last = (f"{means[k]:.2f}" + (f" ({k + 1})" if name == "single" else "") for k in ends)
        walks.append(f"{looks[name].label} from {first} to {last}")
    return "; ".join(walks)


def _box(axes: Axes, x: float, y: float, word: str) -> None:
    frame = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": INK, "linewidth": 0.9}
    axes.text(x, y, word or " " * 4, ha="center", va="center", fontsize=8.5, bbox=frame)
