"""The report on runs: which there are, and all tables and claims as plain values. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from lrp_companion.analysis.paper_claims import Claim, claims
from lrp_companion.analysis.paper_tables import (
    MAP_SUFFIXES,
    Row,
    figure2,
    named,
    not_run,
    ran,
    table1,
    table2,
    tableA3,
)
from lrp_companion.metrics import Interval
from lrp_companion.runs.load import AnyRun, MnistRun, TextRun, load_runs, nearby
from lrp_companion.schema import PROTOCOLS, SourceError

__all__ = [
    "PROTOCOLS", "as_plain", "claims", "figure2", "find_runs", "find_trainings", "not_run", "ran",
    "report_rows",
    "table1", "table2", "tableA3",
]  # fmt: skip


def find_runs(results: str | Path = "results") -> list[AnyRun]:
    """Read the runs in a folder, which is looked for here and in the folders above.

    Raises
    ------
    SourceError : there is no such folder, no run in it, or one that cannot be read.
    """
    return load_runs([nearby(results)])


def find_trainings(results: str | Path = "results") -> list[list[TextRun]]:
    """Read runs of models that were trained again with another seed: those in the folder `trainings` of a
    folder of runs.

    A model that was trained again is called as the first one, then `-seed-` and the seed, as in
    `companion-6-seed-1`.

    Returns
    -------
    list
        A list for each run of the folder that has such others on the same task: the run itself, then those,
        by name. Empty if there is no folder `trainings`.

    Raises
    ------
    SourceError : there is no folder of runs, no run in it, or one that cannot be read.

    >>> [[run.model for run in group] for group in find_trainings("results")]  # doctest: +SKIP
    """
    folder = nearby(results) / "trainings"
    again = [run for run in load_runs([folder]) if isinstance(run, TextRun)] if folder.is_dir() else []
    groups = []
    for run in find_runs(results):
        if isinstance(run, TextRun):
            own = [
                other
                for other in again
                if other.task == run.task and other.model.startswith(f"{run.model}-seed-")
            ]
            groups += [[run, *sorted(own, key=lambda other: other.model)]] if own else []
    return groups


def as_plain(value: Any) -> Any:
    """Rows, intervals and claims as what JSON can hold; what is undefined becomes None.

    >>> as_plain({"r": Interval(0.5, 0.25, float("nan"), 3)})
    {'r': {'mean': 0.5, 'low': 0.25, 'high': None, 'n': 3, 'undefined': 0, 'level': 0.95}}
    """
    if isinstance(value, Claim):
        return as_plain({"verdict": value.verdict, "by run": value.by_run(), **asdict(value)})
    if isinstance(value, Interval):
        return as_plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): as_plain(own) for key, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_plain(own) for own in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value


def report_rows(runs: Sequence[AnyRun]) -> dict[str, Any]:
    """All tables, what was run and was not, and the claims, as plain values."""
    if not runs:
        raise SourceError(
            "report", got="no runs", expected="at least one", hint="make one with lrp-companion run"
        )
    tables: dict[str, Row] = {}
    for run in named(runs):
        own: Row = tables.setdefault(run.name, {})
        if isinstance(run, MnistRun):
            own |= {f"{map} maps": {"table1": table1(run, map=map)} for map in MAP_SUFFIXES}
        if not isinstance(run, TextRun):
            continue
        for name, protocol in PROTOCOLS.items():
            own[name] = {"protocol": str(protocol), "table2": table2(run, protocol=protocol)}
            if run.masks:
                own[name]["tableA3"] = tableA3(run, protocol=protocol)
    return as_plain(
        {"runs": ran(named(runs)), "not run": not_run(runs), "tables": tables, "claims": claims(runs)}
    )
