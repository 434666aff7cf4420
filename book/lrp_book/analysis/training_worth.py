"""Who leads by each removal, over several trainings of one model. No torch.

Every training explains the same examples, so intervals are over trainings and examples together
(`metrics.paired.over_trainings`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lrp_companion.metrics.paired import compare_paired, over_trainings
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import Protocol

Row = dict[str, Any]


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
