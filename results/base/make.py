"""The records of the base-size classifier: maps, curves, paths, Shapley values.

    lrp-companion sources --fetch-base
    python results/base/make.py --data-dir DATA --out results/base

writes `SEED-PART.npz` and its manifest for each adapter of `training/base` and each part. A part goes on
where it stopped. `--limit 10` explains the first ten texts of each part's sample. `--compare results/base`
says how far the texts of a record lie from those of another one.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from lrp_book.records import config_of, real

from lrp_companion import sources
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import kept_logits
from lrp_companion.methods.common import to_numpy
from lrp_companion.metrics.faithfulness import ORDERS
from lrp_companion.schema import REMOVALS
from lrp_companion.sources import load_dataset

GRADIENTS = ("mask-gradient", "mask-gradient-4", "mask-gradient-8")
METHODS = ("attnlrp", "cp-lrp", "ig", "gradient-x-input", "rollout", *GRADIENTS)
"""PA-LRP is AttnLRP read at word + position."""
RECORDS = Path(__file__).parent
PARTS: dict[str, dict[str, Any]] = {
    "maps": {"data": "sst2", "limit": None, "chunk": 128},
    "paths": {"data": "sst2", "limit": None, "chunk": 436},
    "shapley": {"data": "sst2", "limit": 200, "chunk": 50},
    "sst2": {"data": "sst2", "limit": None, "chunk": 128},
    "imdb": {"data": "imdb", "limit": 200, "chunk": 25},
    "imdb-rest": {"data": "imdb", "limit": 200, "chunk": 5, "first": "shortest"},
    "imdb-maps": {"data": "imdb", "limit": 200, "chunk": 1, "first": "drawn"},
    "imdb-paths": {"data": "imdb", "limit": 200, "chunk": 1, "first": "drawn"},
}
REVIEW_REMOVALS, REVIEW_CHUNK = ("attention-mask", "mask-token"), 16
"""Removals of whole reviews, and how many tokens a step of their curves removes."""
REST = ("attnlrp", "cp-lrp", "gradient-x-input", "rollout", "mask-gradient")
"""Methods for the reviews that `imdb` lacks, the shortest first, and for SST-2, with LOO by the attention
mask alone: what two cores can do."""
DRAWN = ("loo attention-mask", *METHODS)
"""Maps of the reviews that were drawn first, as far as two cores get; of what `imdb` and `imdb-rest` have of
a review, nothing is computed again.
"""
SEEDS = ("sst2-seed-0", "sst2-seed-1", "sst2-seed-2", "sst2-imdb-seed-0")


def make(
    clf: Classifier, part: str, out: Path, *, limit: int | None, data_dir: str | None, seed: int, quick: bool
) -> None:
    """One part of the record of one classifier."""
    plan = PARTS[part]
    data = load_dataset(plan["data"], data_dir=data_dir)
    most = min(len(data), plan["limit"] or len(data), limit or len(data))
    sample = data.order(most, seed=seed)
    if part == "imdb-rest":
        there = set(np.load(RECORDS / f"{Path(clf.card.name).name}-imdb.npz")["example"].tolist())
        sample = [k for k in sample if k not in there]
    encoded = clf.encode([data.texts[k] for k in sample], truncate=True)
    everything = [(text, np.ones(len(text), dtype=bool)) for text in encoded]
    predicted = to_numpy(kept_logits(clf, everything, progress=False)).argmax(1).tolist()
    words = [~text.special for text in encoded]
    correct = [bool(predicted[k] == data.labels[example]) for k, example in enumerate(sample)]
    texts = real.Texts(encoded, predicted, words, sample, correct)
    config = config_of(clf, data, encoded, seed) | {
        "part": part,
        "target": "predicted class",
        "output": "logit",
    }
    config["readings"] = real.readings_of(clf)
    config |= {"quick": True} if quick else {}

    def of_texts(some: real.Texts) -> real.Arrays:
        if part in ("imdb-rest", "sst2"):
            removals = ("attention-mask",)
            return real.explained(clf, some, removals=removals, methods=REST, curve_chunk=None)
        if part in ("maps", "imdb"):
            long = part == "imdb"
            chosen = REVIEW_REMOVALS if long else REMOVALS
            chunk = REVIEW_CHUNK if long else 1
            methods = [name for name in METHODS if not (quick and name == "ig")]
            curve_chunk = None if quick else chunk
            return real.explained(clf, some, removals=chosen, methods=methods, curve_chunk=curve_chunk)
        if part == "imdb-maps":
            return drawn(clf, some, known(clf, some))
        if part == "imdb-paths":
            loo = known(clf, some).get("loo attention-mask")
            return real.paths_of(clf, some, loo=None if loo is None else [loo])
        if part == "shapley":
            return real.shapley_of(clf, some, permutations=128, seed=seed)
        return real.paths_of(clf, some)

    order: dict[str, Any] = {"chunk": plan["chunk"], "first": plan.get("first", "longest")}
    real.part_of(out, texts, of_texts, clf=clf, config=config, say=say, **order)


def known(clf: Classifier, some: real.Texts) -> real.Arrays:
    """What the records of reviews have of one of them."""
    (example,), name = some.examples, Path(clf.card.name).name
    found = (real.of_example(RECORDS / f"{name}-{part}.npz", example) for part in ("imdb-rest", "imdb"))
    return {key: values for of_part in found for key, values in of_part.items()}


def drawn(clf: Classifier, some: real.Texts, made: real.Arrays) -> real.Arrays:
    """Every map of one review and the curves of the maps at the words; what is `made` is not made again."""
    methods = [name for name in METHODS if name not in made]
    removals = () if "loo attention-mask" in made else ("attention-mask",)
    made = made | real.explained(clf, some, removals=removals, methods=methods, curve_chunk=None)
    orders = {name: [made[name]] for name in DRAWN if f"morf {name}" not in made}
    if orders:
        made |= real.curves_of(clf, some, orders, chunk=REVIEW_CHUNK)
    maps = [name for name in made if name.removesuffix("+position") in DRAWN]
    return {name: made[name] for name in (*sorted(maps), *(f"{o} {name}" for name in DRAWN for o in ORDERS))}


def say(line: str) -> None:
    print(line, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options, make the parts."""
    parser = argparse.ArgumentParser(allow_abbrev=False, description=__doc__)
    parser.add_argument(
        "--base",
        type=Path,
        help="folder of all-mpnet-base-v2, if it is not where sources --fetch-base puts it",
    )
    parser.add_argument("--adapters", type=Path, default=Path("training/base"))
    parser.add_argument("--seed-names", default=",".join(SEEDS[:3]), help="adapters, joined by commas")
    parser.add_argument("--model", help="explain this model, for a trial, and no adapter")
    parser.add_argument("--parts", default="maps,paths,shapley", help=", ".join(PARTS))
    parser.add_argument("--limit", type=int, help="texts of each part (default: as planned)")
    parser.add_argument("--seed", type=int, default=0, help="of the samples and of the orders")
    parser.add_argument("--quick", action="store_true", help="maps without IG and curves")
    parser.add_argument("--compare", type=Path, help="say how far a record in this folder lies from this one")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data-dir", help="folder of the data (default: the variable LRP_COMPANION_DATA)")
    parser.add_argument("--out", type=Path, required=True, help="folder of the record")
    asked = parser.parse_args(arguments)
    if asked.base:
        os.environ[sources.BASE_VARIABLE] = str(asked.base.resolve())
    for name in [asked.model] if asked.model else asked.seed_names.split(","):
        clf = load_classifier(asked.model or str(asked.adapters / name), device=asked.device)
        for part in asked.parts.split(","):
            out = asked.out / f"{Path(name).name}-{part}.npz"
            options: dict[str, Any] = {"limit": asked.limit, "data_dir": asked.data_dir, "seed": asked.seed}
            make(clf, part, out, quick=asked.quick, **options)
            if asked.compare:
                say(real.compared(out, asked.compare / out.name))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
