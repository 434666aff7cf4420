"""The wirings of families that read images: ViT and DeiT, with norms before their branches."""

from __future__ import annotations

from typing import Any

from lrp_companion.families.patches import PatchEmbedding, PositionTable
from lrp_companion.families.tasks import IMAGE_CLASSES, head_steps
from lrp_companion.families.wiring import LayerWiring, MeanOfTwo, Wiring, family, norm_of


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
    model: Any,
    base: Any,
    special: tuple[str, ...],
    *,
    head: MeanOfTwo | None = None,
    readout: str = "first",
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
