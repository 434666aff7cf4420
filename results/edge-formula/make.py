"""Key cut and the secant form on networks that have no run here: r with LOO, and planted words.

    python results/edge-formula/make.py mpnet --limit 60 --data-dir DATA --out results/edge-formula/base.json
    python results/edge-formula/make.py smollm2-sst2 --model GGUF --limit 100 ... --out .../smollm2-sst2.json
    python results/edge-formula/make.py vit|imdb|planted|WIRING ...
    python results/edge-formula/make.py WIRING --model TRAINING --limit 300 ... --out .../WIRING-seed-1.json

LOO and the maps of known methods are those of `results/base` and `results/smollm2`, LOO and Shapley values of
a wiring those of `results/shapley`; the texts are the first ones of these samples. The ViT explains the first
images of `results/vit`'s sample, with LOO anew, and `imdb` the reviews after the 60 of `imdb-companion`. Of
`planted` it is kept in which sentences all planted words have the largest scores. Numbers only, text by text.
"""

from __future__ import annotations

import argparse
import json
import runpy
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lrp_book.records import config_of, planted, real, rounded, shapley

import lrp_companion as lrp
from lrp_companion.attribution import Attribution
from lrp_companion.lab.execute import surroundings
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods import explain, method_call
from lrp_companion.metrics import pearson, spearman
from lrp_companion.sources import load_dataset

RECORDS = Path(__file__).resolve().parents[1]
SECANT, GROUPS = "secant-mask-gradient:special=secant", "mask-gradient:groups=4"
NEW = ("key-cut", "lrp:cut=key+sinks", "lrp:cut=key+all", SECANT, f"{SECANT}:groups=4")
KNOWN = ("attnlrp", "cp-lrp", "mask-gradient")
WIRINGS = ("post-ln-first", "post-ln-mean", "modernbert", "gpt2", "llama")
SMOLLM2 = ("smollm2-facts", "smollm2-sentences", "smollm2-sst2")
ENCODERS = {"mpnet": "MPNet", "vit": "ViT", "imdb": "MiniLM", **dict.fromkeys(SMOLLM2, "SmolLM2")}
RULES = ("shortcut", "redundant", "conjunction", "negator")
Maps = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """An example: its row, maps by method, LOO, which tokens are words and special, and Shapley values."""

    row: int
    maps: Maps
    loo: np.ndarray
    words: np.ndarray
    special: np.ndarray
    shapley: np.ndarray | None = None


def explained(clf: Classifier, encoded: Any, target: int, calls: tuple[str, ...]) -> Maps:
    """Maps of one text, those of rules at word + position."""
    maps = {}
    for call in calls:
        method, options = method_call(call)
        at = {} if "gradient" in method or method == "loo" else {"site": real.sites_of(clf)[-1]}
        (record,) = explain(method, clf, [encoded], [target], progress=False, **options, **at)
        assert isinstance(record, Attribution)
        maps[call] = record.scores
    return maps


def kept(arrays: Mapping[str, np.ndarray], k: int, site: str) -> tuple[Maps, np.ndarray, np.ndarray]:
    """Of the k-th text of a record: maps of known methods, LOO by the attention mask, and its words."""
    at = {f"{name}{site}": name for name in KNOWN[:2]} | {"mask-gradient": "mask-gradient"}
    at |= {"mask-gradient-4": GROUPS, "loo attention-mask": "loo", "word": "word"}
    maps = {call: real.by_text(arrays, name)[k] for name, call in at.items()}
    return maps, maps.pop("loo").astype(float), maps.pop("word")


def of_mpnet(training: str, limit: int, data_dir: str) -> tuple[dict[str, Any], Iterator[Case]]:
    clf = lrp.load_classifier(str(RECORDS.parent / "training" / "base" / training))
    arrays = dict(np.load(RECORDS / "base" / f"{training}-maps.npz"))
    data = load_dataset("sst2", data_dir=data_dir)
    drawn = np.random.default_rng(0).permutation(len(arrays["example"]))[
        :limit
    ]  # the record's order is by length
    encoded = clf.encode([data.texts[k] for k in arrays["example"][drawn]])

    def cases() -> Iterator[Case]:
        for k, text in zip(drawn.tolist(), encoded, strict=True):
            maps, loo, _ = kept(arrays, k, "+position")
            maps |= explained(clf, text, int(arrays["target"][k]), NEW)
            yield Case(int(arrays["example"][k]), maps, loo, ~text.special, text.special)

    return config_of(clf, data, encoded, 0), cases()


def of_smollm2(name: str, model: str, limit: int, data_dir: str) -> tuple[dict[str, Any], Iterator[Case]]:
    clf = lrp.load_classifier(model)
    arrays = dict(np.load(RECORDS / "smollm2" / f"{name}-maps.npz"))
    cases_of = runpy.run_path(str(RECORDS / "smollm2" / "make.py"))["cases_of"]
    data, prompts, asked, _ = cases_of(name, data_dir)
    ids = [tuple(clf.class_of(word) for word in case) for case in asked]
    pairs = list(dict.fromkeys(ids))
    contrasts = real.Contrasts.of(clf, pairs)
    rows = data.order(min(limit, len(data)), seed=0)
    encoded = contrasts.encode([prompts[k] for k in rows])

    def cases() -> Iterator[Case]:
        for row, text in zip(rows, encoded, strict=True):
            maps, loo, words = kept(arrays, arrays["example"].tolist().index(row), "")
            maps |= explained(contrasts, text, pairs.index(ids[row]), NEW)
            yield Case(row, maps, loo, words, text.special)

    return config_of(clf, data, encoded, 0), cases()


def anew(name: str, limit: int, data_dir: str) -> tuple[dict[str, Any], Iterator[Case]]:
    """Of the ViT, or of `companion` on the reviews after the 60 of `imdb-companion`: with LOO anew."""
    if name == "vit":
        clf = lrp.load_classifier(str(RECORDS.parent / "training" / "vit"))
        data = load_dataset("mnist", source="folder", data_dir=data_dir, side=28)
        rows = data.order(limit, seed=0)
        assert data.images is not None
        given: Any = np.stack([data.images[k] for k in rows])
        encoded = clf.encode(given)
    else:
        clf, data = lrp.load_classifier("companion"), load_dataset("imdb", source="folder", data_dir=data_dir)
        rows = data.order(60 + limit, seed=0)[60:]
        given = [data.texts[k] for k in rows]
        encoded = clf.encode(given, truncate=True)
    targets = [of.target for of in lrp.attribute(clf, given, method="attnlrp", truncate=name == "imdb")]

    def cases() -> Iterator[Case]:
        for row, one, target in zip(rows, encoded, targets, strict=True):
            maps = explained(clf, one, target, ("loo", *KNOWN, GROUPS, *NEW))
            yield Case(row, maps, maps.pop("loo"), ~one.special, one.special)

    return config_of(clf, data, encoded, 0), cases()


def of_wiring(
    wiring: str, model: str | None, limit: int, data_dir: str
) -> tuple[dict[str, Any], Iterator[Case]]:
    """Of the training in the tree, or of another (a folder), with LOO anew and without Shapley values."""
    clf = lrp.load_classifier(model or str(RECORDS.parent / "training" / "wirings" / wiring))
    data = load_dataset("sst2", data_dir=data_dir)
    rows = data.order(limit, seed=0)
    encoded = clf.encode([data.texts[k] for k in rows])
    record = {text["example"]: text for text in shapley.read(RECORDS / "shapley" / f"{wiring}.npz")}
    if model:
        found = lrp.attribute(clf, [data.texts[k] for k in rows], method="loo")
        record = {row: {"target": of.target, "loo": of.scores} for row, of in zip(rows, found, strict=True)}

    def cases() -> Iterator[Case]:
        for row, text in zip(rows, encoded, strict=True):
            of = record[row]
            maps = explained(clf, text, of["target"], (*KNOWN, GROUPS, *NEW))
            yield Case(row, maps, of["loo"].astype(float), ~text.special, text.special, of.get("shapley"))

    return config_of(clf, data, encoded, 0), cases()


def agreements(made: dict[str, Any], of: Iterator[Case], write: Any) -> Iterator[None]:
    """Put r of every map with LOO into `made`, text by text: words, all tokens; by Pearson and rank. The same
    with Shapley values at the words, where they are known.
    """
    made |= {"examples": [], "r": {}}
    for case in of:
        maps, words, loo = case.maps, case.words, case.loo
        if case.special.any():
            maps["secant-mask-gradient"] = np.where(case.special, loo, maps[SECANT])
        made["examples"].append(case.row)
        for call, scores in maps.items():
            r = [f(scores[at], loo[at]) for at in (words, words | True) for f in (pearson, spearman)]
            made["r"].setdefault(call, []).append(rounded(r))
        if case.shapley is not None:
            for call, scores in {"loo": loo, **maps}.items():
                r = [f(scores[words], case.shapley[words]) for f in (pearson, spearman)]
                made.setdefault("r with Shapley", {}).setdefault(call, []).append(rounded(r))
        write()
        yield
    print({call: np.nanmean(np.array(rows, float), 0).round(3).tolist() for call, rows in made["r"].items()})


def of_planted(wiring: str, limit: int, data_dir: str) -> dict[str, Any]:
    """In which sentences all planted words of a rule have the largest scores, by method."""
    folder = RECORDS.parent / "training" / "planted" / wiring
    clf, data = lrp.load_classifier(str(folder)), load_dataset("sst2", data_dir=data_dir)
    words = json.loads((folder / "planted.json").read_text())
    calls = ("loo", *KNOWN, GROUPS, *NEW)
    arrays, manifest = planted.judged(clf, data, words, methods=calls, limit=limit)
    top: dict[str, dict[str, list[int]]] = {}
    for rule in RULES:
        count = len(words["rules"][rule][0])
        first = (arrays[f"{rule} signed"][..., :count] <= count).all(-1)
        top[rule] = {call: of.astype(int).tolist() for call, of in zip(calls, first, strict=True)}
        print(
            wiring, rule, {call: round(float(np.mean(of)), 3) for call, of in top[rule].items()}, flush=True
        )
    return {"config": manifest["config"], "on top": top}


def main() -> None:
    """Make one record."""
    parser = argparse.ArgumentParser(allow_abbrev=False, description=__doc__)
    parser.add_argument("what", choices=("mpnet", *SMOLLM2, "vit", "imdb", "planted", *WIRINGS))
    parser.add_argument("--model", help="the .gguf file of SmolLM2, or another training of a wiring")
    parser.add_argument("--limit", type=int, default=60, help="texts")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    made: dict[str, Any] = {"encoder": ENCODERS.get(asked.what, asked.what)}
    made |= {"start": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())} | surroundings()

    def write() -> None:
        asked.out.write_text(json.dumps(made) + "\n", encoding="utf-8")

    given = asked.limit, asked.data_dir
    if asked.what in WIRINGS and asked.model:
        made["training"] = json.loads((Path(asked.model) / "training.json").read_text())
    if asked.what == "planted":
        made.pop("encoder")
        for wiring in ("post-ln-first", "llama"):
            made[wiring] = of_planted(wiring, *given)
            write()
    elif asked.what == "mpnet":
        runs = []
        for training in ("sst2-seed-0", "sst2-seed-1", "sst2-seed-2"):
            config, cases = of_mpnet(training, *given)
            runs.append(agreements(made.setdefault(training, {"config": config}), cases, write))
        for _ in zip(
            *runs, strict=True
        ):  # a text in each training, then the next: stopped early, all have the same
            pass
    else:
        name = asked.what.removeprefix("smollm2-")
        if asked.what in SMOLLM2:
            config, cases = of_smollm2(name, asked.model, *given)
        else:
            alone = name in ("vit", "imdb")
            config, cases = anew(name, *given) if alone else of_wiring(name, asked.model, *given)
        for _ in agreements(made.setdefault(name, {"config": config}), cases, write):
            pass


if __name__ == "__main__":
    main()
