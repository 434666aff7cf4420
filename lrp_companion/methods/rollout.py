"""Attention rollout (Abnar and Zuidema 2020): attention maps multiplied through the layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lrp_companion.attribution import Attribution
from lrp_companion.checks import choose
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.methods.common import Targets, attribution, batches, settle, switch
from lrp_companion.registry import method

HEAD_FUSIONS = ("mean", "max", "min")
ROWS = ("cls", "mean")


@method("rollout")
@torch.no_grad()
def rollout(
    clf: Classifier,
    texts: Sequence[EncodedText],
    targets: Targets,
    *,
    residual: bool = False,
    head_fusion: str = "mean",
    row: str = "cls",
    batch_tokens: int | None = None,
    progress: bool | None = None,
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
    out: list[Attribution | None] = [None] * len(texts)
    for rows, ids, mask, further in batches(
        clf, texts, batch_tokens=batch_tokens, progress=progress, label="rollout"
    ):
        tape = clf.encoder.forward(ids, mask, **further)
        chosen = settle([targets[i] for i in rows], tape.logits)
        real = mask[:, :, None].to(tape.logits.dtype)
        state = torch.eye(ids.shape[1], device=ids.device, dtype=tape.logits.dtype).expand(len(rows), -1, -1)
        for attention in (layer.to(ids.device) for layer in tape.attentions):
            fused = attention.mean(1) if head_fusion == "mean" else getattr(attention, f"a{head_fusion}")(1)
            if head_fusion != "mean":
                fused = fused / fused.sum(-1, keepdim=True)
            if residual:
                fused = 0.5 * (fused + torch.eye(ids.shape[1], device=ids.device, dtype=fused.dtype))
            state = fused @ state
        scores = tape.head.readout.rows(state) if row == "cls" else (real * state).sum(1) / real.sum(1)
        for k, i in enumerate(rows):
            out[i] = attribution(
                clf,
                texts[i],
                scores[k],
                method="rollout",
                target=chosen[k],
                logit=tape.logits[k, chosen[k]],
                choices=choices,
            )
    return out  # type: ignore[return-value]
