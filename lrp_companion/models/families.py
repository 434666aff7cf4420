"""Families of classifiers: where each keeps the modules that an encoder needs (`Wiring`), by `family`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from lrp_companion.schema import InputError


@dataclass(frozen=True)
class LayerWiring:
    """The modules of one post-LN Transformer layer."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    attention_out: nn.Linear
    attention_norm: nn.LayerNorm
    up: nn.Linear
    activation: Callable[[Tensor], Tensor]
    down: nn.Linear
    output_norm: nn.LayerNorm


@dataclass(frozen=True)
class Wiring:
    """Where a `transformers` classifier keeps what an encoder needs.

    Attributes
    ----------
    word, position, type : the embeddings that are summed; `type` is None where a family has no such table.
    embedding_norm : the LayerNorm of this sum.
    projection : maps the embeddings to the hidden width; None where they have it already.
    layers : the Transformer layers, from the first to the last.
    head : the classifier on the first token: linear maps, each with its activation function or None.
    heads : attention heads per layer.
    first_position : index of the first token's position embedding.
    """

    word: nn.Embedding
    position: nn.Embedding
    type: nn.Embedding | None
    embedding_norm: nn.LayerNorm
    projection: nn.Linear | None
    layers: tuple[LayerWiring, ...]
    head: tuple[tuple[nn.Linear, Callable[[Tensor], Tensor] | None], ...]
    heads: int
    first_position: int = 0

    @property
    def types(self) -> int:
        """How many token types there are; 1 where a family has no such table."""
        return 1 if self.type is None else self.type.num_embeddings


FAMILIES: dict[str, Callable[[Any], Wiring]] = {}
"""Wiring functions by family, the `model_type` of `config.json`; `family` adds to it."""
Function = TypeVar("Function", bound=Callable[[Any], Wiring])


def family(name: str) -> Callable[[Function], Function]:
    """Register the decorated function as the wiring of a family: `Encoder` and `load_classifier` accept it.

    The function takes the `transformers` classifier and returns its `Wiring`. A family with the layout of
    another one needs no new function: XLM-R is wired as RoBERTa is.

    Parameters
    ----------
    name : the family's `model_type` in `config.json`.

    Raises
    ------
    InputError : a name that is no string, empty, or registered already.

    >>> from lrp_companion.models.encoder import Encoder
    >>> from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification
    >>> sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 10}
    >>> model = XLMRobertaForSequenceClassification(XLMRobertaConfig(**sizes)).eval()
    >>> wiring = family("xlm-roberta")(roberta)
    >>> ids = torch.tensor([[0, 5, 6, 2]])
    >>> torch.allclose(Encoder(model).forward(ids, torch.ones_like(ids)).logits, model(ids).logits, atol=1e-5)
    True
    >>> forget_family("xlm-roberta")
    """
    if not isinstance(name, str) or not name:
        expected, hint = "a model_type such as 'bert'", "config.json of a model names it"
        raise InputError("family", got=f"the name {name!r}", expected=expected, hint=hint)
    if name in FAMILIES:
        expected, hint = "one wiring per family", "take the first one out with forget_family"
        raise InputError("family", got=f"{name!r} twice", expected=expected, hint=hint)

    def register(wiring_of: Function) -> Function:
        FAMILIES[name] = wiring_of
        return wiring_of

    return register


def forget_family(name: str) -> None:
    """Take a family out of the registry; one that is not in it is no error."""
    FAMILIES.pop(name, None)


def bert_like(
    base: Any, head: tuple, *, projection: nn.Linear | None = None, first_position: int = 0
) -> Wiring:
    """The wiring of a model whose encoder has the modules of `BertModel`, with its head."""
    e = base.embeddings
    return Wiring(
        e.word_embeddings, e.position_embeddings, e.token_type_embeddings, e.LayerNorm, projection,
        tuple(_bert_layer(layer) for layer in base.encoder.layer), head, base.config.num_attention_heads,
        first_position,
    )  # fmt: skip


def _bert_layer(layer: Any) -> LayerWiring:
    projections = layer.attention.self
    return LayerWiring(
        projections.query, projections.key, projections.value,
        layer.attention.output.dense, layer.attention.output.LayerNorm,
        layer.intermediate.dense, layer.intermediate.intermediate_act_fn,
        layer.output.dense, layer.output.LayerNorm,
    )  # fmt: skip


@family("bert")
def bert(model: Any) -> Wiring:
    """BERT: a pooler with tanh on the first token, then the classifier."""
    pooler = model.bert.pooler
    return bert_like(model.bert, ((pooler.dense, pooler.activation), (model.classifier, None)))


@family("roberta")
def roberta(model: Any) -> Wiring:
    """RoBERTa: positions start behind the padding index."""
    head = ((model.classifier.dense, torch.tanh), (model.classifier.out_proj, None))
    return bert_like(model.roberta, head, first_position=model.config.pad_token_id + 1)


@family("electra")
def electra(model: Any) -> Wiring:
    """ELECTRA: small models project narrow embeddings to the hidden width."""
    head = ((model.classifier.dense, model.classifier.activation), (model.classifier.out_proj, None))
    return bert_like(model.electra, head, projection=getattr(model.electra, "embeddings_project", None))


@family("distilbert")
def distilbert(model: Any) -> Wiring:
    """DistilBERT: no type embeddings, modules under names of its own."""
    e = model.distilbert.embeddings
    layers = tuple(
        LayerWiring(
            x.attention.q_lin, x.attention.k_lin, x.attention.v_lin, x.attention.out_lin, x.sa_layer_norm,
            x.ffn.lin1, x.ffn.activation, x.ffn.lin2, x.output_layer_norm,
        )
        for x in model.distilbert.transformer.layer
    )  # fmt: skip
    head = ((model.pre_classifier, torch.relu), (model.classifier, None))
    return Wiring(
        e.word_embeddings, e.position_embeddings, None, e.LayerNorm, None, layers, head, model.config.n_heads
    )
