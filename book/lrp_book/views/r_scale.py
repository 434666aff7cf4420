"""What an r is worth: every reference on one axis, and each method against all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np

from lrp_book.analysis.r_scale import KINDS
from lrp_book.labels import method_label
from lrp_companion.show.canvas import LOOK, Drawing, Name, drawing, headline, label_points, settle
from lrp_companion.show.palette import QUIET
from lrp_companion.show.tables import Table, table

Row = Mapping[str, Any]
TOKENS = {"no-special": "words only", "all": "all tokens"}
LOOKS = dict(
    zip(KINDS, (("#6b4fa0", "s"), ("#a8216b", "D"), ("#946500", "^"), ("#0067a5", "o")), strict=True)
)
"""Colour and marker of each kind of reference."""


LEAD_COLUMNS = ("removal", "tokens", "difference", "median", "wins", "trainings", "n")


def what_is(row: Row) -> str:
    """What an r is of, in words."""
    if row["kind"] == KINDS[2]:
        return f"LOO by {named([row['removal']])[row['removal']]}"
    return method_label(row["what"]) if row["kind"] == KINDS[3] else row["what"]


@mpl.rc_context(LOOK)
def scale_dots(rows: Sequence[Row], *, title: str) -> Drawing:
    """Draw mean r with LOO of every reference and method, largest first, with its interval.

    Parameters
    ----------
    rows : of `analysis.r_scale.scale`, one data set.
    title : the data, and which tokens count.
    """
    shown = sorted(rows, key=lambda row: row["r"].mean)
    names = [f"{what_is(row)} ({row['model']})" for row in shown]
    listed = "; ".join(f"{name} {row['r'].text(2)}" for name, row in zip(names, shown, strict=True))
    alt = f"{title}: mean r with LOO by the attention mask. {listed}."
    figure, (axes,) = drawing(alt, height=0.9 + 0.27 * len(shown), width=6.4)
    for y, row in enumerate(shown):
        colour, marker = LOOKS[row["kind"]]
        axes.plot([row["r"].low, row["r"].high], [y, y], color=colour, linewidth=1.8)
        axes.plot(row["r"].mean, y, marker=marker, color=colour, linestyle="none", label=row["kind"])
    highest = {row["kind"]: y for y, row in enumerate(shown)}
    for kind, y in highest.items():
        label_points(axes, [Name(kind, shown[y]["r"].high, y, LOOKS[kind][0])])
    axes.set_yticks(range(len(names)), names)
    for label, row in zip(axes.get_yticklabels(), shown, strict=True):
        label.set_color(LOOKS[row["kind"]][0])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.margins(x=0.16)  # room for the names of the kinds
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("mean Pearson's r with LOO")
    headline(figure, title)
    settle(figure)
    return figure


@mpl.rc_context(LOOK)
def scale_strip(rows: Sequence[Row], *, title: str) -> Drawing:
    """Draw mean r with LOO, a line per reference and method and on it a mark per model or pair of models.

    Filled marks are of the deepest models, open ones of the others; the number at the right is the mean of a
    line's marks. Lines are sorted by it.

    Parameters
    ----------
    rows : of `analysis.r_scale.scale`, one data set.
    title : the data, and which tokens count.
    """
    lines: dict[str, list[Row]] = {}
    for row in rows:
        label = row["kind"] if row["kind"] in KINDS[:2] else what_is(row)
        lines.setdefault(label, []).append(row)
    means = {name: float(np.mean([row["r"].mean for row in of])) for name, of in lines.items()}
    names = sorted(lines, key=means.__getitem__)
    told = "; ".join(f"{name} {means[name]:.2f} ({len(lines[name])})" for name in reversed(names))
    alt = f"{title}: mean r with LOO by the attention mask, mean over models and how many. {told}."
    figure, (axes,) = drawing(alt, height=1.0 + 0.3 * len(names), width=6.4)
    depths = [row["layers"] for row in rows]
    for y, name in enumerate(names):
        values = [row["r"].mean for row in lines[name]]
        axes.plot([min(values), max(values)], [y, y], color=QUIET, linewidth=0.8, zorder=1)
        for row in lines[name]:
            colour, marker = LOOKS[row["kind"]]
            face = colour if row["layers"] == max(depths) else "none"
            look: dict[str, Any] = {"color": colour, "markerfacecolor": face, "markersize": 5}
            axes.plot(row["r"].mean, y, marker=marker, linestyle="none", **look)
        axes.annotate(
            f"{means[name]:.2f}", (1, y), xycoords=("axes fraction", "data"), xytext=(6, 0),
            textcoords="offset points", va="center", annotation_clip=False,
        )  # fmt: skip
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.grid(visible=False, axis="y")
    marks = f"; filled: {max(depths)} layers, open: {min(depths)}" if min(depths) < max(depths) else ""
    axes.set_xlabel("mean r with this model's LOO" + marks)
    figure.suptitle(title, fontweight="bold")
    return figure


def references_table(rows: Sequence[Row], *, caption: str, digits: int = 2) -> Table:
    """Rows of `scale` as a table: mean and median r, and n."""
    shown = [{**row, "what": what_is(row), "tokens": TOKENS[row["tokens"]], "n": row["r"].n} for row in rows]
    columns = {
        "what": "r of",
        "model": "with LOO of",
        "kind": "kind",
        "r": "mean",
        "median": "median",
        "n": "n",
    }
    return table(shown, columns=columns, caption=caption, digits=digits)


def removals_table(rows: Sequence[Row], *, caption: str, digits: int = 2) -> Table:
    """Rows of `method_rows` on this model's LOO: one line per method, one column per removal."""
    by_method: dict[str, dict[str, Any]] = {}
    for row in rows:
        if "partial" not in row:
            by_method.setdefault(row["what"], {"method": method_label(row["what"])})[row["reference"]] = row[
                "r"
            ]
    removals = dict.fromkeys(name for cells in by_method.values() for name in cells if name != "method")
    columns = {"method": "method", **{name: f"LOO by {label}" for name, label in named(removals).items()}}
    return table(list(by_method.values()), columns=columns, caption=caption, digits=digits)


def named(removals: Sequence[str] | Mapping[str, Any]) -> dict[str, str]:
    """Removals in words."""
    words = {
        "attention-mask": "attention mask",
        "mask-token": "[MASK]",
        "pad-token": "[PAD]",
        "delete": "deletion",
    }
    return {name: words.get(name, name) for name in removals}


def beyond_table(rows: Sequence[Row], *, caption: str, digits: int = 2) -> Table:
    """Rows of `method_rows` against another model's LOO: r with it, r beyond it, and partial r."""
    mine = {row["what"]: row["r"] for row in rows if row.get("reference") == "attention-mask"}
    shown = [
        {
            "method": method_label(row["what"]), "other": row["reference"], "mine": mine[row["what"]],
            "r": row["r"], "beyond": row["beyond"], "partial": row["partial"], "n": row["r"].n,
        }
        for row in rows
        if "partial" in row
    ]  # fmt: skip
    columns = {
        "method": "method", "other": "the other model's run", "mine": "r with this model's LOO",
        "r": "r with the other's LOO", "beyond": "difference",
        "partial": "partial r, the other's LOO given", "n": "n",
    }  # fmt: skip
    return table(shown, columns=columns, caption=caption, digits=digits)


def tokens_label(tokens: str) -> str:
    """Which tokens count, in words."""
    return TOKENS[tokens]


def worth_over_table(rows: Sequence[Row], *, caption: str, digits: int = 2) -> Table:
    """Rows of `worth_over_trainings`: a line per method, intervals over trainings and examples."""
    shown = [{**row, "label": method_label(row["method"])} for row in rows]
    columns = {
        "label": "method", "own": "r with its model's LOO", "ceiling": "LOO of another training",
        "lead": "difference", "other": "r with another training's LOO",
        "partial": "partial r, that LOO given",
    }  # fmt: skip
    return table(shown, columns=columns, caption=caption, digits=digits)


def removal_leads_table(rows: Sequence[Row], *, caption: str, digits: int = 2) -> Table:
    """Rows of `removal_leads`: a line per removal; the trainings' means stand in one column."""
    a, b = [name for name in rows[0] if name not in LEAD_COLUMNS]
    shown = [
        {
            **row,
            "label": named([row["removal"]])[row["removal"]],
            "each": ", ".join(f"{value:+.{digits}f}" for value in row["trainings"]),
        }
        for row in rows
    ]
    columns = {
        "label": "LOO by", a: method_label(a), b: method_label(b), "difference": "difference",
        "median": "median", "wins": "examples won", "each": "by training", "n": "n",
    }  # fmt: skip
    return table(shown, columns=columns, caption=caption, digits=digits)
