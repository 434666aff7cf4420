"""Reading classifiers that lie in no folder: objects in memory, and PEFT adapters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import BERT_LIKE, build, edit, save
from torch import nn

from lrp_companion.checks import ModelError
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.loading.reading import fingerprint_of
from lrp_companion.methods import attribute
from lrp_companion.methods.common import finite

TEXT = "a film of rare grace"


@pytest.mark.parametrize("family", BERT_LIKE)
def test_objects_in_memory_are_what_they_are_on_disk(model_folder, family: str) -> None:
    network, tokenizer = build(family)
    network.train()
    here, there = load_classifier(network, tokenizer), load_classifier(model_folder(family))
    assert network.training and all(weight.requires_grad for weight in network.parameters())
    assert here.card.source == "memory" and here.card.fingerprint == there.card.fingerprint
    assert (here.card.config, here.card.tokenizer, here.labels) == (
        there.card.config,
        there.card.tokenizer,
        there.labels,
    )
    scores = [attribute(clf, TEXT, method="cp-lrp")[0].scores for clf in (here, there)]
    np.testing.assert_allclose(*scores, atol=1e-6)


def test_later_training_leaves_the_classifier_alone() -> None:
    network, tokenizer = build("bert")
    clf = load_classifier(network, tokenizer)
    (before,) = attribute(clf, TEXT, method="attnlrp")
    nn.init.zeros_(network.classifier.weight)
    np.testing.assert_array_equal(attribute(clf, TEXT, method="attnlrp")[0].scores, before.scores)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_a_fingerprint_differs_where_values_do(dtype: torch.dtype) -> None:
    def fingerprint(values: torch.Tensor) -> str:
        network = nn.Module()
        network.register_buffer("weight", values)
        return fingerprint_of(network)

    values = (torch.arange(6.0).reshape(2, 3) + 1).to(dtype)
    other = values.clone()
    other[1, 2] = 0
    assert fingerprint(values) == fingerprint(values.mT.clone().mT) != fingerprint(other)
    assert fingerprint(values[0, 0]) != fingerprint(other[1, 2])


def test_a_network_that_computes_something_else_is_refused(tmp_path: Path) -> None:
    """Layers of its family in another order: their sums, say, 1.1 times as large."""
    network, tokenizer = build("bert")
    layer = network.bert.encoder.layer[0]
    kind = type(layer)
    layer.__class__ = type(
        "Larger", (kind,), {"forward": lambda self, *x, **more: 1.1 * kind.forward(self, *x, **more)}
    )
    with pytest.raises(ModelError, match="by the network 'BertForSequenceClassification' and .* by the tape"):
        load_classifier(network, tokenizer)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("how", ["epsilon", "overflow"])
def test_logits_that_are_not_finite_are_refused(tmp_path: Path, how: str, dtype: str) -> None:
    if how == "epsilon":
        folder = edit(save(tmp_path) / "config.json", layer_norm_eps=float("nan"))
    else:
        network, tokenizer = build("bert")
        with torch.no_grad():
            network.bert.encoder.layer[0].intermediate.dense.weight.fill_(3e38)
            network.bert.encoder.layer[0].output.dense.weight.fill_(3e38)
            network.classifier.weight.fill_(3e38)
        folder = tmp_path
        network.double().save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        if dtype == "float64":
            return  # it overflows in single precision only
    with pytest.raises(ModelError, match="not finite"):
        load_classifier(folder, dtype=dtype)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scores_that_are_not_finite_are_refused(value: float) -> None:
    clf = load_classifier(*build("bert"))
    with pytest.raises(ModelError, match="scores of .* that are not finite"):
        finite(clf, np.array([0.5, value]), "scores")
