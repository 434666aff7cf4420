"""A matplotlib figure that shows itself in a notebook, with a text alternative and without pyplot's state."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from lrp_companion.metrics import Interval
from lrp_companion.views.palette import INK, RULE

FIGURE_WIDTH = (
    5.0  # inches; 10 points stay legible on a phone of 360 px, where a page shrinks the image to fit
)
SLIDE = 9.0, 4.3  # inches of a figure that fills a slide; 10 points are 18 px there
DPI = 144
LOOK: dict[Any, Any] = {
    "font.size": 10.0, "axes.titlesize": 10.0, "axes.labelsize": 10.0, "figure.titlesize": 10.5,
    "figure.labelsize": 10.0,
    "legend.fontsize": 9.5, "xtick.labelsize": 9.5, "ytick.labelsize": 9.5, "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK,
    "text.parse_math": False,
    "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False,
    "legend.frameon": False,
    "axes.grid": True, "axes.axisbelow": True, "grid.color": RULE, "grid.linewidth": 0.6,
    "lines.linewidth": 1.6, "lines.markersize": 5.0,
    "figure.facecolor": "white", "axes.facecolor": "white", "savefig.facecolor": "white",
}  # fmt: skip


class Drawing(Figure):
    """A figure with a text alternative: `alt` says what is drawn, and is the figure's plain-text form."""

    alt: str = "figure"

    def __repr__(self) -> str:
        return f"Figure: {self.alt}"

    __str__ = __repr__

    def _repr_png_(self) -> bytes:
        drawn, out = io.BytesIO(), io.BytesIO()
        with mpl.rc_context(LOOK):  # ticks are made while drawing
            self.savefig(drawn, format="png")
        # A palette of flat colours takes a third of the bytes.
        image = Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)
        description = PngInfo()
        description.add_itxt("Description", self.alt)
        image.save(out, format="png", optimize=True, pnginfo=description)
        return out.getvalue()


def drawing(
    alt: str,
    *,
    rows: int = 1,
    columns: int = 1,
    height: float = 3.2,
    width: float = FIGURE_WIDTH,
    **options: Any,
) -> tuple[Drawing, list[Axes]]:
    """Return an empty figure in the house's look and its axes, row by row.

    What is added later (titles, legends) takes the look too if the drawing function runs under
    `mpl.rc_context(LOOK)`.

    Parameters
    ----------
    alt : one sentence on what is drawn, for readers who do not see it.
    rows, columns, height, width : the grid of axes and the figure's size in inches.
    options : further options of `Figure.subplots`, such as `sharey=True`.

    >>> figure, (axes,) = drawing("Nothing yet.")
    >>> figure
    Figure: Nothing yet.
    """
    with mpl.rc_context(LOOK):
        figure = Drawing(figsize=(width, height), dpi=DPI, layout="constrained")
        figure.alt = alt
        return figure, list(figure.subplots(rows, columns, squeeze=False, **options).ravel())


def limits(intervals: Iterable[Interval]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the means, the lower and the upper limits of n intervals, shape (n,) each.

    >>> [values.tolist() for values in limits([Interval(0.5, 0.4, 0.6, 9), Interval(0.7, 0.5, 0.8, 9)])]
    [[0.5, 0.7], [0.4, 0.5], [0.6, 0.8]]
    """
    given = list(intervals)
    mean, low, high = (
        np.array([getattr(interval, name) for interval in given]) for name in ("mean", "low", "high")
    )
    return mean, low, high
