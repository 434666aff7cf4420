"""Page one: its scene, picked sentences, the numbers of the small print, and the picture of README.md.

`python -m lrp_book.front book/page_one.svg` draws the picture anew.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import xarray as xr

from lrp_companion.attribution import Attribution
from lrp_companion.checks import SITES
from lrp_companion.lab.paper.primary import MARGIN
from lrp_companion.lab.paper.published import paper_table
from lrp_companion.lab.record import interval, open_record
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.methods import attribute
from lrp_companion.metrics import Interval, agreement, pearson
from lrp_companion.schema import TOKEN_CHOICES, Protocol
from lrp_companion.show.palette import styles
from lrp_companion.sources import load_dataset
from lrp_companion.widgets.maps import OutlierScene

MODEL = "companion"
RULES = ("attnlrp", "cp-lrp")
EXAMPLES = (
    PICKED := "The final hour of this courtroom drama is gripping.",
    "There is not a dull minute in the whole voyage.",
    "I would not watch this puppet opera again.",
    "I hated every second that I was not looking at the screen.",
    "The jokes are not funny and the chases are not exciting.",
    "The plot is a tedious string of coincidences.",
)
"""Embedded reviews that were picked: the first is page one's, for CP-LRP on every token, for neither on the
words; of the next two one is for CP-LRP, one for AttnLRP.
"""


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
    return OutlierScene(maps, loo, label=label, margin=MARGIN, reduced=reduced)


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
        f"Both sentences were picked, one for each rule, from the {len(gaps)} reviews that we wrote. Of "
        f"the {len(gaps)}, AttnLRP's r (Pearson, words only) is higher in {int((gaps < 0).sum())}; in "
        f"{int((abs(gaps) < 0.2).sum())} the two differ by less than 0.2."
    )


def lead(r: xr.DataArray) -> xr.DataArray:
    """r of CP-LRP minus r of AttnLRP."""
    return r.sel(explainer=RULES[1]) - r.sel(explainer=RULES[0])


READINGS = {"positions": "all", "no [CLS]": "no-first"}
"""Which tokens count, by the name that the numbers have; positions count, too."""


def number(value: float) -> str:
    """A number with two digits and a minus sign.

    >>> number(-0.014)
    '−0.01'
    """
    return f"{value:.2f}".replace("-", "\u2212")


def marked(value: Interval) -> str:
    """A mean, with a mark where its interval contains 0."""
    return number(value.mean) + ("°" if value.low <= 0 <= value.high else "")


def front_numbers(results: str) -> Iterator[tuple[str, str]]:
    """The numbers of the small print by their names, CP-LRP minus AttnLRP where two are compared."""
    forms: dict[str, str] = {"": "raw", "divided, ": "sum-to-one"}
    stated: dict[str, Any] = {"removal": "attention-mask"}
    for model, name in (("sst2-12", "maps/sst2-companion"), ("base", "base/sst2-seed-*-maps")):
        d = lead(open_record(name, results=results).r_of_maps).sel(site="word+position", **stated)
        for (form, map), (reading, tokens), statistic in itertools.product(
            forms.items(), READINGS.items(), ("pearson", "spearman")
        ):
            of = d.sel(map=map, tokens=tokens, statistic=statistic)
            yield f"{model}, {form}{reading}, {statistic}", marked(interval(of))
        spoken = open_record("punctuation", results=results).config[model]
        for statistic in ("pearson", "spearman"):
            of = xr.DataArray(np.array(spoken[statistic], dtype=float), dims=["training", "text"])
            yield f"{model}, no punctuation, {statistic}", marked(interval(of))
    for data in ("sst2-12", "imdb-12"):
        d = lead(open_record(data, results=results).r).sel(map="sum-to-one", target="logit", **stated)
        for site, tokens, statistic in itertools.product(SITES, TOKEN_CHOICES, ("pearson", "spearman")):
            value = interval(d.sel(site=site, tokens=tokens, statistic=statistic))
            yield f"{data}, sums, {site}, {tokens}, {statistic}", marked(value)
    r = open_record("frontier/sst2-companion", results=results).r
    at = {"site": "word", "tokens": "no-special", "map": "raw", "target": "logit", "statistic": "pearson"}
    stated |= at
    for method in ("mask-gradient", *RULES):
        yield f"sst2-12, {method}", number(interval(r.sel(explainer=method, **stated)).mean)
    for row in paper_table("table2"):
        yield f"paper, {row['dataset']}, {row['method']}", number(row["loo_r"])
    both = {tokens: leads(tokens) for tokens in TOKEN_CHOICES}
    for tokens, ahead in both.items():
        level = abs(ahead) < MARGIN
        for name, found in (
            ("CP-LRP", ~level & (ahead > 0)),
            ("level", level),
            ("AttnLRP", ~level & (ahead < 0)),
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
