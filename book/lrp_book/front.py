"""Page one: its scene, picked sentences, the numbers of the small print, and the picture of README.md.

`python -m lrp_book.front book/page_one.svg` draws the picture anew.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from lrp_book.ch06_outlier import RULES, STATISTIC, with_and_without
from lrp_book.ch09_real import ALL, REST, gap, trainings
from lrp_book.committed import Records
from lrp_book.say import number
from lrp_companion.attribution import SITES, Attribution
from lrp_companion.lab.paper.primary import MARGIN
from lrp_companion.lab.paper.published import paper_table
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.methods import attribute
from lrp_companion.metrics import Interval, agreement, bootstrap_mean, pearson
from lrp_companion.schema import TOKEN_CHOICES, Protocol
from lrp_companion.show.palette import styles
from lrp_companion.sources import load_dataset
from lrp_companion.widgets.outlier_scene import OutlierScene

MODEL = "companion"
EXAMPLES = (
    "There is not a dull minute in the whole voyage.",
    "I would not watch this puppet opera again.",
    "I hated every second that I was not looking at the screen.",
    "The jokes are not funny and the chases are not exciting.",
    "The plot is a tedious string of coincidences.",
)
"""Embedded reviews that were picked: the first is for CP-LRP, the second for AttnLRP."""
PICKED = "The final hour of this courtroom drama is gripping."
"""CP-LRP is ahead on every token, and level on the words."""


@lru_cache
def explained() -> tuple[list[Attribution], ...]:
    """AttnLRP, CP-LRP (at words + positions) and LOO of all embedded reviews by the embedded model."""
    clf, texts = load_classifier(MODEL), embedded()
    maps = [attribute(clf, texts, method=name, site="word+position", progress=False) for name in RULES]
    return *maps, attribute(clf, texts, method="loo", progress=False)


def embedded() -> list[str]:
    """The embedded reviews, which this project wrote."""
    return list(load_dataset("sst2", split="validation", source="embedded").texts)


def leads(tokens: str) -> np.ndarray:
    """CP-LRP's r with LOO minus AttnLRP's, of each embedded review, as the scene shows it."""
    protocol, (attnlrp, cp, loo) = Protocol(tokens=tokens), explained()
    return np.array(
        [
            agreement(b.scores, judge.scores, judge.special, protocol)
            - agreement(a.scores, judge.scores, judge.special, protocol)
            for a, b, judge in zip(attnlrp, cp, loo, strict=True)
        ]
    )


def outlier_scene(*, reduced: bool = False) -> OutlierScene:
    """The picked sentence, with every token and with the words alone."""
    here = embedded().index(PICKED)
    *maps, loo = (of[here] for of in explained())
    label = load_classifier(MODEL).labels[loo.target]
    note = "Look at [CLS]: hide it and little changes, yet AttnLRP paints it blue."
    return OutlierScene(maps, loo, label=label, note=note, margin=MARGIN, reduced=reduced)


def picked_note() -> str:
    """How far the two methods go apart over all embedded reviews, beside the two picked ones."""
    attnlrp, cp, loo = explained()
    gaps = np.array(
        [
            pearson(mine.scores_at("word")[~judge.special], judge.scores[~judge.special])
            - pearson(other.scores_at("word")[~judge.special], judge.scores[~judge.special])
            for mine, other, judge in zip(cp, attnlrp, loo, strict=True)
        ]
    )
    return (
        f"Both sentences were picked, one for each rule, from the {len(gaps)} reviews that we wrote. On "
        f"these AttnLRP's r (Pearson, words only) is higher in {int((gaps < 0).sum())}; in "
        f"{int((abs(gaps) < 0.2).sum())} the two differ by less than 0.2."
    )


READINGS = {"positions": ALL, "no [CLS]": REST}
"""Where relevance is read and which tokens count, by the name that the numbers have."""


def marked(value: Interval) -> str:
    """A mean, with a mark where its interval contains 0."""
    return number(value.mean) + ("°" if value.low <= 0 <= value.high else "")


def front_numbers(kept: Records) -> Iterator[tuple[str, str]]:
    """The numbers of the small print by their names, CP-LRP minus AttnLRP where two are compared."""
    for divided, form in ((False, ""), (True, "divided, ")):
        ours = with_and_without(kept.with_maps("sst2-12"), divided=divided)
        base = trainings(kept.folder, divided=divided)
        for (name, reading), statistic in itertools.product(READINGS.items(), STATISTIC):
            for model, r in (("sst2-12", ours), ("base", base)):
                yield f"{model}, {form}{name}, {statistic}", marked(gap(r, reading, statistic))
    for data in ("sst2-12", "imdb-12"):
        run = kept.text(data)
        for site, tokens, statistic in itertools.product(SITES, TOKEN_CHOICES, STATISTIC):
            at = Protocol(site=site, tokens=tokens, map="sum-to-one", statistic=statistic)
            value = bootstrap_mean(run.r("cp-lrp", at) - run.r("attnlrp", at))
            yield f"{data}, sums, {site}, {tokens}, {statistic}", marked(value)
    run = kept.text("sst2-12", frontier=True)
    for method in ("mask-gradient", *RULES):
        yield f"sst2-12, {method}", number(run.agreement(method).mean)
    for row in paper_table("table2"):
        yield f"paper, {row['dataset']}, {row['method']}", number(row["loo_r"])
    both = {tokens: leads(tokens) for tokens in TOKEN_CHOICES}
    for tokens, lead in both.items():
        level = abs(lead) < MARGIN
        for name, found in (
            ("CP-LRP", ~level & (lead > 0)),
            ("level", level),
            ("AttnLRP", ~level & (lead < 0)),
        ):
            yield f"reviews, {tokens}, {name}", str(int(found.sum()))
    like = (both["all"] >= MARGIN) & (abs(both["no-special"]) < MARGIN)
    yield "reviews, like the picked one", str(int(like.sum()))


def picture(path: str) -> None:
    """Draw the scene's two panels, before and after the press, for a page without widgets."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "page one", "font.size": 11}
    scene = outlier_scene()
    data, shown = scene.data, [np.array(scene.data["special"]) & words for words in (False, True)]
    figure, axes = pyplot.subplots(2, 2, figsize=(8.2, 5.2), sharex=True, sharey="col", layout="constrained")
    for (row, out), (column, name) in itertools.product(enumerate(shown), enumerate(data["methods"])):
        axis, colour, y = axes[row, column], styles(RULES)[RULES[column]].colour, data["scores"][column]
        r, x = scene.r(without=bool(row), ranked=False), np.array(data["loo"])
        verdict = "level" if abs(r[1] - r[0]) < MARGIN else "ahead" if r[column] == max(r) else ""
        axis.set_title(f"{name}  r = {r[column]:.2f}  {verdict}", color=colour, weight="bold", loc="left")
        axis.scatter(x, y, 45, facecolors=["none" if o else colour for o in out], edgecolors=colour)
        for k in (data["tokens"].index("[CLS]"), int(x.argmax())):
            left = bool(x[k] < 0)
            where = {"xytext": (-7, 8) if left else (-7, -15), "ha": "left" if left else "right"}
            axis.annotate(data["tokens"][k], (x[k], y[k]), textcoords="offset points", **where)
        slope, start = np.polyfit(x[~out], np.array(y)[~out], 1)
        axis.axline((0, start), slope=slope, color=colour, linestyle="--", linewidth=1)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set(xticks=[], yticks=[], xlabel="Leave-One-Out →" * row)
        if not column:
            axis.set_ylabel(("every token", "only the words")[row])
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    picture(sys.argv[1])
