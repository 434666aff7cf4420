"""Planted reasons: which method puts first the words that decide, where it is known which decide?

    python -m lrp_book.records.planted --models DIR/* --data-dir DATA --device cuda --out results/planted

`training/train_planted.py` trained classifiers with nonsense words that decide the label by a rule, and
wrote `planted.json`, the words, beside each. Here each rule's words are planted in held-out sentences against
the sentence's own label, with decoys up to three nonsense words in all. The same text with decoys in their
places is the control. A sentence counts if the network follows the rule there: its prediction is the
sentence's label in the control and the other class with the planted words; of a redundant pair either copy
alone suffices; of a conjunction neither does. So the planted words decide, as is known without attribution.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lrp_book.records import config_of, rounded
from lrp_companion.checks import InputError
from lrp_companion.lab.execute import surroundings
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import attribute, kept_logits, method_call
from lrp_companion.sources import Dataset, load_dataset

SLOTS = 3
METHODS = (
    "loo",
    "loo:removal=delete",
    "loo:removal=mask-token",
    "attnlrp",
    "cp-lrp",
    "pa-lrp",
    "mask-gradient",
    "mask-gradient:groups=8",
    "hybrid",
    "shapley:exact=0:permutations=16",
    "gradient-x-input",
    "ig:n_steps=20",
    "rollout",
    "rollout:residual=true",
)
SUFFICES = {"redundant": True, "conjunction": False}
"""Whether one word of a pair decides alone."""


@dataclass(frozen=True)
class Planting:
    """One sentence with a rule's words: `texts` by which of the words are there, all first, none last; the
    others are decoys. `words` are the planted ones and then the decoys of the first text."""

    texts: tuple[str, ...]
    words: tuple[str, ...]
    label: int


def plantings(
    texts: Sequence[str],
    labels: Sequence[int],
    by_class: Sequence[Sequence[str]],
    decoys: Sequence[str],
    *,
    seed: int = 0,
) -> list[Planting]:
    """Plant the words of the class that is not the sentence's in random gaps between its words.

    >>> (one,) = plantings(["a fine film"], [1], [["blorp"], ["frind"]], ["wump", "ruxt", "fleem"], seed=1)
    >>> one.words[0], one.texts
    ('blorp', ('a ruxt fine film fleem blorp', 'a ruxt fine film fleem wump'))
    """
    out = []
    for number, (text, label) in enumerate(zip(texts, labels, strict=True)):
        rng = np.random.default_rng([seed, number])
        planted = list(by_class[min(1 - label, len(by_class) - 1)])
        drawn = [decoys[k] for k in rng.choice(len(decoys), SLOTS, replace=False)]
        order: list[str | int] = [*text.split()]
        for slot in rng.permutation(SLOTS):
            order.insert(int(rng.integers(len(order) + 1)), int(slot))
        made = []
        for present in itertools.product((True, False), repeat=len(planted)):
            slots = [planted[k] if k < len(planted) and present[k] else drawn[k] for k in range(SLOTS)]
            made.append(" ".join(slots[word] if isinstance(word, int) else word for word in order))
        out.append(Planting(tuple(made), (*planted, *drawn[len(planted) :]), int(label)))
    return out


def logits_of(clf: Classifier, texts: Sequence[str]) -> np.ndarray:
    """Logits, (n, classes)."""
    encoded = clf.encode(list(texts))
    return kept_logits(clf, [(text, np.ones(len(text), dtype=bool)) for text in encoded]).double().numpy()


def follows(rule: str, predicted: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Where the network follows the rule, (n,): `predicted` (n, texts) is in the order of `Planting.texts`.

    >>> follows("redundant", np.array([[0, 0, 0, 1], [0, 1, 0, 1]]), np.array([1, 1])).tolist()
    [True, False]
    """
    same = predicted == labels[:, None]
    parts = same[:, 1:-1].any(1) if SUFFICES.get(rule, False) else ~same[:, 1:-1].all(1)
    return ~same[:, 0] & same[:, -1] & ~parts


def places(clf: Classifier, texts: Sequence[str], words: Sequence[Sequence[str]]) -> np.ndarray:
    """The token of each inserted word, (n, 3)."""
    out = []
    for text, wanted in zip(clf.encode(list(texts)), words, strict=True):
        tokens = list(text.tokens)
        bad = [word for word in wanted if tokens.count(word) != 1]
        if bad:
            got, hint = f"{bad[0]!r} {tokens.count(bad[0])} times", "plant words that the tokenizer has whole"
            raise InputError("planted", got=got, expected="each planted word as one token", hint=hint)
        out.append([tokens.index(word) for word in wanted])
    return np.array(out).reshape(-1, SLOTS)


def ranks(scores: np.ndarray, special: np.ndarray, at: np.ndarray) -> list[int]:
    """The ranks of the inserted words among the words of the text by score; 1 is first. Equal scores share
    the worst rank, so that a map of zeros puts nothing first.

    >>> ranks(np.array([9.0, -1.0, 3.0, 0.0]), np.array([True, False, False, False]), np.array([2, 1, 3]))
    [1, 3, 2]
    """
    return [int((scores[~special] >= scores[k]).sum()) for k in at]


def judged(
    clf: Classifier,
    data: Dataset,
    planted: Mapping[str, Any],
    *,
    methods: Sequence[str] = METHODS,
    limit: int = 300,
    seed: int = 0,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Plant each rule in a random sample of sentences, and explain those where the network follows it.

    Returns
    -------
    arrays : by rule, "RULE logits" (n, texts, 2), "RULE follows" (n,), "RULE tokens" (m,), the words of each
        text that counts, "RULE signed", `ranks` (methods, m, 3).
    manifest : the configuration, and how often each rule is followed.
    """
    sample = data.order(min(limit, len(data)), seed=seed)
    texts, labels = [data.texts[k] for k in sample], np.array([int(data.labels[k]) for k in sample])
    arrays: dict[str, Any] = {"example": np.array(sample, np.int32), "label": labels.astype(np.int8)}
    rules: dict[str, Any] = {}
    for rule, by_class in planted["rules"].items():
        began = time.time()
        made = plantings(texts, labels.tolist(), by_class, planted["decoys"], seed=seed)
        logits = logits_of(clf, [text for one in made for text in one.texts]).reshape(len(made), -1, 2)
        predicted = logits.argmax(-1)
        counts = follows(rule, predicted, labels)
        chosen = [one for one, counted in zip(made, counts, strict=True) if counted]
        arrays |= {f"{rule} logits": logits.astype(np.float32), f"{rule} follows": counts}
        against = [float((predicted[:, k] != labels).mean()) for k in range(predicted.shape[1])]
        rules[rule] = {"words": by_class, "n": int(counts.sum()), "against the label": rounded(against)}
        if chosen:
            arrays |= {f"{rule} {key}": values for key, values in explained(clf, chosen, methods).items()}
        print(clf.card.name, rule, rules[rule], f"{time.time() - began:.0f} s", flush=True)
    config = config_of(clf, data, clf.encode(texts), seed) | {"family": clf.card.family}
    return arrays, {"config": config, "methods": list(methods), "rules": rules, "made with": surroundings()}


def explained(clf: Classifier, chosen: Sequence[Planting], methods: Sequence[str]) -> dict[str, np.ndarray]:
    """`ranks` by method and sentence, "signed", for the class that the planted words decide."""
    texts, targets = [one.texts[0] for one in chosen], [1 - one.label for one in chosen]
    at = places(clf, texts, [one.words for one in chosen])
    signed = []
    for name in methods:
        method, options = method_call(name)
        records = attribute(clf, texts, method=method, target=targets, progress=False, **options)
        signed.append([ranks(r.scores, r.special, at[k]) for k, r in enumerate(records)])
    tokens = [int((~r.special).sum()) for r in records]
    return {"signed": np.array(signed, np.uint8), "tokens": np.array(tokens, np.uint8)}


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--models", nargs="+", required=True, help="folders that train_planted.py wrote")
    parser.add_argument("--data-dir", required=True, help="folder with sst2/ parquet files")
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--limit", type=int, default=300, help="sentences")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    args = parser.parse_args()
    out, data = Path(args.out), load_dataset("sst2", source="folder", data_dir=args.data_dir)
    out.mkdir(parents=True, exist_ok=True)
    for folder in map(Path, args.models):
        if not (folder / "planted.json").is_file() or (out / f"{folder.name}.json").exists():
            print(folder.name, "has no planted words or is done", flush=True)
            continue
        clf = load_classifier(folder, device=args.device)
        planted = json.loads((folder / "planted.json").read_text())
        arrays, manifest = judged(clf, data, planted, methods=args.methods, limit=args.limit)
        np.savez_compressed(out / f"{folder.name}.npz", **arrays)
        training = json.loads((folder / "training.json").read_text())
        manifest |= {key: training[key] for key in ("wiring", "weights", "sst2_validation", "followed")}
        (out / f"{folder.name}.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()
