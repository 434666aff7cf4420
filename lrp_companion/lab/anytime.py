"""Maps as passes are spent, step by step, from the mask gradient to exact Leave-One-Out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods import attribute
from lrp_companion.metrics import agreement
from lrp_companion.metrics.faithfulness import relative_error
from lrp_companion.schema import TOKEN_CHOICES, Protocol, counted


def anytime_maps(clf: Classifier, texts: str | Sequence[str]) -> list[dict[str, Any]]:
    """Maps of each text at step p = 0..T of three ways to spend passes, and LOO, for `FrontierPlayer`.

    "hybrid" is the method of that name with `exact=p`, "groups" the mask gradient with p groups, "random"
    `sampled-loo` with `budget=p`; where a method takes no p of 0: the mask gradient, and zeros. LOO is by the
    attention mask, of the predicted class's logit; T counts special tokens.

    Returns
    -------
    A dict per text: `tokens`; `special` (T,); `label`, the explained class; `loo` (T,) and `forwards`, what
    LOO costs; and under `ways`, by way, T + 1 steps, each with `scores` (T,), `forwards` and `backwards`
    (passes so far), `exact` (places of the tokens whose LOO was computed), and by tokens ("no-special",
    "all") `r`, Pearson's with LOO (NaN where undefined), and `error`, sum |R - LOO| / sum |LOO|.
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
