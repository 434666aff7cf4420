"""MoRF and LeRF, step by step: which token goes next, and how the curve grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import traitlets

from lrp_companion.metrics.faithfulness import ORDERS
from lrp_companion.show.palette import styles
from lrp_companion.terminal import visible
from lrp_companion.widgets.base import Widget
from lrp_companion.widgets.still import bars


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
        texts, (left, right) = [_plain(path) for path in paths], (methods[-2:][0], methods[-1])
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


def _plain(path: Mapping[str, Any]) -> dict[str, Any]:
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
