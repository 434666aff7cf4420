"""How reviews are run: the choices of a run, and those that its data set determines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lrp_companion.checks import InputError, choose, whole
from lrp_companion.lab.base_run import DEFAULT_METHODS
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods import explain, method_call
from lrp_companion.methods.common import check_output
from lrp_companion.schema import REMOVALS, TARGET_CHOICES
from lrp_companion.sources import OWN_SOURCES, Dataset

SHORT: dict[str, Any] = {"chunk": 1, "removals": REMOVALS}
LONG: dict[str, Any] = {"chunk": 16, "removals": ("attention-mask", "mask-token")}
SETTINGS = {"sst2": SHORT, "imdb": LONG}
LONG_TEXT = 600
"""Number of characters of the median text from which the user's own data are run like IMDB."""
FIXED = ("output", "site", "removal", "unit", "progress", "batch_tokens")
"""Options that a run cannot choose: it measures all of them, or they change no number."""


def is_own(data: Dataset) -> bool:
    """Whether these are the user's own data, whatever their name."""
    return data.source in OWN_SOURCES


def settings_of(data: Dataset) -> dict[str, Any]:
    """How a data set is run: the chunk of a curve's step, and the removals.

    The user's own texts are run like SST-2, or like IMDB if the median text is long.
    """
    if not is_own(data):
        return SETTINGS[choose("run", "task", data.name, tuple(SETTINGS))]
    lengths = [len(text) for text in data.texts]
    if data.pairs:
        lengths = [length + len(second) for length, second in zip(lengths, data.pairs, strict=True)]
    return LONG if np.median(lengths) >= LONG_TEXT else SHORT


def targets_of(clf: Classifier, chosen: Sequence[str] | None) -> tuple[str, ...]:
    """The outputs to explain: all that the classifier has, or some."""
    offered = tuple(name for name in TARGET_CHOICES if not (name == "margin" and clf.multi_label))
    if clf.regression:
        offered = TARGET_CHOICES[:1]
    if chosen is not None:
        for output in chosen:
            check_output(output, clf)
    return some_of("targets", chosen, offered)


def some_of(name: str, chosen: Sequence[str] | None, options: Sequence[str]) -> tuple[str, ...]:
    """Options in their order, the first one always among them: methods and curves are made with it."""
    if chosen is None:
        return tuple(options)
    for option in chosen:
        choose("run", name, option, tuple(options))
    if options[0] not in chosen or len(set(chosen)) < len(chosen):
        got, expected = f"{name} {', '.join(chosen) or 'none'}", f"{options[0]} and others, each once"
        raise InputError("run", got=got, expected=expected, hint=f"choose from {', '.join(options)}")
    return tuple(option for option in options if option in chosen)


def run_calls(clf: Classifier, methods: Sequence[str], n_steps: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """The calls of a run's methods by their names; bad options are refused here, before the run begins."""
    calls = {method: run_call(method, n_steps) for method in methods}
    if not calls or len(calls) < len(methods):
        got, hint = f"methods {', '.join(methods) or 'none'}", f"choose from {', '.join(DEFAULT_METHODS)}"
        raise InputError("run", got=got, expected="at least one, each once", hint=hint)
    whole("run", "n_steps", n_steps, hint="50 is the default")
    for kind, options in calls.values():  # on no text
        explain(kind, clf, [], [], progress=False, **options)
    return calls


def run_call(method: str, n_steps: int) -> tuple[str, dict[str, Any]]:
    """The call for a method of a run, whose outputs, sites and removals are set by the run."""
    kind, options = method_call(method)
    fixed = sorted(set(options) & set(FIXED))
    if fixed:
        expected = f"no {', '.join(fixed)}: a run measures all"
        raise InputError("run", got=f"method {method!r}", expected=expected, hint="leave it out")
    if kind == "ig":
        options.setdefault("n_steps", n_steps)
    return kind, options
