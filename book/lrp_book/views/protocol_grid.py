"""The protocol audit in figures: specification curve, means by option, shares of tokens, gains of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from lrp_companion.checks import InputError
from lrp_companion.metrics import Interval
from lrp_companion.paper.protocol_grid import AXIS_LABELS, PROTOCOL_AXES, Grid, choice_effects, counts
from lrp_companion.registry import label_of
from lrp_companion.schema import PROTOCOLS, Protocol
from lrp_companion.show.canvas import (
    LOOK,
    SLIDE,
    Drawing,
    Name,
    drawing,
    headline,
    label_ends,
    label_points,
    limits,
    settle,
)  # fmt: skip
from lrp_companion.show.palette import INK, RULE, diverging_map

Row = Mapping[str, Any]
SIDE_LOOKS = {
    "below": ("#0067a5", "whole interval below 0"),
    "across": ("#8a8a8a", "interval across 0"),
    "above": ("#c44c00", "whole interval above 0"),
}
MARKERS = ("o", "s", "^", "D", "v", "P")
COLOURS = ("#0067a5", "#c44c00", "#00755e", "#a8216b", "#946500", "#6b4fa0")


def difference(grid: Grid) -> str:
    """The effect of a grid in words, as in "CP-LRP − AttnLRP"."""
    return f"{label_of(grid.a)} − {label_of(grid.b)}"


def needs(operation: str, rows: Sequence[Any], what: str) -> None:
    """Refuse an empty list of what a view is made from."""
    if not rows:
        hint = "check which runs were read"
        raise InputError(operation, got=f"no {what}", expected="at least one", hint=hint)


@mpl.rc_context(LOOK)
def specification_curve(
    grid: Grid, *, marked: Mapping[str, Protocol] | None = None, wide: bool = False
) -> Drawing:
    """Draw all distinct cells sorted by effect, with intervals above and the options of each cell below.

    Parameters
    ----------
    grid : of one run.
    marked : name to protocol: cells that are pointed out; the three `PROTOCOLS` by default.
    wide : flat, as on a slide.
    """
    rows = grid.curve()
    needs("specification_curve", rows, "cell with an effect")
    effect, low, high = limits(row["difference"] for row in rows)
    tally = counts(grid)
    alt = (
        f"{grid.title}, n = {grid.n:,}: mean difference of r, {difference(grid)}, "
        f"in {len(rows)} combinations, from {effect[0]:.2f} to {effect[-1]:.2f}. "
        f"Interval below 0: {tally['below']}, across: {tally['across']}, above: {tally['above']}."
    )
    size: dict[str, Any] = {"height": SLIDE[1] + 0.4, "width": SLIDE[0]} if wide else {"height": 7.0}
    ratios = [1.0, 2.2] if wide else [1.0, 1.45]
    figure, (top, bottom) = drawing(alt, rows=2, sharex=True, height_ratios=ratios, **size)
    _point_out(top, rows, PROTOCOLS if marked is None else marked)
    x = np.arange(1, len(rows) + 1)
    for side, (colour, label) in SIDE_LOOKS.items():
        mask = np.array([row["side"] == side for row in rows])
        if mask.any():
            middle = int(x[mask][mask.sum() // 2])
            label_points(top, [Name(f"{label}: {mask.sum()}", middle, effect[middle - 1], colour)])
            look: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 1.6, "color": colour}
            top.vlines(x[mask], low[mask], high[mask], color=colour, linewidth=0.8, alpha=0.45)
            top.plot(x[mask], effect[mask], label=label, **look)
    top.axhline(0, color=INK, linewidth=0.9)
    top.set_ylabel(difference(grid))
    headline(figure, f"Which is nearer to LOO? Every combination of choices: {grid.title}, n = {grid.n:,}")
    options = [(name, option) for name, options in grid.distinct.items() for option in options]
    option_matrix(bottom, rows, options, AXIS_LABELS, inline=wide)
    bottom.set_xlabel("combinations of choices, by effect")
    settle(figure)
    return figure


def _point_out(axes: Axes, rows: Sequence[Row], protocols: Mapping[str, Protocol]) -> None:
    """Mark the cells of these protocols on the curve, each with its name and effect."""
    places = {tuple(row[name] for name in PROTOCOL_AXES): k for k, row in enumerate(rows)}
    look: dict[str, Any] = {
        "linestyle": "none",
        "zorder": 4,
        "color": INK,
        "mfc": "white",
        "mew": 1.4,
        "ms": 7.0,
    }
    for symbol, (label, protocol) in zip(MARKERS, protocols.items(), strict=False):
        k = places.get(tuple(getattr(protocol, name) for name in PROTOCOL_AXES))
        if k is not None:
            effect = rows[k]["difference"].mean
            axes.plot(k + 1, effect, marker=symbol, label=label, **look)
            label_points(axes, [Name(f"{label}: {effect:+.2f}", k + 1, effect, INK)])


def option_matrix(
    axes: Axes,
    rows: Sequence[Row],
    options: Sequence[tuple[str, Any]],
    labels: Mapping[str, tuple[str, Mapping[Any, str]]],
    *,
    inline: bool = False,
) -> None:
    """Draw a line of ticks per option and a gap between choices; a choice's name is above its options, or
    before the first of them (`inline`).
    """
    y, ticks, names = 0.0, [], []
    last = None
    for name, option in options:
        before = ""
        if name != last and inline:
            y += 0.35
            before = f"{labels[name][0]}: "
        elif name != last:
            y += 0.7
            _heading(axes, 0.0, y, labels[name][0])
            y += 1.0
        chosen = [k + 1 for k, row in enumerate(rows) if row[name] == option]
        axes.vlines(chosen, y - 0.38, y + 0.38, color=INK, linewidth=0.7)
        ticks.append(y)
        names.append(before + labels[name][1][option])
        last, y = name, y + 1.0
    axes.set_yticks(ticks, names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(y - 0.3, 0)
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)


def _heading(axes: Axes, x: float, y: float, text: str) -> None:
    """The name of a choice, at a fraction `x` of the panel's width."""
    look: dict[str, Any] = {"fontsize": 9.5, "fontweight": "bold", "va": "center"}
    axes.text(x, y, text, transform=axes.get_yaxis_transform(), **look)


@mpl.rc_context(LOOK)
def option_dots(grids: Sequence[Grid]) -> Drawing:
    """Draw the mean effect over all cells with an option, option by option, one marker per run."""
    needs("option_dots", grids, "grids")
    effects = [
        {(row["choice"], row["option"]): row["mean"] for row in choice_effects(grid)} for grid in grids
    ]
    options = [
        (name, option)
        for name in PROTOCOL_AXES
        for option in dict.fromkeys(option for grid in grids for option in grid.distinct[name])
    ]
    height = (0.2 + 0.06 * len(grids)) * (len(options) + len(PROTOCOL_AXES)) + 0.25 * len(grids)
    figure, (axes,) = drawing(_option_alt(grids, effects, options), height=0.9 + height)
    y, ticks, labels, last = 0.0, [], [], None
    for name, option in options:
        if name != last:
            y += 0.4
            _heading(axes, 0.01, y, AXIS_LABELS[name][0])
            y += 1.0
        for k, (grid, means) in enumerate(zip(grids, effects, strict=True)):
            if (name, option) in means:
                label = f"{grid.title}, n = {grid.n:,}" if last is None else None
                place = y + 0.56 * ((k + 0.5) / len(grids) - 0.5)
                _option_dot(axes, k, place, means[name, option], label)
        ticks.append(y)
        labels.append(AXIS_LABELS[name][1][option])
        last, y = name, y + 1.0
    axes.axvline(0, color=INK, linewidth=0.9)
    axes.set_yticks(ticks, labels)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(y - 0.3, 0)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(f"mean {difference(grids[0])} with this option")
    headline(figure, "Which option moves the effect? Mean over all combinations with it")
    figure.legend(loc="outside lower center", ncols=1 if len(grids) < 3 else 2)
    return figure


def _option_alt(
    grids: Sequence[Grid],
    effects: Sequence[Mapping[tuple[str, str], Interval]],
    options: Sequence[tuple[str, str]],
) -> str:
    sentences = [f"Mean of {difference(grids[0])} over all combinations with an option."]
    for grid, means in zip(grids, effects, strict=True):
        named = {key: AXIS_LABELS[key[0]][1][key[1]] for key in options if key in means}
        listed = ", ".join(f"{name} {means[key].mean:+.2f}" for key, name in named.items())
        sentences.append(f"{grid.title}: {listed}.")
    return " ".join(sentences)


def _option_dot(axes: Axes, k: int, y: float, interval: Interval, label: str | None) -> None:
    """The mean of the k-th run at the height `y`, with its interval."""
    colour, marker = COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]
    axes.plot([interval.low, interval.high], [y, y], color=colour, linewidth=1.8)
    axes.plot(interval.mean, y, marker=marker, color=colour, linestyle="none", label=label)


@mpl.rc_context(LOOK)
def share_lines(rows: Sequence[Row], *, title: str) -> Drawing:
    """Draw the share of [CLS] and [SEP], and of maps with a negative sum, as layers are bypassed.

    Parameters
    ----------
    rows : of `special_shares`.
    """
    needs("share_lines", rows, "steps")
    panels = {
        "Fraction of sum |R| on this token, with positions": {
            "[CLS]": "[CLS], with positions",
            "[SEP]": "[SEP], with positions",
        },
        "The same for [CLS], its position alone, with sign": {"position of [CLS]": "position of [CLS]"},
        "Fraction of maps (all tokens) with a negative sum": {
            "words": "negative sum",
            "words + positions": "negative sum, with positions",
        },
    }
    ends = f"{rows[0]['position of [CLS]'].mean:.2f} to {rows[-1]['position of [CLS]'].mean:.2f}"
    alt = (
        f"{title}. Share of the position of [CLS] in sum |R| from {ends} as layers are bypassed, "
        "and shares of negative sums."
    )
    figure, axes_of = drawing(alt, rows=len(panels), height=6.2, sharex=True)
    x = np.arange(len(rows))
    for axes, (name, lines) in zip(axes_of, panels.items(), strict=True):
        for k, (label, column) in enumerate(lines.items()):
            mean, low, high = limits(row[column] for row in rows)
            axes.fill_between(x, low, high, color=COLOURS[k], alpha=0.22, linewidth=0)
            axes.plot(x, mean, color=COLOURS[k], marker=MARKERS[k], label=label)
            label_ends(axes, [Name(label, x[-1], mean[-1], COLOURS[k])])
        axes.axhline(0, color=INK, linewidth=0.9)
        axes.set_title(name)
    axes_of[-1].set_xticks(x, [str(row["bypassed"]).replace(" to ", "–") for row in rows], rotation=60)
    axes_of[-1].set_xlabel("layers bypassed (none: AttnLRP; all: CP-LRP)")
    headline(figure, title)
    settle(figure)
    return figure


@mpl.rc_context(LOOK)
def gain_map(
    rows: Sequence[Row], *, title: str, removal: str = "attention-mask", target: str = "logit"
) -> Drawing:
    """Draw the gain in mean r of each layer under each site, token choice and map.

    A number is printed where the whole interval lies on one side of 0 and two decimals show it.

    Parameters
    ----------
    rows : of `layer_gains`; those with this removal and target are drawn.
    """
    chosen = [row for row in rows if (row["removal"], row["target"]) == (removal, target)]
    needs("gain_map", chosen, "rows with this removal and target")
    gains = [list(row["gains"]) for row in chosen]
    values = np.array([[gain.mean for gain in line] for line in gains])
    largest = float(np.nanmax(np.abs(values))) or 1.0
    names = [_short_protocol(row) for row in chosen]
    best = "; ".join(f"{name}: layer {row['largest']}" for name, row in zip(names, chosen, strict=True))
    alt = f"{title}. Layer with the largest gain in r by protocol: {best}."
    figure, (axes,) = drawing(alt, height=1.3 + 0.36 * len(chosen), width=6.4)
    image = axes.imshow(values, cmap=diverging_map(), vmin=-largest, vmax=largest, aspect="auto")
    for k, line in enumerate(gains):
        for j, gain in enumerate(line):
            if (gain.low > 0 or gain.high < 0) and abs(gain.mean) >= 0.005:
                text = f"{gain.mean:+.2f}".replace("+0.", "+.").replace("-0.", "−.")
                axes.text(j, k, text, ha="center", va="center", fontsize=7.5 if len(line) > 8 else 9)
    axes.set_xticks(range(values.shape[1]), [str(j + 1) for j in range(values.shape[1])])
    axes.set_yticks(range(len(chosen)), names)
    axes.grid(visible=False)
    axes.set_xlabel("layer")
    bar = figure.colorbar(image, ax=axes, location="bottom", shrink=0.6, aspect=40)
    bar.set_label("gain in mean r")
    bar.outline.set_edgecolor(RULE)
    headline(figure, title)
    return figure


def _short_protocol(row: Row) -> str:
    """Site, tokens and map in a few letters, for the rows of a map."""
    site = AXIS_LABELS["site"][1][row["site"]]
    site = site.replace("positions", "pos.").replace("whole embedding", "embedding")
    tokens = "all" if row["tokens"] == "all" else "no special"
    return f"{site}, {tokens}, {AXIS_LABELS['map'][1][row['map']]}"
