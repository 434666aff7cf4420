"""The paper's tables from runs: each cell with its interval, n, and the paper's number. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lrp_companion.checks import InputError, choose
from lrp_companion.lab.labelled import mean
from lrp_companion.lab.load import AnswerRun, AnyRun, Explanation, MnistRun, TextRun
from lrp_companion.lab.paper.published import DATA, on_paper_data, paper_paths, paper_table
from lrp_companion.masks import NONE, mask_label, masks_on_paths, path_masks
from lrp_companion.metrics import Interval, bootstrap_mean
from lrp_companion.metrics.statistics import bootstrap_columns
from lrp_companion.schema import DEFAULT_PROTOCOL, Protocol

Row = dict[str, Any]
MAP_SUFFIXES = {"raw": "", "sum-to-one": " (sum-to-one)"}
PAIRS = {"left-right": "left_vs_right", "left-LOO": "right_vs_loo", "right-LOO": "left_vs_loo"}
"""Pair of maps in a run, and the paper's column for the same product: a run's left, (QKᵀ)V, is the right of
section 4.3, to which Table 1 belongs.
"""
PAIR_NAMES = {
    "left-right": "(QKᵀ)V with Q(KᵀV)",
    "left-LOO": "(QKᵀ)V with LOO",
    "right-LOO": "Q(KᵀV) with LOO",
}
"""The same pairs by their products, which sections 3.1 and 4.3 call left and right the other way round."""
PAPER_METHODS = {
    "loo": "LOO",
    "ig": "IG",
    "rollout": "AttentionRollout",
    "attnlrp": "AttnLRP",
    "cp-lrp": "CP-LRP",
}
CURVES = ("lerf", "morf", "delta")
PAPER_COLUMNS = {"r": "loo_r"} | {name: name for name in CURVES}
HUB = {"sst2": "textattack/bert-base-uncased-SST-2", "imdb": "fabriceyhc/bert-base-uncased-imdb"}
"""The paper's two classifiers."""
BASE_LAYERS = 12  # of those two


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
        its. `n` images,
        `nets`, `accuracy` (smallest and largest).

    >>> table1(load_run("results/mnist-plain"))[0]["left-right"].mean  # doctest: +SKIP
    1.0
    """
    choose("table1", "map", map, tuple(MAP_SUFFIXES))
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


def table2(run: TextRun, *, protocol: Protocol = DEFAULT_PROTOCOL) -> list[Row]:
    """Table 2: agreement with LOO and perturbation curves of every method.

    The curves (mean logit while tokens are removed) rank tokens by the raw map read at the words, whatever
    `protocol` says.

    Returns
    -------
    list
        A row per method: `method`, `r`, `lerf`, `morf`, `delta` as intervals, `<name>, paper` (None where it
        has none, or the data are not the paper's), `n`.

    >>> table2(load_run("results/sst2-companion"))[0]["r"].mean  # doctest: +SKIP
    1.0
    """
    dataset = dataset_of(run)
    by_pearson = protocol.statistic == "pearson"  # as all of the paper's r
    paper = {row["method"]: row for row in paper_table("table2") if row["dataset"] == dataset and by_pearson}
    return [
        {"method": method, **_cells(run, method, protocol, paper.get(PAPER_METHODS.get(method, "")))}
        for method in run.methods
    ]


def tableA3(run: TextRun, *, protocol: Protocol = DEFAULT_PROTOCOL) -> list[Row]:
    """Table A3: agreement with LOO and curves along the three paths of bypassed layers.

    Returns
    -------
    list
        A row per path and step: `path`, `bypassed` (in words), `layers`, and the columns of `table2`. The
        paper's model has 12 layers; for a model of other depth its columns are None.

    Raises
    ------
    InputError : the run has no masks.
    """
    needs_masks("tableA3", run)
    dataset = dataset_of(run)
    paper = {
        (row["path"].replace("_", "-"), frozenset(row["bypass"])): row
        for row in paper_table("tableA3")
        if row["dataset"] == dataset and run.layers == BASE_LAYERS
    }
    out = []
    for path, masks in path_masks(run.layers).items():
        for mask in masks:
            cells = _cells(run, mask, protocol, paper.get((path, mask)))
            out.append({"path": path, "bypassed": mask_label(mask), "layers": sorted(mask), **cells})
    return out


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
    means = mean(run.r())
    return [
        {"method": method}
        | {
            name: means.sel(explainer=method, statistic=statistic, of=of).item()
            for name, (statistic, of) in ANSWER_COLUMNS.items()
        }
        for method in run.methods
    ]


def figure2(run: TextRun, *, protocol: Protocol = DEFAULT_PROTOCOL, column: str = "r") -> dict[str, Any]:
    """Figure 2: a column of Table A3 ("r" or "delta") along the three paths.

    Returns
    -------
    dict
        `paths` (name to one interval per step), `levels` (AttnLRP and CP-LRP), `paper` (name to values, or
        None).
    """
    choose("figure2", "column", column, ("r", *CURVES))
    needs_masks("figure2", run)
    cells = {
        name: [_interval(run, mask, column, protocol) for mask in masks]
        for name, masks in path_masks(run.layers).items()
    }
    ends = {"AttnLRP": NONE, "CP-LRP": frozenset(range(1, run.layers + 1))}
    levels = {name: _interval(run, mask, column, protocol) for name, mask in ends.items()}
    paper = None
    dataset = dataset_of(run)
    if dataset and run.layers == BASE_LAYERS:
        paper = paper_paths(dataset, column=PAPER_COLUMNS[column])
    return {"paths": cells, "levels": levels, "paper": paper}


def ran(runs: Sequence[AnyRun]) -> list[Row]:
    """The runs, from each manifest: model, data, n, key, time, hardware, versions and commit."""
    return [_ran(run) for run in runs]


def _ran(run: AnyRun) -> Row:
    session, layers, cut = run.manifest["sessions"][-1], None, None
    if isinstance(run, TextRun):
        layers = run.layers
        cut = int((run.example_column("whole") > run.example_column("tokens")).sum())
    hardware = session["hardware"]
    machine = [f"{hardware['cores']} cores of {hardware['cpu']}", *hardware.get("gpus", [])]
    return {
        "run": run.name,
        "model": run.model,
        "layers": layers,
        "data": run.manifest["data"],
        "n": run.n,
        "of": run.manifest["examples"],
        "finished": bool(run.manifest.get("finished")),
        "cut": cut,
        "key": run.manifest["key"],
        "minutes": run.seconds / 60 if _timed(run) else None,
        "hardware": ", ".join(machine),
        "versions": ", ".join(f"{name} {version}" for name, version in session["versions"].items()),
        "commit": session["commit"],
    }


def not_run(runs: Sequence[AnyRun]) -> list[Row]:
    """The paper's classifiers without a run: `model`, `data`, `command`; none if all data are the user's."""
    if runs and all(run.own for run in runs):
        return []
    there = {(run.task, run.model) for run in runs if isinstance(run, TextRun)}
    return [
        {"model": model, "data": DATA[task], "command": _hub_command(task)}
        for task, model in HUB.items()
        if (task, model) not in there
    ]


def _timed(run: AnyRun) -> bool:
    """Whether the time of every session is known: not if one was killed, or is still running."""
    sessions = run.manifest["sessions"]
    return all(session["seconds"] is not None and "stopped by" not in session for session in sessions)


def _hub_command(task: str) -> str:
    return f"lrp-companion run {task} --model {HUB[task]} --source hub --device cuda --out runs/{task}-bert"


def _cells(
    run: TextRun, explanation: Explanation, protocol: Protocol, paper: Mapping[str, Any] | None
) -> Row:
    row: Row = {}
    for column in ("r", *CURVES):
        row[column] = _interval(run, explanation, column, protocol)
        row[f"{column}, paper"] = paper[PAPER_COLUMNS[column]] if paper else None
    return {**row, "n": run.n}


def _interval(run: TextRun, explanation: Explanation, column: str, protocol: Protocol) -> Interval:
    """A cell of Table 2 or A3."""
    measured_under = protocol if column == "r" else None  # curves are the same under every protocol
    cells = run.once(("cells", column, measured_under), lambda: _intervals(run, column, protocol))
    return cells[explanation if isinstance(explanation, str) else frozenset(explanation)]


def _intervals(run: TextRun, column: str, protocol: Protocol) -> dict[Explanation, Interval]:
    """A column of Tables 2 and A3 for all methods and masks: one set of draws serves them all."""
    masks = {NONE, *(masks_on_paths(run.layers) if run.masks else ())} & set(run.masks)
    if column == "r" and protocol.statistic != "pearson":
        masks = set()  # of masks a run has Pearson's r only
    keys: list[Explanation] = [*run.methods, *sorted(masks, key=sorted)]
    values = [run.r(key, protocol) if column == "r" else run.column(key, column) for key in keys]
    return dict(zip(keys, bootstrap_columns(values), strict=True))


def needs_masks(operation: str, run: TextRun) -> None:
    if not run.masks:
        got, expected = f"{run.name}, a run without masks", "a run with --masks paths"
        raise InputError(operation, got=got, expected=expected, hint="run it with that")


def defined_mean(values: np.ndarray) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def named(runs: Sequence[AnyRun]) -> list[AnyRun]:
    """Each run once, under a unique name: the folder's, with the key if two have the same."""
    distinct = list({(run.name, run.manifest["key"]): run for run in runs}.values())
    names = [run.name for run in distinct]
    return [
        replace(run, name=f"{run.name} ({run.manifest['key']})") if names.count(run.name) > 1 else run
        for run in distinct
    ]
