"""The front page: the scene with one token, picked sentences, and the numbers of its answer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import asdict
from functools import lru_cache

import numpy as np

from lrp_book.ch06_outlier import RULES, STATISTIC, lead, with_and_without
from lrp_book.ch09_real import ALL, REST, gap, trainings
from lrp_book.committed import SUMS, Records
from lrp_book.say import DIGITS, number
from lrp_companion.attribution import Attribution
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.methods import attribute
from lrp_companion.metrics import Interval, pearson
from lrp_companion.runs.labelled import mean, r_with_loo
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import PROTOCOLS
from lrp_companion.sources import load_dataset
from lrp_companion.widgets.outlier_scene import OutlierScene

MODEL = "companion"
ONE_TOKEN = "Quiet, patient and luminous, it stays with you for days."
EXAMPLES = (
    "There is not a dull minute in the whole voyage.",
    "I would not watch this puppet opera again.",
    "I hated every second that I was not looking at the screen.",
    "The jokes are not funny and the chases are not exciting.",
    "The plot is a tedious string of coincidences.",
)
"""Embedded reviews that were picked: the first is for CP-LRP, the second for AttnLRP."""


@lru_cache
def explained() -> tuple[list[Attribution], ...]:
    """AttnLRP, CP-LRP (at words + positions) and LOO of all embedded reviews by the embedded model."""
    clf, texts = load_classifier(MODEL), embedded()
    maps = [attribute(clf, texts, method=name, site="word+position", progress=False) for name in RULES]
    return *maps, attribute(clf, texts, method="loo", progress=False)


def embedded() -> list[str]:
    """The embedded reviews, which this project wrote."""
    return list(load_dataset("sst2", split="validation", source="embedded").texts)


def shown(one: np.ndarray, other: np.ndarray) -> float:
    """r as it is printed, so that a difference is that of the numbers on the page."""
    return round(float(pearson(one, other)), DIGITS)


def outlier_scene(run: TextRun, *, address: str = "outlier") -> OutlierScene:
    """The picked sentence with and without `[CLS]`, above the means of a run that keeps its maps."""
    gap = lead(with_and_without(run)).sel(site="word+position")
    means = {
        name: [mean(gap.sel(counted=counted, statistic=name)) for counted in ("all", "no [CLS]")]
        for name in STATISTIC
    }
    *maps, loo = explained()
    moved = [
        abs(shown(one.scores[1:], other.scores[1:]) - shown(one.scores, other.scores))
        for one, other in zip(maps[0], loo, strict=True)
    ]
    here = embedded().index(ONE_TOKEN)
    at_words = shown(maps[0][here].scores_at("word"), loo[here].scores)
    note = (
        f"The first of our {len(moved)} reviews, shown because one token does much here: without [CLS] "
        f"AttnLRP's r moves by {number(moved[here])}, in the median of the reviews by "
        f"{number(float(np.median(moved)))}. Relevance is read at words + positions, in the 12-layer model; "
        f"at the words alone AttnLRP has {number(at_words)}."
    )
    label = load_classifier(MODEL).labels[loo[here].target]
    pair = [one[here] for one in maps]
    return OutlierScene(pair, loo[here], means=means, label=label, note=note, address=address)


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
        f"Both sentences were picked, one for each rule. Of our {len(gaps)} reviews AttnLRP's r is higher "
        f"in {int((gaps < 0).sum())}; in {int((abs(gaps) < 0.2).sum())} the two differ by less than 0.2."
    )


READINGS = {"positions": ALL, "no [CLS]": REST}
"""Where relevance is read and which tokens count, by the name that the numbers have."""


def marked(value: Interval) -> str:
    """A mean, with a mark where its interval contains 0."""
    return number(value.mean) + ("°" if value.low <= 0 <= value.high else "")


def front_numbers(kept: Records) -> Iterator[tuple[str, str]]:
    """The numbers of the front page's answer by their names, CP-LRP minus AttnLRP."""
    ours, base = with_and_without(kept.with_maps("sst2-12")), trainings(kept.folder)
    for (name, reading), statistic in itertools.product(READINGS.items(), STATISTIC):
        for model, r in (("sst2-12", ours), ("base", base)):
            yield f"front, {model}, {name}, {statistic}", marked(gap(r, reading, statistic))
    sums = r_with_loo(kept.text("sst2-12"), RULES, **asdict(PROTOCOLS[SUMS]))
    yield "front, sst2-12, sums", number(mean(lead(sums)).mean)
    run = kept.text("sst2-12", frontier=True)
    for method in ("mask-gradient", *RULES):
        yield f"front, sst2-12, {method}", number(run.agreement(method).mean)
