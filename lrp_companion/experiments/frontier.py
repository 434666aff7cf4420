"""The frontier between one pass and exact: how near every method of a run comes to LOO, and what it costs. No torch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lrp_companion.experiments.draws import bootstrap_columns
from lrp_companion.experiments.records import TOP, MnistRun, TextRun
from lrp_companion.metrics import Interval
from lrp_companion.schema import TOKEN_CHOICES, Protocol, SourceError

Row = dict[str, Any]
Key = TypeVar("Key", bound=tuple)
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
        `seconds`, an interval, and `speedup`, LOO's mean seconds over the method's own (None without LOO);
        `r` by "pearson" and "spearman", then by tokens ("no-special", "all");
        `overlap` by tokens, then by k, and `error` by tokens (see `TextRun.overlap` and `TextRun.error`);
        `morf`, `lerf` and `delta`, of the mean logit while tokens are removed;
        `minus`, by the references AttnLRP, CP-LRP and LOO as far as they were run, the method itself left out: paired
        differences, method minus reference, in `r` (Pearson, by tokens; not to LOO, whose r is 1), `morf`, `lerf` and `delta`;
        `dominated`, by tokens: whether some method costs no more and has no lower mean r, and is better in one of both;
        `beaten by`, by tokens: the methods that cost no more and whose r is higher, the whole interval of the paired
        difference above 0.

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
    own = _intervals({(method, column): value for method in order for column, value in values[method].items()})
    to_references = {
        (method, other, column): value - values[other][column]
        for method in order
        for other in REFERENCES
        if other in values and other != method
        for column, value in values[method].items()
        if column[0] in CURVES or (column[:2] == ("r", "pearson") and other != "loo")
    }
    minus = _intervals(to_references)
    rival = _intervals(
        {
            (method, other, tokens): values[other]["r", "pearson", tokens] - values[method]["r", "pearson", tokens]
            for method in order
            for other in order
            if other != method and cost[other] <= cost[method]
            for tokens in TOKEN_CHOICES
        }
    )
    rows = []
    for method in order:
        forwards, backwards = passes[method].tolist()
        row: Row = {"method": method, "forwards": forwards, "backwards": backwards, "cost": cost[method], "n": run.n}
        row |= _nested({column: value for (name, column), value in own.items() if name == method})
        row["speedup"] = own["loo", ("seconds",)].mean / row["seconds"].mean if "loo" in values else None
        row["minus"] = _nested({(other, *column): value for (name, other, column), value in minus.items() if name == method})
        for name, is_better in (("dominated", _is_dominated), ("beaten by", _beaten_by)):
            row[name] = {tokens: is_better(method, tokens, cost, own, rival) for tokens in TOKEN_CHOICES}
        rows.append(row)
    return rows


PIXELS = 196


def digit_frontier(run: MnistRun) -> list[Row]:
    """The same for nets on digits, where every pixel is a token: raw maps of both graphs, each image a mean over the nets.

    Returns
    -------
    list
        A row per method, the cheapest first: `method`, `forwards`, `backwards` and their sum `cost`; `n` images and `nets`; and
        as intervals `r` with LOO of the left graph ("left") and the right one ("right"), `left-right` between the two maps,
        and `gap`, their relative distance.

    >>> digit_frontier(load_run("results/frontier/mnist-plain"))[0]["method"]  # doctest: +SKIP
    'gradient-x-input'
    """
    columns = {"left": "r left-LOO", "right": "r right-LOO", "left-right": "r left-right", "gap": "gap"}
    found = _intervals({(name, key): run.values(name, column) for name in run.explainers for key, column in columns.items()})
    rows = []
    for name in run.explainers:
        forwards, backwards = _digit_passes(run.manifest["config"]["explainers"][name])
        own = {key: found[name, key] for key in columns}
        rows.append(
            {"method": name.lower() if name == "LOO" else name, "forwards": forwards, "backwards": backwards, "cost": forwards + backwards}
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


# -- options, chosen on sentences that judge nothing else ---------------------------------------------------------------


def load_options(folder: str | os.PathLike[str] = "results/remedy-options") -> list[dict[str, Any]]:
    """The records of `remedy_options.compare_options` in a folder, which is looked for here and in the folders above.

    Raises
    ------
    SourceError : no such folder, or no record in it.
    """
    here = Path.cwd()
    found = next((place / folder for place in (here, *here.parents) if (place / folder).is_dir()), Path(folder))
    files = sorted(found.glob("*.json"))
    if not files:
        raise SourceError("load_options", got=f"{found}, without records", expected="one file for each model", hint="see results/README.md")
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def option_rows(record: Mapping[str, Any]) -> list[Row]:
    """Options of a record: `name`, its fields, `forwards`, `backwards`, `cost`, and by tokens `r` as intervals and the mean `error`."""
    found = _intervals({(row["name"], tokens): _numbers(row["r"][tokens]) for row in record["rows"] for tokens in TOKEN_CHOICES})
    out = []
    for row in record["rows"]:
        forwards, backwards = row["passes"]
        r = {tokens: found[row["name"], tokens] for tokens in TOKEN_CHOICES}
        out.append({**row, "forwards": forwards, "backwards": backwards, "cost": forwards + backwards, "r": r})
    return out


@dataclass(frozen=True)
class Choice:
    """One option against another that was there first.

    Attributes
    ----------
    question : what is chosen.
    option, against : names of options of the records.
    differences : by model and tokens, the paired difference of r, `option - against`.
    """

    question: str
    option: str
    against: str
    differences: Mapping[tuple[str, str], Interval]

    @property
    def verdict(self) -> str:
        """ "better" or "worse" if every interval, on all models and tokens, is on that side of 0; else "open"."""
        values = self.differences.values()
        return "better" if all(own.low > 0 for own in values) else "worse" if all(own.high < 0 for own in values) else "open"


QUESTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    **{
        f"nodes, K = {groups}": (
            f"mask-gradient:groups={groups}:nodes=2",
            tuple(f"mask-gradient:groups={groups}:nodes={nodes}" for nodes in ("0.5+1", "0.2+1", "0.1+1", "0.05+1", "0+1", "0+0.5+1", "3")),
        )
        for groups in (2, 4, 8, "all")
    },
    **{
        f"a lower node, K = {groups}": (f"mask-gradient:groups={groups}:nodes=0.2+1", (f"mask-gradient:groups={groups}:nodes=0.1+1",))
        for groups in (2, 4, 8, "all")
    },
    **{
        f"equal weights, K = {groups}": (
            f"mask-gradient:groups={groups}:nodes=0.2+1",
            tuple(f"mask-gradient:groups={groups}:nodes={nodes}:weights=equal" for nodes in ("0.2+1", "0.1+1")),
        )
        for groups in (2, 4, 8, "all")
    },
    **{
        f"groups, K = {groups}, nodes {nodes}": (
            f"mask-gradient:groups={groups}:nodes={nodes}",
            tuple(f"mask-gradient:groups={groups}:nodes={nodes}:by={by}" for by in ("random", "gradient")),
        )
        for groups in (2, 4, 8)
        for nodes in ("2", "0.2+1")
    },
    **{
        f"correction, {exact} exact tokens": (
            f"hybrid:exact={exact}",
            tuple(f"hybrid:exact={exact}:correct={correct}" for correct in ("scale", "shift", "line")),
        )
        for exact in (2, 4, 8)
    },
}  # fmt: skip
"""What is chosen: the option that was there first, and those that would have to be better on every model and both tokens."""


def option_choices(records: Sequence[Mapping[str, Any]]) -> list[Choice]:
    """Each option of `QUESTIONS` against the one that was there first, paired on the texts of each record."""
    values = {
        (record["config"]["model"], row["name"], tokens): _numbers(row["r"][tokens])
        for record in records
        for row in record["rows"]
        for tokens in TOKEN_CHOICES
    }
    asked = {
        (question, option, first, model, tokens): values[model, option, tokens] - values[model, first, tokens]
        for question, (first, options) in QUESTIONS.items()
        for option in options
        for model in (record["config"]["model"] for record in records)
        for tokens in TOKEN_CHOICES
    }
    found, out = _intervals(asked), []
    for question, (first, options) in QUESTIONS.items():
        for option in options:
            own = {key[3:]: value for key, value in found.items() if key[:3] == (question, option, first)}
            out.append(Choice(question, option, first, own))
    return out


def _numbers(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


# -- intervals -----------------------------------------------------------------------------------------------------------


def _values(run: TextRun, method: str) -> dict[tuple, np.ndarray]:
    """Every number of a method, one per example."""
    out: dict[tuple, np.ndarray] = {("seconds",): run.column(method, "seconds")}
    out |= {("r", own, tokens): run.r(method, Protocol(tokens=tokens, statistic=own)) for own in AGREEMENTS for tokens in TOKEN_CHOICES}
    out |= {("overlap", tokens, k): run.overlap(method, k=k, tokens=tokens) for tokens in TOKEN_CHOICES for k in TOP}
    out |= {("error", tokens): run.error(method, tokens=tokens) for tokens in TOKEN_CHOICES}
    return out | {(name,): run.column(method, name) for name in CURVES}


def _is_dominated(
    method: str, tokens: str, cost: Mapping[str, float], own: Mapping[tuple, Interval], rival: Mapping[tuple, Interval]
) -> bool:
    mean = own[method, ("r", "pearson", tokens)].mean
    for other in (other for name, other, at in rival if (name, at) == (method, tokens)):
        theirs = own[other, ("r", "pearson", tokens)].mean
        if theirs >= mean and (theirs > mean or cost[other] < cost[method]):
            return True
    return False


def _beaten_by(
    method: str, tokens: str, cost: Mapping[str, float], own: Mapping[tuple, Interval], rival: Mapping[tuple, Interval]
) -> tuple[str, ...]:
    return tuple(other for (name, other, at), value in rival.items() if (name, at) == (method, tokens) and value.low > 0)


def _intervals(columns: Mapping[Key, np.ndarray]) -> dict[Key, Interval]:
    return dict(zip(columns, bootstrap_columns(list(columns.values())), strict=True))


def _nested(flat: Mapping[tuple, Interval]) -> dict[Any, Any]:
    """Keys ("r", "pearson", "all") become levels of dicts."""
    out: dict[Any, Any] = {}
    for (*levels, last), value in flat.items():
        place = out
        for level in levels:
            place = place.setdefault(level, {})
        place[last] = value
    return out
