"""How concentrated attention is on each text of a data set."""

from __future__ import annotations

from typing import Any

import torch

from lrp_book.records import config_of
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods.common import watch
from lrp_companion.provenance import surroundings
from lrp_companion.sources import Dataset


@torch.no_grad()
def concentrations(
    clf: Classifier, data: Dataset, *, limit: int | None = None, seed: int = 0, progress: bool | None = None
) -> dict[str, Any]:
    """Numbers only: `config`, `made with`, and `rows`, three lists of one length.

    `example` is the row of the split; `concentration` the mean over layers, heads and queries of
    `sum_i A_ji**2`: 1/T if attention is even, 1 if every query reads one token; `special` the mean attention
    that special tokens receive in all.
    """
    sample = data.order(limit, seed=seed)
    texts = clf.encode([data.texts[k] for k in sample], truncate=True)
    rows: dict[str, list] = {"example": sample, "concentration": [], "special": []}
    for text in watch(texts, progress=progress, label="attention"):
        attention = torch.stack(list(clf.tape(text).attentions))
        received = attention[..., torch.as_tensor(text.special.copy())].sum(-1).mean()
        rows["concentration"].append(round(float((attention**2).sum(-1).mean()), 5))
        rows["special"].append(round(float(received), 5))
    return {"config": config_of(clf, data, texts, seed), "made with": surroundings(), "rows": rows}
