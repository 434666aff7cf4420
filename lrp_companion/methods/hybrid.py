"""Leave-One-Out for some tokens and a cheaper estimate for the others: exact LOO for the largest mask
gradients, or for a random sample.

A mask gradient g costs one or a few passes for all tokens; LOO l costs a forward pass for each token. So
compute LOO for some tokens c and use the pairs (g_c, l_c) to correct the gradient on the others, as a control
variate does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from lrp_companion.arrays import ranking
from lrp_companion.attribution import Attribution
from lrp_companion.checks import choose, whole
from lrp_companion.methods.common import Request, classes_of, to_numpy
from lrp_companion.methods.mask_gradient import quadrature_of
from lrp_companion.methods.perturbation import kept_logits
from lrp_companion.registry import method

CORRECTIONS = ("none", "scale", "shift", "line")


@method("hybrid", takes=("output", "unit"))
def hybrid(
    request: Request,
    *,
    exact: int = 4,
    correct: str = "none",
    groups: int | str = 1,
    nodes: int | Sequence[float] | None = None,
    seed: int | None = None,
) -> list[Attribution]:
    """LOO by the attention mask for the `exact` tokens with the largest |mask gradient|, and the gradient for
    the others.

    The mask gradient is that of `groups`, `nodes` and `seed`; `correct` says how exact scores correct the
    others (see `corrected`). This costs `exact` further forward passes. With `exact` equal to the number of
    tokens it is LOO. With `unit` ("word", "sentence", or spans) both scores are of whole units.
    """
    choose("attribute", "correct", correct, CORRECTIONS)
    whole("attribute", "exact", exact, hint="one forward pass for each")
    units = request.units()
    gradients = quadrature_of(replace(request, name="mask-gradient"), groups, nodes, seed)
    tied = max(1e-5, 8 * torch.finfo(request.clf.dtype).eps)  # what company changes
    chosen = [np.sort(ranking(np.abs(record.scores), tied=tied)[:exact]) for record in gradients]
    jobs = [
        (text, of_text.kept_without(i, len(text)))
        for text, of_text, places in zip(request.texts, units, chosen, strict=True)
        for i in places
    ]
    logits = _logits(request, jobs)
    out, at = [], 0
    for text, of_text, gradient, places in zip(request.texts, units, gradients, chosen, strict=True):
        classes = torch.full((len(places),), gradient.target)
        left = to_numpy(request.read(logits[at : at + len(places)], classes))
        at += len(places)
        scores = corrected(gradient.scores, places, gradient.details["value"] - left, correct)
        known: dict[str, Any] = {"target": gradient.target, "logit": gradient.logit}
        known["choices"] = {"exact": exact, "correct": correct, **gradient.choices}
        forwards, backwards = gradient.details["passes"]
        passes = (forwards + len(places), backwards)
        known["details"] = {"passes": passes, "exact tokens": tuple(places.tolist())}
        out.append(request.record(text, scores, units=of_text, **known))
    return out


def _logits(request: Request, jobs: Any) -> torch.Tensor:
    """Logits (N, C) of texts with only their kept tokens, as `kept_logits` gives them."""
    batching: dict[str, Any] = {"batch_tokens": request.batch_tokens, "progress": request.progress}
    return kept_logits(request.clf, jobs, label=request.name, **batching)


def corrected(gradient: np.ndarray, places: np.ndarray, exact: np.ndarray, correct: str) -> np.ndarray:
    """Scores (T,): the exact values where they are known, and elsewhere the gradient, corrected by the exact
    ones.

    "scale": a g with `a = sum g_c l_c / sum g_c**2`; "shift": g + mean(l_c - g_c); "line": a g + b, the
    least-squares line of l_c over g_c. Where the pairs do not fix a, because all g_c are equal, "scale" of
    zeros is "none" and "line" is "shift".

    >>> corrected(np.array([1.0, 2.0, 3.0]), np.array([0, 2]), np.array([3.0, 7.0]), "line")
    array([3., 5., 7.])
    """
    scores, estimates = gradient.copy(), gradient[places]
    if correct == "scale" and estimates.any():
        scores *= estimates @ exact / (estimates @ estimates)
    elif correct == "line" and np.ptp(estimates) > 0:
        centred = estimates - estimates.mean()
        scores = exact.mean() + (gradient - estimates.mean()) * (centred @ exact / (centred @ centred))
    elif correct in ("shift", "line"):
        scores += (exact - estimates).mean()
    scores[places] = exact
    return scores


@method("sampled-loo", takes=("output",))
def sampled_loo(request: Request, *, budget: int = 8, seed: int = 0) -> list[Attribution]:
    """LOO by the attention mask for `budget` random tokens, and their mean for the others.

    A baseline of random removals, at the cost of `budget + 1` forward passes. The draw depends only on the
    seed and the text.
    """
    whole("attribute", "budget", budget, hint="one forward pass for each")
    chosen = [
        np.sort(np.random.default_rng([seed, *text.key]).permutation(len(text))[:budget])
        for text in request.texts
    ]
    jobs = [
        (text, np.arange(len(text)) != i)
        for text, places in zip(request.texts, chosen, strict=True)
        for i in (-1, *places)
    ]
    logits = _logits(request, jobs)
    choices = {"budget": budget, "seed": seed, "output": request.output}
    out, at = [], 0
    for text, target, places in zip(request.texts, request.targets, chosen, strict=True):
        after = logits[at : at + len(places) + 1]
        at += len(after)
        explained = classes_of([target], after[:1])
        values = to_numpy(request.read(after, explained.expand(len(after))))
        scores = np.full(len(text), (values[0] - values[1:]).mean())
        scores[places] = values[0] - values[1:]
        known: dict[str, Any] = {"target": explained, "logit": after[0, explained], "choices": choices}
        known["details"] = {"passes": (len(after), 0), "exact tokens": tuple(places.tolist())}
        out.append(request.record(text, scores, **known))
    return out
