"""Makers of single records in `results/`: each ran once, and `results/README.md` has its call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.sources import Dataset


def config_of(clf: Classifier, data: Dataset, texts: Sequence[EncodedText], seed: int) -> dict[str, Any]:
    """The configuration behind numbers on some texts: model, data, number of texts, draw and lengths."""
    lengths = [len(text) for text in texts]
    return {
        "model": clf.card.name,
        "layers": clf.card.layers,
        "weights": clf.card.fingerprint,
        "dtype": clf.card.dtype,
        "data": f"{data.name}/{data.split} from {data.source}",
        "fingerprint": data.fingerprint,
        "texts": len(texts),
        "seed": seed,
        "tokens": {"mean": round(float(np.mean(lengths)), 2), "least": min(lengths), "most": max(lengths)},
    }


def rounded(value: Any, digits: int = 5) -> Any:
    """Numbers as a record keeps them: rounded, and None where undefined."""
    if isinstance(value, dict):
        return {name: rounded(entry, digits) for name, entry in value.items()}
    if isinstance(value, (list, np.ndarray)):
        return [rounded(entry, digits) for entry in value]
    if isinstance(value, (float, np.floating)):
        return None if np.isnan(value) else round(float(value), digits)
    return value
