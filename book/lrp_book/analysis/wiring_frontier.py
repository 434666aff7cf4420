"""How close every method comes to LOO, and for how many passes, in every wiring. No torch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lrp_book.analysis.cost_frontier import frontier
from lrp_book.analysis.wirings import Group, Row
from lrp_companion.checks import InputError

METHODS = (
    "attnlrp", "cp-lrp", "mask-gradient", "mask-gradient:groups=4", "mask-gradient:groups=8",
    "hybrid:exact=4", "hybrid:exact=8", "loo",
)  # fmt: skip
"""What is compared: two rule sets, and one to many passes through the true model."""


def wiring_frontier(groups: Mapping[str, Group]) -> list[Row]:
    """Cost and r with LOO at the words of every method in every wiring, on its first training.

    Parameters
    ----------
    groups : of `analysis.wirings.load_wirings`.

    Returns
    -------
    list
        A row per method of `METHODS`, the cheapest first: `method`; `cost`: forward and backward passes, the
        mean over examples and wirings; `r`: an interval by wiring; `dominated by`, by wiring: the methods
        that cost no more and whose r is higher, the whole interval of the difference on one side of 0.

    Raises
    ------
    InputError : a first training without one of the methods.

    >>> wiring_frontier(load_wirings())[-1]["method"]  # doctest: +SKIP
    'loo'
    """
    by_wiring = {}
    for name, (first, *_) in groups.items():
        missing = [method for method in METHODS if method not in first.methods]
        if missing:
            got, expected = f"{first.name} without {', '.join(missing)}", f"a run with {', '.join(METHODS)}"
            raise InputError("wiring_frontier", got=got, expected=expected, hint="run it with --methods")
        by_wiring[name] = {row["method"]: row for row in frontier(first, methods=METHODS)}
    rows = []
    for method in METHODS:
        of_method = {name: rows_of[method] for name, rows_of in by_wiring.items()}
        row: Row = {"method": method, "cost": float(np.mean([one["cost"] for one in of_method.values()]))}
        row["r"] = {name: one["r"]["pearson"]["no-special"] for name, one in of_method.items()}
        row["dominated by"] = {name: one["dominated by"]["no-special"] for name, one in of_method.items()}
        rows.append(row)
    return sorted(rows, key=lambda row: row["cost"])
