"""What a method on text is asked: the texts and the choices that methods share, in batches; the units that a
method removes at once (tokens, words, sentences, or given spans).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrp_companion.attribution import Attribution
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.loading.comparison import row_read
from lrp_companion.methods.common import Targets, attribution, check_output, classes_of, read_output, watch
from lrp_companion.registry import METHODS, SHARED
from lrp_companion.tape.batching import budget, token_batches
from lrp_companion.tape.encoder import Tape
from lrp_companion.words import Units, units_of


@dataclass(frozen=True)
class Request:
    """Texts to explain, and the choices that methods share.

    Attributes
    ----------
    name : of the method, for its records and its progress bar.
    clf, texts, targets : a classifier, encoded texts, and for each a class or None, the predicted one.
    output, unit : what is explained, and what is removed at once, as `attribute` takes them.
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

    def __post_init__(self) -> None:
        check_output(self.output, self.clf)

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
        at_once = budget(self.batch_tokens, device, work="places")
        for group in groups:
            few = max(1, at_once // max(len(texts[i]) for i in group))
            plan += [(True, group[k : k + few]) for k in range(0, len(group), few) if len(group) > 1]
        for together, rows in watch(plan, progress=self.progress, label=self.name):
            some = [texts[i] for i in rows]
            if together:
                ids, mask, further = self.clf.batch([max(some, key=len)])
                place = places_of(self.clf, some)
                further["place"] = None if place is None else torch.tensor(place, device=device)[:, None]
                yield rows, ids, mask, further
            else:
                yield rows, *self.clf.batch(some)

    def logits_of(self, rows: Sequence[int], tape: Tape) -> Tensor:
        """The logits of these texts, (R, C)."""
        return tape.logits.flatten(0, -2).expand(len(rows), -1)

    def classes(self, rows: Sequence[int], logits: Tensor) -> Tensor:
        """The classes of these texts, (R,): for None the one with the largest of the logits (R, C)."""
        return classes_of([self.targets[i] for i in rows], logits)

    def read(self, logits: Tensor, classes: Tensor) -> Tensor:
        """The explained number of each row, (B,)."""
        return read_output(logits, classes, self.output, multi_label=self.clf.multi_label)

    def record(
        self, text: EncodedText, scores: Tensor | np.ndarray, *, units: Units | None = None, **known: Any
    ) -> Attribution:
        """As `common.attribution`; `units` matter where these are no tokens."""
        of_units = None if self.unit == "token" else units
        return attribution(self.clf, text, scores, method=self.name, units=of_units, **known)


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
    if row.takes is None:  # one of yours
        return row.function(clf, texts, targets, **options)
    shared = {name: options.pop(name) for name in (*row.takes, *SHARED) if name in options}
    return row.function(Request(method, clf, texts, targets, **shared), **row.fixed, **options)


def units_in(clf: Classifier, texts: Sequence[EncodedText], unit: Any) -> list[Units]:
    """The units of each text; `unit` is "token", "word", "sentence", or a list of spans, of all texts or for
    each text its own.

    Raises
    ------
    InputError : another unit; spans that a text does not have; a text without offsets.
    """
    several = unit if _by_text(unit) else [unit] * len(texts)
    out = []
    for text, one in zip(texts, several, strict=True):
        joined, offsets = ("", ()) if one == "token" else (text.joined, text.offsets)
        read: dict[str, Any] = {"tokens": text.tokens, "special": text.special, "follows": text.follows}
        out.append(units_of("attribute", one, text=joined, offsets=offsets, **read))
    return out


def _by_text(unit: Any) -> bool:
    """Whether there is a list of spans for each text, and not one list for all."""
    return not isinstance(unit, str) and all(
        isinstance(one, (list, tuple)) and one and not isinstance(one[0], int) for one in unit
    )


def unit_choice(unit: Any) -> dict[str, str]:
    """A record's choice of unit; empty for tokens.

    >>> unit_choice("token"), unit_choice("word"), unit_choice(["rare grace"])
    ({}, {'unit': 'word'}, {'unit': 'span'})
    """
    if not isinstance(unit, str):
        return {"unit": "span"}
    return {} if unit == "token" else {"unit": unit}
