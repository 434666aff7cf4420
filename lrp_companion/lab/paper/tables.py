"""The paper's tables from runs: each cell with its interval, n, and the paper's number. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lrp_companion.lab.load import AnswerRun, AnyRun, Explanation, MnistGridRun, MnistRun, TextRun
from lrp_companion.lab.paper.published import DATA, on_paper_data, paper_table
from lrp_companion.metrics import Interval, bootstrap_mean
from lrp_companion.metrics.statistics import bootstrap_columns
from lrp_companion.registry import label_of
from lrp_companion.schema import DEFAULT_PROTOCOL, Protocol, mask_label, path_masks

Row = dict[str, Any]
MAP_SUFFIXES = {"raw": "", "sum-to-one": " (sum-to-one)"}
PAIRS = {"left-right": "left_vs_right", "left-LOO": "right_vs_loo", "right-LOO": "left_vs_loo"}
"""Pair of maps in a run, and the paper's column for the same product, see `published`."""
PAIR_NAMES = dict(zip(PAIRS, ("(QKᵀ)V with Q(KᵀV)", "(QKᵀ)V with LOO", "Q(KᵀV) with LOO"), strict=True))
PAPER_METHODS = {name: label_of(name) for name in ("loo", "ig", "attnlrp", "cp-lrp")}
PAPER_METHODS["rollout"] = "AttentionRollout"
CURVES = ("lerf", "morf", "delta")
HUB = {"sst2": "textattack/bert-base-uncased-SST-2", "imdb": "fabriceyhc/bert-base-uncased-imdb"}
"""The paper's two classifiers."""
BASE_LAYERS = 12  # of those two
ACCURACY = 0.85  # of the paper's nets for digits (appendix B.1.1)


def dataset_of(run: AnyRun) -> str | None:
    """The paper's name for a run's data, "SST" or "IMDB"; None if they are not the paper's."""
    return DATA.get(run.task) if on_paper_data(run.manifest["config"]) else None


def table1(run: MnistRun, *, map: str = "raw") -> list[Row]:
    """Table 1: how well maps of the left and the right graph agree, with each other and with LOO.

    Parameters
    ----------
    map : "raw", or "sum-to-one": every map divided by its sum before Pearson's r.

    Returns
    -------
    list
        A row per explainer. For each of "left-right", "left-LOO", "right-LOO": the mean over images of the
        mean over nets, with its interval; `<pair>, nets`, the smallest and largest mean of a single net;
        `<pair>, paper`, the paper's value for these products, None where it has none or the data are not
        its. `n` images, `nets`, `accuracy` (smallest and largest).
    """
    printed_rows = paper_table("table1") if on_paper_data(run.manifest["config"]) else []
    paper = {row["explainer"]: row for row in printed_rows}
    accuracy, out = run.accuracy(), []
    for explainer in run.explainers:
        row: Row = {"explainer": explainer}
        for pair, printed in PAIRS.items():
            column = f"r {pair}{MAP_SUFFIXES[map]}"
            by_net = [defined_mean(run.values(explainer, column, seed=seed)) for seed in run.seeds]
            row[pair] = bootstrap_mean(run.values(explainer, column))
            row[f"{pair}, nets"] = (float(np.min(by_net)), float(np.max(by_net)))
            row[f"{pair}, paper"] = paper.get(explainer, {}).get(printed)
        row |= {"n": run.n, "nets": len(run.seeds)}
        row["accuracy"] = float(accuracy.min()), float(accuracy.max())
        out.append(row)
    return out


def accurate_variants(run: MnistGridRun) -> list[int]:
    """The variants whose nets are at least as accurate as the paper's."""
    return [k for k in range(len(run.variants)) if run.accuracy(k).mean() >= ACCURACY]


def defined_mean(values: np.ndarray) -> np.ndarray:
    """The mean over the first axis of the values that are defined; NaN if none is."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.where(known, values, 0.0).sum(0) / known.sum(0)


def table2(run: TextRun, *, protocol: Protocol = DEFAULT_PROTOCOL) -> list[Row]:
    """Table 2: agreement with LOO and perturbation curves of every method.

    The curves (mean logit while tokens are removed) rank tokens by the raw map read at the words, whatever
    `protocol` says.

    Returns
    -------
    list
        A row per method: `method`, `r`, `lerf`, `morf`, `delta` as intervals, `<name>, paper` (None where
        it has none, or the data are not the paper's), `n`.
    """
    dataset = dataset_of(run) if protocol.statistic == "pearson" else None  # as all of the paper's r
    paper = {row["method"]: row for row in paper_table("table2") if row["dataset"] == dataset}
    printed = [paper.get(PAPER_METHODS.get(method, "")) for method in run.methods]
    cells = _cells(run, run.methods, protocol, printed)
    return [{"method": method, **row} for method, row in zip(run.methods, cells, strict=True)]


def tableA3(run: TextRun, *, protocol: Protocol = DEFAULT_PROTOCOL) -> list[Row]:
    """Table A3: agreement with LOO and curves along the three paths of bypassed layers.

    Returns
    -------
    list
        A row per path and step: `path`, `bypassed` (in words), `layers`, and the columns of `table2`; the
        paper's are None for a model of another depth than its 12 layers.
    """
    dataset = dataset_of(run) if run.layers == BASE_LAYERS else None
    paper = {
        (row["path"].replace("_", "-"), frozenset(row["bypass"])): row
        for row in paper_table("tableA3")
        if row["dataset"] == dataset
    }
    steps = [(path, mask) for path, masks in path_masks(run.layers).items() for mask in masks]
    cells = _cells(run, [mask for _, mask in steps], protocol, [paper.get(step) for step in steps])
    return [
        {"path": path, "bypassed": mask_label(mask), "layers": sorted(mask), **row}
        for (path, mask), row in zip(steps, cells, strict=True)
    ]


def _cells(
    run: TextRun,
    explanations: Sequence[Explanation],
    protocol: Protocol,
    paper: Sequence[Mapping[str, Any] | None],
) -> list[Row]:
    """Columns of Tables 2 and A3."""
    columns = {name: _intervals(run, explanations, name, protocol) for name in ("r", *CURVES)}
    rows: list[Row] = [{} for _ in explanations]
    for k, (row, printed) in enumerate(zip(rows, paper, strict=True)):
        for name, cells in columns.items():
            theirs = "loo_r" if name == "r" else name
            row |= {name: cells[k], f"{name}, paper": printed[theirs] if printed else None}
        row["n"] = run.n
    return rows


def _intervals(
    run: TextRun, explanations: Sequence[Explanation], column: str, protocol: Protocol
) -> list[Interval]:
    """A column of Tables 2 and A3: one set of draws serves all of it."""

    def made() -> list[Interval]:
        values = [run.r(e, protocol) if column == "r" else run.column(e, column) for e in explanations]
        return bootstrap_columns(values)

    measured_under = protocol if column == "r" else None  # curves are the same under every protocol
    return run.once(("cells", tuple(explanations), column, measured_under), made)


ANSWER_COLUMNS = {
    "r": ("pearson", "tokens"),
    "r by rank": ("spearman", "tokens"),
    "r of the sum": ("pearson", "sum"),
    "r of the sum by rank": ("spearman", "sum"),
}


def answers(run: AnswerRun) -> list[Row]:
    """Agreement with LOO on a language model's answers: a row per method, means over prompts.

    `r` is that of a token's map, the mean over the tokens of an answer; `r of the sum` that of their sums.
    """
    return [
        {"method": method}
        | {
            name: bootstrap_mean(run.r().sel(explainer=method, statistic=statistic, of=of).values)
            for name, (statistic, of) in ANSWER_COLUMNS.items()
        }
        for method in run.methods
    ]


def not_run(runs: Sequence[AnyRun]) -> list[Row]:
    """The paper's classifiers without a run: `model`, `data`, `command`; none if all data are the user's."""
    command = "lrp-companion run {0} --model {1} --source hub --device cuda --out runs/{0}-bert"
    there = {(run.task, run.model) for run in runs}
    return [
        {"model": model, "data": DATA[task], "command": command.format(task, model)}
        for task, model in HUB.items()
        if (task, model) not in there and not (runs and all(run.own for run in runs))
    ]


def named(runs: Sequence[AnyRun]) -> list[AnyRun]:
    """Each run once, under a unique name: the folder's, with the key if two have the same."""
    distinct = list({(run.name, run.manifest["key"]): run for run in runs}.values())
    names = [run.name for run in distinct]
    return [
        replace(run, name=f"{run.name} ({run.manifest['key']})") if names.count(run.name) > 1 else run
        for run in distinct
    ]
