"""A drawing of one attention head: forward, and relevance flowing back in bands as wide as it is large."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import traitlets

from lrp_companion.registry import label_of
from lrp_companion.toys.softmax_step import SoftmaxStep
from lrp_companion.widgets.base import Widget
from lrp_companion.widgets.still import bars

STEPS = 5  # forward, split, softmax, keys and query, side by side
LIMIT = 20.0


class HeadStepper(Widget, front="head_stepper"):
    """One query reads three tokens, `z = q k`, `a = softmax(z)`, `o = sum a v`, and relevance goes back.

    AttnLRP goes through all parts by Eq. (3) to (5) with epsilon 0, CP-LRP to the values only, by Eq. (1).

    Attributes
    ----------
    step : 0 forward, 1 the product split, 2 the softmax, 3 keys and query, 4 side by side with LOO.
    rules : "attnlrp" or "cp-lrp".
    q, k, v : the query, three keys and three values, from -20 to 20; the query is the first token's.

    >>> HeadStepper()
    HeadStepper([CLS], slow, charming)
    """

    links = ("rules", "step", "q", "k", "v")
    rules = traitlets.Enum(("attnlrp", "cp-lrp"), "attnlrp").tag(sync=True)
    step = traitlets.Int(0, min=0, max=STEPS - 1).tag(sync=True)
    q = traitlets.Float(math.log(2), min=-LIMIT, max=LIMIT).tag(sync=True)
    k = traitlets.List(traitlets.Float(min=-LIMIT, max=LIMIT), [1.0, 1.0, 2.0], 3, 3).tag(sync=True)
    v = traitlets.List(traitlets.Float(min=-LIMIT, max=LIMIT), [2.0, -6.0, 8.0], 3, 3).tag(sync=True)

    def __init__(self, **state: Any) -> None:
        data = {"tokens": ["[CLS]", "slow", "charming"], "limit": LIMIT, "steps": STEPS}
        super().__init__(**{"data": data, "address": "head", **state})

    def relevance(self) -> dict[str, list[float]]:
        """Relevance of every part under AttnLRP, by name, and the three maps, as the page computes them."""
        step = SoftmaxStep(self.q * np.array(self.k), np.array(self.v))
        at_key = step.logit_relevance() / 2
        maps = step.value_relevance() + at_key
        maps[0] += at_key.sum()  # the query is the first token's
        return {
            "scores": step.logits.tolist(),
            "weights": step.attention.tolist(),
            "output": [step.output],
            "at value": step.value_relevance().tolist(),
            "at score": step.logit_relevance().tolist(),
            "at key": at_key.tolist(),
            "at query": [float(at_key.sum())],
            "attnlrp": maps.tolist(),
            "cp-lrp": step.cp_lrp().tolist(),
            "loo": step.loo().tolist(),
        }

    def fallback(self) -> str:
        """Return a picture of the three maps."""
        parts = self.relevance()
        rows = {label_of(name): parts[name] for name in ("attnlrp", "cp-lrp", "loo")}
        return bars(rows, self.data["tokens"], f"One head, output {parts['output'][0]:.4g}")

    def summary(self) -> str:
        """Return the tokens."""
        return ", ".join(self.data["tokens"])
