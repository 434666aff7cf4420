"""MoRF and LeRF, step by step: which token goes next, and how the curve grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import traitlets

from lrp_companion.schema import InputError, choose
from lrp_companion.views.palette import styles
from lrp_companion.views.tables import table
from lrp_companion.views.tokens import visible
from lrp_companion.widgets.base import Widget, check_address

ORDERS = ("morf", "lerf")


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
    step : how many steps have been taken.

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
        data = {"methods": labels, "texts": [_plain(path) for path in paths]}
        super().__init__(
            data=data,
            left=methods[-2:][0],
            right=methods[-1],
            address=check_address("PerturbationPlayer", address),
        )

    @traitlets.validate("left", "right")
    def _check_method(self, proposal: Any) -> str:
        return (
            choose("PerturbationPlayer", "method", proposal["value"], list(self.data["methods"]))
            if self.data
            else proposal["value"]
        )

    @traitlets.validate("text", "step")
    def _check_place(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        if self.data:
            texts = self.data["texts"]
            count = (
                len(texts)
                if name == "text"
                else max(
                    len(path[m][o]["steps"]) + 1 for path in _methods(texts) for m in path for o in ORDERS
                )
            )
            if not 0 <= value < count:
                raise InputError(
                    "PerturbationPlayer",
                    got=f"{name} {value}",
                    expected=f"0 to {count - 1}",
                    hint="both count from 0",
                )
        return value

    def fallback(self) -> str:
        """Return the means of all curves of the first text as a table."""
        first = self.data["texts"][0]
        rows = [
            {
                "method": label,
                "LeRF": own["lerf"]["mean"],
                "MoRF": own["morf"]["mean"],
                "difference": own["lerf"]["mean"] - own["morf"]["mean"],
            }
            for label, own in zip(self.data["methods"].values(), first["methods"].values(), strict=True)
        ]
        return table(
            rows, caption=f"Mean logit of {first['label']} along the curves, first text"
        )._repr_html_()

    def summary(self) -> str:
        """Return how many texts there are, and the methods."""
        return f"{len(self.data['texts'])} texts; {', '.join(self.data['methods'])}"


def _methods(texts: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [text["methods"] for text in texts]


def _plain(path: Mapping[str, Any]) -> dict[str, Any]:
    methods = {
        name: {
            "scores": np.asarray(own["scores"]).tolist(),
            **{
                order: {**own[order], "logits": np.asarray(own[order]["logits"]).tolist()} for order in ORDERS
            },
        }
        for name, own in path["methods"].items()
    }
    return {
        "tokens": [visible(token) for token in path["tokens"]],
        "special": np.asarray(path["special"]).tolist(),
        "label": visible(path["label"]),
        "methods": methods,
    }
