"""The wirings of families with norms before their branches (pre-LN): ModernBERT, GPT-2, GPT-NeoX, Llama's
relatives, and ViT and DeiT, which read images.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from lrp_companion.families.patches import PatchEmbedding, PositionTable
from lrp_companion.families.tasks import (
    ANSWER,
    IMAGE_CLASSES,
    NEXT_TOKEN,
    TOKEN_CLASSES,
    Steps,
    head_steps,
    task_of_network,
    with_head,
)
from lrp_companion.families.wiring import (
    LayerWiring,
    LinearPart,
    MeanOfTwo,
    Norm,
    PartOfHeads,
    RootMeanSquare,
    SoftCap,
    Wiring,
    family,
    norm_of,
)


def _thirds(module: Any, width: int, *, transposed: bool = False) -> dict[str, Any]:
    """Queries, keys and values of a module that makes all three, in this order."""
    parts = (LinearPart(module, k * width, (k + 1) * width, transposed) for k in range(3))
    return dict(zip(("query", "key", "value"), parts, strict=True))


def _head(model: Any, *, capped: bool = False) -> Steps:
    """The classifier of a causal model, or its map to the vocabulary; only of this some bound the logits."""
    task = task_of_network(model)
    if task == ANSWER:
        return head_steps(model.qa_outputs)
    if task != NEXT_TOKEN:
        return head_steps(model.score if hasattr(model, "score") else model.classifier)
    cap = model.config.final_logit_softcapping if capped else None
    return head_steps(model.lm_head, *([] if cap is None else [SoftCap(cap)]))


@family("modernbert")
def modernbert(model: Any) -> Wiring:
    """ModernBERT: rotations, gated MLPs, windows in most layers; the first token or the mean is read."""
    base, config = getattr(model, "model", model.base_model), model.config
    layers = tuple(_modernbert_layer(layer, config) for layer in base.layers)

    def head_to(last: str) -> Steps:
        end = model.head
        return head_steps(end.dense, end.act, end.norm, getattr(model, last))

    return with_head(
        lambda head: Wiring(
            word=base.embeddings.tok_embeddings,
            embedding_norm=norm_of(base.embeddings.norm),
            layers=layers,
            head=head,
            heads=config.num_attention_heads,
            positions=config.max_position_embeddings,
            readout={"cls": "first", "mean": "mean"}[config.classifier_pooling],
            rotary=base.rotary_emb,
            rotary_from=rotary_from(base.rotary_emb),
            final_norm=norm_of(base.final_norm),
        ),
        model,
        classes=lambda: head_to("classifier"),
        masked=lambda: head_to("decoder"),
        tokens=lambda: head_to("classifier"),
        answer=lambda: head_to("classifier"),
    )


def _modernbert_layer(layer: Any, config: Any) -> LayerWiring:
    inner = layer.mlp.Wo.in_features
    is_local = layer.attention_type == "sliding_attention"
    return LayerWiring(
        **_thirds(layer.attn.Wqkv, config.hidden_size),
        attention_out=layer.attn.Wo,
        up=LinearPart(layer.mlp.Wi, inner),
        activation=layer.mlp.act,
        down=layer.mlp.Wo,
        gate=LinearPart(layer.mlp.Wi, None, inner),
        attention_input_norm=norm_of(layer.attn_norm),
        mlp_input_norm=norm_of(layer.mlp_norm),
        window=config.sliding_window if is_local else None,
        kind=layer.attention_type,
    )


def _reading(model: Any) -> dict[str, Any]:
    """What a causal model reads: the last token, or a given place for token classes."""
    task = task_of_network(model)
    task = TOKEN_CLASSES if task == ANSWER else task
    return {"task": task, "readout": "place" if task == TOKEN_CLASSES else "last"}


@family("gpt2")
def gpt2(model: Any) -> Wiring:
    """GPT-2: causal, learned positions, plain MLPs; the last token is read."""
    base, config = model.transformer, model.config
    layers = tuple(_gpt2_layer(layer) for layer in base.h)
    return Wiring(
        word=base.wte,
        position=base.wpe,
        layers=layers,
        head=_head(model),
        heads=config.num_attention_heads,
        causal=True,
        final_norm=norm_of(base.ln_f),
        base=base,
        **_reading(model),
    )


def _gpt2_layer(layer: Any) -> LayerWiring:
    def whole(module: Any) -> LinearPart:
        return LinearPart(module, transposed=True)

    attention = layer.attn
    return LayerWiring(
        **_thirds(attention.c_attn, attention.embed_dim, transposed=True),
        attention_out=whole(attention.c_proj),
        up=whole(layer.mlp.c_fc),
        activation=layer.mlp.act,
        down=whole(layer.mlp.c_proj),
        attention_input_norm=norm_of(layer.ln_1),
        mlp_input_norm=norm_of(layer.ln_2),
        scale=attention.scaling,
    )


@family("gpt_neox")
def gpt_neox(model: Any) -> Wiring:
    """GPT-NeoX and Pythia: causal, rotations of a part of each head, attention and MLP side by side or in
    turn; queries, keys and values of a head lie together in one map.
    """
    base, config = model.gpt_neox, model.config
    layers = tuple(_gpt_neox_layer(layer, config) for layer in base.layers)
    return Wiring(
        word=base.embed_in,
        layers=layers,
        head=_head(model),
        heads=config.num_attention_heads,
        positions=config.max_position_embeddings,
        causal=True,
        rotary=lambda x, positions, _: base.rotary_emb(x, positions),
        rotary_from=rotary_from(base.rotary_emb),
        final_norm=norm_of(base.final_layer_norm),
        base=base,
        **_reading(model),
    )


def _gpt_neox_layer(layer: Any, config: Any) -> LayerWiring:
    attention, mlp = layer.attention, layer.mlp
    query, key, value = (
        PartOfHeads(attention.query_key_value, config.num_attention_heads, part) for part in range(3)
    )
    return LayerWiring(
        query=query,
        key=key,
        value=value,
        attention_out=attention.dense,
        up=mlp.dense_h_to_4h,
        activation=mlp.act,
        down=mlp.dense_4h_to_h,
        attention_input_norm=norm_of(layer.input_layernorm),
        mlp_input_norm=norm_of(layer.post_attention_layernorm),
        scale=attention.scaling,
        parallel=layer.use_parallel_residual,
    )


@family("llama")
def llama(model: Any) -> Wiring:
    """Llama: causal, RMSNorm, rotations, gated MLPs, shared keys and values."""
    return _decoder(model, windows=lambda _: None)


@family("phi3")
@family("mistral")
def mistral(model: Any) -> Wiring:
    """Mistral and Phi-3: as Llama, with one window for all layers, or none."""
    return _decoder(model, windows=lambda _: model.config.sliding_window)


@family("qwen3")
@family("qwen2")
def qwen(model: Any) -> Wiring:
    """Qwen 2 and 3: as Llama, with a window in the layers that the configuration names."""
    return _decoder(model, windows=_by_type(model.config))


@family("gemma2")
def gemma2(model: Any) -> Wiring:
    """Gemma 2: as Llama, with norms at both ends of a branch, soft caps, and windows in some layers."""
    return _decoder(model, offset=1.0, windows=_by_type(model.config), capped=True)


@family("gemma3_text")
def gemma3(model: Any) -> Wiring:
    """Gemma 3 on text: norms of queries and keys instead of caps of scores, other rotations in layers with a
    window; with `use_bidirectional_attention` tokens read what follows, too.
    """
    causal = not model.config.use_bidirectional_attention
    return _decoder(model, offset=1.0, windows=_by_type(model.config), by_kind=True, causal=causal)


@family("gemma3")
def gemma3_of_texts(model: Any) -> Wiring:
    """Gemma 3 with a tower for images, on text alone: its language model, as `gemma3` wires it."""
    return _decoder(model, offset=1.0, windows=_by_type(model.config.text_config), by_kind=True)


def _by_type(config: Any) -> Callable[[int], int | None]:
    """The window of a layer by its type; None where it has none."""

    def window(number: int) -> int | None:
        return None if config.layer_types[number] == "full_attention" else config.sliding_window

    return window


def _decoder(
    model: Any,
    *,
    windows: Callable[[int], int | None],
    offset: float = 0.0,
    by_kind: bool = False,
    capped: bool = False,
    causal: bool = True,
) -> Wiring:
    """A model whose modules have Llama's names.

    Parameters
    ----------
    windows : the number of tokens that a layer's tokens read, themselves among them; None: all.
    offset : what its norms add to their weights.
    by_kind : whether layers with a window have separate rotations.
    capped : whether scores have a soft cap.
    causal : whether a token attends to none after it.
    """
    base = model.model if hasattr(model, "model") else model.transformer  # the latter in question answering
    base, config = getattr(base, "language_model", base), model.config.get_text_config()
    layers = tuple(
        _decoder_layer(layer, config, offset, windows(k), config.layer_types[k] if by_kind else None, capped)
        for k, layer in enumerate(base.layers[: config.num_hidden_layers])
    )

    def rotary(x: Any, positions: Any, kind: str | None) -> Any:
        return base.rotary_emb(x, positions, kind) if by_kind else base.rotary_emb(x, positions)

    return Wiring(
        word=base.embed_tokens,
        layers=layers,
        head=_head(model, capped=offset > 0 and config is model.config),
        heads=config.num_attention_heads,
        positions=config.max_position_embeddings,
        causal=causal,
        rotary=rotary,
        rotary_from=rotary_from(base.rotary_emb),
        final_norm=_rms(base.norm, offset),
        base=base,
        **_reading(model),
    )


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


def _decoder_layer(
    layer: Any, config: Any, offset: float, window: int | None, kind: str | None, capped: bool
) -> LayerWiring:
    attention, mlp = layer.self_attn, layer.mlp
    in_branch = hasattr(layer, "pre_feedforward_layernorm")  # Gemma's names: norms at both ends of a branch
    after = _rms(layer.post_attention_layernorm, offset)

    def norm_of_heads(name: str) -> Norm | None:
        module = getattr(attention, name, None)
        return None if module is None else _rms(module, offset)

    if hasattr(attention, "qkv_proj"):  # Phi-3: one map for all three, and one for both factors of the MLP
        whole, inner = attention.qkv_proj, mlp.down_proj.in_features
        keys = attention.o_proj.in_features
        values = (keys + whole.out_features) // 2
        ends = {"query": (None, keys), "key": (keys, values), "value": (values, None)}
        maps: dict[str, Any] = {side: LinearPart(whole, *places) for side, places in ends.items()}
        maps |= {"activation": mlp.activation_fn}
        maps |= {"gate": LinearPart(mlp.gate_up_proj, None, inner), "up": LinearPart(mlp.gate_up_proj, inner)}
    else:
        maps = {"query": attention.q_proj, "key": attention.k_proj, "value": attention.v_proj}
        maps |= {"up": mlp.up_proj, "activation": mlp.act_fn, "gate": mlp.gate_proj}
    return LayerWiring(
        **maps,
        attention_out=attention.o_proj,
        down=mlp.down_proj,
        attention_input_norm=_rms(layer.input_layernorm, offset),
        mlp_input_norm=_rms(layer.pre_feedforward_layernorm, offset) if in_branch else after,
        attention_branch_norm=after if in_branch else None,
        mlp_branch_norm=_rms(layer.post_feedforward_layernorm, offset) if in_branch else None,
        query_norm=norm_of_heads("q_norm"),
        key_norm=norm_of_heads("k_norm"),
        key_heads=config.num_key_value_heads,
        scale=attention.scaling,
        cap=attention.attn_logit_softcapping if capped else None,
        window=None if window is None else window - 1,
        kind=kind,
    )


def _rms(module: Any, offset: float) -> Norm | None:
    """A norm of the family; one that somebody put in its place is read as what it is."""
    norm = norm_of(module)
    if not isinstance(norm, RootMeanSquare) or isinstance(module, nn.RMSNorm):
        return norm
    return dataclasses.replace(norm, offset=offset)


@family("vit")
def vit(model: Any) -> Wiring:
    """ViT: [CLS] and the patches of an image, learned positions; the first token is read."""
    return _vision(model, model.vit, ("cls_token",))


@family("deit")
def deit(model: Any) -> Wiring:
    """DeiT: a distillation token behind [CLS]; with a teacher's head both are read, and logits averaged."""
    special = ("cls_token", "distillation_token")
    if not hasattr(model, "distillation_classifier"):
        return _vision(model, model.deit, special)
    both = MeanOfTwo(model.cls_classifier, model.distillation_classifier)
    return _vision(model, model.deit, special, head=both, readout="two")


def _vision(
    model: Any, base: Any, special: tuple[str, ...], *, head: MeanOfTwo | None = None, readout: str = "first"
) -> Wiring:
    e = base.embeddings
    before = tuple(getattr(e, name) for name in special)
    height, width = e.patch_embeddings.image_size
    words = PatchEmbedding(e.patch_embeddings.projection, before, (height, width))
    return Wiring(
        word=words,
        position=PositionTable(e.position_embeddings),
        layers=tuple(_vision_layer(layer) for layer in base.layers),
        head=head_steps(head or model.classifier),
        heads=model.config.num_attention_heads,
        final_norm=norm_of(base.layernorm),
        task=IMAGE_CLASSES,
        readout=readout,
    )


def _vision_layer(layer: Any) -> LayerWiring:
    attention, mlp = layer.attention, layer.mlp
    return LayerWiring(
        query=attention.q_proj,
        key=attention.k_proj,
        value=attention.v_proj,
        attention_out=attention.o_proj,
        up=mlp.fc1,
        activation=mlp.activation_fn,
        down=mlp.fc2,
        attention_input_norm=norm_of(layer.layernorm_before),
        mlp_input_norm=norm_of(layer.layernorm_after),
        scale=attention.scaling,
    )
