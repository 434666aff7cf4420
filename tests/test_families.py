"""Families register by name, and can be taken out again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from tiny_models import FAMILIES, TEXTS, build, randomise

from lrp_companion import families
from lrp_companion.checks import ModelError
from lrp_companion.tape.encoder import Encoder, pad


def test_a_family_of_ones_own_is_registered_and_can_be_taken_out() -> None:
    network, tokenizer = build("bert")
    network.config.model_type = "mine"
    ids, mask = pad([tokenizer(TEXTS[0])["input_ids"]], 0, torch.device("cpu"))
    try:

        @families.family("mine")
        def mine(model: torch.nn.Module) -> families.Wiring:
            return families.bert(model)

        assert torch.allclose(Encoder(network).forward(ids, mask).logits, network(ids).logits, atol=1e-5)
    finally:
        families.forget_family("mine")
    assert tuple(families.FAMILIES) == FAMILIES
    with pytest.raises(ModelError, match="family 'mine'"):
        Encoder(network)


def test_a_relative_may_call_its_network_by_another_name() -> None:
    from transformers import Data2VecTextConfig, Data2VecTextForSequenceClassification

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    network = Data2VecTextForSequenceClassification(Data2VecTextConfig(**sizes, vocab_size=30)).eval()
    randomise(network, 0)
    ids = torch.tensor([[0, 5, 9, 6, 2]])
    families.family("data2vec-text")(families.roberta)
    try:
        logits = Encoder(network).forward(ids, torch.ones_like(ids)).logits
        assert torch.allclose(logits, network(ids).logits, atol=1e-4)
    finally:
        families.forget_family("data2vec-text")


def test_the_page_names_every_family() -> None:
    page = (Path(__file__).parents[1] / "book/your_model.md").read_text(encoding="utf-8")
    table = page.partition("## Families")[2].partition("Tests compare")[0]
    first = " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    assert sorted(re.findall(r"`([^`]+)`", first)) == sorted(families.FAMILIES)
