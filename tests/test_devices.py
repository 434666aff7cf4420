"""Networks whose layers lie on several devices."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from places import Machine, place_of
from tiny_models import FAMILIES, IMAGE_FAMILIES, TEXTS, build
from torch import nn

import lrp_companion as lrp
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import layer_lattice, layer_relevance
from lrp_companion.model_check import check
from lrp_companion.registry import METHODS

DEVICES = ("cuda:0", "cuda:1")


def spread(clf: Classifier, machine: Machine) -> Classifier:
    """The classifier with neighbouring layers on different devices, ends apart from first and last layer."""
    network = copy.deepcopy(clf.network)
    machine.place(network, "cuda:1")
    blocks = next(m for m in network.modules() if isinstance(m, nn.ModuleList) and len(m) == clf.card.layers)
    for number, block in enumerate(blocks):
        machine.place(block, DEVICES[number % 2])
    with machine:
        return Classifier(network, clf.tokenizer, card=clf.card, recompute=clf.encoder.recompute)


def exact(family: str, **options: bool) -> Classifier:
    return load_classifier(*build(family, layers=3), dtype="float64", **options)


@pytest.mark.parametrize(
    "family", [name for name in FAMILIES if name not in ("albert", *IMAGE_FAMILIES)]
)  # ALBERT's layers are one
def test_layers_on_two_devices_give_the_same_scores(family: str) -> None:
    clf = exact(family)
    for method in ("attnlrp", "pa-lrp", "mask-gradient", "loo", "rollout", "gradient-x-input", "ig"):
        options = {"method": method, "target": 1} | ({"baseline": "zero"} if method == "ig" else {})
        expected = lrp.attribute(clf, TEXTS[1:3], **options)
        machine = Machine()
        there = spread(clf, machine)
        with machine:
            moved = lrp.attribute(there, TEXTS[1:3], **options)
        assert machine.moves >= 2  # there are two steps from one device to the other
        for one, other in zip(expected, moved, strict=True):
            np.testing.assert_allclose(other.scores, one.scores, rtol=0, atol=1e-12)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("family", ["electra", "llama"])
def test_every_method_and_the_check(family: str, recompute: bool) -> None:
    clf, machine = exact(family, recompute=recompute), Machine()
    there = spread(clf, machine)
    # a layer that autograd runs again is out of the machine's sight
    for method in ("attnlrp", "cp-lrp", "pa-lrp", "loo", "rollout") if recompute else METHODS:
        (expected,) = lrp.attribute(clf, TEXTS[1], method=method)
        with machine:
            (moved,) = lrp.attribute(there, TEXTS[1], method=method)
        np.testing.assert_allclose(moved.scores, expected.scores, rtol=0, atol=1e-12)
    for work in (layer_lattice, layer_relevance):
        with machine:
            moved = work(there, TEXTS[1])
        np.testing.assert_allclose(moved.scores, work(clf, TEXTS[1]).scores, rtol=0, atol=1e-12)
    if not recompute:
        with machine:
            assert not check(there, list(TEXTS), progress=False).broken


def test_the_machine_minds_its_devices() -> None:
    """What is tested with it would fail on two devices, if it did not move."""
    machine, x = Machine(), torch.ones(3)
    with machine:
        near, far = x.to("cuda:0"), x.to("cuda:1")
        assert place_of(near + 1).index == 0 and (near + far.to(near.device)).device.index == 0
        assert torch.zeros(2, device="cuda:1").new_ones(1).device.index == 1 and machine.moves == 3
        with pytest.raises(RuntimeError, match="on .*cuda:0.*cuda:1"):
            near + far
        with pytest.raises(TypeError, match="numpy"):
            near.numpy()
