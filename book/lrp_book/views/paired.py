"""Paired differences of r in tables: mean, median, examples won and Fisher's z."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lrp_companion.metrics.paired import Comparison, detectable
from lrp_companion.show.tables import Table, table

Row = Mapping[str, Any]
COLUMNS = {
    "mean": "mean", "median": "median", "wins": "examples won", "z": "Fisher's z",
    "disagree": "another side than the mean",
}  # fmt: skip
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
