"""Relevance between the layers: its two ends are known, and a level follows from autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import lrp_companion as lrp
from lrp_companion.methods.lrp import layer_relevance

TEXT = "a film of rare grace"
METHODS = {"attnlrp": (), "cp-lrp": range(1, 13)}


@pytest.mark.parametrize("method", METHODS)
def test_the_words_are_what_attribute_gives(clf: Any, method: str) -> None:
    layers = clf.card.layers
    bypass = range(1, layers + 1) if method == "cp-lrp" else ()
    flow = layer_relevance(clf, TEXT, bypass=bypass)
    (record,) = lrp.attribute(clf, TEXT, method=method)
    np.testing.assert_allclose(flow.scores[-1], record.scores, rtol=1e-5, atol=1e-6)
    assert flow.tokens == record.tokens and flow.target == record.target
    assert flow.levels[0] == f"output of layer {layers}"
    assert len(flow.levels) == layers + 2 == len(flow.scores)


def test_a_cut_is_that_of_attribute(clf: Any) -> None:
    (record,) = lrp.attribute(clf, TEXT, method="key-cut")
    flow = layer_relevance(clf, TEXT, cut=("key", "special"))
    np.testing.assert_allclose(flow.scores[-1], record.scores, rtol=1e-5, atol=1e-6)
    assert np.abs(flow.scores[-1] - layer_relevance(clf, TEXT).scores[-1]).max() > 1e-3
    every = [(path, "all") for path in ("query", "key", "value")]
    for cut in (("key", "special"), *every, every):
        flow = layer_relevance(clf, TEXT, cut=cut)
        left = flow.logit - np.cumsum(sum(flow.lost.values()))
        np.testing.assert_allclose(flow.sums, left, atol=1e-4, err_msg=f"what {cut} keeps is accounted for")


def test_the_top_is_the_first_token_alone(clf: Any) -> None:
    flow = layer_relevance(clf, TEXT)
    assert not flow.scores[0, 1:].any() and flow.scores[0, 0] != 0


def test_every_level_is_activation_times_what_autograd_brings(clf: Any) -> None:
    """With epsilon 0 and every layer bypassed, g is the gradient of a network with constants in it."""
    model, layers = clf.network, clf.card.layers
    (encoded,) = clf.encode(TEXT)
    ids = torch.tensor([encoded.input_ids])
    tape = clf.encoder.forward(ids, torch.ones_like(ids))
    flow = layer_relevance(clf, TEXT, bypass=range(1, layers + 1))
    x = tape.layers[layers - 2].output.detach().clone().requires_grad_()
    layer, kept = clf.encoder.wiring.layers[-1], tape.layers[-1]

    def norm(module: Any, z: Any, old: Any) -> Any:
        size = (old.var(-1, keepdim=True, correction=0) + module.eps).sqrt()
        return module.weight * (z - z.mean(-1, keepdim=True)) / size + module.bias

    heads = clf.encoder.wiring.heads
    value = layer.value(x).unflatten(-1, (heads, -1)).transpose(1, 2)
    read = (kept.attention @ value).transpose(1, 2).flatten(-2)
    before = x + layer.attention_out(read)
    y = norm(layer.attention_norm, before, before.detach())
    inner = layer.up(y)
    slope = (layer.activation(inner) / inner).detach()
    after = y + layer.down(inner * slope)
    out = norm(layer.output_norm, after, after.detach())
    z, last = out[:, 0], None
    for linear, activation in clf.encoder.wiring.head:
        z = linear(z)
        if activation is not None:
            z = z * (activation(z) / z).detach()
        last = z
    last[0, flow.target].backward()
    expected = (x * x.grad).sum(-1)[0].detach().numpy()
    np.testing.assert_allclose(flow.scores[1], expected, rtol=1e-4, atol=1e-6)
    assert model is not None
