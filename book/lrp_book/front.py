"""The front page: the scene with one token, picked sentences, and the numbers of its answer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import xarray as xr

from lrp_book.ch06_outlier import RULES, STATISTIC, lead, with_and_without
from lrp_book.committed import Records
from lrp_book.say import DIGITS, number
from lrp_companion.attribution import Attribution
from lrp_companion.lab.labelled import mean
from lrp_companion.lab.load import TextRun
from lrp_companion.lab.record import open_record
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.methods import attribute
from lrp_companion.metrics import Interval, pearson
from lrp_companion.metrics.faithfulness import CORRELATIONS
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
ONE_TOKEN = "Flat lighting and wooden acting sink this submarine thriller early."


@lru_cache
def explained() -> tuple[list[Attribution], ...]:
    """AttnLRP, CP-LRP (at words + positions) and LOO of all embedded reviews by the embedded model."""
    clf, texts = load_classifier(MODEL), embedded()
    maps = [attribute(clf, texts, method=name, site="word+position", progress=False) for name in RULES]
    return *maps, attribute(clf, texts, method="loo", progress=False)


def embedded() -> list[str]:
    """The embedded reviews, which this project wrote."""
    return list(load_dataset("sst2", split="validation", source="embedded").texts)


def shown_r(one: Attribution, loo: Attribution) -> list[list[float]]:
    """r by statistic, with all tokens and without the first, as printed: differences are the page's."""
    seen = [(one.scores[first:], loo.scores[first:]) for first in (0, 1)]
    return [[round(float(CORRELATIONS[name](*maps)), DIGITS) for maps in seen] for name in STATISTIC]


def outlier_scene(run: TextRun) -> OutlierScene:
    """The picked sentence with and without `[CLS]`, above the means of a run that keeps its maps."""
    gap = lead(with_and_without(run)).sel(site="word+position")
    means = {
        name: [mean(gap.sel(counted=counted, statistic=name)) for counted in ("all", "no [CLS]")]
        for name in STATISTIC
    }
    *maps, loo = explained()
    r = np.array([[shown_r(one, other) for one in each] for *each, other in zip(*maps, loo, strict=True)])
    leads = np.sign(np.round(r[:, 1] - r[:, 0], DIGITS))  # review x statistic x (all tokens, without [CLS])
    like = (leads == [[np.sign(value.mean) for value in means[name]] for name in STATISTIC]).all((1, 2))
    here, moved = embedded().index(ONE_TOKEN), abs(r[:, 0, 0, 1] - r[:, 0, 0, 0])
    note = (
        f"Picked: in all four cases the same method is ahead as in the table; {int(like.sum())} of the "
        f"{len(like)} reviews that we wrote are like this. Without the token AttnLRP's r moves by "
        f"{number(moved[here])} here, in the median of the reviews by {number(float(np.median(moved)))}. "
        "Relevance is read at words + positions, in the 12-layer model."
    )
    label = load_classifier(MODEL).labels[loo[here].target]
    pair = [one[here] for one in maps]
    return OutlierScene(pair, loo[here], means=means, label=label, note=note, address="outlier")


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


READINGS = {"positions": "all", "no [CLS]": "no [CLS]"}
"""Which tokens count, by the name that the numbers have; positions count, too."""


def gap(r: xr.DataArray, counted: str, statistic: str) -> Interval:
    """The mean of CP-LRP's r minus AttnLRP's."""
    return mean(lead(r).sel(site="word+position", counted=counted, statistic=statistic))


def trainings(folder: str, *, divided: bool) -> xr.DataArray:
    """r of the three trainings of MPNet, as `with_and_without` has it."""
    form = "sum-to-one" if divided else "raw"
    r = open_record("base/sst2-seed-*-maps", results=folder).r.sel(map=form, removal="attention-mask")
    counted = {"no-special": "words", "all": "all", "no-first": "no [CLS]"}
    r = r.rename(text="example", tokens="counted")
    return r.assign_coords(counted=[counted[name] for name in r.counted.values])


def marked(value: Interval) -> str:
    """A mean, with a mark where its interval contains 0."""
    return number(value.mean) + ("°" if value.low <= 0 <= value.high else "")


def front_numbers(kept: Records) -> Iterator[tuple[str, str]]:
    """The numbers of the front page's answer by their names, CP-LRP minus AttnLRP."""
    for divided, form in ((False, ""), (True, "divided, ")):
        ours = with_and_without(kept.with_maps("sst2-12"), divided=divided)
        base = trainings(kept.folder, divided=divided)
        for (name, reading), statistic in itertools.product(READINGS.items(), STATISTIC):
            for model, r in (("sst2-12", ours), ("base", base)):
                yield f"front, {model}, {form}{name}, {statistic}", marked(gap(r, reading, statistic))
    run = kept.text("sst2-12", frontier=True)
    for method in ("mask-gradient", *RULES):
        yield f"front, sst2-12, {method}", number(run.agreement(method).mean)
