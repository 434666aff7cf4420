"""The numbers in the first sentences of chapter 8: names that `findings.finding` knows. No torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from lrp_book.analysis.predictions import FAILED, MET, MIXED
from lrp_book.analysis.wirings import (
    GATES,
    READINGS,
    WIRINGS,
    Group,
    Row,
    effect_rows,
    load_wirings,
    outcomes,
    over_runs,
    worth_rows,
)
from lrp_book.committed import Records
from lrp_book.say import MissingRecord
from lrp_companion.checks import SourceError
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import Protocol

Value = Callable[[Records], Any]
FOLDER = "wirings"
WORDS, RANKS = READINGS["words"], replace(READINGS["words"], statistic="spearman")


def wiring_catalogue() -> dict[str, Value]:
    """What chapter 8 can ask for, by name."""
    out: dict[str, Value] = {}
    for wiring in WIRINGS:
        out[f"{wiring}, n"] = _of_group(wiring, lambda runs: runs[0].n)
        out[f"{wiring}, trainings"] = _of_group(wiring, len)
        for reading in READINGS:
            for what in ("d", "wins", "attnlrp", "cp-lrp", "mask-gradient", "gradient-x-input"):
                name = "CP-LRP minus AttnLRP" if what == "d" else what
                out[f"{wiring}, {name}, {reading}"] = _effect(wiring, reading, what)
            by_rank = _effect(wiring, reading, "d", statistic=RANKS.statistic)
            out[f"{wiring}, CP-LRP minus AttnLRP, {reading}, Spearman"] = by_rank
        lead = "mask gradient minus AttnLRP"
        out[f"{wiring}, {lead}"] = _mean(wiring, _gap("mask-gradient", "attnlrp"))
        out[f"{wiring}, {lead}, Spearman"] = _mean(wiring, _gap("mask-gradient", "attnlrp", RANKS))
        for method in ("attnlrp", "cp-lrp", "mask-gradient"):
            for what in ("own", "other", "ceiling"):
                out[f"{wiring}, worth of {method}, {what}"] = _worth(wiring, method, what)
    for wiring in ("modernbert", "llama"):
        out[f"{wiring}, grouping, uniform minus right"] = _mean(wiring, _gap("attnlrp", "attnlrp:gate=right"))
        for method, share in GATES.items():
            out[f"{wiring}, AttnLRP with a share of {share}"] = _mean(wiring, _r_of(method))
    for outcome in (MET, FAILED, MIXED):
        out[f"wirings, predictions {outcome}"] = _outcomes(outcome)
    out["wirings, predictions"] = lambda kept: len(_judged(kept.folder))
    return out


@lru_cache(maxsize=2)
def wiring_runs(results: str) -> dict[str, Group]:
    """The runs of the small classifiers in a folder of records.

    Raises
    ------
    MissingRecord : there are none.
    """
    try:
        return dict(load_wirings(f"{results}/{FOLDER}"))
    except SourceError:
        expected = "runs of small classifiers"
        hint = "name the folder of the runs"
        raise MissingRecord("finding", got=f"no {FOLDER}", expected=expected, hint=hint) from None


@lru_cache(maxsize=4)
def _effects(results: str, statistic: str) -> list[Row]:
    return effect_rows(wiring_runs(results), statistic=statistic)


@lru_cache(maxsize=2)
def _judged(results: str) -> list[Row]:
    return outcomes(wiring_runs(results))


def _group(kept: Records, wiring: str) -> Group:
    groups = wiring_runs(kept.folder)
    if wiring not in groups:
        expected = f"one of {', '.join(groups)}"
        raise MissingRecord(
            "finding", got=f"no runs of {wiring}", expected=expected, hint="name the folder of the runs"
        )
    return groups[wiring]


def _of_group(wiring: str, what: Callable[[Group], Any]) -> Value:
    return lambda kept: what(_group(kept, wiring))


def _only(rows: list[Row], what: str, **at: str) -> Any:
    """A column of the one row with these entries."""
    rows = [row for row in rows if at.items() <= row.items()]
    if not rows or what not in rows[0]:
        got = f"no {what} of {', '.join(at.values())}"
        expected = "a reading and a method of these runs"
        raise MissingRecord("finding", got=got, expected=expected, hint="name the folder of the runs")
    return rows[0][what]


def _effect(wiring: str, reading: str, what: str, *, statistic: str = WORDS.statistic) -> Value:
    return lambda kept: _only(_effects(kept.folder, statistic), what, wiring=wiring, reading=reading)


def _worth(wiring: str, method: str, what: str) -> Value:
    return lambda kept: _only(worth_rows({wiring: _group(kept, wiring)}), what, wiring=wiring, method=method)


def _mean(wiring: str, column: Callable[[TextRun], np.ndarray]) -> Value:
    """The mean of a column of every training at the words, over trainings and examples."""

    def mean(kept: Records) -> Any:
        runs = _group(kept, wiring)
        return over_runs(runs, [column(run) for run in runs])

    return mean


def _r_of(method: str) -> Callable[[TextRun], np.ndarray]:
    return lambda run: run.r(method)


def _gap(a: str, b: str, protocol: Protocol = WORDS) -> Callable[[TextRun], np.ndarray]:
    return lambda run: run.r(a, protocol) - run.r(b, protocol)


def _outcomes(outcome: str) -> Value:
    return lambda kept: [row["outcome"] for row in _judged(kept.folder)].count(outcome)
