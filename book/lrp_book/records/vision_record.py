"""A model of images at work: r with LOO of AttnLRP, CP-LRP and the mask gradient, image by image."""

from __future__ import annotations

from typing import Any

import numpy as np

from lrp_book.records import config_of, rounded
from lrp_companion.checks import InputError
from lrp_companion.lab.execute import surroundings
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods import attribute
from lrp_companion.methods.common import check_classifier, watch
from lrp_companion.metrics import pearson
from lrp_companion.sources import Dataset

SITES = ("word", "word+position")


def vision_record(
    clf: Classifier, data: Dataset, *, limit: int = 500, seed: int = 0, progress: bool | None = None
) -> dict[str, Any]:
    """Explain a random sample of images, the predicted class of each, and compare with LOO.

    Parameters
    ----------
    clf : a model that reads images of the data set's size, such as `load_dataset("mnist", side=28)`.

    Returns
    -------
    dict
        Numbers only: `config`, `made with`, `example` (rows of the split), `target` (the explained class of
        each), and `rows`: `method` ("lrp" with its `bypass`, or the mask gradient), `site`, `tokens`
        ("patches": without [CLS]), and `r`, Pearson's r with LOO of each image, None where undefined.
    """
    check_classifier("vision_record", clf)
    if not clf.reads_images or data.images is None:
        got = f"{clf.card.name!r} and {data.describe()}"
        raise InputError("vision_record", got=got, expected="a model and data of images", hint="load a ViT")
    sample = data.order(limit, seed=seed)
    columns: dict[tuple[Any, ...], list[float]] = {}
    targets = []
    for image in watch([data.images[k] for k in sample], progress=progress, label="images"):
        (loo,) = attribute(clf, image, method="loo", progress=False)
        targets.append(loo.target)
        for key, scores in _maps(clf, image, loo.target).items():
            r = pearson(scores[~loo.special], loo.scores[~loo.special])
            columns.setdefault((*key, "patches"), []).append(r)
    names = ("method", "bypass", "site", "tokens")
    rows = [{**dict(zip(names, key, strict=True)), "r": rounded(r)} for key, r in columns.items()]
    config = config_of(clf, data, clf.encode(np.stack([data.images[k] for k in sample])), seed)
    config |= {"family": clf.card.family, "images": config.pop("texts")}
    made = {"config": config, "made with": surroundings(), "example": sample}
    return made | {"target": targets, "rows": rows}


def _maps(clf: Classifier, image: np.ndarray, target: int) -> dict[tuple[Any, ...], np.ndarray]:
    """The maps of one image by method, bypassed layers and site."""
    maps: dict[tuple[Any, ...], np.ndarray] = {}
    for bypass in ((), tuple(range(1, clf.card.layers + 1))):
        (record,) = attribute(clf, image, method="lrp", bypass=bypass, target=target)
        maps |= {("lrp", bypass, site): record.scores_at(site) for site in SITES}
    (record,) = attribute(clf, image, method="mask-gradient", target=target)
    return maps | {("mask-gradient", None, SITES[0]): record.scores}
