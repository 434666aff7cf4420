"""Records of pre-trained models: maps of all methods, curves, layer paths, Shapley values.

What `results/base/make.py` and `results/smollm2/make.py` share. Each part of a record is one file, `.npz`,
with numbers only: one entry for each text, or for each token, text after text. It is written after every
chunk of texts, and the same command again goes on where it stopped. Beside it stands a manifest, `.json`.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lrp_book.records import Arrays, in_chunks
from lrp_companion.attribution import Attribution
from lrp_companion.checks import scores_at
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.methods import explain, kept_logits
from lrp_companion.methods.common import Request, output_gradient, to_numpy
from lrp_companion.metrics.faithfulness import ORDERS, cross_correlation, perturbation_curve
from lrp_companion.schema import masks_on_paths
from lrp_companion.tape.encoder import as_recorded, some_masks

TOKENS = ("all", "no-first", "words")
STATISTICS = ("pearson", "spearman")
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "attnlrp": ("attnlrp", {}),
    "cp-lrp": ("cp-lrp", {}),
    "pa-lrp": ("pa-lrp", {}),
    "gradient-x-input": ("gradient-x-input", {}),
    "rollout": ("rollout", {}),
    "ig": ("ig", {"n_steps": 50}),
    "mask-gradient": ("mask-gradient", {}),
    "mask-gradient-4": ("mask-gradient", {"groups": 4}),
    "mask-gradient-8": ("mask-gradient", {"groups": 8}),
}
"""The methods besides LOO. A map is that at the word; with learned positions `NAME+position` is that
at word and position. AttnLRP's there is PA-LRP, which is then left out.
"""
BATCH = {"cpu": 512, "cuda": 4_096}
"""Tokens of a batch that keeps a tape, by device: several parts share a card."""


@dataclass(frozen=True)
class Texts:
    """Texts to explain, encoded: what is explained of each, and which tokens are its words.

    Attributes
    ----------
    encoded, targets : one for each text.
    words : bool (T,) for each text, the tokens that count where only words do.
    examples : the number of each text in its data set.
    correct : whether the model's answer is the label, for each text.
    """

    encoded: Sequence[EncodedText]
    targets: Sequence[int]
    words: Sequence[np.ndarray]
    examples: Sequence[int]
    correct: Sequence[bool]

    def at(self, places: Sequence[int]) -> Texts:
        """Some of the texts."""
        fields = (getattr(self, field.name) for field in dataclasses.fields(self))
        return Texts(*([values[k] for k in places] for values in fields))


class Contrasts(Classifier):
    """A language model whose classes are pairs of tokens: `logit of the answer - logit of the foil`."""

    answers: list[int]
    foils: list[int]

    @classmethod
    def of(cls, clf: Classifier, pairs: Sequence[tuple[int, int]]) -> Contrasts:
        """The classifier of these pairs of token ids."""
        out = copy.copy(clf)
        out.__class__ = cls
        assert isinstance(out, cls)
        out.answers, out.foils = (list(ids) for ids in zip(*pairs, strict=True))
        (last, activation), head = clf.encoder.wiring.head[-1], clf.encoder.wiring.head[:-1]
        weight = last.weight[out.answers] - last.weight[out.foils]
        difference = nn.Linear(
            weight.shape[1], len(pairs), bias=False, device=weight.device, dtype=weight.dtype
        )
        difference.weight = nn.Parameter(weight, requires_grad=False)
        out.encoder = copy.copy(clf.encoder)
        wiring = dataclasses.replace(clf.encoder.wiring, head=(*head, (difference, activation)))
        out.encoder.wiring = wiring
        out.labels = tuple(f"{clf.labels[a]}/{clf.labels[b]}" for a, b in pairs)
        out.card = dataclasses.replace(clf.card, labels=out.labels)
        return out

    def chosen_of(self, logits: Tensor) -> Tensor:
        return logits[..., self.answers] - logits[..., self.foils]


def sites_of(clf: Classifier) -> tuple[str, ...]:
    """Where relevance can be read: positions that are rotations have no embedding."""
    return ("word",) if clf.encoder.wiring.position is None else ("word", "word+position")


def maps_of(
    clf: Classifier,
    texts: Texts,
    *,
    removals: Sequence[str],
    methods: Sequence[str],
) -> tuple[dict[str, list[np.ndarray]], dict[str, float]]:
    """The maps of every method, by name and text, and the seconds that each method took."""
    out: dict[str, list[np.ndarray]] = {}
    seconds = {}
    asked: dict[str, tuple[str, dict[str, Any]]]
    asked = {f"loo {removal}": ("loo", {"removal": removal}) for removal in removals}
    asked |= {name: METHODS[name] for name in methods}
    for name, (method, options) in asked.items():
        started = time.perf_counter()
        if method != "loo":
            options = options | {"batch_tokens": BATCH[clf.device.type]}
        with as_recorded(clf.device, clf.network):
            records: list[Attribution] = explain(
                method, clf, texts.encoded, texts.targets, progress=False, **options
            )
        out[name] = [record.scores for record in records]
        if "position" in records[0].parts and method != "pa-lrp":
            out[f"{name}+position"] = [record.scores_at("word+position") for record in records]
        seconds[name] = time.perf_counter() - started
    return out, seconds


def curves_of(
    clf: Classifier, texts: Texts, rankings: Mapping[str, Sequence[np.ndarray]], *, chunk: int
) -> Arrays:
    """The mean logit along MoRF and LeRF of every ranking by the attention mask, special tokens kept, each
    (texts,): `morf NAME`, `lerf NAME`. The sets of all texts are run together, each once.
    """
    known: list[dict[bytes, float]] = [{} for _ in texts.encoded]

    def walk(k: int, evaluate: Callable[[np.ndarray], np.ndarray]) -> dict[str, float]:
        options: dict[str, Any] = {"chunk": chunk, "removable": ~texts.encoded[k].special}
        return {
            f"{order} {name}": perturbation_curve(evaluate, maps[k], order=order, **options).mean_logit
            for name, maps in rankings.items()
            for order in ORDERS
        }

    def note(keep: np.ndarray) -> np.ndarray:
        wanted.update((row.tobytes(), row) for row in keep)
        return np.zeros(len(keep))

    jobs, keys = [], []
    for k, text in enumerate(texts.encoded):
        wanted: dict[bytes, np.ndarray] = {}
        walk(k, note)
        jobs += [(text, row) for row in wanted.values()]
        keys += [(k, key) for key in wanted]
    values = to_numpy(kept_logits(clf, jobs, progress=False))
    for (k, key), logits in zip(keys, values, strict=True):
        known[k][key] = float(logits[texts.targets[k]])
    walked = [
        walk(k, lambda keep, k=k: np.array([known[k][row.tobytes()] for row in keep]))  # type: ignore[misc]
        for k in range(len(texts.encoded))
    ]
    return {name: np.array([row[name] for row in walked]) for name in walked[0]}


def readings_of(clf: Classifier) -> list[tuple[str, str, str]]:
    """Site, tokens that count, and statistic."""
    return [
        (site, tokens, statistic) for site in sites_of(clf) for tokens in TOKENS for statistic in STATISTICS
    ]


def kept(words: np.ndarray, tokens: str) -> np.ndarray:
    """The tokens that count, bool (T,): all, all but the first, or the words."""
    return words if tokens == "words" else np.arange(len(words)) >= (tokens == "no-first")


def correlations(maps: np.ndarray, loo: np.ndarray, statistic: str) -> np.ndarray:
    """r of maps (N, T) with LOO (T,), each (N,); NaN where a map is constant or there are not two tokens."""
    if maps.shape[1] < 2:
        return np.full(len(maps), np.nan)
    return cross_correlation(maps, loo[None], statistic)[:, 0]


def agreements(
    parts: Mapping[str, np.ndarray], loo: np.ndarray, words: np.ndarray, readings: Any
) -> np.ndarray:
    """r of maps given by their parts, each (N, T), with LOO under each reading: (readings, N)."""
    rows = []
    for site, tokens, statistic in readings:
        here = kept(words, tokens)
        rows.append(correlations(scores_at(dict(parts), site)[:, here], loo[here], statistic))
    return np.stack(rows)


def bypassing(
    clf: Classifier, texts: Texts, masks: Sequence[frozenset[int]]
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """The place of each text, and its maps with each of these sets of layers bypassed, by part (masks, T)."""
    at_once: dict[str, Any] = {"batch_tokens": BATCH[clf.device.type], "progress": False}
    request = Request("lrp", clf, texts.encoded, texts.targets, **at_once)
    with as_recorded(clf.device, clf.network), torch.no_grad():
        for rows, ids, attended, further in request.batches():
            tape = clf.encoder.forward(ids, attended, **further)
            start = output_gradient(tape.logits, request.explained(rows, tape)[1], "logit", multi_label=False)
            by_mask = some_masks(tape, start, masks)
            parts = {
                name: to_numpy(torch.stack([by_mask[mask][name] for mask in masks]))
                for name in by_mask[masks[0]]
            }
            del tape, by_mask
            for place, k in enumerate(rows):
                yield k, {name: part[:, place, : len(texts.encoded[k])] for name, part in parts.items()}


def paths_of(clf: Classifier, texts: Texts, *, loo: Sequence[np.ndarray] | None = None) -> Arrays:
    """`r` (texts, readings, masks) of every mask on the three paths (`masks_on_paths`) with LOO."""
    masks, readings = masks_on_paths(clf.card.layers), readings_of(clf)
    if loo is None:
        loo = maps_of(clf, texts, removals=("attention-mask",), methods=())[0]["loo attention-mask"]
    r = np.full((len(texts.encoded), len(readings), len(masks)), np.nan, dtype=np.float32)
    for k, parts in bypassing(clf, texts, masks):
        r[k] = agreements(parts, loo[k], texts.words[k], readings)
    return {"r": r.round(4)}


def shapley_of(clf: Classifier, texts: Texts, *, permutations: int, seed: int) -> Arrays:
    """Shapley values by the attention mask and their standard errors, token by token; passes per text."""
    with as_recorded(clf.device, clf.network):
        records = explain(
            "shapley", clf, texts.encoded, texts.targets, permutations=permutations, seed=seed, progress=False
        )
    errors = [np.array(record.details["standard error"]) for record in records]
    return {
        "shapley": np.concatenate([record.scores for record in records]),
        "standard error": np.concatenate(errors),
        "empty": np.array([record.details["empty"] for record in records]),
        "passes": np.array([record.details["passes"][0] for record in records]),
    }


def explained(
    clf: Classifier, texts: Texts, *, removals: Any, methods: Any, curve_chunk: int | None
) -> Arrays:
    """All maps of some texts, token by token, and with `curve_chunk` the curves of every map."""
    maps, seconds = maps_of(clf, texts, removals=removals, methods=methods)
    out = {name: np.concatenate(values) for name, values in maps.items()}
    if curve_chunk:
        started = time.perf_counter()
        out |= curves_of(clf, texts, maps, chunk=curve_chunk)
        seconds["curves"] = time.perf_counter() - started
    return out | {f"seconds {name}": np.array([taken]) for name, taken in seconds.items()}


def described(clf: Classifier, texts: Texts) -> Arrays:
    """What every part has of its texts."""
    everything = [(text, np.ones(len(text), dtype=bool)) for text in texts.encoded]
    logits = to_numpy(kept_logits(clf, everything, progress=False))
    return {
        "example": np.array(texts.examples),
        "target": np.array(texts.targets),
        "correct": np.array(texts.correct),
        "tokens": np.array([len(text) for text in texts.encoded]),
        "word": np.concatenate(list(texts.words)),
        "logit": logits[np.arange(len(logits)), list(texts.targets)],
    }


def part_of(
    out: Path,
    texts: Texts,
    make: Callable[[Texts], Arrays],
    *,
    clf: Classifier,
    config: Mapping[str, Any],
    chunk: int,
    say: Callable[[str], None],
    first: str = "longest",
) -> Arrays:
    """Make one part of a record, `out` (.npz), as `in_chunks` does."""
    places = {example: k for k, example in enumerate(texts.examples)}

    def of_examples(examples: Sequence[int]) -> Arrays:
        some, taken = texts.at([places[example] for example in examples]), time.perf_counter()
        new = {**described(clf, some), **make(some)}
        return new | {"seconds": np.array([time.perf_counter() - taken])}

    def told(done: Arrays) -> dict[str, Any]:
        seconds = {k: round(float(v.sum()), 1) for k, v in done.items() if k.startswith("seconds")}
        return {
            "device": torch.cuda.get_device_name(clf.device) if clf.device.type == "cuda" else "cpu",
            "rounding": "float32 and int32; r by mask to 4 places",
            "accuracy": round(float(done["correct"].mean()), 4),
            "seconds": seconds,
        }

    lengths = {example: len(texts.encoded[k]) for example, k in places.items()}
    order: dict[str, Any] = {"chunk": chunk, "first": first, "say": say}
    return in_chunks(out, lengths, of_examples, config=config, told=told, **order)[0]


def of_example(path: Path, example: int) -> Arrays:
    """What a record has of one example; nothing if it lacks the example, or is not there."""
    kept = dict(np.load(path)) if path.is_file() else {"example": np.array([])}
    (here,) = np.nonzero(kept["example"] == example)
    if not len(here):
        return {}
    (k,), shape = here, kept["word"].shape
    return {
        name: by_text(kept, name)[k] if values.shape == shape else values[k : k + 1]
        for name, values in kept.items()
        if len(values) in (shape[0], len(kept["example"]))
    }


def by_text(arrays: Mapping[str, np.ndarray], name: str) -> list[np.ndarray]:
    """An array of tokens as one array for each text."""
    return np.split(arrays[name], np.cumsum(arrays["tokens"])[:-1])


def compared(made: Path, kept: Path) -> str:
    """Two records of one part in one line: over the texts that both have, the largest difference of a map,
    divided by its largest score, of an r by mask, and of the mean logit along a curve.
    """
    a, b = (dict(np.load(path)) for path in (made, kept))
    rows = {example: k for k, example in enumerate(b["example"].tolist())}
    shared = [(k, rows[e]) for k, e in enumerate(a["example"].tolist()) if e in rows]
    worst = {"map": 0.0, "r": 0.0, "curve": 0.0}
    for name in a:
        if a[name].shape == a["word"].shape and name not in ("word", "standard error"):
            here, there = by_text(a, name), by_text(b, name)
            far = [np.abs(here[k] - there[m]).max() / np.abs(there[m]).max() for k, m in shared]
            worst["map"] = max(worst["map"], *far)
        elif name == "r" or name.startswith("r "):
            far = [np.nanmax(np.abs(a[name][k].astype(float) - b[name][m])) for k, m in shared]
            worst["r"] = max(worst["r"], *far)
        elif name.split(" ")[0] in ORDERS:
            worst["curve"] = max(worst["curve"], *(abs(float(a[name][k] - b[name][m])) for k, m in shared))
    weights = {
        json.loads(path.with_suffix(".json").read_text())["config"]["weights"] for path in (made, kept)
    }
    told = f"{made.name}: {len(shared)} texts in both, {'the same' if len(weights) == 1 else 'OTHER'} weights"
    far_off = f"of a map {worst['map']:.1e} of its largest score, of an r {worst['r']:.1e}"
    far_off += f", of a curve's mean {worst['curve']:.1e}"
    return f"{told}; largest difference {far_off}"
