"""Where the gradient of the mask errs: within a softmax, after it, or across layers.

With `Z` the scores of all layers and heads, the mask w enters as `Z_ji + log w_i`. So the mask gradient of
token i is a column sum of the gradient of the scores, over layers, heads and queries j,

    M_i = sum df/dZ_ji = sum A_ji (G_ji - sum_k A_jk G_jk),   G = df/dA:

attention times its gradient, with each query's mean subtracted. It is also attribution patching (a
first-order estimate of swapping an activation) of "token i is masked" with `log w_i` as the activation. From
M to LOO it is four steps, each of which makes one more thing exact:

    M    slope of every softmax, slope of all that follows
    S1   every softmax exact (its own LOO), slope of all that follows
    S2   one head of one layer masked at a time, the rest of the network exact; summed over all heads
    S3   one layer masked at a time; summed over all layers
    LOO  all layers masked at once

LOO - M is the sum of the four differences. The records leave S2 out: it takes a forward per layer, head and
token.

A bound: along w_i from 1 to 0, `|LOO_i - M_i| <= max |d2f/dw_i**2| / 2` (Taylor with the Lagrange remainder).
No bound in M alone can hold: one softmax has `M_i = (1 - A_i) LOO_i`, so M goes to 0 as A_i goes to 1 while
LOO stays; at the other end, `w_i = 0`, the slope is `LOO_i / (1 - A_i)` and has no bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from lrp_book.records import config_of, is_bert, rounded
from lrp_companion.lab.execute import surroundings
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.methods.common import (
    class_numbers,
    classes_of,
    read_output,
    to_numpy,
    watch,
)
from lrp_companion.metrics.faithfulness import pearson
from lrp_companion.sources import Dataset
from lrp_companion.tape.attention import Context
from lrp_companion.tape.encoder import budget
from lrp_companion.tape.layer import LayerBlock
from lrp_companion.toys import SoftmaxStep

STAGES = ("M", "S1", "S2", "S3", "LOO")
PARTS = ("within one softmax", "a head's way out", "across heads", "across layers")
"""S1 - M, S2 - S1, S3 - S2 and LOO - S3."""


def head_steps(clf: Classifier, text: str | EncodedText, *, target: int | None = None) -> list[SoftmaxStep]:
    """All softmax steps of one text for a class (None: the predicted one), an entry for each layer.

    Logits `Z_ji = q_j . k_i / sqrt(d)` and values `V_i . df/dO_j`, a value vector in the direction of the
    true gradient at the head's output, (heads, queries, tokens). A step's LOO says how f changes, to first
    order in O, if this one head no longer reads token i for this one query.
    """
    assert is_bert(clf.encoder.wiring)
    encoded = clf.encode(text)[0] if isinstance(text, str) else text
    ids = torch.tensor([encoded.input_ids], device=clf.device)
    with torch.enable_grad():
        tape = clf.tape(encoded, word=clf.encoder.embed(ids).detach().requires_grad_(True))
        chosen = classes_of(class_numbers(target, 1, clf.labels), tape.logits)
        explained = read_output(tape.logits, chosen, "logit", multi_label=clf.multi_label).sum()
        gradients = torch.autograd.grad(explained, [layer.attend.read for layer in tape.layers])
    steps = []
    for block, g in zip(tape.layers, gradients, strict=True):
        layer: Any = block.attend

        def by_head(x: torch.Tensor, heads: int = layer.context.heads) -> np.ndarray:
            return to_numpy(x).reshape(len(x), heads, -1).swapaxes(0, 1)  # (T, D) to (H, T, D/H)

        query, key, value = (by_head(x.y[0]) for x in (layer.query, layer.key, layer.value))
        logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
        steps.append(SoftmaxStep(logits, to_numpy(g)[0] @ value.swapaxes(-1, -2)))
    return steps


@torch.no_grad()
def error_stages(clf: Classifier, text: EncodedText, places: Sequence[int]) -> dict[str, np.ndarray]:
    """The stages from the mask gradient to LOO at some tokens, each (places,), in units of the logit; S2 is
    NaN.
    """
    assert is_bert(clf.encoder.wiring)
    ids = torch.tensor([text.input_ids], device=clf.device)
    tape = clf.encoder.forward(ids, torch.ones_like(ids))
    target = int(classes_of([None], tape.logits)[0])
    steps = head_steps(clf, text, target=target)
    inputs = [tape.embedding.output, *(layer.output for layer in tape.layers[:-1])]
    at_once = max(1, budget(None, clf.device) // len(text))
    batches = [places[start : start + at_once] for start in range(0, len(places), at_once)]

    def fall(layer: int, *, everywhere: bool = False) -> np.ndarray:
        """The fall of the logit with each token masked in a layer, or in all from there on."""
        wiring = clf.encoder.wiring
        logits = []
        for batch in batches:
            x = inputs[layer].expand(len(batch), -1, -1)
            masked = torch.zeros(len(batch), wiring.heads, 1, len(text), dtype=torch.bool, device=clf.device)
            masked[range(len(batch)), :, 0, list(batch)] = True
            for depth, block in enumerate(wiring.layers[layer:], start=layer):
                here = masked if everywhere or depth == layer else None
                x = LayerBlock.run(block, x, Context(wiring.heads, here)).output
            x = x[:, 0]
            for linear, activation in wiring.head:
                x = linear(x) if activation is None else activation(linear(x))
            logits.append(to_numpy(x[:, target]))
        return float(tape.logits[0, target]) - np.concatenate(logits)

    return {
        "M": sum(step.mask_gradient().sum((0, 1)) for step in steps)[list(places)],
        "S1": sum(step.loo().sum((0, 1)) for step in steps)[list(places)],
        "S2": np.full(len(places), np.nan),
        "S3": sum(fall(layer) for layer in range(clf.card.layers)),
        "LOO": fall(0, everywhere=True),
    }


def error_parts(stages: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The distance of each stage from LOO, and the share of the mask gradient's error that each step removes.

    Returns
    -------
    dict
        `error` and `r`: stage to `sum |S - LOO| / sum |LOO|`, and to Pearson's r with LOO (NaN with fewer
        than two tokens or a constant map); `share`: part to its projection on the error,
        `<part, LOO - M> / |LOO - M|**2`. Shares add up to 1; a share is negative if its step moves away from
        LOO. Without S2 the two parts that need it are NaN.
    """
    loo, size = stages["LOO"], np.abs(stages["LOO"]).sum()
    gap = loo - stages["M"]
    out: dict[str, Any] = {"error": {}, "r": {}, "share": {}}
    for name in STAGES[:-1]:
        known = len(loo) > 1 and np.isfinite(stages[name]).all()
        out["error"][name] = float(np.abs(stages[name] - loo).sum() / size) if known and size else np.nan
        out["r"][name] = pearson(stages[name], loo) if known else np.nan
    for part, before, after in zip(PARTS, STAGES, STAGES[1:], strict=False):
        step = stages[after] - stages[before]
        out["share"][part] = float(step @ gap / (gap @ gap)) if gap @ gap else np.nan
    return out


def error_record(
    clf: Classifier, data: Dataset, *, limit: int, seed: int = 0, progress: bool | None = None
) -> dict[str, Any]:
    """`error_parts` of a random sample of a data set, special tokens left out: `config`, `made with` and
    `rows` (per text: `example`, `error`, `r`, `share`).
    """
    sample = data.order(limit, seed=seed)
    texts = clf.encode([data.texts[k] for k in sample], truncate=True)
    rows = [
        {"example": k, **error_parts(error_stages(clf, text, np.flatnonzero(~text.special).tolist()))}
        for k, text in watch(list(zip(sample, texts, strict=True)), progress=progress, label="stages")
    ]
    config = config_of(clf, data, texts, seed)
    return {"config": config, "made with": surroundings(), "rows": rounded(rows)}
