"""Scores of tokens: rows in colour, two maps against LOO, and a run under every protocol."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import traitlets

from lrp_companion.attribution import Attribution, Completion, differences
from lrp_companion.checks import InputError
from lrp_companion.metrics import Interval, agreement
from lrp_companion.registry import label_of
from lrp_companion.schema import Protocol, counted
from lrp_companion.show.tokens import KEY, token_heatmap
from lrp_companion.terminal import quoted, visible
from lrp_companion.widgets.base import LEAST, Widget, bars, dots


class TokenHeatmap(Widget, front="token_heatmap"):
    """One or more explanations as rows of coloured tokens, with each value on hover, on focus and in print.

    Parameters
    ----------
    attributions, titles, loo : as for `token_heatmap`, which shows the same without a script. Of a
        `Completion` one row is shown: of the token that is chosen, or of all.
    address : the widget's name in the page.

    Attributes
    ----------
    rows : one dict per row: `title`, `tokens`, `special`, `scores`. Set it from Python and the rows repaint.
    chosen : of a completion the row that is shown: 0 is the sum.

    >>> TokenHeatmap(Attribution(("[CLS]", "fine"), [0.1, -0.25], 1, 2.5, [True, False], "loo"))
    TokenHeatmap(loo, target 1, logit 2.500)
    """

    rows: traitlets.List[Any] = traitlets.List().tag(sync=True)
    chosen = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        attributions: Attribution | Sequence[Attribution],
        *,
        titles: Sequence[str] | None = None,
        loo: Attribution | None = None,
        address: str = "tokens",
    ) -> None:
        self._shown = token_heatmap(attributions, titles=titles, loo=loo)
        rows = list(map(row_of, self._shown.rows, self._shown.titles))
        names = []
        if isinstance(attributions, Completion):
            names = ["all", *(visible(quoted(token)) for token in attributions.tokens)]
        data = {"key": KEY, "answer": names}
        super().__init__(rows=rows, data=data, address=address)

    def linked(self) -> tuple[str, ...]:
        """Return the choice of a token, where there is one."""
        return ("chosen",) if self.data["answer"] else ()

    def fallback(self) -> str:
        """Return the same rows without a script."""
        return self._shown.html()

    def summary(self) -> str:
        """Return the rows' titles."""
        return "; ".join(row["title"] for row in self.rows)


def row_of(record: Attribution, title: str) -> dict[str, Any]:
    """Return one row of tokens as plain JSON, with control characters spelled out."""
    return {
        "title": visible(title),
        "tokens": [visible(token) for token in record.pieces],
        "special": record.special.tolist(),
        "scores": record.scores.tolist(),
    }


class OutlierScene(Widget, front="outlier_scene"):
    """A sentence in LOO's colours and two methods', and its tokens as dots, LOO across, relevance up.

    Marks such as `[CLS]` can be left out: their dots become rings, and all others stay where they are.

    Parameters
    ----------
    maps : the same text explained by two methods.
    loo : LOO of that text, of the same target.
    label : the name of the class that is explained.
    margin : a smaller difference between the two r reads "level".
    address : the widget's name in the page.
    reduced : without the ranks, as a first look.

    Attributes
    ----------
    without : whether special tokens are left out.
    ranked : whether both axes are ranks, and r is Spearman's.

    >>> OutlierScene([attnlrp, cp_lrp], loo)  # doctest: +SKIP
    OutlierScene(attnlrp, cp-lrp; 14 tokens, 12 of them words)
    """

    links = ("without", "ranked")
    without = traitlets.Bool(False).tag(sync=True)
    ranked = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        maps: Sequence[Attribution],
        loo: Attribution,
        *,
        label: str = "",
        margin: float = 0.05,
        address: str = "outlier",
        reduced: bool = False,
    ) -> None:
        apart = [difference for record in maps for difference in differences(record, loo)]
        if len(maps) != 2 or apart or len(loo.tokens) < 4:
            got = f"{len(maps)} maps of {len(loo.tokens)} tokens, unlike LOO: {', '.join(apart) or 'no'}"
            expected = "two maps and LOO of one text and target, of four tokens or more"
            raise InputError("OutlierScene", got=got, expected=expected, hint="explain the same text")
        self._maps, self._loo = list(maps), loo
        data: dict[str, Any] = {
            "tokens": [visible(token) for token in loo.pieces],
            "special": loo.special.tolist(),
            "label": visible(label or f"class {loo.target}"),
            "methods": [visible(label_of(record.method)) for record in maps],
            "scores": [record.scores.tolist() for record in maps],
            "loo": loo.scores.tolist(),
            "margin": margin,
            "reduced": reduced,
        }
        super().__init__(data=data, address=address)

    def linked(self) -> tuple[str, ...]:
        """Return the traits that the address keeps: of a reduced widget, whether words alone count."""
        return ("without",) if self.data["reduced"] else self.links

    def r(self, *, without: bool, ranked: bool) -> list[float]:
        """Return r of each map with LOO as the widget shows it."""
        tokens, statistic = ("all", "no-special")[without], ("pearson", "spearman")[ranked]
        protocol, special = Protocol(tokens=tokens, statistic=statistic), self._loo.special
        if counted(special, tokens).sum() < LEAST:
            return [np.nan, np.nan]
        return [agreement(record.scores, self._loo.scores, special, protocol) for record in self._maps]

    def fallback(self) -> str:
        """Return the rows of tokens and the dots as they stand at first, with the same numbers."""
        r, names = self.r(without=self.without, ranked=self.ranked), self.data["methods"]
        titles = [f"{name}: r with LOO {value:.2f}" for name, value in zip(names, r, strict=True)]
        rows = token_heatmap([self._loo, *self._maps], titles=["LOO", *titles]).html()
        marks = [
            token * special for token, special in zip(self.data["tokens"], self.data["special"], strict=True)
        ]
        panels = dict(zip(titles, self.data["scores"], strict=True))
        return rows + dots(panels, self.data["loo"], marks, "Each dot a token; up: relevance")

    def summary(self) -> str:
        """Return the methods, and how many tokens and words there are."""
        methods, words = ", ".join(record.method for record in self._maps), int((~self._loo.special).sum())
        return f"{methods}; {len(self._loo.tokens)} tokens, {words} of them words"


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
