"""Relevance from the logit down to the words: two methods side by side, level by level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import traitlets

from lrp_companion.attribution import Attribution, differences
from lrp_companion.checks import InputError
from lrp_companion.show.palette import styles
from lrp_companion.terminal import visible
from lrp_companion.widgets.base import Widget
from lrp_companion.widgets.still import bars

BESIDES = ("loo", "key-cut")


class LayerFlow(Widget, front="layer_flow"):
    """Relevance of every token at every layer, from the top down, for two methods on one scale.

    Parameters
    ----------
    flows : one mapping per text, method to `methods.levels.LayerRelevance`; every text with the same
        two methods, of one model. Under "loo" it may hold LOO of the text, an `Attribution`, and under
        "key-cut" what a switch puts in place of the first method, as `layer_relevance` gives it with `cut`.
    labels : names of the classes, to say which one is explained.
    address : the widget's name in the page.

    Attributes
    ----------
    text : which text, from 0.
    step : how far down: 0 is the output of the last layer, the last step the words, where it begins.
    without : whether the first special token is left out of colours and r.
    cut : whether the keys of special tokens are off.

    >>> LayerFlow([{"attnlrp": layer_relevance(clf, text), "cp-lrp": ...}])  # doctest: +SKIP
    LayerFlow(6 texts; attnlrp, cp-lrp; 14 levels)
    """

    links = ("text", "step", "without", "cut")
    text = traitlets.Int(0).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    without = traitlets.Bool(False).tag(sync=True)
    cut = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self, flows: Sequence[Mapping[str, Any]], *, labels: Sequence[str] = (), address: str = "flow"
    ) -> None:
        self._labels = tuple(labels)
        self._names, data = self._take(flows)
        step = len(data["levels"]) - 1
        super().__init__(data=data, step=step, address=address)

    def show(self, flow: Mapping[str, Any]) -> None:
        """Replace the texts by one, as the live text box does; the level stays if the levels are the same."""
        names, data = self._take([flow])
        with self.hold_sync():
            same = data["levels"] == self.data["levels"]
            self.step = self.step if same else 0
            self._names, self.text, self.data = names, 0, data
            self.step = self.step if same else len(data["levels"]) - 1

    def _take(self, flows: Sequence[Mapping[str, Any]]) -> tuple[list[str], dict[str, Any]]:
        """The methods' names, and what the front end shows."""
        besides = [[of_text.get(name) for name in BESIDES] for of_text in flows]
        shapes = {tuple(flow.levels) for of_text in flows for name, flow in of_text.items() if name != "loo"}
        pairs = [{name: of_text[name] for name in of_text if name not in BESIDES} for of_text in flows]
        methods = list(pairs[0]) if pairs else []
        if len(methods) != 2 or len(shapes) != 1 or any(list(pair) != methods for pair in pairs):
            got = f"{len(flows)} texts, with methods {', '.join(methods) or 'none'}"
            expected = "one or more, each with the same two methods of one model"
            raise InputError("LayerFlow", got=got, expected=expected, hint="use layer_relevance")
        (levels,) = shapes
        whole = zip(pairs, besides, strict=True)
        texts = [_plain(list(pair.values()), loo, cut, self._labels) for pair, (loo, cut) in whole]
        labels = [styles(methods)[name].label for name in methods]
        return methods, {"methods": labels, "levels": list(levels), "texts": texts}

    def fallback(self) -> str:
        """Return a picture of the first text's words at the lowest level."""
        first, (one, other) = self.data["texts"][0], self.data["methods"]
        shown = dict(zip((one, other), first["scores"], strict=True))
        shown |= {f"{one}, keys off": first["cut"]} if "cut" in first else {}
        rows = {name: levels[-1] for name, levels in shown.items()}
        return bars(rows, first["tokens"], f"Relevance of the words for {first['label']}, first text")

    def summary(self) -> str:
        """Return how many texts and levels there are, and the methods."""
        texts, levels = len(self.data["texts"]), len(self.data["levels"])
        return f"{texts} texts; {', '.join(self._names)}; {levels} levels"


def _plain(
    flows: Sequence[Any], loo: Attribution | None, cut: Any | None, labels: Sequence[str]
) -> dict[str, Any]:
    """A text as the front end takes it; numbers to six digits, which is more than a cell shows."""
    first = flows[0]
    like = {"target": first.target, "logit": first.logit, "choices": {"output": "logit"}}
    if loo is not None and (loo.tokens != tuple(first.tokens) or differences(loo, replace(loo, **like))):
        got, hint = f"LOO of class {loo.target}, logit {loo.logit:.4g}", "explain the same text and logit"
        raise InputError("LayerFlow", got=got, expected="LOO of the same tokens and class", hint=hint)
    name = labels[first.target] if labels else f"class {first.target}"
    return {
        "tokens": [visible(token) for token in first.tokens],
        "special": np.asarray(first.special).tolist(),
        "label": visible(name),
        "logit": float(f"{first.logit:.6g}"),
        "scores": [_digits(flow.scores) for flow in flows],
        **({} if loo is None else {"loo": _digits([loo.scores])[0]}),
        **({} if cut is None else {"cut": _digits(cut.scores)}),
    }


def _digits(scores: Any) -> list[list[float]]:
    return [[float(f"{x:.6g}") for x in level] for level in np.asarray(scores).tolist()]
