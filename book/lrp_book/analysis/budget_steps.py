"""Three ways to spend passes on one text, step by step: from one pass, or none, to LOO for every token.

Each text is run once in every way that a step needs: LOO for all of its tokens, and the gradient at each
distinct mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.methods.common import check_targets
from lrp_companion.methods.mask_gradient import (
    check_seed,
    default_nodes,
    gradients_at,
    integrate,
    plan,
    quadrature_rows,
)
from lrp_companion.methods.perturbation import loo
from lrp_companion.metrics import agreement
from lrp_companion.metrics.faithfulness import relative_error
from lrp_companion.schema import TOKEN_CHOICES, Protocol, counted

WAYS = ("hybrid", "groups", "random")
_Spent = tuple[np.ndarray, int, int, list[int]]  # scores, forward and backward passes, exact places


def anytime_maps(
    clf: Classifier,
    texts: str | Sequence[str],
    *,
    seed: int = 0,
    target: int | Sequence[int] | None = None,
    progress: bool | None = None,
) -> list[dict[str, Any]]:
    """Maps of each text at step p = 0..T of three ways to spend passes, and LOO `f(x) - f(x without i)`.

    "hybrid": the mask gradient, then LOO for the p tokens with the largest |gradient|,
    `attribute(method="hybrid", exact=p)`; "groups": the mask gradient with p groups,
    `attribute(method="mask-gradient", groups=p)`, at step 0 the one of step 1; "random": LOO for p tokens
    drawn at random and their mean for the others, `attribute(method="sampled-loo", budget=p)`, at step 0
    zeros. LOO is by the attention mask, of the logit; T counts special tokens.

    Parameters
    ----------
    texts : a text or a list of texts.
    seed : of the random draw; step p + 1 keeps the tokens of step p.
    target : as for `attribute`.

    Returns
    -------
    list
        A dict per text: `tokens`; `special` (T,); `label`, the explained class; `loo` (T,) and `forwards`,
        what LOO costs; and under `ways`, by way, a list of T + 1 steps, each a dict of `scores` (T,),
        `forwards` and `backwards` (passes so far), `exact` (places of the tokens that have LOO's own value),
        and by tokens ("no-special", "all") `r`, Pearson's with LOO (NaN where undefined), and `error`, sum |R
        - LOO| / sum |LOO|.

    Raises
    ------
    InputError : a text that cannot be explained, a class that does not exist, a seed that is not a whole
        number from 0.

    >>> anytime_maps(clf, "a film of rare grace")[0]["ways"]["hybrid"][-1]["r"]  # doctest: +SKIP
    {'no-special': 1.0, 'all': 1.0}
    """
    check_seed(seed)
    encoded = clf.encode(texts)
    targets = check_targets(target, len(encoded), clf.labels)
    reference = loo(clf, encoded, targets, progress=progress)
    plans = [[_plan(len(text), groups) for groups in range(1, len(text) + 1)] for text in encoded]
    jobs = {
        (k, row.tobytes()): (k, row) for k, steps in enumerate(plans) for rows, *_ in steps for row in rows
    }
    predicted = [record.target for record in reference]
    gradients = gradients_at(clf, encoded, list(jobs.values()), predicted, progress=progress)
    known = {key: gradient for key, (gradient, *_) in zip(jobs, gradients, strict=True)}
    out = []
    for k, (text, record) in enumerate(zip(encoded, reference, strict=True)):
        exact = record.scores
        grouped: list[_Spent] = [
            (integrate(np.stack([known[k, row.tobytes()] for row in rows]), *how), len(rows), len(rows), [])
            for rows, *how in plans[k]
        ]
        order = np.random.default_rng([seed, *text.input_ids]).permutation(len(text))
        steps = {
            "hybrid": _hybrid(grouped[0][0], exact),
            "groups": [grouped[0], *grouped],
            "random": _random(order, exact),
        }
        out.append(
            {
                "tokens": record.pieces, "special": text.special, "label": clf.labels[record.target],
                "loo": exact, "forwards": len(text) + 1,
                "ways": {way: [_step(text, exact, *step) for step in steps[way]] for way in WAYS},
            }
        )  # fmt: skip
    return out


def _plan(tokens: int, groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Masks to run, and groups, nodes and weights, as `mask_gradient` takes them by default."""
    group_of_token, points, weights = plan(tokens, groups, default_nodes(groups), None)
    return quadrature_rows(group_of_token, points), group_of_token, points, weights


def _hybrid(gradient: np.ndarray, exact: np.ndarray) -> list[_Spent]:
    order = np.argsort(-np.abs(gradient), kind="stable")
    return [_replaced(gradient, exact, order[:p], (1 + p, 1)) for p in range(len(order) + 1)]


def _random(order: np.ndarray, exact: np.ndarray) -> list[_Spent]:
    means = [np.full(len(exact), exact[np.sort(order[:p])].mean()) for p in range(1, len(order) + 1)]
    nothing: _Spent = (np.zeros(len(exact)), 0, 0, [])
    drawn = [_replaced(mean, exact, order[:p], (1 + p, 0)) for p, mean in enumerate(means, start=1)]
    return [nothing, *drawn]


def _replaced(scores: np.ndarray, exact: np.ndarray, places: np.ndarray, passes: tuple[int, int]) -> _Spent:
    """Scores with the LOO values at some places."""
    out = scores.copy()
    out[places] = exact[places]
    return out, *passes, np.sort(places).tolist()


def _step(
    text: EncodedText, exact: np.ndarray, scores: np.ndarray, forwards: int, backwards: int, places: list[int]
) -> dict[str, Any]:
    r, error = {}, {}
    for tokens in TOKEN_CHOICES:
        kept = counted(text.special, tokens)
        r[tokens] = agreement(scores, exact, text.special, Protocol(tokens=tokens))
        error[tokens] = float(relative_error(scores[kept], exact[kept]))
    return {
        "scores": scores, "forwards": forwards, "backwards": backwards, "exact": places,
        "r": r, "error": error,
    }  # fmt: skip
