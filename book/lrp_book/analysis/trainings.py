"""The audit on several trainings of one model: which effects replicate with another seed. No torch.

The runs share data, depth and examples and differ in the weights only. What varies between them is chance in
training (first weights of the classifier, order of the batches, dropout); what varies within one is the
choice of a cell.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lrp_book.analysis.effect_causes import gain_under, layer_gains
from lrp_companion.checks import InputError, choose
from lrp_companion.metrics import pearson
from lrp_companion.metrics.variance import variance_shares
from lrp_companion.paper.protocol_grid import PROTOCOL_AXES, Grid, Row, grid, needs_text, protocols_of
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import PROTOCOLS, Protocol


@dataclass(frozen=True)
class Trainings:
    """Grids of runs that differ in the training of their model; made by `trainings`.

    Attributes
    ----------
    runs, grids : one per training, in the order given.
    axes : choice to the options that all runs have, without the map that repeats another.
    effects : shape (trainings, *axes): mean difference of r in every cell.
    low, high : the same shape: its 95 % interval over examples.
    """

    runs: tuple[TextRun, ...]
    grids: tuple[Grid, ...]
    axes: Mapping[str, tuple[str, ...]]
    effects: np.ndarray = field(repr=False)
    low: np.ndarray = field(repr=False)
    high: np.ndarray = field(repr=False)

    @property
    def title(self) -> str:
        """Data and depth, as in "SST-2, 6 layers"."""
        return self.grids[0].title

    @property
    def n(self) -> int:
        """Examples of each run."""
        return self.grids[0].n

    @property
    def held(self) -> dict[str, str]:
        """Choices in which the runs have one option only, and that option."""
        return {name: options[0] for name, options in self.axes.items() if len(options) == 1}

    @property
    def defined(self) -> np.ndarray:
        """Effects in the cells where every training has one, (trainings, cells)."""
        flat = self.effects.reshape(len(self.effects), -1)
        return flat[:, ~np.isnan(flat).any(0)]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the models in their records."""
        return tuple(str(run.manifest["model"]["name"]) for run in self.runs)


def trainings(runs: Sequence[TextRun], *, a: str = "cp-lrp", b: str = "attnlrp") -> Trainings:
    """The grids of runs on the same examples with models that differ in their weights only.

    Raises
    ------
    InputError : fewer than two runs, one that is not on reviews, other data, depth or examples, or the same
        weights twice.

    >>> trainings(load_runs([first, second])).effects.shape  # doctest: +SKIP
    """
    _check(runs)
    grids = tuple(grid(run, a=a, b=b) for run in runs)
    axes = {
        name: tuple(
            option
            for option in grids[0].distinct[name]
            if all(option in each.distinct[name] for each in grids)
        )
        for name in PROTOCOL_AXES
    }
    values = np.stack([_shared(each, axes) for each in grids])
    return Trainings(tuple(runs), grids, axes, values[..., 0], values[..., 1], values[..., 2])


def _check(runs: Sequence[TextRun]) -> None:
    """Refuse runs that differ in more than the weights of their models, or in less."""

    def refuse(got: str, expected: str, hint: str) -> InputError:
        return InputError("trainings", got=got, expected=expected, hint=hint)

    for run in runs:
        needs_text("trainings", run)
    if len(runs) < 2:
        raise refuse(f"{len(runs)} runs", "at least two", "train the model again with another --seed")
    first = runs[0]
    for run in runs[1:]:
        for (what, got), expected in zip(_compared(run).items(), _compared(first).values(), strict=True):
            if got != expected:
                raise refuse(
                    f"{what} {got} in {run.name}", str(expected), "compare runs on the same examples"
                )
        if not np.array_equal(run.examples, first.examples):
            raise refuse(f"{run.name} on other examples", f"those of {first.name}", "use the same --seed")
    weights = [run.manifest["config"]["weights"] for run in runs]
    if len(set(weights)) < len(weights):
        raise refuse("the same weights twice", "one run per training", "leave one of them out")


def _compared(run: TextRun) -> Row:
    """What all runs must share."""
    data = run.manifest["config"]["data"]
    return {"task": run.task, "layers": run.layers, "data": data, "examples": run.n}


def _shared(grid: Grid, axes: Mapping[str, tuple[str, ...]]) -> np.ndarray:
    """Mean difference and limits in the cells that all runs have, (*axes, 3)."""
    places = [[grid.axes[name].index(option) for option in options] for name, options in axes.items()]
    return grid.values[(*np.ix_(*places), 2)]


def training_effects(group: Trainings, *, protocols: Mapping[str, Protocol] = PROTOCOLS) -> list[Row]:
    """The effect under a few protocols in every training, and how far the trainings lie apart.

    Returns
    -------
    list
        Rows `protocol`, `effects` (one interval over examples per training), `mean` and `sd` (over the
        trainings, with k - 1).
    """
    rows = []
    for name, protocol in protocols.items():
        effects = [grid.cell(protocol)["difference"] for grid in group.grids]
        means = np.array([effect.mean for effect in effects])
        mean, sd = float(means.mean()), float(means.std(ddof=1))
        rows.append({"protocol": name, "effects": effects, "mean": mean, "sd": sd})
    return rows


def _sides(group: Trainings) -> np.ndarray:
    """Where the whole interval is above 0 in every training, below 0 in every one, on both sides in some.

    Shape (3, *axes).
    """
    above, below = group.low > 0, group.high < 0
    return np.stack([above.all(0), below.all(0), above.any(0) & below.any(0)])


def training_counts(group: Trainings, **fixed: str) -> Row:
    """In how many cells the trainings agree.

    Parameters
    ----------
    fixed : options to keep to, such as `tokens="all"`; all cells by default.

    Returns
    -------
    dict
        `cells`; `above` and `below`: the whole interval is on that side of 0 in every training; `against`: in
        one training it is above and in another below; `open`: all others; `one sign`: the means have one sign
        in every training.
    """
    where: list[Any] = [slice(None)] * len(PROTOCOL_AXES)
    for name, option in fixed.items():
        choose("training_counts", "choice", name, PROTOCOL_AXES)
        choose("training_counts", name, option, group.axes[name])
        where[PROTOCOL_AXES.index(name)] = group.axes[name].index(option)
    effects = group.effects[(..., *where)]
    above, below, against = (cells[(..., *where)] for cells in _sides(group))
    out: Row = {"cells": above.size, "above": int(above.sum()), "below": int(below.sum())}
    out["against"] = int(against.sum())
    out["open"] = out["cells"] - out["above"] - out["below"] - out["against"]
    out["one sign"] = int(((effects > 0).all(0) | (effects < 0).all(0)).sum())
    return out


def training_turns(group: Trainings) -> list[Row]:
    """The cells in which the trainings do not all have their whole interval on the same side of 0.

    Returns
    -------
    list
        Rows with the option of every choice, `effects` (one interval over examples per training) and
        `against` (the interval is above 0 in one training and below in another): first those, then the
        others, by how far the means lie apart.
    """
    rows = []
    above, below, against = (cells.ravel() for cells in _sides(group))
    for k, protocol in enumerate(protocols_of(group.axes)):
        if not above[k] and not below[k]:
            row: Row = {name: getattr(protocol, name) for name in PROTOCOL_AXES}
            row["effects"] = [grid.cell(protocol)["difference"] for grid in group.grids]
            rows.append({**row, "against": bool(against[k])})
    return sorted(
        rows, key=lambda row: (not row["against"], -float(np.ptp([effect.mean for effect in row["effects"]])))
    )


def training_shares(group: Trainings) -> dict[str, float]:
    r"""Split the variance of the effect over trainings and cells (analysis of variance).

    With $y_{tc}$ the effect of training t in cell c, the total is $\sum (y_{tc} - \bar y)^2$; `choices` is
    the share of the cells' means over the trainings, `training` that of the trainings' means over the cells,
    `together` the rest: how far a training changes what the choices do. The three add up to 1.

    >>> training_shares(trainings(load_runs([first, second])))  # doctest: +SKIP
    """
    rows = variance_shares(group.defined, ("training", "choices"))
    shares = {row["choices"]: row["share"] for row in rows}
    return {
        "choices": shares["choices",],
        "training": shares["training",],
        "together": shares["training", "choices"],
    }


def training_likeness(group: Trainings) -> float:
    """The lowest Pearson correlation between two trainings' effects over the cells."""
    return min(pearson(a, b) for a, b in itertools.combinations(group.defined, 2))


def training_gains(
    group: Trainings, *, path: str = "back-to-front", protocols: Mapping[str, Protocol] = PROTOCOLS
) -> list[Row]:
    """Gains of the layers in each training under a few protocols, from `layer_gains`.

    Returns
    -------
    list
        Rows `protocol`, `model`, `total`, `later - first` (intervals), `largest` (layer) and
        `largest in draws`.
    """
    columns = ("total", "later - first", "largest", "largest in draws")
    gains = [layer_gains(run, path=path) for run in group.runs]
    out = []
    for name, protocol in protocols.items():
        for model, rows in zip(group.names, gains, strict=True):
            gain = gain_under(rows, protocol)
            out.append({"protocol": name, "model": model, **{column: gain[column] for column in columns}})
    return out
