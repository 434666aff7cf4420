"""Methods without rules: input x gradient, integrated gradients through captum, and attention rollout."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lrp_companion.attribution import Attribution, scores_at
from lrp_companion.checks import choose, whole
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
    watch,
)
from lrp_companion.methods.lrp import check_rules
from lrp_companion.propagation import relevance_parts
from lrp_companion.registry import method
from lrp_companion.tape.encoder import budget


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
