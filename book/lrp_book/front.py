"""The front page: the scene with one token, two picked sentences, and the numbers of its answer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from lrp_book.ch06_outlier import COUNTED, RULES, STATISTIC, lead, with_and_without
from lrp_book.committed import Records
from lrp_book.say import number
from lrp_companion.attribution import Attribution
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import attribute
from lrp_companion.metrics import pearson, spearman
from lrp_companion.runs.labelled import mean
from lrp_companion.runs.load import TextRun
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
def explained(site: str) -> tuple[list[Attribution], ...]:
    """AttnLRP, CP-LRP and LOO of all embedded reviews by the embedded model."""
    clf, texts = load_classifier(MODEL), embedded()
    maps = [attribute(clf, texts, method=method, site=site, progress=False) for method in RULES]
    return *maps, attribute(clf, texts, method="loo", progress=False)


def embedded() -> list[str]:
    """The embedded reviews, which this project wrote."""
    return list(load_dataset("sst2", split="validation", source="embedded").texts)


def outlier_scene(run: TextRun, *, address: str = "outlier") -> OutlierScene:
    """The picked sentence with and without `[CLS]`, above the means of a run that keeps its maps."""
    means = {
        name: [mean(gap.sel(site="word+position", counted=counted, statistic=name)) for counted in ("all", "no [CLS]")]
        for gap in [lead(with_and_without(run))]
        for name in STATISTIC
    }
    *maps, loo = explained("word+position")
    moved = [
        abs(pearson(one.scores[1:], other.scores[1:]) - pearson(one.scores, other.scores))
        for one, other in zip(maps[0], loo, strict=True)
    ]
    here = embedded().index(ONE_TOKEN)
    note = (
        f"A picked sentence: without [CLS] AttnLRP's r moves by {number(moved[here])} here, by {number(np.median(moved))} "
        f"in the median of our {len(moved)} reviews. Relevance is read at words + positions, in the 12-layer model."
    )
    label = load_classifier(MODEL).labels[loo[here].target]
    return OutlierScene([one[here] for one in maps], loo[here], means=means, label=label, note=note, address=address)
