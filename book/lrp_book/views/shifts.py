"""Records of `records.mask_gradient_error` in tables: chapter 7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lrp_companion.metrics import Interval, bootstrap_mean
from lrp_companion.show.tables import Table, table


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
