"""The numbers in the first sentences of chapters 5, 6 and 7: names that `findings.finding` knows. No torch.

Each is computed by the function that makes the chapter's tables, so a sentence and its table agree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from lrp_book.analysis.r_scale import method_rows
from lrp_book.analysis.wiring_findings import wiring_runs
from lrp_book.analysis.wirings import wiring_claim
from lrp_book.committed import SHORT, TEXT_RUNS, Records, records
from lrp_book.layers import gain_under, layer_gains
from lrp_book.say import MissingRecord
from lrp_companion.metrics import Interval, bootstrap_mean, paired_difference
from lrp_companion.metrics.paired import over_trainings
from lrp_companion.paper.claims import VERDICTS, Claim, claims
from lrp_companion.registry import label_of
from lrp_companion.schema import PROTOCOLS, Protocol

Value = Callable[[Records], Any]
PATHS = ("back-to-front", "front-to-back", "single")
PARTS = ("across layers", "within one softmax")
REMOVALS = {"mask-token": "[MASK]", "delete": "deletion"}


def chapter_catalogue() -> dict[str, Value]:
    """What the chapters can ask for besides `findings.CATALOGUE`, by name."""
    out: dict[str, Value] = {"claims": lambda kept: len(_claims(kept))}
    out |= {f"claims, {verdict}": _verdicts(verdict) for verdict in VERDICTS}
    for short in TEXT_RUNS:
        out[f"{short}, n"] = _size(short)
        out[f"{short}, mask-gradient minus AttnLRP at words and positions, all"] = _lead_at_positions(short)
        for method in ("ig", "rollout"):
            out[f"{short}, {label_of(method)}, words"] = _agreement(short, method)
        for path in PATHS:
            for name in SHORT:
                out[f"{short}, later minus first half, {path}, {name}"] = _halves(short, path, name)
        for tokens in ("no-special", "all"):
            for method in ("mask-gradient", "mask-gradient:groups=8", "attnlrp", "cp-lrp"):
                out[f"{short}, frontier, {method}, {tokens}"] = _frontier(short, method, tokens)
            for method in ("mask-gradient", "mask-gradient:groups=8"):
                out[f"{short}, {method} minus AttnLRP, {tokens}"] = _lead(short, method, tokens)
        for method in ("attnlrp", "mask-gradient:groups=8"):
            out[f"{short}, delta of {method} minus LOO's"] = _delta(short, method)
    for name in SHORT:
        out[f"sst2-6, over trainings, {name}"] = _over_trainings(name)
    for short in ("sst2-12", "imdb-12"):
        for method in ("attnlrp", "mask-gradient"):
            for removal in REMOVALS if short == "sst2-12" else ("mask-token",):
                out[f"{short}, {method} by {REMOVALS[removal]}"] = _by_removal(short, method, removal)
        for part in PARTS:
            out[f"{short}, error {part}"] = _error_share(short, part)
    return out


@lru_cache(maxsize=2)
def judged_claims(results: str | Path = "results") -> list[Claim]:
    """The paper's claims, tested on the runs of a folder, once; the last on classifiers of other wirings."""
    kept = records(results)
    tested = claims(list(kept.runs.values()), trained_again=kept.beside)
    try:
        groups = wiring_runs(str(results))
    except MissingRecord:
        groups = {}
    return [*tested, wiring_claim(len(tested) + 1, groups)]


def _claims(kept: Records) -> list[Claim]:
    if not kept.runs:
        raise MissingRecord("finding", got="no runs", expected="runs", hint="name the folder of the runs")
    return judged_claims(kept.folder)


def _verdicts(verdict: str) -> Value:
    return lambda kept: [claim.verdict for claim in _claims(kept)].count(verdict)


def _size(short: str) -> Value:
    return lambda kept: kept.text(short).n


def _lead_at_positions(short: str) -> Value:
    """r of the mask gradient, which has no site, minus r of AttnLRP at words and positions; all tokens."""

    def lead(kept: Records) -> Interval:
        run = kept.text(short, frontier=True)
        theirs = run.r("attnlrp", PROTOCOLS[SHORT["positions"]])
        return paired_difference(run.r("mask-gradient", Protocol(tokens="all")), theirs)

    return lead


def _agreement(short: str, method: str) -> Value:
    return lambda kept: kept.text(short).agreement(method, PROTOCOLS[SHORT["words"]])


def _halves(short: str, path: str, name: str) -> Value:
    """The gain of the later half of the layers minus that of the first half, along a path."""

    def difference(kept: Records) -> Interval:
        rows = layer_gains(kept.text(short), path=path)
        return gain_under(rows, PROTOCOLS[SHORT[name]])["later - first"]

    return difference


def _frontier(short: str, method: str, tokens: str) -> Value:
    return lambda kept: kept.text(short, frontier=True).agreement(method, Protocol(tokens=tokens))


def _lead(short: str, method: str, tokens: str) -> Value:
    return lambda kept: kept.text(short, frontier=True).difference(method, "attnlrp", Protocol(tokens=tokens))


def _delta(short: str, method: str) -> Value:
    """LeRF - MoRF of a method minus that of LOO, on the same texts."""

    def difference(kept: Records) -> Interval:
        run = kept.text(short, frontier=True)
        return paired_difference(run.column(method, "delta"), run.column("loo", "delta"))

    return difference


def _over_trainings(name: str) -> Value:
    """CP-LRP minus AttnLRP over trainings and examples: hierarchical bootstrap."""
    protocol = PROTOCOLS[SHORT[name]]

    def difference(kept: Records) -> Interval:
        runs = kept.trainings("sst2-6")
        return over_trainings(
            {run.model: run.r("cp-lrp", protocol) - run.r("attnlrp", protocol) for run in runs}
        )

    return difference


def _by_removal(short: str, method: str, removal: str) -> Value:
    def mean(kept: Records) -> Interval:
        rows = method_rows(kept.with_maps(short), methods=[method])
        (row,) = (row for row in rows if row.get("reference") == removal)
        return row["r"]

    return mean


def _error_share(short: str, part: str) -> Value:
    """The share of LOO minus the mask gradient that a step removes, mean over texts."""
    task = short.split("-")[0]

    def share(kept: Records) -> Interval:
        (record,) = (
            sheet for sheet in kept.sheets("mask-gradient-error") if sheet["config"]["data"].startswith(task)
        )
        return _column([row["share"][part] for row in record["rows"]])

    return share


def _column(values: Any) -> Interval:
    return bootstrap_mean([np.nan if value is None else value for value in values])
