"""The book's figures of means with intervals: dots, lines, and the specification curve.

Each takes what `lrp_companion.interval` gives, an `xarray.Dataset` of mean, low and high.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes

from lrp_companion.metrics import Interval
from lrp_companion.registry import Style
from lrp_companion.show.canvas import FIGURE_WIDTH, LOOK, Drawing, drawing, headline
from lrp_companion.show.palette import INK, QUIET, styles
from lrp_companion.show.tables import with_intervals

PARTS = ("mean", "low", "high")
PAPER: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": QUIET, "color": QUIET}
SIDES = {"below": "#6b3fb0", "level": "#8a8a8a", "above": "#00755e"}
"""The colours of AttnLRP and CP-LRP, for whichever is ahead, and grey."""


@mpl.rc_context(LOOK)
def dots(
    means: xr.Dataset | pd.DataFrame | Mapping[str, Any],
    *,
    paper: Mapping[str, float] | None = None,
    quantity: str = "mean r with LOO",
    title: str | None = None,
) -> Drawing:
    """Draw a dot with its interval for each row: a panel for each entry of the first axis if there are two.

    Parameters
    ----------
    means : what `interval` gives, with one axis or two; or names to intervals, or these for each panel; or a
        table such as `word_table`, a panel for each NAME with its columns "NAME low" and "NAME high".
    paper : the paper's value by row, an open square.
    """
    panels, plain = _panels(means), isinstance(means, pd.DataFrame)
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


def _panels(
    means: xr.Dataset | pd.DataFrame | Mapping[str, Any],
) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Mean, low and high of each row of each panel."""
    if isinstance(means, pd.DataFrame):
        named = [of for of in means if f"{of} low" in means]
        means = with_intervals(means)[named].to_dict()
    if isinstance(means, xr.Dataset):
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
