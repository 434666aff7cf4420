"""Where the gradient of the mask errs: within a softmax, after a head, across heads, or across layers.

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

LOO - M is the sum of the four differences.

A bound: along w_i from 1 to 0, `|LOO_i - M_i| <= max |d2f/dw_i**2| / 2` (Taylor with the Lagrange remainder).
No bound in M alone can hold: one softmax has `M_i = (1 - A_i) LOO_i`, so M goes to 0 as A_i goes to 1 while
LOO stays; at the other end, `w_i = 0`, the slope is `LOO_i / (1 - A_i)` and has no bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrp_book.analysis.softmax_steps import head_steps
from lrp_book.records.tune_options import config_of
from lrp_companion.checks import InputError, whole
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.methods.common import check_bert_order, settle, to_numpy, watch
from lrp_companion.methods.mask_gradient import gradients_at
from lrp_companion.metrics.faithfulness import pearson
from lrp_companion.provenance import surroundings
from lrp_companion.sources import Dataset
from lrp_companion.tape.attention import Context
from lrp_companion.tape.batching import budget
from lrp_companion.tape.encoder import LayerBlock

STAGES = ("M", "S1", "S2", "S3", "LOO")
PARTS = ("within one softmax", "a head's way out", "across heads", "across layers")
"""S1 - M, S2 - S1, S3 - S2 and LOO - S3."""


def attention_times_gradient(
    clf: Classifier, text: EncodedText, *, target: int | None = None, centred: bool = True
) -> np.ndarray:
    """Sum over layers, heads and queries of `A (G - mean_A G)`, or of `A G` if not centred, (T,).

    Centred it equals the mask gradient (in exact arithmetic); uncentred it is the attention times gradient of
    other work.

    >>> attention_times_gradient(clf, clf.encode("a fine film")[0])  # doctest: +SKIP
    """
    ids = torch.tensor([text.input_ids], device=clf.device)
    with torch.enable_grad():
        word = clf.encoder.embed(ids).detach().requires_grad_(True)
        tape = clf.encoder.forward(ids, torch.ones_like(ids), word=word)
        chosen = settle([target], tape.logits)
        gradients = torch.autograd.grad(tape.logits[0, chosen[0]], tape.attentions)
    out = np.zeros(len(text))
    for attention, gradient in zip(tape.attentions, gradients, strict=True):
        a, g = to_numpy(attention.detach())[0], to_numpy(gradient)[0]
        mean = (a * g).sum(-1, keepdims=True) if centred else 0.0
        out += (a * (g - mean)).sum((0, 1))
    return out


def error_stages(
    clf: Classifier,
    text: EncodedText,
    *,
    target: int | None = None,
    places: Sequence[int] | None = None,
    heads: bool = True,
    batch_tokens: int | None = None,
) -> dict[str, np.ndarray]:
    """The five stages from the mask gradient to LOO, each (places,), in units of the logit.

    Parameters
    ----------
    places : tokens, from 0; default all.
    heads : whether S2 is made, at one partial forward per layer, head and token; else it is NaN.
    batch_tokens : tokens run forward at once.

    Raises
    ------
    InputError : a place outside the text.
    """
    check_bert_order("error_stages", clf)
    chosen_places = list(range(len(text))) if places is None else [int(place) for place in places]
    if not all(0 <= place < len(text) for place in chosen_places):
        expected = f"places from 0 to {len(text) - 1}"
        hint = "count from 0, special tokens included"
        raise InputError("error_stages", got=f"places {chosen_places}", expected=expected, hint=hint)
    ids = torch.tensor([text.input_ids], device=clf.device)
    with torch.no_grad():
        tape = clf.encoder.forward(ids, torch.ones_like(ids))
    explained = int(settle([target], tape.logits)[0])
    steps = head_steps(clf, text, target=explained)
    inputs = [tape.embedding.output, *(layer.output for layer in tape.layers[:-1])]
    runner = _Masked(clf, inputs, explained, budget(batch_tokens, clf.device))
    whole_logit = float(tape.logits[0, explained])
    layers, n = range(clf.card.layers), len(chosen_places)
    out = {
        "M": sum(step.mask_gradient().sum((0, 1)) for step in steps)[chosen_places],
        "S1": sum(step.loo().sum((0, 1)) for step in steps)[chosen_places],
        "S2": np.full(n, np.nan),
    }
    if heads:
        count = clf.card.heads
        removed = [(place, head) for place in chosen_places for head in range(count)]
        fall = [whole_logit - runner.logits(layer, removed) for layer in layers]
        out["S2"] = sum(values.reshape(n, count).sum(1) for values in fall)
    out["S3"] = sum(
        whole_logit - runner.logits(layer, [(place, None) for place in chosen_places]) for layer in layers
    )
    out["LOO"] = whole_logit - runner.logits(0, [(place, None) for place in chosen_places], everywhere=True)
    return out


class _Masked:
    """Runs the network from a layer on with a token masked in one head, in one layer, or in all layers from
    there.
    """

    def __init__(self, clf: Classifier, inputs: Sequence[Tensor], target: int, batch_tokens: int) -> None:
        self.clf, self.inputs, self.target = clf, inputs, target
        self.at_once = max(1, batch_tokens // inputs[0].shape[1])

    @torch.no_grad()
    def logits(
        self, layer: int, removed: Sequence[tuple[int, int | None]], *, everywhere: bool = False
    ) -> np.ndarray:
        """The explained logit (removals,) with each (place, head or None for all) masked in a layer."""
        out = []
        for start in range(0, len(removed), self.at_once):
            out.append(self._batch(layer, removed[start : start + self.at_once], everywhere))
        return np.concatenate(out)

    def _batch(self, layer: int, removed: Sequence[tuple[int, int | None]], everywhere: bool) -> np.ndarray:
        wiring = self.clf.encoder.wiring
        x = self.inputs[layer].expand(len(removed), -1, -1)
        masked = torch.zeros(len(removed), wiring.heads, 1, x.shape[1], dtype=torch.bool, device=x.device)
        for row, (place, head) in enumerate(removed):
            masked[row, slice(None) if head is None else head, 0, place] = True
        for depth in range(layer, len(wiring.layers)):
            here = masked if everywhere or depth == layer else None
            x = LayerBlock.run(wiring.layers[depth], x, Context(wiring.heads, here)).output
        x = x[:, 0]
        for linear, activation in wiring.head:
            x = linear(x) if activation is None else activation(linear(x))
        return to_numpy(x[:, self.target])


def error_parts(stages: dict[str, np.ndarray], keep: np.ndarray | None = None) -> dict[str, Any]:
    """The distance of each stage from LOO, and the share of the mask gradient's error that each step removes.

    Parameters
    ----------
    stages : of `error_stages`.
    keep : bool (places,): the tokens that count; default all.

    Returns
    -------
    dict
        `error` and `r`: stage to `sum |S - LOO| / sum |LOO|`, and to Pearson's r with LOO (NaN with fewer
        than two tokens or a constant map); `share`: part to its projection on the error,
        `<part, LOO - M> / |LOO - M|**2`. Shares add up to 1; a share is negative if its step moves away from
        LOO. Without S2 the two parts that need it are NaN.
    """
    keep = np.ones(len(stages["LOO"]), dtype=bool) if keep is None else keep
    kept = {name: values[keep] for name, values in stages.items()}
    loo, size = kept["LOO"], np.abs(kept["LOO"]).sum()
    gap = loo - kept["M"]
    out: dict[str, Any] = {"error": {}, "r": {}, "share": {}}
    for name in STAGES[:-1]:
        known = len(loo) > 1 and np.isfinite(kept[name]).all()
        out["error"][name] = float(np.abs(kept[name] - loo).sum() / size) if known and size else np.nan
        out["r"][name] = pearson(kept[name], loo) if known else np.nan
    ends = zip(PARTS, STAGES, STAGES[1:], strict=False)
    for part, before, after in ends:
        out["share"][part] = float((kept[after] - kept[before]) @ gap / (gap @ gap)) if gap @ gap else np.nan
    return out


def slopes_at_zero(clf: Classifier, text: EncodedText, *, target: int | None = None) -> dict[str, np.ndarray]:
    """For every token: LOO, the slope of its mask at w_i = 0, and the largest attention it receives, (T,).

    In one softmax the slope there is `LOO / (1 - A)`. If that is what makes the node at 0 err, its error
    grows with the largest A that the token receives in any layer and head.
    """
    count = len(text)
    ones = np.ones(count)
    start = gradients_at(clf, [text], [(0, ones)], [target], progress=False)[0]
    rows = np.where(np.eye(count, dtype=bool), 0.0, ones)
    along = gradients_at(clf, [text], [(0, row) for row in rows], [start[1]], progress=False)
    ids = torch.tensor([text.input_ids], device=clf.device)
    with torch.no_grad():
        attention = torch.stack(list(clf.encoder.forward(ids, torch.ones_like(ids)).attentions))
    return {
        "loo": np.array([start[3] - step[3] for step in along]),
        "slope": np.array([step[0][k] for k, step in enumerate(along)]),
        "attention": to_numpy(attention.amax((0, 1, 2, 3))),
    }


def error_record(
    clf: Classifier,
    data: Dataset,
    *,
    limit: int | None = None,
    tokens: int | None = None,
    heads: bool = True,
    zero: bool = True,
    seed: int = 0,
    progress: bool | None = None,
) -> dict[str, Any]:
    """`error_parts` and `slopes_at_zero` of the texts of a data set, special tokens left out: numbers only.

    Parameters
    ----------
    limit : a random sample of the texts (default: all).
    tokens : number of words to draw at random from each text (default: all), for long texts.
    heads, zero : whether S2 and the slopes at 0 are computed.

    Returns
    -------
    dict
        `config`, `made with`, `rows` (per text: `example`, `error`, `r`, `share`) and, with `zero`, `slopes`:
        per word `loo`, `slope`, `attention` in three lists.
    """
    if tokens is not None:
        whole("error_record", "tokens", tokens, least=2, hint="leave it out for all")
    sample = data.order(limit, seed=seed)
    texts = clf.encode([data.texts[k] for k in sample], truncate=True)
    generator = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    slopes: dict[str, list[float]] = {"loo": [], "slope": [], "attention": []}
    pairs = list(zip(sample, texts, strict=True))
    for example, text in watch(pairs, progress=progress, label="stages"):
        words = np.flatnonzero(~text.special)
        if tokens is not None and len(words) > tokens:
            words = np.sort(generator.choice(words, tokens, replace=False))
        rows.append(
            {"example": example, **error_parts(error_stages(clf, text, places=words.tolist(), heads=heads))}
        )
        if zero:
            for name, values in slopes_at_zero(clf, text).items():
                slopes[name] += [round(float(value), 5) for value in values[~text.special]]
    config = config_of(clf, data, texts, seed) | {"words": tokens, "heads": heads}
    return {
        "config": config, "made with": surroundings(), "rows": [_rounded(row) for row in rows],
        **({"slopes": slopes} if zero else {}),
    }  # fmt: skip


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(entry) for name, entry in value.items()}
    if isinstance(value, float):
        return None if np.isnan(value) else round(value, 5)
    return value
