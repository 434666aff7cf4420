"""Tables of a few lines, for a chapter's story; their long forms stand on the pages of all numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lrp_companion.paper.tables import PAIRS, table1
from lrp_companion.runs.load import MnistRun
from lrp_companion.show.tables import Table, table

PAIR_NAMES = {"left-right": "left with right", "left-LOO": "left with LOO", "right-LOO": "right with LOO"}


def table1_short(run: MnistRun, *, digits: int = 2) -> Table:
    """Table 1 with raw maps: the explainers that the paper has, each pair of maps next to the paper's."""
    explainers = [row for row in table1(run) if row["left-right, paper"] is not None]
    rows = []
    for row in explainers or table1(run):
        line = {"explainer": row["explainer"]}
        for pair in PAIRS:
            line |= {pair: row[pair], f"{pair}, paper": row[f"{pair}, paper"]}
        rows.append(line)
    columns = {"explainer": "explainer"}
    for pair in PAIRS:
        columns |= {pair: "here", f"{pair}, paper": "paper"}
    groups = {name: [pair, f"{pair}, paper"] for pair, name in PAIR_NAMES.items()}
    caption = (
        f"Mean r between maps, {run.n:,} images, {len(run.seeds)} nets, raw maps; paper: from another net"
    )
    return table(rows, columns=columns, groups=groups, caption=caption, digits=digits)


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
