"""Records of `records.embedding_shift` and `records.mask_gradient_error` in tables and one figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def stages_table(records: Sequence[Mapping[str, Any]], *, digits: int = 2) -> Table:
    """Rows of `error_record`: how far each step from the mask gradient to LOO is from LOO, and its r."""
    names = {
        "M": "mask gradient", "S1": "every softmax exact", "S2": "one head at a time, exact",
        "S3": "one layer at a time, exact",
    }  # fmt: skip
    rows = []
    for record in records:
        head = f"{record['config']['data'].split(' ')[0]}, n = {len(record['rows'])}"
        for stage, name in names.items():
            error, r = (_of(record, which, stage) for which in ("error", "r"))
            if error.n:
                rows.append({"data": head, "stage": name, "error": error, "r": r})
    columns = {"data": "data", "stage": "step", "error": "distance from LOO", "r": "r with LOO"}
    caption = "From the mask gradient to LOO, words only. Distance: sum |S − LOO| / sum |LOO|"
    return table(rows, columns=columns, caption=caption, digits=digits)


def error_shares_table(records: Sequence[Mapping[str, Any]], *, digits: int = 2) -> Table:
    """What share of the mask gradient's error each step takes away: mean over texts; shares add up to 1."""
    rows = []
    for record in records:
        head = f"{record['config']['data'].split(' ')[0]}, n = {len(record['rows'])}"
        parts = {part: _of(record, "share", part) for part in record["rows"][0]["share"]}
        rows += [
            {"data": head, "part": part, "share": value, "median": _median(record, part)}
            for part, value in parts.items()
            if value.n
        ]
        if missing := [part for part, value in parts.items() if not value.n]:
            rest = _rest(record)
            name = " and ".join(missing) + ", together" * (len(missing) > 1)
            share = {"share": bootstrap_mean(rest), "median": float(np.median(rest))}
            rows.append({"data": head, "part": name, **share})
    columns = {"data": "data", "part": "part of the error", "share": "mean share", "median": "median share"}
    caption = (
        "Where LOO − mask gradient comes from: projection of each step on the whole error. "
        "Mean shares add up to 1"
    )
    return table(rows, columns=columns, caption=caption, digits=digits)


def _of(record: Mapping[str, Any], which: str, name: str) -> Interval:
    values = [row[which][name] for row in record["rows"]]
    return bootstrap_mean([np.nan if value is None else value for value in values])


def _rest(record: Mapping[str, Any]) -> np.ndarray:
    """What the measured parts leave of each text's error, texts without an error left out."""
    shares = [[value for value in row["share"].values() if value is not None] for row in record["rows"]]
    return np.array([1 - sum(known) for known in shares if known])


def _median(record: Mapping[str, Any], part: str) -> float:
    values = [row["share"][part] for row in record["rows"] if row["share"][part] is not None]
    return float(np.median(values))


def zero_node_table(record: Mapping[str, Any], *, digits: int = 2) -> Table:
    """The slope of the mask at w = 0 against LOO, by the largest attention that a word receives."""
    slopes = {name: np.array(values) for name, values in record["slopes"].items()}
    size, off = np.abs(slopes["loo"]), np.abs(slopes["slope"] - slopes["loo"])
    edges = (0.0, 0.9, 0.99, 0.999, 0.9999, 1.000001)
    rows = []
    for low, high in zip(edges, edges[1:], strict=False):
        keep = (slopes["attention"] >= low) & (slopes["attention"] < high)
        if keep.any():
            name = f"{low:g} to {min(high, 1):g}"
            rows.append(
                {
                    "attention": name,
                    "words": int(keep.sum()),
                    "loo": float(np.median(size[keep])),
                    "off": float(np.median(off[keep])),
                    "ratio": float(np.median(off[keep] / np.maximum(size[keep], 1e-9))),
                }
            )
    columns = {
        "attention": "largest attention received",
        "words": "words",
        "loo": "|LOO|",
        "off": "|slope at 0 − LOO|",
        "ratio": "their ratio",
    }
    caption = f"The node at w = 0, medians over words, {record['config']['data']}"
    return table(rows, columns=columns, caption=caption, digits=digits)
