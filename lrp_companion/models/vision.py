"""The wirings of families that read images: ViT and DeiT, with norms before their branches."""

from __future__ import annotations

from typing import Any

from lrp_companion.models.patches import PatchEmbedding, PositionTable
from lrp_companion.models.tasks import IMAGE_CLASSES
from lrp_companion.models.wiring import LayerWiring, Wiring, family


@family("vit")
def vit(model: Any) -> Wiring:
    """ViT: [CLS] and the patches of an image, learned positions; the first token is read."""
    return _vision(model, model.vit, ("cls_token",))


@family("deit")
def deit(model: Any) -> Wiring:
    """DeiT: a distillation token behind [CLS]; the classifier without a teacher reads [CLS] alone."""
    return _vision(model, model.deit, ("cls_token", "distillation_token"))


def _vision(model: Any, base: Any, special: tuple[str, ...]) -> Wiring:
    e = base.embeddings
    before = tuple(getattr(e, name) for name in special)
    height, width = e.patch_embeddings.image_size
    words = PatchEmbedding(e.patch_embeddings.projection, before, (height, width))
    return Wiring(
        words, PositionTable(e.position_embeddings), None, None, None,
        tuple(_vision_layer(layer) for layer in base.layers), ((model.classifier, None),),
        model.config.num_attention_heads, final_norm=base.layernorm, task=IMAGE_CLASSES,
    )  # fmt: skip


def _vision_layer(layer: Any) -> LayerWiring:
    attention, mlp = layer.attention, layer.mlp
    return LayerWiring(
        attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj, None,
        mlp.fc1, mlp.activation_fn, mlp.fc2, None,
        attention_input_norm=layer.layernorm_before, mlp_input_norm=layer.layernorm_after,
        scale=attention.scaling,
    )  # fmt: skip
