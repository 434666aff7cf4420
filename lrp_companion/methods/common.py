"""Common parts of the methods on text: batches, targets, outputs, and the final record."""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor
from tqdm import TqdmWarning, tqdm

from lrp_companion.attribution import Attribution, as_tuples, frozen
from lrp_companion.checks import InputError, ModelError, choose, is_whole, shown, whole
from lrp_companion.extras import extra
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.schema import TARGET_CHOICES
from lrp_companion.words import Units

Targets = Sequence[int | None]
Target = int | str | Iterable[int | str | None] | None
"""A class or its label for all inputs, one for each, or None: the class with the largest logit."""
MOST_NAMED = 10
"""Classes that a message lists by name."""
MOST_STEPS = 1000
"""Limit for integrated gradients: finding the nodes takes time cubic in their number."""


def check_classifier(operation: str, model: object, *, expected: str = "a Classifier") -> Classifier:
    """Return the model if `load_classifier` made it, as its network is now; else raise `ModelError`."""
    if isinstance(model, Classifier):
        return model.follow()
    got = f"a model of type {type(model).__name__}"
    raise ModelError(operation, got=got, expected=expected, hint="load one with load_classifier")


def plain_target(target: Any, count: int) -> Any:
    """A target in plain form: a list where there are several in any form that has an order (a column, tensor,
    range or generator), of which one more than `count` is enough to see that they are too many. The gaps of a
    column are None.

    >>> plain_target(np.array([1, 0]), 2), plain_target(torch.tensor(1), 2), plain_target("neutral", 2)
    ([1, 0], 1, 'neutral')
    """
    axes = getattr(target, "ndim", None)
    if axes == 0 and hasattr(target, "item"):  # an array or tensor of one number and no axis
        is_time = getattr(getattr(target, "dtype", None), "kind", None) in ("m", "M")
        return target if is_time else target.item()  # of a time, item() may be a number
    if (
        isinstance(target, (str, bytes, Mapping, Set))
        or not isinstance(target, Iterable)
        or axes not in (None, 1)
    ):
        return target
    sized = hasattr(target, "__len__") and not isinstance(target, range)  # a range may be endless
    given = target if sized else itertools.islice(target, count + 1)
    plain = [plain_target(one, 0) if getattr(one, "ndim", None) == 0 else one for one in given]
    if any(map(_is_gap, plain)):  # the gaps of a column, which make floats of its whole numbers
        plain = [int(one) if isinstance(one, float) and one.is_integer() else one for one in plain]
    return [None if _is_gap(one) else one for one in plain]


def _is_gap(one: object) -> bool:
    """Whether an entry of a column is missing: NaN, or what pandas has in its place."""
    return type(one).__name__ == "NAType" or (isinstance(one, float) and math.isnan(one))


def check_targets(target: Target, count: int, labels: Sequence[str]) -> list[int | None]:
    """One target per input: None (the predicted class), one class for all, or a class for each in order.

    A class is its number, from 0, or its label; text is always a label, and a number never is. NaN in a
    column, or the NA of pandas, is None.

    Raises
    ------
    InputError : another number of targets than inputs, no such class, or a label of several classes.

    >>> check_targets("neutral", 2, ("negative", "neutral", "positive")), check_targets([0, None], 2, "ab")
    ([1, 1], [0, None])
    """
    target = plain_target(target, count)
    targets: list[Any] = target if isinstance(target, list) else [target] * count
    if len(targets) != count:
        raise InputError(
            "attribute",
            got=f"{len(targets)} targets for {count} inputs",
            expected="one target per input",
            hint="pass a single class or as many as there are inputs",
        )
    places: dict[str, list[int]] = {}
    if any(isinstance(t, str) for t in targets):
        for k, label in enumerate(labels):
            places.setdefault(label, []).append(k)
    return [None if t is None else _class_of(t, labels, places) for t in targets]


def targets_of(clf: Classifier, target: Target, count: int) -> list[int | None]:
    """`check_targets` for a classifier's inputs; a language model's classes may be given by their text."""
    if target is None:
        return [None] * count
    target = plain_target(target, count)
    if isinstance(target, list):
        return check_targets([clf.class_of(one) for one in target], count, clf.labels)
    return check_targets(clf.class_of(target), count, clf.labels)


def _class_of(target: Any, labels: Sequence[str], places: Mapping[str, Sequence[int]]) -> int:
    """The number of a class that is given by its number or its label; `places` are the classes of a label."""
    named = places.get(target, ()) if isinstance(target, str) else ()
    if len(named) == 1:
        return named[0]
    if is_whole(target) and 0 <= target < len(labels):
        return int(target)
    expected = f"a class from 0 to {len(labels) - 1}, or None"
    if len(labels) <= MOST_NAMED and list(labels) != [str(k) for k in range(len(labels))]:
        expected = f"a class from 0 to {len(labels) - 1}, its label ({', '.join(labels)}), or None"
    got, hint = f"target {shown(target)}", "None explains the predicted class"
    if named:
        several = ", ".join(map(str, named[:MOST_NAMED]))
        got, expected = f"{got}, the label of the classes {several}", "one class"
        hint = f"name it by its number, such as target={named[0]}"
    elif is_whole(target) and (name := shown(int(target))) in labels:
        hint = f"the label {name!r}, as text, is class {labels.index(name)}"
    raise InputError("attribute", got=got, expected=expected, hint=hint)


def check_output(output: str, clf: Classifier) -> str:
    """Return the explained output if the classifier has it; else raise `InputError`.

    With a sigmoid for each label, classes do not compete, so there is no margin. A regression has one number,
    which is called its logit.
    """
    choose("attribute", "output", output, TARGET_CHOICES)
    if output != "logit" and clf.regression:
        got, hint = f"output {output!r} of a regression", "its one number is explained as it is"
        raise InputError("attribute", got=got, expected="output 'logit'", hint=hint)
    if output == "margin" and clf.multi_label:
        got, expected = "output 'margin' of a multi-label classifier", "output 'logit' or 'probability'"
        hint = "its labels do not exclude one another; leave the margin out"
        raise InputError("attribute", got=got, expected=expected, hint=hint)
    return output


def check_mask_token(clf: Classifier, asked: str) -> None:
    """Refuse what needs the tokenizer's [MASK] if it has none."""
    if clf.mask_id is None:
        _refuse_token(clf, asked, "mask token")


def check_pad_token(clf: Classifier, asked: str) -> None:
    """Refuse what needs the tokenizer's padding if it has none."""
    if clf.reads_images or clf.tokenizer.pad_token_id is None:
        _refuse_token(clf, asked, "padding")


def replacements(clf: Classifier) -> list[str]:
    """The tokens that a word can be replaced by, as options name them: those that the tokenizer has."""
    if clf.reads_images:
        return []
    has_padding = clf.tokenizer.pad_token_id is not None
    return ["pad-token"] * has_padding + ["mask-token"] * (clf.mask_id is not None)


def _refuse_token(clf: Classifier, asked: str, token: str) -> NoReturn:
    """Refuse a removal or a baseline that needs a token; the hint names what this tokenizer can do."""
    others = " or ".join(
        map(repr, ["attention-mask" if asked.startswith("removal") else "zero", *replacements(clf)])
    )
    if clf.reads_images:
        got, hint = f"{asked} with {clf.card.name!r}, which reads images", "take 'zero-pixels' or 'zero'"
        raise InputError("attribute", got=got, expected="a model of texts", hint=hint)
    article = "a " if token == "mask token" else ""
    got = f"{asked} with {clf.card.name!r}, whose tokenizer has no {token}"
    expected, hint = f"a tokenizer with {article}{token}", f"choose another one, such as {others}"
    raise InputError("attribute", got=got, expected=expected, hint=hint)


def check_bert_order(operation: str, clf: Classifier) -> Classifier:
    """Refuse a network unlike BERT, which has learned positions, norms after the sums, and reads [CLS]."""
    if clf.encoder.wiring.is_bert:
        return clf
    got = f"{clf.card.name!r} of family {clf.card.family!r}"
    expected = "a network in BERT's order: learned positions, norms after the sums, the first token read"
    raise ModelError(operation, got=got, expected=expected, hint="choose a BERT, RoBERTa or ELECTRA")


def check_options(method: str, options: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse options that a method does not use."""
    for name in options:
        if name not in allowed:
            raise InputError(
                "attribute",
                got=f"option {name!r} for method {method}",
                expected=f"one of {', '.join(sorted(allowed))}",
                hint="leave it out or change the method",
            )


def check_steps(n_steps: object) -> int:
    """The steps of integrated gradients, a whole number from 1 to `MOST_STEPS`."""
    return whole("attribute", "n_steps", n_steps, most=MOST_STEPS, hint="try n_steps=50")


def path_integral(function: Callable[..., Tensor]) -> Any:
    """Return captum's `IntegratedGradients` of a function.

    Raises
    ------
    SourceError : captum, which the extra `ig` installs, is missing.
    """
    with extra("attribute"), warnings.catch_warnings():
        # in a notebook captum's progress bars ask for ipywidgets on import; none of them is shown here
        warnings.simplefilter("ignore", TqdmWarning)
        from captum.attr import IntegratedGradients
    return IntegratedGradients(function)


def switch(name: str, value: object) -> bool:
    """Return `value` if it is a boolean; else raise `InputError`: the word "no" would count as true.

    >>> switch("residual", True)
    True
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    hint = "a word or a number is neither True nor False"
    raise InputError("attribute", got=f"{name} {shown(value)}", expected="True or False", hint=hint)


def classes_of(targets: Targets, logits: Tensor) -> Tensor:
    """The targets as a tensor (B,), with the predicted class where none was named."""
    predicted = logits.argmax(-1)
    return torch.stack(
        [
            predicted[k] if t is None else torch.as_tensor(t, device=logits.device)
            for k, t in enumerate(targets)
        ]
    )


def read_output(logits: Tensor, targets: Tensor, output: str, *, multi_label: bool) -> Tensor:
    """The explained number of each row, (B,): the target's logit, its margin over the best other class, or
    its probability by the softmax (with `multi_label`, by the label's sigmoid).
    """
    chosen = logits.gather(-1, targets[:, None])[:, 0]
    if output == "logit":
        return chosen
    if output == "probability" and multi_label:
        return chosen.sigmoid()
    if output == "probability":
        return logits.softmax(-1).gather(-1, targets[:, None])[:, 0]
    others = logits.scatter(-1, targets[:, None], -torch.inf)
    return chosen - others.amax(-1)


def output_gradient(logits: Tensor, targets: Tensor, output: str, *, multi_label: bool) -> Tensor:
    """The start of relevance, d output / d logits, (B, C): one-hot for a logit, contrastive for a margin."""
    with torch.enable_grad():
        leaf = logits.detach().clone().requires_grad_(True)
        values = read_output(leaf, targets, output, multi_label=multi_label)
        return torch.autograd.grad(values.sum(), leaf)[0]


def watch(items: Iterable, *, progress: bool | None, label: str, total: int | None = None) -> Iterable:
    """A progress bar on standard error: always, never, or (None) on a terminal after three seconds."""
    hidden = not sys.stderr.isatty() if progress is None else not switch("progress", progress)
    return tqdm(
        items, desc=label, total=total, disable=hidden, delay=3 if progress is None else 0, leave=False
    )


def attribution(
    clf: Classifier,
    text: EncodedText,
    scores: Tensor | np.ndarray,
    *,
    method: str,
    target: Tensor | int,
    logit: Tensor | float,
    choices: Mapping[str, Any],
    parts: Mapping[str, np.ndarray] | None = None,
    details: Mapping[str, Any] | None = None,
    units: Units | None = None,
) -> Attribution:
    """The record of one explained text, without scores beyond its length (padding); with `units` there is one
    score for each unit.

    Raises
    ------
    ModelError : scores that are NaN or infinite.
    """
    kept = finite(clf, to_numpy(scores)[: len(text)], f"{method} scores")
    tokens = units.names if units else text.tokens
    if kept.shape != (len(tokens),):
        got, expected = f"{method} scores of shape {kept.shape}", f"({len(tokens)},), one per token"
        raise InputError(
            "attribute", got=got, expected=expected, hint="return one score per token of the text"
        )
    known = {"label": clf.labels[int(target)], "model": clf.card.name, "dtype": clf.card.dtype}
    of_parts = {name: frozen(np.array(part, dtype=np.float64)) for name, part in (parts or {}).items()}
    return Attribution.made(
        tokens=tokens,
        scores=frozen(np.array(kept)),
        target=int(target),
        logit=finite(clf, to_numpy(logit), "logits").item(),
        special=frozen(np.array(units.special if units else text.special)),
        method=method,
        choices=MappingProxyType(as_tuples(choices)),
        parts=MappingProxyType(of_parts),
        details=MappingProxyType(as_tuples({**known, **text.details, **(details or {})})),
        text=text.joined,
        offsets=units.offsets if units else text.offsets,
    )


def finite(clf: Classifier, values: np.ndarray, what: str) -> np.ndarray:
    """Return the values if none is NaN or infinite; else refuse them, because the model overflowed."""
    if np.isfinite(values).all():
        return values
    got = f"{what} of {clf.card.name!r} that are not finite"
    hint = 'try dtype="float64", or another checkpoint'
    raise ModelError("attribute", got=got, expected="finite numbers", hint=hint)


def to_numpy(x: Tensor | np.ndarray | float) -> np.ndarray:
    return x.detach().double().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x, dtype=np.float64)
