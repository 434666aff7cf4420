"""What r is worth and who leads, over several trainings of one model. No torch.

Every training explains the same examples, so intervals are over trainings and examples together
(`metrics.paired.over_trainings`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lrp_book.analysis.r_scale import worth_columns
from lrp_companion.checks import InputError
from lrp_companion.metrics.paired import compare_paired, over_trainings
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import Protocol

Row = dict[str, Any]
METHODS = ("mask-gradient:groups=8", "mask-gradient", "attnlrp", "cp-lrp")


def worth_over_trainings(
    runs: Sequence[TextRun], *, tokens: str = "no-special", methods: Sequence[str] = METHODS
) -> list[Row]:
    """r of each method with its model's LOO, beside what the LOO of another training reaches.

    Parameters
    ----------
    runs : trainings of one model that kept their maps; each in turn is the model that is explained, and the
        others are its references.

    Returns
    -------
    list
        A row per method, all numbers with intervals over trainings and examples: `own` (r with this model's
        LOO), `other` (with another training's), `beyond` (own minus other), `partial` (partial r with this
        model's LOO, the other's given), `ceiling` (r of LOO with another training's LOO), `lead` (own minus
        ceiling: above 0, the method is closer to this model's LOO than another training's LOO is).

    Raises
    ------
    InputError : fewer than two trainings, or a run that kept no maps.
    """
    if len(runs) < 2:
        hint = "train the model again with another --seed"
        raise InputError("worth_over_trainings", got=f"{len(runs)} runs", expected="two or more", hint=hint)
    rows = []
    for method in methods:
        r = {
            run.model: worth_columns(run, [one for one in runs if one is not run], method, tokens=tokens)
            for run in runs
        }
        for columns in r.values():
            columns["beyond"] = columns["own"] - columns["other"]
            columns["lead"] = columns["own"] - columns["ceiling"]
        means = {
            name: over_trainings({model: columns[name] for model, columns in r.items()})
            for name in ("own", "other", "beyond", "partial", "ceiling", "lead")
        }
        rows.append({"method": method, "tokens": tokens, "trainings": len(runs), **means})
    return rows


def removal_leads(
    runs: Sequence[TextRun],
    *,
    a: str = "mask-gradient",
    b: str = "attnlrp",
    tokens: str = "no-special",
) -> list[Row]:
    """r of `a` minus r of `b` with LOO by each removal that all runs have, over trainings and examples.

    Returns
    -------
    list
        Rows `removal`, `a` and `b` (mean r), `difference` (intervals over trainings and examples), `median`
        and `wins` over the examples of all trainings, `trainings` (the mean difference of each).
    """
    shared = [
        name
        for name in runs[0].manifest["axes"]["removal"]
        if all(name in run.manifest["axes"]["removal"] for run in runs)
    ]
    rows = []
    for removal in shared:
        protocol = Protocol(tokens=tokens, removal=removal)
        r = {method: {run.model: run.r(method, protocol) for run in runs} for method in (a, b)}
        gaps = {model: r[a][model] - r[b][model] for model in r[a]}
        pooled = compare_paired(*(np.concatenate(list(r[method].values())) for method in (a, b)))
        row: Row = {"removal": removal, "tokens": tokens, "difference": over_trainings(gaps)}
        row |= {method: over_trainings(columns) for method, columns in r.items()}
        row["trainings"] = tuple(float(np.nanmean(gap)) for gap in gaps.values())
        rows.append({**row, "median": pooled.median, "wins": pooled.wins, "n": runs[0].n})
    return rows
