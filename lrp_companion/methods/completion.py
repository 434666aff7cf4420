"""More than one logit: all tokens of a completion, classes or places of a text; one class against another."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from lrp_companion.attribution import Attribution, Completion
from lrp_companion.checks import InputError, is_whole, shown, whole
from lrp_companion.families.tasks import NEXT_TOKEN, TOKEN_CLASSES
from lrp_companion.families.wiring import fresh_rotations
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.loading.reading import quietly
from lrp_companion.loading.texts import control_ids, kind_of, token_texts, tokenised
from lrp_companion.methods.common import check_output, explain, targets_of
from lrp_companion.registry import METHODS
from lrp_companion.tape.encoder import as_recorded
from lrp_companion.words import Span

LINEAR = (
    "attnlrp",
    "cp-lrp",
    "key-cut",
    "lrp",
    "loo",
    "gradient-x-input",
    "mask-gradient",
    "secant-mask-gradient",
)
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
    read = [(text, place) for text in texts for place in np.flatnonzero(~text.special).tolist()]
    return [replace(text, read=place, along=text) for text, place in read], [None] * len(read)


def answers(clf: Classifier, prompts: Any, completion: Any, *, contrast: Any, **options: Any) -> Any:
    """A `Completion` of one prompt, or a list with one for each of several prompts: what follows, and its
    contrast, is one for all or a list of as many.
    """
    if not isinstance(prompts, list) or kind_of(prompts)[0]:
        return completed(clf, prompts, completion, contrast=contrast, **options)
    several = [
        one if isinstance(one, list) and not kind_of(one)[0] else [one] * len(prompts)
        for one in (completion, contrast)
    ]
    counts = {len(one) for one in several}
    if counts != {len(prompts)}:
        got = f"{len(prompts)} prompts, and {' and '.join(str(len(one)) for one in several)} to follow"
        hint = "pass one for each prompt"
        raise InputError("attribute", got=got, expected="as many completions as prompts", hint=hint)
    clf.encode(prompts, truncate=True)  # says the number of an odd one
    rows = zip(prompts, *several, strict=True)
    return [completed(clf, prompt, after, contrast=other, **options) for prompt, after, other in rows]


def completed(
    clf: Classifier,
    prompt: Any,
    completion: Any,
    *,
    method: str,
    target: Any,
    position: Any,
    contrast: Any,
    **options: Any,
) -> Completion:
    """Explain each token of what follows a prompt.

    All tokens are explained from one forward pass of the whole, and what LOO removes is removed once.
    """
    alone = target is None and position is None
    if clf.encoder.wiring.task != NEXT_TOKEN or not alone:
        got = f"a completion with {clf.card.name!r}, which predicts {clf.encoder.wiring.task}"
        got = got if alone else "completion with a target or a position"
        expected = "a model of the next token, without target and position"
        raise InputError("attribute", got=got, expected=expected, hint="leave it out")
    output = check_output(options.get("output", "logit"), clf)
    begin = opened(clf, prompt)
    start, more = len(begin), {}
    if is_whole(completion):
        completion, more["ended"] = written(clf, begin, completion)
    read, stops = followed(clf, begin, completion)
    against = [] if contrast is None else [followed(clf, begin, contrast, "contrast")[0]]
    ids, others = read.input_ids[start:], [k for one in against for k in one.input_ids[start:]]
    if others and (len(others) != len(ids) or output != "logit"):
        got = f"contrast {shown(contrast)} of {len(others)} tokens, output {output!r}"
        expected = f"a contrast of logits with as many tokens as the completion, {len(ids)}"
        raise InputError("attribute", got=got, expected=expected, hint="shorten the longer of the two")
    texts = [beginning(read, start + k, stop) for k, stop in enumerate(stops[:-1])]
    if others and method not in LINEAR:
        pairs = zip(texts, ids, others, strict=True)
        records = [_margins(clf, [text], pair, method=method, **options)[0] for text, *pair in pairs]
    else:
        if clf.encoder.wiring.rotary_from is None:  # else a text's rotations may depend on its length
            texts = [replace(text, along=texts[-1]) for text in texts]
        if not isinstance(options.get("unit", "token"), str):
            options["unit"] = [options["unit"]] * len(ids)
        takes_output = "output" in METHODS[method].options
        classes, few = list(range(len(clf.labels))), clf
        if takes_output and output == "logit":  # no other logit is read
            classes = sorted({*ids, *others})
            few = clf.narrowed(classes)
        row = {k: n for n, k in enumerate(classes)}
        both = texts * (2 if others else 1)
        records = explain(method, few, both, [row[k] for k in (*ids, *others)], **options)
        records = [replace(r, target=classes[r.target]) for r in records]
        records = list(map(_less, records, records[len(ids) :])) if others else records
    spelled = [read.text[a:b] for a, b in itertools.pairwise(stops)]
    details = [{**r.details, "text": text, **more} for r, text in zip(records, spelled, strict=True)]
    return Completion(list(map(lambda r, d: replace(r, details=d), records, details)))


def _less(record: Attribution, other: Attribution) -> Attribution:
    """The explanation of a difference of logits; a record's logit stays that of its own token."""
    parts = {name: value - other.parts[name] for name, value in record.parts.items()}
    choices = {**record.choices, "contrast": other.details["label"]}
    details = {k: v - other.details[k] if k == "value" else v for k, v in record.details.items()}
    scores = record.scores - other.scores
    return replace(record, scores=scores, parts=parts, choices=choices, details=details)


def opened(clf: Classifier, prompt: Any) -> EncodedText:
    """One prompt without the special tokens that its tokenizer puts after a text, since it is to go on."""
    text = clf.encode_one("attribute", prompt, truncate=True)
    check_length(clf, text.whole)
    if text.bare:
        return text
    return replace(beginning(text, _end(text.special), len(text.joined)), text=text.text, pair=text.pair)


def _end(special: Sequence[int] | np.ndarray) -> int:
    """The number of tokens up to the last that is not special."""
    return 1 + max(k for k, mark in enumerate(special) if not mark)


def beginning(text: EncodedText, end: int, stop: int) -> EncodedText:
    """The first tokens of a text and its characters up to `stop`, with what follows them."""
    parts = {
        name: getattr(text, name)[:end] for name in ("input_ids", "tokens", "special", "types", "offsets")
    }
    joined = text.joined
    marks = zip(text.special[end:], text.offsets[end:], strict=False)
    closed = next((start for mark, (start, _) in marks if mark), len(joined))  # no word goes on behind it
    return replace(text, **parts, whole=end, text=joined[:stop], pair=None, follows=joined[stop:closed])


def followed(
    clf: Classifier, prompt: EncodedText, given: Any, name: str = "completion"
) -> tuple[EncodedText, list[int]]:
    """A prompt with what follows it, token ids or a text that is read with it as one; and where in the whole
    text the prompt ends, and each token after it.
    """
    ids, text, spans = list[int](), "", list[Span]()
    kind, given = kind_of(given)
    if kind == "ids":
        ids = [int(k) for k in given]
        clf.reader.check_ids(0, ids)
        text, spans = _decoded(clf.tokenizer, prompt.input_ids, ids)
    elif kind == "text":
        text, (ids, spans) = given, _read_on(clf, prompt, given, f"{name} {shown(given)}")
    if not ids:
        expected = "a text or token ids with at least one token, or for a completion a number of tokens"
        hint = "such as completion=' Paris' or 8"
        raise InputError("attribute", got=f"{name} {shown(given)}", expected=expected, hint=hint)
    check_length(clf, len(prompt) + len(ids) - 1)
    control, first = control_ids(clf.tokenizer), len(prompt.joined)
    moved = [(first + start, first + end) for start, end in spans]
    stops = itertools.accumulate((end for _, end in moved), max, initial=first)
    read = replace(
        prompt,
        text=prompt.joined + text,
        pair=None,
        input_ids=(*prompt.input_ids, *ids),
        tokens=(*prompt.tokens, *token_texts(clf.tokenizer, ids)),
        special=np.append(prompt.special, [i in control for i in ids]),
        types=(*prompt.types, *prompt.types[-1:] * len(ids)),
        offsets=(*prompt.offsets, *moved) if prompt.offsets else (),
        whole=len(prompt) + len(ids),
        bare=True,
    )
    return read, [*list(stops)[:-1], len(read.text)]


def _read_on(clf: Classifier, prompt: EncodedText, given: str, got: str) -> tuple[list[int], list[Span]]:
    """The ids and places of what follows a prompt, as they are where a tokenizer reads both as one text."""
    *before, last = (prompt.text,) if prompt.pair is None else (prompt.text, prompt.pair)
    sides, tokenizer = (*before, last + given), clf.tokenizer
    row, old, start = tokenised(tokenizer, sides, bare=prompt.bare), list(prompt.input_ids), len(prompt)
    ids = row.ids if prompt.bare else row.ids[: _end(row.special)]
    spans = row.spans[: len(ids)]
    first, joined = len(prompt.joined), prompt.joined + given
    kept = ids[:start] == old and bool(spans) and spans[start - 1][1] <= first
    if not kept or (ids[start:] and spans[start][1] <= first):  # a token more of the prompt is a change, too
        at = next((k for k, (a, b) in enumerate(zip(ids, old, strict=False)) if a != b), start - 1)
        was, now = (", ".join(map(repr, token_texts(tokenizer, row[at : at + 3]))) for row in (old, ids))
        got += f", with which {was} at the prompt's token {at} becomes {now}"
        expected = "a prompt whose tokens stay the same before an answer, and a fast tokenizer"
        hint = "move the cut between prompt and answer, or pass token ids"
        raise InputError("attribute", got=got, expected=expected, hint=hint)
    told = dict[int, bool]()
    for i, (a, b) in zip(ids[start:], spans[start:], strict=True):
        known = i != tokenizer.unk_token_id or joined[a:b] == tokenizer.unk_token
        told |= dict.fromkeys(range(a, b), known)
    lost = [c for k, c in enumerate(given, first) if not told.get(k, c.isspace())]
    if lost:
        got, hint = f"{got} with {lost[0]!r}, which no token spells", "leave them out, or pass token ids"
        raise InputError("attribute", got=got, expected="characters that the tokenizer knows", hint=hint)
    return ids[start:], [(max(0, a - first), max(0, b - first)) for a, b in spans[start:]]


def _decoded(tokenizer: Any, prompt: Sequence[int], ids: list[int]) -> tuple[str, list[Span]]:
    """The text that ids spell after a prompt, and the place of each in it."""
    parts = [[*prompt, *ids[:k]] for k in range(len(ids) + 1)]
    begun, *grown = (tokenizer.decode(part, clean_up_tokenization_spaces=False) for part in parts)
    text = grown[-1][len(begun) :]
    ends = [len(os.path.commonprefix([part[len(begun) :], text])) for part in grown]
    starts = [0, *ends[:-1]]
    # the parts of a character end where it ends
    return text, [(a, next((b for b in ends[k:] if b > a), a)) for k, a in enumerate(starts)]


@torch.no_grad()
def written(clf: Classifier, prompt: EncodedText, count: Any) -> tuple[list[int], str]:
    """What the network's own `generate` adds to a prompt, without sampling: up to so many tokens, or up to
    one that ends a text (the last of it, then), and which of both ended it.

    Tokens end a text if the tokenizer, the model's configuration or its generation_config say so.
    """
    count = whole("attribute", "completion", count, hint="try completion=8, or a text")
    check_length(clf, len(prompt) + count - 1)
    network: Any = clf.network
    config = network.config
    known: Any = (network.generation_config, config, config.get_text_config(), clf.tokenizer)
    named: list[Any] = [getattr(one, "eos_token_id", None) for one in known]
    ends = sorted({i for some in named for i in np.ravel(some).tolist() if i is not None})
    given = torch.tensor([prompt.input_ids], device=clf.device)
    options = {"max_new_tokens": count, "do_sample": False, "eos_token_id": ends or None}
    options |= {"pad_token_id": clf.pad_id, "tokenizer": clf.tokenizer, "return_dict_in_generate": False}
    fresh_rotations(network)
    with as_recorded(clf.device, network), quietly():
        out = network.generate(given, attention_mask=torch.ones_like(given), **options)
    ids = out[0, len(prompt) :].tolist()
    ended = "length" if len(ids) == count else "generation config"
    return ids, "end token" if ids[-1] in ends else ended


def check_length(clf: Classifier, tokens: int) -> None:
    if tokens > clf.max_tokens:
        got, expected = f"prompt and completion of {tokens} tokens", f"at most {clf.max_tokens} tokens"
        raise InputError("attribute", got=got, expected=expected, hint="shorten them")


def contrasted(
    clf: Classifier, texts: list[EncodedText], target: Any, contrast: Any, *, method: str, **options: Any
) -> list[Attribution]:
    """Explain `logit of target - logit of contrast` by any method that explains a margin."""
    if target is None or options.get("output", "logit") != "logit":
        got = f"contrast {shown(contrast)} without a target"
        got = got if target is None else f"contrast with output {options['output']!r}"
        hint = "name two classes, such as target=1, contrast=0"
        raise InputError("attribute", got=got, expected="a contrast of two logits", hint=hint)
    first, second = targets_of(clf, [target, contrast], 2)
    if first is None or second is None or first == second:
        got, hint = f"the class {shown(target)} against itself", "name two"
        raise InputError("attribute", got=got, expected="two classes", hint=hint)
    return _margins(clf, texts, (first, second), method=method, **options)


def _margins(
    clf: Classifier, texts: list[EncodedText], pair: Sequence[int], *, method: str, **options: Any
) -> list[Attribution]:
    """The explanation of the difference of two logits: the margin of a classifier of these two classes."""
    few = clf.narrowed(pair)
    few.regression = False  # of two numbers
    records = explain(method, few, texts, [0] * len(texts), **options | {"output": "margin"})
    chosen = {"output": "logit", "contrast": clf.labels[pair[1]]}
    return [replace(r, target=pair[0], choices={**r.choices, **chosen}) for r in records]
