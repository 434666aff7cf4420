"""What the methods on text of the package share, and the decorator that binds one to its registry row."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from lrp_companion.attribution import Attribution
from lrp_companion.loading.classifier import Classifier, EncodedText
from lrp_companion.methods.common import Targets, attribution, read_output, settle, watch
from lrp_companion.registry import bind
from lrp_companion.tape.batching import budget, token_batches
from lrp_companion.words import Units


@dataclass(frozen=True)
class Work:
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

    def batches(self) -> Iterator[tuple[list[int], Tensor, Tensor, dict[str, Any]]]:
        """Padded batches of texts: their indices, ids, mask (B, T), and the other inputs of `Encoder.forward`
        (token types, and the positions that are read).
        """
        plan = token_batches([len(t) for t in self.texts], budget(self.batch_tokens, self.clf.device))
        for rows in watch(plan, progress=self.progress, label=self.name):
            yield rows, *self.clf.batch([self.texts[i] for i in rows])

    def settled(self, rows: Sequence[int], logits: Tensor) -> Tensor:
        """The classes of these texts, (B,): for None the one with the largest of the logits (B, C)."""
        return settle([self.targets[i] for i in rows], logits)

    def read(self, logits: Tensor, classes: Tensor) -> Tensor:
        """The explained number of each row, (B,)."""
        return read_output(logits, classes, self.output, multi_label=self.clf.multi_label)

    def record(
        self, text: EncodedText, scores: Tensor | np.ndarray, *, units: Units | None = None, **known: Any
    ) -> Attribution:
        """As `common.attribution`; `units` matter where these are no tokens."""
        of_units = None if self.unit == "token" else units
        return attribution(self.clf, text, scores, method=self.name, units=of_units, **known)


SHARED = ("batch_tokens", "progress")
"""Options of every method that no record depends on."""


@dataclass(frozen=True)
class TextMethod:
    """A function of `Work` and of its own options, as a function of classifier, texts, targets and options.

    Attributes
    ----------
    name : of the method.
    function : what explains, with its own options as keyword-only parameters.
    choices : which of "output" and "unit" it takes besides `SHARED`.
    """

    name: str
    function: Callable[..., Any]
    choices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given = inspect.signature(Work).parameters
        options = list(inspect.signature(self.function).parameters.values())[1:]
        options += [given[key].replace(kind=inspect.Parameter.KEYWORD_ONLY) for key in self._shared]
        signature = inspect.Signature([*(given[key] for key in ("clf", "texts", "targets")), *options])
        # for `help`, for `attribute` and for its table of options
        vars(self).update(__signature__=signature, __doc__=self.function.__doc__)

    @property
    def _shared(self) -> tuple[str, ...]:
        return *self.choices, *SHARED

    def __call__(
        self, clf: Classifier, texts: Sequence[EncodedText], targets: Targets, **options: Any
    ) -> Any:
        shared = {key: options.pop(key) for key in self._shared if key in options}
        return self.function(Work(self.name, clf, texts, targets, **shared), **options)

    def of(self, work: Work, **options: Any) -> Any:
        """What it explains of the work of another method."""
        return self.function(replace(work, name=self.name), **options)


def text_method(name: str, *choices: str) -> Callable[[Callable[..., Any]], TextMethod]:
    """Make the decorated function of `Work` the method of this row of `registry.PACKAGE`."""

    def register(function: Callable[..., Any]) -> TextMethod:
        made = TextMethod(name, function, choices)
        bind(name, made)
        return made

    return register
