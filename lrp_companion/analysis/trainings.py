"""The audit on several trainings of one model: which effects come again with another seed, and which are one
training's own.

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

from lrp_companion.analysis.effect_causes import layer_gains
from lrp_companion.analysis.protocol_grid import (
    PROTOCOL_AXES,
    Grid,
    grid,
    needs_text,
    protocols_of,
    variance_shares,
)
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import PROTOCOLS, InputError, Protocol, choose

Row = dict[str, Any]


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
        """What the models are called in their records."""
        return tuple(str(run.manifest["model"]["name"]) for run in self.runs)


def trainings(runs: Sequence[TextRun], *, a: str = "cp-lrp", b: str = "attnlrp") -> Trainings:
    """The grids of runs on the same examples with models that differ in their weights only.

    Raises
    ------
    InputError : fewer than two runs, one that is not on reviews, other data, depth or examples, or the same
        weights twice.

    >>> trainings(load_runs([one, other])).effects.shape  # doctest: +SKIP
    """
    for run in runs:
        needs_text("trainings", run)
    if len(runs) < 2:
        raise InputError(
            "trainings",
            got=f"{len(runs)} runs",
            expected="at least two",
            hint="train the model again with another --seed",
        )
    first = runs[0]
    for run in runs[1:]:
        same = {
            "task": (run.task, first.task), "layers": (run.layers, first.layers),
            "data": tuple(one.manifest["config"]["data"] for one in (run, first)),
            "examples": (run.n, first.n),
        }  # fmt: skip
        for what, (got, expected) in same.items():
            if got != expected:
                raise InputError(
                    "trainings",
                    got=f"{what} {got} in {run.name}",
                    expected=str(expected),
                    hint="compare runs on the same examples",
                )
        if not np.array_equal(run.examples, first.examples):
            raise InputError(
                "trainings",
                got=f"{run.name} on other examples",
                expected=f"those of {first.name}",
                hint="use the same --seed",
            )
    weights = [run.manifest["config"]["weights"] for run in runs]
    if len(set(weights)) < len(weights):
        raise InputError(
            "trainings",
            got="the same weights twice",
            expected="one run per training",
            hint="leave one of them out",
        )
    grids = tuple(grid(run, a=a, b=b) for run in runs)
    axes = {
        name: tuple(
            option for option in grids[0].distinct[name] if all(option in own.distinct[name] for own in grids)
        )
        for name in PROTOCOL_AXES
    }
    values = np.stack([_shared(own, axes) for own in grids])
    return Trainings(tuple(runs), grids, axes, values[..., 0], values[..., 1], values[..., 2])


def _shared(own: Grid, axes: Mapping[str, tuple[str, ...]]) -> np.ndarray:
    """Mean difference and limits in the cells that all runs have, (*axes, 3)."""
    places = [[own.axes[name].index(option) for option in options] for name, options in axes.items()]
    return own.values[(*np.ix_(*places), 2)]


def training_effects(found: Trainings, *, protocols: Mapping[str, Protocol] = PROTOCOLS) -> list[Row]:
    """The effect under a few protocols in every training, and how far the trainings lie apart.

    Returns
    -------
    list
        Rows `protocol`, `effects` (one interval over examples per training), `mean` and `sd` (over the
        trainings, with k - 1).
    """
    rows = []
    for name, protocol in protocols.items():
        effects = [own.cell(protocol)["difference"] for own in found.grids]
        means = np.array([effect.mean for effect in effects])
        rows.append(
            {
                "protocol": name,
                "effects": effects,
                "mean": float(means.mean()),
                "sd": float(means.std(ddof=1)),
            }
        )
    return rows


def _sides(found: Trainings) -> np.ndarray:
    """The cells whose whole interval is above 0 in every training, below 0 in every one, on both sides in
    some: (3, *axes).
    """
    above, below = found.low > 0, found.high < 0
    return np.stack([above.all(0), below.all(0), above.any(0) & below.any(0)])


def training_counts(found: Trainings, **fixed: str) -> Row:
    """In how many cells the trainings agree.

    Parameters
    ----------
    fixed : options that are held, such as `tokens="all"`; all cells by default.

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
        choose("training_counts", name, option, found.axes[name])
        where[PROTOCOL_AXES.index(name)] = found.axes[name].index(option)
    effects, above, below, against = (part[(..., *where)] for part in (found.effects, *_sides(found)))
    out: Row = {
        "cells": above.size,
        "above": int(above.sum()),
        "below": int(below.sum()),
        "against": int(against.sum()),
    }
    out["open"] = out["cells"] - out["above"] - out["below"] - out["against"]
    out["one sign"] = int(((effects > 0).all(0) | (effects < 0).all(0)).sum())
    return out


def training_turns(found: Trainings) -> list[Row]:
    """The cells in which the trainings do not all have their whole interval on the same side of 0.

    Returns
    -------
    list
        Rows with the option of every choice, `effects` (one interval over examples per training) and
        `against` (the interval is above 0 in one training and below in another): first those, then the
        others, by how far the means lie apart.
    """
    rows = []
    above, below, against = (side.ravel() for side in _sides(found))
    for k, protocol in enumerate(protocols_of(found.axes)):
        if not above[k] and not below[k]:
            options = {name: getattr(protocol, name) for name in PROTOCOL_AXES}
            effects = [own.cell(protocol)["difference"] for own in found.grids]
            rows.append({**options, "effects": effects, "against": bool(against[k])})
    return sorted(
        rows, key=lambda row: (not row["against"], -float(np.ptp([effect.mean for effect in row["effects"]])))
    )


def training_shares(found: Trainings) -> dict[str, float]:
    r"""Split the variance of the effect over trainings and cells (analysis of variance; the parts add up to
    1).

    With $y_{tc}$ the effect of training t in cell c, the total is $\sum (y_{tc} - \bar y)^2$; `choices` is
    the part of the cells' means over the trainings, `training` that of the trainings' means over the cells,
    `together` the rest: how far a training changes what the choices do.

    >>> training_shares(trainings(load_runs([one, other])))  # doctest: +SKIP
    """
    parts = {row["choices"]: row["share"] for row in variance_shares(found.defined, ("training", "choices"))}
    return {
        "choices": parts["choices",],
        "training": parts["training",],
        "together": parts["training", "choices"],
    }


def training_likeness(found: Trainings) -> float:
    """The lowest Pearson correlation between two trainings' effects over the cells."""
    return min(
        float(np.corrcoef(one, other)[0, 1]) for one, other in itertools.combinations(found.defined, 2)
    )


def training_gains(
    found: Trainings, *, path: str = "back-to-front", protocols: Mapping[str, Protocol] = PROTOCOLS
) -> list[Row]:
    """Total gain and the later half's minus the first half's, training by training, under a few protocols:
    rows of `layer_gains`.

    Returns
    -------
    list
        Rows `protocol`, `model`, `total`, `later - first` (intervals), `largest` (layer) and
        `largest in draws`.
    """
    rows = []
    gains = [layer_gains(run, path=path) for run in found.runs]
    for name, protocol in protocols.items():
        for model, own in zip(found.names, gains, strict=True):
            (row,) = [
                row
                for row in own
                if all(row[choice] == getattr(protocol, choice) for choice in PROTOCOL_AXES[:5])
            ]
            rows.append(
                {
                    "protocol": name,
                    "model": model,
                    **{part: row[part] for part in ("total", "later - first", "largest", "largest in draws")},
                }
            )
    return rows
