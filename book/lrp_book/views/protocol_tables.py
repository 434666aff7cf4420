"""The protocol audit in tables: counts, variances, signs of sums, gains of layers, subgroups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lrp_book.analysis.effect_causes import late_counts
from lrp_book.views.protocol_grid import difference, needs
from lrp_companion.metrics import Interval
from lrp_companion.paper.protocol_grid import AXIS_LABELS, PROTOCOL_AXES, Grid, anova, counts, presets
from lrp_companion.registry import label_of
from lrp_companion.schema import PROTOCOLS, Protocol
from lrp_companion.show.tables import Table, table

Row = Mapping[str, Any]


def by_tokens_and_map(axes: Mapping[str, Sequence[str]]) -> dict[str, dict[str, str]]:
    """Subsets of a grid by name: all combinations, then those with each choice of tokens and map."""
    subsets: dict[str, dict[str, str]] = {"all combinations": {}}
    for tokens in axes["tokens"]:
        for map in axes["map"]:
            name = f"{AXIS_LABELS['tokens'][1][tokens]}; {AXIS_LABELS['map'][1][map]}"
            subsets[name] = {"tokens": tokens, "map": map}
    return subsets


def counts_table(grid: Grid, *, digits: int = 2) -> Table:
    """How many cells lie on which side: over all, and by tokens and map."""
    rows = [
        {"which": name, **counts(grid, **fixed)} for name, fixed in by_tokens_and_map(grid.distinct).items()
    ]
    columns = {
        "which": "tokens; map", "cells": "cells", "above": "above 0", "across": "across 0",
        "below": "below 0",
        "smallest": "smallest effect", "largest": "largest effect",
    }  # fmt: skip
    if any(row["undefined"] for row in rows):
        columns["undefined"] = "undefined"
    where = f"cells by where the whole 95 % interval of {difference(grid)} lies"
    return table(rows, columns=columns, caption=f"{grid.title}, n = {grid.n:,}: {where}", digits=digits)


def presets_table(grids: Sequence[Grid], *, digits: int = 2) -> Table:
    """The presets of the switchboard: choices, both methods and their difference."""
    needs("presets_table", grids, "grids")
    rows = []
    for label, grid, protocol in presets(grids):
        choices = "; ".join(AXIS_LABELS[name][1][getattr(protocol, name)] for name in PROTOCOL_AXES)
        name = f"{label} ({grid.title})"
        rows.append({"cell": name, "choices": choices, **grid.cell(protocol), "n": grid.n})
    columns = {
        "cell": "cell", "choices": "choices", "b": label_of(grids[0].b), "a": label_of(grids[0].a),
        "difference": difference(grids[0]), "n": "n",
    }  # fmt: skip
    return table(rows, columns=columns, caption="The presets of the switchboard", digits=digits)


def protocols_table(
    grids: Sequence[Grid], *, protocols: Mapping[str, Protocol] = PROTOCOLS, digits: int = 2
) -> Table:
    """Both methods and their difference under a few protocols, run by run."""
    needs("protocols_table", grids, "grids")
    rows = [
        {**grid.cell(protocol), "protocol": name, "run": grid.title, "n": grid.n}
        for name, protocol in protocols.items()
        for grid in grids
    ]
    columns = {
        "protocol": "protocol", "run": "run", "n": "n", "b": label_of(grids[0].b), "a": label_of(grids[0].a),
        "difference": difference(grids[0]),
    }  # fmt: skip
    caption = "Mean r with LOO and paired difference, each with its 95 % interval"
    return table(rows, columns=columns, caption=caption, digits=digits)


def anova_table(grids: Sequence[Grid], *, interactions: int = 5) -> Table:
    """The fraction of the variance of the effect over the cells that each choice, and each of the strongest
    pairs of choices, explains.
    """
    needs("anova_table", grids, "grids")
    shares = {grid.run: {row["choices"]: row["share"] for row in anova(grid)} for grid in grids}
    singles = [name for name in PROTOCOL_AXES if len(grids[0].distinct[name]) > 1]
    caption = f"Fraction of the variance of {difference(grids[0])} over the cells (analysis of variance)"
    columns = {grid.run: f"{grid.title}, n = {grid.n:,}" for grid in grids}
    return variance_table(
        shares, singles=singles, words=AXIS_LABELS, pairs=interactions, columns=columns, caption=caption
    )


def variance_table(
    shares: Mapping[str, Mapping[tuple[str, ...], float]],
    *,
    singles: Sequence[str],
    words: Mapping[str, Sequence[Any]],
    pairs: int,
    columns: Mapping[str, str],
    caption: str,
) -> Table:
    """Fractions of a variance, a column each: every single choice, the pairs that are strongest in any
    column, and the rest.
    """
    choices = dict.fromkeys(choice for column in shares.values() for choice in column)
    ranked = [choice for choice in choices if len(choice) == 2]
    ranked.sort(key=lambda pair: -max(column.get(pair, 0) for column in shares.values()))
    kept: list[tuple[str, ...]] = [*((name,) for name in singles), *ranked[:pairs]]
    rows: list[Row] = [
        {
            "choice": " × ".join(words[name][0] for name in choice),
            **{what: percent(column.get(choice)) for what, column in shares.items()},
        }
        for choice in kept
    ]
    rest = {
        what: percent(1 - sum(column.get(choice, 0) for choice in kept)) for what, column in shares.items()
    }
    rows.append({"choice": "all else together", **rest})
    return table(rows, columns={"choice": "choice", **columns}, caption=caption)


def percent(share: float | None) -> str:
    """A fraction as a percentage; empty where there is none."""
    return "" if share is None or np.isnan(share) else f"{100 * share:.1f} %"


def signs_table(rows: Sequence[Row], *, caption: str, digits: int = 2) -> Table:
    """Rows of `signs` with a name each: how often a sum is negative, and r where both sums are positive and
    elsewhere.
    """
    columns = {
        "run": "run", "method": "method", "negative map": "negative sum: map", "negative LOO": "LOO",
        "turned": "sign of r reversed",
        "r": "r raw", "r, sum to one": "r sum to one", "r, both positive": "r, both sums positive",
        "n both": "n",
        "r, otherwise": "r raw, otherwise", "r, otherwise, sum to one": "r sum to one, otherwise",
        "n otherwise": "n",
    }  # fmt: skip
    shown: list[Row] = []
    for row in rows:
        groups = {"n both": row["r, both positive"], "n otherwise": row["r, otherwise"]}
        sizes = {name: r.n if isinstance(r, Interval) else 0 for name, r in groups.items()}
        shown.append({**row, **sizes})
    return table(shown, columns=columns, caption=caption, digits=digits)


def late_table(paths: Mapping[str, Sequence[Row]], *, title: str) -> Table:
    """In how many cells the later half of the layers gains more than the first, by path and tokens.

    Parameters
    ----------
    paths : path to rows of `layer_gains`.
    """
    rows: list[Row] = []
    for path, gains in paths.items():
        for tokens in dict.fromkeys(row["tokens"] for row in gains):
            name = f"{path.replace('-', ' ')}; {AXIS_LABELS['tokens'][1][tokens]}"
            rows.append({"path": name, **late_counts([row for row in gains if row["tokens"] == tokens])})
    needs("late_table", rows, "rows")
    columns = {
        "path": "path; tokens that count", "cells": "cells", "later": "later > first", "across": "open",
        "first": "first > later",
        "total above": "r rises", "total below": "r falls", "later, total above": "rises, later > first",
    }  # fmt: skip
    caption = f"{title}: cells (site, map, removal, output; Pearson) by where the whole 95 % interval lies"
    return table(rows, columns=columns, caption=caption)


def gains_table(
    rows: Sequence[Row], *, title: str, protocols: Mapping[str, Protocol] = PROTOCOLS, digits: int = 2
) -> Table:
    """Rows of `layer_gains` under a few protocols: total, later minus first half, the later half's share, the
    layer with the largest gain.
    """
    shown = [
        {"protocol": name, **row, "n": row["total"].n}
        for name, protocol in protocols.items()
        for row in rows
        if all(row[choice] == getattr(protocol, choice) for choice in PROTOCOL_AXES[:5])
    ]
    needs("gains_table", shown, "rows under these protocols")
    columns = {
        "protocol": "protocol", "total": "total gain", "later - first": "later − first half",
        "share": "share of the later half",
        "largest": "largest gain at layer", "largest in draws": "in this fraction of the draws", "n": "n",
    }  # fmt: skip
    return table(shown, columns=columns, caption=title, digits=digits)


def findings_table(rows: Sequence[Row], *, digits: int = 2) -> Table:
    """Rows of `audit_statements` of one run: the statement, its choices, effect, interval and n."""
    needs("findings_table", rows, "statement")
    shown = [{**row, "choices": f"{row['choices']} ({row['what']})"} for row in rows]
    columns = {
        "says": "under these choices, on this model", "choices": "choices (what is measured)",
        "effect": "effect", "n": "n",
    }  # fmt: skip
    caption = f"{rows[0]['run']}: effects with their 95 % intervals"
    return table(shown, columns=columns, caption=caption, digits=digits)


def tag_table(rows: Sequence[Row], *, title: str, digits: int = 2) -> Table:
    """Rows of `tag_effects`: mean of the texts with a tag, difference to the others, n, whether p is small.

    Rounding decides whether permutations of numbers computed on the page tie, so p is shown without digits.
    """
    needs("tag_table", rows, "rows")
    shown = [
        {
            "protocol": row["protocol"], "tag": row["tag"], "mean with the tag": row["with tag"],
            "minus the others": row["effect"],
            "n": " + ".join(f"{size:,}" for size in row["groups"][::-1]),
            "p, Holm, below 0.05": bool(row["p, Holm"] < 0.05),
        }
        for row in rows
    ]  # fmt: skip
    caption = f"{title}; p, Holm: corrected for all {len(rows)} comparisons"
    return table(shown, caption=caption, digits=digits)


def _small(p: float) -> str:
    return "≤ 0.0001" if p <= 0.0001 else f"{p:.4f}"


def subgroup_table(rows: Sequence[Row], *, run: str | None = None, digits: int = 2) -> Table:
    """Rows of `subgroups`, of one run or of all: effect, interval, n, p raw and corrected."""
    shown: list[Row] = [
        {
            "protocol": row["protocol"],
            "what": f"{row['feature']}: rank correlation" if row["groups"] is None else row["what"],
            "effect": row["effect"],
            "n": " + ".join(f"{size:,}" for size in (row["groups"] or (row["effect"].n,))[::-1]),
            "p": _small(row["p"]), "p, Holm": f"{row['p, Holm']:.3f}",
        }
        for row in rows
        if run in (None, row["run"])
    ]  # fmt: skip
    needs("subgroup_table", shown, "rows")
    caption = (
        f"{run or 'All runs'}: does the difference depend on the example? "
        f"p, Holm: corrected for all {len(rows)} comparisons"
    )
    return table(shown, caption=caption, digits=digits)
