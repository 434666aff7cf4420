"""One attention read-out on sliders: what the rules say about each token, and what its removal changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import traitlets

from lrp_companion.checks import InputError
from lrp_companion.show.tables import table
from lrp_companion.toys.softmax_step import SoftmaxStep
from lrp_companion.widgets.base import Widget, check_address

FEWEST_TOKENS, MOST_TOKENS = 3, 6
LIMITS = {"logits": 8.0, "values": 2.0}


class SoftmaxLab(Widget, front="softmax_lab"):
    """Logits and values on sliders: attention, AttnLRP, CP-LRP, and the change when a token is removed.

    `o = sum_i A_i v_i` with `A = softmax(z)`; the quantities are those of `toys.softmax_step.SoftmaxStep`.

    Parameters
    ----------
    logits, values : 3 to 6 numbers each, logits z within 8 of zero, values v within 2.
    address : the widget's name in the page.

    Attributes
    ----------
    logits, values : what the reader sees and changes; while their lengths differ, the shorter one counts.

    Raises
    ------
    InputError : lists of different lengths at the start, fewer than 3 or more than 6 numbers, numbers out of
        range.

    >>> SoftmaxLab(logits=(1, 0, 0), values=(2, 1, -1))
    SoftmaxLab(3 tokens)
    """

    links = ("logits", "values")
    logits = traitlets.List(traitlets.Float()).tag(sync=True)
    values = traitlets.List(traitlets.Float()).tag(sync=True)

    def __init__(
        self,
        *,
        logits: Sequence[float] = (2, 1, 0, 0),
        values: Sequence[float] = (1, -0.5, 0.5, 0.25),
        address: str = "softmax",
    ) -> None:
        if len(logits) != len(values):
            raise InputError(
                "SoftmaxLab",
                got=f"{len(logits)} logits and {len(values)} values",
                expected="one value per logit",
                hint="give both per token",
            )
        super().__init__(
            logits=list(logits),
            values=list(values),
            data={"limits": LIMITS},
            address=check_address("SoftmaxLab", address),
        )

    @traitlets.validate("logits", "values")
    def _check(self, proposal: Any) -> list[float]:
        name, numbers = proposal["trait"].name, proposal["value"]
        limit, fits = LIMITS[name], FEWEST_TOKENS <= len(numbers) <= MOST_TOKENS
        if not fits or not all(abs(number) <= limit for number in numbers):
            raise InputError(
                "SoftmaxLab",
                got=f"{name} {numbers!r}",
                expected=f"{FEWEST_TOKENS} to {MOST_TOKENS} numbers from -{limit:g} to {limit:g}",
                hint="a page shows no more",
            )
        return numbers

    def fallback(self) -> str:
        """Return the numbers of the state at start as a table."""
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
        rows = [
            {"quantity": name, **{f"token {i + 1}": float(x) for i, x in enumerate(row)}}
            for name, row in quantities.items()
        ]
        return table(rows, digits=3, caption=f"One query; output o = {step.output:.3f}")._repr_html_()

    def summary(self) -> str:
        """Return how many tokens there are."""
        return f"{len(self.logits)} tokens"
