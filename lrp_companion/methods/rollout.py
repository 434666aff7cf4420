"""Attention rollout (Abnar and Zuidema 2020): attention maps multiplied through the layers."""

from __future__ import annotations

from typing import Any

import torch

from lrp_companion.attribution import Attribution
from lrp_companion.checks import choose
from lrp_companion.methods.common import Request, switch
from lrp_companion.registry import method

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
