"""Impossible entries of a model's configuration, refused before its weights are read."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from lrp_companion.checks import ModelError, is_whole, shown

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
    for name, value in _entries(config, FUNCTIONS):
        if isinstance(value, str) and value not in _functions():
            return f"{name} {shown(value)}", "an activation function of transformers, such as 'gelu'"
    return None


def _functions() -> Iterable[str]:
    from transformers.activations import ACT2FN

    return ACT2FN


def check_all_layers(name: str, config: Any, unexpected_keys: Iterable[str]) -> None:
    """Refuse weights of layers beyond those of `config.json`: without them it is another model."""
    numbers = [re.search(r"\.layer\.(\d+)\.", key) for key in unexpected_keys]
    beyond = [int(match[1]) + 1 for match in numbers if match]
    if beyond and max(beyond) > config.num_hidden_layers:
        got = f"{name!r} of {config.num_hidden_layers} layers with weights of {max(beyond)}"
        expected, hint = "as many layers as weights", "correct num_hidden_layers in config.json"
        raise ModelError("load_classifier", got=got, expected=expected, hint=hint)


def longest(name: str, tokenizer: Any) -> int:
    """The tokenizer's `model_max_length`, which may be any number if nobody has set it."""
    given = tokenizer.model_max_length
    is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
    if is_number and LEAST_TOKENS <= given < math.inf:
        return int(given)
    got = f"{name!r}, whose tokenizer has model_max_length {given!r}"
    expected, hint = f"a number of tokens, at least {LEAST_TOKENS}", "correct tokenizer_config.json"
    raise ModelError("load_classifier", got=got, expected=expected, hint=hint)
