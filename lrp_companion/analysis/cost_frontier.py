"""The frontier between one pass and exact: how near every method of a run comes to LOO, and what it costs. No
torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lrp_companion.analysis.protocol_grid import NAMES, title
from lrp_companion.analysis.subgroups import features
from lrp_companion.metrics import Interval
from lrp_companion.metrics.significance import holm, rank_correlations
from lrp_companion.metrics.statistics import intervals, side_of_zero
from lrp_companion.runs.load import TOP, MnistRun, TextRun
from lrp_companion.schema import TOKEN_CHOICES, InputError, Protocol

Row = dict[str, Any]
AGREEMENTS = ("pearson", "spearman")
CURVES = ("morf", "lerf", "delta")
REFERENCES = ("attnlrp", "cp-lrp", "loo")


def frontier(run: TextRun) -> list[Row]:
    """Cost and nearness to LOO of every method of a run, and how they differ, all over the same examples.

    Maps are read at the words, for the logit, against LOO by the attention mask.

    Returns
    -------
    list
        A row per method, the cheapest first:
        `method`; `forwards`, `backwards` and their sum `cost`, means over examples; `n`;
        `seconds`, an interval, and `speedup`, LOO's mean seconds over the method's own (None without LOO),
        over the texts whose LOO this run has computed itself;
        `r` by "pearson" and "spearman", then by tokens ("no-special", "all");
        `overlap` by tokens, then by k, and `error` by tokens (see `TextRun.overlap` and `TextRun.error`);
        `morf`, `lerf` and `delta`, of the mean logit while tokens are removed;
        `minus`, by the references AttnLRP, CP-LRP and LOO as far as they were run, the method itself left
        out: paired differences, method minus reference, in `r` (Pearson, by tokens; not to LOO, whose r is
        1), `morf`, `lerf` and `delta`; `lead`, by the methods that cost no more, then by tokens: the paired
        difference in `r` (Pearson), method minus the other; `dominated`, by tokens: whether some method costs
        no more and has no lower mean r, and is better in one of both; `beaten by`, by tokens: the methods
        that cost no more and whose r is higher, the whole interval of `lead` below 0.

    Raises
    ------
    InputError : the run keeps neither cost nor error, because it has the default methods only.

    >>> frontier(load_run("results/frontier-companion"))[-1]["method"]  # doctest: +SKIP
    'ig'
    """
    passes = {method: run.passes(method).mean(0) for method in run.methods}
    cost = {method: float(own.sum()) for method, own in passes.items()}
    order = sorted(run.methods, key=lambda method: cost[method])
    values = {method: _values(run, method) for method in order}
    own = intervals({(method, column): value for method in order for column, value in values[method].items()})
    to_references = {
        (method, other, column): value - values[other][column]
        for method in order
        for other in REFERENCES
        if other in values and other != method
        for column, value in values[method].items()
        if column[0] in CURVES or (column[:2] == ("r", "pearson") and other != "loo")
    }
    minus = intervals(to_references)
    lead = intervals(
        {
            (method, other, tokens): values[method]["r", "pearson", tokens]
            - values[other]["r", "pearson", tokens]
            for method in order
            for other in order
            if other != method and cost[other] <= cost[method]
            for tokens in TOKEN_CHOICES
        }
    )
    rows = []
    for method in order:
        forwards, backwards = passes[method].tolist()
        row: Row = {
            "method": method,
            "forwards": forwards,
            "backwards": backwards,
            "cost": cost[method],
            "n": run.n,
        }
        row |= _nested({column: value for (name, column), value in own.items() if name == method})
        row["speedup"] = _speedup(run, method) if "loo" in values else None
        row["minus"] = _nested(
            {(other, *column): value for (name, other, column), value in minus.items() if name == method}
        )
        row["lead"] = _nested(
            {(other, tokens): value for (name, other, tokens), value in lead.items() if name == method}
        )
        row["dominated"] = {tokens: _is_dominated(method, tokens, cost, own) for tokens in TOKEN_CHOICES}
        row["beaten by"] = {
            tokens: tuple(other for other, own_lead in row["lead"].items() if own_lead[tokens].high < 0)
            for tokens in TOKEN_CHOICES
        }
        rows.append(row)
    return rows


FEATURES = ("length", "confidence", "concentration", "special")


def where_it_errs(
    run: TextRun, attention: Mapping[str, Any], *, methods: Sequence[str] | None = None
) -> list[Row]:
    """Does a method come less near to LOO on some texts? Spearman's rank correlation of its r and its error
    with what is known of a text.

    Parameters
    ----------
    attention : the record of `limits.concentrations` on the same model and data.
    methods : of the run, all but LOO by default.

    Returns
    -------
    list
        Rows `method`, `feature` ("length" in tokens, "confidence" of the prediction, "concentration" of
        attention, and what "special" tokens receive of it), `of` ("r" or "error", at the words), `effect`
        (interval), `p` from 10,000 permutations and `p, Holm`, corrected over all rows.

    Raises
    ------
    InputError : attention of another model or data, or without an example of the run.

    >>> where_it_errs(run, attention)[0]["feature"]  # doctest: +SKIP
    'length'
    """
    config, known = run.manifest["config"], attention["config"]
    differs = [
        name for name, own in (("weights", "weights"), ("data", "fingerprint")) if config[name] != known[own]
    ]
    place = {job: k for k, job in enumerate(attention["rows"]["example"])}
    if differs or not set(run.examples.tolist()) <= set(place):
        got = (
            f"attention of other {' and '.join(differs)}"
            if differs
            else "attention without some examples of the run"
        )
        raise InputError(
            "where_it_errs",
            got=got,
            expected="the run's model and data",
            hint="make it with limits.concentrations",
        )
    own = [place[job] for job in run.examples.tolist()]
    known_features = {name: values for name, values in features(run).items() if name in FEATURES}
    known_features |= {name: np.array(attention["rows"][name])[own] for name in ("concentration", "special")}
    rows: list[Row] = []
    for method in [name for name in run.methods if name != "loo"] if methods is None else methods:
        values = {"r": run.r(method), "error": run.error(method)}
        for of, column in values.items():
            keep = ~np.isnan(column)
            if keep.sum() < 2 or np.ptp(column[keep]) == 0:
                continue
            for feature in FEATURES:
                if np.ptp(known_features[feature][keep]) == 0:
                    continue
                ((effect, p),) = rank_correlations(known_features[feature][keep], column[keep][:, None])
                rows.append({"method": method, "feature": feature, "of": of, "effect": effect, "p": p})
    for row, corrected in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p, Holm"] = corrected
    return rows


def best_within(
    rows: Sequence[Row], budgets: Sequence[float] = (2, 6, 12, 20, 40), *, tokens: str = "no-special"
) -> list[Row]:
    """The method of highest mean r whose mean cost is within each budget of passes, LOO left out: rows of
    `frontier`.

    Rows `budget`, `method`, `cost`, `r` and `error` (intervals), `seconds`, `speedup`, and with two methods
    or more within the budget `next`, the one of the second highest mean r, and `ahead`, the paired difference
    of r to it. The best of several means is a little too high for new texts: each was chosen on the texts
    that it is told of.
    """
    out = []
    for budget in budgets:
        within = [
            row
            for row in rows
            if row["cost"] <= budget
            and row["method"] != "loo"
            and np.isfinite(row["r"]["pearson"][tokens].mean)
        ]
        if not within:
            continue
        best, *others = sorted(within, key=lambda row: -row["r"]["pearson"][tokens].mean)
        found = {"budget": budget, "r": best["r"]["pearson"][tokens], "error": best["error"][tokens]}
        found |= {name: best[name] for name in ("method", "cost", "seconds", "speedup")}
        if others:
            found |= {"next": others[0]["method"], "ahead": _difference(best, others[0], tokens)}
        out.append(found)
    return out


def _difference(row: Row, other: Row, tokens: str) -> Interval:
    """Paired difference in r, row minus other; only the dearer one of two keeps it."""
    if other["method"] in row["lead"]:
        return row["lead"][other["method"]][tokens]
    turned = other["lead"][row["method"]][tokens]
    return replace(turned, mean=-turned.mean, low=-turned.high, high=-turned.low)


REMEDIES = {
    "mask-gradient": "one pass of the mask gradient",
    "mask-gradient:groups=8": "the mask gradient with K = 8",
    "hybrid:exact=8": "the hybrid with 8 exact",
}


def findings(run: TextRun, rows: Sequence[Row]) -> list[Row]:
    """What the rows of `frontier` say of a run, in words that follow from their numbers: `run`, `says`,
    `what`, `effect`, `n`.
    """
    own = {row["method"]: row for row in rows}
    asked = [
        (f"r, {label}", method, other, own[method]["minus"][other]["r"]["pearson"][tokens], "nearer to LOO")
        for method in REMEDIES
        for other in ("attnlrp", "cp-lrp")
        for tokens, label in (("no-special", "words"), ("all", "all tokens"))
        if method in own and other in own[method]["minus"]
    ]
    asked += [
        ("LeRF - MoRF", method, "attnlrp", own[method]["minus"]["attnlrp"]["delta"], "better by perturbation")
        for method in ("loo", *REMEDIES)
        if method in own and "attnlrp" in own[method]["minus"]
    ]
    out = []
    for what, method, other, effect, better in asked:
        name, rival = REMEDIES.get(method) or NAMES[method], NAMES[other]
        sides = {"above": f"{name} is {better} than {rival}", "below": f"{rival} is {better} than {name}"}
        says = sides.get(side_of_zero(effect), f"{name} and {rival} cannot be told apart")
        out.append(
            {"run": title(run), "says": says, "what": f"{what}: difference", "effect": effect, "n": effect.n}
        )
    return out


PIXELS = 196


def digit_frontier(run: MnistRun) -> list[Row]:
    """The same for nets on digits, where every pixel is a token: raw maps of both graphs, each image a mean
    over the nets.

    Returns
    -------
    list
        A row per method, the cheapest first: `method`, `forwards`, `backwards` and their sum `cost`; `n`
        images and `nets`; and as intervals `r` with LOO of the left graph ("left") and the right one
        ("right"), `left-right` between the two maps, and `gap`, their relative distance.

    >>> digit_frontier(load_run("results/frontier/mnist-plain"))[0]["method"]  # doctest: +SKIP
    'gradient-x-input'
    """
    columns = {"left": "r left-LOO", "right": "r right-LOO", "left-right": "r left-right", "gap": "gap"}
    found = intervals(
        {(name, key): run.values(name, column) for name in run.explainers for key, column in columns.items()}
    )
    rows = []
    for name in run.explainers:
        forwards, backwards = _digit_passes(run.manifest["config"]["explainers"][name])
        own = {key: found[name, key] for key in columns}
        rows.append(
            {
                "method": name.lower() if name == "LOO" else name,
                "forwards": forwards,
                "backwards": backwards,
                "cost": forwards + backwards,
            }
            | {"n": run.n, "nets": len(run.seeds), "r": {side: own[side] for side in ("left", "right")}}
            | {key: own[key] for key in ("left-right", "gap")}
        )
    return sorted(rows, key=lambda row: row["cost"])


def _digit_passes(call: Mapping[str, Any]) -> tuple[int, int]:
    """Forward and backward passes of one image. IG needs two forwards more for its convergence delta."""
    if call["method"] == "loo":
        return PIXELS + 1, 0
    if call["method"] == "ig":
        return call.get("n_steps", 50) + 2, call.get("n_steps", 50)
    if call["method"] != "mask-gradient":
        return 1, 1
    groups, nodes = call.get("groups", 1), call.get("nodes")
    count = PIXELS if groups == "all" else groups
    points = (1 if groups == 1 else 2) if nodes is None else nodes if isinstance(nodes, int) else len(nodes)
    passes = 1 + count * (points - 1)
    return passes, passes


# -- intervals -----------------------------------------------------------------------------------------------------------


def _values(run: TextRun, method: str) -> dict[tuple, np.ndarray]:
    """Every number of a method, one per example."""
    out: dict[tuple, np.ndarray] = {("seconds",): run.column(method, "seconds")}
    out |= {
        ("r", own, tokens): run.r(method, Protocol(tokens=tokens, statistic=own))
        for own in AGREEMENTS
        for tokens in TOKEN_CHOICES
    }
    out |= {
        ("overlap", tokens, k): run.overlap(method, k=k, tokens=tokens)
        for tokens in TOKEN_CHOICES
        for k in TOP
    }
    out |= {("error", tokens): run.error(method, tokens=tokens) for tokens in TOKEN_CHOICES}
    return out | {(name,): run.column(method, name) for name in CURVES}


def _speedup(run: TextRun, method: str) -> float | None:
    seconds, loo = run.column(method, "seconds"), run.column("loo", "seconds")
    timed = np.isfinite(seconds) & np.isfinite(loo)
    return float(loo[timed].mean() / seconds[timed].mean()) if timed.any() else None


def _is_dominated(method: str, tokens: str, cost: Mapping[str, float], own: Mapping[tuple, Interval]) -> bool:
    mean = {other: own[other, ("r", "pearson", tokens)].mean for other in cost}
    others = [
        other
        for other in cost
        if other != method and cost[other] <= cost[method] and mean[other] >= mean[method]
    ]
    return any(mean[other] > mean[method] or cost[other] < cost[method] for other in others)


def _nested(flat: Mapping[tuple, Interval]) -> dict[Any, Any]:
    """Keys ("r", "pearson", "all") become levels of dicts."""
    out: dict[Any, Any] = {}
    for (*levels, last), value in flat.items():
        place = out
        for level in levels:
            place = place.setdefault(level, {})
        place[last] = value
    return out
