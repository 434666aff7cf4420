"""The record of `records.embedding_shift` in a table and a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
import numpy as np

from lrp_companion.metrics import Interval, bootstrap_mean, paired_difference
from lrp_companion.show.canvas import LOOK, Drawing, Name, drawing, headline, label_ends, settle
from lrp_companion.show.palette import INK, styles
from lrp_companion.show.tables import Table, table

Row = Mapping[str, Any]
NAMES = {"gradient-x-input": "gradient x input", "attnlrp": "AttnLRP", "cp-lrp": "CP-LRP"}
SITES = {"word+position": "words + positions", "embedding": "the whole sum"}


def column(row: Row) -> np.ndarray:
    """r of a row's texts, NaN where undefined."""
    return np.array([np.nan if value is None else value for value in row["r"]], dtype=np.float64)


def shift_rows(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Mean r of each method under each shift, one row per shift, and CP-LRP minus AttnLRP."""
    out: dict[tuple[str, float], dict[str, Any]] = {}
    for row in record["rows"]:
        name = SITES.get(row.get("site", ""), "")
        read = f"any; read at {name}" if row["shift"] == "any" else row["shift"]
        adversarial = "sign" in row
        key = (read, row["size"] if adversarial else -1.0)
        line = out.setdefault(key, {"shift": read, "size": 0.0, "columns": {}})
        line["size"] = row["size"]
        line["columns"][row["method"]] = column(row)
    for line in out.values():
        columns = line.pop("columns")
        line |= {method: bootstrap_mean(r) for method, r in columns.items()}
        line["difference"] = paired_difference(columns["cp-lrp"], columns["attnlrp"])
    return list(out.values())


def shift_table(record: Mapping[str, Any], *, digits: int = 2) -> Table:
    """Mean r with LOO at the words, special tokens left out, under shifts that leave the function as it is.

    The adversarial c was searched for each method alone, so a line holds three different c of one size.
    """
    rows = shift_rows(record)
    columns = {
        "shift": "c moved from positions to words",
        "size": "size of c",
        **NAMES,
        "difference": "CP-LRP − AttnLRP",
    }
    n = rows[0]["attnlrp"].n
    caption = (
        f"Mean r with LOO, {record['config']['model']} on {record['config']['data']}, n = {n:,}; "
        "size in mean lengths of a word embedding"
    )
    shown = [{**row, "difference": None if "r found" in row["shift"] else row["difference"]} for row in rows]
    return table(shown, columns=columns, caption=caption, digits=digits)


@mpl.rc_context(LOOK)
def shift_band(record: Mapping[str, Any]) -> Drawing:
    """Draw the range of mean r at the words that one function can be given, by the size of c."""
    rows = shift_rows(record)
    none = next(row for row in rows if row["shift"] == "none")
    ends: dict[str, list[tuple[float, Interval, Interval]]] = {}
    for method in NAMES:
        sizes = sorted({row["size"] for row in rows if "r found" in row["shift"]})
        ends[method] = [(0.0, none[method], none[method])]
        for size in sizes:
            pair = {
                row["shift"].split()[0]: row[method]
                for row in rows
                if row["size"] == size and "r found" in row["shift"]
            }
            ends[method].append((size, pair["lowest"], pair["highest"]))
    listed = "; ".join(
        f"{NAMES[method]} from {points[-1][1].mean:.2f} to {points[-1][2].mean:.2f} at size {points[-1][0]:g}"
        for method, points in ends.items()
    )
    alt = (
        f"Mean r with LOO at the words that one function can be given by shifts between embeddings: {listed}."
    )
    figure, (axes,) = drawing(alt, height=3.2, width=6.0)
    for method, points in ends.items():
        look = styles([method])[method]
        colour, marker = look.colour, look.marker
        x = [size for size, _, _ in points]
        low, high = ([end.mean for end in side] for side in list(zip(*points, strict=True))[1:])
        axes.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
        axes.plot(x, low, color=colour, marker=marker, linestyle="--")
        axes.plot(x, high, color=colour, marker=marker, label=NAMES[method])
        for side, word in ((low, "lowest"), (high, "highest")):
            label_ends(axes, [Name(f"{NAMES[method]}, {word}", x[-1], side[-1], colour)])
    axes.axhline(0, color=INK, linewidth=0.9)
    axes.set_xlabel("size of c, in mean lengths of a word embedding")
    axes.set_ylabel("mean r with LOO, words")
    headline(figure, "One function, many readings: r at the words")
    settle(figure)
    return figure
