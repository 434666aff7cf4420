"""More than one logit: all tokens of a completion, classes or places of a text; one class against another."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError, is_whole, shown, whole
from lrp_companion.completion import Completion
from lrp_companion.families.tasks import TOKEN_CLASSES
from lrp_companion.families.wiring import fresh_rotations
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.loading.compute import as_recorded
from lrp_companion.loading.texts import Ids, is_ids, tokenised
from lrp_companion.methods.common import check_output, check_targets, plain_target
from lrp_companion.methods.request import explain as explain_texts
from lrp_companion.registry import METHODS

LINEAR = ("attnlrp", "cp-lrp", "lrp", "loo", "gradient-x-input", "mask-gradient")
"""Methods whose explanation of a difference is the difference of the explanations."""


def all_of(
    clf: Classifier, inputs: Any, *, truncate: bool, position: Any
) -> tuple[list[EncodedText], list[int | None]]:
    """Every text once for each of its classes, or for each place where a model of token classes has none
    given, with the target.
    """
    every_place = clf.encoder.wiring.task == TOKEN_CLASSES and position is None
    texts = clf.encode(inputs, truncate=truncate, position=0 if every_place else position)
    if not every_place:
        classes = range(len(clf.labels))
        return [text for text in texts for _ in classes], [k for _ in texts for k in classes]
    places = [
        dataclasses.replace(text, read=place, along=text)
        for text in texts
        for place in np.flatnonzero(~text.special).tolist()
    ]
    return places, [None] * len(places)


def completed(
    explain: Callable[..., list[Attribution]],
    clf: Classifier,
    prompt: Any,
    *,
    method: str,
    completion: Any,
    target: Any,
    contrast: Any,
    position: Any,
    truncate: bool,
    compare: str | None,
    **options: Any,
) -> Completion:
    """Explain each token of what follows a prompt; `explain` is `attribute`.

    All tokens are explained from one forward pass of the whole, and what LOO removes is removed once.

    Raises
    ------
    InputError : several prompts; a target or a position, too; a completion without tokens, or one that is
        too long; a contrast of another length.
    """
    if target is not None or position is not None:
        got = "completion with a target or a position"
        raise InputError("attribute", got=got, expected="one of them", hint="leave the others out")
    clf = clf.comparing(compare)
    output = check_output(options.get("output", "logit"), clf)
    text, *further = clf.encode(prompt, truncate=truncate)
    if further:
        got, hint = f"{1 + len(further)} prompts with a completion", "call it once per prompt"
        raise InputError("attribute", got=got, expected="one prompt", hint=hint)
    if is_whole(completion):
        ids = _greedy(clf, text, completion)
    else:
        ids = token_ids(clf, text, completion, "completion")
    others = [] if contrast is None else token_ids(clf, text, contrast, "contrast")
    if others and (len(others) != len(ids) or output != "logit"):
        got = f"contrast {shown(contrast)} of {len(others)} tokens, output {output!r}"
        expected = f"a contrast of logits with as many tokens as the completion, {len(ids)}"
        raise InputError("attribute", got=got, expected=expected, hint="shorten the longer of the two")
    texts = _beginnings(clf, text, ids)
    if not isinstance(options.get("unit", "token"), str):
        options["unit"] = [options["unit"]] * len(ids)
    if others and method not in LINEAR:
        records = []
        for beginning, one, other in zip(texts, ids, others, strict=True):
            known = {"target": one, "method": method, **options}
            if one == other:
                (same,) = explain(clf, beginning.source, **known)
                records.append(_less(same, same))
            else:
                records += contrasted(explain, clf, beginning.source, contrast=other, **known)
        return Completion(records)
    takes_output = "output" in METHODS[method].options
    classes, few = list(range(len(clf.labels))), clf
    if takes_output and output == "logit":  # no other logit is read
        classes = sorted({*ids, *others})
        few = clf.narrowed(classes)
    row = {k: n for n, k in enumerate(classes)}
    both = texts * (2 if others else 1)
    with as_recorded(clf.device, clf.network):
        records = explain_texts(method, few, both, [row[k] for k in (*ids, *others)], **options)
    records = [dataclasses.replace(r, target=classes[r.target]) for r in records]
    return Completion(list(map(_less, records, records[len(ids) :])) if others else records)


def _less(record: Attribution, other: Attribution) -> Attribution:
    """The explanation of a difference of logits; a record's logit stays that of its own token."""
    parts = {name: value - other.parts[name] for name, value in record.parts.items()}
    choices = {**record.choices, "contrast": other.details["label"]}
    details = {k: v - other.details[k] if k == "value" else v for k, v in record.details.items()}
    scores = record.scores - other.scores
    return dataclasses.replace(record, scores=scores, parts=parts, choices=choices, details=details)


def token_ids(clf: Classifier, text: EncodedText, given: Any, name: str) -> list[int]:
    """The token ids of what follows a text: those that stand there if both are read as one, if they do."""
    if is_ids(given):
        ids = [int(k) for k in given]
    elif isinstance(given, str):
        prompt, ids = list(text.input_ids), []
        if text.pair is None and not (text.bare or text.cut):
            joined = list(tokenised(clf.tokenizer, [text.text + given])["input_ids"][0])
            ids = joined[len(prompt) :] if joined[: len(prompt)] == prompt else []
        ids = ids or list(tokenised(clf.tokenizer, [given], add_special_tokens=False)["input_ids"][0])
    else:
        ids = []
    if ids:
        return ids
    got = f"{name} {shown(given)}"
    expected = "a text or token ids with at least one token, or for a completion a number of tokens"
    raise InputError("attribute", got=got, expected=expected, hint="such as completion=' Paris' or 8")


@torch.no_grad()
def _greedy(clf: Classifier, text: EncodedText, count: Any) -> list[int]:
    """The most likely next token, so often, or until the text ends."""
    count = whole("attribute", "completion", count, hint="try completion=8, or a text")
    network: Any = clf.network
    end, out, kept = clf.tokenizer.eos_token_id, list[int](), None
    given = torch.tensor([text.input_ids], device=clf.device)
    check_length(clf, len(text) + count - 1)
    fresh_rotations(network)
    with as_recorded(clf.device, clf.network):
        while len(out) < count and (not out or out[-1] != end):
            answer = network(input_ids=given, past_key_values=kept, use_cache=True)
            out.append(int(answer.logits[0, -1].argmax()))
            given, kept = torch.tensor([out[-1:]], device=clf.device), answer.past_key_values
    return out


def check_length(clf: Classifier, tokens: int) -> None:
    if tokens > clf.max_tokens:
        got, expected = f"prompt and completion of {tokens} tokens", f"at most {clf.max_tokens} tokens"
        raise InputError("attribute", got=got, expected=expected, hint="shorten them")


def _beginnings(clf: Classifier, prompt: EncodedText, ids: list[int]) -> list[EncodedText]:
    """The prompt with what comes before each token of its completion, as texts of one pass."""
    check_length(clf, len(prompt) + len(ids) - 1)
    whole_text = [*prompt.input_ids, *ids[:-1]]
    clf.reader.check_ids(0, [*whole_text, *ids[-1:]])
    texts = clf.encode([Ids(whole_text[: len(prompt) + k]) for k in range(len(ids))])
    # a text's rotations may depend on its length
    along = texts[-1] if clf.encoder.wiring.rotary_from is None else None
    out = []
    for text in texts:
        marks = np.append(prompt.special, text.special[len(prompt) :])
        text = dataclasses.replace(text, along=along, special=marks)
        if prompt.bare:  # the chat template's own text
            added = clf.tokenizer.decode(text.input_ids[len(prompt) :], clean_up_tokenization_spaces=False)
            text = dataclasses.replace(text, text=prompt.text + added)
        out.append(text)
    return out


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
