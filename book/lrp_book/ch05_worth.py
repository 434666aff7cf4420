"""Chapter 5 and the front page: the paper's claims and numbers next to this project's. No torch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr

from lrp_book.ch08_wirings import STATISTIC, load_wirings, wiring_claim
from lrp_book.ch08_wirings import worth as worth_of_wirings
from lrp_book.committed import SHORT, Records, records
from lrp_book.labels import method_label
from lrp_book.say import MissingRecord
from lrp_book.worth import METHODS, REMOVALS, correlations, kept_tokens, other_loo, r_without
from lrp_companion.checks import InputError, SourceError
from lrp_companion.lab.load import MnistRun, TextRun
from lrp_companion.lab.paper.claims import Claim, claims
from lrp_companion.lab.paper.printed import table2_dots
from lrp_companion.lab.paper.protocol_grid import title
from lrp_companion.lab.paper.published import paper_table
from lrp_companion.lab.paper.tables import PAIR_NAMES, PAPER_METHODS, dataset_of, figure2, table1
from lrp_companion.masks import NONE, path_masks
from lrp_companion.metrics import Interval, bootstrap_mean, paired_difference
from lrp_companion.metrics.statistics import side_of_zero
from lrp_companion.registry import label_of
from lrp_companion.schema import PROTOCOLS, Protocol
from lrp_companion.show.canvas import LOOK, Drawing, drawing, headline
from lrp_companion.show.palette import QUIET, styles
from lrp_companion.show.tables import Table, table

Row = dict[str, Any]
PATHS = {"front-to-back": "front to back", "back-to-front": "back to front", "single": "single layer"}
KINDS = {
    "LOO of another training": "s",
    "LOO of another depth": "D",
    "LOO by another removal": "^",
    "method": "o",
}
"""What an r is of, with its marker."""


# -- claims, and the numbers of sentences ------------------------------------------------------------------


@lru_cache(maxsize=2)
def judged_claims(results: str | Path = "results") -> list[Claim]:
    """The paper's claims, tested on the runs of a folder, once; the last is ours, on other wirings."""
    kept = records(results)
    tested = claims(list(kept.runs.values()), trained_again=kept.beside)
    try:
        groups = load_wirings(f"{results}/wirings")
    except SourceError:
        groups = {}
    return [*tested, wiring_claim(len(tested) + 1, groups)]


def verdicts(kept: Records) -> Counter[str]:
    """How many of the paper's claims, readings of its tables left out, have each verdict; `MissingRecord`
    in a folder without runs.
    """
    if not kept.runs:
        raise MissingRecord("finding", got="no runs", expected="runs", hint="name the folder of the runs")
    return Counter(claim.verdict for claim in judged_claims(kept.folder)[:-1] if not claim.reading)


def lead(kept: Records, short: str, protocol: str = "words") -> Interval:
    """CP-LRP's r with LOO minus AttnLRP's, paired over the examples of a run."""
    return kept.text(short).difference("cp-lrp", "attnlrp", PROTOCOLS[SHORT[protocol]])


def paper_r(run: TextRun, method: str) -> float:
    """The paper's mean r of a method on this run's data, NaN where it has none."""
    rows = [row for row in paper_table("table2") if row["dataset"] == dataset_of(run)]
    return {row["method"]: row["loo_r"] for row in rows}.get(PAPER_METHODS[method], math.nan)


def other_training(kept: Records) -> Interval:
    """r between the LOO maps of two trainings by one recipe, 6 layers, on the same sentences of SST-2."""
    first, second, *_ = sorted(kept.trainings("sst2-6"), key=lambda run: run.model)
    return bootstrap_mean(other_loo(first, second))


@lru_cache(maxsize=2)
def from_scratch(results: str | Path = "results") -> Mapping[str, xr.DataArray]:
    """What AttnLRP's r is worth (`worth`) in models trained from scratch, by wiring; a dimension `statistic`.

    `MissingRecord` in a folder without them.
    """
    try:
        groups = load_wirings(f"{results}/wirings")
    except SourceError:
        expected, hint = "their runs", "name the folder of the runs"
        raise MissingRecord("from_scratch", got="no wirings", expected=expected, hint=hint) from None
    both = [worth_of_wirings(groups, ["attnlrp"], statistic=statistic) for statistic in STATISTIC]
    by = xr.IndexVariable("statistic", list(STATISTIC))
    return {name: xr.concat([one[name] for one in both], by).squeeze("explainer") for name in both[0]}


def lead_without_first_position(run: TextRun) -> Interval:
    """CP-LRP's r minus AttnLRP's, words + positions, all tokens, with the first token's position left out."""
    return paired_difference(*(r_without(run, name, {"position": [0]}) for name in ("cp-lrp", "attnlrp")))


# -- tables ------------------------------------------------------------------------------------------------


def digit_row(kept: Records) -> Row:
    """The row of Table 1 of AttnLRP."""
    (row,) = [row for row in table1(kept.digits()) if row["explainer"] == "AttnLRP"]
    return row


def table1_short(run: MnistRun) -> Table:
    """Table 1 with raw maps: the explainers that the paper has, each pair of maps next to the paper's."""
    every = table1(run)
    rows = [row for row in every if row["left-right, paper"] is not None] or every
    columns, groups = {"explainer": "explainer"}, {}
    for pair, name in PAIR_NAMES.items():
        columns |= {pair: "here", f"{pair}, paper": "paper"}
        groups[name] = [pair, f"{pair}, paper"]
    caption = (
        f"Mean r between maps, {run.n:,} images, {len(run.seeds)} nets, raw maps; paper: from another net"
    )
    return table(rows, columns=columns, groups=groups, caption=f"{caption}, its left being Q(KᵀV)")


def dots(run: TextRun) -> Drawing:
    """Table 2's r of every method as a figure; its text alternative has the paper's values, too."""
    figure: Drawing = table2_dots(run)
    told = {name: paper_r(run, name) for name in run.methods if name in PAPER_METHODS and name != "loo"}
    printed = [f"{method_label(name)} {r:.2f}" for name, r in told.items() if not math.isnan(r)]
    figure.alt += f" The paper: {', '.join(printed)}." if printed else ""
    return figure


def both_statistics(run: TextRun) -> Table:
    """Table 2's r with LOO of every method by Pearson and by rank, under each protocol; the paper's."""
    printed = [row for row in paper_table("table2") if row["dataset"] == dataset_of(run)]
    papers = {row["method"]: row["loo_r"] for row in printed}
    columns, groups = {"method": "method"}, {}
    for key in SHORT:
        columns |= {f"{key}, pearson": "Pearson", f"{key}, spearman": "rank"}
        groups[SHORT[key]] = [f"{key}, pearson", f"{key}, spearman"]
    rows = []
    for method in (name for name in run.methods if name in PAPER_METHODS and name != "loo"):
        row: Row = {"method": method_label(method), "paper": papers.get(PAPER_METHODS[method])}
        for column in list(columns)[1:]:
            key, statistic = column.split(", ")
            read = replace(PROTOCOLS[SHORT[key]], statistic=statistic)
            row[column] = bootstrap_mean(run.r(method, read))
        rows.append(row)
    caption = f"Mean r with LOO, {title(run)}, n = {run.n:,}; paper: from another model, by Pearson"
    return table(rows, columns=columns | {"paper": "paper"}, groups=groups, caption=caption)


def rows_of(means: xr.DataArray) -> list[Row]:
    """Means over explainers and one other axis as rows: `method`, in words, and a column per label."""
    (other,) = (name for name in means.dims if name != "explainer")
    lines = zip(means.explainer.values, means.transpose("explainer", other).values, strict=True)
    return [
        {"method": method_label(name), **dict(zip(means[other].values, line, strict=True))}
        for name, line in lines
    ]


# -- what an r is worth ------------------------------------------------------------------------------------


def scale(runs: Sequence[TextRun], *, tokens: str = "no-special") -> list[Row]:
    """Every reference of `KINDS` for runs on one data set, largest mean r first.

    LOO is of each model's own predicted class; where two models predict different classes the example is
    left out (undefined).

    Parameters
    ----------
    runs : several of one model may be among them, such as one with LOO by all removals and one with more
        methods.

    Returns
    -------
    list
        Rows `kind`, `what` the r is of, in words, the `name` of its method, the `model` whose LOO it is with,
        its `layers`, the mean `r` (interval), `values` by example and `n`.
    """
    rows: list[Row] = []

    def add(kind: str, what: str, run: TextRun, r: np.ndarray, *, name: str = "loo") -> None:
        of, mean = {"model": run.model, "layers": run.layers}, bootstrap_mean(r)
        rows.append({"kind": kind, "what": what, "name": name, **of, "r": mean, "values": r, "n": mean.n})

    another_training, another_depth, another_removal, method = KINDS
    config = {id(run): run.manifest["config"] for run in runs}
    once = {(config[id(run)]["data"], config[id(run)]["weights"]): run for run in reversed(runs)}.values()
    for run, other in combinations(sorted(once, key=lambda run: (-run.layers, run.model)), 2):
        if config[id(run)]["data"] == config[id(other)]["data"]:
            kind = another_training if run.layers == other.layers else another_depth
            add(kind, f"LOO of {other.model}", run, other_loo(run, other, tokens=tokens))
    told = set()
    for run in runs:
        for removal in run.manifest["axes"]["removal"][1:]:
            r = correlations(run.loo(), run.loo(Protocol(removal=removal)), kept_tokens(run, tokens))
            add(another_removal, f"LOO by {REMOVALS.get(removal, removal)}", run, r)
        for name in reversed(METHODS):
            if name in run.methods and (name, run.model) not in told:
                told.add((name, run.model))
                add(method, method_label(name), run, run.r(name, Protocol(tokens=tokens)), name=name)
    return sorted(rows, key=lambda row: -row["r"].mean)


@mpl.rc_context(LOOK)
def scale_strip(rows: Sequence[Row], *, title: str) -> Drawing:
    """Draw mean r with LOO, a line per reference and method and on it a mark per model or pair of models.

    Filled marks are of the deepest models, open ones of the others; the number at the right is the mean of a
    line's marks. Lines are sorted by it.

    Parameters
    ----------
    rows : of `scale`, one data set.
    title : the data, and which tokens count.
    """
    lines: dict[str, list[Row]] = {}
    for row in rows:
        lines.setdefault(row["kind"] if row["kind"] in list(KINDS)[:2] else row["what"], []).append(row)
    means = {name: float(np.mean([row["r"].mean for row in of])) for name, of in lines.items()}
    names = sorted(lines, key=means.__getitem__)
    told = "; ".join(f"{name} {means[name]:.2f} ({len(lines[name])})" for name in reversed(names))
    alt = f"{title}: mean r with LOO by the attention mask, mean over models and how many. {told}."
    figure, (axes,) = drawing(alt, height=1.0 + 0.3 * len(names))
    depths = [row["layers"] for row in rows]
    for y, name in enumerate(names):
        values = [row["r"].mean for row in lines[name]]
        axes.plot([min(values), max(values)], [y, y], color=QUIET, linewidth=0.8, zorder=1)
        for row in lines[name]:
            colour = styles([row["name"]])[row["name"]].colour
            face = colour if row["layers"] == max(depths) else "none"
            look: Row = {"color": colour, "markerfacecolor": face, "markersize": 5}
            axes.plot(row["r"].mean, y, marker=KINDS[row["kind"]], linestyle="none", **look)
        axes.annotate(
            f"{means[name]:.2f}",
            (1, y),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            annotation_clip=False,
        )
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.grid(visible=False, axis="y")
    marks = f"; filled: {max(depths)} layers, open: {min(depths)}" if min(depths) < max(depths) else ""
    figure.supxlabel("mean r with this model's LOO" + marks)
    headline(figure, title)
    return figure


# -- layer by layer ----------------------------------------------------------------------------------------


def depth_paths(runs: Iterable[Any]) -> Row:
    r"""Mean r with LOO along each path under each protocol, for the widget `LayerPaths`.

    On the paths from either end, layers 1 to k or k to L are bypassed; on the single one layer k is. What is
    compared at the *ends* is $\bar r(\{1..L\}) - \bar r(\varnothing)$, CP-LRP minus AttnLRP, on the first two
    and $\bar r(\{L\}) - \bar r(\{1\})$ on the single one, paired over examples; its side is that of its
    whole interval (`side_of_zero`).

    Parameters
    ----------
    runs : those on reviews with masks are used.

    Returns
    -------
    dict
        `protocols` and `paths` as rows `key` and `label`; `runs`, each with `key`, `label`, `n`, `layers`,
        `cells[protocol][path]` (`mean`, `low`, `high`, a number per layer k = 1..L), `levels[protocol]` (the
        means of AttnLRP and CP-LRP), `ends[protocol][path]` (`mean`, `low`, `high`, `side`), `paper[path]`
        (the paper's Table A3 by layer, None for another depth or other data) and `paper ends[path]`.
    """
    masked = [run for run in runs if isinstance(run, TextRun) and run.masks]
    if not masked:
        hint = "make one with lrp-companion run sst2 --masks paths"
        raise InputError("depth_paths", got="no run with masks", expected="one or more", hint=hint)
    return {
        "protocols": [{"key": key, "label": label} for key, label in SHORT.items()],
        "paths": [{"key": key, "label": label} for key, label in PATHS.items()],
        "levels": [label_of("attnlrp"), label_of("cp-lrp")],
        "runs": [_paths_of(run) for run in masked],
    }


def _paths_of(run: TextRun) -> Row:
    curves = {key: figure2(run, protocol=PROTOCOLS[name]) for key, name in SHORT.items()}
    paper = {path: _by_layer(path, steps) for path, steps in (curves["words"]["paper"] or {}).items()}
    whole = _number(round(paper_r(run, "cp-lrp") - paper_r(run, "attnlrp"), 4))
    single = round(paper["single"][-1] - paper["single"][0], 4) if paper else None
    return {
        "key": run.name,
        "label": title(run),
        "n": run.n,
        "layers": run.layers,
        "cells": {
            key: {path: _limits(_by_layer(path, steps)) for path, steps in drawn["paths"].items()}
            for key, drawn in curves.items()
        },
        "levels": {
            key: [_number(level.mean) for level in drawn["levels"].values()] for key, drawn in curves.items()
        },
        "ends": {
            key: {path: _end(run.difference(*ends_of(path, run.layers), PROTOCOLS[name])) for path in PATHS}
            for key, name in SHORT.items()
        },
        "paper": paper or None,
        "paper ends": {"front-to-back": whole, "back-to-front": whole, "single": single},
    }


def ends_of(path: str, layers: int) -> tuple[frozenset[int], frozenset[int]]:
    """The two masks that are compared on a path, the second taken from the first.

    >>> [[sorted(mask) for mask in ends_of(path, 3)] for path in ("single", "front-to-back")]
    [[[3], [1]], [[1, 2, 3], []]]
    """
    steps = path_masks(layers)[path]
    return (steps[-1], steps[0]) if path == "single" else (steps[-1], NONE)


def _by_layer(path: str, steps: Sequence[Any]) -> list[Any]:
    """The steps of a path in the order of layer k: the one from the back begins with the last layer."""
    return list(steps[::-1] if path == "back-to-front" else steps)


def _limits(steps: Sequence[Interval]) -> Mapping[str, list[float | None]]:
    return {side: [_number(getattr(step, side)) for step in steps] for side in ("mean", "low", "high")}


def _end(value: Interval) -> Row:
    return {**{side: numbers[0] for side, numbers in _limits([value]).items()}, "side": side_of_zero(value)}


def _number(value: float) -> float | None:
    """Eight digits, more than is shown; None where it is undefined."""
    return None if np.isnan(value) else float(f"{value:.8g}")
