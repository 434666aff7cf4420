"""Step by step: from one gradient to exact LOO, pass by pass, and along perturbation curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import traitlets

from lrp_companion.metrics.faithfulness import ORDERS
from lrp_companion.schema import TOKEN_CHOICES
from lrp_companion.show.palette import styles
from lrp_companion.terminal import visible
from lrp_companion.widgets.base import Widget, bars

WAY_TEXTS = {
    "hybrid": {
        "label": "Hybrid",
        "counts": "tokens with LOO",
        "says": "the mask gradient for all tokens, then LOO itself, a pass each, where it is largest",
    },
    "groups": {
        "label": "Groups",
        "counts": "groups",
        "says": "the mask gradient, read again as groups of tokens fade in turn (K groups: every K-th token)",
    },
    "random": {
        "label": "Random",
        "counts": "tokens with LOO",
        "says": "LOO for tokens drawn at random, a pass each, and their mean for the others",
    },
}


class FrontierPlayer(Widget, front="frontier_player"):
    """Spend passes on one sentence step by step: the map approaches LOO, with its r and its cost.

    The map comes from one of three ways to spend passes, next to LOO `f(x) - f(x without i)` on the same
    scale of colours.

    Parameters
    ----------
    texts : one dict per text, as `anytime_maps` makes them.
    address : the widget's name in the page.

    Attributes
    ----------
    text : which text, from 0. The step never exceeds the text's number of tokens.
    way : "hybrid", "groups" or "random".
    tokens : which tokens count for r, "no-special" or "all".
    step : from 0 to the text's number of tokens.

    >>> FrontierPlayer(anytime_maps(clf, texts))  # doctest: +SKIP
    FrontierPlayer(6 texts; hybrid, groups, random)
    """

    links: ClassVar[tuple[str, ...]] = ("text", "way", "tokens", "step")
    text = traitlets.Int(0).tag(sync=True)
    way = traitlets.Enum(tuple(WAY_TEXTS), "hybrid").tag(sync=True)
    tokens = traitlets.Enum(TOKEN_CHOICES, "no-special").tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, texts: Sequence[Mapping[str, Any]], *, address: str = "passes") -> None:
        super().__init__(data={"ways": WAY_TEXTS, "texts": [*map(_spent, texts)]}, address=address)

    def fallback(self) -> str:
        """Return a picture of r on the words of the first text, step by step."""
        first = self.data["texts"][0]
        rows = {WAY_TEXTS[way]["label"]: of["r"]["no-special"] for way, of in first["ways"].items()}
        caption = f"r with LOO, step by step, on the words; LOO takes {first['forwards']} forward passes"
        return bars(rows, range(len(first["tokens"]) + 1), caption, scale=1)

    def summary(self) -> str:
        """Return how many texts there are, and the ways."""
        count = len(self.data["texts"])
        return f"{count} text{'s' * (count != 1)}; {', '.join(WAY_TEXTS)}"


def _spent(text: Mapping[str, Any]) -> dict[str, Any]:
    """A text as the front end takes it; a map that only repeats LOO or the previous step is not carried."""
    loo = np.asarray(text["loo"])
    decimals = 4 - math.floor(math.log10(np.abs(loo).max() or 1))  # five digits of the largest
    return {
        "tokens": [visible(token) for token in text["tokens"]],
        "special": np.asarray(text["special"]).tolist(),
        "label": visible(text["label"]),
        "forwards": int(text["forwards"]),
        "loo": _rounded(loo, decimals),
        "ways": {way: _way(text["ways"][way], loo, decimals) for way in WAY_TEXTS},
    }


def _way(steps: Sequence[Mapping[str, Any]], loo: np.ndarray, decimals: int) -> dict[str, Any]:
    """Steps as columns.

    `order` is how tokens become exact and `exact` how many are at each step. `rest` holds, for the other
    tokens, all scores, or one number where they are equal, or None where they are as before.
    """
    order: list[int] = []
    rest: list[Any] = []
    carried = None
    for step in steps:
        scores, exact = np.asarray(step["scores"]), list(step["exact"])
        order += [token for token in exact if token not in order]
        others = np.setdiff1d(np.arange(len(loo)), exact)
        if not others.size or (carried is not None and np.array_equal(carried[others], scores[others])):
            rest.append(None if carried is not None else 0.0)
        elif np.ptp(scores[others]) == 0:
            carried = None
            rest += _rounded(scores[others][:1], decimals)
        else:
            carried = scores
            rest.append(_rounded(scores, decimals))
    columns = {
        key: {tokens: _rounded([step[key][tokens] for step in steps], 4) for tokens in TOKEN_CHOICES}
        for key in ("r", "error")
    }
    return {
        "order": order,
        "exact": [len(step["exact"]) for step in steps],
        "rest": rest,
        "passes": [[int(step["forwards"]), int(step["backwards"])] for step in steps],
        **columns,
    }


def _rounded(values: Any, decimals: int) -> list[float | None]:
    """Numbers rounded to the given decimals; None where one is undefined."""
    return [
        round(value, decimals) if math.isfinite(value) else None
        for value in np.asarray(values, dtype=np.float64).tolist()
    ]


class PerturbationPlayer(Widget, front="perturbation_player"):
    """Play through perturbation curves: two methods side by side, a token removed at each step.

    Parameters
    ----------
    paths : one dict per text, as `perturbation_paths` makes them.
    address : the widget's name in the page.

    Attributes
    ----------
    text : which text, from 0.
    left, right : the methods of the two sides.
    order : "morf" (most relevant first) or "lerf" (least relevant first).
    step : how many steps have been taken; at first, like the text, where the two curves are farthest apart.

    >>> PerturbationPlayer(paths)  # doctest: +SKIP
    PerturbationPlayer(6 texts; loo, attnlrp, cp-lrp)
    """

    links = ("text", "left", "right", "order", "step")
    text = traitlets.Int(0).tag(sync=True)
    left = traitlets.Unicode().tag(sync=True)
    right = traitlets.Unicode().tag(sync=True)
    order = traitlets.Enum(list(ORDERS), "morf").tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, paths: Sequence[Mapping[str, Any]], *, address: str = "player") -> None:
        methods = list(paths[0]["methods"])
        labels = {name: look.label for name, look in styles(methods).items()}
        texts, (left, right) = [_curves(path) for path in paths], (methods[-2:][0], methods[-1])
        data, (text, step) = {"methods": labels, "texts": texts}, _farthest_apart(texts, left, right)
        super().__init__(data=data, left=left, right=right, text=text, step=step, address=address)

    def fallback(self) -> str:
        """Return a picture of the means of all curves of the first text."""
        first = self.data["texts"][0]
        curves = first["methods"].values()
        rows = {
            name: [of[key]["mean"] for of in curves] for key, name in (("lerf", "LeRF"), ("morf", "MoRF"))
        }
        caption = f"Mean logit of {first['label']} along the curves, first text"
        return bars(rows, [*self.data["methods"].values()], caption)

    def summary(self) -> str:
        """Return how many texts there are, and the methods."""
        return f"{len(self.data['texts'])} texts; {', '.join(self.data['methods'])}"


def _farthest_apart(texts: Sequence[Mapping[str, Any]], left: str, right: str) -> tuple[int, int]:
    """The text and step at which two methods' logits differ most, the most relevant tokens first."""
    gaps = {}
    for place, text in enumerate(texts):
        curves = (text["methods"][method]["morf"]["logits"] for method in (left, right))
        for step, (first, second) in enumerate(zip(*curves, strict=False)):
            gaps[place, step] = abs(first - second)
    return max(gaps, key=lambda where: gaps[where])


def _curves(path: Mapping[str, Any]) -> dict[str, Any]:
    """A text as the front end takes it."""
    methods = {
        name: {
            "scores": np.asarray(explained["scores"]).tolist(),
            **{
                of: {**explained[of], "logits": np.asarray(explained[of]["logits"]).tolist()} for of in ORDERS
            },
        }
        for name, explained in path["methods"].items()
    }
    return {
        "tokens": [visible(token) for token in path["tokens"]],
        "special": np.asarray(path["special"]).tolist(),
        "label": visible(path["label"]),
        "methods": methods,
    }
