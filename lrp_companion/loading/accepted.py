"""What can be explained: a classifier or a language model of a supported family, with all of its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lrp_companion.checks import ModelError
from lrp_companion.families import FAMILIES
from lrp_companion.families.tasks import TASKS, task_of
from lrp_companion.schema import REGRESSION


def check_config(name: str, config: Any) -> None:
    """Refuse another family, another task, or a regression with several outputs.

    Raises
    ------
    ModelError : one of these.
    """
    architectures = config.architectures or []
    if config.model_type not in FAMILIES:
        got, expected = f" of family {config.model_type!r}", f"one of {', '.join(FAMILIES)}"
        hint = "choose a model of these families"
    elif task_of(architectures) is None:
        got = f", saved as {', '.join(architectures) or 'no known architecture'}"
        expected = f"a sequence classifier, or a model whose class ends in {', '.join(list(TASKS)[1:])}"
        hint = "choose a model that was fine-tuned for one of these tasks"
    elif config.problem_type == REGRESSION and config.num_labels != 1:
        got, expected = f", a regression with {config.num_labels} outputs", "a regression with one output"
        hint = "several outputs are not supported"
    else:
        return
    raise ModelError("load_classifier", got=f"{name!r}{got}", expected=expected, hint=hint)


OTHER_TASKS = {
    "pooler",
    "cls",
    "lm_predictions",
    "mask_predictions",
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
}
"""Modules after the last layer, as heads of other tasks: what a network without them computes needs none."""
UNUSED = {"seq_relationship", "masked_bias"}
"""Parts of modules that no logit depends on."""


def check_keys(name: str, network: Any, report: Mapping[str, Any]) -> None:
    """Refuse a checkpoint that lacks weights of the network, or has weights that the network does not take.

    Raises
    ------
    ModelError : such weights, but for those of `OTHER_TASKS` that the network has no module for; weights of
        another shape, or of 8 bits.
    """
    halved = [
        key for key, value in network.named_parameters() if value.is_floating_point() and value.itemsize < 2
    ]  # converted without their scales they would be other weights
    wrong = {
        "in 8 bits": halved,
        "of another shape": [key for key, *_ in report["mismatched_keys"]],
        "lacking": [key for key in report["missing_keys"] if "position_ids" not in key],
        "that its network does not take": [
            key for key in report["unexpected_keys"] if not _of_another_task(key, network)
        ],
    }
    found = [f"{how}: {', '.join(sorted(keys)[:3])}" for how, keys in wrong.items() if keys]
    if found:
        expected = "exactly the weights of the network that config.json describes"
        hint = "fine-tune the model, merge adapters, correct config.json, or save with save_pretrained"
        got = f"{name!r} with weights {' and weights '.join(found)}"
        raise ModelError("load_classifier", got=got, expected=expected, hint=hint)


def _of_another_task(key: str, network: Any) -> bool:
    """Whether a weight belongs to one of `OTHER_TASKS` that neither the network nor its base model has."""
    path = key.removeprefix(f"{network.base_model_prefix}.").split(".")
    own = {name for one in (network, network.base_model) for name, _ in one.named_children()}
    return path[0] in OTHER_TASKS - own or not UNUSED.isdisjoint(path)


def check_tokenizer(name: str, tokenizer: Any, vocabulary: int) -> None:
    """Refuse a network without its tokenizer, and one of another vocabulary or of special tokens only, which
    `transformers` makes where a tokenizer's files are missing.

    Raises
    ------
    ModelError : such a tokenizer.
    """
    if tokenizer is not None and len(tokenizer.all_special_ids) < len(tokenizer) <= vocabulary:
        return
    got = f"{name!r} without its tokenizer"
    if tokenizer is not None:
        got = f"{name!r}, whose tokenizer has {len(tokenizer)} tokens for the model's {vocabulary}"
    expected, hint = "the tokenizer the model was trained with", "load_classifier(network, tokenizer)"
    raise ModelError("load_classifier", got=got, expected=expected, hint=hint)
