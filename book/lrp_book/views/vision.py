"""Tables of the model that reads images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lrp_companion.registry import label_of
from lrp_companion.show.tables import Table, table

Row = Mapping[str, Any]


def vision_table(
    rows: Sequence[Row], *, caption: str, methods: Sequence[str] | None = None, digits: int = 2
) -> Table:
    """Rows of `analysis.vision.vision_rows`: mean r by reading, and CP-LRP minus AttnLRP.

    `methods` are shown beside these two; None: all of the record.
    """
    others = [name for name in rows[0] if name not in ("reading", "attnlrp", "cp-lrp", "d")]
    columns = {"reading": "what counts", "attnlrp": label_of("attnlrp"), "cp-lrp": label_of("cp-lrp")}
    columns["d"] = "CP-LRP − AttnLRP"
    for name in others if methods is None else methods:
        columns[name] = "mask gradient, 8 groups" if name == "mask-gradient:groups=8" else label_of(name)
    return table(rows, columns=columns, caption=caption, digits=digits)


def vision_path_table(rows: Sequence[Row], *, caption: str, digits: int = 2) -> Table:
    """Rows of `analysis.vision.path_rows`: mean r while layers are bypassed from the last to the first."""
    names = [name for name in rows[0] if name != "bypassed"]
    columns = {"bypassed": "layers bypassed", **{name: name for name in names}}
    shown = [{**row, "bypassed": str(row["bypassed"])} for row in rows]
    return table(shown, columns=columns, caption=caption, digits=digits)


def vision_outcomes_table(trainings: Sequence[Sequence[Row]], *, caption: str, digits: int = 3) -> Table:
    """Rows of `analysis.vision.vision_outcomes` of each training: each point, what came, its differences."""
    shown = [
        {
            **points[0],
            **{
                str(k): f"{row['outcome']}: {'; '.join(f.text(digits) for f in row['figures'])}"
                for k, row in enumerate(points, 1)
            },
        }
        for points in zip(*trainings, strict=True)
    ]
    columns = {"point": "point", "says": "predicted"}
    columns |= {str(k): f"training {k}" for k in range(1, len(trainings) + 1)}
    return table(shown, columns=columns, caption=caption, digits=digits)
