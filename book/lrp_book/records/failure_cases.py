"""Where one gradient of the mask is far from LOO, and what LOO itself does not see, in a live model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch

from lrp_book.records.tune_options import config_of
from lrp_companion.checks import InputError, whole
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods.common import settle, to_numpy, watch
from lrp_companion.methods.mask_gradient import gradients_at
from lrp_companion.methods.perturbation import kept_logits, loo
from lrp_companion.provenance import surroundings
from lrp_companion.sources import Dataset


def mask_paths(
    clf: Classifier, text: str, *, places: Sequence[int], points: int = 21, target: int | None = None
) -> dict[str, Any]:
    """The explained logit and its slope as one token's mask w_i goes from 0 to 1, the others kept at 1.

    LOO_i is the rise of the logit over the whole path, and the gradient of the mask is its slope at the end,
    w_i = 1.

    Parameters
    ----------
    places : tokens, from 0 ([CLS] in BERT).
    points : how many values of w_i, 2 or more, in equal steps.

    Returns
    -------
    dict
        `w` (points,); `tokens`, the names of the places; `label`; `value` and `slope`, each (places, points);
        `loo` and `gradient`, each (places,).

    Raises
    ------
    InputError : no place, one outside the text, or fewer than two points.

    >>> mask_paths(clf, "a film of rare grace", places=[4, 5])["value"].shape  # doctest: +SKIP
    (2, 21)
    """
    (encoded,) = clf.encode([text])
    chosen = list(places)
    is_place = [isinstance(place, (int, np.integer)) and 0 <= place < len(encoded) for place in chosen]
    if not chosen or not all(is_place):
        expected, hint = f"places from 0 to {len(encoded) - 1}", "count from 0, special tokens included"
        raise InputError("mask_paths", got=f"places {chosen}", expected=expected, hint=hint)
    whole("mask_paths", "points", points, least=2, hint="21 gives steps of 0.05")
    w = np.linspace(0, 1, points)
    rows = np.ones((len(chosen), points, len(encoded)))
    for k, place in enumerate(chosen):
        rows[k, :, place] = w
    start = gradients_at(clf, [encoded], [(0, np.ones(len(encoded)))], [target], progress=False)[0]
    jobs = [(0, row) for path in rows for row in path]
    along = gradients_at(clf, [encoded], jobs, [start[1]], progress=False)
    value = np.array([step[3] for step in along]).reshape(len(chosen), points)
    slope = np.array([step[0][chosen[k // points]] for k, step in enumerate(along)]).reshape(value.shape)
    return {
        "w": w, "tokens": [encoded.tokens[place] for place in chosen], "label": clf.labels[start[1]],
        "value": value, "slope": slope, "loo": value[:, -1] - value[:, 0], "gradient": slope[:, -1],
    }  # fmt: skip


def pair_removals(clf: Classifier, text: str, *, target: int | None = None) -> dict[str, Any]:
    """LOO of every word and every pair of words, removed by the attention mask, for the explained logit.

    Two words back each other up if the pair is worth more than the two alone. LOO of single tokens does not
    see this.

    Returns
    -------
    dict
        `tokens`, `label`, `single` (T,), `pair` (T, T), symmetric, and `backing`,
        `pair - single_i - single_j`; NaN at special tokens, and on the diagonal of the last two.

    Raises
    ------
    InputError : a text with fewer than two words.

    >>> pair_removals(clf, "a great , great film")["backing"].shape  # doctest: +SKIP
    (7, 7)
    """
    (encoded,) = clf.encode([text])
    words = np.flatnonzero(~encoded.special).tolist()
    if len(words) < 2:
        got, hint = f"a text of {len(words)} words", "pass a sentence"
        raise InputError("pair_removals", got=got, expected="two or more", hint=hint)
    removed = [(), *((word,) for word in words), *combinations(words, 2)]
    keeps = np.ones((len(removed), len(encoded)), dtype=bool)
    for row, gone in zip(keeps, removed, strict=True):
        row[list(gone)] = False
    logits = kept_logits(clf, [(encoded, keep) for keep in keeps], progress=False)
    chosen = int(settle([target], logits[:1])[0])
    fall = dict(zip(removed, to_numpy(logits[0, chosen] - logits[:, chosen]).tolist(), strict=True))
    single, pair = np.full(len(encoded), np.nan), np.full((len(encoded), len(encoded)), np.nan)
    for gone in removed[1:]:
        if len(gone) == 1:
            single[gone[0]] = fall[gone]
        else:
            pair[gone] = pair[gone[::-1]] = fall[gone]
    backing = pair - single[:, None] - single
    return {
        "tokens": encoded.tokens, "label": clf.labels[chosen],
        "single": single, "pair": pair, "backing": backing,
    }  # fmt: skip


def backed_pairs(
    clf: Classifier, texts: Sequence[str], *, progress: bool | None = None
) -> list[dict[str, Any]]:
    """The two words of each text that back each other up most, by `pair_removals`, with the most backing
    first.

    Returns
    -------
    list
        Rows `text` (its place in `texts`), `label`, `words`, `places`, `single` (LOO of both), `pair`,
        `backing`, and `largest`, the largest |LOO| of a single word of the text.

    >>> backed_pairs(clf, ["a great , great film"])[0]["words"]  # doctest: +SKIP
    ('great', 'great')
    """
    rows = []
    for place, text in enumerate(watch(texts, progress=progress, label="pairs")):
        pairs = pair_removals(clf, text)
        single, tokens = pairs["single"], pairs["tokens"]
        i, j = sorted(divmod(int(np.nanargmax(pairs["backing"])), len(tokens)))
        rows.append(
            {
                "text": place, "label": pairs["label"], "words": (tokens[i], tokens[j]), "places": (i, j),
                "single": (float(single[i]), float(single[j])), "pair": float(pairs["pair"][i, j]),
                "backing": float(pairs["backing"][i, j]), "largest": float(np.nanmax(np.abs(single))),
            }
        )  # fmt: skip
    return sorted(rows, key=lambda row: -row["backing"])


def largest_loo(clf: Classifier, texts: Sequence[str], *, progress: bool | None = None) -> tuple[int, str]:
    """The word with the largest LOO in these texts: its position, from 0, and its text."""
    records = loo(clf, clf.encode(list(texts)), [None] * len(texts), progress=progress)
    scores = [np.where(record.special, -np.inf, record.scores) for record in records]
    best = int(np.argmax([of_text.max() for of_text in scores]))
    return int(scores[best].argmax()), texts[best]


def concentrations(
    clf: Classifier, data: Dataset, *, limit: int | None = None, seed: int = 0, progress: bool | None = None
) -> dict[str, Any]:
    """How concentrated attention is on each text of a data set: numbers only.

    `concentration` is the mean over layers, heads and queries of `sum_i A_ji**2`: 1/T if attention is even, 1
    if every query reads one token. `special` is the mean attention that special tokens receive in all.

    Returns
    -------
    dict
        `config`, `made with`, and `rows`: `example` (row of the split), `concentration` and `special`, lists
        of one length.

    >>> concentrations(clf, data, limit=2)["rows"]["concentration"]  # doctest: +SKIP
    [0.31, 0.27]
    """
    sample = data.order(limit, seed=seed)
    texts = clf.encode([data.texts[k] for k in sample], truncate=True)
    rows: dict[str, list] = {"example": sample, "concentration": [], "special": []}
    for text in watch(texts, progress=progress, label="attention"):
        with torch.no_grad():
            attention = torch.stack(list(clf.tape(text).attentions))
        rows["concentration"].append(round(float((attention**2).sum(-1).mean()), 5))
        received = attention[..., torch.as_tensor(text.special.copy())].sum(-1).mean()
        rows["special"].append(round(float(received), 5))
    return {"config": config_of(clf, data, texts, seed), "made with": surroundings(), "rows": rows}
