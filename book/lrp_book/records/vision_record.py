"""A model of images at work: r with LOO of every method and of all masks of layers, image by image.

Numbers only: what is kept of an image is its row in the data set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lrp_book.records.tune_options import config_of
from lrp_companion.attribution import Attribution, scores_at
from lrp_companion.checks import InputError
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods import attribute, layer_lattice
from lrp_companion.methods.common import check_classifier, watch
from lrp_companion.metrics import pearson
from lrp_companion.provenance import surroundings
from lrp_companion.sources import Dataset

SITES = ("word", "word+position")
TOKENS = ("patches", "all")
OTHERS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "gradient-x-input": ("gradient-x-input", {}),
    "rollout": ("rollout", {}),
    "mask-gradient": ("mask-gradient", {}),
    "mask-gradient:groups=8": ("mask-gradient", {"groups": 8}),
}
"""Methods beside LRP, by name, with their options."""


def vision_record(
    clf: Classifier, data: Dataset, *, limit: int = 500, seed: int = 0, progress: bool | None = None
) -> dict[str, Any]:
    """Explain a random sample of images, the predicted class of each, and compare with LOO.

    Parameters
    ----------
    clf : a model that reads images of the data set's size, such as `load_dataset("mnist", side=28)`.
    limit, seed : so many images, drawn with this seed.

    Returns
    -------
    dict
        `config`, `made with`, `example` (rows of the split), `target` (the explained class of each), and
        `rows`: `method` ("lrp" with its `bypass`, or one of `OTHERS`), `site`, `tokens` ("patches", or "all"
        with [CLS]), and `r`, Pearson's r with LOO of each image, None where it is not defined.

    Raises
    ------
    InputError : a model of texts, or data without images.

    >>> from lrp_companion import load_classifier, load_dataset
    >>> clf = load_classifier("training/vit")                           # doctest: +SKIP
    >>> vision_record(clf, load_dataset("mnist", side=28), limit=500)  # doctest: +SKIP
    """
    check_classifier("vision_record", clf)
    if not clf.reads_images or data.images is None:
        got = f"{clf.card.name!r} and {data.describe()}"
        raise InputError("vision_record", got=got, expected="a model and data of images", hint="load a ViT")
    sample = data.order(limit, seed=seed)
    columns: dict[tuple[Any, ...], list[float | None]] = {}
    targets = []
    for k in watch(sample, progress=progress, label="images"):
        loo, maps = _maps(clf, data.images[k])
        targets.append(loo.target)
        for (method, bypass, site), scores in maps.items():
            for tokens in TOKENS:
                kept = ~loo.special if tokens == "patches" else np.ones(len(loo.tokens), dtype=bool)
                r = pearson(scores[kept], loo.scores[kept])
                key = (method, bypass, site, tokens)
                columns.setdefault(key, []).append(None if np.isnan(r) else round(r, 5))
    config = config_of(clf, data, clf.encode(np.stack([data.images[k] for k in sample])), seed)
    names = ("method", "bypass", "site", "tokens")
    rows = [{**dict(zip(names, key, strict=True)), "r": r} for key, r in columns.items()]
    config |= {"family": clf.card.family, "images": config.pop("texts")}
    return {
        "config": config, "made with": surroundings(), "example": sample, "target": targets, "rows": rows,
    }  # fmt: skip


def _maps(clf: Classifier, image: np.ndarray) -> tuple[Attribution, dict[tuple[Any, ...], np.ndarray]]:
    """LOO of one image, and its other maps by method, bypassed layers and site."""
    (loo,) = attribute(clf, image, method="loo", progress=False)
    lattice = layer_lattice(clf, image, target=loo.target)
    maps: dict[tuple[Any, ...], np.ndarray] = {}
    for number in range(2**clf.card.layers):
        bypass = tuple(layer for layer in range(1, clf.card.layers + 1) if number >> (layer - 1) & 1)
        for site in SITES:
            maps["lrp", bypass, site] = scores_at(lattice.parts, site)[number]
    for name, (method, options) in OTHERS.items():
        (record,) = attribute(clf, image, method=method, target=loo.target, **options)
        for site in SITES if record.parts else SITES[:1]:
            maps[name, None, site] = record.scores_at(site)
    return loo, maps
