"""Two formats beside folders of `transformers`: PEFT adapters, read and merged by `peft`, where the merged
network has to give the adapted one's logits; and what a .gguf file says and `transformers` leaves unread,
read here, or refused by name. And objects that hold a network with its tokenizer: of sentence-transformers,
SetFit, or a pipeline.

The keys are those of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, with the values that
llama.cpp takes where a file has none.
"""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from lrp_companion.checks import ModelError, shown
from lrp_companion.families.sentences import SIMILARITIES, Part, SentenceEncoder, label
from lrp_companion.loading.comparison import NEAR

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


def check_texts(name: str, tokenizer: Any, *, prompt: Any, lower: Any) -> None:
    """Refuse an encoder that reads other texts than it is given."""
    if prompt or (lower and tokenizer.tokenize("A") != tokenizer.tokenize("a")):
        got = f"{name!r} with default_prompt_name {shown(prompt)} and do_lower_case {bool(lower)}"
        expected, hint = "an encoder that reads texts as they are", "unset it, and put it into your texts"
        raise ModelError("load_classifier", got=got, expected=expected, hint=hint)


def opened(model: Any, tokenizer: Any) -> tuple[Any, Any]:
    """The network and the tokenizer of an object that holds both: a `SentenceTransformer`, a `SetFitModel`, a
    `CrossEncoder` or a pipeline of `transformers`; anything else as it is.
    """
    body = model if hasattr(model, "similarity_fn_name") else getattr(model, "model_body", None)
    holder = model if body is None else body
    if body is None and not (hasattr(model, "model") and hasattr(model, "tokenizer")):
        return model, tokenizer
    tokenizer = copy.deepcopy(holder.tokenizer) if tokenizer is None else tokenizer
    most = getattr(holder, "max_seq_length", None) or getattr(holder, "max_length", None)
    tokenizer.model_max_length = most or tokenizer.model_max_length
    modules = [] if body is None else list(body)
    lower = getattr(modules[0], "do_lower_case", False) if modules else False
    prompt = getattr(holder, "default_prompt_name", None)
    check_texts(type(model).__name__, tokenizer, prompt=prompt, lower=lower)
    if body is None:
        return model.model, tokenizer
    parts: list[Part] = [(type(one).__name__, getattr(one, "get_config_dict", dict)()) for one in modules]
    base = copy.deepcopy(modules[0].auto_model)
    if body is model:
        label(base.config)
        return SentenceEncoder(base, parts, similarity=body.similarity_fn_name or SIMILARITIES[0]), tokenizer
    if model.normalize_embeddings:
        parts.append(("Normalize", {}))
    head = _head_of(model, base.config)
    return SentenceEncoder(base, parts, similarity=None, head=head), tokenizer


def _head_of(model: Any, config: Any) -> nn.Linear:
    """The head of a SetFitModel as one linear map; its labels go into the configuration.

    A logistic regression of two classes has one logit, that of the second.
    """
    theirs: Any = model.model_head
    weight: torch.Tensor
    if hasattr(theirs, "linear"):
        linear, scale = theirs.linear, theirs.temperature + theirs.eps
        weight = linear.weight.double() / scale
        bias = 0 if linear.bias is None else linear.bias.double() / scale
        names, sigmoid = range(len(weight)), theirs.multitarget
    else:
        weight, bias = torch.tensor(theirs.coef_), torch.tensor(theirs.intercept_)
        names, sigmoid = theirs.classes_[-len(weight) :].tolist(), len(weight) == 1
        x = np.random.default_rng(0).normal(size=(4, weight.shape[1]))
        logits = torch.tensor(x) @ weight.T + bias
        ours = logits.sigmoid() if sigmoid else logits.softmax(-1)
        if not np.allclose(theirs.predict_proba(x)[:, -len(weight) :], ours, atol=1e-6):
            got, hint = f"a head {type(theirs).__name__} of another form", "train a LogisticRegression"
            expected = "one whose probabilities are the softmax of a linear map"
            raise ModelError("load_classifier", got=got, expected=expected, hint=hint)
    named = [model.labels[k] if model.labels and isinstance(k, int) else k for k in names]
    label(config, named, "multi_label_classification" if sigmoid else "single_label_classification")
    head = nn.Linear(weight.shape[1], len(weight), dtype=weight.dtype)
    head.weight.data, head.bias.data = weight.detach().clone(), torch.zeros(len(weight)).to(weight) + bias
    return head
