"""Variants of the paper's MNIST nets: agreement with LOO, what changes it, signs, and IG by its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from lrp_book.views.protocol_grid import COLOURS, MARKERS, needs, option_matrix
from lrp_book.views.protocol_tables import percent, variance_table
from lrp_companion.checks import choose
from lrp_companion.paper.digit_variants import (
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
from lrp_companion.show.canvas import LOOK, Drawing, Name, drawing, headline, label_points, limits, settle
from lrp_companion.show.palette import INK
from lrp_companion.show.tables import Table, table

Row = Mapping[str, Any]
GLYPHS = ("●", "■", "▲")  # of the first markers, for names
VARIANT_WORDS = {
    "bias": "biases",
    "position_embedding": "positions",
    "embedding": "embedding",
    "readout": "mean of positions",
    "scaled": "scores not divided",
}
"""What a variant has and the plainest net has not."""


def variant_label(variant: Mapping[str, Any]) -> str:
    """A variant in a few words: what it has and the plainest net has not.

    >>> variant_label({"bias": True, "position_embedding": False, "readout": "mean", "scaled": True})
    'biases, mean of positions'
    """
    plainest = {name: next(iter(options)) for name, (_, options) in VARIANT_LABELS.items()}
    words = [
        word for name, word in VARIANT_WORDS.items() if name in variant and variant[name] != plainest[name]
    ]
    return ", ".join(words) or "the plainest"


def _size(run: MnistGridRun) -> str:
    return f"n = {run.n:,} images, {len(run.seeds)} nets a variant"


@mpl.rc_context(LOOK)
def variant_curve(run: MnistGridRun) -> Drawing:
    """Draw every variant and map, sorted by AttnLRP's agreement with LOO from the left; accuracy and options
    below.

    Dotted lines are the paper's Table 1, whose choices are unknown.
    """
    rows = sorted(digit_grid(run), key=lambda row: row["AttnLRP, left with LOO"].mean)
    first, last = (f"{row['AttnLRP, left with LOO'].mean:.2f}" for row in (rows[0], rows[-1]))
    alt = (
        f"{run.name}, {_size(run)}: AttnLRP's mean r with LOO from the left goes from "
        f"{first} to {last} over {len(rows)} combinations of variant and map; below, accuracy and options."
    )
    figure, (top, middle, bottom) = drawing(
        alt, rows=3, height=7.6, sharex=True, height_ratios=[1.25, 0.5, 1.3]
    )
    x = np.arange(1, len(rows) + 1)
    printed = paper_values()
    for k, name in enumerate(name for name in MEASURES if name.startswith("AttnLRP")):
        mean, low, high = limits(row[name] for row in rows)
        top.vlines(x, low, high, color=COLOURS[k], linewidth=0.8, alpha=0.5)
        short = name.removeprefix("AttnLRP, ")
        top.plot(x, mean, linestyle="none", marker=MARKERS[k], markersize=2.8, color=COLOURS[k], label=short)
        top.axhline(printed[name], color=COLOURS[k], linewidth=0.9, linestyle=":")
        paper = f"{GLYPHS[k]} {short} (paper: {printed[name]:.2f})"
        label_points(top, [Name(paper, 0.65 * len(x), printed[name], COLOURS[k])])
    top.axhline(0, color=INK, linewidth=0.9)
    top.set_ylabel("AttnLRP, mean r")
    _accuracy_panel(middle, x, np.array([row["accuracy"] for row in rows]))
    options = [(name, option) for name, options in _distinct(rows).items() for option in options]
    option_matrix(bottom, rows, options, VARIANT_LABELS)
    bottom.set_xlabel("variants and maps, by r of left with LOO")
    headline(figure, f"How much depends on the variant of the net? MNIST, {_size(run)}")
    settle(figure)
    return figure


def _accuracy_panel(axes: Axes, x: np.ndarray, accuracy: np.ndarray) -> None:
    """Mean accuracy with the smallest and the largest net, and the paper's accuracy as a line."""
    axes.vlines(x, accuracy[:, 1], accuracy[:, 2], color=INK, linewidth=0.8, alpha=0.5)
    axes.plot(x, accuracy[:, 0], linestyle="none", marker="o", markersize=2.4, color=INK)
    axes.axhline(ACCURACY, color=INK, linewidth=0.9, linestyle=":")
    axes.set_ylabel("accuracy")
    label_points(axes, [Name(f"the paper's {100 * ACCURACY:.0f} %", 0.6 * len(x), ACCURACY, INK)])


def _distinct(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Each choice with the options that the rows have, where there are several."""
    present = {
        name: [option for option in options if any(row.get(name) == option for row in rows)]
        for name, (_, options) in VARIANT_LABELS.items()
    }
    return {name: options for name, options in present.items() if len(options) > 1}


def variant_table(run: MnistGridRun, *, map: str = "raw", digits: int = 2) -> Table:
    """Every variant: accuracy (mean, and smallest to largest net) and agreement with one map."""
    choose("variant_table", "map", map, MAPS_COMPARED)
    rows = [
        {
            "variant": variant_label(run.variants[row["variant"]]),
            "accuracy": "{} ({} to {})".format(*(percent(share) for share in row["accuracy"])),
            **{name: row[name] for name in MEASURES}, "negative": percent(row["negative"]),
        }
        for row in digit_grid(run)
        if row["map"] == map
    ]  # fmt: skip
    columns = {
        "variant": "variant", "accuracy": "accuracy (nets)", **{name: name for name in MEASURES},
        "negative": "AttnLRP, left: negative sums",
    }  # fmt: skip
    caption = f"Mean r by variant of the nets, {VARIANT_LABELS['map'][1][map]} maps; {_size(run)}"
    return table(rows, columns=columns, caption=caption, digits=digits)


def variant_ranges_table(run: MnistGridRun, *, digits: int = 2) -> Table:
    """The range of mean r over all variants, and over those as accurate as the paper's, next to Table 1."""
    rows: list[Row] = [_paper_row(paper_values())]
    names = {"all": "all variants", "reach": f"those with {100 * ACCURACY:.0f} % or more"}
    for row in digit_ranges(run):
        spans = {name: row[name] and "{:.{d}f} to {:.{d}f}".format(*row[name], d=digits) for name in MEASURES}
        accuracy = row["accuracy"] and "{} to {}".format(*(percent(share) for share in row["accuracy"]))
        which = f"{names[row['which']]}; {VARIANT_LABELS['map'][1][row['map']]}"
        rows.append({"which": which, "variants": row["variants"], "accuracy": accuracy, **spans})
    columns = {
        "which": "nets and map", "variants": "variants", "accuracy": "accuracy",
        **{name: name for name in MEASURES},
    }  # fmt: skip
    caption = f"Lowest to highest mean r over variants of the nets; {_size(run)}"
    return table(rows, columns=columns, caption=caption, digits=digits)


def _paper_row(values: Mapping[str, Any]) -> Row:
    return {"which": "the paper, choices unknown", "accuracy": f"{100 * ACCURACY:.0f} %", **values}


def variant_choices_table(run: MnistGridRun, *, pairs: int = 4) -> Table:
    """The fraction of the variance of each mean r over variants and maps that each choice, and each of the
    strongest pairs, explains.
    """
    asked = {**{name: name for name in MEASURES}, "difference": "AttnLRP: left minus right with LOO"}
    shares = {what: {row["choices"]: row["share"] for row in digit_choices(run, what)} for what in asked}
    size = f"{len(run.variants)} variants and {len(MAPS_COMPARED)} maps"
    return variance_table(
        shares,
        singles=list(_distinct(digit_grid(run))),
        words=VARIANT_LABELS,
        pairs=pairs,
        columns=asked,
        caption=f"Fraction of the variance of mean r over {size} (analysis of variance)",
    )


def variant_signs_table(rows: Sequence[Row], *, title: str, digits: int = 2) -> Table:
    """Rows of `digit_signs`: r of AttnLRP from the left with LOO, raw and sum to one, the latter by signs."""
    needs("variant_signs_table", rows, "rows of digit_signs")
    shown = []
    for row in rows:
        by_sign: dict[str, Any] = {}
        for name in ("both positive", "not both positive"):
            r, n = row[name] or (None, 0)
            by_sign |= {name: r, f"n {name}": n}
        labels = {"variant": variant_label(row), "raw": row["raw"], "sum to one": row["sum to one"]}
        shown.append({**labels, **by_sign})
    columns = {
        "variant": "variant", "raw": "r raw", "sum to one": "r sum to one",
        "both positive": "r, both sums positive",
        "n both positive": "n", "not both positive": "r sum to one, otherwise", "n not both positive": "n",
    }  # fmt: skip
    return table(shown, columns=columns, caption=title, digits=digits)


def nearest_table(run: MnistGridRun, *, digits: int = 2) -> Table:
    """The paper's Table 1 for AttnLRP and IG, the variant and map nearest to it, and the plainest net."""
    compared = digit_nearest(run)
    raw, sum_to_one, *_ = digit_grid(run)
    nearest = f"nearest to it: {variant_label(run.variants[compared['nearest']['variant']])}"
    rows = [_paper_row(compared["paper"])]
    for name, row in (
        (nearest, compared["nearest"]), ("the plainest net", raw), ("the plainest net", sum_to_one)
    ):  # fmt: skip
        which = f"{name}; {VARIANT_LABELS['map'][1][row['map']]}"
        accuracy = percent(row["accuracy"][0])
        rows.append({"which": which, "accuracy": accuracy, **{name: row[name] for name in MEASURES}})
    columns = {"which": "nets and map", "accuracy": "accuracy", **{name: name for name in MEASURES}}
    return table(rows, columns=columns, caption=f"Next to the paper's Table 1; {_size(run)}", digits=digits)


@mpl.rc_context(LOOK)
def ig_steps(rows: Sequence[Row], *, title: str) -> Drawing:
    """Draw IG's agreement with LOO and its largest convergence delta by the number of steps, a line per
    baseline.

    Parameters
    ----------
    rows : of `digit_ig`.
    """
    needs("ig_steps", rows, "rows of digit_ig")
    names = {row["variant"]: variant_label(row) for row in reversed(rows)}
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    baselines = list(dict.fromkeys(row["baseline"] for row in rows))
    steps = sorted({row["n_steps"] for row in rows})
    last = {(row["variant"], row["baseline"]): row["r"].mean for row in rows if row["n_steps"] == steps[-1]}
    ends = "; ".join(
        f"{names[variant]}: "
        + ", ".join(f"{baseline} {last[variant, baseline]:.2f}" for baseline in baselines)
        for variant in variants
    )
    alt = f"{title}. IG's mean r with LOO at {steps[-1]} steps: {ends}."
    figure, axes = drawing(alt, rows=2, columns=len(variants), height=5.4, sharex=True, sharey="row")
    for variant, top, bottom in zip(variants, axes[: len(variants)], axes[len(variants) :], strict=True):
        for k, baseline in enumerate(baselines):
            line = [row for row in rows if (row["variant"], row["baseline"]) == (variant, baseline)]
            _ig_line(top, bottom, sorted(line, key=lambda row: row["n_steps"]), k)
        top.set_title("\n".join(wrap(names[variant], 22)))
        _steps_axes(bottom, steps)
    axes[0].set_ylabel("IG: mean r with LOO")
    axes[len(variants)].set_ylabel("largest convergence delta")
    headline(figure, title)
    settle(figure)
    return figure


def _ig_line(top: Axes, bottom: Axes, rows: Sequence[Row], k: int) -> None:
    """The k-th baseline of a variant: r with its interval above, the convergence delta below."""
    steps = [row["n_steps"] for row in rows]
    mean, low, high = limits(row["r"] for row in rows)
    look: dict[str, Any] = {"color": COLOURS[k], "marker": MARKERS[k]}
    top.fill_between(steps, low, high, color=COLOURS[k], alpha=0.22, linewidth=0)
    top.plot(steps, mean, label=rows[0]["baseline"], **look)
    label_points(
        top, [Name(f"{rows[0]['baseline']}", steps[len(steps) // 2], mean[len(steps) // 2], COLOURS[k])]
    )
    bottom.plot(steps, [row["delta"] for row in rows], **look)


def _steps_axes(axes: Axes, steps: Sequence[int]) -> None:
    """Powers of two along, powers of ten upward."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}".replace("e-0", "e−"))
    axes.set_xticks(steps, [str(step) for step in steps], rotation=60)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("steps")
