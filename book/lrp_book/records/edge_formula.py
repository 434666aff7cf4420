"""What came of the predictions on the edge formula: `python -m lrp_book.records.edge_formula RUN...`.

The predictions are `results/predictions/2026-11-29-edge-formula*.md`. A RUN has their six variants, or paths
that are cut, or is a record of `results/edge-formula/make.py` (.json); rows of SST-2 that the trial saw are
left out unless `--all` is given. Of several the means over encoders are printed, too. With `--shapley` the
judge is not LOO but the Shapley values of `results/shapley`, at the words, where maps or r with them stand;
with `--curves` it is the area between the run's curves of removal.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats

from lrp_book.records import shapley
from lrp_companion.lab.load import load_run
from lrp_companion.lab.record import interval
from lrp_companion.metrics import bootstrap_mean, leverage, pearson, spearman

SEEN = {0, *(5 + 22 * k for k in range(40)), *(16 + 22 * k for k in range(40))}
"""Rows of SST-2's validation part that the trial saw."""
RECORDS = Path(__file__).parents[3] / "results"
METHODS = {
    "loo": "LOO",
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
    "rule": "the rule",
}
"""The rule is key cut; where no token is special, so that key cut is AttnLRP, keys of sinks."""
READINGS = {
    "words, Pearson": {"tokens": "no-special", "statistic": "pearson"},
    "words, rank": {"tokens": "no-special", "statistic": "spearman"},
    "all tokens, Pearson": {"tokens": "all", "statistic": "pearson"},
    "all tokens, rank": {"tokens": "all", "statistic": "spearman"},
}
PEARSON = [reading for reading in READINGS if "Pearson" in reading]
PAIRS = (
    ("key-cut", "attnlrp"),
    ("key-cut", "cp-lrp"),
    ("lrp:cut=key+sinks", "key-cut"),
    ("lrp:cut=key+all", "attnlrp"),
    ("secant-mask-gradient:special=secant", "mask-gradient"),
    ("secant-mask-gradient", "mask-gradient:groups=4"),
    ("secant-mask-gradient:special=secant:groups=4", "secant-mask-gradient:special=secant"),
    ("secant-mask-gradient:special=secant:groups=4", "mask-gradient:groups=4"),
    ("attnlrp", "secant-mask-gradient:special=secant"),
    ("secant-mask-gradient:special=secant", "loo"),
    ("cp-lrp", "attnlrp"),
    ("rule", "attnlrp"),
    ("rule", "cp-lrp"),
    ("secant-mask-gradient", "attnlrp"),
    ("secant-mask-gradient", "mask-gradient"),
)


def kept(run: Any, *, seen: bool = False) -> list[int]:
    """Rows of the run, without those that the trial saw."""
    left_out = SEEN if run.task == "sst2" and run.model == "companion" and not seen else ()
    return [example for example in run.examples.tolist() if example not in left_out]


def agreement(run: Any, *, seen: bool = False) -> xr.DataArray:
    """r with LOO (explainer x reading x example) at words + positions, of undivided maps and the logit."""
    at = {"site": "word+position", "map": "raw", "removal": "attention-mask", "target": "logit"}
    r = run.agreement([name for name in METHODS if name in run.methods and name != "loo"]).sel(at, drop=True)
    readings = [r.sel(reading, drop=True) for reading in READINGS.values()]
    whole = xr.concat(readings, xr.Variable("reading", list(READINGS)))
    return whole.sel(example=kept(run, seen=seen))


def with_shapley(run: Any, *, seen: bool = False) -> xr.DataArray:
    """r with Shapley values (explainer x reading x example) at the words, for the texts that both have."""
    of_task = "" if run.task == "sst2" else f"{run.task}-"
    record = shapley.read(RECORDS / "shapley" / f"{of_task}{Path(run.model).name}.npz")
    judge = {text["example"]: text for text in record}
    rows = [k for k, row in enumerate(run.examples.tolist()) if row in judge and row in kept(run, seen=seen)]
    names, examples = [name for name in METHODS if name in run.methods], run.examples[rows]
    r = np.empty((len(names), 2, len(rows)))
    for n, name in enumerate(names):
        maps = run.loo() if name == "loo" else run.maps(name, site="word+position")
        for place, k in enumerate(rows):
            text = judge[int(run.examples[k])]
            of = maps[k][~text["special"]], text["shapley"][~text["special"]]
            r[n, :, place] = [f(*of) if len(of[0]) > 1 else np.nan for f in (pearson, spearman)]
    readings = [reading for reading in READINGS if "words" in reading]
    axes = {"explainer": names, "reading": readings, "example": examples}
    return xr.DataArray(r, axes, list(axes))


def separation(run: Any, *, seen: bool = False) -> xr.DataArray:
    """LeRF minus MoRF (explainer x reading x example), in logits, where a run has curves."""
    names = [name for name in METHODS if name in run.methods]
    areas = [[run.column(name, "lerf") - run.column(name, "morf")] for name in names]
    axes = {"explainer": names, "reading": ["LeRF - MoRF"], "example": run.examples}
    return xr.DataArray(np.array(areas, float), axes, list(axes)).sel(example=kept(run, seen=seen))


def of_record(path: str, judge: str = "r") -> tuple[str, list[xr.DataArray]]:
    """The encoder of a record of `results/edge-formula/make.py`, and r of each training in it."""
    made = json.loads(Path(path).read_text(encoding="utf-8"))
    every = []
    for one in (one for one in made.values() if isinstance(one, dict) and judge in one):
        r = np.array(list(one[judge].values()), float)
        readings = list(READINGS)[: r.shape[-1]]
        axes = {"explainer": list(one[judge]), "example": one["examples"], "reading": readings}
        every.append(xr.DataArray(r, axes, list(axes)))
    return made["encoder"], every


def with_rule(r: xr.DataArray) -> xr.DataArray:
    """With the rule as one more explainer."""
    if "key-cut" not in r.explainer or len(r.reading) < len(READINGS):
        return r
    key_cut = r.sel(explainer="key-cut", drop=True)
    gap = abs(key_cut - r.sel(explainer="attnlrp", drop=True)).sel(reading=PEARSON)
    same = float(gap.max()) < 1e-3  # ranks of nearly equal scores differ between devices
    rule = r.sel(explainer="lrp:cut=key+sinks", drop=True) if same else key_cut
    return xr.concat([r, rule.assign_coords(explainer="rule")], "explainer")


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


def of_planted(path: str) -> None:
    """Print how often all planted words have the largest scores, and paired differences."""
    made = json.loads(Path(path).read_text(encoding="utf-8"))
    for wiring, rules in ((name, one["on top"]) for name, one in made.items() if "on top" in one):
        for rule, of in rules.items():
            print(f"\n{wiring}, {rule}: {len(of['loo'])} sentences")
            print("; ".join(f"{METHODS[name]} {np.mean(top):.3f}" for name, top in of.items()))
            for one, other in PAIRS:
                if {one, other} <= set(of):
                    lead = np.array(of[one], float) - np.array(of[other])
                    print(f"    {METHODS[one]} - {METHODS[other]}: {bootstrap_mean(lead)}")


def main(*arguments: str) -> None:
    """Print means, shares and paired differences of each run, and their means over encoders."""
    folders = [one for one in arguments if not one.startswith("--")]
    leads: dict[tuple[str, str], dict[str, list[np.ndarray]]] = {}
    for folder in folders:
        if folder.endswith("planted.json"):
            of_planted(folder)
            continue
        run: Any = None if folder.endswith(".json") else load_run(folder)
        if run:
            judges = {"--shapley": with_shapley, "--curves": separation}
            judge = next((of for name, of in judges.items() if name in arguments), agreement)
            encoder = Path(run.model).name
            parts = [judge(run, seen="--all" in arguments)]
        else:
            encoder, parts = of_record(folder, "r with Shapley" if "--shapley" in arguments else "r")
        parts = [with_rule(r) for r in parts]
        for number, r in enumerate(parts):
            rows = r.example.values.tolist()
            print(f"\n{folder}: {encoder}, {number}, {len(rows)} examples")
            readings = r.reading.values.tolist()
            for name in r.explainer.values.tolist():
                means = [interval(r.sel(explainer=name, reading=reading).values).mean for reading in readings]
                found = standing(run, name, rows) if run and name not in ("loo", "rule") else {}
                shares = ", ".join(f"{key} {value:.0%}" for key, value in found.items())
                print(f"{METHODS[name]:30s}", *(f"{value:6.3f}" for value in means), " ", shares)
        r = parts[0] if run else xr.concat(parts, "training", join="exact").mean("training")
        for one, other in PAIRS:
            if {one, other} <= set(r.explainer.values.tolist()):
                lead = r.sel(explainer=one) - r.sel(explainer=other)
                print(f"{METHODS[one]} - {METHODS[other]}")
                for reading in readings:
                    print(f"    {reading:22s}", interval(lead.sel(reading=reading).values))
                of_pair = leads.setdefault((one, other), {}).setdefault(encoder, [])
                of_pair.append(lead.transpose("reading", ...).mean("example").values)
    for (one, other), by_encoder in ((pair, of) for pair, of in leads.items() if len(of) > 1):
        each = np.array([np.mean(trainings, 0) for trainings in by_encoder.values()])  # encoder x reading
        print(f"\n{METHODS[one]} - {METHODS[other]}, over {', '.join(by_encoder)}")
        half = stats.t.ppf(0.975, len(each) - 1) * stats.sem(each, axis=0)
        for k, reading in enumerate(readings):
            middle = each[:, k].mean()
            ends = f"[{middle - half[k]:.3f}, {middle + half[k]:.3f}]"
            print(f"    {reading:22s} {middle:.3f} {ends}, {(each[:, k] > 0).sum()} of {len(each)} above 0")


if __name__ == "__main__":
    main(*sys.argv[1:])
