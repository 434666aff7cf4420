"""Odd entries of config.json: refused by somebody, or explained as `transformers` reads them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny_models import TEXTS, build, save

import lrp_companion as lrp
from lrp_companion.checks import ModelError
from lrp_companion.loading.classifier import load_classifier


def changed(folder: Path, place: Path, file: str, **entries: Any) -> Path:
    shutil.copytree(folder, place)
    content = json.loads((place / file).read_text())
    (place / file).write_text(json.dumps({**content, **entries}))
    return place


BROKEN: list[tuple[str, dict[str, Any]]] = [
    ("bert", {"id2label": {"0": "a", "2": "b"}}),
    ("bert", {"num_hidden_layers": 0}),
    ("bert", {"num_hidden_layers": 3}),
    ("bert", {"num_attention_heads": 3}),
    ("bert", {"type_vocab_size": 0}),
    ("bert", {"intermediate_size": 23}),
    ("bert", {"layer_norm_eps": -1.0}),
    ("bert", {"position_embedding_type": "relative_key"}),
    ("gpt2", {"layer_norm_epsilon": -1e-5}),
    ("llama", {"num_key_value_heads": 3}),
    ("llama", {"head_dim": 8}),
    ("mistral", {"sliding_window": 0}),
    ("roberta", {"is_decoder": True}),
]


@pytest.mark.parametrize(("family", "entries"), BROKEN, ids=str)
def test_a_broken_configuration_never_explains_another_network(tmp_path, family, entries) -> None:
    """Somebody refuses it, or its logits are those that `transformers` computes of it."""
    folder = changed(save(tmp_path / "whole", family), tmp_path / "model", "config.json", **entries)
    try:
        clf = load_classifier(folder)
    except Exception:
        return
    network = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    (record,) = lrp.attribute(clf, TEXTS[1], method="attnlrp", target=1)
    with torch.no_grad():
        logits = network(**clf.tokenizer(TEXTS[1], return_tensors="pt")).logits[0]
    assert record.logit == pytest.approx(float(logits[1]), abs=1e-4)


@pytest.mark.parametrize("family", ["Deberta", "Bloom"])
def test_another_family_is_called_by_its_name(family: str) -> None:
    """Whatever else its configuration holds, such as no types of tokens."""
    sizes = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = getattr(transformers, f"{family}Config")(**sizes, intermediate_size=24, type_vocab_size=0)
    network = getattr(transformers, f"{family}ForSequenceClassification")(config).eval()
    with pytest.raises(ModelError, match=f"of family '{config.model_type}'.*; expected one of bert, "):
        load_classifier(network, build("bert")[1])


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "distilbert", "gpt2", "llama", "modernbert"])
@pytest.mark.parametrize(
    "entries", [{"return_dict": False}, {"output_hidden_states": True, "output_attentions": True}], ids=str
)
def test_entries_that_change_no_logit_are_explained(tmp_path, family, entries) -> None:
    whole = save(tmp_path / "whole", family)
    folder = changed(whole, tmp_path / "model", "config.json", **entries)
    clf, plain = load_classifier(folder, dtype="float64"), load_classifier(whole, dtype="float64")
    for method in ("attnlrp", "loo"):
        ours, theirs = (lrp.attribute(c, TEXTS[1], method=method, target=1)[0] for c in (clf, plain))
        np.testing.assert_allclose(ours.scores, theirs.scores, rtol=0, atol=1e-9)
        assert ours.logit == pytest.approx(theirs.logit, abs=1e-9)
    assert not lrp.check(clf, list(TEXTS[:2])).broken


def test_a_length_that_nobody_has_set_is_that_of_the_positions(tmp_path, model_folder) -> None:
    file = "tokenizer_config.json"
    for name, length in (("none", None), ("huge", 10**30)):
        folder = changed(model_folder("bert"), tmp_path / name, file, model_max_length=length)
        assert load_classifier(folder).max_tokens == 32
