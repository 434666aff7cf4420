"""PEFT adapters: read and merged by `peft`; the merged network has to give the adapted one's logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from lrp_companion.checks import ModelError
from lrp_companion.loading.compute import NEAR

WEIGHTS = "adapter_model.safetensors"
PREFIX = "base_model.model."
"""What `peft` writes before the name of each weight."""
HEADS = ("score", "classifier", "classifier.out_proj", "cls_classifier")
"""Last maps of the classifiers of `transformers`: a row per label."""


def of_peft(module: Any) -> bool:
    """Whether a module is one of `peft`, which need not be installed."""
    return type(module).__module__.startswith("peft.")


def inside(network: Any) -> Any:
    """The network of `transformers` inside one of `peft`; any other is returned as it is."""
    return network.base_model.model if of_peft(network) and hasattr(network, "base_model") else network


def shapes_of(folder: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of an adapter's weights by name; that of a whole weight is its name in the network."""
    from safetensors import safe_open

    with safe_open(folder / WEIGHTS, "pt") as file:
        named = {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}  # noqa: SIM118
    return {key.removeprefix(PREFIX).replace(".base_layer.", "."): shape for key, shape in named.items()}


def labels_of(shapes: dict[str, tuple[int, ...]]) -> int | None:
    """How many labels the adapter's classifier has; None where it brings none."""
    ends = {f"{head}.{end}weight" for head in HEADS for end in ("", "lora_B.")}
    return next((shape[0] for key, shape in shapes.items() if key in ends and len(shape) == 2), None)


def adapted(name: str, folder: Path, network: Any) -> nn.Module:
    """The network with the adapter of a folder merged into it."""
    from peft import PeftConfig, get_peft_model
    from peft.utils.save_and_load import load_peft_weights, set_peft_model_state_dict

    config = PeftConfig.from_pretrained(str(folder))
    config.inference_mode, config.megatron_config = True, None  # which would import a module by name
    wrapped = get_peft_model(_single(network), config)
    result: Any = set_peft_model_state_dict(wrapped, load_peft_weights(str(folder), device="cpu"))
    lacking = [key for key in result.missing_keys if wrapped.base_model.prefix in key]
    # with all biases peft saves that of a head a second time, under a name that it does not read
    unknown = [key for key in result.unexpected_keys if not key.endswith(".modules_to_save.bias")]
    if unknown or lacking:
        got = f"adapter {name!r}, whose weights and configuration differ in {(unknown + lacking)[:3]}"
        hint = "take configuration and weights of one training, and its base model; or update peft"
        raise ModelError("load_classifier", got=got, expected="one adapter", hint=hint)
    return merged(name, wrapped)


@torch.no_grad()
def merged(name: str, network: Any) -> nn.Module:
    """A network of `peft` as a plain one, changed in place; in float32, so that it rounds nothing."""
    network = _single(network).eval()
    inner = inside(network)
    config, draw = inner.config, torch.Generator().manual_seed(0)
    if inner.main_input_name == "pixel_values":
        given = torch.randn(1, config.num_channels, *_sides(config.image_size), generator=draw)
    else:  # a few tokens, spread over the vocabulary
        given = torch.linspace(0, config.get_text_config().vocab_size - 1, 8).long()[None]
    before = inner(given).logits
    _untie(inner)
    plain = network.merge_and_unload()
    for path, module in list(plain.named_modules()):
        if type(module).__name__ == "ModulesToSaveWrapper":  # some kinds leave both
            parent, _, child = path.rpartition(".")
            setattr(plain.get_submodule(parent), child, module.modules_to_save[module.active_adapters[0]])
    apart = float((plain(given).logits - before).abs().max())
    if not apart <= NEAR[torch.float32] * (1 + float(before.abs().max())) and bool(before.isfinite().all()):
        got = f"adapter {name!r}, whose logits change by {apart:.2g} when it is merged"
        hint = "pass a network whose adapter is switched on, or the merged network"
        raise ModelError("load_classifier", got=got, expected="an adapter that can be merged", hint=hint)
    return plain


def _single(network: nn.Module) -> nn.Module:
    half = any(value.is_floating_point() and value.itemsize < 4 for value in network.parameters())
    return network.float() if half else network


def _sides(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else tuple(size)


def _untie(network: Any) -> None:
    """Give the output map its own weights where it shares those of the embeddings: one may be adapted."""
    modules = network.get_input_embeddings(), network.get_output_embeddings()
    table, out = (getattr(one, "base_layer", getattr(one, "original_module", one)) for one in modules)
    shared: Any = getattr(out, "weight", None)
    if shared is not None and shared is getattr(table, "weight", None):
        out.weight = nn.Parameter(shared.clone())  # type: ignore[union-attr]
