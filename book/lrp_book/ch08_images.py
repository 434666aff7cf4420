"""Chapter 8's model of images: r with LOO, and what was predicted. No torch.

The records are those of `records.vision_record`. The prediction is in
`results/predictions/2026-11-24-vit.md`; `outcomes` judges it by the rule that is written there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from lrp_book.predictions import by_sides
from lrp_companion.checks import InputError
from lrp_companion.lab.labelled import mean
from lrp_companion.metrics import Interval
from lrp_companion.registry import label_of
from lrp_companion.show.tables import Table, table

READINGS: Mapping[str, tuple[str, str]] = {
    "patches": ("word", "patches"),
    "patches + positions": ("word+position", "patches"),
    "all tokens": ("word", "all"),
    "all tokens + positions": ("word+position", "all"),
}
"""Ways to read a map, as site and tokens: with [CLS] or without, with relevance at positions or without."""
LABELS = {"d": "CP-LRP − AttnLRP", "mask-gradient:groups=8": "mask gradient, 8 groups"}
PLAIN, COUNTED = "patches", "all tokens + positions"
POINTS = (
    ("CP-LRP is ahead with [CLS] and positions", (("above", "cp-lrp", COUNTED, "attnlrp", COUNTED),)),
    (
        "The readings have two signs",
        (("below", "cp-lrp", PLAIN, "attnlrp", PLAIN), ("above", "cp-lrp", COUNTED, "attnlrp", COUNTED)),
    ),
    (
        "The mask gradient is ahead at the patches",
        tuple(("above", "mask-gradient", PLAIN, rules, PLAIN) for rules in ("attnlrp", "cp-lrp")),
    ),
    (
        "Positions bring AttnLRP nearer to LOO",
        (("above", "attnlrp", "patches + positions", "attnlrp", PLAIN),),
    ),
    ("Bypassing the last layer alone helps", (("above", "lrp:bypass=4", PLAIN, "attnlrp", PLAIN),)),
)
"""The prediction, point by point: differences of r at two readings, and on which side of 0 each lies."""


def bypassing(mask: Sequence[int], layers: int) -> str:
    """The name of LRP with these layers bypassed.

    >>> bypassing([], 4), bypassing([3, 4], 4), bypassing([1, 2, 3, 4], 4)
    ('attnlrp', 'lrp:bypass=3+4', 'cp-lrp')
    """
    ends = {0: "attnlrp", layers: "cp-lrp"}
    return ends.get(len(mask), f"lrp:bypass={'+'.join(map(str, mask))}")


def r_of_images(records: Sequence[Mapping[str, Any]]) -> xr.DataArray:
    """r with LOO: axes training, explainer ("attnlrp", "cp-lrp", "lrp:bypass=3+4", ...), reading and example.

    A method without relevance at positions has the same r with them.
    """
    if any(record["example"] != records[0]["example"] for record in records):
        hint = "make the records with one seed and one limit"
        raise InputError("r_of_images", got="records of other images", expected="the same images", hint=hint)
    return xr.concat([_training(record) for record in records], "training", join="exact")


def _training(record: Mapping[str, Any]) -> xr.DataArray:
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for row in record["rows"]:
        mask = row["bypass"]
        name = row["method"] if mask is None else bypassing(mask, record["config"]["layers"])
        known.setdefault((row["site"], row["tokens"]), {})[name] = row["r"]
    missing = [f"site {site}, {tokens}" for site, tokens in READINGS.values() if (site, tokens) not in known]
    if missing:
        got, expected = f"no rows at {'; '.join(missing)}", f"rows for {', '.join(READINGS)}"
        raise InputError("r_of_images", got=got, expected=expected, hint="see lrp_book.records.vision_record")
    names = list(known["word", "patches"])
    r = [[known[at].get(name, known["word", at[1]][name]) for at in READINGS.values()] for name in names]
    coords = {"explainer": names, "reading": list(READINGS), "example": record["example"]}
    return xr.DataArray(np.array(r, dtype=np.float64), coords, list(coords), name="r")


def readings_table(r: xr.DataArray, *others: str, caption: str) -> Table:
    """Mean r by reading: AttnLRP, CP-LRP, their difference, and `others`."""
    d = r.sel(explainer=["cp-lrp"]) - r.sel(explainer="attnlrp", drop=True)
    every = xr.concat([r, d.assign_coords(explainer=["d"])], "explainer")
    names = ["attnlrp", "cp-lrp", "d", *others]
    columns = {"reading": "what counts", **{name: LABELS.get(name) or label_of(name) for name in names}}
    means = mean(every.sel(explainer=names)).values.T
    rows = [dict(zip(columns, (at, *row), strict=True)) for at, row in zip(READINGS, means, strict=True)]
    return table(rows, columns=columns, caption=caption)


def outcomes(r: xr.DataArray) -> list[tuple[str, list[Interval]]]:
    """What became of each of `POINTS` in one training, by `by_sides`, and its differences."""
    rows = []
    for _, differences in POINTS:
        figures = [
            mean(r.sel(explainer=a, reading=at) - r.sel(explainer=b, reading=other))
            for _, a, at, b, other in differences
        ]
        rows.append((by_sides(figures, [side for side, *_ in differences]), figures))
    return rows
