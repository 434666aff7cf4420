"""Several trainings of one model side by side: effects, cells in which they agree, layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np

from lrp_companion.analysis.protocol_grid import AXIS_LABELS
from lrp_companion.analysis.trainings import (
    Trainings,
    training_counts,
    training_effects,
    training_likeness,
    training_shares,
    training_turns,
)
from lrp_companion.schema import PROTOCOLS, Protocol
from lrp_companion.views.canvas import LOOK, Drawing, drawing
from lrp_companion.views.palette import INK
from lrp_companion.views.protocol_grid import COLOURS, MARKERS, by_tokens_and_map, difference, needs, percent
from lrp_companion.views.tables import Table, table


@mpl.rc_context(LOOK)
def training_curve(found: Trainings) -> Drawing:
    """Draw the effect in every cell, sorted by its mean over the trainings, with a mark per training."""
    flat = found.defined[:, np.argsort(found.defined.mean(0), kind="stable")]
    told = training_counts(found)
    alt = (
        f"{found.title}, n = {found.n:,}: {difference(found.grids[0])} in {flat.shape[1]} combinations and {len(flat)} trainings. "
        f"One sign in all trainings: {told['one sign']}."
    )
    figure, (axes,) = drawing(alt, height=3.4)
    x = np.arange(1, flat.shape[1] + 1)
    axes.vlines(x, flat.min(0), flat.max(0), color="#8a8a8a", linewidth=0.7)
    for k, (name, own) in enumerate(zip(found.names, flat, strict=True)):
        colour, marker = COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]
        axes.plot(x, own, linestyle="none", marker=marker, markersize=2.6, color=colour, label=name)
    axes.axhline(0, color=INK, linewidth=0.9)
    axes.set_xlabel("combinations of choices, by mean effect")
    axes.set_ylabel(difference(found.grids[0]))
    axes.set_title(f"{found.title}, n = {found.n:,}: each training", fontweight="bold")
    axes.legend(loc="upper left", markerscale=2.0)
    return figure


def trainings_table(
    found: Trainings, *, protocols: Mapping[str, Protocol] = PROTOCOLS, digits: int = 2
) -> Table:
    """The effect under a few protocols, a column per training, and its mean and standard deviation over the
    trainings.
    """
    rows: list[Mapping[str, Any]] = [
        {
            "protocol": row["protocol"],
            **dict(zip(found.names, row["effects"], strict=True)),
            "mean": row["mean"],
            "sd": row["sd"],
        }
        for row in training_effects(found, protocols=protocols)
    ]
    columns = {
        "protocol": "protocol",
        **{name: name for name in found.names},
        "mean": "mean of these",
        "sd": "standard deviation",
    }
    caption = f"{found.title}, n = {found.n:,}: {difference(found.grids[0])} by training, with 95 % intervals over examples"
    return table(rows, columns=columns, caption=caption, digits=digits)


def training_counts_table(found: Trainings) -> Table:
    """In how many cells the trainings agree: over all, and by tokens and map."""
    rows = [
        {"which": name, **training_counts(found, **fixed)}
        for name, fixed in by_tokens_and_map(found.axes).items()
    ]
    columns = {
        "which": "tokens; map", "cells": "cells", "above": "above 0 in all", "below": "below 0 in all",
        "against": "above in one, below in another", "open": "open in some", "one sign": "means of one sign",
    }  # fmt: skip
    caption = f"{_where(found)}: cells by where the whole 95 % interval of {difference(found.grids[0])} lies"
    return table(rows, columns=columns, caption=caption)


def training_turns_table(found: Trainings, *, limit: int = 12, digits: int = 2) -> Table:
    """The cells in which the trainings do not all lie on one side of 0, the most contrary first, a column per
    training.

    What all these cells share is said in the caption.
    """
    turns = training_turns(found)
    free = [name for name in found.axes if name not in found.held]
    shared = [name for name in free if len(turns) > 1 and len({row[name] for row in turns}) == 1]
    free = [name for name in free if name not in shared]
    rows: list[Mapping[str, Any]] = [
        {
            **{name: AXIS_LABELS[name][1][row[name]] for name in free},
            **dict(zip(found.names, row["effects"], strict=True)),
        }
        for row in turns[:limit]
    ]
    columns = {**{name: AXIS_LABELS[name][0] for name in free}, **{name: name for name in found.names}}
    caption = (
        f"{_where(found)}: cells in which the whole interval of {difference(found.grids[0])} is not on one side of 0 in all trainings"
        f"{f', the first {len(rows)} of {len(turns):,}' if len(rows) < len(turns) else ''}"
    )
    if not rows:
        return table([{"cell": "none"}], columns={"cell": "cell"}, caption=caption)
    if shared:
        caption += "; common to all: " + ", ".join(_named(name, turns[0][name]) for name in shared)
    return table(rows, columns=columns, caption=caption, digits=digits)


def training_shares_table(found: Trainings, *, digits: int = 2) -> Table:
    """How much of the variance of the effect over cells and trainings goes with which, and how alike the
    trainings are.
    """
    shares = training_shares(found)
    words = {
        "choices": "the choices, alike in every training",
        "training": "the training, alike under every choice",
        "together": "both together: a training that changes what the choices do",
    }  # fmt: skip
    rows: list[Mapping[str, Any]] = [
        {"what": words[name], "part": percent(share)} for name, share in shares.items()
    ]
    caption = (
        f"{_where(found)}: parts of the variance of {difference(found.grids[0])}; "
        f"lowest r between two trainings over the cells {training_likeness(found):.{digits}f}"
    )
    return table(rows, columns={"what": "goes with", "part": "part"}, caption=caption)


def _named(choice: str, option: str) -> str:
    """A choice and its option in words, as in "output logit"."""
    name, options = AXIS_LABELS[choice]
    return f"{name} {options[option]}"


def _where(found: Trainings) -> str:
    """Data, depth, n, how many trainings, and the choices that are held."""
    held = "".join(f"; {_named(name, option)}" for name, option in found.held.items())
    return f"{found.title}, n = {found.n:,}, {len(found.grids)} trainings{held}"


def training_gains_table(rows: Sequence[Mapping[str, Any]], *, title: str, digits: int = 2) -> Table:
    """Rows of `training_gains`: total gain, later minus first half, the layer with the largest gain."""
    needs("training_gains_table", rows, "rows")
    columns = {
        "protocol": "protocol", "model": "training", "total": "total gain",
        "later - first": "later − first half",
        "largest": "largest gain at layer", "largest in draws": "in this part of the draws",
    }  # fmt: skip
    return table(rows, columns=columns, caption=title, digits=digits)
