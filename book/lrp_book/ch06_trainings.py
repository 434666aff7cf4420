"""Chapter 6: the same effects with another training, another read-out, and other digit nets. No torch.

The runs of several trainings share data, depth and examples and differ in the weights only. What varies
between them is chance in training (first weights of the classifier, order of the batches, dropout); what
varies within one is the choice of a cell.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.ticker import NullLocator

from lrp_book.ch06_causes import EVERYTHING, by_first_sign, first_loo
from lrp_book.ch06_protocol import (
    EFFECT,
    needs,
    option_matrix,
    percent,
    subsets,
    variance_shares,
)
from lrp_book.committed import SHORT_RECIPE, Records
from lrp_book.labels import finished
from lrp_book.predictions import Point, judged, one_sign
from lrp_book.say import MissingRecord
from lrp_companion.checks import InputError, choose
from lrp_companion.lab.load import MnistGridRun, TextRun
from lrp_companion.lab.paper.digit_variants import (
    ACCURACY,
    MAPS_COMPARED,
    MEASURES,
    VARIANT_LABELS,
    digit_grid,
    mean_of_nets,
    needs_grid,
    paper_values,
)
from lrp_companion.lab.paper.protocol_grid import (
    AXIS_LABELS,
    PROTOCOL_AXES,
    Row,
    grid,
    needs_text,
    protocols_of,
    title,
)
from lrp_companion.metrics import bootstrap_mean, pearson
from lrp_companion.metrics.statistics import over_trainings
from lrp_companion.schema import DEFAULT_PROTOCOL, PROTOCOLS
from lrp_companion.show.canvas import (
    LOOK,
    Drawing,
    Name,
    drawing,
    label_ends,
    label_points,
    limits,
)
from lrp_companion.show.palette import INK, MARKERS, SPARE
from lrp_companion.show.tables import Table, table

LARGEST_GAP = 0.1
TURNS = 12
OF = ("mean", "low", "high")


# -- several trainings --------------------------------------------------------------------------------


def trainings(runs: Sequence[TextRun]) -> xr.DataArray:
    """CP-LRP minus AttnLRP in every cell that all runs have, of models that differ in their weights only.

    Returns
    -------
    DataArray
        Axes `training`, those of a grid and `of`: mean, low and high, the 95 % interval over examples. Its
        attributes are `runs` and `title` (data, depth and n).
    """
    _check(runs)
    cells = []
    for one in map(grid, runs):
        coords = {name: list(options) for name, options in {**one.axes, "of": OF}.items()}
        cells.append(xr.DataArray(one.values[..., 2, :], coords, list(coords)))
    out = xr.concat(cells, "training", join="inner").assign_coords(training=[run.model for run in runs])
    return out.assign_attrs(runs=tuple(runs), title=f"{title(runs[0])}, n = {runs[0].n:,}")


def _check(runs: Sequence[TextRun]) -> None:
    """Refuse runs that differ in more than the weights of their models, or in less."""

    def refuse(got: str, expected: str, hint: str) -> InputError:
        return InputError("trainings", got=got, expected=expected, hint=hint)

    for run in runs:
        needs_text("trainings", run)
    if len(runs) < 2:
        raise refuse(f"{len(runs)} runs", "at least two", "train the model again with another --seed")
    first, *others = (
        {"task": r.task, "layers": r.layers, "data": r.manifest["config"]["data"], "examples": r.n}
        for r in runs
    )
    for run, other in zip(runs[1:], others, strict=True):
        for what, got in other.items():
            if got != first[what]:
                hint = "compare runs on the same examples"
                raise refuse(f"{what} {got} in {run.name}", str(first[what]), hint)
        if not np.array_equal(run.examples, runs[0].examples):
            raise refuse(f"{run.name} on other examples", f"those of {runs[0].name}", "use the same --seed")
    weights = [run.manifest["config"]["weights"] for run in runs]
    if len(set(weights)) < len(weights):
        raise refuse("the same weights twice", "one run per training", "leave one of them out")


def _held(group: xr.DataArray) -> dict[str, str]:
    """Choices in which the runs have one option only, and that option."""
    return {name: group[name].values.tolist()[0] for name in PROTOCOL_AXES if group.sizes[name] == 1}


def _sides(group: xr.DataArray) -> list[xr.DataArray]:
    """Where the whole interval is above 0 in every training, below 0 in every one, on both sides in some."""
    above, below = group.sel(of="low") > 0, group.sel(of="high") < 0
    return [above.all("training"), below.all("training"), above.any("training") & below.any("training")]


def training_counts(group: xr.DataArray, **fixed: str) -> Row:
    """In how many cells the trainings agree.

    Parameters
    ----------
    fixed : options to keep to, such as `tokens="all"`; all cells by default.

    Returns
    -------
    dict
        `cells`; `above` and `below`: the whole interval is on that side of 0 in every training; `against`: in
        one training it is above and in another below; `open`: all others; `one sign`: the means have one sign
        in every training.
    """
    for name, option in fixed.items():
        choose("training_counts", "choice", name, PROTOCOL_AXES)
        choose("training_counts", name, option, tuple(group[name].values.tolist()))
    cells = group.sel(fixed)
    above, below, against = (int(where.sum()) for where in _sides(cells))
    means = cells.sel(of="mean")
    same = (means > 0).all("training") | (means < 0).all("training")
    out = {"cells": same.size, "above": above, "below": below, "against": against}
    return {**out, "open": same.size - above - below - against, "one sign": int(same.sum())}


def training_turns(group: xr.DataArray) -> list[Row]:
    """The cells in which the trainings do not all have their whole interval on the same side of 0.

    Returns
    -------
    list
        Rows with the option of every choice, one interval over examples under each training's name, and
        `against` (the interval is above 0 in one training and below in another): first those, then the
        others, by how far the means lie apart.
    """
    rows = []
    above, below, against = (cells.values.ravel() for cells in _sides(group))
    apart = np.ptp(group.sel(of="mean").values, axis=0).ravel()
    for k, protocol in enumerate(protocols_of({name: group[name].values.tolist() for name in PROTOCOL_AXES})):
        if not above[k] and not below[k]:
            row: Row = {**vars(protocol), "against": bool(against[k]), "apart": apart[k]}
            rows.append({**row, **{run.model: grid(run).cell(protocol)["difference"] for run in group.runs}})
    return sorted(rows, key=lambda row: (not row["against"], -row["apart"]))


def _defined(group: xr.DataArray) -> np.ndarray:
    """Effects in the cells where every training has one, (trainings, cells)."""
    flat = group.sel(of="mean").values.reshape(group.sizes["training"], -1)
    return flat[:, ~np.isnan(flat).any(0)]


def training_shares(group: xr.DataArray) -> dict[str, float]:
    r"""Split the variance of the effect over trainings and cells (analysis of variance).

    With $y_{tc}$ the effect of training t in cell c, the total is $\sum (y_{tc} - \bar y)^2$; `choices` is
    the share of the cells' means over the trainings, `training` that of the trainings' means over the cells,
    `together` the rest: how far a training changes what the choices do. The three add up to 1.
    """
    rows = variance_shares(_defined(group), ("training", "choices"))
    shares = {" ".join(row["choices"]): row["share"] for row in rows}
    named = {"choices": "choices", "training": "training", "together": "training choices"}
    return {name: shares[which] for name, which in named.items()}


def training_likeness(group: xr.DataArray) -> float:
    """The lowest Pearson correlation between two trainings' effects over the cells."""
    return min(pearson(a, b) for a, b in itertools.combinations(_defined(group), 2))


@mpl.rc_context(LOOK)
def training_curve(group: xr.DataArray) -> Drawing:
    """Draw the effect in every cell, sorted by its mean over the trainings, with a mark per training."""
    flat = _defined(group)
    flat = flat[:, np.argsort(flat.mean(0), kind="stable")]
    alt = (
        f"{group.title}: {EFFECT} in {flat.shape[1]} combinations and {len(flat)} trainings. "
        f"One sign in all trainings: {training_counts(group)['one sign']}."
    )
    figure, (axes,) = drawing(alt, height=3.4)
    x = np.arange(1, flat.shape[1] + 1)
    axes.vlines(x, flat.min(0), flat.max(0), color="#8a8a8a", linewidth=0.7)
    for k, (name, effects) in enumerate(zip(group["training"].values.tolist(), flat, strict=True)):
        colour, marker = SPARE[k % len(SPARE)], MARKERS[k % len(MARKERS)]
        axes.plot(x, effects, linestyle="none", marker=marker, markersize=2.6, color=colour, label=name)
        label_ends(axes, [Name(name, x[-1], effects[-1], colour)])
    axes.axhline(0, color=INK, linewidth=0.9)
    axes.set_xlabel("combinations of choices, by mean effect")
    axes.set_ylabel(EFFECT)
    return finished(figure, f"Does another training give the same effects? {group.title}")


def trainings_table(group: xr.DataArray) -> Table:
    """The effect under the three protocols, a column per training, with mean and standard deviation over
    them.
    """
    rows = []
    for name, protocol in PROTOCOLS.items():
        effects = {run.model: grid(run).cell(protocol)["difference"] for run in group.runs}
        means = np.array([effect.mean for effect in effects.values()])
        row = {"protocol": name, **effects, "mean of these": means.mean()}
        rows.append({**row, "standard deviation": means.std(ddof=1)})
    return table(rows, caption=f"{group.title}: {EFFECT} by training, with 95 % intervals over examples")


def training_counts_table(group: xr.DataArray) -> Table:
    """In how many cells the trainings agree: over all, and by tokens and map."""
    axes = {name: group[name].values.tolist() for name in ("tokens", "map")}
    rows = [{"which": name, **training_counts(group, **fixed)} for name, fixed in subsets(axes).items()]
    columns = {
        "which": "tokens; map",
        "cells": "cells",
        "above": "above 0 in all",
        "below": "below 0 in all",
        "against": "above in one, below in another",
        "open": "open in some",
        "one sign": "means of one sign",
    }
    where = f"cells by where the whole 95 % interval of {EFFECT} lies"
    return table(rows, columns=columns, caption=f"{_setting(group)}: {where}")


def training_turns_table(group: xr.DataArray) -> Table:
    """The cells where the trainings do not all lie on one side of 0, most contrary first, a column each;
    the first `TURNS` of them.

    The caption states what all these cells share.
    """
    turns, held = training_turns(group), _held(group)
    free = [name for name in PROTOCOL_AXES if name not in held]
    shared = [name for name in free if len(turns) > 1 and len({row[name] for row in turns}) == 1]
    caption = (
        f"{_setting(group)}: cells in which the whole interval of {EFFECT} "
        "is not on one side of 0 in all trainings"
    )
    if not turns:
        return table([{"cell": "none"}], caption=caption)
    if len(turns) > TURNS:
        caption += f", the first {TURNS} of {len(turns):,}"
    if shared:
        caption += "; common to all: " + ", ".join(_named(name, turns[0][name]) for name in shared)
    free = [name for name in free if name not in shared]
    words = {name: AXIS_LABELS[name][1] for name in free}
    rows = [{**row, **{name: words[name][row[name]] for name in free}} for row in turns[:TURNS]]
    columns = {name: AXIS_LABELS[name][0] for name in free} | {run.model: run.model for run in group.runs}
    return table(rows, columns=columns, caption=caption)


def training_shares_table(group: xr.DataArray) -> Table:
    """The fractions of the variance over cells and trainings, and how similar the trainings are."""
    headings = (
        "the choices, alike in every training",
        "the training, alike under every choice",
        "both together: a training that changes what the choices do",
    )
    shares = zip(headings, training_shares(group).values(), strict=True)
    rows = [{"explained by": text, "fraction": percent(share)} for text, share in shares]
    caption = (
        f"{_setting(group)}: fractions of the variance of {EFFECT}; "
        f"lowest r between two trainings over the cells {training_likeness(group):.2f}"
    )
    return table(rows, caption=caption)


def _named(choice: str, option: str) -> str:
    """A choice and its option in words, as in "output logit"."""
    name, options = AXIS_LABELS[choice]
    return f"{name} {options[option]}"


def _setting(group: xr.DataArray) -> str:
    """Data, depth, n, number of trainings, and the choices that are held fixed."""
    held = "".join(f"; {_named(name, option)}" for name, option in _held(group).items())
    return f"{group.title}, {group.sizes['training']} trainings{held}"


# -- two read-outs ------------------------------------------------------------------------------------


def both_read_outs(kept: Records) -> tuple[Sequence[TextRun], Sequence[TextRun]]:
    """The trainings of one recipe whose classifier reads [CLS], and those where it reads the mean."""
    if not kept.reading_mean:
        expected, hint = "runs of models that read the mean", "name the folder of the runs"
        raise MissingRecord("finding", got="no folder mean-pooling", expected=expected, hint=hint)
    return kept.trained_again(SHORT_RECIPE), kept.reading_mean


def first_share(run: TextRun) -> np.ndarray:
    """The share of [CLS] in sum |R| of AttnLRP, words + positions, all tokens, (n,)."""
    return run.share("attnlrp", token="first", site=EVERYTHING.site)


def sign_gap(run: TextRun) -> float:
    """CP-LRP minus AttnLRP where LOO at [CLS] is above 0, minus the same where it is below."""
    sides = by_first_sign(run)
    known = sides["above"] and sides["below"]
    return float(sides["above"].mean - sides["below"].mean) if known else float("nan")


def pooling_outcomes(reading_first: Sequence[TextRun], reading_mean: Sequence[TextRun]) -> list[Row]:
    """The three points of `results/predictions/2026-11-23-mean-pooling.md`, written down before any 6-layer
    model with the mean read was trained, judged: rows of `predictions.judged`.

    The first point needs the trainings that read [CLS] as its measure.
    """
    half = float(np.mean([np.nanmean(first_share(run)) for run in reading_first])) / 2

    def effects(run: TextRun) -> dict[str, float]:
        protocols = {"words": DEFAULT_PROTOCOL, "all": EVERYTHING}
        return {name: float(run.difference("cp-lrp", "attnlrp", at).mean) for name, at in protocols.items()}

    points = (
        Point(
            1,
            f"the share of [CLS] in the sum of |R| is below {half:.3f}, half of that with [CLS] read",
            ("mean",),
            lambda run: {"share": float(np.nanmean(first_share(run)))},
            lambda value: value["share"] < half,
        ),
        Point(
            2,
            "CP-LRP minus AttnLRP has one sign at the words and at words + positions, all tokens",
            ("mean",),
            effects,
            one_sign,
        ),
        Point(
            3,
            "where LOO at [CLS] is above 0 and where it is below, the two are less than 0.1 apart",
            ("mean",),
            lambda run: {"above - below": sign_gap(run)},
            lambda value: abs(value["above - below"]) < LARGEST_GAP,
        ),
    )
    return judged(points, {"mean": reading_mean})


def pooling_rows(reading_first: Sequence[TextRun], reading_mean: Sequence[TextRun]) -> list[Row]:
    """Both read-outs side by side, over their trainings.

    Returns
    -------
    list
        Rows `layers`, `reads` ("[CLS]" or "mean"), `trainings`, `share` ([CLS] in sum |R|), `above` (share of
        examples with LOO at [CLS] above 0), `words` and `all`: CP-LRP minus AttnLRP at the words, and at
        words + positions with all tokens (intervals over trainings and examples), `gaps`: `sign_gap` of each.
    """
    columns = {
        "share": first_share,
        "above": lambda run: (first_loo(run) > 0).astype(float),
        "words": lambda run: run.r("cp-lrp") - run.r("attnlrp"),
        "all": lambda run: run.r("cp-lrp", EVERYTHING) - run.r("attnlrp", EVERYTHING),
    }
    rows = []
    for reads, runs in (("[CLS]", reading_first), ("mean", reading_mean)):
        row: Row = {"layers": runs[0].layers, "reads": reads, "trainings": len(runs), "n": runs[0].n}
        row |= {
            what: over_trainings({k: f(run) for k, run in enumerate(runs)}) for what, f in columns.items()
        }
        rows.append({**row, "gaps": [sign_gap(run) for run in runs]})
    return rows


# -- the digits ---------------------------------------------------------------------------------------

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
    words = (w for name, w in VARIANT_WORDS.items() if variant.get(name, plainest[name]) != plainest[name])
    return ", ".join(words) or "the plainest"


def size_of(run: MnistGridRun) -> str:
    """Images and nets of a run, for captions."""
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
        f"{run.name}, {size_of(run)}: AttnLRP's mean r with LOO from the left goes from "
        f"{first} to {last} over {len(rows)} combinations of variant and map; below, accuracy and options."
    )
    ratios = [1.25, 0.5, 1.3]
    figure, (top, middle, bottom) = drawing(alt, rows=3, height=7.6, sharex=True, height_ratios=ratios)
    x = np.arange(1, len(rows) + 1)
    dots: dict[str, Any] = {"linestyle": "none"}
    for k, (name, printed) in enumerate(list(paper_values().items())[:3]):  # AttnLRP's
        mean, low, high = limits(row[name] for row in rows)
        top.vlines(x, low, high, color=SPARE[k], linewidth=0.8, alpha=0.5)
        short = name.removeprefix("AttnLRP, ")
        top.plot(x, mean, marker=MARKERS[k], markersize=2.8, color=SPARE[k], label=short, **dots)
        top.axhline(printed, color=SPARE[k], linewidth=0.9, linestyle=":")
        paper = f"{'●■▲'[k]} {short} (paper: {printed:.2f})"
        label_points(top, [Name(paper, 0.65 * len(x), printed, SPARE[k])])
    top.axhline(0, color=INK, linewidth=0.9)
    top.set_ylabel("AttnLRP, mean r")
    mean, low, high = np.array([row["accuracy"] for row in rows]).T
    middle.vlines(x, low, high, color=INK, linewidth=0.8, alpha=0.5)
    middle.plot(x, mean, marker="o", markersize=2.4, color=INK, **dots)
    middle.axhline(ACCURACY, color=INK, linewidth=0.9, linestyle=":")
    middle.set_ylabel("accuracy")
    label_points(middle, [Name(f"the paper's {100 * ACCURACY:.0f} %", 0.6 * len(x), ACCURACY, INK)])
    present = {
        name: [o for o in options if any(row.get(name) == o for row in rows)]
        for name, (_, options) in VARIANT_LABELS.items()
    }
    options = [(name, option) for name, several in present.items() for option in several if len(several) > 1]
    option_matrix(bottom, rows, options, VARIANT_LABELS)
    bottom.set_xlabel("variants and maps, by r of left with LOO")
    return finished(figure, f"How much depends on the variant of the net? MNIST, {size_of(run)}")


@mpl.rc_context(LOOK)
def ig_steps(rows: Sequence[Row], *, title: str) -> Drawing:
    """Draw IG's agreement with LOO and its largest convergence delta by the number of steps, a line per
    baseline.

    Parameters
    ----------
    rows : of `digit_ig`.
    """
    needs("ig_steps", rows, "rows of digit_ig")
    names = {row["variant"]: variant_label(row) for row in rows}
    baselines = list(dict.fromkeys(row["baseline"] for row in rows))
    steps = sorted({row["n_steps"] for row in rows})
    of = {(row["variant"], row["baseline"], row["n_steps"]): row for row in rows}
    ends = "; ".join(
        f"{name}: " + ", ".join(f"{b} {of[variant, b, steps[-1]]['r'].mean:.2f}" for b in baselines)
        for variant, name in names.items()
    )
    alt = f"{title}. IG's mean r with LOO at {steps[-1]} steps: {ends}."
    figure, axes = drawing(alt, rows=2, columns=len(names), height=5.4, sharex=True, sharey="row")
    for (variant, name), top, bottom in zip(names.items(), axes, axes[len(names) :], strict=False):
        for k, baseline in enumerate(baselines):
            line = [of[variant, baseline, step] for step in steps if (variant, baseline, step) in of]
            mean, low, high = limits(row["r"] for row in line)
            x = [row["n_steps"] for row in line]
            look: dict[str, Any] = {"color": SPARE[k], "marker": MARKERS[k]}
            top.fill_between(x, low, high, color=SPARE[k], alpha=0.22, linewidth=0)
            top.plot(x, mean, label=baseline, **look)
            label_points(top, [Name(baseline, x[len(x) // 2], mean[len(x) // 2], SPARE[k])])
            bottom.plot(x, [row["delta"] for row in line], **look)
        top.set_title("\n".join(wrap(name, 22)))
        bottom.set_xscale("log", base=2)
        bottom.set_yscale("log")
        bottom.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}".replace("e-0", "e−"))
        bottom.set_xticks(steps, [str(step) for step in steps], rotation=60)
        bottom.xaxis.set_minor_locator(NullLocator())
        bottom.set_xlabel("steps")
    axes[0].set_ylabel("IG: mean r with LOO")
    axes[len(names)].set_ylabel("largest convergence delta")
    return finished(figure, title)


def digit_choices(run: MnistGridRun, what: str = "AttnLRP, left with LOO") -> list[Row]:
    """The choices that move a mean r most: shares of its variance over all variants and maps
    (`variance_shares`).

    Returns
    -------
    list
        Rows `choices`, `squares`, `share`, largest first within an order; a row of a single choice has
        `levels`, each option and the mean over all cells with it.
    """
    choose("digit_choices", "what", what, (*MEASURES, "difference"))
    choices = {**run.manifest["config"]["choices"], "map": MAPS_COMPARED}
    options = {name: chosen for name, chosen in choices.items() if len(chosen) > 1}
    means = np.array([row[what].mean for row in digit_grid(run)]).reshape(*map(len, options.values()))
    rows = variance_shares(means, list(options))
    for row in rows:
        name = row["choices"][0]
        if len(row["choices"]) == 1 and name in options:
            axis = list(options).index(name)
            levels = np.moveaxis(means, axis, 0).reshape(len(options[name]), -1).mean(1)
            row["levels"] = dict(zip(options[name], levels.tolist(), strict=True))
    return rows


def digit_signs(run: MnistGridRun) -> list[Row]:
    """Whether a negative sum explains the effect of sum-to-one on r from the left with LOO.

    Returns
    -------
    list
        A row per variant: `raw`, `sum to one` (means over all images), `both positive` and
        `not both positive` (means of the sum-to-one r over images where both sums are positive, and over the
        others, with their number, all nets together; None where there is none).
    """
    needs_grid("digit_signs", run)
    out = []
    for k, variant in enumerate(run.variants):
        raw, divided = (run.values(k, "AttnLRP", "left-LOO", map=map) for map in MAPS_COMPARED)
        positive = ~run.negative(k, "AttnLRP", "left") & ~run.negative(k, "LOO", "right")
        row: Row = {"variant": k, **variant}
        row |= {"raw": bootstrap_mean(mean_of_nets(raw)), "sum to one": bootstrap_mean(mean_of_nets(divided))}
        for name, where in (("both positive", positive), ("not both positive", ~positive)):
            row[name] = (float(np.nanmean(divided[where])), int(where.sum())) if where.any() else None
        out.append(row)
    return out


def digit_ranges(run: MnistGridRun) -> list[Row]:
    """The lowest and the highest mean r, by map: over all variants, and over those with the paper's accuracy.

    Returns
    -------
    list
        Rows `map`, `which` ("all" or "reach", the variants whose nets reach the paper's accuracy), `variants`
        (how many), each of `MEASURES` and `accuracy` as (lowest, highest), None where there is no variant.
    """
    out = []
    for map in MAPS_COMPARED:
        rows = [row for row in digit_grid(run) if row["map"] == map]
        reaching = [row for row in rows if row["accuracy"][0] >= ACCURACY]
        for which, chosen in (("all", rows), ("reach", reaching)):
            row: Row = {"map": map, "which": which, "variants": len(chosen)}
            for name in MEASURES:
                row[name] = _range([cells[name].mean for cells in chosen])
            row["accuracy"] = _range([cells["accuracy"][0] for cells in chosen])
            out.append(row)
    return out


def _range(values: Sequence[float]) -> tuple[float, float] | None:
    return (min(values), max(values)) if values else None
