"""What came of the prediction on the edge formula: `python -m lrp_book.records.edge_formula RUN`.

The prediction is `results/predictions/2026-11-29-edge-formula.md`. A run has its six variants; rows
that the trial saw are left out unless `--all` is given.
"""

from __future__ import annotations

import sys
from typing import Any

import xarray as xr

from lrp_companion.lab.labelled import mean, r_with_loo
from lrp_companion.lab.load import load_run

SEEN = {0, *(5 + 22 * k for k in range(40)), *(16 + 22 * k for k in range(40))}
"""Rows of SST-2's validation part that the trial saw."""
METHODS = {
    "attnlrp": "AttnLRP",
    "cp-lrp": "CP-LRP",
    "key-cut": "key cut",
    "lrp:cut=key+sinks": "keys of sinks",
    "lrp:cut=key+all": "all keys",
    "mask-gradient": "mask gradient",
    "secant-mask-gradient:special=secant": "secant",
    "secant-mask-gradient": "secant, special tokens exact",
    "secant-mask-gradient:special=secant:groups=4": "secant, 4 groups",
    "mask-gradient:groups=4": "mask gradient, 4 groups",
}
READINGS = {
    "words, Pearson": {"tokens": "no-special", "statistic": "pearson"},
    "words, rank": {"tokens": "no-special", "statistic": "spearman"},
    "all tokens, Pearson": {"tokens": "all", "statistic": "pearson"},
    "all tokens, rank": {"tokens": "all", "statistic": "spearman"},
}
PAIRS = (
    ("key-cut", "attnlrp"),
    ("key-cut", "cp-lrp"),
    ("lrp:cut=key+sinks", "key-cut"),
    ("lrp:cut=key+all", "attnlrp"),
    ("secant-mask-gradient:special=secant", "mask-gradient"),
    ("secant-mask-gradient", "mask-gradient:groups=4"),
    ("secant-mask-gradient:special=secant:groups=4", "secant-mask-gradient:special=secant"),
)


def agreement(folder: str, *, seen: bool = False) -> xr.DataArray:
    """r with LOO (explainer x reading x example) at words + positions, of undivided maps and the logit."""
    run: Any = load_run(folder)
    at = {"site": "word+position", "map": "raw", "removal": "attention-mask", "target": "logit"}
    r = r_with_loo(run, list(METHODS), **at)
    kept = [example for example in r.example.values if seen or example not in SEEN]
    readings = [r.sel(reading, drop=True) for reading in READINGS.values()]
    return xr.concat(readings, xr.Variable("reading", list(READINGS))).sel(example=kept)


def main(folder: str, *options: str) -> None:
    """Print means, paired differences, and how many maps have a negative sum."""
    r = agreement(folder, seen="--all" in options)
    print(f"{folder}: {r.sizes['example']} examples")
    for name, label in METHODS.items():
        means = [mean(r.sel(explainer=name, reading=reading)).mean for reading in READINGS]
        print(f"{label:30s}", *(f"{value:6.3f}" for value in means))
    for one, other in PAIRS:
        lead = r.sel(explainer=one) - r.sel(explainer=other)
        print(f"{METHODS[one]} - {METHODS[other]}")
        for reading in READINGS:
            print(f"    {reading:22s}", mean(lead.sel(reading=reading)))


if __name__ == "__main__":
    main(*sys.argv[1:])
