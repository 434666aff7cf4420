"""How far Table 1 depends on what the paper leaves open about its MNIST nets. From the records of
`run mnist-grid`; no torch.

A *variant* is one combination of biases, positions, an embedding, read-out and scale. Means are over images
of the mean over nets (seeds); intervals are 95 % percentile bootstrap intervals over images, with the same
draws for every variant.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lrp_companion.analysis.paper import paper_table
from lrp_companion.analysis.protocol_grid import Row, variance_shares
from lrp_companion.metrics import Interval, bootstrap_mean
from lrp_companion.metrics.statistics import limits, resampled
from lrp_companion.runs.load import MnistGridRun
from lrp_companion.schema import InputError, choose

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
"""What is measured under each variant: explainer and pair of maps."""
PRINTED = {"left-right": "left_vs_right", "left-LOO": "left_vs_loo", "right-LOO": "right_vs_loo"}
ACCURACY = 0.85  # of the paper's nets (appendix B.1.1)


def paper_values() -> dict[str, float]:
    """The paper's Table 1 for what `MEASURES` names."""
    rows = {row["explainer"]: row for row in paper_table("table1")}
    return {name: rows[explainer][PRINTED[pair]] for name, (explainer, pair) in MEASURES.items()}


def digit_grid(run: MnistGridRun) -> list[Row]:
    """One row per variant and map: the choices, the nets' accuracy, and agreement as intervals.

    Returns
    -------
    list
        Rows with `variant` (its number), the choices, `map`, `accuracy` (mean, smallest, largest over nets),
        each of `MEASURES` as an interval, `difference` (left minus right with LOO, paired), `negative` (share of
        AttnLRP's maps from the left with a negative sum), `nets`, `n`.

    Raises
    ------
    InputError : no run over variants, or no seed is finished for all of them.
    """
    _needs_grid("digit_grid", run)
    memory = run.__dict__.setdefault("_digit_grid", [])
    if not memory:
        columns = np.stack(
            [
                _values(run, k, name, map)
                for k in range(len(run.variants))
                for map in MAPS_COMPARED
                for name in MEASURES
            ],
            1,
        )
        paired = columns[:, 1 :: len(MEASURES)] - columns[:, 2 :: len(MEASURES)]
        cells, differences = _intervals(columns), _intervals(paired)
        for k, variant in enumerate(run.variants):
            accuracy = run.accuracy(k)
            for m, map in enumerate(MAPS_COMPARED):
                at = len(MAPS_COMPARED) * k + m
                own = dict(zip(MEASURES, cells[len(MEASURES) * at : len(MEASURES) * (at + 1)], strict=True))
                memory.append(
                    {
                        "variant": k, **variant, "map": map,
                        "accuracy": (float(accuracy.mean()), float(accuracy.min()), float(accuracy.max())),
                        **own, "difference": differences[at],
                        "negative": float(run.negative(k, "AttnLRP", "left").mean()), "nets": len(run.seeds),
                        "n": run.n,
                    }
                )  # fmt: skip
    return list(memory)


def digit_choices(run: MnistGridRun, what: str = "AttnLRP, left with LOO") -> list[Row]:
    """What moves a mean r most: shares of its variance over all variants and maps (see
    `cells.variance_shares`).

    Returns
    -------
    list
        Rows `choices`, `squares`, `share`, largest first within an order; `lowest` and `highest` mean over
        the options of a single choice.
    """
    choose("digit_choices", "what", what, (*MEASURES, "difference"))
    choices = {**run.manifest["config"]["choices"], "map": MAPS_COMPARED}
    means = np.array([row[what].mean for row in digit_grid(run)]).reshape(tuple(map(len, choices.values())))
    names = [name for name, options in choices.items() if len(options) > 1]
    rows = variance_shares(means.squeeze(), names)
    for row in rows:
        if len(row["choices"]) == 1 and row["choices"][0] in names:
            axis = names.index(row["choices"][0])
            levels = np.moveaxis(means.squeeze(), axis, 0).reshape(len(choices[names[axis]]), -1).mean(1)
            row |= {"levels": dict(zip(choices[names[axis]], levels.tolist(), strict=True))}
    return rows


def digit_signs(run: MnistGridRun) -> list[Row]:
    """Whether a negative sum explains what sum-to-one does: r from the left with LOO where both sums are
    positive, and where one is not.

    Returns
    -------
    list
        A row per variant: `raw`, `sum to one` (means over all images), `both positive` and
        `not both positive` (means of the sum-to-one r over images with their number, all nets together; None
        where there is none).
    """
    _needs_grid("digit_signs", run)
    out = []
    for k, variant in enumerate(run.variants):
        raw, one = (run.values(k, "AttnLRP", "left-LOO", map=map) for map in MAPS_COMPARED)
        good = ~run.negative(k, "AttnLRP", "left") & ~run.negative(k, "LOO", "right")
        parts = {name: one[where] for name, where in (("both positive", good), ("not both positive", ~good))}
        out.append(
            {
                "variant": k, **variant, "raw": bootstrap_mean(_mean(raw)),
                "sum to one": bootstrap_mean(_mean(one)),
                **{name: (float(np.nanmean(own)), own.size) if own.size else None for name,
                    own in parts.items()},
            }
        )  # fmt: skip
    return out


def digit_nearest(run: MnistGridRun) -> Row:
    """The variants whose nets reach the paper's accuracy, and the row of `digit_grid` nearest to the paper's
    Table 1.

    Nearest in the root mean square over `MEASURES`. `within` counts variants with an accuracy within one point
    of the paper's.
    """
    rows, printed = digit_grid(run), paper_values()
    distance = [
        float(np.sqrt(np.mean([(row[name].mean - printed[name]) ** 2 for name in MEASURES]))) for row in rows
    ]
    best = int(np.nanargmin(distance))
    means = [row["accuracy"][0] for row in rows[:: len(MAPS_COMPARED)]]
    return {
        "paper accuracy": ACCURACY, "variants": len(means),
        "reached": sum(mean >= ACCURACY for mean in means),
        "within": sum(abs(mean - ACCURACY) <= 0.01 for mean in means), "lowest": min(means),
        "highest": max(means),
        "nearest": rows[best], "distance": distance[best], "paper": printed,
    }  # fmt: skip


def digit_ranges(run: MnistGridRun) -> list[Row]:
    """The lowest and the highest mean r over variants: all of them, and those whose nets reach the paper's
    accuracy, by map.

    Returns
    -------
    list
        Rows `map`, `which` ("all" or "reach"), `variants` (how many), `accuracy` and each of `MEASURES` as
        (lowest, highest), all None where there is no variant.
    """
    out = []
    for map in MAPS_COMPARED:
        rows = [row for row in digit_grid(run) if row["map"] == map]
        for which, own in (("all", rows), ("reach", [row for row in rows if row["accuracy"][0] >= ACCURACY])):
            ranges = {name: [row[name].mean for row in own] for name in MEASURES} | {
                "accuracy": [row["accuracy"][0] for row in own]
            }
            out.append(
                {
                    "map": map, "which": which, "variants": len(own),
                    **{name: (min(values), max(values)) if values else None for name,
                        values in ranges.items()},
                }
            )  # fmt: skip
    return out


def digit_ig(run: MnistGridRun) -> list[Row]:
    """IG by baseline and number of steps: `r` with LOO as an interval over images, and the largest
    convergence `delta`; per variant.
    """
    _needs_grid("digit_ig", run)
    rows = run.ig()
    out = []
    for key in dict.fromkeys((row["variant"], row["baseline"], row["n_steps"]) for row in rows):
        own = [row for row in rows if (row["variant"], row["baseline"], row["n_steps"]) == key]
        images = sorted({row["image"] for row in own})
        means = [np.nanmean([row["r"] for row in own if row["image"] == image]) for image in images]
        variant, baseline, steps = key
        axes = {"variant": variant, **run.variants[variant], "baseline": baseline, "n_steps": steps}
        out.append(
            {
                **axes,
                "r": bootstrap_mean(means),
                "delta": max(row["delta"] for row in own),
                "nets": len({row["seed"] for row in own}),
            }
        )
    return out


def _values(run: MnistGridRun, variant: int, name: str, map: str) -> np.ndarray:
    """A number per image: the mean over nets."""
    explainer, pair = MEASURES[name]
    return _mean(run.values(variant, explainer, pair, map=map))


def _mean(values: np.ndarray) -> np.ndarray:
    """Over nets, of those with a value; NaN where none has one."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.where(known, values, 0.0).sum(0) / known.sum(0)


def _intervals(columns: np.ndarray) -> list[Interval]:
    mean, draws, defined = resampled(columns)
    low, high = limits(draws)
    return [
        Interval(float(m), float(a), float(b), int(n), len(columns) - int(n))
        for m, a, b, n in zip(mean, low, high, defined, strict=True)
    ]


def _needs_grid(operation: str, run: Any) -> None:
    if not isinstance(run, MnistGridRun):
        got = f"{getattr(run, 'name', run)!r}, no run over variants"
        raise InputError(
            operation,
            got=got,
            expected="a run of mnist-grid",
            hint="make one with lrp-companion run mnist-grid",
        )
    if not run.seeds:
        raise InputError(
            operation,
            got=f"{run.name}, no seed finished",
            expected="all variants of one seed",
            hint="let the run go on",
        )
