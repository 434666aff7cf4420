"""The files of a report: figures as PNG and PDF, tables as CSV, and the text."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lrp_companion.checks import InputError
from lrp_companion.metrics import Interval
from lrp_companion.paper.printed import report, table2_dots, write
from lrp_companion.paper.tables import Row, answers, figure2, named, table2, tableA3
from lrp_companion.paths import as_path
from lrp_companion.runs.load import AnswerRun, AnyRun, TextRun
from lrp_companion.schema import DEFAULT_PROTOCOL, PROTOCOLS

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How text begins that a spreadsheet runs, full-width signs among them."""
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def write_report(runs: Sequence[AnyRun], folder: str | Path) -> list[Path]:
    """Write the whole report: `report.txt`, and for every run on texts figures (PNG, PDF) and tables (CSV).

    Raises
    ------
    InputError : no runs, or the folder cannot be written.
    """
    place = as_path("report", "folder", folder)
    report(runs, out=place / "report.txt")
    files = [place / "report.txt"]
    with_masks = any(isinstance(run, TextRun) and run.masks for run in runs)
    for run in named(runs):
        stem = _stem(run)
        if isinstance(run, AnswerRun):
            files.append(place / f"answers-{stem}.csv")
            write(files[-1], _as_csv([{"run": run.name, "model": run.model, **row} for row in answers(run)]))
        if not isinstance(run, TextRun):
            continue
        drawn = table2_dots(run)
        for kind in ("png", "pdf"):
            files.append(place / f"agreement-{stem}.{kind}")
            write(files[-1], _figure_file(drawn, kind))
        for table, rows in _tables(run):
            files.append(place / f"{table}-{stem}.csv")
            write(files[-1], _as_csv(rows))
    return files + (write_figures(runs, place) if with_masks else [])


def _stem(run: AnyRun) -> str:
    """A run's name as part of a file's."""
    return UNSAFE.sub("-", run.name).strip("-") or run.manifest["key"]


def _tables(run: TextRun) -> Iterator[tuple[str, list[Row]]]:
    """Names and rows of a run's tables: a row per protocol and explanation."""
    made = {"methods": table2, "masks": tableA3} if run.masks else {"methods": table2}
    for name, table in made.items():
        rows = [
            {"run": run.name, "model": run.model, "data": run.data_name, "protocol": protocol, **row}
            for protocol, choices in PROTOCOLS.items()
            for row in table(run, protocol=choices)
        ]
        yield name, rows


def _as_csv(rows: Sequence[Row]) -> bytes:
    """Rows as CSV: an interval is four columns; the paper's columns only where it has values.

    >>> row = {"method": "ig", "r": Interval(0.5, 0.25, 0.75, 8), "r, paper": None}
    >>> print(_as_csv([row]).decode().strip())
    method,r,r low,r high,r n
    ig,0.5,0.25,0.75,8
    """
    empty = {name for name in rows[0] if name.endswith(", paper") and all(row[name] is None for row in rows)}
    flat = [dict(_cells(row, empty)) for row in rows]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(flat[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return out.getvalue().encode()


def _cells(row: Mapping[str, Any], empty: set[str]) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, Interval):
            yield name, value.mean
            yield from ((f"{name} {part}", getattr(value, part)) for part in ("low", "high", "n"))
        elif name not in empty:
            yield name, _harmless(" ".join(map(str, value)) if isinstance(value, list) else value)


def _harmless(value: Any) -> Any:
    """A cell that no spreadsheet runs: text that begins like a formula gets an apostrophe, a number none.

    >>> [_harmless(cell) for cell in ("=1+1", "@name", "-0.5", -0.5, "ig")]
    ["'=1+1", "'@name", '-0.5', -0.5, 'ig']
    """
    if not isinstance(value, str) or not value.lstrip(" ").startswith(FORMULA):
        return value
    return value if NUMBER.fullmatch(value) else f"'{value}"


def write_figures(runs: Sequence[AnyRun], folder: str | Path) -> list[Path]:
    """Draw Figure 2 of every run with masks, r under each protocol and Δ, as PNG and PDF; return the files.

    Of own data the files are called layers-..., because the paper has no such figure.

    Raises
    ------
    InputError : no run has masks, or the folder cannot be written.
    """
    from lrp_companion.show.curves import layer_curves

    place = as_path("report", "folder", folder)
    with_masks = [run for run in named(runs) if isinstance(run, TextRun) and run.masks]
    if not with_masks:
        raise InputError(
            "report",
            got="no run with masks",
            expected="a run of texts with --masks paths",
            hint="leave out --figures",
        )
    files = []
    for run in with_masks:
        asked = [("r", name, protocol) for name, protocol in PROTOCOLS.items()]
        for column, name, protocol in [*asked, ("delta", "curves", DEFAULT_PROTOCOL)]:
            drawn = layer_curves(
                **figure2(run, protocol=protocol, column=column),
                quantity="mean r with LOO" if column == "r" else "Δ = LeRF − MoRF",
                title=f"{run.name}, n = {run.n:,}: {name}",
            )
            stem = re.sub(r"[^a-z]+", "-", name.lower()).strip("-")
            for kind in ("png", "pdf"):
                figure = "layers" if run.own else "figure2"
                files.append(place / f"{figure}-{_stem(run)}-{stem}.{kind}")
                write(files[-1], _figure_file(drawn, kind))
    return files


def _figure_file(figure: Any, kind: str) -> bytes:
    """A figure as the content of a PNG or PDF file, the same at any time."""
    import matplotlib as mpl

    from lrp_companion.show.canvas import LOOK

    metadata: Any = {"CreationDate": None} if kind == "pdf" else None
    out = io.BytesIO()
    with mpl.rc_context(LOOK):
        figure.savefig(out, format=kind, metadata=metadata)
    return out.getvalue()
