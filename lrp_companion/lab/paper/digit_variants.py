"""How far Table 1 depends on what the paper leaves open about its MNIST nets. No torch.

The records are those of `run mnist-grid`.

A *variant* is one combination of biases, positions, an embedding, read-out and scale. Means are over images
of the mean over nets (seeds); intervals are 95 % percentile bootstrap intervals over images, with the same
draws for every variant.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lrp_companion.checks import InputError
from lrp_companion.lab.load import MnistGridRun
from lrp_companion.lab.paper.protocol_grid import Row
from lrp_companion.lab.paper.published import paper_table
from lrp_companion.lab.paper.tables import PAIRS
from lrp_companion.metrics import bootstrap_mean
from lrp_companion.metrics.statistics import bootstrap_columns

MAPS_COMPARED = ("raw", "sum-to-one")
VARIANT_LABELS: dict[str, tuple[str, dict[Any, str]]] = {
    "bias": ("biases", {False: "no", True: "yes"}),
    "position_embedding": ("position embedding", {False: "no", True: "yes"}),
    "embedding": ("pixel to Q, K, V", {False: "directly", True: "through an embedding"}),
    "readout": ("read-out", {"all": "all positions", "mean": "their mean"}),
    "scaled": ("scores", {True: "divided by √d", False: "not divided"}),
    "map": ("map", {"raw": "raw", "sum-to-one": "sum to one"}),
}
"""Each choice and its options in words."""
MEASURES = {
    "AttnLRP, left with right": ("AttnLRP", "left-right"),
    "AttnLRP, left with LOO": ("AttnLRP", "left-LOO"),
    "AttnLRP, right with LOO": ("AttnLRP", "right-LOO"),
    "IG with LOO": ("IG", "left-LOO"),
}
"""The measurements of each variant: explainer and pair of maps."""
ACCURACY = 0.85  # of the paper's nets (appendix B.1.1)


def paper_values() -> dict[str, float]:
    """The paper's Table 1 for `MEASURES`, by the product that a run computes."""
    rows = {row["explainer"]: row for row in paper_table("table1")}
    return {name: rows[explainer][PAIRS[pair]] for name, (explainer, pair) in MEASURES.items()}


def digit_grid(run: MnistGridRun) -> list[Row]:
    """One row per variant and map: the choices, the nets' accuracy, and agreement as intervals.

    Returns
    -------
    list
        Rows with `variant` (its number), the choices, `map`, `accuracy` (mean, smallest, largest over nets),
        each of `MEASURES` as an interval, `difference` (left minus right with LOO, paired), `negative` (share
        of AttnLRP's maps from the left with a negative sum), `nets`, `n`.

    Raises
    ------
    InputError : no run over variants, or no seed is finished for all of them.
    """
    needs_grid("digit_grid", run)
    return list(run.once("digit grid", lambda: _digit_grid(run)))


def _digit_grid(run: MnistGridRun) -> list[Row]:
    cases = [(k, map) for k in range(len(run.variants)) for map in MAPS_COMPARED]
    columns = np.stack([_values(run, k, name, map) for k, map in cases for name in MEASURES], 1)
    paired = columns[:, 1 :: len(MEASURES)] - columns[:, 2 :: len(MEASURES)]
    cells, differences = bootstrap_columns(list(columns.T)), bootstrap_columns(list(paired.T))
    rows = []
    for at, (k, map) in enumerate(cases):
        accuracy, negative = run.accuracy(k), run.negative(k, "AttnLRP", "left")
        row: Row = {"variant": k, **run.variants[k], "map": map}
        row["accuracy"] = float(accuracy.mean()), float(accuracy.min()), float(accuracy.max())
        row |= zip(MEASURES, cells[len(MEASURES) * at : len(MEASURES) * (at + 1)], strict=True)
        row |= {"difference": differences[at], "negative": float(negative.mean())}
        rows.append({**row, "nets": len(run.seeds), "n": run.n})
    return rows


def digit_nearest(run: MnistGridRun) -> Row:
    """The row of `digit_grid` closest to the paper's Table 1, and how many variants reach its accuracy.

    Closest in the root mean square over `MEASURES`. `within` counts variants with an accuracy within one
    point of the paper's.
    """
    rows, printed = digit_grid(run), paper_values()
    distance = [
        float(np.sqrt(np.mean([(row[name].mean - printed[name]) ** 2 for name in MEASURES]))) for row in rows
    ]
    best = int(np.nanargmin(distance))
    means = [row["accuracy"][0] for row in rows[:: len(MAPS_COMPARED)]]
    return {
        "paper accuracy": ACCURACY,
        "variants": len(means),
        "reached": sum(mean >= ACCURACY for mean in means),
        "within": sum(abs(mean - ACCURACY) <= 0.01 for mean in means),
        "lowest": min(means),
        "highest": max(means),
        "nearest": rows[best],
        "distance": distance[best],
        "paper": printed,
    }


def digit_ig(run: MnistGridRun) -> list[Row]:
    """IG by variant, baseline and number of steps.

    Returns
    -------
    list
        Rows `variant`, the choices, `baseline`, `n_steps`, `r` with LOO (an interval over images), `delta`
        (the largest convergence delta), `nets`.
    """
    needs_grid("digit_ig", run)
    by_case: dict[tuple, list[Row]] = {}
    for row in run.ig():
        by_case.setdefault((row["variant"], row["baseline"], row["n_steps"]), []).append(row)
    out = []
    for (variant, baseline, steps), rows in by_case.items():
        images = sorted({row["image"] for row in rows})
        means = [np.nanmean([row["r"] for row in rows if row["image"] == image]) for image in images]
        case = {"variant": variant, **run.variants[variant], "baseline": baseline, "n_steps": steps}
        delta, nets = max(row["delta"] for row in rows), len({row["seed"] for row in rows})
        out.append({**case, "r": bootstrap_mean(means), "delta": delta, "nets": nets})
    return out


def _values(run: MnistGridRun, variant: int, name: str, map: str) -> np.ndarray:
    """A number per image: the mean over nets."""
    explainer, pair = MEASURES[name]
    return mean_of_nets(run.values(variant, explainer, pair, map=map))


def mean_of_nets(values: np.ndarray) -> np.ndarray:
    """The mean over the nets with a value; NaN if none has one."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.where(known, values, 0.0).sum(0) / known.sum(0)


def needs_grid(operation: str, run: Any) -> None:
    if not isinstance(run, MnistGridRun):
        got = f"{getattr(run, 'name', run)!r}, no run over variants"
        hint = "make one with lrp-companion run mnist-grid"
        raise InputError(operation, got=got, expected="a run of mnist-grid", hint=hint)
    if not run.seeds:
        got, expected = f"{run.name}, no seed finished", "all variants of one seed"
        raise InputError(operation, got=got, expected=expected, hint="let the run go on")
