"""Options of the mask gradient and the hybrid, and masks of the layers, compared on separate sentences.

For each text the gradient is computed once at every mask that an option needs. Options are combinations of
these and of LOO, so nodes, weights and groups are compared on the same texts, at the cost of the distinct
passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lrp_book.records import config_of, rounded
from lrp_companion.checks import InputError
from lrp_companion.lab.execute import surroundings
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.methods import explain
from lrp_companion.methods.common import Request, watch
from lrp_companion.methods.mask_gradient import (
    CORRECTIONS,
    corrected,
    gradients_at,
    group_of,
    integrate,
    quadrature,
    quadrature_rows,
)
from lrp_companion.metrics.faithfulness import cross_correlation, relative_error
from lrp_companion.schema import TOKEN_CHOICES, counted
from lrp_companion.sources import Dataset

LEAST = 8
"""Fewest tokens of a text, counting special ones; with fewer, K = 8 groups are all tokens."""


@dataclass(frozen=True)
class Option:
    """One way to spend passes.

    Attributes
    ----------
    groups, nodes : as for `mask-gradient`; nodes None for one group.
    weights : "interpolatory", or "equal" for every node.
    by : groups by "place" (token i in group i mod K), at "random" (a seed), or by |"gradient"| at w = 1 (rank
        mod K, so that the largest are apart).
    exact, correct : as for `hybrid`; with `exact` 0 it uses no LOO.
    """

    groups: int | str = 1
    nodes: int | tuple[float, ...] | None = None
    weights: str = "interpolatory"
    by: str = "place"
    exact: int = 0
    correct: str = "none"

    @property
    def name(self) -> str:
        """As a run names it, where the methods have the option; else with what is tried here alone.

        >>> Option(8, (0.2, 1)).name, Option(2, 2, by="random").name, Option(exact=4, correct="line").name
        ('mask-gradient:groups=8:nodes=0.2+1',
         'mask-gradient:groups=2:nodes=2:by=random',
         'hybrid:exact=4:correct=line')
        """
        nodes = "+".join(f"{node:g}" for node in self.nodes) if isinstance(self.nodes, tuple) else self.nodes
        options = {"exact": self.exact, "correct": self.correct, "groups": self.groups, "nodes": nodes}
        options |= {"weights": self.weights, "by": self.by}
        plain = {"exact": 0, "correct": "none", "groups": 1, "nodes": None, "weights": "interpolatory"}
        parts = [f"{key}={value}" for key, value in options.items() if value != plain.get(key, "place")]
        return ":".join(["hybrid" if self.exact else "mask-gradient", *parts])


def options_to_try() -> list[Option]:
    """Nodes and weights for each K, groupings, and hybrids, as in the record `results/remedy-options`.

    >>> len(options_to_try()), options_to_try()[0].name
    (91, 'mask-gradient')
    """
    low: list[int | tuple[float, ...]] = [(0.2, 1), (0.1, 1), (0.05, 1)]
    out = [Option()]
    for groups in (2, 4, 8, "all"):
        out += [Option(groups, nodes) for nodes in (2, (0.5, 1), *low, (0, 1), (0, 0.5, 1), 3)]
        out += [Option(groups, nodes, weights="equal") for nodes in ((0.5, 1), *low)]
        if groups != "all":
            out += [Option(groups, nodes, by=by) for nodes in (2, (0.2, 1)) for by in ("random", "gradient")]
    for exact in (2, 4, 8):
        out += [Option(exact=exact, correct=correct) for correct in CORRECTIONS]
        for groups in (2, 4, 8):
            out += [Option(groups, (0.2, 1), exact=exact, correct=correct) for correct in ("none", "line")]
    return out


def compare_options(
    clf: Classifier,
    data: Dataset,
    *,
    options: Sequence[Option],
    limit: int,
    seed: int = 0,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Agreement with LOO of every option on a random sample of texts of at least `LEAST` tokens.

    Parameters
    ----------
    limit, seed : how many texts, and the seed of their draw and of random groups.

    Returns
    -------
    dict
        `config` (model, data, texts, seed, their tokens), `made with` (versions, hardware), and `rows`, one
        per option: `name`, its fields, `passes` (mean forwards and backwards of a text), and by tokens
        ("no-special", "all") `error`, the mean of sum |R - LOO| / sum |LOO|, and `r`, Pearson's for each text
        (None where undefined).
    """
    texts = _draw(clf, data, limit, seed)
    r, errors = (np.full((len(options), len(TOKEN_CHOICES), limit), np.nan) for _ in range(2))
    passes = np.zeros((len(options), limit, 2))
    for n, text in enumerate(watch(texts, progress=progress, label="options")):
        (exact,) = explain("loo", clf, [text], [None], progress=False)
        maps, passes[:, n] = _maps(clf, text, exact.target, exact.scores, options, seed)
        for t, tokens in enumerate(TOKEN_CHOICES):
            kept = counted(text.special, tokens)
            r[:, t, n] = cross_correlation(maps[:, kept], exact.scores[None, kept], "pearson")[:, 0]
            errors[:, t, n] = relative_error(maps[:, kept], exact.scores[kept])
    rows = [
        {
            "name": option.name,
            **asdict(option),
            "passes": passes[k].mean(0).round(3).tolist(),
            "error": {tokens: float(f"{errors[k, t].mean():.4g}") for t, tokens in enumerate(TOKEN_CHOICES)},
            "r": {tokens: rounded(r[k, t], 4) for t, tokens in enumerate(TOKEN_CHOICES)},
        }
        for k, option in enumerate(options)
    ]
    config = {**config_of(clf, data, texts, seed), "least tokens": LEAST}
    return {"config": config, "made with": surroundings(), "rows": rows}


def _draw(clf: Classifier, data: Dataset, limit: int, seed: int) -> list[EncodedText]:
    """The first `limit` texts of at least `LEAST` tokens in the random order of a seed."""
    texts: list[EncodedText] = []
    for place in data.order(None, seed=seed):
        (text,) = clf.encode([data.texts[place]], truncate=True)
        texts += [text] if len(text) >= LEAST else []
        if len(texts) == limit:
            return texts
    got = f"limit {limit!r} with {len(texts)} texts of at least {LEAST} tokens"
    raise InputError("tune_options", got=got, expected="as many texts as limit", hint="lower limit")


def _maps(
    clf: Classifier, text: EncodedText, target: int, exact: np.ndarray, options: Sequence[Option], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Scores (option, T) and passes (option, 2) of one text, each distinct mask run once."""
    request, ones = Request("mask-gradient", clf, [text], [target], progress=False), np.ones(len(text))
    first = gradients_at(request, [(0, ones)])[0][0]
    known = {ones.tobytes(): first}
    plans = []
    for option in options:
        nodes = (1 if option.groups == 1 else 2) if option.nodes is None else option.nodes
        points, weights = quadrature(nodes)
        if option.weights == "equal":
            weights = np.full(len(points), 1 / len(points))
        groups = group_of(len(text), option.groups, seed=seed if option.by == "random" else None)
        if option.by == "gradient":
            largest = np.argsort(-np.abs(first), kind="stable")
            groups = groups[np.argsort(largest)]
        plans.append((quadrature_rows(groups, points), groups, points, weights))
    new = {row.tobytes(): row for rows, *_ in plans for row in rows if row.tobytes() not in known}
    steps = gradients_at(request, [(0, row) for row in new.values()])
    known.update(zip(new, (gradient for gradient, *_ in steps), strict=True))
    maps, passes = [], []
    for option, (rows, groups, points, weights) in zip(options, plans, strict=True):
        scores = integrate(np.stack([known[row.tobytes()] for row in rows]), groups, points, weights)
        removed = min(option.exact, len(text))
        if removed:
            places = np.argsort(-np.abs(scores), kind="stable")[:removed]
            scores = corrected(scores, places, exact[places], option.correct)
        maps.append(scores)
        passes.append((len(rows) + removed, len(rows)))
    return np.stack(maps), np.array(passes, dtype=np.float64)
