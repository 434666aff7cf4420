"""A configuration that no model can have is refused in one line, and quickly."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from lrp_companion.models.config_entries import MOST_LAYERS
from lrp_companion.models.pretrained import load_classifier
from lrp_companion.schema import CompanionError, ModelError


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
