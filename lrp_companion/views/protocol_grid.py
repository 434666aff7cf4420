"""The audit shown: the specification curve over its choices, options side by side, layers under each choice,
and tables of counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from lrp_companion.analysis.effect_causes import late_counts
from lrp_companion.analysis.protocol_grid import (
    AXIS_LABELS,
    NAMES,
    PROTOCOL_AXES,
    Grid,
    anova,
    choice_effects,
    counts,
    presets,
)
from lrp_companion.metrics import Interval
from lrp_companion.schema import PROTOCOLS, InputError, Protocol
from lrp_companion.views.canvas import LOOK, Drawing, drawing
from lrp_companion.views.palette import INK, RULE, diverging_map
from lrp_companion.views.tables import Table, table

Row = Mapping[str, Any]
SIDES = {
    "below": ("#0067a5", "whole interval below 0"),
    "across": ("#8a8a8a", "interval across 0"),
    "above": ("#c44c00", "whole interval above 0"),
}
MARKERS = ("o", "s", "^", "D", "v", "P")
COLOURS = ("#0067a5", "#c44c00", "#00755e", "#a8216b", "#946500", "#6b4fa0")


def _name(method: str) -> str:
    return NAMES.get(method, method)


def difference(grid: Grid) -> str:
    """The effect of a grid in words, as in "CP-LRP − AttnLRP"."""
    return f"{_name(grid.a)} − {_name(grid.b)}"


def needs(operation: str, rows: Sequence[Any], what: str) -> None:
    """Refuse an empty list of what a view is made from."""
    if not rows:
        raise InputError(
            operation, got=f"no {what}", expected="at least one", hint="check which runs were read"
        )


@mpl.rc_context(LOOK)
def specification_curve(grid: Grid, *, marked: Mapping[str, Protocol] | None = None) -> Drawing:
    """Draw all distinct cells sorted by effect, with intervals above and the options of each cell beneath.

    Parameters
    ----------
    grid : of one run.
    marked : name to protocol: cells that are pointed out; the three `PROTOCOLS` by default.
    """
    rows = grid.curve()
    needs("specification_curve", rows, "cell with an effect")
    effect, low, high = (
        np.array([getattr(row["difference"], part) for row in rows]) for part in ("mean", "low", "high")
    )
    sides, x = [row["side"] for row in rows], np.arange(1, len(rows) + 1)
    told = counts(grid)
    alt = (
        f"{grid.title}, n = {grid.n:,}: mean difference of r, {difference(grid)}, in {len(rows)} combinations, "
        f"from {effect[0]:.2f} to {effect[-1]:.2f}. Interval below 0: {told['below']}, across: {told['across']}, above: {told['above']}."
    )
    options = [(name, option) for name, own in grid.distinct.items() for option in own]
    figure, (top, beneath) = drawing(alt, rows=2, height=7.0, sharex=True, height_ratios=[1.0, 1.45])
    for side, (colour, label) in SIDES.items():
        own = np.array([one == side for one in sides])
        if own.any():
            top.vlines(x[own], low[own], high[own], color=colour, linewidth=0.8, alpha=0.45)
            top.plot(
                x[own],
                effect[own],
                linestyle="none",
                marker="o",
                markersize=1.6,
                color=colour,
                label=f"{label}: {own.sum()}",
            )
    top.axhline(0, color=INK, linewidth=0.9)
    where = {tuple(row[name] for name in PROTOCOL_AXES): k for k, row in enumerate(rows)}
    for symbol, (label, protocol) in zip(
        MARKERS, (PROTOCOLS if marked is None else marked).items(), strict=False
    ):
        k = where.get(tuple(getattr(protocol, name) for name in PROTOCOL_AXES))
        if k is not None:
            name = f"{label} ({effect[k]:+.2f})"
            top.plot(
                x[k],
                effect[k],
                marker=symbol,
                linestyle="none",
                label=name,
                zorder=4,
                color=INK,
                mfc="white",
                mew=1.4,
                ms=7.0,
            )
    top.set_ylabel(difference(grid))
    figure.suptitle(f"{grid.title}, n = {grid.n:,}: mean difference of r", fontweight="bold")
    top.legend(loc="upper left", handletextpad=0.3, borderaxespad=0.2)
    option_matrix(beneath, rows, options, AXIS_LABELS)
    beneath.set_xlabel("combinations of choices, by effect")
    return figure


def option_matrix(
    axes: Axes,
    rows: Sequence[Row],
    options: Sequence[tuple[str, Any]],
    labels: Mapping[str, tuple[str, Mapping[Any, str]]],
) -> None:
    """A line of ticks per option, a gap between choices; the choice's name stands above its options."""
    y, ticks, names = 0.0, [], []
    last = None
    for name, option in options:
        if name != last:
            y += 0.7
            axes.text(
                0.0,
                y,
                labels[name][0],
                fontsize=9.5,
                fontweight="bold",
                va="center",
                transform=axes.get_yaxis_transform(),
            )
            y += 1.0
        chosen = [k + 1 for k, row in enumerate(rows) if row[name] == option]
        axes.vlines(chosen, y - 0.38, y + 0.38, color=INK, linewidth=0.7)
        ticks.append(y)
        names.append(labels[name][1][option])
        last, y = name, y + 1.0
    axes.set_yticks(ticks, names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(y - 0.3, 0)
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)


@mpl.rc_context(LOOK)
def option_dots(grids: Sequence[Grid]) -> Drawing:
    """Draw the mean effect over all cells with an option, option by option, one marker per run."""
    needs("option_dots", grids, "grids")
    first = grids[0]
    found = [{(row["choice"], row["option"]): row["mean"] for row in choice_effects(grid)} for grid in grids]
    names = [
        (name, option)
        for name in PROTOCOL_AXES
        for option in dict.fromkeys(o for grid in grids for o in grid.distinct[name])
    ]
    alt = f"Mean of {difference(first)} over all combinations with an option. " + " ".join(
        f"{grid.title}: "
        + ", ".join(f"{AXIS_LABELS[n][1][o]} {means[n, o].mean:+.2f}" for n, o in names if (n, o) in means)
        + "."
        for grid, means in zip(grids, found, strict=True)
    )
    figure, (axes,) = drawing(
        alt, height=0.9 + (0.2 + 0.06 * len(grids)) * (len(names) + len(PROTOCOL_AXES)) + 0.25 * len(grids)
    )
    y, ticks, labels, last = 0.0, [], [], None
    for name, option in names:
        if name != last:
            y += 0.4
            axes.text(
                0.01,
                y,
                AXIS_LABELS[name][0],
                fontsize=9.5,
                fontweight="bold",
                va="center",
                transform=axes.get_yaxis_transform(),
            )
            y += 1.0
        for k, (grid, means) in enumerate(zip(grids, found, strict=True)):
            if (name, option) in means:
                own, at = means[name, option], y + 0.56 * ((k + 0.5) / len(grids) - 0.5)
                colour = COLOURS[k % len(COLOURS)]
                axes.plot([own.low, own.high], [at, at], color=colour, linewidth=1.8)
                label = f"{grid.title}, n = {grid.n:,}" if last is None else None
                axes.plot(
                    own.mean,
                    at,
                    marker=MARKERS[k % len(MARKERS)],
                    color=colour,
                    linestyle="none",
                    label=label,
                )
        ticks.append(y)
        labels.append(AXIS_LABELS[name][1][option])
        last, y = name, y + 1.0
    axes.axvline(0, color=INK, linewidth=0.9)
    axes.set_yticks(ticks, labels)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(y - 0.3, 0)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(f"mean {difference(first)} with this option")
    figure.legend(loc="outside lower center", ncols=1 if len(grids) < 3 else 2)
    return figure


@mpl.rc_context(LOOK)
def share_lines(rows: Sequence[Row], *, title: str) -> Drawing:
    """Draw what stands on [CLS] and [SEP], and how many maps have a negative sum, as layers are bypassed:
    rows of `special_shares`.
    """
    needs("share_lines", rows, "steps")
    panels = {
        "Part of sum |R| that stands on it, with positions": {
            "[CLS]": "[CLS], with positions",
            "[SEP]": "[SEP], with positions",
        },
        "The same for [CLS], its position alone, with sign": {"position of [CLS]": "position of [CLS]"},
        "Part of the maps (all tokens) with a negative sum": {
            "words": "negative sum",
            "words + positions": "negative sum, with positions",
        },
    }
    ends = f"{rows[0]['position of [CLS]'].mean:.2f} to {rows[-1]['position of [CLS]'].mean:.2f}"
    alt = f"{title}. Share of the position of [CLS] in sum |R| from {ends} as layers are bypassed, and shares of negative sums."
    figure, drawn = drawing(alt, rows=len(panels), height=6.2, sharex=True)
    x = np.arange(len(rows))
    for axes, (name, lines) in zip(drawn, panels.items(), strict=True):
        for k, (label, column) in enumerate(lines.items()):
            mean, low, high = (
                np.array([getattr(row[column], part) for row in rows]) for part in ("mean", "low", "high")
            )
            axes.fill_between(x, low, high, color=COLOURS[k], alpha=0.22, linewidth=0)
            axes.plot(x, mean, color=COLOURS[k], marker=MARKERS[k], label=label)
        axes.axhline(0, color=INK, linewidth=0.9)
        axes.set_title(name)
        axes.legend(loc="best")
    drawn[-1].set_xticks(x, [str(row["bypassed"]).replace(" to ", "–") for row in rows], rotation=60)
    drawn[-1].set_xlabel("layers bypassed (none: AttnLRP; all: CP-LRP)")
    figure.suptitle(title, fontweight="bold")
    return figure


@mpl.rc_context(LOOK)
def gain_map(
    rows: Sequence[Row], *, title: str, removal: str = "attention-mask", target: str = "logit"
) -> Drawing:
    """Draw the gain in mean r of each layer under each site, token choice and map: rows of `layer_gains`, at
    one removal and target.

    A number is printed where the whole interval lies on one side of 0 and two decimals show it.
    """
    own = [row for row in rows if (row["removal"], row["target"]) == (removal, target)]
    needs("gain_map", own, "rows with this removal and target")
    gains = [list(row["gains"]) for row in own]
    values = np.array([[gain.mean for gain in line] for line in gains])
    largest = float(np.nanmax(np.abs(values))) or 1.0
    names = [
        f"{AXIS_LABELS['site'][1][row['site']].replace('positions', 'pos.').replace('whole embedding', 'embedding')}, "
        f"{'all' if row['tokens'] == 'all' else 'no special'}, {AXIS_LABELS['map'][1][row['map']]}"
        for row in own
    ]
    best = "; ".join(f"{name}: layer {row['largest']}" for name, row in zip(names, own, strict=True))
    figure, (axes,) = drawing(
        f"{title}. Layer with the largest gain in r by protocol: {best}.",
        height=1.3 + 0.36 * len(own),
        width=6.4,
    )
    image = axes.imshow(values, cmap=diverging_map(), vmin=-largest, vmax=largest, aspect="auto")
    for k, line in enumerate(gains):
        for j, gain in enumerate(line):
            if (gain.low > 0 or gain.high < 0) and abs(gain.mean) >= 0.005:
                text = f"{gain.mean:+.2f}".replace("+0.", "+.").replace("-0.", "−.")
                axes.text(j, k, text, ha="center", va="center", fontsize=7.5 if len(line) > 8 else 9)
    axes.set_xticks(range(values.shape[1]), [str(j + 1) for j in range(values.shape[1])])
    axes.set_yticks(range(len(own)), names)
    axes.grid(visible=False)
    axes.set_xlabel("layer")
    bar = figure.colorbar(image, ax=axes, location="bottom", shrink=0.6, aspect=40)
    bar.set_label("gain in mean r")
    bar.outline.set_edgecolor(RULE)
    figure.suptitle(title, fontweight="bold", x=0.01, ha="left", color=INK)
    return figure


# -- tables ------------------------------------------------------------------------------------------------------------


def by_tokens_and_map(axes: Mapping[str, Sequence[str]]) -> dict[str, dict[str, str]]:
    """Parts of a grid and their names: all of it, then a part for each choice of tokens and map."""
    parts: dict[str, dict[str, str]] = {"all combinations": {}}
    for tokens in axes["tokens"]:
        for map in axes["map"]:
            parts[f"{AXIS_LABELS['tokens'][1][tokens]}; {AXIS_LABELS['map'][1][map]}"] = {
                "tokens": tokens,
                "map": map,
            }
    return parts


def counts_table(grid: Grid, *, digits: int = 2) -> Table:
    """How many cells lie on which side: over all, and by tokens and map."""
    rows = [
        {"which": name, **counts(grid, **fixed)} for name, fixed in by_tokens_and_map(grid.distinct).items()
    ]
    columns = {
        "which": "tokens; map", "cells": "cells", "above": "above 0", "across": "across 0",
        "below": "below 0",
        "smallest": "smallest effect", "largest": "largest effect",
    }  # fmt: skip
    if any(row["undefined"] for row in rows):
        columns["undefined"] = "undefined"
    caption = (
        f"{grid.title}, n = {grid.n:,}: cells by where the whole 95 % interval of {difference(grid)} lies"
    )
    return table(rows, columns=columns, caption=caption, digits=digits)


def presets_table(grids: Sequence[Grid], *, digits: int = 2) -> Table:
    """The presets of the switchboard: choices, both methods and their difference."""
    needs("presets_table", grids, "grids")
    rows = []
    for label, grid, protocol in presets(grids):
        choices = "; ".join(AXIS_LABELS[name][1][getattr(protocol, name)] for name in PROTOCOL_AXES)
        rows.append(
            {"cell": f"{label} ({grid.title})", "choices": choices, **grid.cell(protocol), "n": grid.n}
        )
    columns = {
        "cell": "cell",
        "choices": "choices",
        "b": _name(grids[0].b),
        "a": _name(grids[0].a),
        "difference": difference(grids[0]),
    }
    return table(rows, columns={**columns, "n": "n"}, caption="The presets of the switchboard", digits=digits)


def protocols_table(
    grids: Sequence[Grid], *, protocols: Mapping[str, Protocol] = PROTOCOLS, digits: int = 2
) -> Table:
    """Both methods and their difference under a few protocols, run by run."""
    needs("protocols_table", grids, "grids")
    rows = []
    for name, protocol in protocols.items():
        for grid in grids:
            own = grid.cell(protocol)
            rows.append(
                {
                    "protocol": name,
                    "run": grid.title,
                    "n": grid.n,
                    "b": own["b"],
                    "a": own["a"],
                    "difference": own["difference"],
                }
            )
    columns = {"protocol": "protocol", "run": "run", "n": "n", "b": _name(grids[0].b), "a": _name(grids[0].a)}
    caption = "Mean r with LOO and paired difference, each with its 95 % interval"
    return table(
        rows, columns={**columns, "difference": difference(grids[0])}, caption=caption, digits=digits
    )


def anova_table(grids: Sequence[Grid], *, interactions: int = 5) -> Table:
    """Which part of the variance of the effect over the cells goes with each choice, and with the strongest
    pairs of choices.
    """
    needs("anova_table", grids, "grids")
    shares = {grid.run: {row["choices"]: row["share"] for row in anova(grid)} for grid in grids}
    singles = [name for name in PROTOCOL_AXES if len(grids[0].distinct[name]) > 1]
    caption = f"Part of the variance of {difference(grids[0])} over the cells (analysis of variance)"
    columns = {grid.run: f"{grid.title}, n = {grid.n:,}" for grid in grids}
    return variance_table(
        shares, singles=singles, words=AXIS_LABELS, pairs=interactions, columns=columns, caption=caption
    )


def variance_table(
    shares: Mapping[str, Mapping[tuple[str, ...], float]],
    *,
    singles: Sequence[str],
    words: Mapping[str, Sequence[Any]],
    pairs: int,
    columns: Mapping[str, str],
    caption: str,
) -> Table:
    """Parts of a variance, a column each: every single choice, the pairs that are strongest in any column,
    all else together.
    """
    found = [
        own for own in dict.fromkeys(key for column in shares.values() for key in column) if len(own) == 2
    ]
    found.sort(key=lambda own: -max(column.get(own, 0) for column in shares.values()))
    kept: list[tuple[str, ...]] = [*((name,) for name in singles), *found[:pairs]]
    rows: list[Row] = [
        {
            "choice": " × ".join(words[part][0] for part in own),
            **{what: percent(column.get(own)) for what, column in shares.items()},
        }
        for own in kept
    ]
    rest = {what: percent(1 - sum(column.get(own, 0) for own in kept)) for what, column in shares.items()}
    return table(
        [*rows, {"choice": "all else together", **rest}],
        columns={"choice": "choice", **columns},
        caption=caption,
    )


def percent(share: float | None) -> str:
    """A part of 1 as text; nothing where there is none."""
    return "" if share is None or np.isnan(share) else f"{100 * share:.1f} %"


def signs_table(rows: Sequence[Row], *, caption: str, digits: int = 2) -> Table:
    """Rows of `signs` with a name each: how often a sum is negative, and r where both are positive and
    elsewhere.
    """
    columns = {
        "run": "run", "method": "method", "negative map": "negative sum: map", "negative LOO": "LOO",
        "turned": "sign of r turned",
        "r": "r raw", "r, sum to one": "r sum to one", "r, both positive": "r, both sums positive",
        "n both": "n",
        "r, otherwise": "r raw, otherwise", "r, otherwise, sum to one": "r sum to one, otherwise",
        "n otherwise": "n",
    }  # fmt: skip
    own: list[Row] = []
    for row in rows:
        sizes = {"n both": row["r, both positive"], "n otherwise": row["r, otherwise"]}
        own.append(
            {**row, **{name: value.n if isinstance(value, Interval) else 0 for name, value in sizes.items()}}
        )
    return table(own, columns=columns, caption=caption, digits=digits)


def late_table(paths: Mapping[str, Sequence[Row]], *, title: str) -> Table:
    """Path to rows of `layer_gains`: in how many cells the later half of the layers gains more than the
    first, by tokens.
    """
    rows: list[Row] = []
    for path, own in paths.items():
        for tokens in dict.fromkeys(row["tokens"] for row in own):
            part = late_counts([row for row in own if row["tokens"] == tokens])
            rows.append({"path": f"{path.replace('-', ' ')}; {AXIS_LABELS['tokens'][1][tokens]}", **part})
    needs("late_table", rows, "rows")
    columns = {
        "path": "path; tokens that count", "cells": "cells", "later": "later > first", "across": "open",
        "first": "first > later",
        "total above": "r rises", "total below": "r falls", "later, total above": "rises, later > first",
    }  # fmt: skip
    caption = f"{title}: cells (site, map, removal, output; Pearson) by where the whole 95 % interval lies"
    return table(rows, columns=columns, caption=caption)


def gains_table(
    rows: Sequence[Row], *, title: str, protocols: Mapping[str, Protocol] = PROTOCOLS, digits: int = 2
) -> Table:
    """Rows of `layer_gains` under a few protocols: total, later minus first half, the later half's part, the
    layer with the largest gain.
    """
    own = [
        {"protocol": name, **row, "n": row["total"].n}
        for name, protocol in protocols.items()
        for row in rows
        if all(row[choice] == getattr(protocol, choice) for choice in PROTOCOL_AXES[:5])
    ]
    needs("gains_table", own, "rows under these protocols")
    columns = {
        "protocol": "protocol", "total": "total gain", "later - first": "later − first half",
        "share": "part of the later half",
        "largest": "largest gain at layer", "largest in draws": "in this part of the draws", "n": "n",
    }  # fmt: skip
    return table(own, columns=columns, caption=title, digits=digits)


def findings_table(rows: Sequence[Row], *, digits: int = 2) -> Table:
    """Rows of `findings` of one run: what is said, under which choices, with effect, interval and n."""
    needs("findings_table", rows, "findings")
    own = [{**row, "choices": f"{row['choices']} ({row['what']})"} for row in rows]
    columns = {
        "says": "under these choices, on this model",
        "choices": "choices (what is measured)",
        "effect": "effect",
        "n": "n",
    }
    return table(
        own, columns=columns, caption=f"{rows[0]['run']}: effects with their 95 % intervals", digits=digits
    )


def tag_table(rows: Sequence[Row], *, title: str, digits: int = 2) -> Table:
    """Rows of `tag_effects`: the mean of the texts with a tag, how far it lies from the others', n, and
    whether p is small.

    Permutations of numbers that a model makes on the page tie or not by rounding, so no digits of p are
    shown.
    """
    needs("tag_table", rows, "rows")
    own = [
        {
            "protocol": row["protocol"], "tag": row["tag"], "mean with the tag": row["with tag"],
            "minus the others": row["effect"],
            "n": " + ".join(f"{size:,}" for size in row["groups"][::-1]),
            "p, Holm, below 0.05": bool(row["p, Holm"] < 0.05),
        }
        for row in rows
    ]  # fmt: skip
    return table(own, caption=f"{title}; p, Holm: corrected for all {len(rows)} looked at", digits=digits)


def _small(p: float) -> str:
    return "≤ 0.0001" if p <= 0.0001 else f"{p:.4f}"


def subgroup_table(rows: Sequence[Row], *, run: str | None = None, digits: int = 2) -> Table:
    """Rows of `subgroups`, of one run or of all: effect, interval, n, and p corrected for looking many
    times.
    """
    own: list[Row] = [
        {
            "protocol": row["protocol"],
            "what": f"{row['feature']}: rank correlation" if row["groups"] is None else row["what"],
            "effect": row["effect"],
            "n": " + ".join(f"{size:,}" for size in (row["groups"] or (row["effect"].n,))[::-1]),
            "p": _small(row["p"]), "p, Holm": f"{row['p, Holm']:.3f}",
        }
        for row in rows
        if run in (None, row["run"])
    ]  # fmt: skip
    needs("subgroup_table", own, "rows")
    caption = f"{run or 'All runs'}: does the difference depend on the example? p, Holm: corrected for all {len(rows)} looked at"
    return table(own, caption=caption, digits=digits)
