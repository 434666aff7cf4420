"""Classifiers of several wirings side by side: CP-LRP minus AttnLRP, paths, groupings, what was predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.ticker import MaxNLocator

from lrp_book.analysis.wiring_steps import METHODS
from lrp_book.analysis.wirings import GATES, WIRINGS, Group, path_means
from lrp_book.labels import method_label
from lrp_companion.registry import label_of
from lrp_companion.show.canvas import LOOK, Drawing, Name, drawing, headline, label_points, settle
from lrp_companion.show.palette import INK, QUIET
from lrp_companion.show.tables import Table, table

Row = Mapping[str, Any]
LOOKS = {
    "words": ("#0067a5", "o"), "words + positions": ("#00755e", "^"), "all tokens": ("#c44c00", "s"),
    "all tokens + positions": ("#6b4fa0", "D"),
}  # fmt: skip
"""Colour and marker of each reading."""
GROUPINGS = {"attnlrp:gate=right": "from the right", "attnlrp:gate=flat": "flat", "attnlrp": "uniform"}
SHARES = {method: f"{share}, {GROUPINGS[method]}" for method, share in GATES.items()}


def title_of(wiring: str) -> str:
    """A wiring as a reader names it, such as "Llama"."""
    return WIRINGS[wiring].title if wiring in WIRINGS else wiring


@mpl.rc_context(LOOK)
def wirings_figure(rows: Sequence[Row], *, title: str) -> Drawing:
    """Draw CP-LRP minus AttnLRP in every wiring and reading: a line is its interval, a small mark a training.

    Parameters
    ----------
    rows : of `analysis.wirings.effect_rows`.
    """
    listed = "; ".join(f"{title_of(row['wiring'])}, {row['reading']}: {row['d'].text(2)}" for row in rows)
    figure, (axes,) = drawing(f"{title}. {listed}.", height=1.0 + 0.3 * len(rows), width=6.4)
    names, y, last = [], 0.0, None
    places = []
    for row in reversed(rows):
        y += 0.6 if last not in (None, row["wiring"]) else 0
        colour, marker = LOOKS[row["reading"]]
        axes.plot([row["d"].low, row["d"].high], [y, y], color=colour, linewidth=2.0)
        axes.plot(row["d"].mean, y, marker=marker, color=colour, linestyle="none", markersize=6)
        small: dict[str, Any] = {"marker": "|", "color": INK, "linestyle": "none", "markersize": 6}
        axes.plot(row["trainings"], [y + 0.28] * len(row["trainings"]), **small)
        names.append(f"{title_of(row['wiring'])}: {row['reading']}")
        places.append(y)
        last, y = row["wiring"], y + 1
    axes.axvline(0, color=INK, linewidth=0.9)
    axes.set_yticks(places, names)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_ylim(-0.8, y + 0.3)
    edge: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "color": QUIET, "va": "top"}
    axes.text(-0.004, 0.995, "AttnLRP nearer to LOO", ha="right", **edge)
    axes.text(0.004, 0.995, "CP-LRP nearer", ha="left", **edge)
    left, right = axes.get_xlim()
    axes.set_xlim(min(left, -0.55 * right), right)  # room for the words on both sides
    axes.set_xlabel("r of CP-LRP − r of AttnLRP")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    headline(figure, title)
    return figure


@mpl.rc_context(LOOK)
def wiring_paths_figure(groups: Mapping[str, Group], *, title: str) -> Drawing:
    """Draw mean r at the words while layers are bypassed from the last to the first, a line per training."""
    means = {name: [path_means(run) for run in runs] for name, runs in groups.items()}
    told = "; ".join(
        f"{title_of(name)} {lines[0][0]:.2f} to {lines[0][-1]:.2f}" for name, lines in means.items()
    )
    alt = f"{title}. Seed 0, from AttnLRP to CP-LRP: {told}."
    columns = 3
    count = -(-len(means) // columns)
    figure, panels = drawing(alt, rows=count, columns=columns, height=2.3 * count + 0.5, width=6.4)
    for axes, (name, lines) in zip(panels, means.items(), strict=False):
        for seed, (line, style) in enumerate(zip(lines, ("-", (0, (4, 1.5)), (0, (1, 1))), strict=False)):
            axes.plot(range(len(line)), line, marker="o", markersize=3.5, color="#c44c00", linestyle=style)
            if axes is panels[0]:
                label_points(axes, [Name(f"training {seed + 1}", 0, line[0], "#c44c00")])
        axes.set_title(title_of(name), fontweight="bold")
        axes.set_xticks(range(len(lines[0])))
    spread = max(np.ptp(np.concatenate(lines)) for lines in means.values())
    for axes, lines in zip(panels, means.values(), strict=False):  # one scale: a small change looks small
        middle = (np.max(lines) + np.min(lines)) / 2
        axes.set_ylim(middle - 0.6 * spread, middle + 0.6 * spread)
    for axes in panels[len(means) :]:
        axes.set_visible(False)
    figure.supxlabel("layers bypassed, the last first: 0 is AttnLRP, all is CP-LRP")
    figure.supylabel("mean r with LOO, words")
    headline(figure, title)
    settle(figure)
    return figure


def wirings_table(groups: Mapping[str, Group], trainings: Mapping[str, Sequence[Row]]) -> Table:
    """What the wirings are, the steps of training, and the lowest accuracy on SST-2 validation.

    Parameters
    ----------
    trainings : of `analysis.wirings.training_records`.
    """
    rows = []
    for name, runs in groups.items():
        told, trained = WIRINGS[name], trainings.get(name, ())
        right = f"{min(row['accuracy'] for row in trained):.3f}" if trained else "–"
        steps = ", ".join(f"{count:,}" for count in sorted({row["steps"] for row in trained})) or "–"
        rows.append({"wiring": told.title, **vars(told), "n": runs[0].n, "steps": steps, "right": right})
    columns = {
        "wiring": "wiring", "norm": "norm and branch", "positions": "positions", "mlp": "MLP",
        "reads": "reads", "specials": "special tokens", "steps": "steps", "right": "accuracy",
    }  # fmt: skip
    return table(
        rows,
        columns=columns,
        caption="All have 4 layers, 192 wide; accuracy on SST-2 validation: the lowest of the trainings",
    )


def wiring_steps_table(rows: Sequence[Row], *, caption: str, digits: int = 2) -> Table:
    """Rows of `steps_rows`: mean r, and CP-LRP minus AttnLRP, by steps and numbers of the training."""
    shown = [
        {
            "wiring": title_of(row["wiring"]), "reading": row["reading"],
            "steps": f"{row['steps']:,}, {row['numbers']}",
            "d": row["d"].text(digits),
            "trainings": ", ".join(f"{value:.{digits + 1}f}" for value in row["trainings"]),
            **{method: f"{row[method].mean:.{digits}f}" for method in METHODS},
        }
        for row in rows
    ]  # fmt: skip
    columns = {
        "wiring": "wiring", "reading": "reading", "steps": "steps, numbers",
        **{method: label_of(method) for method in METHODS}, "d": "CP-LRP minus AttnLRP",
        "trainings": "in each training",
    }  # fmt: skip
    return table(shown, columns=columns, caption=caption)


def wiring_effects_table(rows: Sequence[Row], *, caption: str, digits: int = 2) -> Table:
    """Rows of `effect_rows`: mean r of the methods, and CP-LRP minus AttnLRP."""
    methods = [name for name in ("attnlrp", "cp-lrp", "mask-gradient", "gradient-x-input") if name in rows[0]]
    shown = [
        {
            **row,
            "wiring": title_of(row["wiring"]),
            "trainings": ", ".join(f"{value:+.{digits}f}" for value in row["trainings"]),
        }
        for row in rows
    ]
    columns = {"wiring": "wiring", "reading": "reading", **{name: label_of(name) for name in methods}}
    columns |= {
        "d": "CP-LRP − AttnLRP", "median": "median", "wins": "examples won", "trainings": "by training",
        "n": "n",
    }  # fmt: skip
    return table(shown, columns=columns, caption=caption, digits=digits)


def outcomes_table(rows: Sequence[Row], *, caption: str, digits: int = 2) -> Table:
    """Rows of `outcomes`: each point, where it was met, and the figures by training."""
    shown = []
    for row in rows:
        names = list(row["figures"][0])
        figures = "; ".join(
            f"{name} " + ", ".join(f"{figures[name]:.{digits}f}" for figures in row["figures"])
            for name in names
        )
        held = f"{row['outcome']} ({row['held']} of {row['of']})"
        shown.append({**row, "wiring": title_of(row["group"]), "outcome": held, "figures": figures})
    columns = {
        "point": "point", "says": "predicted", "wiring": "wiring", "outcome": "outcome",
        "figures": "by training",
    }  # fmt: skip
    return table(shown, columns=columns, caption=caption, digits=digits)


def audit_table(rows: Sequence[Row], *, caption: str, digits: int = 2) -> Table:
    """Rows of `audit_rows`: protocols by the side of their effect, and what the stated ones say."""
    readings = list(dict.fromkeys(reading for row in rows for reading in row["stated"]))
    shown = [
        {
            **row,
            "wiring": title_of(row["wiring"]),
            **{name: row["stated"].get(name, "–") for name in readings},
        }
        for row in rows
    ]
    columns = {
        "wiring": "wiring", "cells": "protocols", "above": "CP-LRP nearer", "below": "AttnLRP nearer",
        "across": "open", "smallest": "smallest effect", "largest": "largest effect",
        **{name: f"as stated, {name}" for name in readings},
    }  # fmt: skip
    return table(shown, columns=columns, caption=caption, digits=digits)


def gates_table(rows: Sequence[Row], *, caption: str, digits: int = 3) -> Table:
    """Rows of `gate_rows`: mean r of AttnLRP by the share that the factor without the gate receives."""
    shown = [{**row, "gain": row["gain"].mean, "wins": row["gain"].wins, "n": row["gain"].n} for row in rows]
    columns = {
        "run": "model", **SHARES, "gain": "1/2 − 1/4", "wins": "examples won",
    }  # fmt: skip
    return table(shown, columns=columns, caption=caption, digits=digits)


def wiring_frontier_table(rows: Sequence[Row], *, caption: str, digits: int = 2) -> Table:
    """Rows of `wiring_frontier`: passes, r with LOO in every wiring, and in how many no method that costs as
    little is ahead.
    """
    shown = []
    for row in rows:
        free = sum(not rivals for rivals in row["dominated by"].values())
        kept = f"{free} of {len(row['dominated by'])}"
        method = f"{method_label(row['method'])} ({row['cost']:.0f})"
        shown.append({**row["r"], "method": method, "kept": kept})
    columns = {"method": "method (passes)", **{name: title_of(name) for name in rows[0]["r"]}}
    return table(shown, columns={**columns, "kept": "ahead in"}, caption=caption, digits=digits)


def worth_table(rows: Sequence[Row], *, caption: str, digits: int = 2) -> Table:
    """Rows of `worth_rows`: r with the model's own LOO and with another training's."""
    shown = [{**row, "wiring": title_of(row["wiring"]), "method": label_of(row["method"])} for row in rows]
    columns = {
        "wiring": "wiring", "method": "method", "own": "with this model's LOO",
        "other": "with another training's", "beyond": "difference",
        "ceiling": "LOO with the other's LOO",
    }  # fmt: skip
    return table(shown, columns=columns, caption=caption, digits=digits)
