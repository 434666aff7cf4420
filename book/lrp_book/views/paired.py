"""Paired differences of r in tables: mean, median, examples won and Fisher's z; and by the sign at [CLS]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lrp_companion.metrics.paired import Comparison, detectable
from lrp_companion.paper.protocol_grid import AXIS_LABELS, Grid, stated_cells
from lrp_companion.registry import label_of
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


def first_token_table(
    rows: Sequence[Row], *, a: str = "cp-lrp", b: str = "attnlrp", digits: int = 2
) -> Table:
    """Rows of `by_first_sign`: the difference where LOO at [CLS] is below 0, and above."""
    shown = []
    for row in rows:
        sides = {name: row[name] for name in ("below", "above")}
        means = {name: side.mean if side else None for name, side in sides.items()}
        counts = {f"n {name}": side.n if side else 0 for name, side in sides.items()}
        shown.append({"data": row["data"], "run": row["run"], "share": row["share"], **means, **counts})
    columns = {
        "data": "data", "run": "run", "share": "share with LOO at [CLS] > 0",
        "below": "where it is < 0", "n below": "n", "above": "where it is > 0", "n above": "n",
    }  # fmt: skip
    effect = f"{label_of(a)} − {label_of(b)}"
    caption = (
        f"{effect} by the sign of LOO at [CLS]: mean difference of r, words + positions, all tokens, raw maps"
    )
    return table(shown, columns=columns, caption=caption, digits=digits)


def interventions_table(rows: Sequence[Row], *, title: str, digits: int = 2) -> Table:
    """Rows of `interventions`: r with the position relevance of [CLS] or [SEP] left out."""
    methods = [name for name in rows[0] if name not in ("kept", "difference", "n")]
    columns = {"kept": "relevance that is kept", **{name: label_of(name) for name in methods}}
    columns |= {"difference": "difference", "wins": "examples won"}
    shown = [{**row, "difference": row["difference"].mean, "wins": row["difference"].wins} for row in rows]
    caption = f"{title}: mean r with LOO, all tokens, n = {rows[0]['n']:,}"
    return table(shown, columns=columns, caption=caption, digits=digits)


def stated_table(grids: Sequence[Grid], *, digits: int = 2) -> Table:
    """The cells that are left under what the paper states, run by run."""
    rows = []
    for grid in grids:
        for cell in stated_cells(grid):
            rows.append(
                {
                    "data": f"{grid.title}, n = {grid.n:,}",
                    "site": AXIS_LABELS["site"][1][cell["site"]],
                    "tokens": AXIS_LABELS["tokens"][1][cell["tokens"]],
                    **{name: cell[name] for name in ("b", "a", "difference")},
                    "nearer": cell["nearer"],
                }
            )
    columns = {
        "data": "data", "site": "relevance read at", "tokens": "tokens that count",
        "b": label_of(grids[0].b), "a": label_of(grids[0].a), "difference": "difference",
        "nearer": "nearer to LOO",
    }  # fmt: skip
    caption = "Under what the paper states: attention mask, logit, Pearson's r, maps that sum to one"
    return table(rows, columns=columns, caption=caption, digits=digits)
