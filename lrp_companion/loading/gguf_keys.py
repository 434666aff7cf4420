"""What a .gguf file says and `transformers` leaves unread: read here, or refused by name.

The keys are those of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, with the values that
llama.cpp takes where a file has none.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from lrp_companion.checks import ModelError

HARMLESS = ("GGUF", "general", "tokenizer", "quantize", "split", "mradermacher")
"""Namespaces of keys on which no logit of given token ids depends."""
MAY_LACK = ("vocab_size", "rope.dimension_count", "rope.freq_base")
FREQUENCIES = "rope_freqs.weight"
"""Divisors of the rotations' frequencies, which Llama 3.1 and later need."""


def read_keys(name: str, reader: Any, config: Any) -> None:
    """Put into a network's configuration what the file's keys say beyond what `transformers` has read."""
    from transformers.integrations import GGUF_CONFIG_MAPPING

    architecture = reader.fields["general.architecture"].contents()
    taken = GGUF_CONFIG_MAPPING[architecture]
    said = {key.partition(".")[::2]: field.contents() for key, field in reader.fields.items()}
    model = {key: value for (space, key), value in said.items() if space == architecture}
    unread = [f"without {key}" for key in taken if key not in model and key not in MAY_LACK]
    parameters = getattr(config, "rope_parameters", None) or {}
    whole = parameters.get("full_attention", parameters)  # of layers that attend to the whole text
    whole["rope_theta"] = float(model.get("rope.freq_base", 10_000.0))
    if "sliding_attention" in parameters:
        parameters["sliding_attention"]["rope_theta"] = float(model.pop("rope.freq_base_swa", 10_000.0))
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        if key in model and hasattr(config, key):
            setattr(config, key, model.pop(key) or None)  # 0 is none
    if hasattr(config, "query_pre_attn_scalar"):  # no key says it: llama.cpp goes by the layers
        largest = config.num_hidden_layers == {"gemma2": 46, "gemma3_text": 62}.get(config.model_type)
        per_head = config.hidden_size // config.num_attention_heads
        config.query_pre_attn_scalar = per_head if largest else config.head_dim
    known = _expected(config)
    for key, value in model.items():
        number = isinstance(value, (int, float)) and isinstance(known.get(key), (int, float))
        same = math.isclose(value, known[key], rel_tol=1e-6) if number else value == known.get(key, math.nan)
        if taken.get(key) is None and not same:
            unread.append(f"{architecture}.{key} = {value}")
    unread += [f"{space}.{key}" for space, key in said if space not in (*HARMLESS, architecture)]
    if unread:
        raise _refused(name, ", ".join(unread[:3]))


def _expected(config: Any) -> dict[str, Any]:
    """Values of keys with which they change nothing."""
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    widths = dict.fromkeys(("rope.dimension_count", "attention.key_length", "attention.value_length"), width)
    ones = dict.fromkeys(("logit_scale", "embedding_scale", "residual_scale"), 1.0)
    none = {"expert_count": 0, "expert_used_count": 0, "rope.scaling.type": "none"}
    layout = {"tensor_data_layout": "Meta AI original pth", "attention.causal": True}
    return {**widths, **ones, **none, **layout, "vocab_size": config.vocab_size}


def check_tensors(name: str, reader: Any, network: Any) -> None:
    """Divide the frequencies of the network's rotations as the file says; refuse other tensors that it does
    not take.
    """
    from transformers.modeling_gguf_pytorch_utils import TensorProcessor, get_gguf_hf_weights_map

    tensors = {tensor.name: tensor.data for tensor in reader.tensors}
    rotations = [module for module in network.modules() if "inv_freq" in module._buffers]
    if network.config.model_type == "llama" and FREQUENCIES in tensors and len(rotations) == 1:
        factors = torch.tensor(tensors.pop(FREQUENCIES))
        for key in ("inv_freq", "original_inv_freq"):
            held = getattr(rotations[0], key)
            if factors.shape != held.shape:
                raise _refused(name, f"{FREQUENCIES} of shape {tuple(factors.shape)}")
            setattr(rotations[0], key, held / factors.to(held.device, held.dtype))
    unread = sorted(set(tensors) - set(get_gguf_hf_weights_map(network, TensorProcessor())))
    if unread:
        raise _refused(name, f"{len(unread)} tensors, such as {', '.join(unread[:3])}")


def _refused(name: str, unread: str) -> ModelError:
    hint = "load the model from a folder in the hub's format"
    expected = "the keys and tensors of its architecture that are read here"
    return ModelError("load_classifier", got=f"{name!r} with {unread}", expected=expected, hint=hint)
