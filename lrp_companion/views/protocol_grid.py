"""The protocol audit in figures and tables: specification curve, options, layers by choice, and counts."""

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
    PROTOCOL_AXES,
    Grid,
    anova,
    choice_effects,
    counts,
    presets,
)
from lrp_companion.metrics import Interval
from lrp_companion.registry import label_of
from lrp_companion.schema import PROTOCOLS, InputError, Protocol
from lrp_companion.views.canvas import LOOK, Drawing, drawing, limits
from lrp_companion.views.palette import INK, RULE, diverging_map
from lrp_companion.views.tables import Table, table

Row = Mapping[str, Any]
SIDE_LOOKS = {
    "below": ("#0067a5", "whole interval below 0"),
    "across": ("#8a8a8a", "interval across 0"),
    "above": ("#c44c00", "whole interval above 0"),
}
MARKERS = ("o", "s", "^", "D", "v", "P")
COLOURS = ("#0067a5", "#c44c00", "#00755e", "#a8216b", "#946500", "#6b4fa0")


def _name(method: str) -> str:
    return label_of(method)


def difference(grid: Grid) -> str:
    """The effect of a grid in words, as in "CP-LRP − AttnLRP"."""
    return f"{_name(grid.a)} − {_name(grid.b)}"


def needs(operation: str, rows: Sequence[Any], what: str) -> None:
    """Refuse an empty list of what a view is made from."""
    if not rows:
        hint = "check which runs were read"
        raise InputError(operation, got=f"no {what}", expected="at least one", hint=hint)


@mpl.rc_context(LOOK)
def specification_curve(grid: Grid, *, marked: Mapping[str, Protocol] | None = None) -> Drawing:
    """Draw all distinct cells sorted by effect, with intervals above and the options of each cell below.

    Parameters
    ----------
    grid : of one run.
    marked : name to protocol: cells that are pointed out; the three `PROTOCOLS` by default.
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
    figure, (top, bottom) = drawing(alt, rows=2, height=7.0, sharex=True, height_ratios=[1.0, 1.45])
    x = np.arange(1, len(rows) + 1)
    for side, (colour, label) in SIDE_LOOKS.items():
        mask = np.array([row["side"] == side for row in rows])
        if mask.any():
            name = f"{label}: {mask.sum()}"
            look: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 1.6, "color": colour}
            top.vlines(x[mask], low[mask], high[mask], color=colour, linewidth=0.8, alpha=0.45)
            top.plot(x[mask], effect[mask], label=name, **look)
    top.axhline(0, color=INK, linewidth=0.9)
    _point_out(top, rows, PROTOCOLS if marked is None else marked)
    top.set_ylabel(difference(grid))
    figure.suptitle(f"{grid.title}, n = {grid.n:,}: mean difference of r", fontweight="bold")
    top.legend(loc="upper left", handletextpad=0.3, borderaxespad=0.2)
    options = [(name, option) for name, options in grid.distinct.items() for option in options]
    option_matrix(bottom, rows, options, AXIS_LABELS)
    bottom.set_xlabel("combinations of choices, by effect")
    return figure


def _point_out(axes: Axes, rows: Sequence[Row], protocols: Mapping[str, Protocol]) -> None:
    """Mark the cells of these protocols on the curve, each with its effect in the legend."""
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
            axes.plot(k + 1, effect, marker=symbol, label=f"{label} ({effect:+.2f})", **look)


def option_matrix(
    axes: Axes,
    rows: Sequence[Row],
    options: Sequence[tuple[str, Any]],
    labels: Mapping[str, tuple[str, Mapping[Any, str]]],
) -> None:
    """Draw a line of ticks per option and a gap between choices; a choice's name is above its options."""
    y, ticks, names = 0.0, [], []
    last = None
    for name, option in options:
        if name != last:
            y += 0.7
            _heading(axes, 0.0, y, labels[name][0])
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
        axes.axhline(0, color=INK, linewidth=0.9)
        axes.set_title(name)
        axes.legend(loc="best")
    axes_of[-1].set_xticks(x, [str(row["bypassed"]).replace(" to ", "–") for row in rows], rotation=60)
    axes_of[-1].set_xlabel("layers bypassed (none: AttnLRP; all: CP-LRP)")
    figure.suptitle(title, fontweight="bold")
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
    figure.suptitle(title, fontweight="bold", x=0.01, ha="left", color=INK)
    return figure


def _short_protocol(row: Row) -> str:
    """Site, tokens and map in a few letters, for the rows of a map."""
    site = AXIS_LABELS["site"][1][row["site"]]
    site = site.replace("positions", "pos.").replace("whole embedding", "embedding")
    tokens = "all" if row["tokens"] == "all" else "no special"
    return f"{site}, {tokens}, {AXIS_LABELS['map'][1][row['map']]}"


# -- tables ------------------------------------------------------------------------------------------


def by_tokens_and_map(axes: Mapping[str, Sequence[str]]) -> dict[str, dict[str, str]]:
    """Subsets of a grid by name: all combinations, then those with each choice of tokens and map."""
    subsets: dict[str, dict[str, str]] = {"all combinations": {}}
    for tokens in axes["tokens"]:
        for map in axes["map"]:
            name = f"{AXIS_LABELS['tokens'][1][tokens]}; {AXIS_LABELS['map'][1][map]}"
            subsets[name] = {"tokens": tokens, "map": map}
    return subsets


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
    where = f"cells by where the whole 95 % interval of {difference(grid)} lies"
    return table(rows, columns=columns, caption=f"{grid.title}, n = {grid.n:,}: {where}", digits=digits)


def presets_table(grids: Sequence[Grid], *, digits: int = 2) -> Table:
    """The presets of the switchboard: choices, both methods and their difference."""
    needs("presets_table", grids, "grids")
    rows = []
    for label, grid, protocol in presets(grids):
        choices = "; ".join(AXIS_LABELS[name][1][getattr(protocol, name)] for name in PROTOCOL_AXES)
        name = f"{label} ({grid.title})"
        rows.append({"cell": name, "choices": choices, **grid.cell(protocol), "n": grid.n})
    columns = {
        "cell": "cell", "choices": "choices", "b": _name(grids[0].b), "a": _name(grids[0].a),
        "difference": difference(grids[0]), "n": "n",
    }  # fmt: skip
    return table(rows, columns=columns, caption="The presets of the switchboard", digits=digits)


def protocols_table(
    grids: Sequence[Grid], *, protocols: Mapping[str, Protocol] = PROTOCOLS, digits: int = 2
) -> Table:
    """Both methods and their difference under a few protocols, run by run."""
    needs("protocols_table", grids, "grids")
    rows = [
        {**grid.cell(protocol), "protocol": name, "run": grid.title, "n": grid.n}
        for name, protocol in protocols.items()
        for grid in grids
    ]
    columns = {
        "protocol": "protocol", "run": "run", "n": "n", "b": _name(grids[0].b), "a": _name(grids[0].a),
        "difference": difference(grids[0]),
    }  # fmt: skip
    caption = "Mean r with LOO and paired difference, each with its 95 % interval"
    return table(rows, columns=columns, caption=caption, digits=digits)


def anova_table(grids: Sequence[Grid], *, interactions: int = 5) -> Table:
    """The fraction of the variance of the effect over the cells that each choice, and each of the strongest
    pairs of choices, explains.
    """
    needs("anova_table", grids, "grids")
    shares = {grid.run: {row["choices"]: row["share"] for row in anova(grid)} for grid in grids}
    singles = [name for name in PROTOCOL_AXES if len(grids[0].distinct[name]) > 1]
    caption = f"Fraction of the variance of {difference(grids[0])} over the cells (analysis of variance)"
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
    """Fractions of a variance, a column each: every single choice, the pairs that are strongest in any
    column, and the rest.
    """
    choices = dict.fromkeys(choice for column in shares.values() for choice in column)
    ranked = [choice for choice in choices if len(choice) == 2]
    ranked.sort(key=lambda pair: -max(column.get(pair, 0) for column in shares.values()))
    kept: list[tuple[str, ...]] = [*((name,) for name in singles), *ranked[:pairs]]
    rows: list[Row] = [
        {
            "choice": " × ".join(words[name][0] for name in choice),
            **{what: percent(column.get(choice)) for what, column in shares.items()},
        }
        for choice in kept
    ]
    rest = {
        what: percent(1 - sum(column.get(choice, 0) for choice in kept)) for what, column in shares.items()
    }
    rows.append({"choice": "all else together", **rest})
    return table(rows, columns={"choice": "choice", **columns}, caption=caption)


def percent(share: float | None) -> str:
    """A fraction as a percentage; empty where there is none."""
    return "" if share is None or np.isnan(share) else f"{100 * share:.1f} %"


def signs_table(rows: Sequence[Row], *, caption: str, digits: int = 2) -> Table:
    """Rows of `signs` with a name each: how often a sum is negative, and r where both sums are positive and
    elsewhere.
    """
    columns = {
        "run": "run", "method": "method", "negative map": "negative sum: map", "negative LOO": "LOO",
        "turned": "sign of r reversed",
        "r": "r raw", "r, sum to one": "r sum to one", "r, both positive": "r, both sums positive",
        "n both": "n",
        "r, otherwise": "r raw, otherwise", "r, otherwise, sum to one": "r sum to one, otherwise",
        "n otherwise": "n",
    }  # fmt: skip
    shown: list[Row] = []
    for row in rows:
        groups = {"n both": row["r, both positive"], "n otherwise": row["r, otherwise"]}
        sizes = {name: r.n if isinstance(r, Interval) else 0 for name, r in groups.items()}
        shown.append({**row, **sizes})
    return table(shown, columns=columns, caption=caption, digits=digits)


def late_table(paths: Mapping[str, Sequence[Row]], *, title: str) -> Table:
    """In how many cells the later half of the layers gains more than the first, by path and tokens.

    Parameters
    ----------
    paths : path to rows of `layer_gains`.
    """
    rows: list[Row] = []
    for path, gains in paths.items():
        for tokens in dict.fromkeys(row["tokens"] for row in gains):
            name = f"{path.replace('-', ' ')}; {AXIS_LABELS['tokens'][1][tokens]}"
            rows.append({"path": name, **late_counts([row for row in gains if row["tokens"] == tokens])})
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
    """Rows of `layer_gains` under a few protocols: total, later minus first half, the later half's share, the
    layer with the largest gain.
    """
    shown = [
        {"protocol": name, **row, "n": row["total"].n}
        for name, protocol in protocols.items()
        for row in rows
        if all(row[choice] == getattr(protocol, choice) for choice in PROTOCOL_AXES[:5])
    ]
    needs("gains_table", shown, "rows under these protocols")
    columns = {
        "protocol": "protocol", "total": "total gain", "later - first": "later − first half",
        "share": "share of the later half",
        "largest": "largest gain at layer", "largest in draws": "in this fraction of the draws", "n": "n",
    }  # fmt: skip
    return table(shown, columns=columns, caption=title, digits=digits)


def findings_table(rows: Sequence[Row], *, digits: int = 2) -> Table:
    """Rows of `audit_statements` of one run: the statement, its choices, effect, interval and n."""
    needs("findings_table", rows, "statement")
    shown = [{**row, "choices": f"{row['choices']} ({row['what']})"} for row in rows]
    columns = {
        "says": "under these choices, on this model", "choices": "choices (what is measured)",
        "effect": "effect", "n": "n",
    }  # fmt: skip
    caption = f"{rows[0]['run']}: effects with their 95 % intervals"
    return table(shown, columns=columns, caption=caption, digits=digits)


def tag_table(rows: Sequence[Row], *, title: str, digits: int = 2) -> Table:
    """Rows of `tag_effects`: mean of the texts with a tag, difference to the others, n, whether p is small.

    Rounding decides whether permutations of numbers computed on the page tie, so p is shown without digits.
    """
    needs("tag_table", rows, "rows")
    shown = [
        {
            "protocol": row["protocol"], "tag": row["tag"], "mean with the tag": row["with tag"],
            "minus the others": row["effect"],
            "n": " + ".join(f"{size:,}" for size in row["groups"][::-1]),
            "p, Holm, below 0.05": bool(row["p, Holm"] < 0.05),
        }
        for row in rows
    ]  # fmt: skip
    caption = f"{title}; p, Holm: corrected for all {len(rows)} comparisons"
    return table(shown, caption=caption, digits=digits)


def _small(p: float) -> str:
    return "≤ 0.0001" if p <= 0.0001 else f"{p:.4f}"


def subgroup_table(rows: Sequence[Row], *, run: str | None = None, digits: int = 2) -> Table:
    """Rows of `subgroups`, of one run or of all: effect, interval, n, p raw and corrected."""
    shown: list[Row] = [
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
    needs("subgroup_table", shown, "rows")
    caption = (
        f"{run or 'All runs'}: does the difference depend on the example? "
        f"p, Holm: corrected for all {len(rows)} comparisons"
    )
    return table(shown, caption=caption, digits=digits)
