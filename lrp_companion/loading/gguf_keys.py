"""What a .gguf file says and `transformers` leaves unread: read here, or refused by name.

The keys are those of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, with the values that
llama.cpp takes where a file has none.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from lrp_companion.checks import ModelError

HARMLESS = ("GGUF", "general", "tokenizer", "quantize", "split", "mradermacher")
"""Namespaces of keys on which no logit of given token ids depends."""
MAY_LACK = ("vocab_size", "rope.dimension_count", "rope.freq_base")
SCALINGS = ("linear", "yarn")
FREQUENCIES = "rope_freqs.weight"
"""Divisors of the rotations' frequencies, which Llama 3.1 and later need."""


def read_keys(name: str, reader: Any, config: Any) -> None:
    """Put into a network's configuration what the file's keys say beyond what `transformers` has read.

    Raises
    ------
    ModelError : a key that is neither read nor known to change nothing; one that is necessary and missing.
    """
    from transformers.integrations import GGUF_CONFIG_MAPPING

    architecture = reader.fields["general.architecture"].contents()
    taken = GGUF_CONFIG_MAPPING[architecture]
    said = {key.partition(".")[::2]: field.contents() for key, field in reader.fields.items()}
    model = {key: value for (space, key), value in said.items() if space == architecture}
    lacking = [key for key in taken if key not in model and key not in MAY_LACK]
    if lacking:
        raise _refused(name, f"without the key {architecture}.{lacking[0]}", "all keys of its architecture")
    _read_rotations(model, config)
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        if key in model and hasattr(config, key):
            setattr(config, key, model.pop(key) or None)  # 0 is none
    if hasattr(config, "query_pre_attn_scalar"):  # no key says it: llama.cpp goes by the layers
        largest = config.num_hidden_layers == {"gemma2": 46, "gemma3_text": 62}.get(config.model_type)
        per_head = config.hidden_size // config.num_attention_heads
        config.query_pre_attn_scalar = per_head if largest else config.head_dim
    unread = [
        f"{architecture}.{key} = {value}"
        for key, value in model.items()
        if taken.get(key) is None and not _same(value, _expected(config).get(key))
    ]
    unread += [f"{space}.{key}" for (space, key), _ in said.items() if space not in (*HARMLESS, architecture)]
    if unread:
        raise _refused(name, f"whose {', '.join(unread[:3])} is not read", "keys that are read here")


def _read_rotations(model: dict[str, Any], config: Any) -> None:
    """The base and the scaling of rotations; where layers differ, of those that attend to the whole text."""
    parameters = getattr(config, "rope_parameters", None)
    if parameters is None:
        return
    whole = parameters.get("full_attention", parameters)
    whole["rope_theta"] = float(model.get("rope.freq_base", 10_000.0))
    if "sliding_attention" in parameters:
        local = float(model.pop("rope.freq_base_swa", 10_000.0))
        parameters["sliding_attention"]["rope_theta"] = local
    model.pop("rope.scaling.finetuned", None)
    factor = model.pop("rope.scaling.factor", 0) or model.pop("rope.scale_linear", 0) or 1.0
    kind = model.get("rope.scaling.type", SCALINGS[0])
    if kind in SCALINGS:
        model.pop("rope.scaling.type", None)
        length = model.pop("rope.scaling.original_context_length", config.max_position_embeddings)
        if factor != 1:
            further = {"original_max_position_embeddings": int(length)} if kind == "yarn" else {}
            whole.update(rope_type=kind, factor=float(factor), **further)


def _expected(config: Any) -> dict[str, Any]:
    """Values of keys with which they change nothing."""
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    widths = dict.fromkeys(("rope.dimension_count", "attention.key_length", "attention.value_length"), width)
    ones = dict.fromkeys(("logit_scale", "embedding_scale", "residual_scale"), 1.0)
    none = {"expert_count": 0, "expert_used_count": 0, "rope.scaling.type": "none"}
    layout = {"tensor_data_layout": "Meta AI original pth", "attention.causal": True}
    return {**widths, **ones, **none, **layout, "vocab_size": config.vocab_size}


def _same(value: Any, expected: Any) -> bool:
    if isinstance(value, (int, float)) and isinstance(expected, (int, float)):
        return math.isclose(value, expected, rel_tol=1e-6)
    return expected is not None and value == expected


def check_tensors(name: str, reader: Any, network: Any) -> None:
    """Divide the frequencies of the network's rotations as the file says; refuse other tensors that it does
    not take.

    Raises
    ------
    ModelError : a tensor that the network has no place for.
    """
    from transformers.modeling_gguf_pytorch_utils import TensorProcessor, get_gguf_hf_weights_map

    tensors = {tensor.name: tensor.data for tensor in reader.tensors}
    rotations = [module for module in network.modules() if "inv_freq" in module._buffers]
    if network.config.model_type == "llama" and FREQUENCIES in tensors and len(rotations) == 1:
        factors = torch.tensor(tensors.pop(FREQUENCIES))
        if factors.shape != rotations[0].inv_freq.shape:
            expected = f"{len(rotations[0].inv_freq)} numbers"
            raise _refused(name, f"whose {FREQUENCIES} has shape {tuple(factors.shape)}", expected)
        _divide(rotations[0], factors)
    taken = get_gguf_hf_weights_map(network, TensorProcessor())
    unread = sorted(set(tensors) - set(taken))
    if unread:
        more = f" and {len(unread) - 3} more" if len(unread) > 3 else ""
        got = f"with tensors that its network does not take: {', '.join(unread[:3])}{more}"
        raise _refused(name, got, "tensors of its blocks and of this architecture only")


@torch.no_grad()
def _divide(rotation: nn.Module, factors: torch.Tensor) -> None:
    for key in ("inv_freq", "original_inv_freq"):
        held = getattr(rotation, key, None)
        if isinstance(held, torch.Tensor):
            setattr(rotation, key, held / factors.to(held.device, held.dtype))


def _refused(name: str, got: str, expected: str) -> ModelError:
    hint = "load the model from a folder in the hub's format"
    return ModelError("load_classifier", got=f"{name!r}, {got}", expected=expected, hint=hint)
