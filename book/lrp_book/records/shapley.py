"""Shapley values, LOO and the maps of the methods, text by text: numbers with the index of the text only.

`python -m lrp_book.records.shapley --model companion --dataset sst2 --out results/shapley/companion.npz`
writes the file after every chunk of texts; the same command again goes on where it stopped. Beside it stands
a manifest, `.json`. Everything explains the logit of the predicted class; removal is by the attention mask.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lrp_book.records import Arrays, config_of, in_chunks
from lrp_companion.attribution import Attribution
from lrp_companion.checks import SourceError
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import attribute
from lrp_companion.sources import load_dataset

MAPS: dict[str, tuple[str, dict[str, Any]]] = {
    "loo": ("loo", {}),
    "mask-gradient": ("mask-gradient", {}),
    "mask-gradient-8": ("mask-gradient", {"groups": 8}),
    "gradient-x-input": ("gradient-x-input", {}),
    "attnlrp": ("attnlrp", {}),
    "cp-lrp": ("cp-lrp", {}),
    "pa-lrp": ("pa-lrp", {}),
    "ig": ("ig", {"n_steps": 20}),
}
"""The maps beside the Shapley values: method and options. Those by removal take the unit; of the others the
scores of a unit's tokens are added up, at the word and, as `NAME+position`, at word and position.
"""
BY_REMOVAL = ("loo", "mask-gradient", "mask-gradient-8")
WITH_POSITION = ("gradient-x-input", "attnlrp", "cp-lrp")
TABLES = ("example", "target", "units", "passes", "value", "empty", "logit")
"""One number for each text; the other arrays have one for each unit, text after text, and `interactions` one
for each pair of units i < j of the texts that are exact, row by row.
"""


def maps_of(clf: Classifier, texts: Sequence[str], method: str, *, unit: str) -> dict[str, list[np.ndarray]]:
    """The maps of a method over the units of each text, by name; none if an extra is missing."""
    name, options = MAPS[method]
    by_removal = {"unit": unit} if method in BY_REMOVAL else {}
    try:
        records = attribute(
            clf, list(texts), method=name, truncate=True, progress=False, **options, **by_removal
        )
    except SourceError:  # captum
        return {}

    def over(record: Attribution) -> Attribution:
        return record if unit == "token" or by_removal else record.spans(unit)

    records = [over(record) for record in records]
    out = {method: [record.scores for record in records]}
    if name in WITH_POSITION and "position" in records[0].parts:
        out[f"{method}+position"] = [record.scores_at("word+position") for record in records]
    return out


def of_texts(
    clf: Classifier, texts: Sequence[str], examples: Sequence[int], *, unit: str, **options: Any
) -> dict[str, np.ndarray]:
    """The arrays of some texts, as `TABLES` describes them."""
    started = time.perf_counter()
    records = attribute(
        clf, list(texts), method="shapley", unit=unit, truncate=True, progress=False, **options
    )
    seconds = {"shapley": time.perf_counter() - started}
    units = {
        "special": [record.special for record in records],
        "shapley": [record.scores for record in records],
        "standard error": [np.array(record.details["standard error"]) for record in records],
    }
    for method in MAPS:
        started = time.perf_counter()
        units |= maps_of(clf, texts, method, unit=unit)
        seconds[method] = time.perf_counter() - started
    pairs = [
        np.array(record.details["interactions"])[np.triu_indices(len(record.scores), 1)]
        for record in records
        if "interactions" in record.details
    ]
    out = {name: np.concatenate(values) for name, values in units.items()}
    out["interactions"] = np.concatenate([*pairs, np.empty(0)])
    out["example"] = np.array(examples)
    out["target"] = np.array([record.target for record in records])
    out["units"] = np.array([len(record.scores) for record in records])
    out["logit"] = np.array([record.logit for record in records])
    for name in ("value", "empty"):
        out[name] = np.array([record.details[name] for record in records])
    out["passes"] = np.array([record.details["passes"][0] for record in records])
    return out | {f"seconds {name}": np.array([taken]) for name, taken in seconds.items()}


def make(
    out: Path,
    *,
    model: str,
    dataset: str,
    unit: str = "token",
    limit: int | None = None,
    seed: int = 0,
    exact: int = 12,
    permutations: int = 256,
    chunk: int = 48,
    device: str = "cpu",
    data_dir: str | None = None,
    source: str = "auto",
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Write the record of a model on a random sample of a data set, and return its manifest."""
    clf = load_classifier(model, device=device)
    data = load_dataset(dataset, source=source, data_dir=data_dir)
    sample = data.order(limit, seed=seed)
    encoded = clf.encode([data.texts[k] for k in sample], truncate=True)
    lengths = dict(sorted(zip(sample, map(len, encoded), strict=True)))
    options = {"exact": exact, "permutations": permutations, "seed": seed}
    config = config_of(clf, data, encoded, seed) | {"unit": unit, "removal": "attention-mask", **options}

    def of_examples(some: Sequence[int]) -> Arrays:
        return of_texts(clf, [data.texts[k] for k in some], some, unit=unit, **options)

    def told(done: Arrays) -> dict[str, Any]:
        taken = {name[8:]: round(float(done[name].sum()), 2) for name in done if name.startswith("seconds ")}
        return {"rounding": "float32", "seconds": taken}

    return in_chunks(out, lengths, of_examples, config=config, told=told, chunk=chunk, say=say)[1]


def read(path: Path) -> list[dict[str, Any]]:
    """The texts of a record: each table's number, each map (units,), and if all subsets were run the
    `interactions` (units, units).
    """
    arrays = dict(np.load(path))
    ends = np.cumsum(arrays["units"])
    maps = [
        name for name in arrays if len(arrays[name]) == ends[-1] and name not in (*TABLES, "interactions")
    ]
    exact = json.loads(path.with_suffix(".json").read_text())["config"]["exact"]
    out, at = [], 0
    for k, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        text: dict[str, Any] = {name: arrays[name][k].item() for name in TABLES}
        text |= {name: arrays[name][start:end] for name in maps}
        if (~text["special"]).sum() <= exact:
            count = int(end - start)
            between = np.zeros((count, count))
            upper = np.triu_indices(count, 1)
            between[upper] = arrays["interactions"][at : at + len(upper[0])]
            text["interactions"], at = between + between.T, at + len(upper[0])
        out.append(text)
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options, make the record."""
    parser = argparse.ArgumentParser(prog="python -m lrp_book.records.shapley", allow_abbrev=False)
    parser.add_argument("--model", default="companion", help="an embedded model, a folder or a hub id")
    parser.add_argument("--dataset", default="sst2", choices=("sst2", "imdb"))
    parser.add_argument("--unit", default="token", choices=("token", "word", "sentence"))
    parser.add_argument("--limit", type=int, help="size of a random sample (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample and of the orders")
    parser.add_argument("--exact", type=int, default=12, help="most units of which all subsets are run")
    parser.add_argument("--permutations", type=int, default=256, help="orders of longer texts")
    parser.add_argument("--chunk", type=int, default=48, help="texts between two writes of the file")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data-dir", help="folder of the data (default: the variable LRP_COMPANION_DATA)")
    parser.add_argument("--out", type=Path, required=True, help="the file, .npz; a manifest stands beside it")
    asked = vars(parser.parse_args(arguments))
    make(**asked, say=lambda line: print(line, flush=True))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
