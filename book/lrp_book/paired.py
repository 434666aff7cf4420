"""Two methods on the same examples: the mean difference, and what a mean alone hides, in chapters 5 to 8.

r over sentences is skewed, so a mean difference may rest on a minority. It is reported with the median, the
share of examples that a method wins, and the difference of Fisher's z, which stretches r near 1. If one of
these lies on another side of "no difference" than the mean, the comparison says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrp_book.labels import method_label
from lrp_book.worth import REMOVALS, TOKENS
from lrp_companion.arrays import real_array
from lrp_companion.lab.load import TextRun
from lrp_companion.metrics.statistics import (
    RESAMPLES,
    Interval,
    bootstrap_mean,
    detectable,
    difference_of,
    draw_rows,
    interval_of,
    over_trainings,
    paired_difference,
    side_of_band,
    side_of_zero,
)
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
LEAD = ("mask-gradient", "attnlrp")
NOTE = "examples won: share of examples with a positive difference, a tie counts as a half"
LARGEST_R = 0.999
"""|r| is cut at this value for Fisher's z, which is infinite at 1 (z = 3.80 here)."""


@dataclass(frozen=True)
class Comparison:
    """`a` against `b` on the same examples, made by `compare_paired`.

    Attributes
    ----------
    mean, median : of the paired differences `a - b`.
    wins : the share of examples where `a` is above `b`; a tie counts as half.
    z : mean difference of Fisher's z, artanh(r) with |r| at most 0.999.

    Each is an interval; n and the undefined examples are those of `mean`.
    """

    mean: Interval
    median: Interval
    wins: Interval
    z: Interval

    @property
    def n(self) -> int:
        return self.mean.n

    @property
    def sides(self) -> dict[str, str]:
        """The side of "no difference" of each interval: "above", "below", "across" or "undefined"."""
        measures = {"mean": self.mean, "median": self.median, "z": self.z}
        out = {name: side_of_zero(value) for name, value in measures.items()}
        return out | {"wins": side_of_band(self.wins, 0.5, 0.5)}

    @property
    def disagree(self) -> tuple[str, ...]:
        """Those of "median", "wins" and "z" that do not lie on the same side as the mean."""
        sides = self.sides
        return tuple(name for name in ("median", "wins", "z") if sides[name] != sides["mean"])


def fisher_z(r: Any) -> np.ndarray:
    """Fisher's z, artanh(r), with |r| cut at 0.999; NaN stays NaN.

    >>> fisher_z([0.0, 0.5, 1.0]).round(3).tolist()
    [0.0, 0.549, 3.8]
    """
    return np.arctanh(np.clip(real_array("fisher_z", "r", r), -LARGEST_R, LARGEST_R))


def bootstrap_median(values: Any) -> Interval:
    """Median over examples with its 95 % percentile bootstrap interval, from 10,000 draws.

    >>> print(bootstrap_median([0.2, 0.4, 0.9, float("nan")]))
    0.400 [0.200, 0.900], n = 3 (1 undefined)
    """
    mean = bootstrap_mean(values, resamples=2)  # refuses what is not a column of numbers
    given = real_array("bootstrap_median", "values", values)
    defined = given[~np.isnan(given)]
    if mean.n < 2:
        return Interval(mean.mean, float("nan"), float("nan"), mean.n, mean.undefined)
    medians = np.empty(RESAMPLES)
    for rows, drawn in draw_rows(len(defined), RESAMPLES, 0):
        medians[rows] = np.median(defined[drawn], axis=1)
    return interval_of(float(np.median(defined)), medians, mean.n, mean.undefined)


def win_rate(a: Any, b: Any) -> Interval:
    """The share of examples where `a` is above `b` (a tie counts as half), with its interval.

    >>> print(win_rate([0.5, 0.7, 0.2], [0.4, 0.7, float("nan")]))
    0.750 [0.500, 1.000], n = 2 (1 undefined)
    """
    difference = difference_of("win_rate", a, b)
    won = np.where(np.isnan(difference), np.nan, (np.sign(difference) + 1) / 2)
    return bootstrap_mean(won)


def compare_paired(a: Any, b: Any) -> Comparison:
    """Two columns of r over the same examples: mean and median difference, win rate and Fisher's z.

    Parameters
    ----------
    a, b : shape (examples,); NaN where undefined. An example counts where both are defined.

    >>> result = compare_paired([0.9, 0.8, 0.2], [0.8, 0.7, 0.9])
    >>> print(result.mean, "|", result.wins.text(2))
    -0.167 [-0.700, 0.100], n = 3 | 0.67 [0.00, 1.00]
    """
    mean = paired_difference(a, b)
    x, y = real_array("compare_paired", "a", a), real_array("compare_paired", "b", b)
    return Comparison(
        mean, bootstrap_median(x - y), win_rate(x, y), paired_difference(fisher_z(x), fisher_z(y))
    )


def paired_table(rows: Sequence[Row], *, what: str, heads: Mapping[str, str]) -> Table:
    """Comparisons in rows: `heads` names the columns that say what a row is; `comparison` is the comparison.

    The last column is the smallest effect that n could have shown (power 0.8, two-sided 5 %).
    """
    shown = []
    for row in rows:
        value = row["comparison"]
        sides = ", ".join(COLUMNS[name] for name in value.disagree) or "none"
        cells = {**vars(value), "disagree": sides, "n": value.n, "detectable": detectable(value.mean)}
        shown.append({**row, **cells})
    columns = {**heads, "n": "n", **COLUMNS, "detectable": "n can show"}
    return table(shown, columns=columns, caption=f"{what}, by example. {NOTE}")


def removal_leads(runs: Sequence[TextRun], *, tokens: str = "no-special") -> list[dict[str, Any]]:
    """r of the mask gradient minus AttnLRP's with LOO by each removal that all runs have.

    Returns
    -------
    list
        Rows `removal`, `mask-gradient` and `attnlrp` (mean r), `difference` (intervals over trainings and
        examples), `median` and `wins` over the examples of all trainings, `trainings` (the mean difference of
        each).
    """
    a, b = LEAD
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


def removal_leads_table(rows: Sequence[Row], *, caption: str) -> Table:
    """Rows of `removal_leads`: a line per removal; the trainings' means stand in one column."""
    shown = [
        {
            "LOO by": named([row["removal"]])[row["removal"]],
            **{method_label(name): row[name] for name in LEAD},
            "difference": row["difference"],
            "median": row["median"],
            "examples won": row["wins"],
            "by training": ", ".join(f"{value:+.2f}" for value in row["trainings"]),
            "n": row["n"],
        }
        for row in rows
    ]
    return table(shown, caption=caption)
