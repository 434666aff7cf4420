"""Families register by name, and can be taken out again."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from tiny_models import randomise

from lrp_companion import families
from lrp_companion.tape.encoder import Encoder


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
