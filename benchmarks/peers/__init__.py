"""What a user would otherwise take, written to be read, at its best settings: loops, captum, autograd."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from captum.attr import FeatureAblation, LayerIntegratedGradients
from torch import Tensor

from lrp_companion.families import Wiring
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.propagation import some_masks


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


def _half(x: Tensor) -> Tensor:
    """The same value, half of the gradient."""
    return 0.5 * x + 0.5 * x.detach()


def _norm(x: Tensor, layer: torch.nn.LayerNorm) -> Tensor:
    """LayerNorm with a spread that is constant."""
    centred = x - x.mean(-1, keepdim=True)
    spread = (centred.square().mean(-1, keepdim=True) + layer.eps).sqrt()
    return layer.weight * (centred / spread.detach()) + layer.bias


def attnlrp_autograd(wiring: Wiring, ids: Tensor, attended: Tensor, targets: Tensor) -> Tensor:
    """AttnLRP at the word embeddings (B, T) as the gradient of a modified network.

    From Achtibat et al. 2024 and Arras et al. 2025. LayerNorm's spread and the slopes of activations are
    detached; both factors of a product pass half of the gradient.
    """

    with torch.enable_grad():
        word = wiring.word(ids).requires_grad_(True)
        x = word + wiring.position(torch.arange(ids.shape[1])[None] + wiring.first_position)
        x = _norm(x if wiring.type is None else x + wiring.type.weight[0], wiring.embedding_norm)
        if wiring.projection is not None:
            x = wiring.projection(x)
        masked = (attended == 0)[:, None, None]
        for layer in wiring.layers:
            q, k, v = (
                m(x).unflatten(-1, (wiring.heads, -1)).transpose(1, 2)
                for m in (layer.query, layer.key, layer.value)
            )
            scores = _half(q @ k.mT / q.shape[-1] ** 0.5).masked_fill(masked, torch.finfo(x.dtype).min)
            read = _half(scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
            x = _norm(layer.attention_out(read) + x, layer.attention_norm)
            z = layer.up(x)
            x = _norm(layer.down(z * (layer.activation(z) / z).detach()) + x, layer.output_norm)
        x = x[:, 0]
        for linear, activation in wiring.head:
            z = linear(x)
            x = z if activation is None else z * (activation(z) / z).detach()
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
