"""The supported families: a function for each names its modules and their order (`families.wiring`)."""

from __future__ import annotations

# the order of the registry: BERT's relatives first
from lrp_companion.families.post_norm import albert, bert, bert_like, deberta, distilbert, electra, roberta
from lrp_companion.families.pre_norm import (
    deit,
    gemma2,
    gemma3,
    gpt2,
    gpt_neox,
    llama,
    mistral,
    modernbert,
    qwen,
    vit,
)
from lrp_companion.families.wiring import FAMILIES, LayerWiring, Wiring, family, forget_family

__all__ = [
    "FAMILIES",
    "LayerWiring",
    "Wiring",
    "albert",
    "bert",
    "bert_like",
    "deberta",
    "deit",
    "distilbert",
    "electra",
    "family",
    "forget_family",
    "gemma2",
    "gemma3",
    "gpt2",
    "gpt_neox",
    "llama",
    "mistral",
    "modernbert",
    "qwen",
    "roberta",
    "vit",
]
