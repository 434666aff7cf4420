"""Impossible entries of a model's configuration, refused before its weights are read."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from lrp_companion.schema import ModelError, is_whole

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
        return
    raise ModelError("load_classifier", got=f"{name!r} with {got}", expected=expected, hint=CORRECT)


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
