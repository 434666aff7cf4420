"""Chapter 7: two yardsticks, LOO and Shapley values. Mean r with each, and what was predicted.

`python -m lrp_book.yardsticks results/shapley` prints both. The prediction is
`results/predictions/2026-11-26-shapley.md`; a point is judged as is laid down there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from lrp_book.predictions import by_sides
from lrp_book.records.shapley import MAPS, r_with, read
from lrp_companion.lab.load import nearby
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods import attribute
from lrp_companion.metrics import Interval, bootstrap_mean, paired_difference, spearman
from lrp_companion.metrics.statistics import RESAMPLES, side_of_zero
from lrp_companion.registry import label_of
from lrp_companion.show.canvas import LOOK, Drawing, drawing, headline
from lrp_companion.show.palette import styles
from lrp_companion.show.tables import Table, table

Texts = Sequence[Mapping[str, Any]]
ORDER = (
    ("attnlrp", "cp-lrp"),
    ("cp-lrp", "loo"),
    ("attnlrp", "ig"),
    ("ig", "loo"),
    ("loo", "mask-gradient"),
)
BY_RANK = ("post-ln-first", "post-ln-mean", "gpt2")
WIRINGS = ("post-ln-first", "post-ln-mean", "modernbert", "gpt2", "llama")
SHOWN = ("loo", "mask-gradient-8", "mask-gradient", "attnlrp", "cp-lrp", "ig", "gradient-x-input")
JUDGES = {
    name: (f"r with {words}", styles([name])[name].colour, marker)
    for name, words, marker in (("loo", "LOO", "o"), ("shapley", "Shapley values", "s"))
}
STATISTIC = {"pearson": "Pearson", "spearman": "rank (Spearman)"}
PAIRS = (("attnlrp", "loo"), ("cp-lrp", "attnlrp"), ("mask-gradient", "attnlrp"))
IN_WORDS = ("loo", "shapley", "mask-gradient", "attnlrp")


def means(texts: Texts, *, maps: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """A row for each map: mean r with Shapley and with LOO, by both statistics, with intervals."""
    columns = {
        f"{judge}, {statistic}": r_with(texts, judge, statistic=statistic, maps=maps)
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


def difference(texts: Texts, ahead: str, behind: str, statistic: str, *, judge: str = "shapley") -> Interval:
    """The mean difference of two maps' r with a judge."""
    r = r_with(texts, judge, statistic=statistic, maps=(ahead, behind))
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
        row = {"point": point, "what": what, "difference": value}
        rows.append({**row, "outcome": by_sides([value], [sign])})

    main = records.get("companion", ())
    for point, statistic in ((1, "pearson"), (2, "spearman")):
        for ahead, behind in ORDER:
            if main and ahead in main[0] and behind in main[0]:
                what = f"{ahead} minus {behind}, {statistic}"
                judge(point, what, difference(main, ahead, behind, statistic))
    exact = np.array(["interactions" in text for text in main])
    if min(exact.sum(), (~exact).sum()) > 9:
        r = r_with(main, maps=("attnlrp", "loo"))
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


def falls_with_interactions(texts: Texts, method: str, statistic: str) -> Interval:
    """The rank correlation of a map's r with Shapley values with the size of the interactions, over the texts
    whose subsets were all run.
    """
    exact = [text for text in texts if "interactions" in text]
    r = r_with(exact, statistic=statistic, maps=(method,))[method]
    columns = np.stack([r, np.array([interaction_size(text) for text in exact])], 1)
    return over_texts(columns, lambda x: spearman(x[:, 0], x[:, 1]))


def _fall(rows: np.ndarray) -> float:
    """The mean of the first column where the second is 0, minus that where it is 1."""
    first, second = (rows[rows[:, 1] == kind, 0].mean() for kind in (0, 1))
    return float(first - second)


def load(folder: str | Path = "results/shapley", *names: str) -> dict[str, Texts]:
    """The records of a folder by name: all, or those that are named, in this order."""
    paths = {path.stem: path for path in sorted(nearby(folder).glob("*.npz")) if ".part" not in path.name}
    return {name: read(paths[name]) for name in names or paths if name in paths}


def name_of(method: str) -> str:
    """A map of the record as figures and tables print it."""
    return "mask gradient, 8 groups" if method == "mask-gradient-8" else label_of(method)


def passes(texts: Texts) -> dict[str, float]:
    """Forward and backward passes a text, mean; a pass with one token hidden counts as one."""
    tokens = float(np.mean([len(text["special"]) for text in texts]))
    steps = MAPS["ig"][1]["n_steps"]
    return {**dict.fromkeys(SHOWN, 2.0), "loo": tokens + 1, "mask-gradient-8": 18.0, "ig": 2.0 * (steps + 1)}


@mpl.rc_context(LOOK)
def yardsticks_figure(texts: Texts, *, title: str) -> Drawing:
    """Draw mean r of each method with both judges, Pearson and rank side by side; lines are intervals."""
    rows = {row["map"]: row for row in means(texts, maps=SHOWN)}
    cost = passes(texts)
    labels = [f"{name_of(name)} ({cost[name]:.0f})" for name in SHOWN]
    told = "; ".join(
        f"{label}: "
        + ", ".join(
            f"{judge} {rows[name][f'{judge}, {by}'].mean:.2f} by {by}" for by in STATISTIC for judge in JUDGES
        )
        for name, label in zip(SHOWN, labels, strict=True)
    )
    height = 1.4 + 0.32 * len(SHOWN)
    figure, panels = drawing(f"{title}. {told}.", columns=2, height=height, sharex=True, sharey=True)
    for axes, (by, heading) in zip(panels, STATISTIC.items(), strict=True):
        for row, name in enumerate(SHOWN):
            ends = [rows[name][f"{judge}, {by}"].mean for judge in JUDGES]
            axes.plot(ends, [row, row], color="#b8b8b8", linewidth=1.0, zorder=1)
            for judge, (label, colour, marker) in JUDGES.items():
                value = rows[name][f"{judge}, {by}"]
                axes.plot([value.low, value.high], [row, row], color=colour, linewidth=2.4)
                axes.plot(value.mean, row, marker, color=colour, markersize=6, label=None if row else label)
        axes.set_title(heading)
        axes.set_xlim(-0.15, 1.1)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set_yticks(range(len(SHOWN)), labels)
        axes.set_ylim(len(SHOWN) - 0.5, -0.5)
    panels[0].set_xlabel("mean r; in brackets: passes for one text")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower right", ncols=2, frameon=False)
    headline(figure, title)
    return figure


def judged_by_shapley(records: Mapping[str, Texts]) -> list[dict[str, Any]]:
    """A row for each record, what is closer to Shapley values: differences of `PAIRS` by both statistics."""
    rows = []
    for name, texts in records.items():
        cells = {f"{a} - {b}, {by}": difference(texts, a, b, by) for a, b in PAIRS for by in STATISTIC}
        rows.append({"record": name, **cells})
    return rows


def yardsticks_table(texts: Texts, *, caption: str) -> Table:
    """Mean r of each map with the judges by both statistics, as rows of `means`."""
    rows = [{**row, "map": name_of(row["map"])} for row in means(texts, maps=SHOWN)]
    columns = {"map": "method"} | {f"{judge}, {by}": STATISTIC[by] for judge in JUDGES for by in STATISTIC}
    spans = {JUDGES[judge][0]: [f"{judge}, {by}" for by in STATISTIC] for judge in JUDGES}
    return table(rows, columns=columns, groups=spans, caption=caption)


def words_of(clf: Classifier, text: str) -> dict[str, Any]:
    """A short text word by word, all subsets run: the maps `IN_WORDS`, and the pair that interacts most.

    Returns
    -------
    `tokens`; a list of scores by method; `pair`, two tokens, and `interaction`, what they give together
    beyond what each gives alone, averaged over orders; `logit`, and `label`, the class.
    """
    records = {name: attribute(clf, text, method=name, progress=False)[0] for name in IN_WORDS}
    record = records["shapley"]
    places = np.flatnonzero(~np.array(record.special))
    between = np.triu(np.array(record.details["interactions"]), 1)
    first, second = np.unravel_index(np.abs(between).argmax(), between.shape)
    out: dict[str, Any] = {"tokens": [record.tokens[k] for k in places], "label": clf.labels[record.target]}
    out["logit"] = float(record.logit)
    out |= {name: [float(records[name].scores[k]) for k in places] for name in IN_WORDS}
    pair = record.tokens[int(first)], record.tokens[int(second)]
    return {**out, "pair": pair, "interaction": float(between[first, second])}


if __name__ == "__main__":
    kept = load(Path(sys.argv[1]))
    for name, texts in kept.items():
        ratio = noise(texts)
        shown = f"standard error over spread {np.median(ratio):.3f} (median)" if len(ratio) else "all exact"
        print(table(means(texts), digits=3, caption=f"{name}, {len(texts)} texts; {shown}"), "\n")
    print(table(points(kept), digits=3))
