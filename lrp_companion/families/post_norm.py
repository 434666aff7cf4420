"""The wirings of families with norms after their sums (post-LN), as in BERT."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu

from lrp_companion.families.tasks import Steps, head_steps, with_head
from lrp_companion.families.wiring import (
    Convolution,
    LayerWiring,
    Linear,
    RelativePositions,
    ScoreBias,
    Wiring,
    family,
    norm_of,
)


def _below_head(model: Any, name: str) -> Any:
    """The network below the head: by its family's name for it, or by what a relative's class calls it."""
    return getattr(model, name) if hasattr(model, name) else model.base_model


def bert_like(
    base: Any,
    head: tuple,
    *,
    projection: Linear | None = None,
    first_position: int = 0,
    readout: str = "first",
    ending: str = "",
) -> Wiring:
    """The wiring of a model whose encoder has the modules of `BertModel`, with its head; `ending` of the
    names of queries, keys and values.
    """
    e = base.embeddings
    return Wiring(
        word=e.word_embeddings,
        position=e.position_embeddings,
        type=e.token_type_embeddings,
        embedding_norm=norm_of(e.LayerNorm),
        projection=projection,
        layers=tuple(_bert_layer(layer, ending) for layer in base.encoder.layer),
        head=head,
        heads=base.config.num_attention_heads,
        first_position=first_position,
        readout=readout,
    )


def _bert_layer(layer: Any, ending: str = "") -> LayerWiring:
    projections, after = layer.attention.self, layer.attention.output
    query, key, value = (getattr(projections, name + ending) for name in ("query", "key", "value"))
    return LayerWiring(
        query=query,
        key=key,
        value=value,
        attention_out=after.dense,
        attention_norm=norm_of(after.LayerNorm),
        up=layer.intermediate.dense,
        activation=layer.intermediate.intermediate_act_fn,
        down=layer.output.dense,
        output_norm=norm_of(layer.output.LayerNorm),
        scale=getattr(projections, "scaling", None),
    )


@family("bert")
def bert(model: Any) -> Wiring:
    """BERT: a pooler with tanh on the first token or on the mean, then the classifier."""
    base = _below_head(model, "bert")
    readout = getattr(model, "readout", "first")  # of `families.mean_pooled`
    return with_head(
        lambda head: bert_like(base, head, readout=readout),
        model,
        classes=lambda: head_steps(base.pooler.dense, base.pooler.activation, model.classifier),
        masked=lambda: _masked_tokens(model.cls.predictions),
    )


def _masked_tokens(end: Any) -> Steps:
    """The steps of a head for masked words, under BERT's names."""
    transform = end.transform
    return head_steps(transform.dense, transform.transform_act_fn, transform.LayerNorm, end.decoder)


def _masked_words(end: Any) -> Steps:
    """The steps of a head for masked words, under RoBERTa's names."""
    return head_steps(end.dense, gelu, end.layer_norm, end.decoder)


@family("camembert")
@family("xlm-roberta")
@family("roberta")
def roberta(model: Any) -> Wiring:
    """RoBERTa: positions start behind the padding index."""
    base = _below_head(model, "roberta")
    return with_head(
        lambda head: bert_like(base, head, first_position=base.embeddings.padding_idx + 1),
        model,
        classes=lambda: head_steps(model.classifier.dense, torch.tanh, model.classifier.out_proj),
        masked=lambda: _masked_words(model.lm_head),
    )


@family("mpnet")
def mpnet(model: Any) -> Wiring:
    """MPNet: as RoBERTa, and a bias by distance on the scores, which all layers share."""
    base = _below_head(model, "mpnet")
    e = base.embeddings
    layers = tuple(
        LayerWiring(
            query=x.attention.attn.q,
            key=x.attention.attn.k,
            value=x.attention.attn.v,
            attention_out=x.attention.attn.o,
            attention_norm=norm_of(x.attention.LayerNorm),
            up=x.intermediate.dense,
            activation=x.intermediate.intermediate_act_fn,
            down=x.output.dense,
            output_norm=norm_of(x.output.LayerNorm),
        )
        for x in base.encoder.layer
    )

    return with_head(
        lambda head: Wiring(
            word=e.word_embeddings,
            position=e.position_embeddings,
            embedding_norm=norm_of(e.LayerNorm),
            layers=layers,
            head=head,
            heads=base.config.num_attention_heads,
            first_position=e.padding_idx + 1,
            score_bias=ScoreBias(base.encoder.relative_attention_bias, base.encoder.relative_position_bucket),
        ),
        model,
        classes=lambda: head_steps(model.classifier.dense, torch.tanh, model.classifier.out_proj),
        masked=lambda: _masked_words(model.lm_head),
    )


def _normed_words(end: Any, last: Any) -> Steps:
    """The steps of a head for masked words, under ELECTRA's and ALBERT's names."""
    return head_steps(end.dense, end.activation, end.LayerNorm, last)


@family("electra")
def electra(model: Any) -> Wiring:
    """ELECTRA: small models project narrow embeddings to the hidden width."""
    base = _below_head(model, "electra")
    projection = getattr(base, "embeddings_project", None)
    return with_head(
        lambda head: bert_like(base, head, projection=projection),
        model,
        classes=lambda: head_steps(
            model.classifier.dense, model.classifier.activation, model.classifier.out_proj
        ),
        masked=lambda: _normed_words(model.generator_predictions, model.generator_lm_head),
    )


@family("distilbert")
def distilbert(model: Any) -> Wiring:
    """DistilBERT: no type embeddings, and different module names."""
    base = _below_head(model, "distilbert")
    e = base.embeddings
    layers = tuple(
        LayerWiring(
            query=x.attention.q_lin,
            key=x.attention.k_lin,
            value=x.attention.v_lin,
            attention_out=x.attention.out_lin,
            attention_norm=norm_of(x.sa_layer_norm),
            up=x.ffn.lin1,
            activation=x.ffn.activation,
            down=x.ffn.lin2,
            output_norm=norm_of(x.output_layer_norm),
        )
        for x in base.transformer.layer
    )

    return with_head(
        lambda head: Wiring(
            word=e.word_embeddings,
            position=e.position_embeddings,
            embedding_norm=norm_of(e.LayerNorm),
            layers=layers,
            head=head,
            heads=model.config.n_heads,
        ),
        model,
        classes=lambda: head_steps(model.pre_classifier, torch.relu, model.classifier),
        masked=lambda: head_steps(
            model.vocab_transform, model.activation, model.vocab_layer_norm, model.vocab_projector
        ),
    )


@family("albert")
def albert(model: Any) -> Wiring:
    """ALBERT: layers of a group share their modules, and narrow embeddings are projected."""
    base, config = _below_head(model, "albert"), model.config
    e, groups = base.embeddings, base.encoder.albert_layer_groups
    each = [
        (x, x.attention)
        for k in range(config.num_hidden_layers)
        for x in groups[int(k / (config.num_hidden_layers / config.num_hidden_groups))].albert_layers
    ]
    layers = tuple(
        LayerWiring(
            query=a.query,
            key=a.key,
            value=a.value,
            attention_out=a.dense,
            attention_norm=norm_of(a.LayerNorm),
            up=x.ffn,
            activation=x.activation,
            down=x.ffn_output,
            output_norm=norm_of(x.full_layer_layer_norm),
        )
        for x, a in each
    )

    return with_head(
        lambda head: Wiring(
            word=e.word_embeddings,
            position=e.position_embeddings,
            type=e.token_type_embeddings,
            embedding_norm=norm_of(e.LayerNorm),
            projection=base.encoder.embedding_hidden_mapping_in,
            layers=layers,
            head=head,
            heads=config.num_attention_heads,
        ),
        model,
        classes=lambda: head_steps(base.pooler, base.pooler_activation, model.classifier),
        masked=lambda: _normed_words(model.predictions, model.predictions.decoder),
    )


@family("deberta-v2")
def deberta(model: Any) -> Wiring:
    """DeBERTa 2 and 3 (He et al. 2021): each score is a sum of three products, content with content, content
    with position and position with content.

    Eq. (4) gives half of each to either factor; what the embeddings of relative positions get stays there. A
    convolution may stand beside the first layer. A mask closes a token whole: its embedding is 0, and its own
    query reads all tokens alike.
    """
    from transformers.activations import ACT2FN

    base, config = _below_head(model, "deberta"), model.config
    if base.embeddings.embed_proj is not None:
        raise AttributeError("embeddings narrower than its layers")

    def wiring(head: Steps) -> Wiring:
        out = bert_like(base, head, ending="_proj")
        attentions = [layer.attention.self for layer in base.encoder.layer]
        layers = [
            dataclasses.replace(
                layer, scale=_deberta_scale(one), relative=_deberta_positions(base.encoder, one)
            )
            for layer, one in zip(out.layers, attentions, strict=True)
        ]
        if (beside := base.encoder.conv) is not None:
            if beside.conv.groups != 1:
                raise AttributeError("a convolution in groups")
            convolution = Convolution(beside.conv, ACT2FN[beside.conv_act], norm_of(beside.LayerNorm))
            layers[0] = dataclasses.replace(layers[0], convolution=convolution)
        most = config.max_position_embeddings
        return dataclasses.replace(out, layers=tuple(layers), positions=most, masks_whole=True)

    return with_head(
        wiring,
        model,
        classes=lambda: head_steps(model.pooler.dense, ACT2FN[config.pooler_hidden_act], model.classifier),
        masked=lambda: _masked_tokens(model.cls.predictions),
    )


def _deberta_scale(attention: Any) -> float:
    """1 over the root of a head's width times the kinds of products, in float32 as in `transformers`."""
    kinds = 1 + len({"c2p", "p2c"} & {*attention.pos_att_type})
    width = attention.query_proj.out_features // attention.num_attention_heads
    return 1 / float(torch.sqrt(torch.tensor(width, dtype=torch.float) * kinds))


def _deberta_positions(encoder: Any, attention: Any) -> RelativePositions | None:
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

    if not attention.relative_attention or not {"c2p", "p2c"} & {*attention.pos_att_type}:
        return None
    before = "" if attention.share_att_key else "pos_"
    kinds = {"c2p": f"{before}key_proj", "p2c": f"{before}query_proj"}
    key, query = (
        getattr(attention, name) if kind in attention.pos_att_type else None for kind, name in kinds.items()
    )
    buckets, most, span = attention.position_buckets, attention.max_relative_positions, attention.pos_ebd_size

    def classes(distance: Tensor) -> Tensor:
        bucket = make_log_bucket_position(distance, buckets, most) if buckets > 0 and most > 0 else distance
        return (bucket.long() + span).clamp(0, 2 * span - 1)

    norm = norm_of(encoder.LayerNorm) if "layer_norm" in encoder.norm_rel_ebd else None
    return RelativePositions(encoder.rel_embeddings, norm, key, query, classes)
