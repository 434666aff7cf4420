"""How close every method of a run comes to LOO, and how many passes it takes. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lrp_book.analysis.significance import features, holm, rank_correlations
from lrp_companion.checks import InputError
from lrp_companion.metrics import Interval
from lrp_companion.metrics.statistics import intervals, side_of_zero
from lrp_companion.paper.protocol_grid import Row, title
from lrp_companion.registry import label_of
from lrp_companion.runs.axes import TOP
from lrp_companion.runs.load import MnistRun, TextRun
from lrp_companion.schema import TOKEN_CHOICES, Protocol

AGREEMENTS = ("pearson", "spearman")
CURVES = ("morf", "lerf", "delta")
REFERENCES = ("attnlrp", "cp-lrp", "loo")


def frontier(run: TextRun, *, methods: Sequence[str] | None = None) -> list[Row]:
    """Cost and closeness to LOO of every method of a run, and their differences, all over the same examples.

    Maps are read at the words, for the logit, against LOO by the attention mask.

    Parameters
    ----------
    methods : of the run, all by default.

    Returns
    -------
    list
        A row per method, the cheapest first:
        `method`; `forwards`, `backwards` and their sum `cost`, means over examples; `n`;
        `seconds`, an interval, and `speedup`, LOO's mean seconds over the method's (None without LOO), over
        the texts whose LOO was computed in this run;
        `r` by "pearson" and "spearman", then by tokens ("no-special", "all");
        `overlap` by tokens, then by k, and `error` by tokens (see `TextRun.overlap` and `TextRun.error`);
        `morf`, `lerf` and `delta`, of the mean logit while tokens are removed;
        `minus`, by the references that were run (AttnLRP, CP-LRP, LOO), the method itself left out: paired
        differences, method minus reference, in `r` (Pearson, by tokens; not to LOO, whose r is 1), `morf`,
        `lerf` and `delta`;
        `lead`, by the methods that cost no more, then by tokens: the paired difference in `r` (Pearson),
        method minus the other;
        `dominated by`, by tokens: the methods that cost no more and whose r is higher, the whole interval of
        `lead` below 0.

    Raises
    ------
    InputError : the run keeps neither cost nor error, because it has only the default methods.

    >>> frontier(load_run("results/frontier/sst2-companion"))[-1]["method"]  # doctest: +SKIP
    'ig'
    """
    chosen = run.methods if methods is None else methods
    passes = {method: run.passes(method).mean(0) for method in chosen}
    cost = {method: float(mean.sum()) for method, mean in passes.items()}
    order = sorted(chosen, key=lambda method: cost[method])
    values = {method: _values(run, method) for method in order}
    measured = _nested(intervals(_by_method(values)))
    minus = _nested(intervals(_minus_references(values)))
    lead = _nested(intervals(_minus_cheaper(values, cost)))
    rows = []
    for method in order:
        forwards, backwards = passes[method].tolist()
        row: Row = {"method": method, "forwards": forwards, "backwards": backwards}
        row |= {"cost": cost[method], "n": run.n, **measured[method]}
        row["speedup"] = _speedup(run, method) if "loo" in values else None
        row["minus"], row["lead"] = minus.get(method, {}), lead.get(method, {})
        row["dominated by"] = {
            tokens: tuple(rival for rival, ahead in row["lead"].items() if ahead[tokens].high < 0)
            for tokens in TOKEN_CHOICES
        }
        rows.append(row)
    return rows


FEATURES = ("length", "confidence", "concentration", "special")


def where_it_errs(
    run: TextRun, attention: Mapping[str, Any], *, methods: Sequence[str] | None = None
) -> list[Row]:
    """Rank correlations (Spearman) of r and error with features: on which texts is a method far from LOO?

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
    feature_values = _feature_values(run, attention)
    rows: list[Row] = []
    for method in [name for name in run.methods if name != "loo"] if methods is None else methods:
        for of, column in {"r": run.r(method), "error": run.error(method)}.items():
            keep = ~np.isnan(column)
            if keep.sum() < 2 or np.ptp(column[keep]) == 0:
                continue
            for feature, values in feature_values.items():
                if np.ptp(values[keep]) == 0:
                    continue
                ((effect, p),) = rank_correlations(values[keep], column[keep][:, None])
                rows.append({"method": method, "feature": feature, "of": of, "effect": effect, "p": p})
    for row, corrected in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p, Holm"] = corrected
    return rows


def _feature_values(run: TextRun, attention: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Each of `FEATURES` for every example of a run; refuses attention of another model or other data."""
    config, attention_config = run.manifest["config"], attention["config"]
    keys = {"weights": "weights", "data": "fingerprint"}
    differs = [name for name, key in keys.items() if config[name] != attention_config[key]]
    place = {job: k for k, job in enumerate(attention["rows"]["example"])}
    if differs or not set(run.examples.tolist()) <= set(place):
        lacking = "attention without some examples of the run"
        raise InputError(
            "where_it_errs",
            got=f"attention of other {' and '.join(differs)}" if differs else lacking,
            expected="the run's model and data",
            hint="make it with limits.concentrations",
        )
    places = [place[job] for job in run.examples.tolist()]
    known = features(run)
    known |= {name: np.array(attention["rows"][name])[places] for name in ("concentration", "special")}
    return {name: known[name] for name in FEATURES}


def best_within(
    rows: Sequence[Row], budgets: Sequence[float] = (2, 6, 12, 20, 40), *, tokens: str = "no-special"
) -> list[Row]:
    """The method of highest mean r among those whose mean cost is within each budget of passes, LOO left out.

    Parameters
    ----------
    rows : of `frontier`.

    Returns
    -------
    list
        Rows `budget`, `method`, `cost`, `r` and `error` (intervals), `seconds`, `speedup`, and with two
        methods or more within the budget `next`, the one of the second highest mean r, and `ahead`, the
        paired difference of r to it. The best of several means is slightly too high for new texts, because
        each method was chosen on the texts that the row reports.
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
        row = {"budget": budget, "r": best["r"]["pearson"][tokens], "error": best["error"][tokens]}
        row |= {name: best[name] for name in ("method", "cost", "seconds", "speedup")}
        if others:
            row |= {"next": others[0]["method"], "ahead": _difference(best, others[0], tokens)}
        out.append(row)
    return out


def _difference(row: Row, other: Row, tokens: str) -> Interval:
    """Paired difference in r, row minus other; only the more expensive of two rows holds it."""
    if other["method"] in row["lead"]:
        return row["lead"][other["method"]][tokens]
    reverse = other["lead"][row["method"]][tokens]
    return replace(reverse, mean=-reverse.mean, low=-reverse.high, high=-reverse.low)


REMEDIES = {
    "mask-gradient": "one pass of the mask gradient",
    "mask-gradient:groups=8": "the mask gradient with K = 8",
    "hybrid:exact=8": "the hybrid with 8 exact",
}


def remedy_statements(run: TextRun, rows: Sequence[Row]) -> list[Row]:
    """Sentences, derived from the numbers, that compare the remedies with AttnLRP, CP-LRP and LOO.

    Parameters
    ----------
    rows : of `frontier`, of the same run.

    Returns
    -------
    list
        Rows `run`, `says` (the sentence), `what` (was compared), `effect` (interval), `n`.
    """
    minus = {row["method"]: row["minus"] for row in rows}
    compared = [
        (f"r, {label}", method, rival, minus[method][rival]["r"]["pearson"][tokens], "nearer to LOO")
        for method in REMEDIES
        for rival in ("attnlrp", "cp-lrp")
        for tokens, label in (("no-special", "words"), ("all", "all tokens"))
        if method in minus and rival in minus[method]
    ]
    compared += [
        ("LeRF - MoRF", method, "attnlrp", minus[method]["attnlrp"]["delta"], "better by perturbation")
        for method in ("loo", *REMEDIES)
        if method in minus and "attnlrp" in minus[method]
    ]
    out = []
    for what, method, rival, effect, better in compared:
        first, second = REMEDIES.get(method) or label_of(method), label_of(rival)
        sides = {"above": f"{first} is {better} than {second}", "below": f"{second} is {better} than {first}"}
        says = sides.get(side_of_zero(effect), f"{first} and {second} cannot be told apart")
        row = {"run": title(run), "says": says, "what": f"{what}: difference"}
        out.append({**row, "effect": effect, "n": effect.n})
    return out


PIXELS = 196


def digit_frontier(run: MnistRun) -> list[Row]:
    """Cost and closeness to LOO of every explainer of nets on digits, where every pixel is a token.

    Maps of both graphs are raw; each image counts with its mean over the nets.

    Returns
    -------
    list
        A row per method, the cheapest first: `method`; `forwards`, `backwards` and their sum `cost`; `n`
        images and `nets`; and as intervals `r` with LOO of the left graph ("left") and the right one
        ("right"), `left-right` between the two maps, and `gap`, their relative distance.

    >>> digit_frontier(load_run("results/frontier/mnist-plain"))[0]["method"]  # doctest: +SKIP
    'gradient-x-input'
    """
    columns = {"left": "r left-LOO", "right": "r right-LOO", "left-right": "r left-right", "gap": "gap"}
    cells = intervals(
        {(name, key): run.values(name, column) for name in run.explainers for key, column in columns.items()}
    )
    rows = []
    for name in run.explainers:
        forwards, backwards = _digit_passes(run.manifest["config"]["explainers"][name])
        row: Row = {"method": name.lower() if name == "LOO" else name}
        row |= {"forwards": forwards, "backwards": backwards, "cost": forwards + backwards}
        row |= {"n": run.n, "nets": len(run.seeds)}
        row["r"] = {side: cells[name, side] for side in ("left", "right")}
        rows.append(row | {key: cells[name, key] for key in ("left-right", "gap")})
    return sorted(rows, key=lambda row: row["cost"])


def _digit_passes(call: Mapping[str, Any]) -> tuple[int, int]:
    """Forward and backward passes of one image; IG needs two more forwards for its convergence delta."""
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


def _values(run: TextRun, method: str) -> dict[tuple, np.ndarray]:
    """Every number of a method, one per example."""
    out: dict[tuple, np.ndarray] = {("seconds",): run.column(method, "seconds")}
    out |= {
        ("r", statistic, tokens): run.r(method, Protocol(tokens=tokens, statistic=statistic))
        for statistic in AGREEMENTS
        for tokens in TOKEN_CHOICES
    }
    out |= {
        ("overlap", tokens, k): run.overlap(method, k=k, tokens=tokens)
        for tokens in TOKEN_CHOICES
        for k in TOP
    }
    out |= {("error", tokens): run.error(method, tokens=tokens) for tokens in TOKEN_CHOICES}
    return out | {(name,): run.column(method, name) for name in CURVES}


Values = Mapping[str, Mapping[tuple, np.ndarray]]  # by method, then by column, as `_values` names them


def _by_method(values: Values) -> dict[tuple, np.ndarray]:
    return {(method, *column): value for method in values for column, value in values[method].items()}


def _minus_references(values: Values) -> dict[tuple, np.ndarray]:
    """Each method minus each of `REFERENCES`, in r (not to LOO, whose r is 1) and the curves."""
    return {
        (method, reference, *column): value - values[reference][column]
        for method in values
        for reference in REFERENCES
        if reference in values and reference != method
        for column, value in values[method].items()
        if column[0] in CURVES or (column[:2] == ("r", "pearson") and reference != "loo")
    }


def _minus_cheaper(values: Values, cost: Mapping[str, float]) -> dict[tuple, np.ndarray]:
    """Each method's r minus that of each method that costs no more."""
    return {
        (method, rival, column[2]): value - values[rival][column]
        for method in values
        for rival in values
        if rival != method and cost[rival] <= cost[method]
        for column, value in values[method].items()
        if column[:2] == ("r", "pearson")
    }


def _speedup(run: TextRun, method: str) -> float | None:
    seconds, loo = run.column(method, "seconds"), run.column("loo", "seconds")
    timed = np.isfinite(seconds) & np.isfinite(loo)
    return float(loo[timed].mean() / seconds[timed].mean()) if timed.any() else None


def _nested(flat: Mapping[tuple, Interval]) -> dict[Any, Any]:
    """Keys ("r", "pearson", "all") become levels of dicts."""
    out: dict[Any, Any] = {}
    for (*levels, last), value in flat.items():
        place = out
        for level in levels:
            place = place.setdefault(level, {})
        place[last] = value
    return out
