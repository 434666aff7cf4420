"""Figures of means with intervals: agreement along the layers, agreement by method, perturbation curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from lrp_companion.metrics import Curve, Interval, bootstrap_mean
from lrp_companion.schema import InputError
from lrp_companion.views.canvas import LOOK, Drawing, drawing
from lrp_companion.views.palette import INK, QUIET, Style, styles

PATH_TITLES = {
    "front-to-back": "Front to back: layers 1 to k",
    "back-to-front": "Back to front: layers k to {last} (read from right to left)",
    "single": "Single: layer k alone",
}
LEVELS = {"AttnLRP": ":", "CP-LRP": "-."}
GRID = np.linspace(0, 1, 21)


@mpl.rc_context(LOOK)
def layer_curves(
    paths: Mapping[str, Sequence[Interval]], *, levels: Mapping[str, Interval] | None = None,
    paper: Mapping[str, Sequence[float]] | None = None, quantity: str = "mean r with LOO", title: str | None = None,
) -> Drawing:  # fmt: skip
    """Draw agreement with LOO as layers are bypassed: one panel per path, layer k on the common axis (the
    paper's Figure 2).

    Parameters
    ----------
    paths : "front-to-back", "back-to-front", "single" (any of them) to one interval per step, in the path's
        own order: back to front begins with the last layer. Bands are the intervals.
    levels : named levels drawn across all panels, such as AttnLRP (no layer bypassed) and CP-LRP (all).
    paper : the paper's values for the same paths and steps, drawn dashed and named as the paper's.
    quantity : what the vertical axis shows.
    """
    if (
        not paths
        or set(paths) - set(PATH_TITLES)
        or len({len(steps) for steps in paths.values()}) != 1
        or not all(paths.values())
    ):
        raise InputError(
            "layer_curves",
            got=f"paths { ({name: len(steps) for name, steps in paths.items()}) }",
            expected=f"some of {', '.join(PATH_TITLES)}, one step per layer each",
            hint="pass one interval per layer and path",
        )
    last = len(next(iter(paths.values())))
    for name, values in (paper or {}).items():
        if name in paths and len(values) != last:
            raise InputError(
                "layer_curves",
                got=f"{len(values)} values of the paper for {name}",
                expected=f"{last}, one per step",
                hint="leave the paper out for a model of other depth",
            )
    figure, panels = drawing(
        _layer_alt(paths, quantity, title),
        rows=len(paths),
        height=0.9 + 1.75 * len(paths),
        sharex=True,
        sharey=True,
    )
    for axes, (name, steps) in zip(panels, paths.items(), strict=True):
        style = styles([name])[name]
        layers = np.arange(last, 0, -1) if name == "back-to-front" else np.arange(1, last + 1)
        for label, level in (levels or {}).items():
            axes.axhline(
                level.mean,
                color=INK,
                linewidth=1.1,
                linestyle=LEVELS.get(label, "--"),
                label=label,
                zorder=1.5,
            )
        if paper and name in paper:
            axes.plot(
                layers,
                paper[name],
                color=QUIET,
                linestyle=(0, (4, 2)),
                linewidth=1.2,
                marker="o",
                markersize=3.5,
                markerfacecolor="white",
                label="the paper's (another model)",
            )
        mean, low, high = (
            np.array([getattr(step, part) for step in steps]) for part in ("mean", "low", "high")
        )
        axes.fill_between(layers, low, high, color=style.colour, alpha=0.22, linewidth=0)
        axes.plot(
            layers,
            mean,
            color=style.colour,
            marker=style.marker,
            linestyle=style.dash,
            label="this project, with interval",
        )
        axes.set_title(PATH_TITLES[name].format(last=last))
        axes.xaxis.set_major_locator(MaxNLocator(min(last, 12), integer=True))
    panels[-1].set_xlabel("layer k")
    figure.supylabel(quantity)
    _head(figure, title)
    _legend(figure, panels, neutral="this project, with interval")
    return figure


@mpl.rc_context(LOOK)
def method_dots(
    groups: Mapping[str, Mapping[str, Interval]],
    *,
    paper: Mapping[str, float] | None = None,
    quantity: str = "mean r with LOO",
    title: str | None = None,
) -> Drawing:
    """Draw one mean with its interval per method, a panel per group (per reading, per data set), on one axis.

    Parameters
    ----------
    groups : panel title to method to interval.
    paper : the paper's value by method, drawn as open squares and named as the paper's, in every panel.
    """
    if not groups or not all(groups.values()):
        raise InputError(
            "method_dots",
            got="no groups, or an empty one",
            expected="panel to method to Interval",
            hint="pass {'words only': {'loo': interval}}",
        )
    count = sum(len(group) for group in groups.values())
    alt = f"{title + '. ' if title else ''}{quantity} by method. " + " ".join(
        f"{panel}: " + ", ".join(f"{styles([m])[m].label} {i.text(2)}" for m, i in group.items()) + "."
        for panel, group in groups.items()
    )
    figure, panels = drawing(
        alt,
        rows=len(groups),
        height=0.8 + 0.35 * len(groups) + 0.3 * count,
        sharex=True,
        height_ratios=[len(group) + 0.6 for group in groups.values()],
    )
    for axes, (panel, group) in zip(panels, groups.items(), strict=True):
        looks = styles(group)
        for row, (method, interval) in enumerate(group.items()):
            _dot(axes, row, interval, looks[method])
            if paper and method in paper:
                axes.plot(
                    paper[method],
                    row,
                    marker="s",
                    markersize=6.5,
                    markerfacecolor="none",
                    markeredgecolor=QUIET,
                    linestyle="none",
                    label="the paper's (another model)",
                )
        axes.set_yticks(range(len(group)), [looks[method].label for method in group])
        axes.set_ylim(len(group) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        axes.axvline(0, color=INK, linewidth=0.9)
        axes.set_title(panel)
    panels[-1].set_xlabel(quantity)
    _head(figure, title)
    _legend(figure, panels)
    return figure


@mpl.rc_context(LOOK)
def perturbation_figure(curves: Mapping[str, Sequence[Curve]], *, title: str | None = None) -> Drawing:
    """Draw the output as tokens are removed, most relevant first (MoRF) and least relevant first (LeRF), one
    line per method.

    Parameters
    ----------
    curves : method to its curves of one text or of many, both orders. Texts differ in length, so the
        horizontal axis is the removed part; over many texts the line is the mean of the linearly interpolated
        curves, the band its 95 % bootstrap interval.
    """
    orders = [
        order
        for order in ("morf", "lerf")
        if any(curve.order == order for own in curves.values() for curve in own)
    ]
    if not orders:
        raise InputError(
            "perturbation_figure",
            got="no curves",
            expected="method to a list of Curve",
            hint="make them with perturbation_curve",
        )
    looks = styles(curves)
    names = {
        "morf": "MoRF, most relevant first: down is better",
        "lerf": "LeRF, least relevant first: up is better",
    }
    alt = f"{title + '. ' if title else ''}Logit as tokens are removed, for {', '.join(look.label for look in looks.values())}."
    figure, panels = drawing(alt, rows=len(orders), height=0.9 + 2.1 * len(orders), sharex=True, sharey=True)
    for axes, order in zip(panels, orders, strict=True):
        for method, own in curves.items():
            chosen = [curve for curve in own if curve.order == order]
            if not chosen:
                continue
            look = looks[method]
            if len(chosen) == 1:
                x, y = chosen[0].removed / chosen[0].removed[-1], chosen[0].logits
            else:
                lines = np.array(
                    [np.interp(GRID, curve.removed / curve.removed[-1], curve.logits) for curve in chosen]
                )
                means = [bootstrap_mean(column, resamples=2000) for column in lines.T]
                x, y = GRID, lines.mean(axis=0)
                axes.fill_between(
                    x,
                    [m.low for m in means],
                    [m.high for m in means],
                    color=look.colour,
                    alpha=0.15,
                    linewidth=0,
                )
            axes.plot(
                x,
                y,
                color=look.colour,
                linestyle=look.dash,
                marker=look.marker,
                markevery=max(1, len(x) // 7),
                label=look.label,
            )
        axes.set_title(names[order])
        axes.set_ylabel("logit")
    panels[-1].set_xlabel("part of the removable tokens that is gone")
    _head(figure, title)
    _legend(figure, panels)
    return figure


def _dot(axes: Axes, row: int, interval: Interval, style: Style) -> None:
    if not np.isnan(interval.low):
        axes.plot(
            [interval.low, interval.high],
            [row, row],
            color=style.colour,
            linewidth=2.2,
            solid_capstyle="butt",
        )
    axes.plot(interval.mean, row, marker=style.marker, color=style.colour, markersize=7, linestyle="none")


def _head(figure: Drawing, title: str | None) -> None:
    if title:
        figure.suptitle(title, fontweight="bold")


def _legend(figure: Drawing, panels: Sequence[Axes], *, neutral: str | None = None) -> None:
    """One legend for all panels, above them; an entry that differs in colour by panel is shown in ink."""
    entries: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if not entries:
        return
    columns = 2 if max(map(len, entries)) > 16 else 3
    legend = figure.legend(
        list(entries.values()), list(entries), loc="outside lower center", ncols=min(columns, len(entries))
    )
    for drawn, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
        if text.get_text() == neutral and isinstance(drawn, Line2D):
            drawn.set(color=INK, marker="")


def _layer_alt(paths: Mapping[str, Sequence[Interval]], quantity: str, title: str | None) -> str:
    walks = "; ".join(
        f"{styles([n])[n].label} from {steps[0].mean:.2f} to {steps[-1].mean:.2f}"
        for n, steps in paths.items()
    )
    return f"{title + '. ' if title else ''}{quantity} by bypassed layers: {walks}."
