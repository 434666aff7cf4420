"""What is no plain network of `transformers`: refused in one line that says what to pass instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from lrp_companion.checks import InputError, ModelError

INNER = ("_orig_mod", "module", "_fsdp_wrapped_module", "model", "network")
"""Where wrappers keep what they wrap."""
BESIDE = ("tokenizer", "processing_class", "image_processor")
"""Where pipelines and trainers keep what reads their inputs."""
SHARDED = ("FullyShardedDataParallel", "FSDPModule", "DTensor")
ENCODERS = ("SentenceTransformer",)
QUANTISERS = (
    "bitsandbytes",
    "torchao",
    "torch.ao.nn",
    "auto_gptq",
    "gptqmodel",
    "awq",
    "hqq",
    "quanto",
    "optimum",
    "eetq",
    "compressed_tensors",
    "transformers.integrations",
)
"""Packages whose linear maps keep their weights in another form."""
_WHOLE = "the network of the model, and its tokenizer"


def check_object(model: Any) -> None:
    """Refuse what holds a network of `transformers` instead of being one.

    Raises
    ------
    InputError : a wrapper (`torch.compile`, data parallel), a pipeline, a trainer, an encoder of sentences.
    """
    kinds = [kind.__name__ for kind in type(model).__mro__]
    got = f"an object of type {kinds[0][:60]}"
    if any(name in kinds for name in SHARDED):
        hint = "save the model whole, and load that folder in one process"
        raise InputError("load_classifier", got=got, expected="a whole network", hint=hint)
    if any(name in kinds for name in ENCODERS):
        hint = "pass a classifier; this one's network has no classes"
        raise InputError("load_classifier", got=got, expected="a model with labels", hint=hint)
    path = _path(model)
    if path:
        word = "trainer" if "Trainer" in kinds[0] else "pipe" if "Pipeline" in kinds[0] else "model"
        beside = [f"{word}.{name}" for name in BESIDE if _own(model, name) is not None]
        hint = f"load_classifier({word}.{path}, {(*beside, 'tokenizer')[0]})"
        raise InputError("load_classifier", got=got, expected=_WHOLE, hint=hint)


def _own(model: Any, name: str) -> Any:
    try:
        return getattr(model, name, None)
    except Exception:  # an attribute that computes something
        return None


def _path(model: Any) -> str:
    """From a wrapper to the network in it, such as "module._orig_mod"; "" for a network."""
    path: list[str] = []
    for _ in range(5):
        compiled = type(model).__name__ == "OptimizedModule"
        if isinstance(model, nn.Module) and not compiled and _is_network(model):
            return ".".join(path)
        held = [(name, _own(model, name)) for name in (INNER[:1] if compiled else INNER)]
        inner = next(((name, one) for name, one in held if isinstance(one, nn.Module)), None)
        if inner is None:
            return ""
        path.append(inner[0])
        model = inner[1]
    return ""


def _is_network(model: nn.Module) -> bool:
    """Whether this has a configuration of its own; a wrapper passes on that of what it wraps."""
    config = getattr(model, "config", None)
    return config is not None and hasattr(config, "model_type")


def check_settings(name: str, settings: Mapping[str, Any]) -> None:
    """Refuse a model whose config.json says that its weights are quantised."""
    for key in ("quantization_config", "compression_config"):
        if settings.get(key) is not None:
            kind = settings[key].get("quant_method") if isinstance(settings[key], Mapping) else None
            raise quantised(f"{name!r} with a {key}{f' of {kind[:40]}' if isinstance(kind, str) else ''}")


def check_network(network: Any) -> None:
    """Refuse a network in memory with maps in 4 or 8 bits, compiled parts, or adapters of `transformers`.

    Raises
    ------
    ModelError : one of these.
    """
    kind = f"a network of type {type(network).__name__}"
    flags = ("is_quantized", "is_loaded_in_8bit", "is_loaded_in_4bit", "hf_quantizer")
    if any(getattr(network, flag, None) for flag in flags):
        raise quantised(f"{kind} with weights in 4 or 8 bits")
    if getattr(getattr(network, "config", None), "quantization_config", None) is not None:
        raise quantised(f"{kind} with a quantization_config")
    for name, part in network.named_modules():
        if type(part).__name__ == "OptimizedModule" or hasattr(
            part.__dict__.get("forward"), "_torchdynamo_orig_callable"
        ):
            got, hint = f"{kind}, whose module {name!r} is compiled", "pass it as it was before"
            expected = "a network without torch.compile"
            raise ModelError("load_classifier", got=got, expected=expected, hint=hint)
        if type(part).__module__.startswith(QUANTISERS):
            raise quantised(f"{kind}, whose module {name!r} is a {type(part).__name__}")
    if not of_peft(network) and any(map(of_peft, network.modules())):
        got, hint = f"{kind} with an adapter inside", "pass the PeftModel, or name the adapter's folder"
        raise ModelError("load_classifier", got=got, expected="a network, or a model of peft", hint=hint)
    for name, value in network.state_dict().items():
        if type(value) not in (torch.Tensor, nn.Parameter) or value.is_quantized:
            if type(value).__name__ in SHARDED:
                got, hint = f"{kind}, whose weight {name} is divided", "save it whole, and load that"
                raise ModelError("load_classifier", got=got, expected="whole weights", hint=hint)
            raise quantised(f"{kind}, whose weight {name} is of type {type(value).__name__}")
        if value.layout != torch.strided:
            got, hint = f"{kind}, whose weight {name} is sparse", "give it to_dense()"
            raise ModelError("load_classifier", got=got, expected="dense weights", hint=hint)
        whole_numbers = name.endswith("weight") and not value.is_floating_point()
        if whole_numbers or (value.is_floating_point() and value.itemsize == 1):
            raise quantised(f"{kind}, whose weight {name} is of {str(value.dtype).removeprefix('torch.')}")


def quantised(got: str) -> ModelError:
    """One line on weights in 4 or 8 bits."""
    hint = "load the model without quantisation, or give it dequantize()"
    return ModelError("load_classifier", got=got, expected="plain weights", hint=hint)


def of_peft(module: Any) -> bool:
    """Whether a module is one of `peft`, which need not be installed."""
    return type(module).__module__.startswith("peft.")
