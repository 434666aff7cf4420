"""What methods on text share: the request and its batches; targets, outputs, units; the record of a text."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import TqdmWarning, tqdm

from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError, ModelError, as_tuples, choose, extra, is_whole, shown
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.loading.comparison import row_read
from lrp_companion.registry import METHODS, SHARED
from lrp_companion.schema import TARGET_CHOICES
from lrp_companion.tape.encoder import Tape, as_recorded, budget, token_batches
from lrp_companion.words import OF_CHATS, Units, units_of

Targets = Sequence[int | None]
Target = int | str | Iterable[int | str | None] | None
"""A class or its label for all inputs, one for each, or None: the class with the largest logit."""
MOST_STEPS = 1000
"""Limit for integrated gradients: finding the nodes takes time cubic in their number."""


@dataclass(frozen=True)
class Request:
    """Texts to explain, and the choices that methods share.

    Attributes
    ----------
    name : of the method, for its records and its progress bar.
    clf, texts, targets : a classifier, encoded texts, and for each a class or None, the predicted one.
    output, unit : what is explained, and what is removed at once ("token", "word", "sentence", "message",
        "document", or a list of spans, of all texts or for each text its own).
    batch_tokens : tokens of a batch, padding included; None keeps the device busy.
    progress : whether there is a progress bar; None: on a terminal.
    """

    name: str
    clf: Classifier
    texts: Sequence[EncodedText]
    targets: Targets
    output: str = "logit"
    unit: Any = "token"
    batch_tokens: int | None = None
    progress: bool | None = None

    def some(self, rows: Sequence[int]) -> Request:
        """The same request of some of its texts."""
        unit = [self.unit[k] for k in rows] if _by_text(self.unit) else self.unit
        texts, targets = [self.texts[k] for k in rows], [self.targets[k] for k in rows]
        return replace(self, unit=unit, texts=texts, targets=targets)

    def batches(self, *, shared: bool = True) -> Iterator[tuple[list[int], Tensor, Tensor, dict[str, Any]]]:
        """Padded batches of texts: their indices, ids, mask (B, T), and the other inputs of `Encoder.forward`
        (token types, and the positions that are read).

        Where several texts are `shared`, one is run for all: the ids are (1, T), and the positions (R, 1).
        """
        texts, device = self.texts, self.clf.device
        groups = groups_of(texts) if shared else [[i] for i in range(len(texts))]
        alone = [group[0] for group in groups if len(group) == 1]
        planned = token_batches([len(texts[i]) for i in alone], budget(self.batch_tokens, device))
        plan = [(False, [alone[k] for k in batch]) for batch in planned]
        for group in (group for group in groups if len(group) > 1):
            at_once = budget(self.batch_tokens, device, work="places")
            few = max(1, at_once // max(len(texts[i]) for i in group))
            plan += [(True, group[k : k + few]) for k in range(0, len(group), few)]
        for together, rows in watch(plan, progress=self.progress, label=self.name):
            some = [texts[i] for i in rows]
            if together:
                ids, mask, further = self.clf.batch([max(some, key=len)])
                place = places_of(self.clf, some)
                further["place"] = None if place is None else torch.tensor(place, device=device)[:, None]
                yield rows, ids, mask, further
            else:
                yield rows, *self.clf.batch(some)

    def units(self) -> list[Units]:
        """The units of each text; `InputError` as `units_of`."""
        several = self.unit if _by_text(self.unit) else [self.unit] * len(self.texts)
        out = []
        for k, (text, unit) in enumerate(zip(self.texts, several, strict=True)):
            of_chat = isinstance(unit, str) and unit in OF_CHATS
            unit = self.clf.reader.spans_of(k, text, unit) if of_chat else unit
            joined, offsets = ("", ()) if unit == "token" else (text.joined, text.offsets)
            read: dict[str, Any] = {"tokens": text.tokens, "special": text.special, "follows": text.follows}
            read["whole"] = of_chat
            out.append(units_of("attribute", unit, text=joined, offsets=offsets, **read))
        return out

    def explained(self, rows: Sequence[int], tape: Tape) -> tuple[Tensor, Tensor]:
        """The logits (R, C) of these texts, and their classes (R,): for None the one with the largest."""
        logits = tape.logits.flatten(0, -2).expand(len(rows), -1)
        return logits, classes_of([self.targets[i] for i in rows], logits)

    def read(self, logits: Tensor, classes: Tensor) -> Tensor:
        """The explained number of each row, (B,)."""
        return read_output(logits, classes, self.output, multi_label=self.clf.multi_label)

    def record(
        self,
        text: EncodedText,
        scores: Tensor | np.ndarray,
        *,
        target: Tensor | int,
        logit: Tensor | float,
        choices: Mapping[str, Any],
        parts: Mapping[str, np.ndarray] | None = None,
        details: Mapping[str, Any] | None = None,
        units: Units | None = None,
    ) -> Attribution:
        """The record of one explained text, without scores beyond its length (padding); with `units` other
        than tokens there is one score for each.
        """
        clf = self.clf
        of = text if units is None or self.unit == "token" else units
        kept = finite(clf, to_numpy(scores)[: len(text)], f"{self.name} scores")
        tokens = of.names if isinstance(of, Units) else of.tokens
        if kept.shape != (len(tokens),):
            got, expected = f"{self.name} scores of shape {kept.shape}", f"({len(tokens)},), one per token"
            hint = "return one score per token of the text"
            raise InputError("attribute", got=got, expected=expected, hint=hint)
        told = {"similarity": clf.similarity, "chat_template_kwargs": text.template}
        told = {name: value for name, value in told.items() if value}
        known = {"label": clf.labels[int(target)], "model": clf.card.name, "dtype": clf.card.dtype}
        arrays = {name: np.array(part, dtype=np.float64) for name, part in (parts or {}).items()}
        special = np.array(of.special)
        for array in (kept := np.array(kept), special, *arrays.values()):
            array.setflags(write=False)
        record = object.__new__(Attribution)  # all values have their types already
        vars(record).update(
            tokens=tokens,
            scores=kept,
            target=int(target),
            logit=finite(clf, to_numpy(logit), "logits").item(),
            special=special,
            method=self.name,
            choices=MappingProxyType(as_tuples({**choices, **told})),
            parts=MappingProxyType(arrays),
            details=MappingProxyType(as_tuples({**known, **text.details, **(details or {})})),
            text=text.joined,
            offsets=of.offsets,
        )
        return record


def attribution(
    clf: Classifier, text: EncodedText, scores: Tensor | np.ndarray, *, method: str, **known: Any
) -> Attribution:
    """The record of one text that a method of your own explained: by keywords its `target`, `logit` and
    `choices`, and what else `Attribution` may have of `parts` and `details`.
    """
    return Request(method, clf, [text], [None]).record(text, scores, **known)


def explain(
    method: str, clf: Classifier, texts: Sequence[EncodedText], targets: Targets, **options: Any
) -> list[Attribution]:
    """Explain encoded texts, with a target (or None) for each, by a method with its options.

    >>> clf = load_classifier("companion")                               # doctest: +SKIP
    >>> explain("loo", clf, clf.encode("a fine film"), [None])           # doctest: +SKIP
    [Attribution(method='loo', tokens=5, target=1, logit=2.5)]
    """
    row = METHODS[method]
    assert row.function is not None
    removes = row.takes is None or "unit" in row.takes
    summed = "token" if removes else options.pop("unit", "token")
    if summed != "token":
        records = explain(method, clf, texts, targets, **options)
        units = Request(method, clf, texts, targets, unit=summed).units()
        named = unit_choice(summed)["unit"]
        return [record.over(of, named) for record, of in zip(records, units, strict=True)]
    with as_recorded(clf.device, clf.network):
        if row.takes is None:  # one of yours
            return row.function(clf, texts, targets, **options)
        check_output(options.get("output", "logit"), clf)
        shared = {name: options.pop(name) for name in (*row.takes, *SHARED) if name in options}
        return row.function(Request(method, clf, texts, targets, **shared), **row.fixed, **options)


def groups_of(texts: Sequence[EncodedText]) -> list[list[int]]:
    """The indices of texts, together where one forward pass serves them."""
    groups: dict[int, list[int]] = {}
    for i, text in enumerate(texts):
        groups.setdefault(id(text if text.along is None else text.along), []).append(i)
    return list(groups.values())


def places_of(clf: Classifier, texts: Sequence[EncodedText]) -> list[int] | None:
    """The place at which each text is read; None where the readout needs none."""
    reads_one = clf.encoder.wiring.readout in ("place", "last")
    return [row_read(clf, text) for text in texts] if reads_one else None


def gradients(values: Tensor, leaf: Tensor) -> Tensor:
    """The gradient of each value (R,) at its row of the leaf (R, ...); where the leaf has one row for all
    values, (R, 1, ...).
    """
    if len(leaf) == len(values):
        return torch.autograd.grad(values.sum(), leaf)[0]
    return torch.stack([torch.autograd.grad(one, leaf, retain_graph=True)[0] for one in values])


def _by_text(unit: Any) -> bool:
    """Whether there is a list of spans for each text, and not one list for all."""
    return not isinstance(unit, str) and all(
        isinstance(one, (list, tuple)) and one and not isinstance(one[0], int) for one in unit
    )


def unit_choice(unit: Any) -> dict[str, str]:
    """A record's choice of unit; empty for tokens."""
    if not isinstance(unit, str):
        return {"unit": "span"}
    return {} if unit == "token" else {"unit": unit}


def check_classifier(operation: str, model: object) -> Classifier:
    """Return the model if `load_classifier` made it, as its network is now; else raise `ModelError`."""
    if isinstance(model, Classifier):
        return model.follow()
    got, hint = f"a model of type {type(model).__name__}", "load one with load_classifier"
    raise ModelError(operation, got=got, expected="a Classifier", hint=hint)


def class_numbers(
    target: Target, count: int, labels: Sequence[str], class_of: Callable[[Any], Any] = lambda given: given
) -> list[int | None]:
    """One target per input: None (the predicted class), one class for all, or a class for each in order.

    A class is its number, from 0, or its label; text is always a label, and a number never is. `class_of`
    reads a text first, such as a language model's token.

    >>> class_numbers("neutral", 2, ("negative", "neutral", "positive")), class_numbers([0, None], 2, "ab")
    ([1, 1], [0, None])
    """
    asked: Any = target
    given = asked.tolist() if hasattr(asked, "tolist") else asked
    single = given is None or isinstance(given, (str, int, float))
    targets = [given] * count if single else list(given)
    if len(targets) != count:
        got, hint = f"{len(targets)} targets for {count} inputs", "pass a single class or one for each input"
        raise InputError("attribute", got=got, expected="one target per input", hint=hint)
    plain = (one.item() if hasattr(one, "item") else one for one in targets)
    return [None if one is None else _class_of(class_of(one), labels) for one in plain]


def targets_of(clf: Classifier, target: Target, count: int) -> list[int | None]:
    """`class_numbers` for a classifier's inputs; a language model's classes may be given by their text."""
    return [None] * count if target is None else class_numbers(target, count, clf.labels, clf.class_of)


def _class_of(target: Any, labels: Sequence[str]) -> int:
    """The number of a class that is given by its number or its label."""
    named = [k for k, label in enumerate(labels) if label == target] if isinstance(target, str) else []
    if len(named) == 1:
        return named[0]
    if is_whole(target) and 0 <= target < len(labels):
        return int(target)
    expected = f"a class from 0 to {len(labels) - 1}, its label ({shown(tuple(labels[:10]))}), or None"
    hint = "None explains the predicted class"
    hint = f"several classes have this label: name one of {named} by its number" if named else hint
    raise InputError("attribute", got=f"target {shown(target)}", expected=expected, hint=hint)


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


def replacements(clf: Classifier) -> dict[str, int]:
    """The tokens that can replace a word, as options name them: those that the tokenizer has."""
    if clf.reads_images:
        return {}
    padding = {"pad-token": clf.pad_id} if clf.tokenizer.pad_token_id is not None else {}
    return padding | ({} if clf.mask_id is None else {"mask-token": clf.mask_id})


def check_replacement(clf: Classifier, asked: str) -> None:
    """Refuse a removal or a baseline by a token that the tokenizer does not have."""
    if asked in ("mask-token", "pad-token") and asked not in replacements(clf):
        got, expected = f"{asked!r} with {clf.card.name!r}", "a tokenizer that has this token"
        hint = "choose another one"
        raise InputError("attribute", got=got, expected=expected, hint=hint)


def check_options(method: str, options: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse options that a method does not use."""
    for name in options:
        if name not in allowed:
            got, expected = f"option {name!r} for method {method}", f"one of {', '.join(sorted(allowed))}"
            hint = "leave it out or change the method"
            raise InputError("attribute", got=got, expected=expected, hint=hint)


def path_integral(function: Callable[..., Tensor]) -> Any:
    """Return captum's `IntegratedGradients` of a function."""
    with extra("attribute"), warnings.catch_warnings():
        # in a notebook captum's progress bars ask for ipywidgets on import; none of them is shown here
        warnings.simplefilter("ignore", TqdmWarning)
        from captum.attr import IntegratedGradients
    return IntegratedGradients(function)


def switch(name: str, value: object) -> bool:
    """Return `value` if it is a boolean; else raise `InputError`: the word "no" would count as true."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    hint = "a word or a number is neither True nor False"
    raise InputError("attribute", got=f"{name} {shown(value)}", expected="True or False", hint=hint)


def classes_of(targets: Targets, logits: Tensor) -> Tensor:
    """The targets as a tensor (B,), with the predicted class where none was named."""
    predicted = logits.argmax(-1)
    rows = zip(predicted, targets, strict=False)
    return torch.stack([k if t is None else torch.as_tensor(t, device=logits.device) for k, t in rows])


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
    if output == "logit":
        return torch.zeros_like(logits).scatter(-1, targets[:, None], 1.0)
    with torch.enable_grad():
        leaf = logits.detach().clone().requires_grad_(True)
        values = read_output(leaf, targets, output, multi_label=multi_label)
        return torch.autograd.grad(values.sum(), leaf)[0]


def watch(items: Iterable, *, progress: bool | None, label: str, total: int | None = None) -> Iterable:
    """A progress bar on standard error: always, never, or (None) on a terminal after three seconds."""
    hidden = not sys.stderr.isatty() if progress is None else not progress
    return tqdm(
        items, desc=label, total=total, disable=hidden, delay=3 if progress is None else 0, leave=False
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
