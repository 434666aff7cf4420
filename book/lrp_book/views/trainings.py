"""Several trainings of one model side by side: effects, the cells where they agree, layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np

from lrp_book.analysis.trainings import (
    Trainings,
    training_counts,
    training_effects,
    training_likeness,
    training_shares,
    training_turns,
)
from lrp_book.views.protocol_grid import COLOURS, MARKERS, difference, needs
from lrp_book.views.protocol_tables import by_tokens_and_map, percent
from lrp_companion.paper.protocol_grid import AXIS_LABELS
from lrp_companion.schema import PROTOCOLS, Protocol
from lrp_companion.show.canvas import LOOK, Drawing, Name, drawing, headline, label_ends, settle
from lrp_companion.show.palette import INK
from lrp_companion.show.tables import Table, table


@mpl.rc_context(LOOK)
def training_curve(trained: Trainings) -> Drawing:
    """Draw the effect in every cell, sorted by its mean over the trainings, with a mark per training."""
    flat = trained.defined[:, np.argsort(trained.defined.mean(0), kind="stable")]
    heading, effect = f"{trained.title}, n = {trained.n:,}", difference(trained.grids[0])
    alt = (
        f"{heading}: {effect} in {flat.shape[1]} combinations and {len(flat)} trainings. "
        f"One sign in all trainings: {training_counts(trained)['one sign']}."
    )
    figure, (axes,) = drawing(alt, height=3.4)
    x = np.arange(1, flat.shape[1] + 1)
    axes.vlines(x, flat.min(0), flat.max(0), color="#8a8a8a", linewidth=0.7)
    for k, (name, effects) in enumerate(zip(trained.names, flat, strict=True)):
        colour, marker = COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]
        axes.plot(x, effects, linestyle="none", marker=marker, markersize=2.6, color=colour, label=name)
        label_ends(axes, [Name(name, x[-1], effects[-1], colour)])
    axes.axhline(0, color=INK, linewidth=0.9)
    axes.set_xlabel("combinations of choices, by mean effect")
    axes.set_ylabel(effect)
    headline(figure, f"Does another training give the same effects? {heading}")
    settle(figure)
    return figure


def trainings_table(
    trained: Trainings, *, protocols: Mapping[str, Protocol] = PROTOCOLS, digits: int = 2
) -> Table:
    """The effect under a few protocols, a column per training, with mean and standard deviation over them."""
    rows: list[Mapping[str, Any]] = [
        {**row, **dict(zip(trained.names, row["effects"], strict=True))}
        for row in training_effects(trained, protocols=protocols)
    ]
    columns = {
        "protocol": "protocol", **{name: name for name in trained.names},
        "mean": "mean of these", "sd": "standard deviation",
    }  # fmt: skip
    effect = f"{difference(trained.grids[0])} by training, with 95 % intervals over examples"
    caption = f"{trained.title}, n = {trained.n:,}: {effect}"
    return table(rows, columns=columns, caption=caption, digits=digits)


def training_counts_table(trained: Trainings) -> Table:
    """In how many cells the trainings agree: over all, and by tokens and map."""
    rows = [
        {"which": name, **training_counts(trained, **fixed)}
        for name, fixed in by_tokens_and_map(trained.axes).items()
    ]
    columns = {
        "which": "tokens; map", "cells": "cells", "above": "above 0 in all", "below": "below 0 in all",
        "against": "above in one, below in another", "open": "open in some", "one sign": "means of one sign",
    }  # fmt: skip
    where = f"cells by where the whole 95 % interval of {difference(trained.grids[0])} lies"
    return table(rows, columns=columns, caption=f"{_setting(trained)}: {where}")


def training_turns_table(trained: Trainings, *, limit: int = 12, digits: int = 2) -> Table:
    """The cells where the trainings do not all lie on one side of 0, most contrary first, a column each.

    The caption states what all these cells share.
    """
    turns = training_turns(trained)
    free = [name for name in trained.axes if name not in trained.held]
    shared = [name for name in free if len(turns) > 1 and len({row[name] for row in turns}) == 1]
    free = [name for name in free if name not in shared]
    rows: list[Mapping[str, Any]] = [
        {
            **{name: AXIS_LABELS[name][1][row[name]] for name in free},
            **dict(zip(trained.names, row["effects"], strict=True)),
        }
        for row in turns[:limit]
    ]
    caption = (
        f"{_setting(trained)}: cells in which the whole interval of {difference(trained.grids[0])} "
        "is not on one side of 0 in all trainings"
    )
    if len(rows) < len(turns):
        caption += f", the first {len(rows)} of {len(turns):,}"
    if not rows:
        return table([{"cell": "none"}], columns={"cell": "cell"}, caption=caption)
    if shared:
        caption += "; common to all: " + ", ".join(_named(name, turns[0][name]) for name in shared)
    columns = {**{name: AXIS_LABELS[name][0] for name in free}, **{name: name for name in trained.names}}
    return table(rows, columns=columns, caption=caption, digits=digits)


def training_shares_table(trained: Trainings, *, digits: int = 2) -> Table:
    """The fractions of the variance over cells and trainings, and how similar the trainings are."""
    headings = {
        "choices": "the choices, alike in every training",
        "training": "the training, alike under every choice",
        "together": "both together: a training that changes what the choices do",
    }
    rows: list[Mapping[str, Any]] = [
        {"what": headings[name], "share": percent(share)} for name, share in training_shares(trained).items()
    ]
    caption = (
        f"{_setting(trained)}: fractions of the variance of {difference(trained.grids[0])}; "
        f"lowest r between two trainings over the cells {training_likeness(trained):.{digits}f}"
    )
    return table(rows, columns={"what": "explained by", "share": "fraction"}, caption=caption)


def _named(choice: str, option: str) -> str:
    """A choice and its option in words, as in "output logit"."""
    name, options = AXIS_LABELS[choice]
    return f"{name} {options[option]}"


def _setting(trained: Trainings) -> str:
    """Data, depth, n, number of trainings, and the choices that are held fixed."""
    held = "".join(f"; {_named(name, option)}" for name, option in trained.held.items())
    return f"{trained.title}, n = {trained.n:,}, {len(trained.grids)} trainings{held}"


def training_gains_table(rows: Sequence[Mapping[str, Any]], *, title: str, digits: int = 2) -> Table:
    """Rows of `training_gains`: total gain, later minus first half, the layer with the largest gain."""
    needs("training_gains_table", rows, "rows")
    columns = {
        "protocol": "protocol", "model": "training", "total": "total gain",
        "later - first": "later − first half",
        "largest": "largest gain at layer", "largest in draws": "in this fraction of the draws",
    }  # fmt: skip
    return table(rows, columns=columns, caption=title, digits=digits)


def both_data_sets_table(rows: Sequence[Mapping[str, Any]], *, caption: str, digits: int = 3) -> Table:
    """Rows of `gains_on_both`: CP-LRP minus AttnLRP on SST-2 and on IMDB, by model and protocol."""
    shown = [{**row, "model": row["sst2 run"].model, "reviews": row["imdb run"].n} for row in rows]
    columns = {
        "model": "model", "protocol": "protocol", "sst2": "SST-2", "imdb": "IMDB",
        "difference": "SST-2 − IMDB", "reviews": "reviews",
    }  # fmt: skip
    return table(shown, columns=columns, caption=caption, digits=digits)


def pooling_table(rows: Sequence[Mapping[str, Any]], *, caption: str, digits: int = 2) -> Table:
    """Rows of `pooling_rows`: the two read-outs, intervals over trainings and examples."""
    shown = [{**row, "gaps": ", ".join(f"{value:+.{digits}f}" for value in row["gaps"])} for row in rows]
    columns = {
        "layers": "layers", "reads": "the classifier reads",
        "share": "share of [CLS] in sum |R|", "above": "LOO[CLS] above 0",
        "words": "words only", "all": "words + positions, all tokens",
        "gaps": "LOO[CLS] above minus below 0, by training", "trainings": "trainings", "n": "n",
    }  # fmt: skip
    return table(shown, columns=columns, caption=caption, digits=digits)
