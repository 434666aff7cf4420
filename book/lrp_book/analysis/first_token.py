"""The sign of LOO at the first token, [CLS], and its consequences. No torch.

If relevance is read at words + positions and all tokens count, [CLS] has a large score and a large LOO. If
the two have the same sign, [CLS] raises r; if not, it lowers it. The two methods differ in the sign and the
size of that score, so which of them is closer to LOO depends on the sign of LOO at [CLS].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lrp_book.analysis.r_scale import correlations, kept_tokens
from lrp_companion.metrics import Interval, bootstrap_mean, paired_difference
from lrp_companion.metrics.paired import Comparison, compare_paired
from lrp_companion.paper.protocol_grid import needs_text, title
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import Protocol

Row = dict[str, Any]
EVERYTHING = Protocol(site="word+position", tokens="all")
"""Words + positions, all tokens, raw maps: the protocol in which [CLS] counts most."""
INTERVENTIONS: Mapping[str, tuple[int, ...]] = {
    "words + positions": (),
    "without [CLS]'s position": (0,),
    "without [SEP]'s position": (-1,),
    "without both": (0, -1),
}
"""Tokens (from the start or the end) whose position relevance is set to 0."""


def first_loo(run: TextRun, protocol: Protocol = EVERYTHING) -> np.ndarray:
    """LOO of the first token of each example, (n,)."""
    needs_text("first_loo", run)
    return np.array([scores[0] for scores in run.loo(protocol)])


def by_first_sign(
    run: TextRun, *, a: str = "cp-lrp", b: str = "attnlrp", protocol: Protocol = EVERYTHING
) -> Row:
    """The paired difference of r where LOO at [CLS] is below 0, and where it is above.

    Returns
    -------
    dict
        `run`, `data`, `n`; `share`, of examples with LOO[CLS] above 0 (interval); `all`, `below`, `above`:
        `Comparison` of `a` and `b` in all examples and on either side (None with no example); `gap`, mean
        difference above minus below, as an interval over both groups, drawn independently.
    """
    sign = np.sign(first_loo(run, protocol))
    x, y = run.r(a, protocol), run.r(b, protocol)
    sides: dict[str, Comparison | None] = {}
    for name, keep in (("below", sign < 0), ("above", sign > 0)):
        sides[name] = compare_paired(x[keep], y[keep]) if keep.any() else None
    return {
        "run": run.name, "data": title(run), "n": run.n, "share": bootstrap_mean((sign > 0).astype(float)),
        "all": compare_paired(x, y), **sides,
    }  # fmt: skip


def site_change(run: TextRun, method: str, *, protocol: Protocol = EVERYTHING) -> Interval:
    """The effect of positions on a method's mean r: r at `protocol` minus r at words, all else equal."""
    words = Protocol(site="word", tokens=protocol.tokens, removal=protocol.removal, target=protocol.target)
    return paired_difference(run.r(method, protocol), run.r(method, words))


def interventions(run: TextRun, methods: Sequence[str] = ("attnlrp", "cp-lrp")) -> list[Row]:
    """r at words + positions, all tokens, with the position relevance of [CLS] or [SEP] or both set to 0.

    Parameters
    ----------
    run : a run with --keep-maps.

    Returns
    -------
    list
        Rows `kept` (a name of `INTERVENTIONS`, or "words"), a column of mean r per method, and `difference`:
        `Comparison` of the last method and the first.
    """
    needs_text("interventions", run)
    kept, loo = kept_tokens(run, "all"), run.loo()
    rows = []
    for name, places in {"words": None, **INTERVENTIONS}.items():
        columns = {}
        for method in methods:
            maps = [_without(parts, places) for parts in run.map_parts(method)]
            columns[method] = correlations(maps, loo, kept)
        first, *_, last = methods
        row: Row = {"kept": name, **{method: bootstrap_mean(r) for method, r in columns.items()}}
        rows.append({**row, "difference": compare_paired(columns[last], columns[first]), "n": run.n})
    return rows


def _without(parts: Mapping[str, np.ndarray], places: Sequence[int] | None) -> np.ndarray:
    """Word relevance plus that of positions, except at some tokens; None leaves positions out."""
    if places is None or "position" not in parts:
        return parts["word"]
    position = parts["position"].copy()
    position[list(places)] = 0
    return parts["word"] + position
