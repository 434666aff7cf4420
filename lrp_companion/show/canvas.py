"""A matplotlib figure that shows itself in a notebook, with a text alternative and without pyplot's state.

Lines and points are named where they are: `label_ends` names lines beside the panel, `label_points` points in
it, and `settle` moves the names apart once the figure has its layout.
"""

from __future__ import annotations

import io
import itertools
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation, Text
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from lrp_companion.metrics import Interval
from lrp_companion.show.palette import INK, RULE


def spread(wanted: Sequence[float], *, gap: float, low: float, high: float) -> np.ndarray:
    """Move places apart, as little as possible: the least squares under a smallest gap and two limits.

    Parameters
    ----------
    wanted : (n,) places in any order, which is kept; equal ones stay in the order given.
    gap : the smallest distance of two neighbours.
    low, high : the first and the last place that may be taken; where all do not fit, `high` gives way.

    Returns
    -------
    ndarray
        (n,), in the order of `wanted`.

    >>> spread([0.0, 0.0, 5.0], gap=2.0, low=-9, high=9).tolist()
    [-1.0, 1.0, 5.0]
    """
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(order))
    blocks: list[tuple[float, int]] = []  # of places that touch: their mean without the steps, how many
    for place in np.asarray(wanted, dtype=np.float64)[order] - steps:
        mean, count = float(place), 1
        while blocks and blocks[-1][0] > mean:
            before, several = blocks.pop()
            mean = (before * several + mean * count) / (several + count)
            count += several
        blocks.append((mean, count))
    apart = np.repeat([mean for mean, _ in blocks], [count for _, count in blocks])
    last = max(low, high - steps[-1]) if len(steps) else high
    out = np.empty(len(order))
    out[order] = np.clip(apart, low, last) + steps
    return out


FIGURE_WIDTH = (
    5.0  # inches; 10 points stay legible on a phone of 360 px, where a page shrinks the image to fit
)
NAME_SIZE = 9.0  # points of a name at its line
NAME_LINE = {"arrowstyle": "-", "linewidth": 0.6, "shrinkA": 0}
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


def headline(figure: Figure, title: str | None) -> None:
    """Write the title over a figure, in as many lines as it needs."""
    if title:
        kept = title.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
        lines = textwrap.wrap(kept, int(11 * figure.get_figwidth()))
        figure.suptitle(
            "\n".join(lines), fontweight="bold", fontsize=LOOK["figure.titlesize"], x=0.01, ha="left"
        )


@dataclass(frozen=True)
class Name:
    """What a line or a point is called, where it is in the units of its panel, and its colour."""

    text: str
    x: float
    y: float
    colour: str


def label_ends(axes: Axes, names: Sequence[Name]) -> None:
    """Name lines on the right of a panel, at the height of their ends; `settle` moves the names apart."""
    for name in names:
        axes.annotate(
            name.text,
            (name.x, name.y),
            xytext=(1.03, name.y),
            textcoords=axes.get_yaxis_transform(),
            color=name.colour,
            fontsize=NAME_SIZE,
            va="center",
            annotation_clip=False,
            arrowprops={**NAME_LINE, "color": name.colour, "shrinkB": 3},
            gid="end",
        )


def label_points(axes: Axes, names: Sequence[Name]) -> None:
    """Name points within a panel; `settle` moves the names off one another."""
    for name in names:
        axes.annotate(
            name.text,
            (name.x, name.y),
            xytext=(6, 6),
            textcoords="offset points",
            color=name.colour,
            fontsize=NAME_SIZE,
            va="center",
            ha="center",
            arrowprops={**NAME_LINE, "color": name.colour, "shrinkB": 4},
            gid="point",
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        ).set_in_layout(False)


def settle(figure: Figure) -> None:
    """Lay a figure out, and move the names of `label_ends` and `label_points` off one another."""
    figure.draw_without_rendering()
    for axes in figure.axes:
        labels = [text for text in axes.texts if isinstance(text, Annotation)]
        if ends := [text for text in labels if text.get_gid() == "end"]:
            _settle_ends(axes, ends)
        panel = axes.get_window_extent()
        taken = [Text.get_window_extent(text) for text in axes.texts if text.get_gid() is None]
        for label in (text for text in labels if text.get_gid() == "point"):
            box = Text.get_window_extent(label)  # without its line
            across, up = (side * 36 / axes.figure.dpi for side in (box.width, box.height))
            for distance, (right, above) in itertools.product((6, 14, 24, 36), SIDES):
                label.set_position((right * (across + distance), above * (up + distance)))
                box = Text.get_window_extent(label)
                inside = box.x0 >= panel.x0 and box.x1 <= panel.x1
                if inside and not any(box.overlaps(other) for other in taken):
                    break
            taken.append(box)


SIDES = (1, 1), (1, -1), (-1, 1), (-1, -1), (0, 1), (0, -1)
"""Where a name may stand beside its point, the first free one: right (1) or left, above (1) or below."""


def _settle_ends(axes: Axes, labels: Sequence[Annotation]) -> None:
    """Move names beside a panel apart, each as near to the end of its line as the others allow."""
    panel = axes.get_window_extent()
    heights = [axes.transData.transform(label.xy)[1] for label in labels]
    gap = max(Text.get_window_extent(label).height for label in labels)
    places = spread(heights, gap=gap, low=panel.y0 + gap / 2, high=panel.y1 - gap / 2)
    for label, place in zip(labels, places, strict=True):
        label.set_position((1.03, axes.transData.inverted().transform((panel.x1, place))[1]))
