"""Maps and curves step by step: tokens removed in the order of a map, and passes spent, up to exact LOO."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.loading.texts import Text
from lrp_companion.methods import attribute, removal_evaluator
from lrp_companion.methods.common import watch
from lrp_companion.metrics import Curve, agreement, perturbation_curve
from lrp_companion.metrics.faithfulness import ORDERS, relative_error, removal_order
from lrp_companion.schema import TOKEN_CHOICES, Protocol, counted


def shared_curves(
    clf: Classifier, text: EncodedText, target: int, rankings: Mapping[Any, np.ndarray], *, chunk: int = 1
) -> dict[Any, dict[str, Curve]]:
    """MoRF and LeRF of every ranking by its name; each set of kept tokens runs once. Special tokens stay."""
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
    return all_curves(evaluate)


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

    `maps` has for each method one attribution per text, all of the same class. A dict has `tokens`,
    `special`, `label`, `logit` of the whole text, and under `methods` for each method `scores`, and for
    "morf" and "lerf" a dict of `steps` (which tokens go at each), `logits` (of the whole text and after each
    step) and `mean`, the curve's `mean_logit`. Special tokens are never removed.
    """
    encoded = clf.encode(list(texts), truncate=truncate)
    return [
        _paths_of(clf, text, {method: records[k] for method, records in maps.items()}, chunk)
        for k, text in enumerate(watch(encoded, progress=progress, label="paths"))
    ]


def _paths_of(
    clf: Classifier, text: EncodedText, records: Mapping[str, Attribution], chunk: int
) -> dict[str, Any]:
    """The paths of one text, under the map of each method."""
    targets = {(record.target, record.tokens) for record in records.values()}
    if len(targets) != 1 or (told := targets.pop())[1] != text.tokens:
        hint = "explain these texts, and the same class"
        raise InputError("perturbation_paths", got="other maps", expected="one of each text", hint=hint)
    target = told[0]
    rankings = {method: record.scores for method, record in records.items()}
    shared = shared_curves(clf, text, target, rankings, chunk=chunk)
    methods: dict[str, Any] = {}
    for method, scores in rankings.items():
        methods[method] = {"scores": scores}
        for order in ORDERS:
            curve = shared[method][order]
            removed = removal_order(scores, order=order, chunk=chunk, removable=~text.special)
            steps = [step.tolist() for step in removed]
            methods[method][order] = {"steps": steps, "logits": curve.logits, "mean": curve.mean_logit}
    return {
        "tokens": next(iter(records.values())).pieces,
        "special": text.special,
        "label": clf.labels[target],
        "logit": float(curve.logits[0]),
        "methods": methods,
    }


def fitting_texts(clf: Classifier, texts: Sequence[Text], *, tokens: int = 14, count: int = 6) -> list[int]:
    """Indices of the first `count` texts with at most so many `tokens`; if too few, of the shortest."""
    lengths = [len(text) for text in clf.encode(list(texts), truncate=True)]
    order = sorted(range(len(lengths)), key=lambda k: (max(lengths[k], tokens), k))
    return sorted(order[:count])


def anytime_maps(clf: Classifier, texts: str | Sequence[str]) -> list[dict[str, Any]]:
    """Maps of each text at step p = 0..T of three ways to spend passes, and LOO, for `FrontierPlayer`.

    "hybrid" is the method of that name with `exact=p`, "groups" the mask gradient with p groups, "random"
    `sampled-loo` with `budget=p`; where a method takes no p of 0: the mask gradient, and zeros. LOO is by the
    attention mask, of the predicted class's logit; T counts special tokens.

    Returns
    -------
    list
        A dict per text: `tokens`; `special` (T,); `label`, the explained class; `loo` (T,) and `forwards`,
        what LOO costs; and under `ways`, by way, T + 1 steps, each with `scores` (T,), `forwards` and
        `backwards` (passes so far), `exact` (places of the tokens whose LOO was computed), and by tokens
        ("no-special", "all") `r`, Pearson's with LOO (NaN where undefined), and `error`, sum |R - LOO| /
        sum |LOO|.
    """
    return [_of_text(clf, text) for text in ([texts] if isinstance(texts, str) else texts)]


def _of_text(clf: Classifier, text: str) -> dict[str, Any]:
    def run(method: str, **options: Any) -> Any:
        return attribute(clf, text, method=method, progress=False, **options)[0]

    loo = run("loo")
    count = len(loo.scores)

    def step(scores: np.ndarray, passes: tuple[int, int], exact: Sequence[int] = ()) -> dict[str, Any]:
        kept = {tokens: counted(loo.special, tokens) for tokens in TOKEN_CHOICES}
        r = {name: agreement(scores, loo.scores, loo.special, Protocol(tokens=name)) for name in kept}
        error = {name: float(relative_error(scores[at], loo.scores[at])) for name, at in kept.items()}
        forwards, backwards = passes
        named = {"scores": scores, "forwards": forwards, "backwards": backwards, "exact": sorted(exact)}
        return {**named, "r": r, "error": error}

    def steps(method: str, option: str) -> list[dict[str, Any]]:
        records = [run(method, **{option: p}) for p in range(1, count + 1)]
        return [step(of.scores, of.details["passes"], of.details.get("exact tokens", ())) for of in records]

    grouped = steps("mask-gradient", "groups")
    ways = {
        "hybrid": [grouped[0], *steps("hybrid", "exact")],
        "groups": [grouped[0], *grouped],
        "random": [step(np.zeros(count), (0, 0)), *steps("sampled-loo", "budget")],
    }
    named = {"tokens": loo.pieces, "special": loo.special, "label": clf.labels[loo.target]}
    return {**named, "loo": loo.scores, "forwards": count + 1, "ways": ways}
