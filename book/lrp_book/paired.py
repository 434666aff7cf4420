"""Paired differences of r in tables that chapters 6 and 7 share: mean, median, examples won, by removal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lrp_book.labels import method_label
from lrp_book.worth import REMOVALS, TOKENS
from lrp_companion.metrics.paired import Comparison, compare_paired, detectable, over_trainings
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import Protocol
from lrp_companion.show.tables import Table, table

Row = Mapping[str, Any]
COLUMNS = {
    "mean": "mean",
    "median": "median",
    "wins": "examples won",
    "z": "Fisher's z",
    "disagree": "another side than the mean",
}
LEAD_COLUMNS = ("removal", "tokens", "difference", "median", "wins", "trainings", "n")
NOTE = "examples won: share of examples with a positive difference, a tie counts as a half"


def comparison_cells(value: Comparison) -> dict[str, Any]:
    """The columns of one comparison."""
    sides = ", ".join(COLUMNS[name] for name in value.disagree) or "none"
    return {"mean": value.mean, "median": value.median, "wins": value.wins, "z": value.z, "disagree": sides}


def paired_table(rows: Sequence[Row], *, what: str, heads: Mapping[str, str], digits: int = 2) -> Table:
    """Comparisons in rows: `heads` names the columns that say what a row is; `comparison` is the comparison.

    The last column is the smallest effect that n could have shown (power 0.8, two-sided 5 %).
    """
    shown = [
        {
            **row,
            **comparison_cells(row["comparison"]),
            "n": row["comparison"].n,
            "detectable": detectable(row["comparison"].mean),
        }
        for row in rows
    ]
    columns = {**heads, "n": "n", **COLUMNS, "detectable": "n can show"}
    return table(shown, columns=columns, caption=f"{what}, by example. {NOTE}", digits=digits)


def removal_leads(
    runs: Sequence[TextRun],
    *,
    a: str = "mask-gradient",
    b: str = "attnlrp",
    tokens: str = "no-special",
) -> list[dict[str, Any]]:
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
        row: dict[str, Any] = {"removal": removal, "tokens": tokens, "difference": over_trainings(gaps)}
        row |= {method: over_trainings(columns) for method, columns in r.items()}
        row["trainings"] = tuple(float(np.nanmean(gap)) for gap in gaps.values())
        rows.append({**row, "median": pooled.median, "wins": pooled.wins, "n": runs[0].n})
    return rows


def named(removals: Sequence[str] | Mapping[str, Any]) -> dict[str, str]:
    """Removals in words."""
    return {name: REMOVALS.get(name, name) for name in removals}


def tokens_label(tokens: str) -> str:
    """Which tokens count, in words."""
    return TOKENS[tokens]


def removal_leads_table(rows: Sequence[Row], *, caption: str, digits: int = 2) -> Table:
    """Rows of `removal_leads`: a line per removal; the trainings' means stand in one column."""
    a, b = [name for name in rows[0] if name not in LEAD_COLUMNS]
    shown = [
        {
            **row,
            "label": named([row["removal"]])[row["removal"]],
            "each": ", ".join(f"{value:+.{digits}f}" for value in row["trainings"]),
        }
        for row in rows
    ]
    columns = {
        "label": "LOO by",
        a: method_label(a),
        b: method_label(b),
        "difference": "difference",
        "median": "median",
        "wins": "examples won",
        "each": "by training",
        "n": "n",
    }
    return table(shown, columns=columns, caption=caption, digits=digits)
