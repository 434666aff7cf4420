"""Figures that show themselves in a notebook, with a text alternative and without pyplot's state.

Dots, lines and the specification curve take what `lrp_companion.interval` gives, an `xarray.Dataset` of mean,
low and high; patches of images stand over the picture.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError, real_array
from lrp_companion.metrics import Interval
from lrp_companion.registry import Style, label_of
from lrp_companion.show.palette import INK, QUIET, RULE, diverging_map, styles
from lrp_companion.show.tables import with_intervals
from lrp_companion.show.tokens import write

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

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


PARTS = ("mean", "low", "high")
PAPER: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": QUIET, "color": QUIET}
SIDES = {"below": "#6b3fb0", "level": "#8a8a8a", "above": "#00755e"}
"""The colours of AttnLRP and CP-LRP, for whichever is ahead, and grey."""


@mpl.rc_context(LOOK)
def dots(
    means: xr.Dataset | pd.DataFrame | Mapping[str, Any],
    *,
    paper: Mapping[str, float] | None = None,
    quantity: str | None = None,
    title: str | None = None,
) -> Drawing:
    """Draw a dot with its interval for each row: a panel for each entry of the first axis if there are two.

    Parameters
    ----------
    means : what `interval` gives, with one axis or two; or names to intervals, or these for each panel; or a
        table such as `word_table`, a panel for each NAME with its columns "NAME low" and "NAME high".
    paper : the paper's value by row, an open square.
    quantity : what the means are; by default the mean r with LOO, or what a table says of itself (`attrs`).
    """
    panels, plain = _panels(means), hasattr(means, "columns")
    said = getattr(means, "attrs", {}).get("quantity", "mean") if plain else "mean r with LOO"
    quantity = said if quantity is None else quantity
    count = max(map(len, panels.values()))
    height = 0.8 + len(panels) * (0.3 + 0.27 * count)
    told = {of: _told([*rows], [mean for mean, *_ in rows.values()]) for of, rows in panels.items()}
    alt = _alt(quantity, title, told)
    alike = len({tuple(rows) for rows in panels.values()}) == 1
    figure, axes = drawing(alt, rows=len(panels), height=height, sharex=True, sharey=alike)
    for panel, (of, rows) in zip(axes, panels.items(), strict=True):
        # a row of a table may be a word that is the name of a method, too
        looks = {name: Style(name, INK, "o", "-") for name in rows} if plain else styles(rows)
        for k, (name, (mean, low, high)) in enumerate(rows.items()):
            panel.plot([low, high], [k, k], color=looks[name].colour, linewidth=2.2, solid_capstyle="butt")
            panel.plot(mean, k, marker=looks[name].marker, color=looks[name].colour, markersize=7)
            if paper and name in paper:
                panel.plot(paper[name], k, marker="s", markersize=6.5, linestyle="none", **PAPER)
        panel.set_yticks(range(len(rows)), [looks[name].label for name in rows])
        panel.set_ylim(len(rows) - 0.4, -0.6)
        panel.grid(visible=False, axis="y")
        panel.axvline(0, color=INK, linewidth=0.9)
        panel.set_title(of)
    axes[-1].set_xlabel(quantity + (" (open squares: the paper's model)" if paper else ""))
    headline(figure, title)
    return figure


@mpl.rc_context(LOOK)
def lines(
    means: xr.Dataset,
    *,
    paper: Mapping[str, Sequence[float]] | None = None,
    levels: Mapping[str, Interval] | None = None,
    quantity: str = "mean r with LOO",
    title: str | None = None,
) -> Drawing:
    """Draw means with bands along the last axis, such as layers: a line for each entry of the other axis.

    Parameters
    ----------
    means : what `interval` gives, with one axis or two.
    paper : the paper's values along the same axis, by line: dashed, in the line's colour.
    levels : intervals drawn across, by name, such as AttnLRP and CP-LRP.
    """
    along = _last(means)
    named = {quantity: means} if len(means.dims) == 1 else _by_first(means)
    steps = [str(value) for value in means[along].values]
    alt = _alt(quantity, title, {of: _told(steps, line["mean"].values) for of, line in named.items()})
    figure, (axes,) = drawing(alt, height=3.4 + 0.2 * len(named))
    x = np.arange(means.sizes[along])
    for name, look in styles(named).items():
        line, label = named[name], look.label if len(named) > 1 else None
        axes.fill_between(x, line["low"], line["high"], color=look.colour, alpha=0.22, linewidth=0)
        axes.plot(x, line["mean"], color=look.colour, marker=look.marker, linestyle=look.dash, label=label)
        if paper and name in paper:
            label = f"{look.label}, the paper's" if label else "the paper's model"
            own: dict[str, Any] = {"marker": "o", "markersize": 3.5, "markerfacecolor": "none"}
            axes.plot(x, paper[name], color=look.colour, linestyle=(0, (4, 2)), label=label, **own)
    for (name, level), dash in zip((levels or {}).items(), cycle((":", "-.", "--"))):
        axes.axhline(level.mean, color=INK, linewidth=1.1, linestyle=dash, zorder=1.5, label=name)
    axes.set_xticks(x, steps)
    axes.set(xlabel=along, ylabel=quantity)
    if axes.get_legend_handles_labels()[1]:
        figure.legend(loc="outside lower left", ncols=2)
    headline(figure, title)
    return figure


@mpl.rc_context(LOOK)
def specification_curve(
    means: xr.Dataset, *, margin: float = 0.05, quantity: str = "CP-LRP − AttnLRP", title: str | None = None
) -> Drawing:
    """Draw every combination of choices, sorted by effect, its choices underneath (Simonsohn et al. 2020).

    Parameters
    ----------
    means : what `interval` gives of the difference, an axis for each choice.
    margin : differences below it are level: the band in grey.
    """
    flat = means.stack(cell=list(means.dims)).sortby("mean")
    mean, low, high = (flat[part].values for part in ("mean", "low", "high"))
    options = [(str(choice), option) for choice in means.dims for option in means[choice].values]
    x = np.arange(len(mean))
    side = np.where(low > 0, "above", np.where(high < 0, "below", "level"))
    alt = f"{title or quantity}: {len(x)} combinations, from {mean[0]:.2f} to {mean[-1]:.2f}."
    height = 2.6 + 0.24 * len(options)
    figure, (top, bottom) = drawing(
        alt,
        rows=2,
        sharex=True,
        width=0.95 * FIGURE_WIDTH,  # pyplot's display adds a margin
        height=height,
        height_ratios=[2.2, 0.24 * len(options)],
    )
    top.axhspan(-margin, margin, color="#8a8a8a", alpha=0.15, linewidth=0)
    for name, colour in SIDES.items():
        top.vlines(x[side == name], low[side == name], high[side == name], color=colour, linewidth=2)
        top.plot(x[side == name], mean[side == name], "o", color=colour, markersize=5)
    top.axhline(0, color=INK, linewidth=0.9)
    top.set_ylabel(quantity)
    _options(bottom, flat, options, x)
    headline(figure, title)
    return figure


def _options(axes: Axes, flat: xr.Dataset, options: Sequence[tuple[str, Any]], x: np.ndarray) -> None:
    for row, (choice, option) in enumerate(options):
        chosen = x[flat[choice].values == option]
        axes.plot(chosen, np.full(len(chosen), row), marker="|", markersize=9, linestyle="none", color=INK)
    axes.set_yticks(range(len(options)), [f"{choice}: {option}" for choice, option in options])
    axes.set_ylim(len(options) - 0.4, -0.6)
    axes.set_xticks([])
    axes.grid(visible=False)


def _panels(means: Any) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Mean, low and high of each row of each panel."""
    if hasattr(means, "columns"):
        named = [of for of in means if f"{of} low" in means]
        means = with_intervals(means)[named].to_dict()
    if hasattr(means, "data_vars"):
        parts = {"": means} if len(means.dims) == 1 else _by_first(means)
        columns = {of: zip(*(part[name].values for name in PARTS), strict=True) for of, part in parts.items()}
        names = [str(name) for name in means[_last(means)].values]
        return {of: dict(zip(names, map(tuple, rows), strict=True)) for of, rows in columns.items()}
    groups = means if all(isinstance(rows, Mapping) for rows in means.values()) else {"": means}
    return {
        of: {name: (one.mean, one.low, one.high) for name, one in rows.items()} for of, rows in groups.items()
    }


def _by_first(means: xr.Dataset) -> dict[str, xr.Dataset]:
    first = str(means["mean"].dims[0])
    return {str(of): means.isel({first: k}) for k, of in enumerate(means[first].values)}


def _last(rows: xr.Dataset) -> str:
    return str(rows["mean"].dims[-1])


def _told(names: Sequence[str], means: Iterable[float]) -> str:
    return ", ".join(f"{name} {mean:.2f}" for name, mean in zip(names, means, strict=True))


def _alt(quantity: str, title: str | None, told: Mapping[str, str]) -> str:
    parts = "; ".join(f"{of}: {text}" if of else text for of, text in told.items())
    return f"{title + '. ' if title else ''}{quantity}: {parts}."


PATCH = re.compile(r"patch (\d+),(\d+)")
FIGURES = ("png", "svg", "pdf")
FAINT = 0.08
"""Of the largest |score|: below zero by more than this carries a dot."""


def patch_grid(record: Attribution) -> np.ndarray:
    """Scores of the patches of an image as rows and columns; special tokens are left out.

    Raises
    ------
    InputError : a record of something else.

    >>> names = ("[CLS]", "patch 0,0", "patch 0,1")
    >>> patch_grid(Attribution(names, [9.0, 1.0, 2.0], 0, 1.0, [True, False, False], "loo")).tolist()
    [[1.0, 2.0]]
    """
    matches = [
        (PATCH.fullmatch(name), score) for name, score in zip(record.tokens, record.scores, strict=True)
    ]
    places = {(int(match[1]), int(match[2])): score for match, score in matches if match}
    if not places:
        got, hint = f"tokens such as {record.tokens[0]!r}", "explain an image with a model that reads images"
        raise InputError("patch_grid", got=got, expected="a record of an image, with patches", hint=hint)
    rows, columns = (1 + max(place[axis] for place in places) for axis in (0, 1))
    out = np.zeros((rows, columns))
    for place, score in places.items():
        out[place] = score
    return out


@mpl.rc_context(LOOK)
def patch_maps(
    images: Any,
    maps: Mapping[str, Sequence[Attribution]],
    *,
    labels: Sequence[str] | None = None,
    title: str | None = None,
) -> Drawing:
    """Draw images and the scores of their patches over them: one row per image, a column per method.

    Parameters
    ----------
    images : (n, H, W) or (n, C, H, W); each is drawn from its least to its largest value.
    maps : column heading to n records of `attribute`. Each map is scaled by its largest |score| of a patch:
        orange is above zero, blue below. Patches below zero carry a dot, so that colour is not the only sign.
    labels : the text in front of each row, such as the predicted class.

    Raises
    ------
    InputError : records of something else.
    ValueError : another number of records than of images.
    """
    pixels = real_array("patch_maps", "images", images)
    named = zip(labels or [""] * len(pixels), pixels, *maps.values(), strict=True)
    columns = 1 + len(maps)
    head = f"{title}. " if title else ""
    figure, panels = drawing(
        f"{head}{len(pixels)} images, each next to its patches by {', '.join(maps)}.",
        rows=len(pixels),
        columns=columns,
        height=0.35 + 1.2 * len(pixels),
        width=max(FIGURE_WIDTH, 1.2 * columns),
    )
    for axes, name in zip(panels, ["image", *maps], strict=False):
        axes.set_title(name, fontsize=8.5, loc="center")
    for row, (label, image, *records) in enumerate(named):
        ink = _darkness(image)
        first, *rest = panels[row * columns : (row + 1) * columns]
        first.imshow(ink, cmap="gray_r", vmin=0, vmax=1)
        first.set_ylabel(label, fontsize=8.5)
        for axes, record in zip(rest, records, strict=True):
            _over(axes, patch_grid(record), ink)
    for axes in panels:
        axes.set_xticks([])
        axes.set_yticks([])
        axes.grid(visible=False)
    if title:
        figure.suptitle(title, fontweight="bold")
    return figure


def save_map(file: str, record: Attribution, image: Any) -> None:
    """Write one image and its patches as `.png`, `.svg` or `.pdf`; else as `record.save` does."""
    ending = file.lower().rpartition(".")[2]
    if ending not in FIGURES:
        record.save(file)
        return
    drawn = io.BytesIO()
    patch_maps([image], {label_of(record.method): [record]}).savefig(drawn, format=ending)
    write("explain", file, drawn.getvalue())


def _darkness(image: np.ndarray) -> np.ndarray:
    """An image (H, W) or (C, H, W) as one value from 0 to 1 per pixel."""
    plane = image if image.ndim == 2 else image.mean(0)
    spread = np.ptp(plane)
    return (plane - plane.min()) / (spread or 1.0)


def _over(axes: Axes, scores: np.ndarray, ink: np.ndarray) -> None:
    """Scores of patches with the picture drawn over them."""
    (height, width), largest = ink.shape, np.abs(scores).max() or 1.0
    whole: Any = (-0.5, width - 0.5, height - 0.5, -0.5)
    axes.imshow(scores, cmap=diverging_map(), vmin=-largest, vmax=largest, extent=whole)
    axes.imshow(np.zeros_like(ink), cmap="gray", vmin=0, vmax=1, alpha=0.45 * ink, extent=whole)
    down, right = np.nonzero(scores < -FAINT * largest)
    tall, wide = height / scores.shape[0], width / scores.shape[1]
    x, y = (right + 0.5) * wide - 0.5, (down + 0.5) * tall - 0.5
    axes.plot(x, y, linestyle="none", marker=".", markersize=2.4, color=INK)
