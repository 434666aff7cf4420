"""`python -m benchmarks.precision`: scores in half precision beside those in float32, on the embedded model.

All embedded short reviews; r is Pearson's over all tokens of a review. Record: `results/precision.json`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import pages
from lrp_companion.lab.execute import surroundings
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.methods import attribute
from lrp_companion.sources import load_dataset

RECORD = pages.ROOT / "results" / "precision.json"
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "AttnLRP": ("attnlrp", {}),
    "CP-LRP": ("cp-lrp", {}),
    "mask gradient": ("mask-gradient", {}),
    "mask gradient, K = 8": ("mask-gradient", {"groups": 8}),
    "gradient x input": ("gradient-x-input", {}),
    "LOO": ("loo", {}),
}


def measure(dtypes: Sequence[str], *, limit: int | None, model: str) -> dict[str, Any]:
    """Compare on every embedded short review, or the first `limit`; return the record."""
    data = load_dataset("sst2", split="validation", source="embedded")
    texts, rows = list(data.texts)[:limit], []
    single = load_classifier(model)
    for name, (method, options) in METHODS.items():
        exact = attribute(single, texts, method=method, progress=False, **options)
        targets = [record.target for record in exact]
        for dtype in dtypes:
            clf = load_classifier(model, dtype=dtype)
            near = attribute(clf, texts, method=method, target=targets, progress=False, **options)
            pairs = [(one.scores, other.scores) for one, other in zip(exact, near, strict=True)]
            r = np.array([np.corrcoef(*pair)[0, 1] for pair in pairs])
            apart = np.array([np.abs(one - other).max() / np.abs(one).max() for one, other in pairs])
            row: dict[str, Any] = {"method": name, "dtype": dtype, "r": float(r.mean())}
            row |= {"least r": float(r.min()), "difference": float(np.median(apart))}
            rows.append(row | {"largest difference": float(apart.max())})
            print(f"{name} in {dtype}: r {r.mean():.5f}, at least {r.min():.5f}", flush=True)
    config = {"model": single.card.name, "weights": single.card.fingerprint, "data": data.describe()}
    return {"config": config | {"texts": len(texts)}, "surroundings": surroundings(), "rows": rows}


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.precision", description=__doc__)
    parser.add_argument("--limit", type=int, help="how many reviews (default: all)")
    parser.add_argument("--model", default="companion", help="the model (default: companion)")
    text = "bfloat16 (default), float16, which is slow on a processor, or both"
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16"], help=text)
    parser.add_argument("--out", type=Path, default=RECORD, help="default: results/precision.json")
    given = parser.parse_args(arguments)
    pages.write(measure(given.dtypes, limit=given.limit, model=given.model), given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
