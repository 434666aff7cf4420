"""Attribution methods by name, for text classifiers and for the linear-attention image nets."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError, ModelError, choose
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods.common import Target, check_options, explain, targets_of
from lrp_companion.methods.completion import all_of, answers, contrasted
from lrp_companion.methods.image import IMAGE_METHODS, attribute_images
from lrp_companion.methods.lrp import layer_lattice, layer_relevance
from lrp_companion.methods.perturbation import kept_logits, removal_evaluator
from lrp_companion.registry import METHODS
from lrp_companion.toys.linear_attention import LinearAttention

__all__ = [
    "IMAGE_METHODS",
    "METHODS",
    "attribute",
    "explain",
    "kept_logits",
    "layer_lattice",
    "layer_relevance",
    "method_call",
    "removal_evaluator",
]
for _file in pkgutil.iter_modules(__path__):  # so that their methods are bound to their rows
    importlib.import_module(f"{__name__}.{_file.name}")


def options_of(name: str, *, images: bool = False) -> list[str]:
    """Names of the options that a method takes on text or on images, besides `target` and `truncate`."""
    if not images:
        return list(METHODS[name].options)
    parameters = inspect.signature(IMAGE_METHODS[name]).parameters.values()
    return sorted(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def method_call(name: str, *, images: bool = False) -> tuple[str, dict[str, Any]]:
    """Parse a method and its options, `METHOD` or `METHOD:option=value:option=value`, several values joined
    by "+".

    >>> method_call("mask-gradient:groups=8:nodes=0.2+1"), method_call("lrp:shares=flat", images=True)
    (('mask-gradient', {'groups': 8, 'nodes': (0.2, 1)}), ('lrp', {'shares': 'flat'}))
    """
    method, *rest = name.split(":")
    choose("attribute", "method", method, tuple(IMAGE_METHODS if images else METHODS))
    options = {}
    for part in rest:
        key, equals, value = part.partition("=")
        if not equals or not key or not value or key in options:
            hint = "such as mask-gradient:groups=8:nodes=0.2+1"
            raise InputError(
                "attribute", got=f"method {name!r}", expected="each option once, as option=value", hint=hint
            )
        values = tuple(_value(text) for text in value.split("+"))
        options[key] = values if len(values) > 1 or key == "bypass" else values[0]
    check_options(repr(method), options, options_of(method, images=images))
    return method, options


def _value(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


MORE = ("contrast", "position", "completion", "chat_template_kwargs")
"""Options of `attribute` that no method takes."""


def attribute(
    model: Any, inputs: Any, *, method: str, target: Target = None, **options: Any
) -> list[Attribution]:
    """Explain every input: one score per token of a text, per patch of an image, or per pixel.

    Parameters
    ----------
    model : a `Classifier` (from `load_classifier`) or a `LinearAttention`.
    inputs : a text, a pair of texts as a tuple of two strings, token ids, the messages of a talk (for the
        tokenizer's chat template), or a list of these; for a classifier of images, an array or tensor (H, W),
        (C, H, W) or (B, C, H, W) of floats as the network reads them, or of whole numbers, which are scaled
        as its image processor specifies; for `LinearAttention`, images (B, 14, 14) or (B, 196).
    method : a name of `registry.METHODS`, such as "loo", "ig", "gradient-x-input", "rollout", "attnlrp",
        "cp-lrp", "pa-lrp", "key-cut", "lrp" with `bypass` and `cut`, "mask-gradient" with `groups`,
        "secant-mask-gradient" (whose `special` tokens are exact), "hybrid" (LOO for the `exact` tokens with
        the largest mask gradient), "sampled-loo" (LOO for a random `budget` of tokens), or "shapley".
    target : the class to explain, by its number from 0 or its label (text): one for all, or a list, column or
        tensor with one per input; None for the class with the largest logit. For a language model the class
        is the next or the masked token, by its text, such as " Paris"; for a sentence encoder the other text.
    options : keyword-only, refused by methods that do not use them. On text: `site` ("word",
        "word+position", "embedding") and `epsilon` (LRP), `gate` (gated MLPs under LRP: "uniform",
        "right", "flat" or "constant"), `positions` (PA-LRP where positions are rotations: "absolute" or
        "signed"), `bypass` (layers from 1, for "lrp"), `output` ("logit", "margin" for a contrastive start
        against the best other class, "probability": for a multi-label classifier the label's sigmoid, and
        there is no margin), `contrast` (a class whose logit is subtracted from the target's), `position` (for
        token classification: the token, from 0, whose classes are explained, or a word; one for all texts or
        one for each; for language models the token after which the next is explained), `completion` (for
        language models: what follows a prompt, as text or token ids, or how many tokens it is to add, each
        the most likely; for several prompts one for all or a list; `contrast` is then another text of as many
        tokens), `chat_template_kwargs` (further options of the chat template), `removal`
        ("attention-mask", "mask-token", "pad-token" (a causal classifier is read where the whole text is),
        "delete"; LOO, shapley; for patches only the first), `n_steps`
        and `baseline` (IG: "auto", "pad-token", "mask-token", "zero", for patches "zero-pixels"),
        `groups`, `nodes` and `seed` (mask-gradient, hybrid), `exact` and `correct` (hybrid), `budget`
        and `seed` (sampled-loo), `exact`, `permutations` and `seed` (shapley), `residual`, `head_fusion`
        and `row` (rollout), `batch_tokens`, `progress`, `truncate` (cut texts beyond the model's length as
        the tokenizer does), `compare` ("new":
        the logits of a text that is unlike any before are compared with the network's own; "all": those of
        every text). `unit` is what is removed at once (LOO, mask-gradient,
        hybrid, shapley) or summed over (others): "token", "word", "sentence", of a chat "message" or
        "document", or spans as in `Attribution.spans` (for several texts, a list of spans for each).
        `METHODS[name].defaults` of `lrp_companion.registry` are the options with their defaults.

    Returns
    -------
    list
        A list of `Attribution`, in the order of the inputs; with `completion` a `Completion`, which is a
        list of one record per token of it, or a list of these. Autocast, inference mode and dropout that
        the caller has switched on have no effect on the scores.

    Raises
    ------
    InputError : bad input or options.
    ModelError : a model of another kind; a logit that is not the network's own.

    >>> attribute(clf, ["a film of rare grace"], method="cp-lrp")[0].tokens  # doctest: +SKIP
    ('[CLS]', 'a', 'film', 'of', 'rare', 'grace', '[SEP]')
    """
    if isinstance(model, LinearAttention):
        choose("attribute", "method", method, tuple(IMAGE_METHODS))
        return attribute_images(model, inputs, method=method, target=target, **options)
    if not isinstance(model, Classifier):
        got, hint = f"a model of type {type(model).__name__}", "load one with load_classifier"
        raise ModelError("attribute", got=got, expected="a Classifier or a LinearAttention", hint=hint)
    choose("attribute", "method", method, tuple(METHODS))
    known = [*METHODS[method].options, "target", "truncate", "compare"]
    known += ["contrast"] if "output" in known else []
    known += ["unit"] if METHODS[method].takes is not None and method != "sampled-loo" else []
    contrast, position, completion, template = (options.pop(name, None) for name in MORE)
    check_options(repr(method), options if contrast is None else (*options, "contrast"), known)
    truncate, compare = options.pop("truncate", False), options.pop("compare", None)
    clf = model.for_call(target, contrast, template, compare, truncate=truncate)
    if completion is not None:
        asked = {"target": target, "position": position, "contrast": contrast}
        return answers(clf, inputs, completion, method=method, **asked, **options)
    several = isinstance(target, str) and target == "all" and not clf.encoder.wiring.of_vocabulary
    if several and contrast is None and "all" not in clf.labels:
        texts, targets = all_of(clf, inputs, truncate=truncate, position=position)
        return explain(method, clf, texts, targets, **options)
    texts = clf.encode(inputs, truncate=truncate, position=position)
    if contrast is not None:
        return contrasted(clf, texts, target, contrast, method=method, **options)
    return explain(method, clf, texts, targets_of(clf, target, len(texts)), **options)
