"""The wirings of families with norms after their sums (post-LN), as in BERT."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import gelu

from lrp_companion.models.tasks import Steps, with_head
from lrp_companion.models.wiring import LayerWiring, Linear, Wiring, family


def bert_like(
    base: Any,
    head: tuple,
    *,
    projection: Linear | None = None,
    first_position: int = 0,
    readout: str = "first",
) -> Wiring:
    """The wiring of a model whose encoder has the modules of `BertModel`, with its head."""
    e = base.embeddings
    return Wiring(
        e.word_embeddings, e.position_embeddings, e.token_type_embeddings, e.LayerNorm, projection,
        tuple(_bert_layer(layer) for layer in base.encoder.layer), head, base.config.num_attention_heads,
        first_position, readout=readout,
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
    """BERT: a pooler with tanh on the first token or on the mean, then the classifier."""
    base = model.bert
    readout = getattr(model, "readout", "first")  # of `models.mean_pooled`

    def masked() -> Steps:
        end = model.cls.predictions
        transform = end.transform
        return (transform.dense, transform.transform_act_fn), (transform.LayerNorm, None), (end.decoder, None)

    return with_head(
        lambda head: bert_like(base, head, readout=readout),
        model,
        classes=lambda: ((base.pooler.dense, base.pooler.activation), (model.classifier, None)),
        masked=masked,
    )


@family("camembert")
@family("xlm-roberta")
@family("roberta")
def roberta(model: Any) -> Wiring:
    """RoBERTa: positions start behind the padding index."""

    def masked() -> Steps:
        end = model.lm_head
        return (end.dense, gelu), (end.layer_norm, None), (end.decoder, None)

    return with_head(
        lambda head: bert_like(model.roberta, head, first_position=model.config.pad_token_id + 1),
        model,
        classes=lambda: ((model.classifier.dense, torch.tanh), (model.classifier.out_proj, None)),
        masked=masked,
    )


@family("electra")
def electra(model: Any) -> Wiring:
    """ELECTRA: small models project narrow embeddings to the hidden width."""

    def classes() -> Steps:
        end = model.classifier
        return (end.dense, end.activation), (end.out_proj, None)

    def masked() -> Steps:
        end = model.generator_predictions
        return (end.dense, end.activation), (end.LayerNorm, None), (model.generator_lm_head, None)

    projection = getattr(model.electra, "embeddings_project", None)
    return with_head(
        lambda head: bert_like(model.electra, head, projection=projection),
        model,
        classes=classes,
        masked=masked,
    )


@family("distilbert")
def distilbert(model: Any) -> Wiring:
    """DistilBERT: no type embeddings, and different module names."""
    e = model.distilbert.embeddings
    layers = tuple(
        LayerWiring(
            x.attention.q_lin, x.attention.k_lin, x.attention.v_lin, x.attention.out_lin, x.sa_layer_norm,
            x.ffn.lin1, x.ffn.activation, x.ffn.lin2, x.output_layer_norm,
        )
        for x in model.distilbert.transformer.layer
    )  # fmt: skip
    word, position, heads = e.word_embeddings, e.position_embeddings, model.config.n_heads

    def masked() -> Steps:
        norm, last = model.vocab_layer_norm, model.vocab_projector
        return (model.vocab_transform, model.activation), (norm, None), (last, None)

    return with_head(
        lambda head: Wiring(word, position, None, e.LayerNorm, None, layers, head, heads),
        model,
        classes=lambda: ((model.pre_classifier, torch.relu), (model.classifier, None)),
        masked=masked,
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

    def masked() -> Steps:
        end = model.predictions
        return (end.dense, end.activation), (end.LayerNorm, None), (end.decoder, None)

    return with_head(
        lambda head: Wiring(
            e.word_embeddings, e.position_embeddings, e.token_type_embeddings, e.LayerNorm,
            base.encoder.embedding_hidden_mapping_in, layers, head, config.num_attention_heads,
        ),
        model,
        classes=lambda: ((base.pooler, base.pooler_activation), (model.classifier, None)),
        masked=masked,
    )  # fmt: skip
