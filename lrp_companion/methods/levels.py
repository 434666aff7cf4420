"""Relevance between the layers, from the logit down to the words, under any bypass mask."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from lrp_companion.checks import check_layers
from lrp_companion.loading.classifier import Classifier
from lrp_companion.loading.compute import as_recorded
from lrp_companion.methods.common import check_classifier, classes_of, output_gradient, targets_of, to_numpy
from lrp_companion.methods.lrp import Cuts, check_rules, cut_paths, cuts_of
from lrp_companion.propagation import relevance_parts
from lrp_companion.tape.steps import CAUSES, keeps, metered


@dataclass(frozen=True)
class LayerRelevance:
    """Relevance of every token at every level of a network, from the top down.

    Attributes
    ----------
    levels : names of the levels: "output of layer 12" to "output of layer 1", "embeddings" (the input of the
        first layer), "words" or "patches" (only their embeddings, where `attribute` reads by default).
    scores : shape (levels, tokens), in units of the logit.
    lost : relevance lost before each level, (levels,), by cause: "biases", "norms", "softmax",
        "positions" for position and type embeddings, and "cuts" where paths are cut. With epsilon 0 their
        sum is the difference of the `sums`, from the logit down.
    tokens, special : of the text.
    target, logit : the explained class and its logit.
    """

    levels: tuple[str, ...]
    scores: np.ndarray
    tokens: tuple[str, ...]
    special: np.ndarray
    target: int
    logit: float
    lost: dict[str, np.ndarray]

    @property
    def sums(self) -> np.ndarray:
        """Total relevance of each level, (levels,): it changes where a rule does not conserve."""
        return self.scores.sum(1)


@torch.no_grad()
def layer_relevance(
    clf: Classifier,
    text: Any,
    *,
    bypass: Iterable[int] = (),
    cut: Cuts = (),
    target: int | str | None = None,
    epsilon: float = 0.0,
    gate: str = "uniform",
    truncate: bool = False,
    position: int | str | None = None,
) -> LayerRelevance:
    """Relevance `R = a * g` of one text at every layer's output, from one forward and one backward walk.

    Parameters
    ----------
    bypass : the layers, from 1, whose attention is held constant: none is AttnLRP, all is CP-LRP.
    cut : paths held constant, as `lrp` takes them: `("key", "special")` is key cut.
    target : a class or its label; by default the predicted one.
    epsilon : the stabiliser of Eq. (1), (3), (4).
    gate : rule for gated MLPs: "uniform", "right", "flat" or "constant".
    truncate : cut a text beyond the model's length.
    position : the token whose classes are explained, or a word, as in `attribute`.

    Raises
    ------
    InputError : several texts, a layer that does not exist, or options that `attribute` refuses.

    >>> flow = layer_relevance(clf, "a fine film")              # doctest: +SKIP
    >>> flow.levels[0], flow.levels[-1], flow.scores.shape      # doctest: +SKIP
    ('output of layer 12', 'words', (14, 5))
    """
    check_classifier("layer_relevance", clf)
    mask = check_layers("layer_relevance", bypass, clf.card.layers)
    cuts = cuts_of("layer_relevance", cut, clf.card.layers)
    eps = check_rules("layer_relevance", clf, epsilon=epsilon, gate=gate)
    encoded = clf.encode_one("layer_relevance", text, truncate=truncate, position=position)
    levels, scores, lost = [], [], []
    with as_recorded(clf.device, clf.network), metered() as meter:
        attended = torch.ones((1, len(encoded)), device=clf.device)
        tape = clf.tape(encoded, gate=gate, cuts=cut_paths(cuts, [encoded], [0], attended))
        chosen = classes_of(targets_of(clf, target, 1), tape.logits)
        start = output_gradient(tape.logits, chosen, "logit", multi_label=clf.multi_label)
        g = tape.head.backward(start, eps=eps)
        for number in range(len(tape.layers), 0, -1):
            layer = tape.layers[number - 1]
            levels.append(f"output of layer {number}")
            g = g.to(layer.output.device)
            scores.append((layer.output * g).sum(-1))
            lost.append(dict(meter))
            g = layer.backward(g, bypass=number in mask, eps=eps)
        levels += ["embeddings", clf.units]
        g = g.to(tape.embedding.output.device)
        scores.append((tape.embedding.output * g).sum(-1))
        lost.append(dict(meter))
        parts = relevance_parts(tape, tape.embedding.backward(g, eps=eps))
        scores.append(parts.pop("word"))
        others = [part.sum() for part in [torch.zeros_like(scores[-1]), *parts.values()]]
        keeps("positions", torch.stack(others))
        lost.append(dict(meter))
    causes = (*CAUSES, "cuts") if cuts else CAUSES
    by_cause = {cause: np.diff([row[cause] for row in lost], prepend=0.0) for cause in causes}
    return LayerRelevance(
        tuple(levels),
        np.stack([to_numpy(level)[0] for level in scores]),
        tuple(encoded.tokens),
        np.asarray(encoded.special),
        int(chosen[0]),
        float(tape.logits[0, chosen[0]]),
        by_cause,
    )
