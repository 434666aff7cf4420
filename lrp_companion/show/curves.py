"""Figures of means with intervals: agreement along the layers, agreement by method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from lrp_companion.metrics import Interval
from lrp_companion.show.canvas import (
    LOOK,
    SLIDE,
    Drawing,
    Name,
    drawing,
    headline,
    label_ends,
    limits,
    settle,
)
from lrp_companion.show.palette import INK, QUIET, styles

PATH_TITLES = {
    "front-to-back": "Front to back: layers 1 to k",
    "back-to-front": "Back to front: layers k to {last}",
    "single": "Single: layer k alone",
}
PROJECT_LABEL, PAPER_LABEL = "this project, with interval", "the paper's (another model)"
PROJECT_NAME, PAPER_NAME = "this project", "the paper's model"
"""The same in a few letters, at the lines."""
LEVEL_DASHES = {"AttnLRP": ":", "CP-LRP": "-."}


@mpl.rc_context(LOOK)
def layer_curves(
    paths: Mapping[str, Sequence[Interval]],
    *,
    levels: Mapping[str, Interval] | None = None,
    paper: Mapping[str, Sequence[float]] | None = None,
    quantity: str = "mean r with LOO",
    title: str | None = None,
    wide: bool = False,
) -> Drawing:
    """Draw agreement with LOO as layers are bypassed (the paper's Figure 2): a panel per path, layer k along.

    Parameters
    ----------
    paths : "front-to-back", "back-to-front", "single" (any of them) to one interval per step, in the order of
        the path: back to front begins with the last layer. Bands are the intervals.
    levels : named levels drawn across all panels, such as AttnLRP (no layer bypassed) and CP-LRP (all).
    paper : the paper's values for the same paths and steps, drawn dashed and named as the paper's.
    quantity : what the vertical axis shows.
    wide : panels side by side, as on a slide.
    """
    (last,) = {len(steps) for steps in paths.values()}
    figure, panels = drawing(
        layer_alt(paths, quantity, title),
        **_grid(len(paths), wide=wide, height=0.9 + 1.45 * len(paths)),
        sharex=True,
        sharey=True,
    )
    for axes, (name, steps) in zip(panels, paths.items(), strict=True):
        for label, level in (levels or {}).items():
            dash = LEVEL_DASHES.get(label, "--")
            axes.axhline(level.mean, color=INK, linewidth=1.1, linestyle=dash, label=label, zorder=1.5)
        _path(axes, name, steps, (paper or {}).get(name))
        if not wide or axes is panels[-1]:
            label_ends(axes, _end_names(name, steps, levels or {}, (paper or {}).get(name)))
        backward = " (read from right to left)" if name == "back-to-front" and not wide else ""
        axes.set_title(PATH_TITLES[name].format(last=last) + backward)
        axes.xaxis.set_major_locator(MaxNLocator(min(last, 12), integer=True))
    for axes in panels if wide else panels[-1:]:
        axes.set_xlabel("layer k")
    figure.supylabel(quantity)
    headline(figure, title)
    settle(figure)
    return figure


def _end_names(
    path: str,
    steps: Sequence[Interval],
    levels: Mapping[str, Interval],
    paper: Sequence[float] | None,
) -> list[Name]:
    """What the lines of a panel are called, at their right ends."""
    right = 0 if path == "back-to-front" else -1  # the step at the last layer
    names = [Name(label, len(steps), level.mean, INK) for label, level in levels.items()]
    names.append(Name(PROJECT_NAME, len(steps), steps[right].mean, styles([path])[path].colour))
    return names + ([Name(PAPER_NAME, len(steps), paper[right], QUIET)] if paper else [])


def _grid(count: int, *, wide: bool, height: float) -> dict[str, Any]:
    """So many panels one beneath the other in this height, or side by side on a slide."""
    if wide:
        return {"columns": count, "height": SLIDE[1], "width": SLIDE[0]}
    return {"rows": count, "height": height}


def _path(axes: Axes, name: str, steps: Sequence[Interval], paper: Sequence[float] | None) -> None:
    """One path over layer k with its band, and the paper's values where there are any."""
    style, last = styles([name])[name], len(steps)
    layers = np.arange(last, 0, -1) if name == "back-to-front" else np.arange(1, last + 1)
    if paper:
        dots: dict[str, Any] = {"marker": "o", "markersize": 3.5, "markerfacecolor": "white"}
        line: dict[str, Any] = {"color": QUIET, "linestyle": (0, (4, 2)), "linewidth": 1.2}
        axes.plot(layers, paper, label=PAPER_LABEL, **line, **dots)
    mean, low, high = limits(steps)
    axes.fill_between(layers, low, high, color=style.colour, alpha=0.22, linewidth=0)
    look: dict[str, Any] = {"color": style.colour, "marker": style.marker, "linestyle": style.dash}
    axes.plot(layers, mean, label=PROJECT_LABEL, **look)


def layer_alt(paths: Mapping[str, Sequence[Interval]], quantity: str, title: str | None) -> str:
    """Say in a sentence where each path begins and ends."""
    looks = styles(paths)
    walks = "; ".join(
        f"{looks[name].label} from {steps[0].mean:.2f} to {steps[-1].mean:.2f}"
        for name, steps in paths.items()
    )
    return f"{title + '. ' if title else ''}{quantity} by bypassed layers: {walks}."
