"""A matplotlib figure that shows itself in a notebook, with a text alternative and without pyplot's state."""

from __future__ import annotations

import io
import textwrap
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from lrp_companion.show.palette import INK, RULE

FIGURE_WIDTH = 5.0  # inches; 10 points stay legible on a phone of 360 px, where a page shrinks the image
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
    """Return an empty figure (inches) in the house's look and its axes, row by row; `alt` says what is drawn.

    What is added later (titles, legends) takes the look too if the drawing function runs under
    `mpl.rc_context(LOOK)`. Further options are those of `Figure.subplots`.

    >>> figure, (axes,) = drawing("Nothing yet.")
    >>> figure
    Figure: Nothing yet.
    """
    with mpl.rc_context(LOOK):
        figure = Drawing(figsize=(width, height), dpi=DPI, layout="constrained")
        figure.alt = alt
        return figure, list(figure.subplots(rows, columns, squeeze=False, **options).ravel())


def headline(figure: Figure, title: str | None) -> None:
    """Write the title over a figure, in as many lines as it needs."""
    if title:
        kept = title.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
        lines = textwrap.wrap(kept, int(11 * figure.get_figwidth()))
        figure.suptitle(
            "\n".join(lines), fontweight="bold", fontsize=LOOK["figure.titlesize"], x=0.01, ha="left"
        )
