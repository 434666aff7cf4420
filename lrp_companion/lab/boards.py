"""The protocol audit as boards of the widget `ProtocolSwitchboard`: cells as packed 16-bit integers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from lrp_companion.checks import SITES, InputError
from lrp_companion.lab.folder import points
from lrp_companion.lab.load import MAPS, MnistGridRun, TextRun
from lrp_companion.lab.paper.published import paper_table
from lrp_companion.lab.paper.tables import PAIRS, dataset_of, defined_mean
from lrp_companion.metrics.statistics import bootstrap_columns, limits, resampled
from lrp_companion.registry import label_of
from lrp_companion.schema import AXIS_OPTIONS, DEFAULT_PROTOCOL, REMOVALS
from lrp_companion.widgets.base import packed
from lrp_companion.widgets.maps import SCALE, UNDEFINED


def _named(options: Sequence[str], *words: str) -> dict[Any, str]:
    return dict(zip(options, words, strict=True))


GRID_OPTIONS = {**AXIS_OPTIONS, "map": MAPS}
"""The axes of a board, in this order, the fields of `Protocol`; and the options that can differ in r."""
AXIS_LABELS: dict[str, tuple[str, dict[Any, str]]] = {
    "site": ("relevance read at", _named(SITES, "words", "words + positions", "whole embedding")),
    "tokens": ("tokens that count", {"no-special": "without [CLS], [SEP]", "all": "all"}),
    "map": ("map", {"raw": "raw", "sum-to-one": "sum to one"}),
    "removal": ("LOO removes by", _named(REMOVALS, "attention mask", "[MASK]", "[PAD]", "deleting")),
    "target": ("output", {"logit": "logit", "margin": "margin", "probability": "probability"}),
    "statistic": ("correlation", {"pearson": "Pearson", "spearman": "Spearman", "kendall": "Kendall"}),
    "bias": ("biases", {False: "no", True: "yes"}),
    "position_embedding": ("position embedding", {False: "no", True: "yes"}),
    "embedding": ("pixel to Q, K, V", {False: "directly", True: "through an embedding"}),
    "readout": ("read-out", {"all": "all positions", "mean": "their mean"}),
    "scaled": ("scores", {True: "divided by √d", False: "not divided"}),
}
"""Each choice of reviews and of digits, and its options in words."""
DATA_NAMES = {"sst2": "SST-2", "imdb": "IMDB"}
MEASURES = (("AttnLRP", "right-LOO"), ("AttnLRP", "left-LOO"), ("AttnLRP", "left-right"), ("IG", "left-LOO"))
"""Of the digits: explainer and pair of maps; the board shows the first two."""


def switchboard(runs: Iterable[Any], *, a: str = "cp-lrp", b: str = "attnlrp") -> dict[str, Any]:
    """Every cell of every run for the widget `ProtocolSwitchboard`: a board of reviews, of `runs` with both
    methods, then one of digits, of the first run over variants of the nets; `InputError` without a run on
    reviews.

    Numbers are 16-bit integers, the value times 10,000, packed as base64; -32768 where there is none. With
    two decimals they print like the value, so the widget shows the same numbers as a table.
    """
    runs = list(runs)
    grids = {run: grid(run, a, b) for run in runs if isinstance(run, TextRun) and {a, b} <= set(run.methods)}
    if not grids:
        hint = "make one with lrp-companion run sst2"
        raise InputError("switchboard", got="no runs on reviews", expected=f"one with {a} and {b}", hint=hint)
    axes = _axes(GRID_OPTIONS)
    axes[list(GRID_OPTIONS).index("map")]["options"][0]["was"] = "absolute-sum"  # of the same r, in old links
    cells = presets(grids, a, b)
    marked = [{"label": f"{label} ({title(run)})", "state": _state(run.name, at)} for label, run, at in cells]
    board = {
        "key": "text",
        "label": "Reviews",
        "a": label_of(a),
        "b": label_of(b),
        "axes": axes,
        "runs": [_packed_run(run, of, paper_values(run, a, b)) for run, of in grids.items()],
        "start": marked[0]["state"],
        "presets": marked,
    }
    return {"boards": [board, *[digit_board(run) for run in runs if isinstance(run, MnistGridRun)][:1]]}


def grid(run: TextRun, a: str = "cp-lrp", b: str = "attnlrp") -> xr.Dataset:
    """Mean r of two methods and their paired difference in every cell of a run: `value`, with the axes
    estimate ("b", "a", "difference"), the choices of a `Protocol`, and part ("mean", "low", "high"); `n`, the
    examples in each mean.
    """
    r = run.agreement([b, a])
    r = xr.concat([r, r[1:] - r[0].drop_vars("explainer")], "explainer")
    out = []
    for column in r.values.reshape(3, -1, run.n):
        mean, draws, defined = resampled(column.T)
        out.append([mean, *limits(draws), defined])
    values = np.moveaxis(np.array(out), 1, -1).reshape(*r.shape[:-1], 4)
    axes = {"estimate": ["b", "a", "difference"], **{name: r[name].values for name in GRID_OPTIONS}}
    value = xr.DataArray(values[..., :3], {**axes, "part": ["mean", "low", "high"]}, [*axes, "part"])
    return xr.Dataset({"value": value, "n": (list(axes), values[..., 3])})


def title(run: TextRun) -> str:
    """Data and depth of a run in words, as in "SST-2, 12 layers"."""
    return f"{DATA_NAMES.get(run.task, run.data_name)}, {run.layers} layers"


def presets(grids: Mapping[TextRun, xr.Dataset], a: str, b: str) -> list[tuple[str, TextRun, dict[str, Any]]]:
    """Notable cells: the default on SST, the cell closest to the paper, the largest flip."""
    on_sst = [run for run in grids if dataset_of(run) == "SST"]
    first = next(iter([*on_sst, *grids]))
    out = [("words only (default)", first, vars(DEFAULT_PROTOCOL))]
    near = []
    for run in on_sst:
        printed, mean = paper_values(run, a, b), grids[run].value.sel(part="mean")
        gap = np.hypot(*(mean.sel(estimate=k) - printed[k] for k in "ab")) if printed else None
        if gap is not None and not gap.isnull().all():
            near.append((float(gap.min()), run, _place(-gap)))
    if near:
        _, run, at = min(near, key=lambda one: one[0])
        out.append(("nearest to the paper's SST numbers", run, at))
    effect = grids[first].value.sel(estimate="difference")
    mean, low, high = (effect.sel(part=part, drop=True) for part in ("mean", "low", "high"))
    flipped = low > 0 if mean.sel(vars(DEFAULT_PROTOCOL)) < 0 else high < 0
    if flipped.any():  # the largest effect of the other sign, its whole interval on that side
        out.append(("largest flip", first, _place(np.abs(mean).where(flipped))))
    return out


def _place(size: xr.DataArray) -> dict[str, Any]:
    """The options of the cell with the largest value."""
    at = size.argmax([*GRID_OPTIONS])
    return {name: size[name].values[int(at[name])] for name in GRID_OPTIONS}


def paper_values(run: TextRun, a: str, b: str) -> dict[str, float] | None:
    """The paper's r of both methods in Table 2, whose choices are not known; None where it has none."""
    rows = [row for row in paper_table("table2") if row["dataset"] == dataset_of(run)]
    printed = {row["method"]: row["loo_r"] for row in rows}
    names = {"a": label_of(a), "b": label_of(b)}
    return {k: printed[name] for k, name in names.items()} if {*names.values()} <= {*printed} else None


def _packed_run(run: TextRun, cells: xr.Dataset, paper: Any) -> dict[str, Any]:
    """One run's cells over all options of every axis, undefined where the run lacks an option."""
    whole = cells.reindex({name: list(options) for name, options in GRID_OPTIONS.items()})
    values = whole.value.transpose(*GRID_OPTIONS, "estimate", "part").values
    missing = run.n - whole.n.sel(estimate="difference").fillna(0).transpose(*GRID_OPTIONS).values
    return {
        "key": run.name,
        "label": title(run),
        "n": run.n,
        "paper": paper,
        "cells": packed(_steps(values.reshape(*values.shape[:-2], 9)), "int16"),
        "undefined": packed(missing, "uint16"),
    }


def digit_board(run: MnistGridRun) -> dict[str, Any]:
    """The variants of the digit nets as a board: AttnLRP's agreement with LOO from the left and the right."""
    choices: Mapping[str, Sequence[Any]] = {**run.manifest["config"]["choices"], "map": MAPS}
    cases, means = points(choices), digit_means(run)
    printed = {row["explainer"]: row for row in paper_table("table1")}
    paper = [printed[explainer][PAIRS[pair]] for explainer, pair in MEASURES]
    right, left = means[:, 0], means[:, 1]
    shown = [bootstrap_columns(list(column)) for column in (right, left, left - right)]
    cells = np.array([[(one.mean, one.low, one.high) for one in three] for three in zip(*shown, strict=True)])
    distance = np.sqrt(((np.nanmean(means, -1) - paper) ** 2).mean(-1))
    nearest = cases[int(np.nanargmin(distance))]  # in the root mean square over `MEASURES`
    marked = {"the plainest net": cases[0], "nearest to the paper's Table 1": nearest}
    states = [{"label": label, "state": _state(run.name, at)} for label, at in marked.items()]
    packed_run = {
        "key": run.name,
        "label": f"{len(run.seeds)} nets a variant",
        "n": run.n,
        "paper": {"a": paper[1], "b": paper[0]},
        "cells": packed(_steps(cells.reshape(len(cases), 9)), "int16"),
        "undefined": packed([one.undefined for one in shown[2]], "uint16"),
    }
    return {
        "key": "digits",
        "label": "Digits",
        "a": "AttnLRP, (QKᵀ)V",
        "b": "AttnLRP, Q(KᵀV)",
        "axes": _axes(choices),
        "runs": [packed_run],
        "start": states[0]["state"],
        "presets": states,
    }


def digit_means(run: MnistGridRun) -> np.ndarray:
    """Means over nets, (variants x maps, `MEASURES`, images)."""
    cases = [(k, map) for k in range(len(run.variants)) for map in MAPS]
    means = [[defined_mean(run.values(k, *which, map=map)) for which in MEASURES] for k, map in cases]
    return np.array(means)


def _axes(choices: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [
        {
            "key": name,
            "label": AXIS_LABELS[name][0],
            "options": [{"key": _key(option), "label": AXIS_LABELS[name][1][option]} for option in options],
        }
        for name, options in choices.items()
    ]


def _state(run: str, options: Mapping[str, Any]) -> dict[str, str]:
    return {"run": run, **{name: _key(option) for name, option in options.items()}}


def _key(option: Any) -> str:
    return {True: "yes", False: "no"}[option] if isinstance(option, bool) else str(option)


def _steps(values: np.ndarray) -> np.ndarray:
    """Values in steps of 1 / SCALE: the closest step with the same two decimals as the value."""
    steps = np.where(np.isnan(values), UNDEFINED, np.round(values * SCALE))
    for place in zip(*np.nonzero(steps % 100 == 50), strict=True):
        near = (steps[place], steps[place] - 1, steps[place] + 1)
        steps[place] = next(step for step in near if f"{step / SCALE:.2f}" == f"{values[place]:.2f}")
    return steps
