"""The wirings of families with norms after their sums (post-LN), as BERT has them."""

from __future__ import annotations

from typing import Any

import torch

from lrp_companion.models.wiring import LayerWiring, Linear, Wiring, family


def bert_like(base: Any, head: tuple, *, projection: Linear | None = None, first_position: int = 0) -> Wiring:
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


@family("camembert")
@family("xlm-roberta")
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


@family("albert")
def albert(model: Any) -> Wiring:
    """ALBERT: layers of a group share their modules, and narrow embeddings are projected."""
    base, config = model.albert, model.config
    e, groups = base.embeddings, base.encoder.albert_layer_groups
    each = [
        (x, x.attention)
        for k in range(config.num_hidden_layers)
        for x in groups[int(k / (config.num_hidden_layers / config.num_hidden_groups))].albert_layers
    ]
    layers = tuple(
        LayerWiring(
            a.query, a.key, a.value, a.dense, a.LayerNorm, x.ffn, x.activation, x.ffn_output,
            x.full_layer_layer_norm,
        )
        for x, a in each
    )  # fmt: skip
    head = ((base.pooler, base.pooler_activation), (model.classifier, None))
    return Wiring(
        e.word_embeddings, e.position_embeddings, e.token_type_embeddings, e.LayerNorm,
        base.encoder.embedding_hidden_mapping_in, layers, head, config.num_attention_heads,
    )  # fmt: skip
