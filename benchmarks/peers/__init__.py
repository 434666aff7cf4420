"""What a user would otherwise take, written to be read, at its best settings: loops, captum, autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from captum.attr import FeatureAblation, LayerIntegratedGradients
from torch import Tensor

from lrp_companion.families import Wiring
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.tape.encoder import some_masks


def _inputs(text: EncodedText) -> tuple[Tensor, Tensor]:
    ids = torch.tensor([text.input_ids])
    return ids, torch.ones_like(ids)


@torch.no_grad()
def loo_loop(clf: Classifier, text: EncodedText, target: int) -> np.ndarray:
    """Leave-One-Out as one would write it first: a forward of the `transformers` model per removed token."""
    ids, mask = _inputs(text)
    whole = clf.logits(ids, mask)[0, target]
    out = []
    for k in range(len(text)):
        without = mask.clone()
        without[0, k] = 0
        out.append((whole - clf.logits(ids, without)[0, target]).item())
    return np.array(out)


def loo_captum(clf: Classifier, text: EncodedText, target: int, *, per_eval: int) -> np.ndarray:
    """captum's `FeatureAblation` with the attention mask as its input, so many removals in one forward."""
    ids, mask = _inputs(text)

    def logit(mask: Tensor) -> Tensor:
        return clf.logits(ids.expand(len(mask), -1), mask.long())[:, target]

    explainer = FeatureAblation(logit)
    return explainer.attribute(mask.float(), baselines=0, perturbations_per_eval=per_eval)[0].numpy()


def ig_captum(clf: Classifier, text: EncodedText, target: int, *, n_steps: int) -> np.ndarray:
    """captum's `LayerIntegratedGradients` at the word embeddings, [PAD] in place of words.

    Its defaults but for batches of 64.
    """
    ids, mask = _inputs(text)
    special = torch.as_tensor(text.special)[None]
    baseline = torch.where(special, ids, clf.pad_id)
    explainer = LayerIntegratedGradients(
        lambda ids, mask: clf.network(input_ids=ids, attention_mask=mask).logits,
        clf.network.get_input_embeddings(),
    )
    scores = explainer.attribute(
        ids, baseline, target=target, additional_forward_args=(mask,), n_steps=n_steps, internal_batch_size=64
    )
    return scores[0].sum(-1).detach().double().numpy()


class _Norm(torch.autograd.Function):
    """LayerNorm whose spread is constant on the way back, as one operation."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: torch.nn.LayerNorm) -> Tensor:
        out, _, inverse = torch.native_layer_norm(
            x, layer.normalized_shape, layer.weight, layer.bias, layer.eps
        )
        ctx.save_for_backward(inverse * layer.weight)
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (scale,) = ctx.saved_tensors
        g = g * scale
        return g - g.mean(-1, keepdim=True), None


class _Slope(torch.autograd.Function):
    """An activation that passes back its value over its argument."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
        out = activation(z)
        ctx.save_for_backward(out / z)
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return g * slope, None


class _Share(torch.autograd.Function):
    """The same value, a part of the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, part: float) -> Tensor:
        ctx.part = part
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return g * ctx.part, None


def lrp_autograd(
    wiring: Wiring, ids: Tensor, attended: Tensor, targets: Tensor, *, bypass: bool = False
) -> Tensor:
    """AttnLRP, or with `bypass` CP-LRP, at the word embeddings (B, T) as the gradient of a modified network.

    From Achtibat et al. 2024 and Arras et al. 2025. LayerNorm's spread and the slopes of activations are
    constants. Both factors of a product pass half of the gradient, so queries and keys pass a quarter of the
    gradient of attention and values a half, and attention is PyTorch's own fused operation.
    """
    of_query, of_value = (0.0, 1.0) if bypass else (0.25, 0.5)
    with torch.enable_grad():
        word = wiring.word(ids).requires_grad_(True)
        x = word + wiring.position(torch.arange(ids.shape[1])[None] + wiring.first_position)
        x = _Norm.apply(x if wiring.type is None else x + wiring.type.weight[0], wiring.embedding_norm)
        if wiring.projection is not None:
            x = wiring.projection(x)
        padding = None if attended.all() else attended.bool()[:, None, None]
        for layer in wiring.layers:
            q, k = (
                m(x).detach() if bypass else _Share.apply(m(x), of_query) for m in (layer.query, layer.key)
            )
            v = _Share.apply(layer.value(x), of_value)
            q, k, v = (m.unflatten(-1, (wiring.heads, -1)).transpose(1, 2) for m in (q, k, v))
            read = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=padding)
            x = _Norm.apply(layer.attention_out(read.transpose(1, 2).flatten(2)) + x, layer.attention_norm)
            x = _Norm.apply(layer.down(_Slope.apply(layer.up(x), layer.activation)) + x, layer.output_norm)
        x = x[:, 0]
        for linear, activation in wiring.head:
            x = linear(x) if activation is None else _Slope.apply(linear(x), activation)
        (gradient,) = torch.autograd.grad(x.gather(1, targets[:, None]).sum(), word)
    return (word * gradient).sum(-1).detach()


@torch.no_grad()
def one_run_per_mask(
    clf: Classifier, ids: Tensor, start: Tensor, masks: Sequence[frozenset[int]]
) -> list[Tensor]:
    """Relevance of the words (B, T) under each mask: a forward and a way back for each, on the same batch."""
    out = []
    for mask in masks:
        tape = clf.encoder.forward(ids, torch.ones_like(ids))
        out.append(some_masks(tape, start, [mask])[mask]["word"])
    return out
