"""Tables of a few lines, for a chapter's story; their long forms stand on the pages of all numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lrp_companion.paper.protocol_grid import AXIS_LABELS, Grid, counts, stated_cells
from lrp_companion.registry import label_of
from lrp_companion.show.tables import Table, table


def stated_matrix(grids: Sequence[Grid], *, digits: int = 2) -> Table:
    """The difference of r in the cells that the paper's own choices leave: a column per run."""
    cells = {grid.title: stated_cells(grid) for grid in grids}
    rows = []
    for k, cell in enumerate(next(iter(cells.values()))):
        head = {
            "site": AXIS_LABELS["site"][1][cell["site"]],
            "tokens": AXIS_LABELS["tokens"][1][cell["tokens"]],
        }
        rows.append({**head, **{title: of_run[k]["difference"] for title, of_run in cells.items()}})
    columns = {
        "site": "relevance read at",
        "tokens": "tokens that count",
        **{title: title for title in cells},
    }
    difference = f"{label_of(grids[0].a)} − {label_of(grids[0].b)}"
    sizes = "; ".join(f"{grid.title}: n = {grid.n:,}" for grid in grids)
    caption = f"{difference}, mean difference of r, in the cells that the paper's own choices leave. {sizes}"
    return table(rows, columns=columns, caption=caption, digits=digits)


def won_table(
    rows: Sequence[Mapping[str, Any]], *, what: str, heads: Mapping[str, str], digits: int = 2
) -> Table:
    """Comparisons in rows, as `paired_table` has them: mean and median difference and examples won."""
    shown = [
        {**row, "mean": row["comparison"].mean, "median": row["comparison"].median,
         "wins": row["comparison"].wins, "n": row["comparison"].n}
        for row in rows
    ]  # fmt: skip
    columns = {**heads, "mean": "mean", "median": "median", "wins": "examples won", "n": "n"}
    caption = f"{what}: mean and median difference, and the share of examples in which it is above 0"
    return table(shown, columns=columns, caption=caption, digits=digits)


def cells_table(grids: Sequence[Grid], *, digits: int = 2) -> Table:
    """On which side of 0 the whole interval lies, cell by cell of the grid: a line per run."""
    rows = [{"data": f"{grid.title}, n = {grid.n:,}", **counts(grid)} for grid in grids]
    first, second = label_of(grids[0].a), label_of(grids[0].b)
    columns = {
        "data": "data", "cells": "cells", "above": f"{first} nearer", "below": f"{second} nearer",
        "across": "open", "smallest": "smallest effect", "largest": "largest effect",
    }  # fmt: skip
    caption = f"Cells of the grid by the side of {first} − {second}"
    return table(rows, columns=columns, caption=caption, digits=digits)
