"""A drawing of one attention head: forward, and relevance flowing back in bands as wide as it is large."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import traitlets

from lrp_companion.checks import InputError, choose, number, whole
from lrp_companion.show.tables import table
from lrp_companion.terminal import visible
from lrp_companion.toys.softmax_step import SoftmaxStep
from lrp_companion.widgets.base import Widget, check_address

STEPS = 5  # forward, split, softmax, keys and query, side by side
LIMIT = 20.0
RULES = ("attnlrp", "cp-lrp")


class HeadStepper(Widget, front="head_stepper"):
    """One query reads three tokens, `z = q k`, `a = softmax(z)`, `o = sum a v`, and relevance goes back.

    AttnLRP goes through all parts by Eq. (3) to (5) with epsilon 0, CP-LRP to the values only, by Eq. (1).

    Parameters
    ----------
    tokens : names of the three tokens; the query belongs to the first.
    query : q, from -20 to 20, as are `keys` and `values`, three of each.
    address : the widget's name in the page.

    Attributes
    ----------
    step : 0 forward, 1 the product split, 2 the softmax, 3 keys and query, 4 side by side with LOO.
    rules : "attnlrp" or "cp-lrp".
    q, k, v : query, keys and values as the reader sees and types them.

    Raises
    ------
    InputError : other than three tokens, or numbers out of range.

    >>> HeadStepper()
    HeadStepper([CLS], slow, charming)
    """

    links = ("rules", "step", "q", "k", "v")
    rules = traitlets.Unicode("attnlrp").tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    q = traitlets.Float(math.log(2)).tag(sync=True)
    k = traitlets.List(traitlets.Float()).tag(sync=True)
    v = traitlets.List(traitlets.Float()).tag(sync=True)

    def __init__(
        self,
        *,
        tokens: Sequence[str] = ("[CLS]", "slow", "charming"),
        query: float = math.log(2),
        keys: Sequence[float] = (1, 1, 2),
        values: Sequence[float] = (2, -6, 8),
        address: str = "head",
    ) -> None:
        if len(tokens) != 3:
            hint = "leave tokens out for the primer's example"
            raise InputError("HeadStepper", got=f"{len(tokens)} tokens", expected="three", hint=hint)
        super().__init__(
            q=query,
            k=list(keys),
            v=list(values),
            data={"tokens": [visible(token) for token in tokens], "limit": LIMIT, "steps": STEPS},
            address=check_address("HeadStepper", address),
        )

    @traitlets.validate("rules")
    def _check_rules(self, proposal: Any) -> str:
        return choose("HeadStepper", "rules", proposal["value"], RULES)

    @traitlets.validate("step")
    def _check_step(self, proposal: Any) -> int:
        hint = "0 is the forward pass"
        return whole("HeadStepper", "step", proposal["value"], least=0, most=STEPS - 1, hint=hint)

    @traitlets.validate("q")
    def _check_query(self, proposal: Any) -> float:
        query = number(
            "HeadStepper", "query", proposal["value"], least=-LIMIT, hint=f"{-LIMIT:g} is the least"
        )
        if query > LIMIT:
            expected, hint = f"a number up to {LIMIT:g}", "choose a smaller number"
            raise InputError("HeadStepper", got=f"query {query:g}", expected=expected, hint=hint)
        return query

    @traitlets.validate("k", "v")
    def _check_list(self, proposal: Any) -> list[float]:
        name, numbers = proposal["trait"].name, proposal["value"]
        if len(numbers) != 3 or not all(abs(x) <= LIMIT for x in numbers):
            expected = f"three numbers from -{LIMIT:g} to {LIMIT:g}"
            hint = "give one per token"
            raise InputError("HeadStepper", got=f"{name} {numbers!r}", expected=expected, hint=hint)
        return numbers

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
        """Return the three maps as a table."""
        parts = self.relevance()
        names = {"attnlrp": "AttnLRP", "cp-lrp": "CP-LRP", "loo": "LOO"}
        rows = [
            {
                "map": label,
                **dict(zip(self.data["tokens"], parts[name], strict=True)),
                "sum": sum(parts[name]),
            }
            for name, label in names.items()
        ]
        return table(rows, caption=f"One head, output {parts['output'][0]:.4g}", digits=4)._repr_html_()

    def summary(self) -> str:
        """Return the tokens."""
        return ", ".join(self.data["tokens"])
