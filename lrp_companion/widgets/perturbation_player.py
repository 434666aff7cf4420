"""MoRF and LeRF, step by step: which token goes next, and how the curve grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from lrp_companion.arrays import bool_array, real_array
from lrp_companion.checks import InputError, choose, whole
from lrp_companion.metrics.faithfulness import ORDERS
from lrp_companion.show.palette import styles
from lrp_companion.show.tables import table
from lrp_companion.terminal import visible
from lrp_companion.widgets.base import Widget, check_address


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
        methods = list(paths[0]["methods"]) if paths else []
        if not methods or any(list(path["methods"]) != methods for path in paths):
            raise InputError(
                "PerturbationPlayer",
                got=f"{len(paths)} texts",
                expected="one or more, each with the same methods",
                hint="use perturbation_paths",
            )
        labels = {name: look.label for name, look in styles(methods).items()}
        texts = [_plain(path) for path in paths]
        left, right, address = methods[-2:][0], methods[-1], check_address("PerturbationPlayer", address)
        data, (text, step) = {"methods": labels, "texts": texts}, _farthest_apart(texts, left, right)
        super().__init__(data=data, left=left, right=right, text=text, step=step, address=address)

    @traitlets.validate("left", "right")
    def _check_method(self, proposal: Any) -> str:
        if not self.data:
            return proposal["value"]
        return choose("PerturbationPlayer", "method", proposal["value"], list(self.data["methods"]))

    @traitlets.validate("text", "step")
    def _check_place(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        if not self.data:
            return value
        texts = self.data["texts"]
        most = len(texts) - 1 if name == "text" else _most_steps(texts)
        return whole("PerturbationPlayer", name, value, least=0, most=most, hint="both count from 0")

    def fallback(self) -> str:
        """Return the means of all curves of the first text as a table."""
        first = self.data["texts"][0]
        rows = [
            {
                "method": label,
                "LeRF": curves["lerf"]["mean"],
                "MoRF": curves["morf"]["mean"],
                "difference": curves["lerf"]["mean"] - curves["morf"]["mean"],
            }
            for label, curves in zip(self.data["methods"].values(), first["methods"].values(), strict=True)
        ]
        caption = f"Mean logit of {first['label']} along the curves, first text"
        return table(rows, caption=caption)._repr_html_()

    def summary(self) -> str:
        """Return how many texts there are, and the methods."""
        return f"{len(self.data['texts'])} texts; {', '.join(self.data['methods'])}"


def _most_steps(texts: Sequence[Mapping[str, Any]]) -> int:
    """The number of steps of the longest curve."""
    methods = [curves for text in texts for curves in text["methods"].values()]
    return max(len(curves[order]["steps"]) for curves in methods for order in ORDERS)


def _farthest_apart(texts: Sequence[Mapping[str, Any]], left: str, right: str) -> tuple[int, int]:
    """The text and step at which two methods' logits differ most, the most relevant tokens first."""
    gaps = {}
    for place, text in enumerate(texts):
        curves = (text["methods"][method]["morf"]["logits"] for method in (left, right))
        for step, (first, second) in enumerate(zip(*curves, strict=False)):
            gaps[place, step] = abs(first - second)
    return max(gaps, key=lambda where: gaps[where])


_NAME = "PerturbationPlayer"


def _plain(path: Mapping[str, Any]) -> dict[str, Any]:
    """A text as the front end takes it."""
    methods: dict[str, dict[str, Any]] = {}
    for name, explained in path["methods"].items():
        methods[name] = {"scores": real_array(_NAME, "scores", explained["scores"]).tolist()}
        for order in ORDERS:
            curve = explained[order]
            methods[name][order] = {**curve, "logits": real_array(_NAME, "logits", curve["logits"]).tolist()}
    return {
        "tokens": [visible(token) for token in path["tokens"]],
        "special": bool_array(_NAME, "special", path["special"]).tolist(),
        "label": visible(path["label"]),
        "methods": methods,
    }
