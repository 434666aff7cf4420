"""Pass by pass from one gradient to exact LOO: the map, its r, and its cost, on one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import traitlets

from lrp_companion.arrays import bool_array, real_array
from lrp_companion.checks import InputError, choose, whole
from lrp_companion.schema import TOKEN_CHOICES
from lrp_companion.show.tables import table
from lrp_companion.terminal import visible
from lrp_companion.widgets.base import Widget, check_address

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

    Raises
    ------
    InputError : no texts, or not as `anytime_maps` makes them; a text, way, choice of tokens or step that
        does not exist.

    >>> FrontierPlayer(anytime_maps(clf, texts))  # doctest: +SKIP
    FrontierPlayer(6 texts; hybrid, groups, random)
    """

    links: ClassVar[tuple[str, ...]] = ("text", "way", "tokens", "step")
    text = traitlets.Int(0).tag(sync=True)
    way = traitlets.Unicode("hybrid").tag(sync=True)
    tokens = traitlets.Unicode("no-special").tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, texts: Sequence[Mapping[str, Any]], *, address: str = "passes") -> None:
        if not texts:
            raise _unfit("no texts")
        data = {"ways": WAY_TEXTS, "texts": [_plain(f"text {k}", text) for k, text in enumerate(texts)]}
        super().__init__(data=data, address=check_address("FrontierPlayer", address))

    @traitlets.validate("way", "tokens")
    def _check_choice(self, proposal: Any) -> str:
        name = proposal["trait"].name
        options = tuple(WAY_TEXTS) if name == "way" else TOKEN_CHOICES
        return choose("FrontierPlayer", name, proposal["value"], options)

    @traitlets.validate("text", "step")
    def _check_place(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        if not self.data:
            return value
        texts = self.data["texts"]
        most = len(texts) - 1 if name == "text" else len(texts[self.text]["tokens"])
        return whole("FrontierPlayer", name, value, least=0, most=most, hint="both count from 0")

    @traitlets.observe("text")
    def _stay_inside(self, _: Any) -> None:
        if self.data:
            self.step = min(self.step, len(self.data["texts"][self.text]["tokens"]))

    def fallback(self) -> str:
        """Return passes and r of the first text at a few steps of every way as a table."""
        first = self.data["texts"][0]
        last = len(first["tokens"])
        rows = [
            {
                "way": f"{WAY_TEXTS[way]['label']}, {WAY_TEXTS[way]['counts']}: {step}",
                "forward passes": steps["passes"][step][0],
                "backward passes": steps["passes"][step][1],
                "r on the words": _number(steps["r"]["no-special"][step]),
                "r on all tokens": _number(steps["r"]["all"][step]),
            }
            for way, steps in first["ways"].items()
            for step in dict.fromkeys((0, 1, last // 4, last // 2, last))
        ]
        caption = (
            f"r with LOO of {first['label']}, first text of {last} tokens; "
            f"LOO itself takes {first['forwards']} forward passes"
        )
        return table(rows, caption=caption)._repr_html_()

    def summary(self) -> str:
        """Return how many texts there are, and the ways."""
        count = len(self.data["texts"])
        return f"{count} text{'s' * (count != 1)}; {', '.join(WAY_TEXTS)}"


_NAME = "FrontierPlayer"


def _unfit(got: str) -> InputError:
    return InputError(
        _NAME,
        got=got,
        expected="texts with LOO and the steps of every way",
        hint="make them with anytime_maps",
    )


def _plain(name: str, text: Mapping[str, Any]) -> dict[str, Any]:
    """A text as the front end takes it; a map that only repeats LOO or the previous step is not carried."""
    try:
        return _checked(name, text)
    except InputError:
        raise
    except (KeyError, IndexError, TypeError, ValueError) as error:
        reason = f" without {error}" if isinstance(error, KeyError) else f": {error}"
        raise _unfit(name + reason) from error


def _checked(name: str, text: Mapping[str, Any]) -> dict[str, Any]:
    loo, special = real_array(_NAME, "loo", text["loo"]), bool_array(_NAME, "special", text["special"])
    tokens, ways = [visible(token) for token in text["tokens"]], {way: text["ways"][way] for way in WAY_TEXTS}
    if not tokens or not loo.shape == special.shape == (len(tokens),) or not np.isfinite(loo).all():
        shapes = f"LOO of shape {loo.shape} and special tokens of shape {special.shape}"
        raise _unfit(f"{name} with {len(tokens)} tokens, {shapes}")
    decimals = 4 - math.floor(math.log10(np.abs(loo).max() or 1))  # five digits of the largest
    return {
        "tokens": tokens,
        "special": special.tolist(),
        "label": visible(text["label"]),
        "forwards": int(text["forwards"]),
        "loo": _rounded(loo, decimals),
        "ways": {way: _way(f"{name}, {way}", steps, loo, decimals) for way, steps in ways.items()},
    }


def _way(name: str, steps: Sequence[Mapping[str, Any]], loo: np.ndarray, decimals: int) -> dict[str, Any]:
    """Steps as columns.

    `order` is how tokens become exact and `exact` how many are at each step. `rest` holds, for the other
    tokens, all scores, or one number where they are equal, or None where they are as before.
    """
    if len(steps) != len(loo) + 1:
        raise _unfit(f"{name} with {len(steps)} steps for {len(loo)} tokens")
    order: list[int] = []
    rest: list[Any] = []
    carried = None
    for p, step in enumerate(steps):
        scores, exact = _exact_step(f"{name}, step {p}", step, loo, order)
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


def _exact_step(
    name: str, step: Mapping[str, Any], loo: np.ndarray, before: Sequence[int]
) -> tuple[np.ndarray, list[int]]:
    """A step's scores and exact tokens; raise `InputError` where they do not fit LOO or the steps before."""
    scores, exact = real_array(_NAME, "scores", step["scores"]), list(step["exact"])
    if scores.shape != loo.shape or not np.isfinite(scores).all():
        raise _unfit(f"{name} with scores of shape {scores.shape}, or NaN in them")
    if set(before) - set(exact) or not np.array_equal(scores[exact], loo[exact]):
        raise _unfit(f"{name} whose exact tokens {exact} have not all LOO's value, or were more before")
    return scores, exact


def _rounded(values: Any, decimals: int) -> list[float | None]:
    """Numbers rounded to the given decimals; None where one is undefined."""
    return [
        round(value, decimals) if math.isfinite(value) else None
        for value in np.asarray(values, dtype=np.float64).tolist()
    ]


def _number(value: float | None) -> float:
    return math.nan if value is None else value
