"""Pass by pass from one gradient to exact LOO: the map, its r, and its cost, on one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import traitlets

from lrp_companion.schema import TOKEN_CHOICES, InputError, choose
from lrp_companion.views.tables import table
from lrp_companion.views.tokens import visible
from lrp_companion.widgets.base import Widget, check_address

WAYS = {
    "hybrid": {
        "label": "Hybrid",
        "counts": "tokens with LOO",
        "says": "the mask gradient, and LOO for the tokens where it is largest",
    },
    "groups": {
        "label": "Groups",
        "counts": "groups",
        "says": "the mask gradient, read with the tokens in more and more groups",
    },
    "random": {
        "label": "Random",
        "counts": "tokens with LOO",
        "says": "LOO for tokens drawn at random, and their mean for the others",
    },
}


class FrontierPlayer(Widget, front="frontier_player"):
    """Spend passes on one sentence step by step: the map nears LOO token by token, with its r and its cost.

    The map is that of one of three ways to spend passes, beside LOO `f(x) - f(x without i)` on LOO's own
    scale of colours.

    Parameters
    ----------
    texts : one dict per text, as `anytime_maps` makes them.
    address : the widget's name in the page.

    Attributes
    ----------
    text : which text, from 0. A shorter one takes the step back to its last.
    way : "hybrid", "groups" or "random".
    tokens : which tokens count for r, "no-special" or "all".
    step : from 0 to the text's number of tokens.

    Raises
    ------
    InputError : no texts, or not as `anytime_maps` makes them; a text, way, choice of tokens or step that is
        not there.

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
        data = {"ways": WAYS, "texts": [_plain(f"text {k}", text) for k, text in enumerate(texts)]}
        super().__init__(data=data, address=check_address("FrontierPlayer", address))

    @traitlets.validate("way", "tokens")
    def _check_choice(self, proposal: Any) -> str:
        name = proposal["trait"].name
        return choose(
            "FrontierPlayer", name, proposal["value"], tuple(WAYS) if name == "way" else TOKEN_CHOICES
        )

    @traitlets.validate("text", "step")
    def _check_place(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        if self.data:
            texts = self.data["texts"]
            most = len(texts) - 1 if name == "text" else len(texts[self.text]["tokens"])
            if not 0 <= value <= most:
                raise InputError(
                    "FrontierPlayer", got=f"{name} {value}", expected=f"0 to {most}", hint="both count from 0"
                )
        return value

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
                "way": f"{WAYS[way]['label']}, {WAYS[way]['counts']}: {step}",
                "forward passes": own["passes"][step][0],
                "backward passes": own["passes"][step][1],
                "r on the words": _number(own["r"]["no-special"][step]),
                "r on all tokens": _number(own["r"]["all"][step]),
            }
            for way, own in first["ways"].items()
            for step in dict.fromkeys((0, 1, last // 4, last // 2, last))
        ]
        caption = f"r with LOO of {first['label']}, first text of {last} tokens; LOO itself takes {first['forwards']} forward passes"
        return table(rows, caption=caption)._repr_html_()

    def summary(self) -> str:
        """Return how many texts there are, and the ways."""
        count = len(self.data["texts"])
        return f"{count} text{'s' * (count != 1)}; {', '.join(WAYS)}"


def _unfit(got: str) -> InputError:
    return InputError(
        "FrontierPlayer",
        got=got,
        expected="texts with LOO and the steps of every way",
        hint="make them with anytime_maps",
    )


def _plain(name: str, text: Mapping[str, Any]) -> dict[str, Any]:
    """A text as the front end takes it; a map that only repeats LOO or the step before is not carried."""
    try:
        loo, special = np.asarray(text["loo"], dtype=np.float64), np.asarray(text["special"], dtype=bool)
        tokens, ways = [visible(token) for token in text["tokens"]], {way: text["ways"][way] for way in WAYS}
        own: dict[str, Any] = {"tokens": tokens, "special": special.tolist(), "label": visible(text["label"])}
        own |= {"forwards": int(text["forwards"])}
        if not tokens or not loo.shape == special.shape == (len(tokens),) or not np.isfinite(loo).all():
            raise _unfit(
                f"{name} with {len(tokens)} tokens, LOO of shape {loo.shape} and special tokens of shape {special.shape}"
            )
        decimals = 4 - math.floor(math.log10(np.abs(loo).max() or 1))  # five digits of the largest
        own["loo"] = _rounded(loo, decimals)
        return own | {
            "ways": {way: _way(f"{name}, {way}", steps, loo, decimals) for way, steps in ways.items()}
        }
    except InputError:
        raise
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise _unfit(
            f"{name} without {error}" if isinstance(error, KeyError) else f"{name}: {error}"
        ) from error


def _way(name: str, steps: Sequence[Mapping[str, Any]], loo: np.ndarray, decimals: int) -> dict[str, Any]:
    """Steps as columns. `order` is how tokens become exact, `exact` how many are at each step; `rest` holds
    for the other tokens all scores, or one number where they are equal, or None where they are as before."""
    if len(steps) != len(loo) + 1:
        raise _unfit(f"{name} with {len(steps)} steps for {len(loo)} tokens")
    order: list[int] = []
    rest: list[Any] = []
    known = None
    for p, step in enumerate(steps):
        scores, places = np.asarray(step["scores"], dtype=np.float64), list(step["exact"])
        new, others = [i for i in places if i not in order], np.setdiff1d(np.arange(len(loo)), places)
        if scores.shape != loo.shape or not np.isfinite(scores).all():
            raise _unfit(f"{name}, step {p} with scores of shape {scores.shape}, or NaN in them")
        if set(order) - set(places) or not np.array_equal(scores[places], loo[places]):
            raise _unfit(
                f"{name}, step {p} whose exact tokens {places} have not all LOO's value, or were more before"
            )
        order += new
        if not others.size or (known is not None and np.array_equal(known[others], scores[others])):
            rest.append(None if known is not None else 0.0)
        elif np.ptp(scores[others]) == 0:
            known = None
            rest += _rounded(scores[others][:1], decimals)
        else:
            known = scores
            rest.append(_rounded(scores, decimals))
    columns = {
        key: {tokens: _rounded([step[key][tokens] for step in steps], 4) for tokens in TOKEN_CHOICES}
        for key in ("r", "error")
    }
    passes = [[int(step["forwards"]), int(step["backwards"])] for step in steps]
    return {
        "order": order,
        "exact": [len(step["exact"]) for step in steps],
        "rest": rest,
        "passes": passes,
        **columns,
    }


def _rounded(values: Any, decimals: int) -> list[float | None]:
    """Numbers to so many decimals; None where one is undefined."""
    return [
        round(value, decimals) if math.isfinite(value) else None
        for value in np.asarray(values, dtype=np.float64).tolist()
    ]


def _number(value: float | None) -> float:
    return math.nan if value is None else value
