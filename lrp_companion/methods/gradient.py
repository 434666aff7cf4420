"""Methods by gradients: input x gradient, integrated gradients through captum, and the gradient of the mask
with its hybrids; and attention rollout.

The mask gradient is the integrand of LOO at one or a few points, from backward passes through the true model.
Let w be a soft keep-mask, `f(x, w)` the output when attention weights are proportional to `w_i exp(Z_ji)` in
every layer (for pixels, when pixel i is scaled by w_i). `w = 1` is the model, `w_i = 0` is LOO of token i, so

    LOO_i = f(x, 1) - f(x, w_i = 0) = integral over w_i from 0 to 1 of df/dw_i, the others kept at 1.

One backward pass gives `df/dw_i` at `w = 1` for all tokens. With K groups of tokens, pass k puts group k at
another node, and the integral becomes a quadrature along each token's path, apart from interactions within
its group. DeBERTa's own mask also sets a token's embedding to 0 and lets it read all tokens alike: there w_i
scales the embedding, too, and token i reads `w_i` of its attention and `1 - w_i` of the mean of all values.

A mask gradient g costs one or a few passes for all tokens; LOO l costs a forward pass for each token. The
hybrid computes LOO for some tokens c and uses the pairs (g_c, l_c) to correct the gradient on the others, as
a control variate does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.polynomial import legendre
from torch import Tensor

from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError, choose, ranking, real_array, scores_at, shown, whole
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.methods.common import (
    MOST_STEPS,
    Request,
    check_replacement,
    classes_of,
    gradients,
    path_integral,
    replacements,
    switch,
    to_numpy,
    unit_choice,
    watch,
)
from lrp_companion.methods.lrp import check_rules
from lrp_companion.methods.perturbation import asked_logits, loo
from lrp_companion.registry import method
from lrp_companion.tape.encoder import budget, relevance_parts, token_batches


@method("gradient-x-input", takes=("output",))
def gradient_x_input(request: Request, *, site: str = "word") -> list[Attribution]:
    """Input x gradient: `sum over the hidden axis of a df/da` at the embeddings, read at a site as for
    LRP.
    """
    encoder = request.clf.encoder
    check_rules("attribute", request.clf, site=site)
    choices = {"site": site, "output": request.output}
    out: list[Attribution | None] = [None] * len(request.texts)
    for rows, ids, mask, further in request.batches():
        with torch.enable_grad():
            word = encoder.embed(ids).requires_grad_(True)
            # a clone, as FlopCounterMode takes no leaf as the input of a module
            tape = encoder.forward(ids, mask, word=word.clone(), only_read=True, **further)
            logits, chosen = request.explained(rows, tape)
            g = gradients(request.read(logits, chosen), word)
        parts = {key: to_numpy(value.flatten(0, -2)) for key, value in relevance_parts(tape, g).items()}
        for k, i in enumerate(rows):
            text = request.texts[i]
            of_text = {key: value[k, : len(text)] for key, value in parts.items()}
            known: dict[str, Any] = {"target": chosen[k], "logit": logits[k, chosen[k]]}
            out[i] = request.record(text, scores_at(of_text, site), parts=of_text, choices=choices, **known)
    return out  # type: ignore[return-value]


@method("ig", takes=("output",))
def integrated_gradients(request: Request, *, n_steps: int = 50, baseline: str = "auto") -> list[Attribution]:
    """Integrated gradients (Sundararajan et al. 2017) at the word embeddings, by captum, from a stated
    baseline.

    `IG_i = (x_i - x'_i) . integral over a in [0,1] of df(x' + a (x - x'))/dx_i`, Gauss-Legendre with
    `n_steps` nodes. In the baseline x' every word is replaced ([PAD], [MASK], or a zero vector), or every
    patch of an image (by one whose pixels are 0, or a zero vector; "auto" takes the first of each); special
    tokens and positions stay, so special tokens score 0. The convergence delta `sum IG - (f(x) - f(x'))` is
    returned in `details`.
    """
    clf = request.clf
    baseline = baseline_of(clf, baseline)
    whole("attribute", "n_steps", n_steps, most=MOST_STEPS, hint="try n_steps=50")
    tokens_at_once = budget(request.batch_tokens, clf.device, work="path")
    choices = {"site": "word", "baseline": baseline, "n_steps": n_steps, "output": request.output}
    out = []
    pairs = list(zip(request.texts, request.targets, strict=True))
    for text, target in watch(pairs, progress=request.progress, label=request.name):
        ids, mask, further = clf.batch([text, text])
        word = clf.encoder.embed(ids[:1])
        start = _start(clf, text, ids[:1], baseline)
        with torch.no_grad():  # both ends of the path
            logits = clf.encoder.forward(ids, mask, word=torch.cat([word, start]), **further).logits
        chosen = classes_of([target], logits[:1])
        ends = request.read(logits, chosen.expand(2))

        def explained(
            x: Tensor, mask: Tensor = mask, chosen: Tensor = chosen, further: dict[str, Any] = further
        ) -> Tensor:
            rows = {key: None if one is None else _repeated(one, len(x)) for key, one in further.items()}
            return request.read(
                clf.logits_of_words(x, _repeated(mask, len(x)), **rows), chosen.expand(len(x))
            )

        scores = path_integral(explained).attribute(
            word, start, n_steps=n_steps, internal_batch_size=max(1, tokens_at_once // len(text))
        )
        delta = float(scores.sum() - (ends[0] - ends[1]))
        known: dict[str, Any] = {"target": chosen, "logit": logits[0, chosen], "choices": choices}
        known["details"] = {"convergence_delta": delta, "passes": (n_steps + 2, n_steps)}
        out.append(request.record(text, scores[0].sum(-1), **known))
    return out


def baseline_of(clf: Classifier, baseline: str) -> str:
    """The baseline of a path, if the classifier has it; "auto" is that of its kind of input."""
    own = "zero-pixels" if clf.reads_images else "pad-token"
    known = ("auto", "zero", own) if clf.reads_images else ("auto", "zero", own, "mask-token")
    baseline = own if choose("attribute", "baseline", baseline, known) == "auto" else baseline
    check_replacement(clf, baseline)
    return baseline


def _start(clf: Classifier, text: EncodedText, ids: Tensor, baseline: str) -> Tensor:
    """Where the path begins, (1, T, E): the embeddings with all but the special tokens replaced."""
    word = clf.encoder.embed(ids)
    if baseline == "zero":
        start = torch.zeros_like(word)
    elif baseline == "zero-pixels":
        start = clf.encoder.embed(torch.zeros_like(ids))
    else:
        start = clf.encoder.embed(torch.full_like(ids, replacements(clf)[baseline]))
    special = torch.as_tensor(text.special, device=clf.device)
    return torch.where(special[None, :, None], word, start)


def _repeated(rows: Tensor, count: int) -> Tensor:
    """The first row, so many times."""
    return rows[:1].expand(count, *rows.shape[1:])


HEAD_FUSIONS = ("mean", "max", "min")
ROWS = ("cls", "mean")


@method("rollout", takes=())
@torch.no_grad()
def rollout(
    request: Request, *, residual: bool = False, head_fusion: str = "mean", row: str = "cls"
) -> list[Attribution]:
    """Rollout `A~(l) = A(l) A~(l-1)` with `A~(0) = I`, heads fused; Eq. (Rollout) of the paper is the plain
    product.

    `residual` adds the identity (`(A + I) / 2`), as in the original. `row` reads the row of the token
    that the classifier reads ("cls": the first, in a causal model the last), or the mean over rows of real
    tokens. The scores are non-negative and do not depend on the target.
    """
    choose("attribute", "head_fusion", head_fusion, HEAD_FUSIONS)
    choose("attribute", "row", row, ROWS)
    choices = {"residual": switch("residual", residual), "head_fusion": head_fusion, "row": row}
    out: list[Attribution | None] = [None] * len(request.texts)
    for rows, ids, mask, further in request.batches(shared=False):
        tape = request.clf.encoder.forward(ids, mask, **further)
        logits, chosen = request.explained(rows, tape)
        real = mask[:, :, None].to(logits.dtype)
        state = torch.eye(ids.shape[1], device=ids.device, dtype=logits.dtype).expand(len(rows), -1, -1)
        for attention in (layer.to(ids.device) for layer in tape.attentions):
            fused = attention.mean(1) if head_fusion == "mean" else getattr(attention, f"a{head_fusion}")(1)
            if head_fusion != "mean":
                fused = fused / fused.sum(-1, keepdim=True)
            if residual:
                fused = 0.5 * (fused + torch.eye(ids.shape[1], device=ids.device, dtype=fused.dtype))
            state = fused @ state
        scores = tape.head.readout.rows(state) if row == "cls" else (real * state).sum(1) / real.sum(1)
        for k, i in enumerate(rows):
            known: dict[str, Any] = {"target": chosen[k], "logit": logits[k, chosen[k]], "choices": choices}
            out[i] = request.record(request.texts[i], scores[k], **known)
    return out  # type: ignore[return-value]


APART = 1e-6
"""Least distance of two nodes: nearly equal nodes have nearly infinite weights."""
MANY, LOW = 8, (0.2, 1)
"""From this many groups on, these nodes are the default: concentrated attention changes fast near w = 0, and
few other tokens move with each. With fewer groups the default is Radau's two nodes, 1/3 and 1. Chosen on
training sentences, by r and, between 0.2 and 0.1, by the error of the value itself.
"""


LARGEST_WEIGHTS = 1000.0
"""Largest factor by which rounding of the gradients (1e-7 in float32) may grow in the scores."""


def quadrature(nodes: int | Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Nodes in [0, 1], the last of which is 1, and their weights.

    A number n gives the n Gauss-Radau nodes with one node at 1, exact for polynomials of degree 2n - 2. Given
    nodes get interpolatory weights, exact for degree n - 1.

    >>> [values.round(3).tolist() for values in quadrature(2)]
    [[0.333, 1.0], [0.75, 0.25]]
    >>> [values.round(3).tolist() for values in quadrature([0, 0.5, 1])]
    [[0.0, 0.5, 1.0], [0.167, 0.667, 0.167]]
    """
    if isinstance(nodes, int):
        number = whole("attribute", "nodes", nodes, most=32, hint="nodes=1 reads the whole input")
        # The roots of P_{n-1} + P_n are Radau's nodes on [-1, 1], the first at -1.
        last = legendre.legroots([*[0] * (number - 1), 1, 1]).real
        points = np.append(np.sort((1 - np.sort(last)[1:]) / 2), 1.0)
    else:
        points = np.sort(np.atleast_1d(real_array("attribute", "nodes", nodes)))
        if (np.diff(points) < APART).any() or not points[0] >= 0 or points[-1] != 1:
            got, expected = f"nodes {shown(nodes)}", f"numbers from 0, {APART:g} apart, that end with 1"
            raise InputError("attribute", got=got, expected=expected, hint="or a number of nodes")
    moments = np.eye(points.size)[0]  # Legendre's polynomials on [0, 1] integrate to 1, 0, 0, ...
    weights = np.linalg.solve(legendre.legvander(2 * points - 1, points.size - 1).T, moments)
    if not (size := np.abs(weights).sum()) <= LARGEST_WEIGHTS:
        got = f"{points.size} nodes whose weights sum to {size:.1e} without their signs"
        expected = f"at most {LARGEST_WEIGHTS:g}: weights multiply rounding"
        hint = "choose fewer nodes, further apart, or a number of nodes, whose weights sum to 1"
        raise InputError("attribute", got=got, expected=expected, hint=hint)
    return points, weights


def default_nodes(groups: int | str) -> tuple[float, ...] | None:
    """The default nodes for texts; None leaves the choice to `plan`, one node for one group and Radau's two
    for more.
    """
    return LOW if groups == "all" or groups >= MANY else None  # type: ignore[operator]


def group_of(tokens: int, groups: int | str, *, seed: int | None = None) -> np.ndarray:
    """The group of every token, (T,): token i is in group i mod K, so that neighbours are in different
    groups; with a seed, random groups.

    >>> group_of(5, 2).tolist()
    [0, 1, 0, 1, 0]
    """
    hint = 'more groups cost more passes; "all" has one for each token'
    count = tokens if groups == "all" else whole("attribute", "groups", groups, hint=hint)
    count = min(count, tokens)
    out = np.arange(tokens) % count
    return out if seed is None else np.random.default_rng(seed).permutation(out)


def quadrature_rows(groups: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Masks to run, (R, T): first all ones, then for each node below 1 and each group that group at the
    node.
    """
    rows = [np.ones(len(groups))]
    rows += [np.where(groups == k, point, 1.0) for point in points[:-1] for k in range(groups.max() + 1)]
    return np.stack(rows)


def integrate(
    gradients: np.ndarray, groups: np.ndarray, points: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Scores (T,) from the gradients (R, T) at `quadrature_rows`: each token is read in the rows in which its
    group is at the node.
    """
    count, places = groups.max() + 1, np.arange(len(groups))
    scores = weights[-1] * gradients[0]
    for n, weight in enumerate(weights[:-1]):
        scores = scores + weight * gradients[1 + n * count + groups, places]
    return scores


def plan(
    tokens: int, groups: int | str, nodes: int | Sequence[float] | None, seed: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups, nodes and weights for T tokens; one group has one node, because scaling all of w changes
    nothing.
    """
    group = group_of(tokens, groups, seed=seed)
    points, weights = quadrature((1 if groups == 1 else 2) if nodes is None else nodes)
    if groups == 1 and len(points) > 1:
        got, expected = f"nodes {nodes!r} with groups 1", "one node: scaling the whole mask changes nothing"
        raise InputError("attribute", got=got, expected=expected, hint="choose groups=2 or more")
    return group, points, weights


@method("mask-gradient", takes=("output", "unit"))
def mask_gradient(
    request: Request,
    *,
    groups: int | str = 1,
    nodes: int | Sequence[float] | None = None,
    seed: int | None = None,
) -> list[Attribution]:
    """Gradient of the attention mask: `df/dw_i` at w = 1, or its quadrature along w_i with K groups of
    tokens.

    One group costs one forward and one backward pass, and K groups with n nodes cost 1 + K (n - 1) of each
    (see `details`). The derivative is that of the model itself, without rules or epsilon. Scores of one group
    sum to 0, because attention does not depend on the scale of w (DeBERTa's embeddings do). The default nodes
    are 1/3 and 1, or from 8 groups on 0.2 and 1. With `groups="all"` and many nodes the scores become LOO by
    the attention mask. The tokens of a `unit` ("word", "sentence", or spans) move together, as LOO of that
    unit removes them.

    Of a text whose K groups cost more passes than LOO (a backward pass counts as two), the scores are LOO
    itself, and `details` says so; not where `nodes` or a `seed` is given.
    """
    if groups == 1 or nodes is not None or seed is not None:
        return quadrature_of(request, groups, nodes, seed)
    points = quadrature(default_nodes(groups) or 2)[0]
    sizes = [len(units) for units in request.units()]
    dear = [size + 1 < 3 * (1 + len(np.unique(group_of(size, groups)))) for size in sizes]
    choices = {"groups": groups, "nodes": tuple(points.tolist()), "seed": None, "output": request.output}
    choices |= unit_choice(request.unit)
    rest, exact = (np.flatnonzero(np.array(dear, dtype=bool) == side).tolist() for side in (False, True))
    out = dict(zip(rest, quadrature_of(request.some(rest), groups, None, None), strict=True))
    for k, record in zip(exact, loo(request.some(exact)), strict=True):
        details = {**record.details, "passes": (sizes[k] + 1, 0), "computed as": "leave-one-out"}
        out[k] = replace(record, choices=choices, details=details)
    return [out[k] for k in range(len(sizes))]


def quadrature_of(
    request: Request, groups: int | str, nodes: int | Sequence[float] | None, seed: int | None
) -> list[Attribution]:
    """The mask gradient by its own passes."""
    texts = request.texts
    nodes = default_nodes(groups) if nodes is None else nodes
    plan(1, groups, nodes, seed)  # refuses bad options also where there is no text
    units = request.units()
    plans = []
    for text, of_text in zip(texts, units, strict=True):
        group, *rule = plan(len(of_text), groups, nodes, seed)
        unit = of_text.of_tokens(len(text))  # -1: a token of no unit, which is in no group
        plans.append((np.where(unit >= 0, group[unit], -1), *rule))
    rows = [quadrature_rows(group, points) for group, points, _ in plans]
    first = list[Any]([None] * len(texts))
    for batch, ids, real, further in request.batches():
        _fill(first, request, batch, batch, (ids, real, further), real.to(request.clf.dtype))
    jobs = [(k, mask) for k, masks in enumerate(rows) for mask in masks[1:]]
    chosen = [target for _, target, *_ in first]
    others = iter(gradients_at(replace(request, targets=chosen), jobs) if jobs else [])
    out = []
    for k, (group, points, weights) in enumerate(plans):
        gradient, target, logit, value = first[k]
        gradients = np.stack([gradient, *(next(others)[0] for _ in rows[k][1:])])
        scores = units[k].sums(integrate(gradients, group, points, weights))
        choices = {"groups": groups, "nodes": tuple(points.tolist()), "seed": seed, "output": request.output}
        known: dict[str, Any] = {"target": target, "logit": logit}
        known["choices"] = choices | unit_choice(request.unit)
        known["details"] = {"passes": (len(gradients), len(gradients)), "value": value}
        out.append(request.record(texts[k], scores, units=units[k], **known))
    return out


def gradients_at(
    request: Request, jobs: Sequence[tuple[int, np.ndarray]]
) -> list[tuple[np.ndarray, int, float, float]]:
    """For each job (a text's index and its mask (T,)): `df/dw` (T,), the explained class, its logit, and f,
    the output of the request.
    """
    clf, out = request.clf, list[Any]([None] * len(jobs))
    batched = token_batches([len(row) for _, row in jobs], budget(request.batch_tokens, clf.device))
    for batch in watch(batched, progress=request.progress, label=request.name):
        rows = [jobs[b][0] for b in batch]
        inputs = clf.batch([request.texts[i] for i in rows])
        keep = torch.zeros(inputs[1].shape, dtype=clf.dtype)
        for place, b in enumerate(batch):
            keep[place, : len(jobs[b][1])] = torch.as_tensor(jobs[b][1])
        _fill(out, request, batch, rows, inputs, keep.to(clf.device))
    return out


def _fill(
    out: list, request: Request, places: Sequence[int], rows: Sequence[int], inputs: Any, keep: torch.Tensor
) -> None:
    """Fill `out[place]` with (gradient, class, logit, value) for each text of a batch; the mask `keep` is
    (B, T), or (1, T) where one pass serves all.
    """
    ids, real, further = inputs
    keep = keep.requires_grad_(True)
    with torch.enable_grad():
        tape = request.clf.encoder.forward(ids, real, keep=keep, only_read=True, **further)
        logits, chosen = request.explained(rows, tape)
        values = request.read(logits, chosen)
        g = gradients(values, keep).flatten(0, -2)
    for k, (place, row) in enumerate(zip(places, rows, strict=True)):
        target, value = int(chosen[k]), float(values[k].detach())
        gradient = to_numpy(g[k, : len(request.texts[row])])
        out[place] = gradient, target, float(logits[k, target].detach()), value


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
    rows = zip(request.texts, units, chosen, strict=True)
    jobs = [(text, of.kept_without(i, len(text))) for text, of, places in rows for i in places]
    logits = asked_logits(request, jobs)
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
    draws = [np.random.default_rng([seed, *text.key]).permutation(len(text)) for text in request.texts]
    chosen = [np.sort(draw[:budget]) for draw in draws]
    pairs = zip(request.texts, chosen, strict=True)
    jobs = [(text, np.arange(len(text)) != i) for text, places in pairs for i in (-1, *places)]
    logits = asked_logits(request, jobs)
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
