"""The numbers over several trainings of one recipe that sentences name. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from lrp_book.analysis.mean_pooling import pooling_outcomes, pooling_rows
from lrp_book.analysis.predictions import FAILED, MET, MIXED
from lrp_book.analysis.training_worth import removal_leads
from lrp_book.committed import SHORT, SHORT_RECIPE, Records, records
from lrp_book.say import MissingRecord
from lrp_companion.metrics.paired import over_trainings, t_interval
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import PROTOCOLS, REMOVALS

Value = Callable[[Records], Any]
TOKENS = {"words": "no-special", "all tokens": "all"}


def training_catalogue() -> dict[str, Value]:
    """What a sentence can ask of the five trainings, and of those that read the mean, by name."""
    out: dict[str, Value] = {
        "trainings, n": lambda kept: _five(kept)[0].n,
    }
    for name in SHORT:
        out[f"trainings, CP-LRP minus AttnLRP, {name}"] = _effect(name)
        out[f"trainings, CP-LRP minus AttnLRP, {name}, Student's"] = _students(name)
        for end in ("lowest", "highest"):
            out[f"trainings, CP-LRP minus AttnLRP, {name}, {end}"] = _end(name, end)
    for removal in REMOVALS:
        for tokens in TOKENS:
            out[f"trainings, mask gradient minus AttnLRP by {removal}, {tokens}"] = _lead(removal, tokens)
    for reads in ("[CLS]", "mean"):
        for what in ("trainings", "all"):
            out[f"reading {reads}, {what}"] = _pooling(reads, what)
        for end, pick in (("smallest", min), ("largest", max)):
            out[f"reading {reads}, gap, {end}"] = _gap(reads, pick)
    for outcome in (MET, FAILED, MIXED):
        out[f"mean pooling, predictions {outcome}"] = _outcomes(outcome)
    return out


def _five(kept: Records) -> Sequence[TextRun]:
    return kept.trained_again(SHORT_RECIPE)


def _gaps(kept: Records, name: str) -> Mapping[str, np.ndarray]:
    protocol = PROTOCOLS[SHORT[name]]
    return {run.model: run.r("cp-lrp", protocol) - run.r("attnlrp", protocol) for run in _five(kept)}


def _effect(name: str) -> Value:
    return lambda kept: over_trainings(_gaps(kept, name))


def _students(name: str) -> Value:
    return lambda kept: t_interval([np.nanmean(gap) for gap in _gaps(kept, name).values()])


def _end(name: str, end: str) -> Value:
    """The lowest or the highest mean difference of a training."""
    pick = {"lowest": min, "highest": max}[end]
    return lambda kept: pick(float(np.nanmean(gap)) for gap in _gaps(kept, name).values())


@lru_cache(maxsize=4)
def leads(results: str, tokens: str) -> list[dict[str, Any]]:
    """`removal_leads` of the five trainings in a folder of records, once."""
    return removal_leads(_five(records(results)), tokens=tokens)


@lru_cache(maxsize=2)
def read_outs(results: str) -> list[dict[str, Any]]:
    """`pooling_rows` of the 6-layer models that read [CLS] and of those that read the mean, once."""
    return pooling_rows(*both_read_outs(records(results)))


def both_read_outs(kept: Records) -> tuple[Sequence[TextRun], Sequence[TextRun]]:
    """The trainings of one recipe whose classifier reads [CLS], and those where it reads the mean."""
    if not kept.reading_mean:
        expected, hint = "runs of models that read the mean", "name the folder of the runs"
        raise MissingRecord("finding", got="no folder mean-pooling", expected=expected, hint=hint)
    return _five(kept), kept.reading_mean


def _lead(removal: str, tokens: str) -> Value:
    def value(kept: Records) -> Any:
        (row,) = (row for row in leads(kept.folder, TOKENS[tokens]) if row["removal"] == removal)
        return row["difference"]

    return value


def _pooling(reads: str, what: str) -> Value:
    def value(kept: Records) -> Any:
        (row,) = (row for row in read_outs(kept.folder) if row["reads"] == reads)
        return row[what]

    return value


def _gap(reads: str, pick: Callable[[Sequence[float]], float]) -> Value:
    """The smallest or the largest `sign_gap` of a training."""
    return lambda kept: pick(_pooling(reads, "gaps")(kept))


def _outcomes(outcome: str) -> Value:
    def count(kept: Records) -> int:
        rows = pooling_outcomes(*both_read_outs(kept))
        return sum(row["outcome"] == outcome for row in rows)

    return count
