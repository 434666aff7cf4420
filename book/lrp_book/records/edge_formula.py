"""What came of the prediction on the edge formula: `python -m lrp_book.records.edge_formula RUN...`.

The prediction is `results/predictions/2026-11-29-edge-formula.md`. A run has its six variants, or paths that
are cut; rows of SST-2 that the trial saw are left out unless `--all` is given. Of several runs the means over
encoders are printed, too; of the base size the record of its trainings is read, `base.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats

from lrp_companion.lab.load import load_run
from lrp_companion.lab.record import interval
from lrp_companion.metrics import leverage

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
    "lrp:cut=query+all": "all queries",
    "both-cut": "all keys and queries",
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


def kept(run: Any, *, seen: bool = False) -> list[int]:
    """Rows of the run, without those that the trial saw."""
    left_out = SEEN if run.task == "sst2" and run.model == "companion" and not seen else ()
    return [example for example in run.examples.tolist() if example not in left_out]


def agreement(run: Any, *, seen: bool = False) -> xr.DataArray:
    """r with LOO (explainer x reading x example) at words + positions, of undivided maps and the logit."""
    at = {"site": "word+position", "map": "raw", "removal": "attention-mask", "target": "logit"}
    r = run.agreement([name for name in METHODS if name in run.methods]).sel(at, drop=True)
    readings = [r.sel(reading, drop=True) for reading in READINGS.values()]
    whole = xr.concat(readings, xr.Variable("reading", list(READINGS)))
    return whole.sel(example=kept(run, seen=seen))


def of_base(path: str) -> list[xr.DataArray]:
    """The same of each training in the record that `results/edge-formula/base.py` makes."""
    made = json.loads(Path(path).read_text(encoding="utf-8"))
    trainings = [made[name] for name in made if name.startswith("sst2-")]
    return [
        xr.DataArray(
            np.array(list(one["r"].values()), float),
            {"explainer": list(one["r"]), "example": one["examples"], "reading": list(READINGS)},
            ["explainer", "example", "reading"],
        )
        for one in trainings
    ]


def standing(run: Any, name: str, rows: list[int]) -> dict[str, float]:
    """In which share of the rows a map has a negative sum, and with maps `[CLS]` is far out (|u| > 1)."""
    chosen = np.isin(run.examples, rows)
    sums = run.sums(name).sel(site="word+position", tokens="all", target="logit").values[chosen]
    out = {"negative": float(np.mean(sums[~np.isnan(sums)] < 0))}
    if run.manifest["config"].get("maps"):
        pairs = zip(run.maps(name, site="word+position"), run.loo(), strict=True)
        u = np.array([leverage(one, loo, 0)[0] for one, loo in pairs])
        out["far out"] = float((np.abs(u[chosen]) > 1).mean())
    return out


def main(*arguments: str) -> None:
    """Print means, shares and paired differences of each run, and their means over encoders."""
    folders = [one for one in arguments if not one.startswith("--")]
    leads: dict[tuple[str, str], dict[str, list[np.ndarray]]] = {}
    for folder in folders:
        run: Any = None if folder.endswith(".json") else load_run(folder)
        encoder = Path(run.model).name if run else "MPNet"
        parts = [agreement(run, seen="--all" in arguments)] if run else of_base(folder)
        for number, r in enumerate(parts):
            rows = r.example.values.tolist()
            print(f"\n{folder}: {encoder}, {number}, {len(rows)} examples")
            for name in r.explainer.values.tolist():
                means = [interval(r.sel(explainer=name, reading=reading).values).mean for reading in READINGS]
                found = standing(run, name, rows) if run else {}
                shares = ", ".join(f"{key} {value:.0%}" for key, value in found.items())
                print(f"{METHODS[name]:30s}", *(f"{value:6.3f}" for value in means), " ", shares)
        r = parts[0] if run else xr.concat(parts, "training", join="exact").mean("training")
        for one, other in PAIRS:
            if {one, other} <= set(r.explainer.values.tolist()):
                lead = r.sel(explainer=one) - r.sel(explainer=other)
                print(f"{METHODS[one]} - {METHODS[other]}")
                for reading in READINGS:
                    print(f"    {reading:22s}", interval(lead.sel(reading=reading).values))
                of_pair = leads.setdefault((one, other), {}).setdefault(encoder, [])
                of_pair.append(lead.transpose("reading", ...).mean("example").values)
    for (one, other), by_encoder in ((pair, of) for pair, of in leads.items() if len(of) > 1):
        each = np.array([np.mean(trainings, 0) for trainings in by_encoder.values()])  # encoder x reading
        print(f"\n{METHODS[one]} - {METHODS[other]}, over {', '.join(by_encoder)}")
        half = stats.t.ppf(0.975, len(each) - 1) * stats.sem(each, axis=0)
        for k, reading in enumerate(READINGS):
            middle = each[:, k].mean()
            ends = f"[{middle - half[k]:.3f}, {middle + half[k]:.3f}]"
            print(f"    {reading:22s} {middle:.3f} {ends}, {(each[:, k] > 0).sum()} of {len(each)} above 0")


if __name__ == "__main__":
    main(*sys.argv[1:])
