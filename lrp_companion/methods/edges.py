"""Leave-One-Out as an exact sum over the edges of attention, and the method that follows from it.

    LOO_i = sum over layers l, heads and queries j of D_ji . gbar_j, D_ji = A_ji / (1 - A_ji) (v_i - O_j),

where attention without key i reads `O_j - D_ji`, and gbar_j is the mean, along the segment between the two
reads, of the gradient of the part above layer l with i masked there (proof: `book/edge_formula.md`).
`edge_loo` computes it by quadrature; `secant-mask-gradient` takes the gradient of the intact network for
gbar, which one backward pass gives for all tokens. Where the head reads a mean of tokens, this mean is one
more attention, with equal weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.polynomial import legendre
from torch import Tensor

from lrp_companion.attribution import Attribution
from lrp_companion.checks import ModelError, choose
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods.common import Request, classes_of, targets_of, to_numpy
from lrp_companion.methods.gradient import integrate, plan, quadrature_rows
from lrp_companion.methods.perturbation import asked_logits
from lrp_companion.registry import method
from lrp_companion.tape.attention import Context, Heads
from lrp_companion.tape.encoder import Tape, as_recorded


@dataclass(frozen=True)
class Removal:
    """What a read loses without each of its keys: `D_ji = ratio_ji (v_i - base_ji)`.

    Attributes
    ----------
    ratio : (B, h, k, T): `A / (1 - A)`; for a query's largest weight `A`, which needs no small divisor.
    values : (B, h, T, d).
    read : (B, h, k, d), the base of all keys but the largest.
    largest, without : (B, h, k, 1) and (B, h, k, d): the key with the largest weight, and its base, what is
        read without it.
    """

    ratio: Tensor
    values: Tensor
    read: Tensor
    largest: Tensor
    without: Tensor

    @classmethod
    def of_heads(cls, heads: Heads, context: Context) -> Removal:
        """Of some heads of a layer."""
        largest, without = heads.without_largest(context)
        return cls.of(heads.attention, heads.values, heads.read, largest, without)

    @classmethod
    def of(cls, a: Tensor, values: Tensor, read: Tensor, largest: Tensor, without: Tensor) -> Removal:
        return cls(a / (1 - a).scatter(-1, largest, 1.0), values, read, largest, without)

    @classmethod
    def of_mean(cls, weights: Tensor, x: Tensor, read: Tensor) -> Removal:
        """Of weights (B, T) that the head reads tokens x (B, T, D) by."""
        a, largest = weights[:, None, None], weights.argmax(-1)[:, None, None, None]
        others = a.scatter(-1, largest, 0.0)
        total = others.sum(-1, keepdim=True)
        values = x[:, None]
        without = (others / total.masked_fill(total == 0, 1)) @ values
        return cls.of(a, values, read[:, None, None], largest, without)

    def effects(self, g: Tensor) -> Tensor:
        """`D_ji . g_j` (B, h, k, T) for g (B, h, k, d) at what is read."""
        of_read, of_without = ((g * base).sum(-1, keepdim=True) for base in (self.read, self.without))
        base = of_read.expand(*g.shape[:-1], self.ratio.shape[-1])
        base = base.scatter(-1, self.largest.expand_as(of_read), of_without)
        return self.ratio * (g @ self.values.mT - base)

    def of_key(self, i: int) -> Tensor:
        """`D_ji` (B, h, k, d) of one key i."""
        base = torch.where(self.largest == i, self.without, self.read)
        return self.ratio[..., i, None] * (self.values[..., i, None, :] - base)


def removals(tape: Tape) -> list[list[Removal]]:
    """The removals of each layer, in groups of heads, and last of a mean that the head reads, if it does."""
    steps = [layer.attend for layer in tape.layers]
    out = [[Removal.of_heads(heads, step.context) for heads in step.at_work.groups()] for step in steps]
    head = tape.head
    if head.readout.largest:
        got, hint = "an encoder whose pooling is the maximum", "take method mask-gradient"
        raise ModelError("attribute", got=got, expected="a mean, or one token that is read", hint=hint)
    if head.readout.weights is not None:
        x = head.final_norm[-1].y if head.final_norm else tape.layers[-1].output
        out.append([Removal.of_mean(head.readout.weights, x, head.pooled)])
    return out


MOST_NODES = 256


def edge_loo(
    clf: Classifier, text: Any, *, target: Any = None, tolerance: float = 1e-9, **read: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Leave-One-Out by the attention mask, divided over the edges of attention: exact but for quadrature.

    Parameters
    ----------
    clf, text, target : as `attribute` takes them; the logit of the class is explained.
    tolerance : nodes of Gauss-Legendre's quadrature are doubled, from 8 to 256, until no layer's sum differs
        by more from the difference of the two passes that it explains.
    read : `position` and `truncate`, as `attribute` takes them.

    Returns
    -------
    array
        edges (L, H, T, T), float64: `edges[l - 1, h, j, i]` is `D_ji . gbar_j` of layer l, head h, query j
        and removed key i. Where the head reads a mean of tokens, there is one more layer, whose first head
        and query hold its share. And LOO (T,), from forward passes alone, of which `edges.sum((0, 1, 2))`
        is the division.

    It costs some passes for each token, layer and node: for short texts, and to test other methods.

    Raises
    ------
    ModelError : a DeBERTa, whose mask closes a token's own query and embedding, too.

    >>> edges, loo = edge_loo(clf, "a film of rare grace")   # doctest: +SKIP
    >>> abs(edges.sum((0, 1, 2)) - loo).max() < 1e-8         # doctest: +SKIP
    True
    """
    if clf.encoder.wiring.masks_whole:
        got, hint = f"{clf.card.name!r}, whose mask closes queries, too", "method 'loo' has LOO itself"
        raise ModelError("edge_loo", got=got, expected="a network whose mask closes keys alone", hint=hint)
    encoded = clf.encode_one("edge_loo", text, **read)
    targets = targets_of(clf, target, 1)
    with as_recorded(clf.device, clf.network):
        ids, mask, further = clf.batch([encoded])
        with torch.no_grad():
            tape = clf.encoder.forward(ids, mask, **further)
        chosen, tokens = int(classes_of(targets, tape.logits)), len(encoded)
        inputs = ids.expand(tokens, *ids.shape[1:]), mask.expand(tokens, -1), further
        upper = partial(_upper, clf, inputs, chosen)
        lost = [
            torch.stack([torch.cat([one.of_key(i) for one in of], 1)[0] for i in range(tokens)])
            for of in removals(tape)
        ]
        edges = np.zeros((len(lost), clf.encoder.wiring.heads, tokens, tokens))
        loo = torch.zeros(tokens, dtype=torch.float64)
        for number, d in enumerate(lost):
            ends = [upper(number, -s * d)[0].double().cpu() for s in (0, 1)]
            loo += ends[0] - ends[1]
            of_layer, nodes = torch.zeros(()), 4
            while nodes < MOST_NODES and not _close(of_layer, ends[0] - ends[1], tolerance):
                nodes *= 2
                points, weights = legendre.leggauss(nodes)
                pairs = zip(points.tolist(), weights.tolist(), strict=True)
                mean = sum(w / 2 * upper(number, -(1 + s) / 2 * d)[1] for s, w in pairs)
                of_layer = (d * mean).sum(-1).double().cpu()  # (i, h, j)
            edges[number, : of_layer.shape[1], : of_layer.shape[2]] = of_layer.permute(1, 2, 0).numpy()
    return edges, loo.numpy()


def _close(of_layer: Tensor, difference: Tensor, tolerance: float) -> bool:
    return of_layer.ndim > 0 and bool(((of_layer.sum((1, 2)) - difference).abs() <= tolerance).all())


def _upper(clf: Classifier, inputs: Any, target: int, number: int, added: Tensor) -> tuple[Tensor, Tensor]:
    """The logit (T,) if layer `number` (from 0) reads with `added` (T, h, j, d), and its gradient there: row
    i has key i masked in all layers above.
    """
    ids, mask, further = inputs
    tokens, layers = len(ids), len(clf.encoder.wiring.layers)
    rows: dict[str, Any] = {
        k: None if v is None else v.expand(tokens, *v.shape[1:]) for k, v in further.items()
    }
    masked = 1 - torch.eye(tokens, dtype=clf.dtype, device=clf.device)
    keep = [None if k <= number else masked for k in range(layers + 1)]
    leaf, here = added.requires_grad_(True), list[Tensor | None]([None] * (layers + 1))
    here[number] = leaf if number < layers else leaf[:, 0, 0]
    with torch.enable_grad():
        logits = clf.encoder.forward(ids, mask, keep=keep, added=here, **rows).logits[:, target]
        return logits.detach(), torch.autograd.grad(logits.sum(), leaf)[0]


@method("secant-mask-gradient", takes=("output",))
@torch.no_grad()
def secant_mask_gradient(
    request: Request,
    *,
    special: str = "exact",
    groups: int | str = 1,
    nodes: int | Sequence[float] | None = None,
    seed: int | None = None,
) -> list[Attribution]:
    """Secant form of the mask gradient: `sum of D_ji . g_j` over the edges, with g of the intact network.

    One forward and one backward pass, without rules. It is the exact formula of LOO by the attention mask
    with one slip: g is taken where nothing is masked. Its divisor `1 - A_ji` is what the mask gradient lacks,
    since the softmax is not linear in the mask. A token's own query counts only if the head reads it, as in
    the formula. Special tokens draw much attention, so that their masking changes many layers at once: with
    `special="exact"` they get LOO itself, a forward pass each; with "secant" the formula. With K `groups` and
    `nodes` g is a mean along the token's own mask, by the passes of `mask-gradient`.
    """
    choose("attribute", "special", special, ("exact", "secant"))
    plan(1, groups, nodes, seed)
    out = list[Any]([None] * len(request.texts))
    one_group, alone = groups == 1, replace(request, batch_tokens=1)
    for rows, ids, mask, further in (request if one_group else alone).batches(shared=False):
        inputs = ids, mask, further
        tape, chosen, values, g = _at_reads(request, rows, *inputs)
        lost = removals(tape)
        scores = to_numpy(_scores(tape, lost, g))
        for k, i in enumerate(rows):
            known: dict[str, Any] = {"target": int(chosen[k]), "logit": float(tape.logits[k, chosen[k]])}
            of_text, passes = scores[k, : len(request.texts[i])], 1
            if not one_group:
                group, points, weights = plan(len(of_text), groups, nodes, seed)
                masks = quadrature_rows(group, points)[1:]
                _, _, _, g = _at_reads(request, [i] * len(masks), *inputs, keep=masks, target=known["target"])
                more, passes = to_numpy(_scores(tape, lost, g)), 1 + len(masks)
                of_text = integrate(np.concatenate([scores, more]), group, points, weights)
            known["choices"] = {"special": special, "groups": groups, "seed": seed, "output": request.output}
            known["details"] = {"passes": (passes, passes), "value": float(values[k])}
            out[i] = of_text, known
    if special == "exact":
        _special_exact(request, out)
    pairs = zip(request.texts, out, strict=True)
    return [request.record(text, scores, **known) for text, (scores, known) in pairs]


def _at_reads(
    request: Request,
    rows: Sequence[int],
    ids: Tensor,
    mask: Tensor,
    further: dict[str, Any],
    *,
    keep: np.ndarray | None = None,
    target: int | None = None,
) -> tuple[Tape, Tensor, Tensor, list[Tensor]]:
    """A forward pass: its tape, classes, explained values, and the gradient (B, h, T, d) at what each layer
    reads; of one text under several masks `keep` (R, T).
    """
    clf, count = request.clf, len(rows)
    w, dtype, device = clf.encoder.wiring, clf.dtype, clf.device
    soft = None if keep is None else torch.as_tensor(keep, dtype=dtype, device=device)
    shapes: list[tuple[int, ...]] = [
        (count, w.heads, ids.shape[1], layer.value.out_features // (layer.key_heads or w.heads))
        for layer in w.layers
    ]
    if w.readout == "mean":
        shapes.append((count, w.layers[-1].down.out_features))
    added = [torch.zeros(shape, dtype=dtype, device=device, requires_grad=True) for shape in shapes]
    more = [*added, *[None] * (len(w.layers) + 1 - len(added))]
    further = {k: None if v is None else v.expand(count, *v.shape[1:]) for k, v in further.items()}
    with torch.enable_grad():
        tape = clf.encoder.forward(
            ids.expand(count, *ids.shape[1:]), mask.expand(count, -1), added=more, keep=soft, **further
        )
        chosen = request.explained(rows, tape)[1] if target is None else torch.tensor([target] * count)
        values = request.read(tape.logits, chosen)
        g = torch.autograd.grad(values.sum(), added)
    return tape, chosen, values, [part if part.ndim == 4 else part[:, None, None] for part in g]


def _scores(tape: Tape, lost: Sequence[Sequence[Removal]], g: Sequence[Tensor]) -> Tensor:
    """Scores (B, T): the effects summed over layers, heads and queries, own queries left out if unread."""
    own, total = _own_unread(tape), list[Tensor]()
    for of_layer, whole in zip(lost, g, strict=True):
        parts = whole.split([one.values.shape[1] for one in of_layer], 1)
        for one, part in zip(of_layer, parts, strict=True):
            # (B, T, T), of a mean (B, 1, T); layers may lie on several devices
            effects = one.effects(part.to(one.ratio.device)).sum(1).to(own.device)
            total.append((effects * ~own if effects.shape[1] == own.shape[1] else effects).sum(1))
    return torch.stack(total).sum(0)


def _own_unread(tape: Tape) -> Tensor:
    """Edges (B, T, T) from a token to its own query, but where the head reads that token: in the formula the
    gradient is 0 there, since nothing above reads a masked token.
    """
    batch, device, tokens = len(tape.logits), tape.logits.device, tape.head.readout.tokens
    own = torch.eye(tokens, dtype=torch.bool, device=device).repeat(batch, 1, 1)
    places, _ = tape.head.readout.alone(batch, device)
    if places is not None:
        own[torch.arange(batch, device=device)[:, None], places, places] = False
    return own


def _special_exact(request: Request, out: list[Any]) -> None:
    """Put LOO by the attention mask in place of the scores of special tokens."""
    jobs = [(i, place) for i, text in enumerate(request.texts) for place in np.flatnonzero(text.special)]
    if not jobs:
        return
    kept = [(request.texts[i], np.arange(len(request.texts[i])) != place) for i, place in jobs]
    logits = asked_logits(request, kept)
    values = request.read(logits, torch.tensor([out[i][1]["target"] for i, _ in jobs]))
    for (i, place), without in zip(jobs, values.tolist(), strict=True):
        scores, known = out[i]
        scores[place] = known["details"]["value"] - without
        forward, backward = known["details"]["passes"]
        known["details"]["passes"] = forward + 1, backward
