"""Options of the mask gradient and masks of the layers, as their records say: chosen on sentences that judge
nothing else. No torch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrp_companion.analysis.layer_game import best_mask
from lrp_companion.masks import bypassed
from lrp_companion.metrics import Interval
from lrp_companion.metrics.statistics import intervals, side_of_zero
from lrp_companion.runs.load import nearby
from lrp_companion.schema import TOKEN_CHOICES, SourceError

Row = dict[str, Any]


def load_sheets(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The records in a folder, one JSON file each, by name, as `compare` and `limits` make them; looked for
    here and in the folders above.

    Raises
    ------
    SourceError : no such folder, or no record in it.
    """
    found = nearby(folder)
    files = sorted(found.glob("*.json"), key=lambda file: file.stem)
    if not files:
        raise SourceError(
            "load_sheets",
            got=f"{found}, without records",
            expected="one file for each model",
            hint="see results/README.md",
        )
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def option_rows(record: Mapping[str, Any]) -> list[Row]:
    """Options of a record: `name`, its fields, `forwards`, `backwards`, `cost`, and by tokens `r` as
    intervals and the mean `error`.
    """
    found = intervals(
        {
            (row["name"], tokens): _numbers(row["r"][tokens])
            for row in record["rows"]
            for tokens in TOKEN_CHOICES
        }
    )
    out = []
    for row in record["rows"]:
        forwards, backwards = row["passes"]
        r = {tokens: found[row["name"], tokens] for tokens in TOKEN_CHOICES}
        out.append(
            {**row, "forwards": forwards, "backwards": backwards, "cost": forwards + backwards, "r": r}
        )
    return out


@dataclass(frozen=True)
class Choice:
    """One option against another that was there first.

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
        """ "better" or "worse" if every interval, on all models and tokens, is on that side of 0; else
        "open".
        """
        sides = {side_of_zero(own) for own in self.differences.values()}
        return "better" if sides == {"above"} else "worse" if sides == {"below"} else "open"


QUESTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    **{
        f"nodes, K = {groups}": (
            f"mask-gradient:groups={groups}:nodes=2",
            tuple(f"mask-gradient:groups={groups}:nodes={nodes}" for nodes in ("0.5+1", "0.2+1", "0.1+1",
                "0.05+1", "0+1", "0+0.5+1", "3")),
        )
        for groups in (2, 4, 8, "all")
    },
    **{
        f"a lower node, K = {groups}": (f"mask-gradient:groups={groups}:nodes=0.2+1",
            (f"mask-gradient:groups={groups}:nodes=0.1+1",))
        for groups in (2, 4, 8, "all")
    },
    **{
        f"equal weights, K = {groups}": (
            f"mask-gradient:groups={groups}:nodes=0.2+1",
            tuple(f"mask-gradient:groups={groups}:nodes={nodes}:weights=equal" for nodes in ("0.2+1",
                "0.1+1")),
        )
        for groups in (2, 4, 8, "all")
    },
    **{
        f"groups, K = {groups}, nodes {nodes}": (
            f"mask-gradient:groups={groups}:nodes={nodes}",
            tuple(f"mask-gradient:groups={groups}:nodes={nodes}:by={by}" for by in ("random", "gradient")),
        )
        for groups in (2, 4, 8)
        for nodes in ("2", "0.2+1")
    },
    **{
        f"correction, {exact} exact tokens": (
            f"hybrid:exact={exact}",
            tuple(f"hybrid:exact={exact}:correct={correct}" for correct in ("scale", "shift", "line")),
        )
        for exact in (2, 4, 8)
    },
}  # fmt: skip
"""What is chosen: the option that was there first, and those that would have to be better on every model and
both tokens.
"""


def option_choices(records: Sequence[Mapping[str, Any]]) -> list[Choice]:
    """Each option of `QUESTIONS` against the one that was there first, paired on the texts of each record."""
    values = {
        (record["config"]["model"], row["name"], tokens): _numbers(row["r"][tokens])
        for record in records
        for row in record["rows"]
        for tokens in TOKEN_CHOICES
    }
    asked = {
        (question, option, first, model, tokens): values[model, option, tokens] - values[model, first, tokens]
        for question, (first, options) in QUESTIONS.items()
        for option in options
        for model in (record["config"]["model"] for record in records)
        for tokens in TOKEN_CHOICES
    }
    found, out = intervals(asked), []
    for question, (first, options) in QUESTIONS.items():
        for option in options:
            own = {key[3:]: value for key, value in found.items() if key[:3] == (question, option, first)}
            out.append(Choice(question, option, first, own))
    return out


def _numbers(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def best_masks(records: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The mask with the largest mean r of each record of `compare_masks`: `model`, `n`, `layers` bypassed,
    and by tokens `r` of it, of AttnLRP (no layer) and of CP-LRP (all). Chosen on the words; a method of a run
    as `name` says.

    >>> best_masks([{"config": {"model": "m", "texts": 9}, "r": {"no-special": [0.1, 0.3], "all": [0.2, 0.1]}}])[0]["name"]
    'lrp:bypass=1'
    """
    out = []
    for record in records:
        mask = best_mask(record["r"]["no-special"])
        layers = sorted(bypassed(mask))
        r = {
            tokens: {"best": own[mask], "attnlrp": own[0], "cp-lrp": own[-1]}
            for tokens, own in record["r"].items()
        }
        name = "lrp:bypass=" + "+".join(map(str, layers)) if layers else "attnlrp"
        out.append(
            {
                "model": record["config"]["model"],
                "n": record["config"]["texts"],
                "layers": layers,
                "name": name,
                "r": r,
            }
        )
    return out
