"""PEFT adapters: their weights compared with what the adapted network expects, and merged into it."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lrp_companion.checks import CompanionError, reason_of, shown
from lrp_companion.loading.adapter_entries import CHANGES_BASE, Entries, checked, refused
from lrp_companion.loading.compute import NEAR
from lrp_companion.loading.plain import of_peft

SAFE, PICKLED = "adapter_model.safetensors", "adapter_model.bin"
PREFIX = "base_model.model."
"""What `peft` writes before the name of each weight."""
HEADS = ("score", "classifier", "classifier.out_proj", "cls_classifier")
"""Last maps of the classifiers of `transformers`: a row per label."""
TRIED = 8
"""Tokens of the text that both read."""


def read_weights(name: str, folder: Path) -> dict[str, Tensor]:
    """The adapter's weights by name; of a pickled file tensors only, and no code of it runs.

    Raises
    ------
    ModelError : no such file, or one that holds something else.
    """
    hint = "save the adapter again with save_pretrained"
    files = [folder / file for file in (SAFE, PICKLED) if (folder / file).is_file()]
    if not files:
        raise refused(name, "weights are missing", f"{SAFE} next to its configuration", hint=hint)
    try:
        if files[0].name == SAFE:
            from safetensors.torch import load_file

            weights = load_file(files[0])
        else:
            weights = torch.load(files[0], map_location="cpu", weights_only=True)
    except Exception as error:  # of safetensors, of pickle, of the file system
        got = f"{files[0].name} cannot be read ({reason_of(error, 120)})"
        raise refused(name, got, "a file of tensors", hint=hint) from None
    if not isinstance(weights, dict) or not all(
        isinstance(key, str) and isinstance(value, Tensor) for key, value in weights.items()
    ):
        raise refused(name, f"{files[0].name} holds no tensors by name", "a file of tensors", hint=hint)
    return weights


def brought(weights: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Shapes of whole weights of the network that the adapter's file replaces, by their names there."""
    return {
        key.removeprefix(PREFIX).replace(".base_layer.", "."): tuple(value.shape)
        for key, value in weights.items()
    }


def labels_of(weights: Mapping[str, Tensor]) -> int | None:
    """How many labels the adapter's classifier has; None where it brings none."""
    for key, shape in brought(weights).items():
        module = key.removesuffix(".weight").removesuffix(".lora_B")
        if module in HEADS and key.endswith(".weight") and len(shape) == 2:
            return shape[0]
    return None


def adapted(name: str, network: Any, entries: Entries, weights: dict[str, Tensor]) -> nn.Module:
    """The network with the adapter merged into it.

    Raises
    ------
    ModelError : entries that cannot be used; weights that are not those that the adapter's entries ask for; a
        merged network that computes something else.
    """
    peft = importlib.import_module("peft")
    config_class = peft.PEFT_TYPE_TO_CONFIG_MAPPING[entries["peft_type"]]
    given = checked(name, entries, config_class, [key for key, _ in network.named_modules()])
    largest = max((side for value in weights.values() for side in value.shape), default=0)
    for key in ("r", "n_frequency") if entries["peft_type"] not in ("LORA", "LOKR") else ():
        if given.get(key, 0) > largest:  # refused before so much memory is taken
            got = f"{key} is {given[key]}, with weights of at most {largest} rows"
            raise refused(name, got, "its configuration and its weights from one training")
    begins_plain = entries["peft_type"] == "LORA" and given.get("init_lora_weights") not in CHANGES_BASE
    network = _precise(network)
    dtype = next(value.dtype for value in network.parameters() if value.is_floating_point())
    weights = {key: value.to(dtype) if value.is_floating_point() else value for key, value in weights.items()}
    with _in_one_line(name, "modules cannot be put on its base model"), _unwarned():
        config = config_class(task_type=entries.get("task_type"), inference_mode=True, **given)
        network = peft.get_peft_model(network, config, low_cpu_mem_usage=begins_plain)
    _check_keys(name, network, weights)
    with _in_one_line(name, "weights cannot be read into its base model"), _unwarned():
        peft.set_peft_model_state_dict(network, weights, low_cpu_mem_usage=begins_plain)
    return merged(name, network)


def _check_keys(name: str, network: Any, weights: Mapping[str, Tensor]) -> None:
    """Refuse weights that are not, by name and shape, those that the adapter's entries ask for."""
    utils = importlib.import_module("peft.utils.save_and_load")
    with _unwarned():
        expected = utils.get_peft_model_state_dict(network, save_embedding_layers=False)
    wanted = {_short(key): tuple(value.shape) for key, value in expected.items()}
    given = {_short(key): tuple(value.shape) for key, value in weights.items()}
    tables, known = _vocabulary(network), set(wanted)
    missing = sorted(known - set(given))
    unknown = sorted(key for key in set(given) - known if key.replace(".base_layer.", ".") not in tables)
    other = sorted(key for key in set(given) & known if given[key] != wanted[key])
    if missing:
        got, words = f"weights lack {_some(missing)}", "all weights that its configuration asks for"
    elif unknown:
        got = f"weights {_some(unknown)} belong to nothing that its configuration names"
        words = "the weights that its configuration asks for"
    elif other:
        got = f"weight {_some(other[:1])} has shape {given[other[0]]}"
        words = f"shape {wanted[other[0]]}, from its configuration and its base model"
    else:
        return
    hint = "take the configuration and the weights of one training, and the base model that it names"
    raise refused(name, got, words, hint=hint)


def _short(key: str) -> str:
    """The name of a weight without what every name has, or has in some versions of `peft` only."""
    short = key.removeprefix(PREFIX)
    return short.removesuffix(".weight") if short.endswith("lora_magnitude_vector.weight") else short


def _some(keys: list[str]) -> str:
    """The first keys, cut: files may hold any text."""
    more = f" and {len(keys) - 2} more" if len(keys) > 2 else ""
    return ", ".join(shown(key[-70:])[1:-1] for key in keys[:2]) + more


def _vocabulary(network: Any) -> set[str]:
    """Names of the embeddings and the output map, which `peft` saves whole where their size has changed."""
    inner = inside(network)
    tables = [get() for get in (inner.get_input_embeddings, inner.get_output_embeddings)]
    whole = {id(getattr(table, "base_layer", table)) for table in tables if table is not None}
    named = [key.replace(".base_layer", "") for key, part in inner.named_modules() if id(part) in whole]
    return {f"{key}.{kind}" for key in named for kind in ("weight", "bias")}


def inside(network: Any) -> Any:
    """The network of `transformers` inside one of `peft`; any other is returned as it is."""
    base: Any = getattr(network, "base_model", None)
    return base.model if of_peft(network) and hasattr(base, "model") else network


@torch.no_grad()
def merged(name: str, network: Any) -> nn.Module:
    """A network of `peft` as a plain one, changed in place.

    Raises
    ------
    ModelError : an adapter that does not become plain weights; a merged network that computes something else.
    """
    hint = "merge it as it was trained, with merge_and_unload, and save the merged model"
    if any(getattr(part, "disable_adapters", False) is True for part in network.modules()):
        hint = "switch it on with enable_adapter_layers, or pass the base model"
        raise refused(name, "layers are switched off", "an adapter in use", hint=hint)
    if not hasattr(network, "merge_and_unload"):
        kinds = [str(getattr(one.peft_type, "value", one.peft_type)) for one in network.peft_config.values()]
        expected = "an adapter that becomes plain weights, such as LoRA"
        hint = "train such an adapter, or explain the base model"
        raise refused(name, f"kind is {', '.join(kinds)[:100]}", expected, hint=hint)
    with _in_one_line(name, "weights cannot be merged"), _unwarned():
        network = _precise(network).eval()
        inner = inside(network)
        inputs = _trial(inner)
        before = inner(**inputs).logits
        _untie(inner)
        plain = _unwrapped(network.merge_and_unload())
        after = plain(**inputs).logits
    apart = float((after - before).abs().max())
    if not apart <= NEAR[torch.float32] * (1 + float(before.abs().max())) and bool(before.isfinite().all()):
        got = f"logits change by {apart:.2g} when it is merged"
        raise refused(name, got, "an adapter that can be merged", hint=hint)
    return plain


def _unwrapped(network: Any) -> Any:
    """A merged network with the modules that were trained whole in their places; some kinds leave both."""
    for path, module in list(network.named_modules()):
        if type(module).__name__ == "ModulesToSaveWrapper":
            parent, _, name = path.rpartition(".")
            (adapter,) = module.active_adapters
            setattr(network.get_submodule(parent), name, module.modules_to_save[adapter])
    return network


def _precise(network: Any) -> Any:
    """In float32 where it has fewer digits, so that merging rounds nothing."""
    halves = [value for value in network.parameters() if value.is_floating_point() and value.itemsize < 4]
    return network.float() if halves else network


def _trial(network: Any) -> dict[str, Tensor]:
    """A few tokens, spread over the vocabulary; or a noisy image."""
    config = network.config
    if network.main_input_name == "pixel_values":
        size = config.image_size
        height, width = (size, size) if isinstance(size, int) else size
        draw = torch.Generator().manual_seed(0)
        return {"pixel_values": torch.randn(1, config.num_channels, height, width, generator=draw)}
    ids = torch.linspace(0, config.vocab_size - 1, TRIED).long()[None]
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _untie(network: Any) -> None:
    """Give the output map its own weights where the adapter changes the embeddings, which it shares."""
    table, out = network.get_input_embeddings(), network.get_output_embeddings()
    base = getattr(table, "base_layer", getattr(table, "original_module", None))
    if base is not None and getattr(out, "weight", None) is base.weight:
        out.weight = nn.Parameter(out.weight.clone())


@contextmanager
def _in_one_line(name: str, what: str) -> Iterator[None]:
    """What `peft` raises, in one line: what of the adapter it could not do."""
    try:
        yield
    except CompanionError:
        raise
    except Exception as error:  # peft raises many kinds
        hint = "check adapter_config.json, and that this is the base model of its training"
        expected = "an adapter of this base model"
        raise refused(name, f"{what} ({reason_of(error, 150)})", expected, hint=hint) from error


@contextmanager
def _unwarned() -> Iterator[None]:
    """Without the warnings of `peft`: what they are about is checked here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
