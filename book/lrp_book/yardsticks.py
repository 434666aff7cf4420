"""Two yardsticks, LOO and Shapley values: the means of r with each, and what was predicted of them.

`python -m lrp_book.yardsticks results/shapley` prints both. The prediction is
`results/predictions/2026-11-26-shapley.md`; a point is judged as is laid down there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lrp_book.records.shapley import r_with, read
from lrp_companion.metrics import Interval, bootstrap_mean, paired_difference, spearman
from lrp_companion.metrics.statistics import RESAMPLES, side_of_zero

Texts = Sequence[Mapping[str, Any]]
ORDER = (
    ("attnlrp", "cp-lrp"), ("cp-lrp", "loo"), ("attnlrp", "ig"), ("ig", "loo"), ("loo", "mask-gradient"),
)  # fmt: skip
BY_RANK = ("post-ln-first", "post-ln-mean", "gpt2")
WIRINGS = ("post-ln-first", "post-ln-mean", "modernbert", "gpt2", "llama")


def means(texts: Texts) -> list[dict[str, Any]]:
    """A row for each map: mean r with Shapley and with LOO, by both statistics, with intervals."""
    columns = {
        f"{judge}, {statistic}": r_with(texts, judge, statistic=statistic)
        for judge in ("shapley", "loo")
        for statistic in ("pearson", "spearman")
    }
    names = next(iter(columns.values()))
    return [{"map": m, **{c: bootstrap_mean(r[m]) for c, r in columns.items()}} for m in names]


def noise(texts: Texts) -> np.ndarray:
    """Root mean square of the standard errors of each sampled text, over the spread of its scores."""
    sampled = [text for text in texts if text["standard error"].any()]
    words = [(text, ~text["special"]) for text in sampled]
    return np.array([np.sqrt((t["standard error"][k] ** 2).mean()) / t["shapley"][k].std() for t, k in words])


def interaction_size(text: Mapping[str, Any]) -> float:
    """`sum over pairs |I_ij| / sum |phi_i|` of a text whose subsets were all run."""
    return float(np.abs(text["interactions"]).sum() / 2 / np.abs(text["shapley"]).sum())


def difference(texts: Texts, ahead: str, behind: str, statistic: str) -> Interval:
    """The mean difference of two maps' r with Shapley."""
    r = r_with(texts, statistic=statistic)
    return paired_difference(r[ahead], r[behind])


def over_texts(columns: np.ndarray, statistic: Any) -> Interval:
    """A statistic of the rows (texts, columns), with its percentile interval over texts."""
    rows = columns[np.isfinite(columns).all(1)]
    draw = np.random.default_rng(0)
    draws = [statistic(rows[draw.integers(0, len(rows), len(rows))]) for _ in range(RESAMPLES // 5)]
    low, high = np.nanquantile(draws, [0.025, 0.975])
    return Interval(float(statistic(rows)), float(low), float(high), len(rows))


def points(records: Mapping[str, Texts]) -> list[dict[str, Any]]:
    """What was predicted, difference by difference: the point, what should be above 0, its interval, whether
    it is met; without what a record lacks.
    """
    rows: list[dict[str, Any]] = []

    def judge(point: int, what: str, value: Interval, *, sign: str = "above") -> None:
        side = side_of_zero(value)
        rows.append({"point": point, "what": what, "difference": value})
        rows[-1]["outcome"] = "met" if side == sign else "open" if side == "across" else "failed"

    main = records.get("companion", ())
    for point, statistic in ((1, "pearson"), (2, "spearman")):
        for ahead, behind in ORDER:
            if main and ahead in main[0] and behind in main[0]:
                what = f"{ahead} minus {behind}, {statistic}"
                judge(point, what, difference(main, ahead, behind, statistic))
    exact = np.array(["interactions" in text for text in main])
    if min(exact.sum(), (~exact).sum()) > 9:
        r = r_with(main)
        lead = r["attnlrp"] - r["loo"]
        value = over_texts(np.stack([lead, exact], 1), _fall)
        judge(3, "AttnLRP's lead over LOO, long minus short", value)
        size = np.array([interaction_size(text) for text in main if "interactions" in text])
        for what, values, sign in (
            ("r of LOO", r["loo"], "below"),
            ("AttnLRP's lead over LOO", lead, "above"),
        ):
            columns = np.stack([values[exact], size], 1)
            value = over_texts(columns, lambda x: spearman(x[:, 0], x[:, 1]))
            judge(4, f"correlation of {what} with interactions", value, sign=sign)
    for name in (name for name in WIRINGS if name in records):
        texts = records[name]
        judge(5, f"{name}: loo minus mask-gradient", difference(texts, "loo", "mask-gradient", "pearson"))
        ahead_of_loo = difference(texts, "attnlrp", "loo", "pearson")
        judge(5, f"{name}: attnlrp minus loo", ahead_of_loo)
        if name == "llama":
            rows[-1]["outcome"] = "failed" if side_of_zero(ahead_of_loo) == "above" else "met"
    for name in (name for name in BY_RANK if name in records):
        judge(6, f"{name}: cp-lrp minus attnlrp", difference(records[name], "cp-lrp", "attnlrp", "spearman"))
    if "imdb-companion" in records:
        for ahead, behind in (("loo", "attnlrp"), ("loo", "mask-gradient")):
            value = difference(records["imdb-companion"], ahead, behind, "pearson")
            judge(7, f"sentences of reviews: {ahead} minus {behind}", value)
    return rows


def _fall(rows: np.ndarray) -> float:
    """The mean of the first column where the second is 0, minus that where it is 1."""
    first, second = (rows[rows[:, 1] == kind, 0].mean() for kind in (0, 1))
    return float(first - second)


def load(folder: Path) -> dict[str, Texts]:
    """The records of a folder by name."""
    return {path.stem: read(path) for path in sorted(folder.glob("*.npz")) if ".part" not in path.name}


if __name__ == "__main__":
    from lrp_companion.show import table

    kept = load(Path(sys.argv[1]))
    for name, texts in kept.items():
        ratio = noise(texts)
        shown = f"standard error over spread {np.median(ratio):.3f} (median)" if len(ratio) else "all exact"
        print(table(means(texts), digits=3, caption=f"{name}, {len(texts)} texts; {shown}"), "\n")
    print(table(points(kept), digits=3))
