"""What can be explained: a plain network of `transformers` with the configuration, weights and tokenizer that
it needs. Anything else is refused in one line that says what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from lrp_companion.checks import InputError, ModelError, is_whole, shown
from lrp_companion.families import FAMILIES
from lrp_companion.families.tasks import CLASSES, IMAGE_CLASSES, TASKS, TOKEN_CLASSES, task_of
from lrp_companion.schema import MULTI_LABEL, PROBLEM_TYPES, REGRESSION

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


OF_ONE_OUTPUT = (None, REGRESSION, MULTI_LABEL)
"""Values of problem_type with which a classifier may have one output."""


def check_config(name: str, config: Any) -> None:
    """Refuse what is not a classifier, or a kind of model that `Encoder` does not know."""
    check_entries(name, config)
    architectures = config.architectures or []
    task = task_of(architectures)
    of_classes = task in (CLASSES, TOKEN_CLASSES, IMAGE_CLASSES)
    of_whole = task in (CLASSES, IMAGE_CLASSES)
    one_output = config.num_labels == 1 and of_whole
    positions = getattr(config, "position_embedding_type", "absolute")
    if config.model_type not in FAMILIES:
        got, expected = f" of family {config.model_type!r}", f"one of {', '.join(FAMILIES)}"
        hint = "choose a sequence classifier of these families"
    elif task is None:
        got = f", saved as {', '.join(architectures) or 'no known architecture'}"
        expected = f"a sequence classifier, or a model whose class ends in {', '.join(list(TASKS)[1:])}"
        hint = "choose a model that was fine-tuned for one of these tasks"
    elif (config.problem_type or PROBLEM_TYPES[0]) not in PROBLEM_TYPES:
        got, expected = f" with problem_type {config.problem_type!r}", f"one of {', '.join(PROBLEM_TYPES)}"
        hint = "choose a classifier, or a regression with one output"
    elif config.num_labels < 2 and of_classes and not (one_output and config.problem_type in OF_ONE_OUTPUT):
        got, expected = f" with {config.num_labels} label", "a classifier with at least 2 labels"
        hint = "one output of a text or an image is a regression, or a sigmoid if problem_type is multi-label"
    elif config.problem_type == REGRESSION and of_classes and not one_output:
        got = f", a regression with {config.num_labels} outputs"
        expected = "a regression of a text or an image with one output"
        hint = "several outputs are not supported"
    elif positions not in (None, "absolute"):
        got = f" with position embeddings of type {positions!r}"
        expected, hint = "learned absolute positions", "choose another model"
    else:
        return
    raise ModelError("load_classifier", got=f"{name!r}{got}", expected=expected, hint=hint)


OTHER_TASKS = (
    "pooler",
    "cls",
    "predictions",
    "sop_classifier",
    "lm_head",
    "vocab_transform",
    "vocab_layer_norm",
    "vocab_projector",
    "discriminator_predictions",
    "generator_predictions",
    "generator_lm_head",
    "decoder",
    "pre_classifier",
    "classifier",
    "score",
    "qa_outputs",
    "v_head",
)
"""Modules after the last layer, as heads of other tasks: what a network without them computes needs none."""


def check_keys(name: str, network: Any, report: Mapping[str, Any]) -> None:
    """Refuse a checkpoint that lacks weights of the network, or has weights that the network does not take.

    Raises
    ------
    ModelError : such weights, but for those of `OTHER_TASKS` that the network has no module for.
    """
    missing = sorted(key for key in report["missing_keys"] if "position_ids" not in key)
    unused = sorted(key for key in report["unexpected_keys"] if not _of_another_task(key, network))
    prefixes = [key.removesuffix(lack) for lack in missing for key in unused if key.endswith(f".{lack}")]
    if report["mismatched_keys"]:
        key, given, wanted = min(report["mismatched_keys"])
        got, expected = f"{name!r} with {key} of shape {tuple(given)}", f"shape {tuple(wanted)}"
        hint = "correct config.json, or save the model again with save_pretrained"
    elif prefixes:
        got, expected = (
            f"{name!r} with weights under {prefixes[0]!r}",
            "the names of the network's own weights",
        )
        hint = "save the network inside of the wrapper, as in model.module.save_pretrained(folder)"
    elif missing:
        got, hint = f"{name!r} without the weights {', '.join(missing[:3])}", "fine-tune the model first"
        expected = "a complete, fine-tuned classifier"
    elif unused:
        more = f" and {len(unused) - 3} more" if len(unused) > 3 else ""
        got = f"{name!r} with weights that its network does not take: {', '.join(unused[:3])}{more}"
        expected = "weights of the network that config.json describes"
        hint = "correct config.json (layers, biases), or save the model again with save_pretrained"
    else:
        return
    raise ModelError("load_classifier", got=got, expected=expected, hint=hint)


def _of_another_task(key: str, network: Any) -> bool:
    """Whether a weight belongs to one of `OTHER_TASKS` that neither the network nor its base model has."""
    path = key.removeprefix(f"{network.base_model_prefix}.").split(".")
    own = {name for one in (network, network.base_model) for name, _ in one.named_children()}
    return path[0] in set(OTHER_TASKS) - own or not {"seq_relationship", "masked_bias"}.isdisjoint(path)


def check_finite(name: str, network: nn.Module) -> None:
    """Refuse weights that are NaN or infinite."""
    for key, value in sorted(network.state_dict().items()):
        if value.is_floating_point() and not torch.isfinite(value).all():
            got, hint = f"{name!r} with a weight {key} that is not finite", "load another checkpoint"
            raise ModelError("load_classifier", got=got, expected="finite weights", hint=hint)


def check_tokenizer(name: str, tokenizer: Any, vocabulary: int, *, causal: bool) -> None:
    """Refuse a tokenizer without the necessary special tokens, or with another vocabulary."""
    for special in () if causal else ("pad", "cls", "sep"):
        if getattr(tokenizer, f"{special}_token_id") is None:
            got, hint = f"{name!r}, whose tokenizer has no {special} token", "choose another tokenizer"
            expected = "pad, cls and sep tokens"
            raise ModelError("load_classifier", got=got, expected=expected, hint=hint)
    # Where its files are missing, transformers makes a tokenizer of special tokens only.
    if not len(tokenizer.all_special_ids) < len(tokenizer) <= vocabulary:
        got = f"{name!r}, whose tokenizer has {len(tokenizer)} tokens for the model's {vocabulary}"
        expected = "the tokenizer the model was trained with"
        hint = "save the tokenizer with the model by save_pretrained"
        raise ModelError("load_classifier", got=got, expected=expected, hint=hint)


LEAST_TOKENS = 3  # a word between two special tokens
MOST_LAYERS = 1_000
"""More than any model of these families has; layers are made one by one before the weights are read."""
CORRECT = "correct config.json, or save the model again with save_pretrained"


def check_saved_as(name: str, saved_as: Any) -> None:
    """Refuse `architectures` that are not a list of names."""
    if saved_as and not (isinstance(saved_as, list) and all(isinstance(one, str) for one in saved_as)):
        got = f"{name!r} with architectures {saved_as!r}"
        raise ModelError("load_classifier", got=got, expected="a list of names", hint=CORRECT)


def check_entries(name: str, config: Any) -> None:
    """Refuse entries of `config.json` of an impossible kind."""
    check_saved_as(name, config.architectures)
    labels, layers = config.id2label, getattr(config, "num_hidden_layers", 1)
    if sorted(labels) != list(range(len(labels))):
        got, expected = f"id2label with {sorted(labels)}", f"classes 0 to {max(1, len(labels) - 1)}"
    elif not is_whole(layers) or not 1 <= layers <= MOST_LAYERS:
        got, expected = f"{layers!r} layers", f"from 1 to {MOST_LAYERS} layers"
    else:
        wrong = _wrong_size(config) or _wrong_number(config)
        if wrong is None:
            return
        got, expected = wrong
    raise ModelError("load_classifier", got=f"{name!r} with {got}", expected=expected, hint=CORRECT)


SIZES = (
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "n_inner",
    "hidden_dim",
    "embedding_size",
    "num_hidden_groups",
    "vocab_size",
    "max_position_embeddings",
    "type_vocab_size",
    "num_channels",
)
EPSILONS = ("layer_norm_eps", "layer_norm_epsilon", "rms_norm_eps", "norm_eps")
FUNCTIONS = ("hidden_act", "hidden_activation", "activation", "activation_function", "classifier_activation")


def _entries(config: Any, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Those of the named entries that this family has; others in the file mean nothing to it."""
    known = {*getattr(type(config), "__dataclass_fields__", ()), *getattr(config, "attribute_map", ())}
    for name in names:
        if (name in known or not known) and hasattr(config, name):
            yield name, getattr(config, name)


def _wrong_size(config: Any) -> tuple[str, str] | None:
    """A size that is none, or sizes that do not fit together: what was given, and what is expected."""
    sizes = {name: value for name, value in _entries(config, SIZES) if value is not None}
    for name, value in sizes.items():
        if not is_whole(value) or value < 1:
            return f"{name} {shown(value)}", "a whole number, at least 1"
    hidden, heads = sizes.get("hidden_size"), sizes.get("num_attention_heads")
    if hidden is None or heads is None:
        return None
    keys, width = sizes.get("num_key_value_heads", heads), sizes.get("head_dim", hidden / heads)
    if width != int(width):
        return f"hidden_size {hidden} and {heads} heads", "a hidden_size that is a multiple of the heads"
    if heads % keys:
        return f"{heads} heads and {keys} key_value heads", "heads that are a multiple of the key_value heads"
    return None


def _wrong_number(config: Any) -> tuple[str, str] | None:
    """An epsilon that is none, or an activation function that nobody knows."""
    for name, value in _entries(config, EPSILONS):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            finite = "" if not isinstance(value, float) or math.isfinite(value) else ", which is not finite"
            return f"{name} {shown(value)}{finite}", "a small number, at least 0"
    from transformers.activations import ACT2FN

    for name, value in _entries(config, FUNCTIONS):
        if isinstance(value, str) and value not in ACT2FN:
            return f"{name} {shown(value)}", "an activation function of transformers, such as 'gelu'"
    return None


def longest(name: str, tokenizer: Any) -> int:
    """The tokenizer's `model_max_length`, which may be any number if nobody has set it."""
    given = tokenizer.model_max_length
    is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
    if is_number and LEAST_TOKENS <= given < math.inf:
        return int(given)
    got = f"{name!r}, whose tokenizer has model_max_length {given!r}"
    expected, hint = f"a number of tokens, at least {LEAST_TOKENS}", "correct tokenizer_config.json"
    raise ModelError("load_classifier", got=got, expected=expected, hint=hint)
