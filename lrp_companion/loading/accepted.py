"""What can be explained: a classifier or a language model of a supported family, with all of its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lrp_companion.checks import ModelError
from lrp_companion.families import FAMILIES
from lrp_companion.families.tasks import CLASSES, IMAGE_CLASSES, TASKS, TOKEN_CLASSES, task_of
from lrp_companion.schema import MULTI_LABEL, PROBLEM_TYPES, REGRESSION

OF_ONE_OUTPUT = (None, REGRESSION, MULTI_LABEL)
"""Values of problem_type with which a classifier may have one output."""


def check_config(name: str, config: Any) -> None:
    """Refuse another family, another task, or outputs that are neither classes nor one number.

    Raises
    ------
    ModelError : one of these.
    """
    architectures = config.architectures or []
    task = task_of(architectures)
    if config.model_type not in FAMILIES:
        got, expected = f" of family {config.model_type!r}", f"one of {', '.join(FAMILIES)}"
        hint = "choose a model of these families"
    elif task is None:
        got = f", saved as {', '.join(architectures) or 'no known architecture'}"
        expected = f"a sequence classifier, or a model whose class ends in {', '.join(list(TASKS)[1:])}"
        hint = "choose a model that was fine-tuned for one of these tasks"
    elif task not in (CLASSES, TOKEN_CLASSES, IMAGE_CLASSES):
        return
    else:
        one_output = config.num_labels == 1 and task != TOKEN_CLASSES
        if (config.problem_type or PROBLEM_TYPES[0]) not in PROBLEM_TYPES:
            got, expected = (
                f" with problem_type {config.problem_type!r}",
                f"one of {', '.join(PROBLEM_TYPES)}",
            )
            hint = "choose a classifier, or a regression with one output"
        elif config.num_labels < 2 and not (one_output and config.problem_type in OF_ONE_OUTPUT):
            got, expected = f" with {config.num_labels} label", "a classifier with at least 2 labels"
            hint = "one output of a text or an image is a regression, or a sigmoid if it is multi-label"
        elif config.problem_type == REGRESSION and not one_output:
            got = f", a regression with {config.num_labels} outputs"
            expected = "a regression of a text or an image with one output"
            hint = "several outputs are not supported"
        else:
            return
    raise ModelError("load_classifier", got=f"{name!r}{got}", expected=expected, hint=hint)


OTHER_TASKS = {
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
    missing = sorted(key for key in report["missing_keys"] if "position_ids" not in key)
    unused = sorted(key for key in report["unexpected_keys"] if not _of_another_task(key, network))
    prefixes = [key.removesuffix(lack) for lack in missing for key in unused if key.endswith(f".{lack}")]
    small = [
        key for key, value in network.named_parameters() if value.is_floating_point() and value.itemsize < 2
    ]
    if small:  # converted without their scales they would be other weights
        got, expected = f"{name!r}, whose weight {small[0]} has 8 bits", "weights of 16 bits or more"
        hint = "load the model without quantisation, or give it dequantize()"
    elif report["mismatched_keys"]:
        key, given, wanted = min(report["mismatched_keys"])
        got, expected = f"{name!r} with {key} of shape {tuple(given)}", f"shape {tuple(wanted)}"
        hint = "correct config.json, or save the model again with save_pretrained"
    elif prefixes:
        got, expected = f"{name!r} with weights under {prefixes[0]!r}", "names as the network has them"
        hint = "save the network inside of the wrapper, as in model.module.save_pretrained(folder)"
    elif missing:
        got, hint = f"{name!r} without the weights {', '.join(missing[:3])}", "fine-tune the model first"
        if unused:
            got, hint = f"{got}, with {unused[0]}", "merge its adapters, and save it with save_pretrained"
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
    return path[0] in OTHER_TASKS - own or not UNUSED.isdisjoint(path)


def check_tokenizer(name: str, tokenizer: Any, vocabulary: int) -> None:
    """Refuse a tokenizer of another vocabulary, or of special tokens only, which `transformers` makes where a
    tokenizer's files are missing.

    Raises
    ------
    ModelError : such a tokenizer.
    """
    if len(tokenizer.all_special_ids) < len(tokenizer) <= vocabulary:
        return
    got = f"{name!r}, whose tokenizer has {len(tokenizer)} tokens for the model's {vocabulary}"
    hint = "save the tokenizer with the model by save_pretrained"
    raise ModelError(
        "load_classifier", got=got, expected="the tokenizer the model was trained with", hint=hint
    )
