"""BERT that reads the mean: saved and read again, told from BERT, refused where only BERT's order is run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import TEXTS, mean_pooled
from transformers import AutoModelForSequenceClassification

import lrp_companion as lrp
from lrp_companion.families.mean_pooled import MeanPooledBertForSequenceClassification
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.loading.reading import MEAN_POOLED


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("mean")
    for part in mean_pooled():
        part.save_pretrained(out)
    return out


def test_a_folder_that_names_it_is_read_as_it_was_saved(folder: Path) -> None:
    assert MeanPooledBertForSequenceClassification.__name__ == MEAN_POOLED
    network, tokenizer = mean_pooled()
    saved, memory = load_classifier(folder), load_classifier(network, tokenizer)
    assert saved.encoder.wiring.readout == "mean" and saved.card.fingerprint == memory.card.fingerprint
    for method in ("loo", "attnlrp", "ig"):
        there, here = (lrp.attribute(clf, TEXTS[0], method=method)[0].scores for clf in (saved, memory))
        np.testing.assert_allclose(there, here, rtol=0, atol=1e-6)


def test_it_is_not_what_transformers_reads_from_that_folder(folder: Path) -> None:
    """AutoModel knows the family only, and reads the first token."""
    clf = load_classifier(folder)
    other = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    ids = torch.tensor([clf.encode(TEXTS[0])[0].input_ids])
    ours, theirs = clf.logits(ids, torch.ones_like(ids)), other(input_ids=ids).logits.detach()
    assert float((ours - theirs).abs().max()) > 1e-3
