"""Do the findings on wirings hang on the length of training? The same wirings after fewer steps. No torch.

The runs after fewer steps are kept as their means alone (`effects_record`), made from runs of the same
command that an earlier commit has in full.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lrp_book.analysis.wirings import Group, Row, effect_rows
from lrp_companion.checks import SourceError
from lrp_companion.metrics.statistics import Interval
from lrp_companion.runs.load import nearby

FILE = "wirings-2000-steps.json"
METHODS = ("attnlrp", "cp-lrp", "mask-gradient")


def effects_record(groups: Mapping[str, Group], trainings: Mapping[str, Sequence[Row]]) -> Row:
    """What is kept of runs: of each what it was made with, of each wiring and reading `effect_rows`.

    Parameters
    ----------
    trainings : of `wirings.training_records`, of the same models.
    """
    runs = [
        {
            "run": run.name, "wiring": name, **trained, "config": run.manifest["config"],
            "sessions": run.manifest["sessions"],
        }
        for name, group in groups.items()
        for run, trained in zip(group, trainings[name], strict=True)
    ]  # fmt: skip
    effects = [
        {
            "wiring": row["wiring"], "reading": row["reading"], "n": row["n"],
            "trainings": [round(value, 6) for value in row["trainings"]],
            **{what: _plain(row[what]) for what in ("d", *METHODS)},
        }
        for row in effect_rows(groups)
    ]  # fmt: skip
    return {"runs": runs, "effects": effects}


def load_effects(file: str | os.PathLike[str] = f"results/{FILE}") -> Row:
    """The record, with its means as intervals; a relative path may start here or in a folder above.

    Raises
    ------
    SourceError : there is no such file.
    """
    given = Path(file)
    path = nearby(given.parent) / given.name
    if not path.is_file():
        hint = "name the file; effects_record makes one"
        raise SourceError("load_effects", got=f"no {given}", expected="a record of effects", hint=hint)
    record: Row = json.loads(path.read_text(encoding="utf-8"))
    effects = [
        {**row, **{what: Interval(**row[what]) for what in ("d", *METHODS)}} for row in record["effects"]
    ]
    return {**record, "effects": effects}


def steps_rows(
    groups: Mapping[str, Group], trainings: Mapping[str, Sequence[Row]], *records: Mapping[str, Any]
) -> list[Row]:
    """CP-LRP minus AttnLRP after fewer steps and after more, in the wirings of the records.

    Parameters
    ----------
    records : of `load_effects`, in the order of the rows.

    Returns
    -------
    list
        Rows `wiring`, `reading`, `steps`, `numbers`; `trainings`, `d`, and mean r of `METHODS`, as in
        `effect_rows`; for each wiring and reading those of the records first.
    """
    rows = []
    for after in effect_rows(groups):
        name, reading = after["wiring"], after["reading"]
        before = [
            ([run for run in record["runs"] if run["wiring"] == name], row)
            for record in records
            for row in record["effects"]
            if (row["wiring"], row["reading"]) == (name, reading)
        ]
        for trained, row in (*before, (trainings[name], after)) if before else ():
            ((steps, numbers),) = {(run["steps"], run["numbers"]) for run in trained}  # one recipe
            kept = {key: row[key] for key in ("wiring", "reading", "d", "trainings", *METHODS)}
            rows.append({**kept, "steps": steps, "numbers": numbers})
    return rows


def _plain(value: Interval) -> dict[str, float]:
    limits = {name: round(getattr(value, name), 6) for name in ("mean", "low", "high")}
    return {**limits, "n": value.n, "undefined": value.undefined}
