"""The lead by each removal, and names of removals and tokens in words (chapter 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lrp_book.labels import method_label
from lrp_book.worth import REMOVALS, TOKENS
from lrp_companion.show.tables import Table, table

Row = Mapping[str, Any]
LEAD_COLUMNS = ("removal", "tokens", "difference", "median", "wins", "trainings", "n")


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
        "label": "LOO by", a: method_label(a), b: method_label(b), "difference": "difference",
        "median": "median", "wins": "examples won", "each": "by training", "n": "n",
    }  # fmt: skip
    return table(shown, columns=columns, caption=caption, digits=digits)
