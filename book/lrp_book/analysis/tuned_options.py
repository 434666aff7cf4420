"""Options of the mask gradient and masks of layers, chosen on separate sentences. No torch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrp_book.layers import best_mask
from lrp_companion.checks import SourceError
from lrp_companion.masks import bypassed
from lrp_companion.metrics import Interval
from lrp_companion.metrics.statistics import intervals, side_of_zero
from lrp_companion.runs.load import nearby
from lrp_companion.schema import TOKEN_CHOICES

Row = dict[str, Any]


def load_sheets(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The records in a folder, one JSON file each, by name, as `compare` and `limits` make them.

    The folder may be here or in a folder above.

    Raises
    ------
    SourceError : no such folder, or no record in it.
    """
    place = nearby(folder)
    files = sorted(place.glob("*.json"), key=lambda file: file.stem)
    if not files:
        got, expected = f"{place}, without records", "one file for each model"
        raise SourceError("load_sheets", got=got, expected=expected, hint="see results/README.md")
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def option_rows(record: Mapping[str, Any]) -> list[Row]:
    """Options of a record, with their cost and their closeness to LOO.

    Rows have the fields of the record, `forwards`, `backwards` and their sum `cost`, and by tokens `r` as an
    interval and `error` as a mean.
    """
    r = intervals(
        {
            (row["name"], tokens): _numbers(row["r"][tokens])
            for row in record["rows"]
            for tokens in TOKEN_CHOICES
        }
    )
    out = []
    for row in record["rows"]:
        forwards, backwards = row["passes"]
        passes = {"forwards": forwards, "backwards": backwards, "cost": forwards + backwards}
        out.append({**row, **passes, "r": {tokens: r[row["name"], tokens] for tokens in TOKEN_CHOICES}})
    return out


@dataclass(frozen=True)
class Choice:
    """One option against the option that was used before it.

    Attributes
    ----------
    question : what is chosen.
    option, against : names of options of the records.
    differences : by model and tokens, the paired difference of r, `option - against`.
    """

    question: str
    option: str
    against: str
    differences: Mapping[tuple[str, str], Interval]

    @property
    def verdict(self) -> str:
        """Better or worse if every interval, on all models and tokens, is on that side of 0; else open."""
        sides = {side_of_zero(difference) for difference in self.differences.values()}
        return "better" if sides == {"above"} else "worse" if sides == {"below"} else "open"


GRADIENT = "mask-gradient:groups"
NODES = ("0.5+1", "0.2+1", "0.1+1", "0.05+1", "0+1", "0+0.5+1", "3")
GROUPS = (2, 4, 8, "all")
QUESTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    **{
        f"nodes, K = {k}": (f"{GRADIENT}={k}:nodes=2", tuple(f"{GRADIENT}={k}:nodes={n}" for n in NODES))
        for k in GROUPS
    },
    **{
        f"a lower node, K = {k}": (f"{GRADIENT}={k}:nodes=0.2+1", (f"{GRADIENT}={k}:nodes=0.1+1",))
        for k in GROUPS
    },
    **{
        f"equal weights, K = {k}": (
            f"{GRADIENT}={k}:nodes=0.2+1",
            tuple(f"{GRADIENT}={k}:nodes={nodes}:weights=equal" for nodes in ("0.2+1", "0.1+1")),
        )
        for k in GROUPS
    },
    **{
        f"groups, K = {k}, nodes {nodes}": (
            f"{GRADIENT}={k}:nodes={nodes}",
            tuple(f"{GRADIENT}={k}:nodes={nodes}:by={by}" for by in ("random", "gradient")),
        )
        for k in (2, 4, 8)
        for nodes in ("2", "0.2+1")
    },
    **{
        f"correction, {exact} exact tokens": (
            f"hybrid:exact={exact}",
            tuple(f"hybrid:exact={exact}:correct={correct}" for correct in ("scale", "shift", "line")),
        )
        for exact in (2, 4, 8)
    },
}
"""Each question with the option used before, and those that must be better on every model, over both tokens.
"""


def option_choices(records: Sequence[Mapping[str, Any]]) -> list[Choice]:
    """Each option of `QUESTIONS` against the one used before, paired on the texts of each record."""
    values = {
        (record["config"]["model"], row["name"], tokens): _numbers(row["r"][tokens])
        for record in records
        for row in record["rows"]
        for tokens in TOKEN_CHOICES
    }
    pairs = [
        (question, option, before) for question, (before, options) in QUESTIONS.items() for option in options
    ]
    places = [(record["config"]["model"], tokens) for record in records for tokens in TOKEN_CHOICES]
    differences = intervals(
        {
            (pair, (model, tokens)): values[model, pair[1], tokens] - values[model, pair[2], tokens]
            for pair in pairs
            for model, tokens in places
        }
    )
    return [Choice(*pair, {place: differences[pair, place] for place in places}) for pair in pairs]


def _numbers(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def best_masks(records: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The mask with the largest mean r of each record of `compare_masks`, chosen on the words.

    Returns
    -------
    list
        Rows `model`, `n`, `layers` bypassed, `name` of the mask as a method of a run, and by tokens `r` of
        the "best" mask, of "attnlrp" (no layer) and of "cp-lrp" (all).

    >>> record = {"config": {"model": "m", "texts": 9}, "r": {"no-special": [0.1, 0.3], "all": [0.2, 0.1]}}
    >>> best_masks([record])[0]["name"]
    'lrp:bypass=1'
    """
    out = []
    for record in records:
        mask = best_mask(record["r"]["no-special"])
        layers = sorted(bypassed(mask))
        r = {
            tokens: {"best": means[mask], "attnlrp": means[0], "cp-lrp": means[-1]}
            for tokens, means in record["r"].items()
        }
        row: Row = {"model": record["config"]["model"], "n": record["config"]["texts"], "layers": layers}
        row["name"] = "lrp:bypass=" + "+".join(map(str, layers)) if layers else "attnlrp"
        out.append({**row, "r": r})
    return out
