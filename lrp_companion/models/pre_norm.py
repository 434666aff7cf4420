"""The wirings of families with norms before their branches (pre-LN): ModernBERT, GPT-2, Llama's relatives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from lrp_companion.models.tasks import NEXT_TOKEN, TOKEN_CLASSES, Steps, task_of_network, with_head
from lrp_companion.models.wiring import (
    LayerWiring,
    LinearPart,
    Norm,
    RootMeanSquare,
    SoftCap,
    Wiring,
    family,
)

Three = tuple[LinearPart, LinearPart, LinearPart]


def _thirds(module: Any, width: int, *, transposed: bool = False) -> Three:
    """Queries, keys and values of a module that makes all three."""
    first, second, third = (LinearPart(module, k * width, (k + 1) * width, transposed) for k in range(3))
    return first, second, third


def _head(model: Any) -> Steps:
    """The classifier of a causal model, or its map to the vocabulary."""
    if task_of_network(model) != NEXT_TOKEN:
        return ((model.score if hasattr(model, "score") else model.classifier, None),)
    cap = getattr(model.config, "final_logit_softcapping", None)
    return ((model.lm_head, None if cap is None else SoftCap(cap)),)


@family("modernbert")
def modernbert(model: Any) -> Wiring:
    """ModernBERT: rotations, gated MLPs, windows in most layers; the first token or the mean is read."""
    base, config = model.model, model.config
    layers = tuple(_modernbert_layer(layer, config) for layer in base.layers)

    def head_to(last: str) -> Steps:
        end = model.head
        return (end.dense, end.act), (end.norm, None), (getattr(model, last), None)

    return with_head(
        lambda head: Wiring(
            base.embeddings.tok_embeddings, None, None, base.embeddings.norm, None, layers, head,
            config.num_attention_heads, positions=config.max_position_embeddings,
            readout={"cls": "first", "mean": "mean"}[config.classifier_pooling],
            rotary=base.rotary_emb, rotary_from=rotary_from(base.rotary_emb), final_norm=base.final_norm,
        ),
        model,
        classes=lambda: head_to("classifier"),
        masked=lambda: head_to("decoder"),
        tokens=lambda: head_to("classifier"),
    )  # fmt: skip


def _modernbert_layer(layer: Any, config: Any) -> LayerWiring:
    inner = layer.mlp.Wo.in_features
    is_local = layer.attention_type == "sliding_attention"
    return LayerWiring(
        *_thirds(layer.attn.Wqkv, config.hidden_size), layer.attn.Wo, None,
        LinearPart(layer.mlp.Wi, inner), layer.mlp.act, layer.mlp.Wo, None,
        gate=LinearPart(layer.mlp.Wi, None, inner),
        attention_input_norm=None if isinstance(layer.attn_norm, nn.Identity) else layer.attn_norm,
        mlp_input_norm=layer.mlp_norm, window=config.sliding_window if is_local else None,
        kind=layer.attention_type,
    )  # fmt: skip


def _reading(model: Any) -> dict[str, Any]:
    """What a causal model reads: the last token, or a given place for token classes."""
    task = task_of_network(model)
    return {"task": task, "readout": "place" if task == TOKEN_CLASSES else "last"}


@family("gpt2")
def gpt2(model: Any) -> Wiring:
    """GPT-2: causal, learned positions, plain MLPs; the last token is read."""
    base, config = model.transformer, model.config
    layers = tuple(_gpt2_layer(layer) for layer in base.h)
    return Wiring(
        base.wte, base.wpe, None, None, None, layers, _head(model), config.num_attention_heads,
        causal=True, final_norm=base.ln_f, base=base, **_reading(model),
    )  # fmt: skip


def _gpt2_layer(layer: Any) -> LayerWiring:
    def whole(module: Any) -> LinearPart:
        return LinearPart(module, transposed=True)

    attention = layer.attn
    return LayerWiring(
        *_thirds(attention.c_attn, attention.embed_dim, transposed=True), whole(attention.c_proj), None,
        whole(layer.mlp.c_fc), layer.mlp.act, whole(layer.mlp.c_proj), None,
        attention_input_norm=layer.ln_1, mlp_input_norm=layer.ln_2, scale=attention.scaling,
    )  # fmt: skip


@family("qwen3")
@family("qwen2")
@family("mistral")
@family("llama")
def llama(model: Any) -> Wiring:
    """Llama and its relatives: causal, RMSNorm, rotations, gated MLPs, shared keys and values."""
    return _decoder(model, offset=0.0)


@family("gemma2")
def gemma2(model: Any) -> Wiring:
    """Gemma 2: as Llama, with norms at both ends of a branch, soft caps, and windows in some layers."""
    return _decoder(model, offset=1.0)


@family("gemma3_text")
def gemma3(model: Any) -> Wiring:
    """Gemma 3 on text: norms of queries and keys instead of caps, other rotations in layers with a window."""
    return _decoder(model, offset=1.0, by_kind=True)


def _decoder(model: Any, *, offset: float, by_kind: bool = False) -> Wiring:
    """A causal model whose modules have Llama's names; `offset` is what its norms add to their weights.

    With `by_kind`, layers with a window have separate rotations.
    """
    base, config = model.model, model.config
    layers = tuple(_decoder_layer(layer, config, k, offset) for k, layer in enumerate(base.layers))

    def rotary(x: Any, positions: Any, kind: str | None) -> Any:
        return base.rotary_emb(x, positions, kind) if by_kind else base.rotary_emb(x, positions)

    return Wiring(
        base.embed_tokens, None, None, None, None, layers, _head(model),
        config.num_attention_heads, positions=config.max_position_embeddings, causal=True,
        rotary=rotary, rotary_from=rotary_from(base.rotary_emb), final_norm=_rms(base.norm, offset),
        base=base, **_reading(model),
    )  # fmt: skip


def rotary_from(module: Any) -> int | None:
    """The length from which rotations depend on that of the text, of a rotary module of `transformers`."""
    kinds: Any = getattr(module, "rope_type", "default")
    by_layer = isinstance(kinds, Mapping)
    settings = getattr(module.config, "rope_parameters", None) or {}
    lengths = []
    for layer, kind in kinds.items() if by_layer else [(None, kinds)]:
        if kind == "longrope":
            of_layer = settings[layer] if by_layer else settings
            lengths.append(int(of_layer["original_max_position_embeddings"]))
        elif "dynamic" in kind:
            lengths.append(int(module.original_max_seq_len))
    return min(lengths, default=None)


def _decoder_layer(layer: Any, config: Any, number: int, offset: float) -> LayerWiring:
    attention, mlp = layer.self_attn, layer.mlp
    kinds = getattr(config, "layer_types", None)
    windowed = kinds is None or kinds[number] == "sliding_attention"
    window = getattr(config, "sliding_window", None) if windowed else None
    in_branch = hasattr(layer, "pre_feedforward_layernorm")  # Gemma's names: norms at both ends of a branch
    after = _rms(layer.post_attention_layernorm, offset)

    def norm_of_heads(name: str) -> Norm | None:
        module = getattr(attention, name, None)
        return None if module is None else _rms(module, offset)

    return LayerWiring(
        attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj, None,
        mlp.up_proj, mlp.act_fn, mlp.down_proj, None, gate=mlp.gate_proj,
        attention_input_norm=_rms(layer.input_layernorm, offset),
        mlp_input_norm=_rms(layer.pre_feedforward_layernorm, offset) if in_branch else after,
        attention_branch_norm=after if in_branch else None,
        mlp_branch_norm=_rms(layer.post_feedforward_layernorm, offset) if in_branch else None,
        query_norm=norm_of_heads("q_norm"), key_norm=norm_of_heads("k_norm"),
        key_heads=config.num_key_value_heads, scale=attention.scaling,
        cap=getattr(config, "attn_logit_softcapping", None),
        window=None if window is None else window - 1,
        kind=kinds[number] if kinds else None,
    )  # fmt: skip


def _rms(module: Any, offset: float) -> RootMeanSquare:
    eps = module.variance_epsilon if hasattr(module, "variance_epsilon") else module.eps
    return RootMeanSquare(module, eps, offset)
