"""Every choice that the paper leaves open as a switch: two agreements with LOO and their difference."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import traitlets

from lrp_companion.metrics import Interval
from lrp_companion.widgets.base import Widget
from lrp_companion.widgets.still import bars

SCALE = 10_000  # values are carried as whole numbers of steps of 1e-4
UNDEFINED = -32768  # a combination that a run lacks, or a value that is undefined


class ProtocolSwitchboard(Widget, front="protocol_switchboard"):
    """Change every choice of the protocol and see both methods' r with LOO, their paired difference, and its
    rank among all combinations.

    Parameters
    ----------
    data : what `boards.switchboard` makes from runs: boards, each with axes of choices, and runs with an
        interval per combination.
    address : the widget's name in the page.

    Attributes
    ----------
    board : the key of the board in view.
    run : the key of the run: data set and model.
    choices : one option's key per axis, in the board's order.
    all : whether the curve has all combinations, or those of site, tokens and map alone, the rest as chosen.

    If a run lacks the combination, as IMDB lacks some removals, its closest combination is shown.

    >>> ProtocolSwitchboard(switchboard(runs))  # doctest: +SKIP
    ProtocolSwitchboard(Reviews: 2 runs, 432 combinations)
    """

    links: ClassVar[tuple[str, ...]] = ("board", "run", "choices", "all")
    board = traitlets.Unicode().tag(sync=True)
    run = traitlets.Unicode().tag(sync=True)
    choices = traitlets.List(traitlets.Unicode()).tag(sync=True)
    all = traitlets.Bool(False).tag(sync=True)

    def __init__(self, data: Mapping[str, Any], *, address: str = "switchboard") -> None:
        boards = list(data["boards"])
        self._cells = {
            (board["key"], run["key"]): _cells(board, run) for board in boards for run in board["runs"]
        }
        run, choices = _state(boards[0], {})
        key = boards[0]["key"]
        super().__init__(data={"boards": boards}, board=key, run=run, choices=choices, address=address)

    def _values(self, board: Mapping[str, Any], run: str, choices: Sequence[str]) -> dict[str, Interval]:
        cells, lacking = self._cells[board["key"], run]
        place = _place(board, choices)
        steps, without = cells[place].astype(np.float64), int(lacking[place])
        steps[steps == UNDEFINED] = np.nan
        n = next(record["n"] for record in board["runs"] if record["key"] == run) - without
        b, a, difference = (
            Interval(mean, low, high, n, without)
            for mean, low, high in (steps / SCALE).reshape(3, 3).tolist()
        )
        return {board["a"]: a, board["b"]: b, "difference": difference}

    def fallback(self) -> str:
        """Return a picture of r under every preset, one per board."""
        return "".join(map(self._picture, self.data["boards"]))

    def _picture(self, board: Mapping[str, Any]) -> str:
        states = {preset["label"]: preset["state"] for preset in board["presets"]} or {"start": {}}
        values = [self._values(board, *_state(board, state)) for state in states.values()]
        rows = {name: [of[name].mean for of in values] for name in values[0]}
        named = "; ".join(f"{k}: {name}" for k, name in enumerate(states, 1))
        return bars(rows, range(1, len(states) + 1), f"{board['label']}, r with LOO. {named}", scale=1)

    def summary(self) -> str:
        """Return the boards, how many runs and how many combinations each has."""
        return "; ".join(
            f"{board['label']}: {len(board['runs'])} run{'s' * (len(board['runs']) != 1)},"
            f" {np.prod([len(axis['options']) for axis in board['axes']])} combinations"
            for board in self.data["boards"]
        )


def _state(board: Mapping[str, Any], changes: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The run and the choices of a board's start with some changes, as of a preset."""
    state = {**board["start"], **changes}
    return state["run"], [state[axis["key"]] for axis in board["axes"]]


def _keys(axis: Mapping[str, Any]) -> list[str]:
    return [option["key"] for option in axis["options"]]


def _place(board: Mapping[str, Any], choices: Sequence[str]) -> tuple[int, ...]:
    return tuple(_keys(axis).index(choice) for axis, choice in zip(board["axes"], choices, strict=True))


def _cells(board: Mapping[str, Any], run: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """A run's cells (*options, 9) in steps, and how many examples have no r in each (*options)."""
    shape = tuple(len(axis["options"]) for axis in board["axes"])
    cells = np.frombuffer(base64.b64decode(run["cells"]), dtype="<i2")
    lacking = np.frombuffer(base64.b64decode(run["undefined"]), dtype="<u2")
    return cells.reshape(*shape, 9), lacking.reshape(shape)
