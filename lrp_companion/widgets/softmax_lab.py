"""One attention read-out on sliders: what the rules say about each token, and what its removal changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import traitlets

from lrp_companion.toys.softmax_step import SoftmaxStep
from lrp_companion.widgets.base import Widget
from lrp_companion.widgets.still import bars

LIMITS = {"logits": 8.0, "values": 2.0}


class SoftmaxLab(Widget, front="softmax_lab"):
    """Logits and values on sliders: attention, AttnLRP, CP-LRP, and the change when a token is removed.

    `o = sum_i A_i v_i` with `A = softmax(z)`; the quantities are those of `toys.softmax_step.SoftmaxStep`.

    Attributes
    ----------
    logits, values : 3 to 6 numbers each, logits z within 8 of zero, values v within 2; while their lengths
        differ, the shorter one counts.

    >>> SoftmaxLab(logits=[1, 0, 0], values=[2, 1, -1])
    SoftmaxLab(3 tokens)
    """

    links = ("logits", "values")
    logits = traitlets.List(traitlets.Float(min=-8, max=8), [2.0, 1, 0, 0], 3, 6).tag(sync=True)
    values = traitlets.List(traitlets.Float(min=-2, max=2), [1, -0.5, 0.5, 0.25], 3, 6).tag(sync=True)

    def __init__(self, **state: Any) -> None:
        super().__init__(**{"data": {"limits": LIMITS}, "address": "softmax", **state})

    def fallback(self) -> str:
        """Return a picture of the state at start."""
        # Set one after another, they may differ in length: the shorter counts, as in the view.
        n = min(len(self.logits), len(self.values))
        step = SoftmaxStep(np.array(self.logits[:n]), np.array(self.values[:n]))
        quantities = {
            "logit z": step.logits,
            "value v": step.values,
            "attention A": step.attention,
            "LOO": step.loo(),
            "AttnLRP": step.attnlrp(),
            "CP-LRP": step.cp_lrp(),
        }
        columns = [f"token {i + 1}" for i in range(n)]
        return bars(quantities, columns, f"One query; output o = {step.output:.3f}")

    def summary(self) -> str:
        """Return how many tokens there are."""
        return f"{len(self.logits)} tokens"
