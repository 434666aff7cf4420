"""Text classifiers against LOO: methods side by side, and layers bypassed one after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.loading.texts import Text
from lrp_companion.masks import PATHS, masks_on_paths, path_masks
from lrp_companion.methods import attribute, removal_evaluator
from lrp_companion.methods.common import check_targets, watch
from lrp_companion.methods.lrp import lrp_masks
from lrp_companion.metrics import (
    Curve,
    Interval,
    agreement,
    bootstrap_mean,
    paired_difference,
    perturbation_curve,
)
from lrp_companion.metrics.faithfulness import ORDERS, removal_order
from lrp_companion.registry import method_named
from lrp_companion.schema import PROTOCOLS, Protocol

COMPARED_METHODS = ("loo", "ig", "rollout", "attnlrp", "cp-lrp")
DEFAULT = dict(list(PROTOCOLS.items())[:1])


@dataclass(frozen=True)
class Comparison:
    """Rows of numbers, one per example and method, and the maps they were computed from.

    A row holds `example`, `method`, `tokens`; `r` under each named protocol; `lerf`, `morf`, `delta` (mean
    logit along the curves) if curves were requested; `sum` of the scores; `special_share`, the share of sum
    |R| on special tokens; `seconds` per example.
    """

    rows: list[dict[str, Any]]
    maps: dict[str, list[Attribution]]
    protocols: dict[str, Protocol]
    settings: dict[str, Any] = field(default_factory=dict)

    def values(self, column: str, method: str) -> np.ndarray:
        """One column of one method, in the order of the examples."""
        values = np.array([row[column] for row in self.rows if row["method"] == method], dtype=float)
        if not values.size:
            expected, hint = f"one of {', '.join(self.maps)}", "compare that method first"
            raise InputError("Comparison.values", got=f"method {method!r}", expected=expected, hint=hint)
        return values

    def interval(self, column: str, method: str) -> Interval:
        """Mean of a column with its 95 % bootstrap interval."""
        return bootstrap_mean(self.values(column, method))

    def difference(self, column: str, method: str, other: str) -> Interval:
        """Mean paired difference `method - other` on the same examples, with its 95 % bootstrap interval."""
        return paired_difference(self.values(column, method), self.values(column, other))

    def summary(self) -> list[dict[str, Any]]:
        """One row per method: mean of every column of Table 2 of the paper, with intervals."""
        curves = [name for name in ("lerf", "morf", "delta") if name in self.rows[0]]
        columns = [*(f"r {name}" for name in self.protocols), *curves]
        return [
            {"method": method, **{column: self.interval(column, method) for column in columns}}
            for method in self.maps
        ]

    def special_tokens(self, methods: Sequence[str], *, site: str) -> list[dict[str, Any]]:
        """One row per method: the share of sum |R| on special tokens, and the share of maps with a negative
        sum.
        """
        out = []
        for method in methods:
            maps = [record.scores_at(site) for record in self.maps[method]]
            shares = [
                _special_share(scores, record.special)
                for scores, record in zip(maps, self.maps[method], strict=True)
            ]
            out.append(
                {
                    "method": method,
                    "share on special tokens": bootstrap_mean(shares),
                    "negative sum": bootstrap_mean([float(scores.sum() < 0) for scores in maps]),
                }
            )
        return out


def _special_share(scores: np.ndarray, special: np.ndarray) -> float:
    """The share of sum |R| on special tokens; NaN for a map of zeros."""
    sizes = np.abs(scores)
    return float(sizes[special].sum() / sizes.sum()) if sizes.any() else float("nan")


def compare_methods(
    clf: Classifier,
    texts: Sequence[Text],
    *,
    methods: Sequence[str] = COMPARED_METHODS,
    protocols: Mapping[str, Protocol] = DEFAULT,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    curves: bool = True,
    chunk: int = 1,
    truncate: bool = False,
    progress: bool | None = None,
) -> Comparison:
    """Explain every text by every method and compare with LOO.

    Parameters
    ----------
    protocols : name to `Protocol`; agreement is computed under each (they must share one target choice).
    options : method to its options, such as `{"ig": {"n_steps": 50}}`.
    curves, chunk : whether to run MoRF and LeRF, and how many contiguous tokens one step removes.
    """
    output = _one_output(protocols)
    encoded = clf.encode(list(texts), truncate=truncate)
    asked = {name: dict((options or {}).get(name, {})) for name in dict.fromkeys(methods)}
    maps, seconds = {}, {}
    for name, chosen in asked.items():
        if method_named(name).outputs != "none":
            chosen.setdefault("output", output)
        begin = time.perf_counter()
        maps[name] = attribute(clf, list(texts), method=name, truncate=truncate, progress=progress, **chosen)
        seconds[name] = (time.perf_counter() - begin) / len(encoded)
    known = {maps["loo"][0].choices["removal"]: maps["loo"]} if "loo" in maps else {}
    loo = _loo_maps(clf, texts, protocols, output, known, truncate, progress)
    rows = []
    for k, text in enumerate(encoded):
        records = {name: maps[name][k] for name in asked}
        reference = {removal: of_texts[k] for removal, of_texts in loo.items()}
        walks = {}
        if curves:
            rankings = {name: record.scores for name, record in records.items()}
            target = next(iter(reference.values())).target
            walks = shared_curves(clf, text, target, rankings, chunk=chunk).curves
        for name, record in records.items():
            row: dict[str, Any] = {
                "example": k,
                "method": name,
                "tokens": len(text),
                "sum": float(record.scores.sum()),
                "seconds": seconds[name],
                "special_share": _special_share(record.scores, record.special),
            }
            for label, p in protocols.items():
                exact = reference[p.removal].scores
                row[f"r {label}"] = agreement(record.scores_at(p.site), exact, text.special, p)
            if curves:
                row |= {order: curve.mean_logit for order, curve in walks[name].items()}
                row["delta"] = row["lerf"] - row["morf"]
            rows.append(row)
    return Comparison(rows, maps, dict(protocols), {"chunk": chunk, "options": asked, "model": clf.card.name})


@dataclass(frozen=True)
class SharedCurves:
    """Curves of several rankings of one text, `curves[name][order]`, and how many forward passes they asked
    for and ran.
    """

    curves: dict[Any, dict[str, Curve]]
    asked: int
    run: int


def shared_curves(
    clf: Classifier, text: EncodedText, target: int, rankings: Mapping[Any, np.ndarray], *, chunk: int = 1
) -> SharedCurves:
    """MoRF and LeRF of every ranking; each set of kept tokens is run once. Special tokens stay."""
    wanted: list[np.ndarray] = []

    def note(keep: np.ndarray) -> np.ndarray:
        wanted.append(keep)
        return np.zeros(len(keep))

    def all_curves(evaluate: Callable[[np.ndarray], np.ndarray]) -> dict[Any, dict[str, Curve]]:
        options: dict[str, Any] = {"chunk": chunk, "removable": ~text.special}
        return {
            name: {order: perturbation_curve(evaluate, scores, order=order, **options) for order in ORDERS}
            for name, scores in rankings.items()
        }

    all_curves(note)
    keep = np.unique(np.concatenate(wanted), axis=0)
    evaluate = removal_evaluator(clf, text, target=target)
    evaluate(keep)
    return SharedCurves(all_curves(evaluate), sum(map(len, wanted)), len(keep))


def fitting_texts(clf: Classifier, texts: Sequence[Text], *, tokens: int = 14, count: int = 6) -> list[int]:
    """Indices of the first `count` texts with at most `most` tokens; if there are too few, of the shortest.

    >>> clf = load_classifier("companion")                                           # doctest: +SKIP
    >>> fitting_texts(clf, ["a film", "a film of rare grace"], tokens=4, count=1)    # doctest: +SKIP
    [0]
    """
    lengths = [len(text) for text in clf.encode(list(texts), truncate=True)]
    order = sorted(range(len(lengths)), key=lambda k: (max(lengths[k], tokens), k))
    return sorted(order[:count])


def perturbation_paths(
    clf: Classifier,
    texts: Sequence[Text],
    maps: Mapping[str, Sequence[Attribution]],
    *,
    chunk: int = 1,
    truncate: bool = False,
    progress: bool | None = None,
) -> list[dict[str, Any]]:
    """Follow MoRF and LeRF step by step: the removed tokens and the remaining logit, in one dict per text.

    Parameters
    ----------
    maps : method to one attribution per text, such as `Comparison.maps`; all explain the same class.

    Returns
    -------
    list
        `tokens`, `special`, `label`, `logit` of the whole text, and under `methods` for each method `scores`,
        and for "morf" and "lerf" a dict of `steps` (which tokens go at each), `logits` (of the whole text and
        after each step) and `mean`, the curve's `mean_logit`.
        Special tokens are never removed.
    """
    encoded = clf.encode(list(texts), truncate=truncate)
    for method, records in maps.items():
        if [record.tokens for record in records] != [text.tokens for text in encoded]:
            got = f"maps of other texts for {method!r}"
            expected, hint = "one map per text", "explain these texts"
            raise InputError("perturbation_paths", got=got, expected=expected, hint=hint)
    return [
        _paths_of(clf, text, {method: records[k] for method, records in maps.items()}, chunk)
        for k, text in enumerate(watch(encoded, progress=progress, label="paths"))
    ]


def _paths_of(
    clf: Classifier, text: EncodedText, records: Mapping[str, Attribution], chunk: int
) -> dict[str, Any]:
    """The paths of one text, under the map of each method."""
    targets = {record.target for record in records.values()}
    if len(targets) != 1:
        got, hint = f"targets {sorted(targets)}", "explain the same class"
        raise InputError("perturbation_paths", got=got, expected="one class", hint=hint)
    (target,) = targets
    rankings = {method: record.scores for method, record in records.items()}
    shared = shared_curves(clf, text, target, rankings, chunk=chunk)
    methods: dict[str, Any] = {}
    for method, scores in rankings.items():
        methods[method] = {"scores": scores}
        for order in ORDERS:
            curve = shared.curves[method][order]
            removed = removal_order(scores, order=order, chunk=chunk, removable=~text.special)
            steps = [step.tolist() for step in removed]
            methods[method][order] = {"steps": steps, "logits": curve.logits, "mean": curve.mean_logit}
    return {
        "tokens": next(iter(records.values())).pieces, "special": text.special, "label": clf.labels[target],
        "logit": float(curve.logits[0]), "methods": methods,
    }  # fmt: skip


@dataclass(frozen=True)
class LayerPaths:
    """Agreement with LOO of every mask on the three paths: `r[protocol][mask]`, one value per example."""

    layers: int
    r: dict[str, dict[frozenset[int], np.ndarray]]

    def curve(self, protocol: str, path: str) -> list[Interval]:
        """The path's masks in order, each with mean r and its 95 % bootstrap interval."""
        return [bootstrap_mean(self.r[protocol][mask]) for mask in path_masks(self.layers)[path]]

    def curves(self, protocol: str) -> dict[str, list[Interval]]:
        """All three paths, by name."""
        return {path: self.curve(protocol, path) for path in PATHS}

    def levels(self, protocol: str) -> dict[str, Interval]:
        """The two ends of the paths."""
        return {
            "AttnLRP": self.level(protocol, ()),
            "CP-LRP": self.level(protocol, range(1, self.layers + 1)),
        }

    def ends(self) -> list[dict[str, Any]]:
        """One row per protocol: AttnLRP, CP-LRP, and the best mask on the three paths, chosen on these same
        examples.
        """
        out = []
        for protocol, by_mask in self.r.items():
            means = {mask: bootstrap_mean(r, resamples=1).mean for mask, r in by_mask.items()}
            best = max(means, key=lambda mask: (means[mask], -len(mask)))
            names = f"{min(best)} to {max(best)}" if len(best) > 1 else ", ".join(map(str, best)) or "none"
            out.append(
                {
                    "protocol": protocol,
                    **self.levels(protocol),
                    "best on the paths": self.level(protocol, best),
                    "its bypassed layers": names,
                }
            )
        return out

    def level(self, protocol: str, bypass: Iterable[int]) -> Interval:
        """Mean r of one mask: none is AttnLRP, all layers CP-LRP."""
        return bootstrap_mean(self.r[protocol][frozenset(bypass)])


def layer_paths(
    clf: Classifier,
    texts: Sequence[Text],
    *,
    protocols: Mapping[str, Protocol] = DEFAULT,
    loo: Sequence[Attribution] | None = None,
    truncate: bool = False,
    progress: bool | None = None,
) -> LayerPaths:
    """Bypass layers front to back, back to front and singly, as in Figure 2 and Table A3 of the paper.

    `loo` takes existing maps (attention-mask removal), so that they are not computed twice.
    """
    output = _one_output(protocols)
    encoded = clf.encode(list(texts), truncate=truncate)
    known = {"attention-mask": list(loo)} if loo is not None else {}
    reference = _loo_maps(clf, texts, protocols, output, known, truncate, progress)
    masks = masks_on_paths(clf.card.layers)
    targets = check_targets(None, len(encoded), clf.labels)
    maps = lrp_masks(clf, encoded, targets, masks=masks, output=output, progress=progress)

    def agreements(protocol: Protocol, records: Sequence[Attribution]) -> np.ndarray:
        exact = [record.scores for record in reference[protocol.removal]]
        return np.array(
            [
                agreement(records[k].scores_at(protocol.site), exact[k], text.special, protocol)
                for k, text in enumerate(encoded)
            ]
        )

    r = {
        label: {mask: agreements(p, records) for mask, records in zip(masks, maps, strict=True)}
        for label, p in protocols.items()
    }
    return LayerPaths(clf.card.layers, r)


def _one_output(protocols: Mapping[str, Protocol]) -> str:
    outputs = {p.target for p in protocols.values()}
    if len(outputs) != 1:
        got = f"protocols with targets {sorted(outputs)}"
        expected, hint = "one target choice in all of them", "run one comparison per target choice"
        raise InputError("compare", got=got, expected=expected, hint=hint)
    return outputs.pop()


def _loo_maps(
    clf: Classifier,
    texts: Sequence[Text],
    protocols: Mapping[str, Protocol],
    output: str,
    known: Mapping[str, list[Attribution]],
    truncate: bool,
    progress: bool | None,
) -> dict[str, list[Attribution]]:
    """LOO under every removal that the protocols name, except those that are already known."""
    missing = dict.fromkeys(p.removal for p in protocols.values() if p.removal not in known)
    shared: dict[str, Any] = {"method": "loo", "output": output, "truncate": truncate, "progress": progress}
    return {
        **known,
        **{removal: attribute(clf, list(texts), removal=removal, **shared) for removal in missing},
    }
