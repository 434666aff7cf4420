"""The report on runs: reading them, all their tables and claims as plain values, and its files. No torch."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from lrp_companion.checks import InputError, SourceError, as_path
from lrp_companion.lab.load import AnswerRun, AnyRun, MnistRun, TextRun, load_runs, nearby
from lrp_companion.lab.paper.claims import Claim, Effect, claims
from lrp_companion.lab.paper.primary import ahead, by_training, leads_by_data, summary
from lrp_companion.lab.paper.printed import report, table2_dots, write
from lrp_companion.lab.paper.tables import (
    MAP_SUFFIXES,
    Row,
    answers,
    figure2,
    named,
    not_run,
    ran,
    table1,
    table2,
    tableA3,
)
from lrp_companion.metrics import Interval
from lrp_companion.schema import DEFAULT_PROTOCOL, PROTOCOLS


def find_runs(results: str | Path = "results") -> list[AnyRun]:
    """Read the runs in a folder, which may be here or in a folder above.

    Raises
    ------
    SourceError : there is no such folder, no run in it, or one that cannot be read.
    """
    return load_runs([nearby(results)])


def find_trainings(results: str | Path = "results") -> list[list[TextRun]]:
    """Read runs of models trained again with another seed, from the folder `trainings` in `results`.

    The name of a model that was trained again is that of the first one, then `-seed-` and the seed, as in
    `companion-6-seed-1`. Models `name-seed-0`, `name-seed-1`, ... without a first one of the plain name are
    a group of their own.

    Returns
    -------
    list
        First a list for each run in `results` whose model was trained again and run on the same task: the
        run itself, then the others, by name. Then the groups of their own. Empty if there is no folder
        `trainings`.

    Raises
    ------
    SourceError : there is no folder of runs, no run in it, or one that cannot be read.

    >>> [[run.model for run in group] for group in find_trainings("results")]  # doctest: +SKIP
    """
    folder = nearby(results) / "trainings"
    repeats = [run for run in load_runs([folder]) if isinstance(run, TextRun)] if folder.is_dir() else []
    groups: dict[tuple[str, str], list[TextRun]] = {}
    for run in sorted(repeats, key=lambda run: run.model):
        groups.setdefault((run.task, run.model.rpartition("-seed-")[0]), []).append(run)
    firsts = {(run.task, run.model): run for run in find_runs(results) if isinstance(run, TextRun)}
    begun = [[first, *groups.pop(key)] for key, first in firsts.items() if key in groups]
    return [*begun, *(group for (_, model), group in groups.items() if model and len(group) > 1)]


def as_plain(value: Any) -> Any:
    """Rows, intervals and claims as values that JSON can hold; undefined numbers become None.

    >>> as_plain({"r": Interval(0.5, 0.25, float("nan"), 3)})
    {'r': {'mean': 0.5, 'low': 0.25, 'high': None, 'n': 3, 'undefined': 0, 'level': 0.95}}
    """
    if isinstance(value, Claim):
        return as_plain({"verdict": value.verdict, "by run": value.by_run(), **vars(value)})
    if isinstance(value, Effect):
        return as_plain({"verdict": value.verdict, "verdict by rank": value.rank_verdict, **vars(value)})
    if isinstance(value, Interval):
        return as_plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_plain(item) for item in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value


def report_rows(runs: Sequence[AnyRun]) -> dict[str, Any]:
    """All tables, what was run and was not, and the claims, as plain values."""
    if not runs:
        hint = "make one with lrp-companion run"
        raise SourceError("report", got="no runs", expected="at least one", hint=hint)
    known = named(runs)
    tables = {run.name: _tables(run) for run in known}
    rows = {"runs": ran(known), "not run": not_run(runs), "primary": primary_rows(known)}
    return as_plain({**rows, "tables": tables, "claims": claims(runs)})


def primary_rows(runs: Sequence[AnyRun]) -> list[Row]:
    """The primary analysis: by data and reading the summary, then the mean difference of each training."""
    return [
        {"data": data, "reading": name, "encoder": encoder, "training": training, "d": value, "ahead": word}
        for data, of in leads_by_data(runs).items()
        for encoder, training, name, value, word in [
            *(("all", "all", name, row.d, row.ahead) for name, row in summary(of).iterrows()),
            *(
                (*key, name, value, ahead(value))
                for key, row in by_training(of).iterrows()
                for name, value in row.items()
            ),
        ]
    ]


def _tables(run: AnyRun) -> Row:
    """The tables of a run, by protocol, or for a run on digits by map."""
    if isinstance(run, MnistRun):
        return {f"{map} maps": {"table1": table1(run, map=map)} for map in MAP_SUFFIXES}
    if isinstance(run, AnswerRun):
        return {"answers": answers(run)}
    if not isinstance(run, TextRun):
        return {}
    tables: Row = {}
    for name, protocol in PROTOCOLS.items():
        tables[name] = {"protocol": str(protocol), "table2": table2(run, protocol=protocol)}
        if run.masks:
            tables[name]["tableA3"] = tableA3(run, protocol=protocol)
    return tables


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
    if rows := primary_rows(named(runs)):
        files += [place / "primary.csv", place / "primary.tex"]
        write(files[-2], _as_csv(rows))
        write(files[-1], _as_latex(rows))
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
        for table, rows in _text_tables(run):
            files.append(place / f"{table}-{stem}.csv")
            write(files[-1], _as_csv(rows))
    return files + (write_figures(runs, place) if with_masks else [])


def _stem(run: AnyRun) -> str:
    """A run's name as part of a file's."""
    return UNSAFE.sub("-", run.name).strip("-") or run.manifest["key"]


def _text_tables(run: TextRun) -> Iterator[tuple[str, list[Row]]]:
    """Names and rows of a run's tables: a row per protocol and explanation."""
    made = {"methods": table2, "masks": tableA3} if run.masks else {"methods": table2}
    for name, table in made.items():
        rows = [
            {"run": run.name, "model": run.model, "data": run.data_name, "protocol": protocol}
            | ({"statistic": statistic} if name == "methods" else {})
            | row
            for statistic in ("pearson", "spearman")[: 2 if name == "methods" else 1]
            for protocol, choices in PROTOCOLS.items()
            for row in table(run, protocol=replace(choices, statistic=statistic))
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


def _as_latex(rows: Sequence[Row]) -> bytes:
    """The same as a LaTeX table, intervals as "mean [low, high]"."""
    flat = [{k: v.text(3) if isinstance(v, Interval) else v for k, v in row.items()} for row in rows]
    return pd.DataFrame(flat).to_latex(index=False, escape=True).encode()


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
    from lrp_companion.show.figures import lines

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
            found = figure2(run, protocol=protocol, column=column)
            drawn = lines(
                _by_step(found["paths"]),
                levels=found["levels"],
                paper=found["paper"],
                quantity="mean r with LOO" if column == "r" else "Δ = LeRF − MoRF",
                title=f"{run.name}, n = {run.n:,}: {name}",
            )
            stem = re.sub(r"[^a-z]+", "-", name.lower()).strip("-")
            for kind in ("png", "pdf"):
                figure = "layers" if run.own else "figure2"
                files.append(place / f"{figure}-{_stem(run)}-{stem}.{kind}")
                write(files[-1], _figure_file(drawn, kind))
    return files


def _by_step(paths: Mapping[str, Sequence[Interval]]) -> xr.Dataset:
    """Intervals of equally long paths, as `show.lines` takes them."""
    parts = {
        part: (["path", "step"], [[getattr(step, part) for step in steps] for steps in paths.values()])
        for part in ("mean", "low", "high")
    }
    steps = max(map(len, paths.values()))
    return xr.Dataset(parts, {"path": list(paths), "step": range(1, steps + 1)})


def _figure_file(figure: Any, kind: str) -> bytes:
    """A figure as the content of a PNG or PDF file, the same at any time."""
    import matplotlib as mpl

    from lrp_companion.show.canvas import LOOK

    metadata: Any = {"CreationDate": None} if kind == "pdf" else None
    out = io.BytesIO()
    with mpl.rc_context(LOOK):
        figure.savefig(out, format=kind, metadata=metadata)
    return out.getvalue()
