"""The records of SmolLM2-135M-Instruct: maps, paths and Shapley values on three sets of texts.

    python results/smollm2/make.py --model FOLDER_OR_GGUF --data-dir DATA --out results/smollm2

writes `SET-PART.npz` and its manifest for each set and each part; a part goes on where it stopped. The sets:
SST-2 validation as "Review: {sentence}\\nSentiment:", facts.json and sentences.json. Explained is the logit
of the answer minus that of the foil, as the next token. `--touch` writes maps of three prompts of our own,
`touch.json`, for the page. `--compare results/smollm2` says how far a record lies from that one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lrp_book.records import config_of, real

from lrp_companion.loading.classifier import Classifier, EncodedText, load_classifier
from lrp_companion.methods import attribute, kept_logits
from lrp_companion.methods.common import to_numpy
from lrp_companion.sources import Dataset, load_dataset
from lrp_companion.tape.encoder import token_batches

BEFORE, AFTER = "Review: ", "\nSentiment:"
FEELINGS = (" positive", " negative")
SETS = ("sst2", "facts", "sentences")
REMOVALS = ("attention-mask", "delete")
GRADIENTS = ("mask-gradient", "mask-gradient-4", "mask-gradient-8")
METHODS = ("attnlrp", "cp-lrp", "pa-lrp", "ig", "gradient-x-input", *GRADIENTS)
BASELINE = 1
"""The token of IG's baseline, `<|im_start|>`: what the record was made with. The file's own padding is 2."""
TOUCH = (
    ("The capital of France is", " Paris", " Rome"),
    ("The keys to the cabinet", " are", " is"),
    (f"{BEFORE}a warm and honest film{AFTER}", *FEELINGS),
)
TOUCHED = ("loo", "attnlrp", "cp-lrp", "mask-gradient")
"""Prompts of our own, with answer and foil, and what the page shows of them."""
PARTS: dict[str, dict[str, Any]] = {
    "maps": {"limit": None, "chunk": 218},
    "paths": {"limit": None, "chunk": 218},
    "shapley": {"limit": 100, "chunk": 25},
}


def cases_of(name: str, data_dir: str | None) -> tuple[Dataset, list[str], list[tuple[str, str]], list[bool]]:
    """Of a set: the data, the prompts, of each its answer and its foil, and whether the answer is right."""
    if name == "sst2":
        data = load_dataset("sst2", data_dir=data_dir)
        prompts = [f"{BEFORE}{text}{AFTER}" for text in data.texts]
        return data, prompts, [FEELINGS] * len(prompts), [bool(label == 1) for label in data.labels]
    rows = json.loads((Path(__file__).parent / f"{name}.json").read_text())
    prompts = [row["text"] for row in rows]
    data = load_dataset({"text": prompts}, text="text", title=name)
    return data, prompts, [(row["answer"], row["foil"]) for row in rows], [True] * len(rows)


@torch.no_grad()
def best_tokens(clf: Classifier, texts: Sequence[EncodedText]) -> list[int]:
    """The token with the largest logit of the whole vocabulary."""
    out = [0] * len(texts)
    for batch in token_batches([len(text) for text in texts], 4096):
        logits = kept_logits(clf, [(texts[k], np.ones(len(texts[k]), bool)) for k in batch], progress=False)
        for k, best in zip(batch, logits.argmax(-1).tolist(), strict=True):
            out[k] = best
    return out


def words_of(clf: Classifier, text: EncodedText, name: str) -> np.ndarray:
    """The tokens of the review; of the other sets all tokens."""
    if name != "sst2":
        return ~text.special
    first, last = len(BEFORE), len(text.joined) - len(AFTER)
    return np.array([start < last and end > first for start, end in text.offsets]) & ~text.special


def make(
    clf: Classifier,
    name: str,
    parts: Sequence[str],
    out: Path,
    *,
    limit: int | None,
    data_dir: str | None,
    seed: int,
    compare: Path | None,
) -> None:
    """The parts of one set."""
    data, prompts, cases, right = cases_of(name, data_dir)
    sample = data.order(min(len(data), limit or len(data)), seed=seed)
    ids = {word: clf.class_of(word) for case in cases for word in case}
    pairs = list(dict.fromkeys(cases))
    contrasts = real.Contrasts.of(clf, [(ids[a], ids[b]) for a, b in pairs])
    contrasts.pad_id = BASELINE
    encoded = clf.encode([prompts[k] for k in sample])
    targets = [pairs.index(cases[k]) for k in sample]
    everything = [(text, np.ones(len(text), dtype=bool)) for text in encoded]
    gaps = to_numpy(kept_logits(contrasts, everything, progress=False))[np.arange(len(sample)), targets]
    correct = [bool((gap > 0) == right[k]) for gap, k in zip(gaps, sample, strict=True)]
    best = best_tokens(clf, encoded)
    named = [ids[cases[k][not right[k]]] for k in sample]
    first = round(float(np.mean([a == b for a, b in zip(best, named, strict=True)])), 4)
    words = [words_of(clf, text, name) for text in encoded]
    texts = real.Texts(encoded, targets, words, sample, correct)
    print(f"{name}: {np.mean(correct):.4f} of the contrasts right, {first:.4f} named first", flush=True)
    for part in parts:
        if part == "paths" and name != "facts":
            continue
        plan = PARTS[part]
        some = texts.at(range(min(len(sample), plan["limit"] or len(sample))))
        config = config_of(clf, data, some.encoded, seed)
        config |= {"part": part, "output": "logit of the answer - logit of the foil", "named first": first}
        config |= {"readings": real.readings_of(clf)} | (
            {"template": BEFORE + "{}" + AFTER} if name == "sst2" else {}
        )

        def of_texts(some: real.Texts, part: str = part) -> real.Arrays:
            if part == "maps":
                return real.explained(contrasts, some, removals=REMOVALS, methods=METHODS, curve_chunk=None)
            if part == "shapley":
                return real.shapley_of(contrasts, some, permutations=128, seed=seed)
            return real.paths_of(contrasts, some)

        path = out / f"{name}-{part}.npz"
        real.part_of(path, some, of_texts, clf=contrasts, config=config, chunk=plan["chunk"], say=say)
        if compare:
            say(real.compared(path, compare / path.name))


def say(line: str) -> None:
    print(line, flush=True)


def touch(clf: Classifier, out: Path) -> None:
    """Write what the page shows of a few prompts: maps of the answer against the foil, and the next token."""
    made: list[dict[str, Any]] = []
    for text, answer, foil in TOUCH:
        encoded = clf.encode([text])
        rows = [
            attribute(clf, text, method=method, target=answer, contrast=foil, progress=False)[0]
            for method in TOUCHED
        ]
        made.append({"answer": answer, "foil": foil, "next": clf.labels[best_tokens(clf, encoded)[0]]})
        made[-1]["rows"] = [row.to_dict() for row in rows]
    out.write_text(json.dumps({"model": clf.card.name, "prompts": made}, indent=1, ensure_ascii=False) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options, make the parts."""
    parser = argparse.ArgumentParser(allow_abbrev=False, description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="a folder, or a .gguf file")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--limit", type=int, help="texts of each set (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the samples and of the orders")
    parser.add_argument("--touch", action="store_true", help="only maps of three prompts of our own")
    parser.add_argument("--compare", type=Path, help="say how far a record in this folder lies from this one")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data-dir", help="folder of the data (default: the variable LRP_COMPANION_DATA)")
    parser.add_argument("--out", type=Path, required=True, help="folder of the record")
    asked = parser.parse_args(arguments)
    clf = load_classifier(str(asked.model), device=asked.device)
    if asked.touch:
        touch(clf, asked.out / "touch.json")
        return 0
    for name in asked.sets.split(","):
        parts = asked.parts.split(",")
        options: dict[str, Any] = {"limit": asked.limit, "data_dir": asked.data_dir, "seed": asked.seed}
        make(clf, name, parts, asked.out, compare=asked.compare, **options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
