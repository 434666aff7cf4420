"""Runs laid beside the paper's tables: rows of plain values, each cell with its interval, n, and the paper's
number. No torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lrp_companion.analysis.paper import paper_paths, paper_table
from lrp_companion.masks import NONE, mask_label, masks_on_paths, path_masks
from lrp_companion.metrics import Interval, bootstrap_mean
from lrp_companion.metrics.statistics import bootstrap_columns
from lrp_companion.runs.cost import DEFAULT_METHODS, method_passes, text_work, token_operations
from lrp_companion.runs.load import AnyRun, Explanation, MnistRun, TextRun
from lrp_companion.schema import DEFAULT_PROTOCOL, InputError, Protocol, choose

Row = dict[str, Any]
MAP_SUFFIXES = {"raw": "", "sum-to-one": " (sum-to-one)"}
PAIRS = {"left-right": "left_vs_right", "left-LOO": "left_vs_loo", "right-LOO": "right_vs_loo"}
DATA = {"sst2": "SST", "imdb": "IMDB"}
PAPER_METHODS = {
    "loo": "LOO",
    "ig": "IG",
    "rollout": "AttentionRollout",
    "attnlrp": "AttnLRP",
    "cp-lrp": "CP-LRP",
}
CURVES = ("lerf", "morf", "delta")
HUB = {"sst2": "textattack/bert-base-uncased-SST-2", "imdb": "fabriceyhc/bert-base-uncased-imdb"}
"""The paper's two classifiers."""
BASE_LAYERS, BASE_HIDDEN = 12, 768  # of those two
TEXTS = {"sst2": 872, "imdb": 25_000}  # of the whole split
RATE = 1e13  # operations a second of one GPU with full batches: assumed, not measured


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
        `<pair>, paper`, the paper's value or None. `n` images, `nets`, `accuracy` (smallest and largest).

    >>> table1(load_run("results/mnist-plain"))[0]["left-right"].mean  # doctest: +SKIP
    1.0
    """
    choose("table1", "map", map, tuple(MAP_SUFFIXES))
    paper = {row["explainer"]: row for row in paper_table("table1")}
    accuracy, out = run.accuracy(), []
    for explainer in run.explainers:
        row: Row = {"explainer": explainer}
        for pair, printed in PAIRS.items():
            column = f"r {pair}{MAP_SUFFIXES[map]}"
            by_net = [defined_mean(run.values(explainer, column, seed=seed)) for seed in run.seeds]
            row[pair] = bootstrap_mean(run.values(explainer, column))
            row[f"{pair}, nets"] = (float(np.min(by_net)), float(np.max(by_net)))
            row[f"{pair}, paper"] = paper.get(explainer, {}).get(printed)
        out.append(
            {
                **row,
                "n": run.n,
                "nets": len(run.seeds),
                "accuracy": (float(accuracy.min()), float(accuracy.max())),
            }
        )
    return out


def table2(run: TextRun, *, protocol: Protocol = DEFAULT_PROTOCOL) -> list[Row]:
    """Table 2: agreement with LOO and perturbation curves of every method.

    The curves (mean logit while tokens are removed) rank tokens by the raw map read at the words, whatever
    `protocol` says.

    Returns
    -------
    list
        A row per method: `method`, `r`, `lerf`, `morf`, `delta` as intervals, `<name>, paper` (None where it
        has none), `n`.

    >>> table2(load_run("results/sst2-companion"))[0]["r"].mean  # doctest: +SKIP
    1.0
    """
    paper = {row["method"]: row for row in paper_table("table2") if row["dataset"] == DATA[run.task]}
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
    _needs_masks("tableA3", run)
    rows = (
        [row for row in paper_table("tableA3") if row["dataset"] == DATA[run.task]]
        if run.layers == 12
        else []
    )
    paper = {(row["path"].replace("_", "-"), frozenset(row["bypass"])): row for row in rows}
    return [
        {
            "path": path,
            "bypassed": mask_label(mask),
            "layers": sorted(mask),
            **_cells(run, mask, protocol, paper.get((path, mask))),
        }
        for path, masks in path_masks(run.layers).items()
        for mask in masks
    ]


def figure2(run: TextRun, *, protocol: Protocol = DEFAULT_PROTOCOL, column: str = "r") -> dict[str, Any]:
    """Figure 2: a column of Table A3 ("r" or "delta") as curves: what `views.layer_curves` draws.

    Returns
    -------
    dict
        `paths` (name to one interval per step), `levels` (AttnLRP and CP-LRP), `paper` (name to values, or
        None).
    """
    choose("figure2", "column", column, ("r", *CURVES))
    _needs_masks("figure2", run)
    cells = {
        name: [_interval(run, mask, column, protocol) for mask in masks]
        for name, masks in path_masks(run.layers).items()
    }
    ends = {"AttnLRP": NONE, "CP-LRP": frozenset(range(1, run.layers + 1))}
    paper = (
        paper_paths(DATA[run.task], column="loo_r" if column == "r" else column) if run.layers == 12 else None
    )
    return {
        "paths": cells,
        "levels": {name: _interval(run, mask, column, protocol) for name, mask in ends.items()},
        "paper": paper,
    }


def ran(runs: Sequence[AnyRun]) -> list[Row]:
    """What was run: model, data, n, key, time, hardware, versions and commit of each run, from its
    manifest.
    """
    out = []
    for run in runs:
        sessions = run.manifest["sessions"]
        hardware = sessions[-1]["hardware"]
        out.append(
            {
                "run": run.name, "model": run.model,
                "layers": run.layers if isinstance(run, TextRun) else None,
                "data": run.manifest["data"],
                "n": run.n, "of": run.manifest["examples"], "finished": bool(run.manifest.get("finished")),
                "cut": int((run.example_column("whole") > run.example_column("tokens")).sum()) if isinstance(run,
                    TextRun) else None,
                "key": run.manifest["key"], "minutes": run.seconds / 60 if _timed(run) else None,
                "hardware": ", ".join([f"{hardware['cores']} cores of {hardware['cpu']}",
                    *hardware.get("gpus", [])]),
                "versions": ", ".join(f"{name} {version}" for name,
                    version in sessions[-1]["versions"].items()),
                "commit": sessions[-1]["commit"],
            }
        )  # fmt: skip
    return out


def not_run(runs: Sequence[AnyRun]) -> list[Row]:
    """The paper's two classifiers, where no run is theirs: the command, and how long it would take.

    The time is an estimate from arithmetic: the operations of the same run with BERT-base's sizes, on texts
    as long as those of the largest run on the same data, over a rate that is assumed (`RATE`). Short texts do
    not fill a GPU and take longer.

    Returns
    -------
    list
        Rows `model`, `data`, `command`, `texts` (of the whole split), `from run` (whose lengths were taken)
        and `operations` of a mean text, both None without a run, and `hours` for the whole split.
    """
    out = []
    for task, model in HUB.items():
        own = [run for run in runs if isinstance(run, TextRun) and run.task == task]
        if any(run.model == model for run in own):
            continue
        row: Row = {
            "model": model,
            "data": DATA[task],
            "command": _hub_command(task),
            "texts": TEXTS[task],
            "from run": None,
        }
        row |= {"operations": None, "hours": None}
        if own:
            largest = max(own, key=lambda run: run.n)
            row["from run"] = largest.name
            row["operations"] = float(
                np.mean([_operations(largest, int(tokens)) for tokens in largest.example_column("tokens")])
            )
            row["hours"] = row["operations"] * TEXTS[task] / RATE / 3600
        out.append(row)
    return out


def _operations(run: TextRun, tokens: int) -> float:
    """Floating-point operations of all tables of a run with the three paths, on a text of so many tokens,
    with BERT-base's sizes.
    """
    config = run.manifest["config"]
    passes = sum(
        method_passes(method, {"n_steps": config["n_steps"]}, tokens)
        for method in DEFAULT_METHODS
        if method != "loo"
    )
    sizes = {
        "methods": len(DEFAULT_METHODS),
        "removals": len(config["removals"]),
        "layers": BASE_LAYERS,
        "chunk": config["chunk"],
    }
    work = text_work(tokens, passes=passes, **sizes)
    return sum(work[table] for table in ("examples", "methods", "masks")) * token_operations(
        tokens, layers=BASE_LAYERS, hidden=BASE_HIDDEN
    )


def _timed(run: AnyRun) -> bool:
    """Whether every session went to its end: of one that was killed, or still runs, it is not known how long
    it was at work.
    """
    return all(
        session["seconds"] is not None and "stopped by" not in session for session in run.manifest["sessions"]
    )


def _hub_command(task: str) -> str:
    return f"lrp-companion run {task} --model {HUB[task]} --source hub --device cuda --out runs/{task}-bert"


def _cells(
    run: TextRun, explanation: Explanation, protocol: Protocol, paper: Mapping[str, Any] | None
) -> Row:
    row: Row = {}
    for column in ("r", *CURVES):
        row[column] = _interval(run, explanation, column, protocol)
        row[f"{column}, paper"] = paper["loo_r" if column == "r" else column] if paper else None
    return {**row, "n": run.n}


def _interval(run: TextRun, explanation: Explanation, column: str, protocol: Protocol) -> Interval:
    """A cell of Table 2 or A3. The first one asked for makes all of its column: one set of draws serves them
    all.
    """
    memory = run.__dict__.setdefault("_cells", {})
    of = column, protocol if column == "r" else None  # curves are the same under every protocol
    if of not in memory:
        masks = frozenset(masks_on_paths(run.layers)) if run.masks else ()
        keys: list[Explanation] = [*run.methods, *sorted({NONE, *masks} & set(run.masks), key=sorted)]
        values = [run.r(key, protocol) if column == "r" else run.column(key, column) for key in keys]
        memory[of] = dict(zip(keys, bootstrap_columns(values), strict=True))
    key = explanation if isinstance(explanation, str) else frozenset(explanation)
    return memory[of][key]


def _needs_masks(operation: str, run: TextRun) -> None:
    if not run.masks:
        raise InputError(
            operation,
            got=f"{run.name}, a run without masks",
            expected="a run with --masks paths",
            hint="run it with that",
        )


def defined_mean(values: np.ndarray) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def named(runs: Sequence[AnyRun]) -> list[AnyRun]:
    """Runs under names that tell them apart: the folder's, and the key where two folders are called the same;
    each run once.
    """
    once = list({(run.name, run.manifest["key"]): run for run in runs}.values())
    names = [run.name for run in once]
    return [
        replace(run, name=f"{run.name} ({run.manifest['key']})") if names.count(run.name) > 1 else run
        for run in once
    ]
