"""One class against another: the difference of two logits as the explained output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError, shown
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods.common import check_targets, plain_target

Explain = Callable[..., list[Attribution]]


def contrasted(
    explain: Explain, clf: Classifier, inputs: Any, *, target: Any, contrast: Any, **options: Any
) -> list[Attribution]:
    """Explain `logit of target - logit of contrast` by any method that explains a margin.

    The classifier is narrowed to the two classes, whose margin is this difference; `explain` is `attribute`.

    Raises
    ------
    InputError : no target, several targets, the same class twice, or another `output`.
    """
    hint = "name two classes, such as target=1, contrast=0"
    target, contrast = plain_target(target, 1), plain_target(contrast, 1)
    if target is None or isinstance(target, list) or isinstance(contrast, list):
        got = f"contrast {shown(contrast)} with target {shown(target)}"
        expected = "one target and one contrast"
        raise InputError("attribute", got=got, expected=expected, hint=hint)
    if options.get("output", "logit") != "logit":
        got, expected = f"contrast with output {options['output']!r}", "a contrast of two logits"
        raise InputError("attribute", got=got, expected=expected, hint="leave output out")
    pair = check_targets([clf.class_of(target), clf.class_of(contrast)], 2, clf.labels)
    if pair[0] == pair[1]:
        got = f"the class {clf.labels[pair[0] or 0]!r} against itself"
        raise InputError("attribute", got=got, expected="two classes", hint=hint)
    narrowed = clf.narrowed([int(k) for k in pair if k is not None])
    records = explain(narrowed, inputs, target=0, **{**options, "output": "margin"})
    chosen = {"output": "logit", "contrast": clf.labels[pair[1] or 0]}
    return [replace(r, target=int(pair[0] or 0), choices={**r.choices, **chosen}) for r in records]
