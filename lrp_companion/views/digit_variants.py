"""Variants of the paper's MNIST nets shown: all of them by agreement with LOO, what moves it, signs, and
integrated gradients by steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.ticker import NullLocator

from lrp_companion.analysis.digit_variants import (
    ACCURACY,
    MAPS_COMPARED,
    MEASURES,
    VARIANT_LABELS,
    digit_choices,
    digit_grid,
    digit_nearest,
    digit_ranges,
    paper_values,
)
from lrp_companion.runs.load import MnistGridRun
from lrp_companion.schema import choose
from lrp_companion.views.canvas import LOOK, Drawing, drawing
from lrp_companion.views.palette import INK
from lrp_companion.views.protocol_grid import COLOURS, MARKERS, needs, option_matrix, percent, variance_table
from lrp_companion.views.tables import Table, table

Row = Mapping[str, Any]
WORDS = {
    "bias": "biases", "position_embedding": "positions", "embedding": "embedding",
    "readout": "mean of positions",
    "scaled": "scores not divided",
}  # fmt: skip
"""What a variant has that the plainest has not."""


def variant_label(variant: Mapping[str, Any]) -> str:
    """A variant in a few words: what it has that the plainest net has not.

    >>> variant_label({"bias": True, "position_embedding": False, "embedding": False, "readout": "mean", "scaled": True})
    'biases, mean of positions'
    """
    plainest = {name: next(iter(options)) for name, (_, options) in VARIANT_LABELS.items()}
    return (
        ", ".join(word for name, word in WORDS.items() if name in variant and variant[name] != plainest[name])
        or "the plainest"
    )


@mpl.rc_context(LOOK)
def variant_curve(run: MnistGridRun) -> Drawing:
    """Draw every variant and map, sorted by AttnLRP's agreement with LOO from the left, its accuracy, and its
    options beneath.

    Dotted lines are the paper's Table 1, under choices that are not known.
    """
    rows = sorted(digit_grid(run), key=lambda row: row["AttnLRP, left with LOO"].mean)
    shown = [name for name in MEASURES if name.startswith("AttnLRP")]
    printed = paper_values()
    ends = [f"{rows[k]['AttnLRP, left with LOO'].mean:.2f}" for k in (0, -1)]
    alt = (
        f"{run.name}, n = {run.n:,} images, {len(run.seeds)} nets a variant: AttnLRP's mean r with LOO from the left goes from "
        f"{ends[0]} to {ends[1]} over {len(rows)} combinations of variant and map; beneath, accuracy and options."
    )
    figure, (top, middle, beneath) = drawing(
        alt, rows=3, height=7.6, sharex=True, height_ratios=[1.25, 0.5, 1.3]
    )
    x = np.arange(1, len(rows) + 1)
    for k, name in enumerate(shown):
        mean, low, high = (
            np.array([getattr(row[name], part) for row in rows]) for part in ("mean", "low", "high")
        )
        top.vlines(x, low, high, color=COLOURS[k], linewidth=0.8, alpha=0.5)
        label = f"{name.removeprefix('AttnLRP, ')} (paper: {printed[name]:.2f})"
        top.plot(x, mean, linestyle="none", marker=MARKERS[k], markersize=2.8, color=COLOURS[k], label=label)
        top.axhline(printed[name], color=COLOURS[k], linewidth=0.9, linestyle=":")
    top.axhline(0, color=INK, linewidth=0.9)
    top.set_ylabel("AttnLRP, mean r")
    accuracy = np.array([row["accuracy"] for row in rows])
    middle.vlines(x, accuracy[:, 1], accuracy[:, 2], color=INK, linewidth=0.8, alpha=0.5)
    middle.plot(x, accuracy[:, 0], linestyle="none", marker="o", markersize=2.4, color=INK)
    middle.axhline(
        ACCURACY, color=INK, linewidth=0.9, linestyle=":", label=f"the paper's {100 * ACCURACY:.0f} %"
    )
    middle.set_ylabel("accuracy")
    middle.legend(loc="best")
    options = [(name, option) for name, own in _distinct(rows).items() for option in own]
    option_matrix(beneath, rows, options, VARIANT_LABELS)
    beneath.set_xlabel("variants and maps, by r of left with LOO")
    figure.suptitle(f"MNIST, {run.n:,} images, {len(run.seeds)} nets a variant", fontweight="bold")
    figure.legend(*top.get_legend_handles_labels(), loc="outside lower center", ncols=1)
    return figure


def _distinct(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Each choice with the options that the rows have, where there is a choice."""
    found = {
        name: [option for option in options if any(row.get(name) == option for row in rows)]
        for name, (_, options) in VARIANT_LABELS.items()
    }
    return {name: own for name, own in found.items() if len(own) > 1}


def variant_table(run: MnistGridRun, *, map: str = "raw", digits: int = 2) -> Table:
    """Every variant: accuracy (mean, and smallest to largest net) and agreement with one map."""
    choose("variant_table", "map", map, MAPS_COMPARED)
    rows = [
        {
            "variant": variant_label(run.variants[row["variant"]]),
            "accuracy": "{} ({} to {})".format(*(percent(own) for own in row["accuracy"])),
            **{name: row[name] for name in MEASURES}, "negative": percent(row["negative"]),
        }
        for row in digit_grid(run)
        if row["map"] == map
    ]  # fmt: skip
    columns = {
        "variant": "variant", "accuracy": "accuracy (nets)", **{name: name for name in MEASURES},
        "negative": "AttnLRP, left: negative sums",
    }  # fmt: skip
    caption = f"Mean r by variant of the nets, {VARIANT_LABELS['map'][1][map]} maps; n = {run.n:,} images, {len(run.seeds)} nets a variant"
    return table(rows, columns=columns, caption=caption, digits=digits)


def variant_ranges_table(run: MnistGridRun, *, digits: int = 2) -> Table:
    """The lowest to the highest mean r over all variants, and over those that reach the paper's accuracy,
    beside the paper's Table 1.
    """
    paper = {"which": "the paper, choices unknown", "accuracy": f"{100 * ACCURACY:.0f} %", **paper_values()}
    rows: list[Row] = [paper]
    for row in digit_ranges(run):
        which = {"all": "all variants", "reach": f"those with {100 * ACCURACY:.0f} % or more"}[row["which"]]
        own = {name: row[name] and "{:.{d}f} to {:.{d}f}".format(*row[name], d=digits) for name in MEASURES}
        accuracy = row["accuracy"] and "{} to {}".format(*(percent(value) for value in row["accuracy"]))
        rows.append(
            {
                "which": f"{which}; {VARIANT_LABELS['map'][1][row['map']]}",
                "variants": row["variants"],
                "accuracy": accuracy,
                **own,
            }
        )
    caption = f"Lowest to highest mean r over variants of the nets; n = {run.n:,} images, {len(run.seeds)} nets a variant"
    columns = {
        "which": "nets and map",
        "variants": "variants",
        "accuracy": "accuracy",
        **{name: name for name in MEASURES},
    }
    return table(rows, columns=columns, caption=caption, digits=digits)


def variant_choices_table(run: MnistGridRun, *, pairs: int = 4) -> Table:
    """Which part of the variance of each mean r over variants and maps goes with each choice, and with the
    strongest pairs.
    """
    asked = {**{name: name for name in MEASURES}, "difference": "AttnLRP: left minus right with LOO"}
    shares = {what: {row["choices"]: row["share"] for row in digit_choices(run, what)} for what in asked}
    caption = f"Part of the variance of mean r over {len(run.variants)} variants and {len(MAPS_COMPARED)} maps (analysis of variance)"
    return variance_table(
        shares,
        singles=list(_distinct(digit_grid(run))),
        words=VARIANT_LABELS,
        pairs=pairs,
        columns=asked,
        caption=caption,
    )


def variant_signs_table(rows: Sequence[Row], *, title: str, digits: int = 2) -> Table:
    """Rows of `digit_signs`: r of AttnLRP from the left with LOO, raw and sum to one, and the latter by the
    signs of both sums.
    """
    needs("variant_signs_table", rows, "rows of digit_signs")
    own = []
    for row in rows:
        parts: dict[str, Any] = {}
        for name in ("both positive", "not both positive"):
            value, n = row[name] or (None, 0)
            parts |= {name: value, f"n {name}": n}
        own.append(
            {"variant": variant_label(row), "raw": row["raw"], "sum to one": row["sum to one"], **parts}
        )
    columns = {
        "variant": "variant", "raw": "r raw", "sum to one": "r sum to one",
        "both positive": "r, both sums positive",
        "n both positive": "n", "not both positive": "r sum to one, otherwise", "n not both positive": "n",
    }  # fmt: skip
    return table(own, columns=columns, caption=title, digits=digits)


def nearest_table(run: MnistGridRun, *, digits: int = 2) -> Table:
    """The paper's Table 1 for AttnLRP and IG, the variant and map nearest to it, and the plainest net."""
    found = digit_nearest(run)
    grid, nearest = (
        digit_grid(run),
        f"nearest to it: {variant_label(run.variants[found['nearest']['variant']])}",
    )
    rows: list[Row] = [
        {"which": "the paper, choices unknown", "accuracy": f"{100 * ACCURACY:.0f} %", **found["paper"]}
    ]
    for name, row in (
        (nearest, found["nearest"]),
        ("the plainest net", grid[0]),
        ("the plainest net", grid[1]),
    ):
        what = f"{name}; {VARIANT_LABELS['map'][1][row['map']]}"
        rows.append({"which": what, "accuracy": percent(row["accuracy"][0]), **{k: row[k] for k in MEASURES}})
    caption = f"Beside the paper's Table 1; n = {run.n:,} images, {len(run.seeds)} nets a variant"
    columns = {"which": "nets and map", "accuracy": "accuracy", **{name: name for name in MEASURES}}
    return table(rows, columns=columns, caption=caption, digits=digits)


@mpl.rc_context(LOOK)
def ig_steps(rows: Sequence[Row], *, title: str) -> Drawing:
    """Draw IG's agreement with LOO and its largest convergence delta by the number of steps, a line per
    baseline: rows of `digit_ig`.
    """
    needs("ig_steps", rows, "rows of digit_ig")
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    baselines = list(dict.fromkeys(row["baseline"] for row in rows))
    steps = sorted({row["n_steps"] for row in rows})
    last = {(row["variant"], row["baseline"]): row["r"].mean for row in rows if row["n_steps"] == steps[-1]}
    names = {
        variant: variant_label(next(row for row in rows if row["variant"] == variant)) for variant in variants
    }
    told = "; ".join(
        f"{names[variant]}: " + ", ".join(f"{own} {last[variant, own]:.2f}" for own in baselines)
        for variant in variants
    )
    figure, axes = drawing(
        f"{title}. IG's mean r with LOO at {steps[-1]} steps: {told}.",
        rows=2,
        columns=len(variants),
        height=5.4,
        sharex=True,
        sharey="row",
    )
    for j, variant in enumerate(variants):
        top, beneath = axes[j], axes[len(variants) + j]
        for k, baseline in enumerate(baselines):
            own = sorted(
                (row for row in rows if (row["variant"], row["baseline"]) == (variant, baseline)),
                key=lambda row: row["n_steps"],
            )
            x = [row["n_steps"] for row in own]
            mean, low, high = ([getattr(row["r"], part) for row in own] for part in ("mean", "low", "high"))
            look: dict[str, Any] = {"color": COLOURS[k], "marker": MARKERS[k]}
            top.fill_between(x, low, high, color=COLOURS[k], alpha=0.22, linewidth=0)
            top.plot(x, mean, label=baseline, **look)
            beneath.plot(x, [row["delta"] for row in own], **look)
        top.set_title("\n".join(wrap(names[variant], 22)))
        beneath.set_xscale("log", base=2)
        beneath.set_yscale("log")
        beneath.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}".replace("e-0", "e−"))
        beneath.set_xticks(steps, [str(own) for own in steps], rotation=60)
        beneath.xaxis.set_minor_locator(NullLocator())
        beneath.set_xlabel("steps")
    axes[0].set_ylabel("IG: mean r with LOO")
    axes[len(variants)].set_ylabel("largest convergence delta")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=len(baselines),
        title="baseline",
    )
    figure.suptitle(title, fontweight="bold")
    return figure
