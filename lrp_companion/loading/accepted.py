"""Checks of a model's configuration, weights and tokenizer, with one line on what is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from lrp_companion.checks import ModelError
from lrp_companion.families import FAMILIES
from lrp_companion.families.tasks import CLASSES, IMAGE_CLASSES, TASKS, TOKEN_CLASSES, task_of
from lrp_companion.loading.config_entries import check_entries
from lrp_companion.schema import MULTI_LABEL, PROBLEM_TYPES, REGRESSION

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


def check_complete(name: str, missing_keys: Iterable[str]) -> None:
    """Refuse a model for which transformers had to invent weights."""
    missing = sorted(key for key in missing_keys if "position_ids" not in key)
    if missing:
        got, hint = f"{name!r} without the weights {', '.join(missing[:3])}", "fine-tune the model first"
        raise ModelError("load_classifier", got=got, expected="a complete, fine-tuned classifier", hint=hint)


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
