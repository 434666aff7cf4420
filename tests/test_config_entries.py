"""A configuration that no model can have is refused in one line, and quickly."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_models import TEXTS, build, save

import lrp_companion as lrp
from lrp_companion.checks import CompanionError, ModelError
from lrp_companion.loading.accepted import MOST_LAYERS
from lrp_companion.loading.classifier import load_classifier


def changed(folder: Path, place: Path, file: str, **entries: Any) -> Path:
    shutil.copytree(folder, place)
    content = json.loads((place / file).read_text())
    (place / file).write_text(json.dumps({**content, **entries}))
    return place


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"architectures": [3]}, r"architectures \[3\]; expected a list of names"),
        ({"architectures": 3}, "architectures 3"),
        ({"architectures": "BertForSequenceClassification"}, "expected a list of names"),
        ({"id2label": {"0": "a", "2": "b"}}, r"id2label with \[0, 2\]; expected classes 0 to 1"),
        ({"num_hidden_layers": 0}, "0 layers; expected from 1 to"),
        ({"num_hidden_layers": -1}, "-1 layers"),
        ({"num_hidden_layers": MOST_LAYERS + 1}, f"{MOST_LAYERS + 1} layers"),
        ({"num_hidden_layers": 10**6}, "1000000 layers"),
        ({"num_hidden_layers": 1}, "of 1 layers with weights of 2; expected as many layers as weights"),
    ],
    ids=str,
)
def test_entries_of_the_configuration(tmp_path, model_folder, entries, words) -> None:
    folder = changed(model_folder("bert"), tmp_path / "model", "config.json", **entries)
    with pytest.raises(ModelError, match=words) as caught:
        load_classifier(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"num_attention_heads": -2}, "num_attention_heads -2; expected a whole number, at least 1"),
        ({"num_attention_heads": 0}, "num_attention_heads 0"),
        ({"num_attention_heads": 2.0}, "num_attention_heads"),
        ({"num_attention_heads": "two"}, "num_attention_heads"),
        ({"num_attention_heads": 3}, "hidden_size 16 and 3 heads; expected a hidden_size that is a multiple"),
        ({"hidden_size": -16}, "hidden_size -16"),
        ({"hidden_size": 0}, "hidden_size 0"),
        ({"vocab_size": -5}, "vocab_size -5"),
        ({"intermediate_size": 0}, "intermediate_size 0"),
        ({"intermediate_size": -24}, "intermediate_size -24"),
        ({"max_position_embeddings": -1}, "max_position_embeddings -1"),
        ({"type_vocab_size": 0}, "type_vocab_size 0"),
        ({"layer_norm_eps": -1.0}, "layer_norm_eps -1.0; expected a small number"),
        ({"layer_norm_eps": float("inf")}, "layer_norm_eps inf, which is not finite"),
        ({"layer_norm_eps": "small"}, "layer_norm_eps"),
        ({"hidden_act": "gelo"}, "hidden_act 'gelo'; expected an activation function of transformers"),
        ({"id2label": {}}, "0 label"),
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}, "quanti"),
    ],
    ids=str,
)
def test_sizes_and_numbers_that_are_none(tmp_path, model_folder, entries, words) -> None:
    folder = changed(model_folder("bert"), tmp_path / "model", "config.json", **entries)
    with pytest.raises(CompanionError, match=words) as caught:
        load_classifier(folder)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500
    if all(isinstance(value, int) for value in entries.values()):  # transformers refuses other types itself
        network, tokenizer = build("bert")
        for name, value in entries.items():
            setattr(network.config, name, value)
        with pytest.raises(ModelError, match=words):
            load_classifier(network, tokenizer)


@pytest.mark.parametrize(
    ("family", "entries", "words"),
    [
        ("distilbert", {"n_heads": -2}, "num_attention_heads -2"),
        ("distilbert", {"hidden_dim": 0}, "hidden_dim 0"),
        ("distilbert", {"activation": "gelo"}, "activation 'gelo'"),
        ("albert", {"embedding_size": -8}, "embedding_size -8"),
        ("gpt2", {"n_head": 0}, "num_attention_heads 0"),
        ("gpt2", {"n_inner": -3}, "n_inner -3"),
        ("gpt2", {"layer_norm_epsilon": -1e-5}, "layer_norm_epsilon"),
        ("llama", {"num_key_value_heads": 3}, "4 heads and 3 key_value heads"),
        ("llama", {"num_key_value_heads": -2}, "num_key_value_heads -2"),
        ("llama", {"head_dim": 5}, "head_dim.*=5"),
        ("llama", {"rms_norm_eps": -1.0}, "rms_norm_eps -1.0"),
        ("gemma2", {"hidden_activation": "gelo"}, "hidden_activation 'gelo'"),
        ("modernbert", {"norm_eps": -1.0}, "norm_eps -1.0"),
        ("mistral", {"sliding_window": 0}, "a window of no tokens"),
    ],
    ids=str,
)
def test_sizes_of_other_families(tmp_path, family, entries, words) -> None:
    folder = changed(save(tmp_path / "whole", family), tmp_path / "model", "config.json", **entries)
    with pytest.raises(CompanionError, match=words):
        load_classifier(folder)


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "distilbert", "gpt2", "llama", "modernbert"])
@pytest.mark.parametrize(
    "entries",
    [
        {"return_dict": False},
        {"chunk_size_feed_forward": 3},
        {"output_hidden_states": True, "output_attentions": True},
        {
            "hidden_activation": "gelo",
            "sliding_window": -1,
        },  # entries that most of these families do not have
        {"return_dict": False, "chunk_size_feed_forward": 5},
    ],
    ids=str,
)
def test_entries_that_change_no_logit_are_explained(tmp_path, family, entries) -> None:
    if family == "modernbert" and "hidden_activation" in entries:
        return
    whole = save(tmp_path / "whole", family)
    folder = changed(whole, tmp_path / "model", "config.json", **entries)
    clf, plain = load_classifier(folder, dtype="float64"), load_classifier(whole, dtype="float64")
    for method in ("attnlrp", "loo"):
        ours, theirs = (lrp.attribute(c, TEXTS[1], method=method, target=1)[0] for c in (clf, plain))
        np.testing.assert_allclose(ours.scores, theirs.scores, rtol=0, atol=1e-9)
        assert ours.logit == pytest.approx(theirs.logit, abs=1e-9)
    assert not lrp.check(clf, list(TEXTS[:2])).broken


@pytest.mark.parametrize("length", ["many", -1, 0, 2, float("inf"), [3], {}, True], ids=str)
def test_a_longest_text_that_is_no_number_of_tokens(tmp_path, model_folder, length) -> None:
    file = "tokenizer_config.json"
    folder = changed(model_folder("bert"), tmp_path / "model", file, model_max_length=length)
    with pytest.raises(CompanionError, match="model_max_length"):
        load_classifier(folder)


def test_a_length_that_nobody_has_set_is_that_of_the_positions(tmp_path, model_folder) -> None:
    file = "tokenizer_config.json"
    for name, length in (("none", None), ("huge", 10**30)):
        folder = changed(model_folder("bert"), tmp_path / name, file, model_max_length=length)
        assert load_classifier(folder).max_tokens == 32
