"""Loading classifiers: folders in the hub's format, every family and stored precision, card and tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tiny_models import BERT_LIKE, TEXTS

from lrp_companion.loading.classifier import embedded_models, load_classifier


def test_tokens_and_what_is_special(model_folder) -> None:
    clf = load_classifier(model_folder("bert"))
    (text,) = clf.encode("A film, laughed!")
    assert text.tokens == ("[CLS]", "a", "film", ",", "laugh", "##ed", "!", "[SEP]") and len(text) == 8
    assert text.special.tolist() == [True, *[False] * 6, True]
    assert text.text == "A film, laughed!"
    (strange,) = clf.encode("zebra")
    assert strange.tokens == ("[CLS]", "[UNK]", "[SEP]")
    roberta = load_classifier(model_folder("roberta"))
    assert roberta.encode("rare grace")[0].tokens == ("<s>", " rare", " grace", "</s>")


@pytest.mark.parametrize("family", BERT_LIKE)
def test_a_text_of_full_length_runs_and_one_more_token_does_not(model_folder, family: str) -> None:
    clf = load_classifier(model_folder(family))
    (full,) = clf.encode("film" + " film" * 29)
    assert len(full) == clf.max_tokens == 32
    ids = torch.tensor([full.input_ids])
    assert torch.isfinite(clf.encoder.forward(ids, torch.ones_like(ids)).logits).all()
    (cut,) = clf.encode("film" + " film" * 30, truncate=True)
    assert cut.input_ids == full.input_ids and cut.special[-1]


def test_settings_of_transformers_are_put_back(model_folder) -> None:
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    load_classifier(model_folder("bert"))
    with pytest.raises(Exception, match="load_classifier"):
        load_classifier("./nowhere")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == (level, bars)


def test_random_state_is_not_touched(model_folder) -> None:
    """Explaining is no source of randomness: the same numbers follow in the caller's streams."""
    from lrp_companion.methods import attribute

    folder = model_folder("bert")
    torch.manual_seed(0)
    np.random.seed(0)
    expected = torch.rand(3), np.random.rand(3)
    torch.manual_seed(0)
    np.random.seed(0)
    attribute(load_classifier(folder), TEXTS[0], method="cp-lrp")
    assert torch.equal(torch.rand(3), expected[0]) and np.array_equal(np.random.rand(3), expected[1])


@pytest.mark.parametrize("name", embedded_models())
def test_an_embedded_model_is_a_plain_classifier_of_the_hubs_format(name: str) -> None:
    clf = load_classifier(name)
    assert clf.card.source == "embedded" and clf.card.name == name
    # any reader of the format opens it: transformers, without this package
    folder = Path(transformers.__file__).parent
    assert folder.is_dir()
    from lrp_companion.loading.classifier import EMBEDDED_FOLDER

    plain = transformers.AutoModelForSequenceClassification.from_pretrained(
        EMBEDDED_FOLDER / name, dtype=torch.float32
    ).eval()
    ids = torch.tensor([clf.encode("a film of rare grace")[0].input_ids])
    with torch.no_grad():
        logits = plain(input_ids=ids).logits
    torch.testing.assert_close(
        clf.encoder.forward(ids, torch.ones_like(ids)).logits.detach(), logits, rtol=1e-4, atol=1e-4
    )
    assert clf.labels[int(logits.argmax())].lower() == "positive"
