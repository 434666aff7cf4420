"""The report on runs: reading them, and all their tables and claims as plain values. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from lrp_companion.checks import SourceError
from lrp_companion.metrics import Interval
from lrp_companion.paper.claims import Claim, claims
from lrp_companion.paper.tables import (
    MAP_SUFFIXES,
    Row,
    answers,
    figure2,
    named,
    not_run,
    ran,
    table1,
    table2,
    tableA3,
)
from lrp_companion.runs.load import AnswerRun, AnyRun, MnistRun, TextRun, load_runs, nearby
from lrp_companion.schema import PROTOCOLS

__all__ = [
    "PROTOCOLS",
    "as_plain",
    "claims",
    "figure2",
    "find_runs",
    "find_trainings",
    "not_run",
    "ran",
    "report_rows",
    "table1",
    "table2",
    "tableA3",
]


def find_runs(results: str | Path = "results") -> list[AnyRun]:
    """Read the runs in a folder, which may be here or in a folder above.

    Raises
    ------
    SourceError : there is no such folder, no run in it, or one that cannot be read.
    """
    return load_runs([nearby(results)])


def find_beside(results: str | Path, name: str) -> list[AnyRun]:
    """Read the runs in a folder of `results`, such as "maps" or "frontier"; none if it does not exist.

    Raises
    ------
    SourceError : there is no folder `results`, or a run cannot be read.
    """
    folder = nearby(results) / name
    return load_runs([folder]) if folder.is_dir() else []


def find_trainings(results: str | Path = "results") -> list[list[TextRun]]:
    """Read runs of models trained again with another seed, from the folder `trainings` in `results`.

    The name of a model that was trained again is that of the first one, then `-seed-` and the seed, as in
    `companion-6-seed-1`. Models `name-seed-0`, `name-seed-1`, ... without a first one of the plain name are
    a group of their own.

    Returns
    -------
    list
        First a list for each run in `results` whose model was trained again and run on the same task: the
        run itself, then the others, by name. Then the groups of their own. Empty if there is no folder
        `trainings`.

    Raises
    ------
    SourceError : there is no folder of runs, no run in it, or one that cannot be read.

    >>> [[run.model for run in group] for group in find_trainings("results")]  # doctest: +SKIP
    """
    folder = nearby(results) / "trainings"
    repeats = [run for run in load_runs([folder]) if isinstance(run, TextRun)] if folder.is_dir() else []
    groups: dict[tuple[str, str], list[TextRun]] = {}
    for run in sorted(repeats, key=lambda run: run.model):
        groups.setdefault((run.task, run.model.rpartition("-seed-")[0]), []).append(run)
    firsts = {(run.task, run.model): run for run in find_runs(results) if isinstance(run, TextRun)}
    begun = [[first, *groups.pop(key)] for key, first in firsts.items() if key in groups]
    return [*begun, *(group for (_, model), group in groups.items() if model and len(group) > 1)]


def as_plain(value: Any) -> Any:
    """Rows, intervals and claims as values that JSON can hold; undefined numbers become None.

    >>> as_plain({"r": Interval(0.5, 0.25, float("nan"), 3)})
    {'r': {'mean': 0.5, 'low': 0.25, 'high': None, 'n': 3, 'undefined': 0, 'level': 0.95}}
    """
    if isinstance(value, Claim):
        return as_plain({"verdict": value.verdict, "by run": value.by_run(), **asdict(value)})
    if isinstance(value, Interval):
        return as_plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_plain(item) for item in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value


def report_rows(runs: Sequence[AnyRun]) -> dict[str, Any]:
    """All tables, what was run and was not, and the claims, as plain values."""
    if not runs:
        hint = "make one with lrp-companion run"
        raise SourceError("report", got="no runs", expected="at least one", hint=hint)
    known = named(runs)
    tables = {run.name: _tables(run) for run in known}
    rows = {"runs": ran(known), "not run": not_run(runs), "tables": tables, "claims": claims(runs)}
    return as_plain(rows)


def _tables(run: AnyRun) -> Row:
    """The tables of a run, by protocol, or for a run on digits by map."""
    if isinstance(run, MnistRun):
        return {f"{map} maps": {"table1": table1(run, map=map)} for map in MAP_SUFFIXES}
    if isinstance(run, AnswerRun):
        return {"answers": answers(run)}
    if not isinstance(run, TextRun):
        return {}
    tables: Row = {}
    for name, protocol in PROTOCOLS.items():
        tables[name] = {"protocol": str(protocol), "table2": table2(run, protocol=protocol)}
        if run.masks:
            tables[name]["tableA3"] = tableA3(run, protocol=protocol)
    return tables
