"""How close every method comes to LOO, and for how many passes, in every wiring. No torch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lrp_book.analysis.wirings import Group, Row
from lrp_book.ch07_remedy import dominated, frontier
from lrp_companion.checks import InputError
from lrp_companion.runs.labelled import mean

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
        by_wiring[name] = frontier(first, methods=METHODS)
    at = {"tokens": "no-special", "statistic": "pearson"}
    r = {name: mean(data.r.sel(at)) for name, data in by_wiring.items()}
    beaten = {name: dominated(data).sel(tokens="no-special") for name, data in by_wiring.items()}
    rows: list[Row] = []
    for method in METHODS:
        costs = [float(data.cost.sel(explainer=method)) for data in by_wiring.values()]
        row: Row = {"method": method, "cost": float(np.mean(costs))}
        row["r"] = {name: means.sel(explainer=method).item() for name, means in r.items()}
        by = {name: wins.sel(explainer=method) for name, wins in beaten.items()}
        row["dominated by"] = {name: tuple(wins.rival.values[wins.values]) for name, wins in by.items()}
        rows.append(row)
    return sorted(rows, key=lambda row: row["cost"])
