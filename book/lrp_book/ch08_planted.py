"""Chapter 8's planted reasons: which method puts first the words that are known to decide? No torch.

The records are those of `records.planted`. The prediction is in `results/predictions/2026-11-26-planted.md`;
`outcomes` judges its points 1 to 12 by the rule that is written there, `without_teacher` the last one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr

from lrp_book.ch08_wirings import STATISTIC, WIRINGS, gap, load_wirings, r_at
from lrp_book.predictions import outcome
from lrp_companion.checks import InputError, SourceError, choose
from lrp_companion.lab.labelled import mean
from lrp_companion.lab.load import TextRun, load_runs, nearby
from lrp_companion.metrics import Interval
from lrp_companion.registry import label_of
from lrp_companion.show.canvas import LOOK, Drawing, drawing, headline
from lrp_companion.show.palette import INK, MARKERS, SPARE
from lrp_companion.show.tables import Table, table

RULES: Mapping[str, int] = {"shortcut": 1, "redundant": 2, "conjunction": 2, "negator": 1}
"""How many words each rule plants."""
NUMBERS = ("first", "top", "top by size", "share", "decoy first")
"""Of one map, 1 or 0 but `share`: a planted word has the largest score of the words; the planted words have
the largest scores, or |scores|; a planted word's score over the sum of |scores| of the words, the mean of a
pair; a decoy has the largest score."""
LABELS = {
    "loo:removal=delete": "LOO, deletion",
    "loo:removal=mask-token": "LOO, [MASK]",
    "mask-gradient:groups=8": "mask gradient, 8 groups",
    "shapley:exact=0:permutations=16": "Shapley",
    "ig:n_steps=20": "IG",
    "rollout:residual=true": "rollout with identity",
}
SHAPLEY = "shapley:exact=0:permutations=16"
SHOWN = (
    "loo",
    "mask-gradient",
    "mask-gradient:groups=8",
    SHAPLEY,
    "ig:n_steps=20",
    "attnlrp",
    "cp-lrp",
    "pa-lrp",
    "gradient-x-input",
    "rollout:residual=true",
    "rollout",
)


@dataclass(frozen=True)
class Judged:
    """One training.

    Attributes
    ----------
    wiring, seed : of the training.
    followed : share of held-out sentences that follow each case, by `training/train_planted.py`.
    values : axes rule, explainer, number (`NUMBERS`) and example; NaN where the rule is not followed.
    logits : by rule (n, texts), the logit of the class that the planted words decide; all of them first, none
        last; only where the network follows the rule.
    """

    wiring: str
    seed: int
    followed: Mapping[str, Mapping[str, float]]
    values: xr.DataArray
    logits: Mapping[str, np.ndarray]

    def mean(self, rule: str, explainer: str, number: str) -> float:
        """Mean over the sentences that count."""
        return float(self.values.sel(rule=rule, explainer=explainer, number=number).mean("example"))


def load_planted(folder: str | os.PathLike[str] = "results/planted") -> dict[str, list[Judged]]:
    """Trainings by wiring in the order of `WIRINGS`, by seed."""
    place = nearby(folder)
    out: dict[str, list[Judged]] = {name: [] for name in WIRINGS}
    for path in sorted(place.glob("*.json")):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        with np.load(path.with_suffix(".npz")) as arrays:
            out[manifest["wiring"]].append(judged_of(manifest, dict(arrays), seed=int(path.stem[-1])))
    if not any(out.values()):
        hint = "make them with lrp_book.records.planted"
        raise SourceError("load_planted", got=f"no record in {folder}", expected="NAME.json, .npz", hint=hint)
    return {name: trainings for name, trainings in out.items() if trainings}


def judged_of(manifest: Mapping[str, Any], arrays: Mapping[str, np.ndarray], *, seed: int) -> Judged:
    """A training from its record."""
    lacking = [rule for rule in RULES if f"{rule} share" not in arrays]
    if lacking:
        got, hint = f"a record without {', '.join(lacking)}", "make it again with lrp_book.records.planted"
        raise InputError("judged_of", got=got, expected="a record of every rule", hint=hint)
    methods, logits = manifest["methods"], {}
    shape = (len(RULES), len(methods), len(NUMBERS), len(arrays["example"]))
    values = np.full(shape, np.nan)
    for number, (rule, planted) in enumerate(RULES.items()):
        counts = arrays[f"{rule} follows"]
        signed, size, share = (arrays[f"{rule} {key}"] for key in ("signed", "size", "share"))
        here, decoys = signed[..., :planted], signed[..., planted:]
        of_rule = (
            (here == 1).any(-1),
            (here <= planted).all(-1),
            (size[..., :planted] <= planted).all(-1),
            share[..., :planted].astype(np.float64).mean(-1),
            (decoys == 1).any(-1),
        )
        values[number][..., counts] = np.stack(of_rule, 1)
        against = 1 - arrays["label"][counts].astype(int)
        logits[rule] = arrays[f"{rule} logits"][counts][np.arange(counts.sum()), :, against]
    coords = {
        "rule": list(RULES),
        "explainer": methods,
        "number": list(NUMBERS),
        "example": arrays["example"].tolist(),
    }
    named = xr.DataArray(values, coords, list(coords), name="planted")
    return Judged(manifest["wiring"], seed, manifest["followed"], named, logits)


def over_seeds(trainings: Sequence[Judged]) -> xr.DataArray:
    """The values of several trainings of a wiring, with an axis training."""
    names = [f"seed {one.seed}" for one in trainings]
    together = xr.concat([one.values for one in trainings], "training", join="exact")
    return together.assign_coords(training=names)


def name_of(explainer: str) -> str:
    """A method as tables and figures print it."""
    return LABELS.get(explainer) or label_of(explainer)


def means(trainings: Sequence[Judged], number: str) -> xr.DataArray:
    """The mean of one of `NUMBERS` over the trainings of a wiring; shares of sentences within 0 to 1.

    Cut off where no share can be, an interval covers as often as before.
    """
    found = mean(over_seeds(trainings).sel(number=number))
    if number == "share":
        return found
    cut = [replace(one, low=max(one.low, 0.0), high=min(one.high, 1.0)) for one in found.values.ravel()]
    return found.copy(data=np.array(cut, dtype=object).reshape(found.shape))


def planted_table(groups: Mapping[str, Sequence[Judged]], number: str = "top", *, caption: str) -> Table:
    """Mean of one of `NUMBERS` by method, wiring and rule."""
    choose("planted_table", "number", number, NUMBERS)
    rows = []
    every = {wiring: means(group, number) for wiring, group in groups.items()}
    for explainer in SHOWN:
        row: dict[str, Any] = {"method": name_of(explainer)}
        for wiring, of_wiring in every.items():
            cells = of_wiring.sel(explainer=explainer)
            row |= {f"{wiring} {rule}": replace(cells.sel(rule=rule).item(), undefined=0) for rule in RULES}
        rows.append(row)
    columns = {"method": "method"} | {f"{wiring} {rule}": rule for wiring in every for rule in RULES}
    spans = {WIRINGS[wiring]["wiring"]: [f"{wiring} {rule}" for rule in RULES] for wiring in every}
    return table(rows, columns=columns, caption=caption, groups=spans)


def followed_table(groups: Mapping[str, Sequence[Judged]], *, caption: str) -> Table:
    """How often each rule is followed, and in how many sentences the planted words are known to decide.

    Ranges are over trainings.
    """
    rows = []
    for wiring, group in groups.items():
        for rule in RULES:
            turned = [one.followed[rule]["as alone" if rule == "negator" else "label"] for one in group]
            row = {"wiring": WIRINGS[wiring]["wiring"], "rule": rule, "rule followed": _range(turned, ".3f")}
            decoys = [one.followed["decoys"]["as alone"] for one in group]
            row |= {"decoys change nothing": _range(decoys, ".3f")}
            row |= {"sentences that count": _range([counted(one, rule) for one in group], "d")}
            rows.append(row | {"logit of one word, of none (0) to both (1)": _second(rule, group)})
    return table(rows, caption=caption)


def counted(one: Judged, rule: str) -> int:
    """In how many sentences the network follows the rule, so that the planted words are known to decide."""
    return int(one.values.sel(rule=rule).notnull().any(("explainer", "number")).sum())


def on_top_by_rule(trainings: Sequence[Judged], explainer: str) -> list[float]:
    """The share of sentences with all planted words on top, mean over trainings, rule by rule."""
    return [float(np.mean([one.mean(rule, explainer, "top") for one in trainings])) for rule in RULES]


def of_one(rule: str, one: Judged) -> float:
    """Where the logit with one word of a pair lies, between that with none (0) and that with both (1)."""
    both, *parts, none = one.logits[rule].mean(0)
    return float((np.mean(parts) - none) / (both - none))


def _second(rule: str, group: Sequence[Judged]) -> str:
    return _range([of_one(rule, one) for one in group], ".2f") if RULES[rule] == 2 else ""


def _range(values: Sequence[float], form: str) -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


@mpl.rc_context(LOOK)
def planted_figure(
    groups: Mapping[str, Sequence[Judged]], *, explainers: Sequence[str] = SHOWN, title: str
) -> Drawing:
    """Draw the means of `planted_table` for "top", a panel per rule; a line is an interval, a small mark a
    training.
    """
    every = {wiring: over_seeds(group).sel(number="top") for wiring, group in groups.items()}
    found = {wiring: means(group, "top") for wiring, group in groups.items()}
    listed = "; ".join(
        f"{WIRINGS[wiring]['wiring']}, {rule}: "
        + ", ".join(
            f"{name_of(name)} {of_wiring.sel(explainer=name, rule=rule).item().mean:.2f}"
            for name in explainers
        )
        for wiring, of_wiring in found.items()
        for rule in RULES
    )
    shape: dict[str, Any] = {"columns": len(RULES), "height": 1.3 + 0.3 * len(explainers), "sharey": True}
    figure, panels = drawing(f"{title}. {listed}.", **shape)
    for axes, rule in zip(panels, RULES, strict=True):
        for number_of, wiring in enumerate(groups):
            colour, marker = SPARE[number_of], MARKERS[number_of]
            for row, name in enumerate(explainers):
                y = row + 0.3 * (number_of - (len(groups) - 1) / 2)
                value = found[wiring].sel(explainer=name, rule=rule).item()
                axes.plot([value.low, value.high], [y, y], color=colour, linewidth=1.6)
                look: dict[str, Any] = {"linestyle": "none", "color": colour}
                label = WIRINGS[wiring]["wiring"] if row == 0 else None
                axes.plot(value.mean, y, marker=marker, markersize=5, label=label, **look)
                of_trainings = every[wiring].sel(explainer=name, rule=rule).mean("example").values
                axes.plot(of_trainings, [y] * len(of_trainings), "|", color=INK, markersize=5)
        axes.set_title(rule, fontsize=9)
        axes.set_xlim(-0.05, 1.05)
        axes.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
        axes.set_yticks(range(len(explainers)), [name_of(name) for name in explainers])
        axes.set_ylim(len(explainers) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
    handles, labels = panels[0].get_legend_handles_labels()
    below: dict[str, Any] = {
        "title": "share of sentences",
        "loc": "outside lower center",
        "ncols": len(groups),
    }
    figure.legend(handles, labels, **below)
    headline(figure, title)
    return figure


# What was predicted.

Holds = Callable[[Judged], bool]


def _least(one: Judged, rule: str, explainers: Sequence[str], number: str, bound: float) -> bool:
    return all(one.mean(rule, name, number) >= bound for name in explainers)


def _learned(one: Judged) -> bool:
    known, label, alone = one.followed, "label", "as alone"
    return (
        min(known["shortcut"][label], known["redundant, one copy"][label], known["decoys"][alone]) >= 0.95
        and min(known["conjunction"][label], known["half"][alone], known["negator"][alone]) >= 0.9
    )


def _shortcut(one: Judged) -> bool:
    others = [one.mean("shortcut", name, "first") for name in ("gradient-x-input", "rollout")]
    named = ("loo", "attnlrp", "cp-lrp", SHAPLEY)
    return _least(one, "shortcut", named, "first", 0.95) and others[0] < 0.8 and others[1] < 0.5


def _copies(one: Judged) -> bool:
    named, least = ("attnlrp", "cp-lrp", SHAPLEY), 2 * one.mean("redundant", "loo", "share")
    return _least(one, "redundant", named, "share", least) and _least(one, "redundant", named, "top", 0.8)


def _ordered(one: Judged) -> bool:
    loo, shapley, attnlrp = (one.mean("conjunction", name, "share") for name in ("loo", SHAPLEY, "attnlrp"))
    return loo > shapley > attnlrp


def _ahead(one: Judged, rule: str, number: str, least: float) -> bool:
    loo = one.mean(rule, "loo", number)
    return loo >= least and all(one.mean(rule, name, number) < loo for name in ("attnlrp", "cp-lrp"))


def _sides(one: Judged) -> bool:
    a, c = (
        float(np.mean([one.mean(rule, name, "first") for rule in RULES])) for name in ("attnlrp", "cp-lrp")
    )
    return a > c if one.wiring == "llama" else abs(a - c) < 0.05


def _no_decoy(one: Judged) -> bool:
    free = {"gradient-x-input", "rollout", "rollout:residual=true"}
    return all(
        one.mean(rule, name, "decoy first") <= 0.05
        for rule in RULES
        for name in one.values.explainer.values.tolist()
        if name not in free and not (rule == "redundant" and name in ("loo", "mask-gradient"))
    )


def _small(one: Judged, *explainers: str) -> bool:
    return all(one.mean("redundant", name, "share") < 0.15 for name in explainers)


POINTS: tuple[tuple[str, Holds, tuple[str, ...]], ...] = (
    ("The rules are learned", _learned, ()),
    ("A second copy adds little", lambda one: 1 / of_one("redundant", one) - 1 < 0.25, ()),
    ("Shortcut: LOO, LRP and Shapley put it first, others do not", _shortcut, ()),
    ("Copies: LOO fails", lambda one: _small(one, "loo") and one.mean("redundant", "loo", "top") < 0.5, ()),
    ("Copies: the mask gradient fails", lambda one: _small(one, "mask-gradient"), ()),
    ("Copies: LRP and Shapley do not", _copies, ()),
    ("Conjunction: LOO is ahead of LRP", lambda one: _ahead(one, "conjunction", "top", 0.95), ()),
    ("Conjunction: shares of LOO, Shapley, AttnLRP", _ordered, ()),
    ("Negator: LOO is ahead of LRP", lambda one: _ahead(one, "negator", "first", 0.9), ()),
    ("AttnLRP is ahead of CP-LRP in Llama's wiring, near it in BERT's", _sides, ("post-ln-first", "llama")),
    ("No decoy comes first", _no_decoy, ()),
    (
        "Copies: further LOO, hybrid and 8 groups fail",
        lambda one: _small(
            one, "loo:removal=delete", "loo:removal=mask-token", "hybrid", "mask-gradient:groups=8"
        ),
        (),
    ),
)
"""The prediction's points 1 to 12: what each says, whether a training meets it, its wirings if not all."""


def outcomes(groups: Mapping[str, Sequence[Judged]]) -> list[dict[str, Any]]:
    """What became of each of `POINTS` in each wiring: met in all trainings, failed in all, or mixed."""
    rows = []
    for number, (says, holds, named) in enumerate(POINTS, 1):
        for wiring, group in groups.items():
            if not named or wiring in named:
                held = sum(map(holds, group))
                row = {"point": number, "says": says, "wiring": wiring, "held": held, "of": len(group)}
                rows.append({**row, "outcome": outcome(held, len(group))})
    return rows


TEACHER = {
    "CP-LRP − AttnLRP": ("cp-lrp", "attnlrp"),
    "mask gradient − AttnLRP": ("mask-gradient", "attnlrp"),
}


def gaps(run: TextRun, *, statistic: str = "pearson") -> dict[str, Interval]:
    """Of a run, r with LOO at the words: the differences `TEACHER`, intervals over examples."""
    r = r_at(run, explainers=["attnlrp", "cp-lrp", "mask-gradient"], statistic=statistic)
    return {name: mean(gap(r, *pair)) for name, pair in TEACHER.items()}


def without_teacher(
    folder: str | os.PathLike[str] = "results/labels-only",
    distilled: str | os.PathLike[str] = "results/wirings",
) -> list[dict[str, Any]]:
    """`gaps` of the trainings from labels alone, each with the range over its wiring's distilled ones.

    Rows have `run`, `wiring`, `difference`, and by statistic `STATISTIC, labels` and `STATISTIC, distilled`.
    """
    rows = []
    groups = load_wirings(distilled)
    for run in load_runs([nearby(folder)]):
        if not isinstance(run, TextRun):
            continue
        wiring = run.name.removeprefix("labels-").rpartition("-seed-")[0]
        of_run: list[dict[str, Any]] = [
            {"run": run.name, "wiring": wiring, "difference": name} for name in TEACHER
        ]
        for statistic in STATISTIC:
            labels, *others = (gaps(one, statistic=statistic) for one in (run, *groups[wiring]))
            for row in of_run:
                means = [other[row["difference"]].mean for other in others]
                row[f"{statistic}, labels"] = labels[row["difference"]]
                row[f"{statistic}, distilled"] = (min(means), max(means))
        rows += of_run
    return rows
