"""The report on runs: tables and claims next to the paper's, as text and files. No torch."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from lrp_companion.checks import SourceError, as_path
from lrp_companion.lab.load import AnswerRun, AnyRun, MnistRun, TextRun
from lrp_companion.lab.paper.claims import Claim, claims
from lrp_companion.lab.paper.primary import MARGIN, UNDECIDED, ahead, by_training, leads_by_data, summary
from lrp_companion.lab.paper.tables import (
    BASE_LAYERS,
    MAP_SUFFIXES,
    PAIR_NAMES,
    Row,
    answers,
    dataset_of,
    named,
    not_run,
    table1,
    table2,
    tableA3,
)
from lrp_companion.metrics import Interval
from lrp_companion.schema import PROTOCOLS
from lrp_companion.show.tables import Table, cell, table

INTERVALS = "mean and 95 % interval"
VERDICTS = (
    f"The margin is {MARGIN} of r, or {100 * MARGIN:.0f} % of AttnLRP's Δ. "
    "Reproduced: the 95 % interval lies on the paper's side, and the mean is no smaller than the margin; "
    "contradicted: the same on the other side; no relevant difference: the interval lies within the margin; "
    "undecided: all else. A claim whose limits are not 0 has no margin. A claim is as good as the weakest of "
    "its effects, and is judged by Pearson's r at the words, in the mean of the models that were run, with "
    "intervals over examples"
)
REPORT_WIDTH = 140  # characters in a terminal
CURVE_NAMES = {"lerf": "LeRF", "morf": "MoRF", "delta": "Δ"}
UNSTATED = " (the paper does not say which it uses)"
OWN_TITLE = "Agreement with Leave-One-Out (LOO), and perturbation curves"
PAPER_TITLE = "This project next to the paper (You et al. 2025, arXiv 2510.18810)"


# -- tables next to the paper's ------------------------------------------------------------------------------


def table1_beside(run: MnistRun) -> Table:
    """Table 1 of a run, raw maps and maps that sum to one, next to the paper's: a row per explainer and
    pair.
    """
    by_map = {map: table1(run, map=map) for map in MAP_SUFFIXES}
    rows = []
    for k, raw in enumerate(by_map["raw"]):
        for pair, name in PAIR_NAMES.items():
            row: Row = {"explainer": raw["explainer"], "pair": name}
            for map, explainers in by_map.items():
                row[map] = explainers[k][pair]
                low, high = explainers[k][f"{pair}, nets"]
                row[f"{map}, nets"] = f"{cell(low, 2)} to {cell(high, 2)}"
            rows.append({**row, "paper": raw[f"{pair}, paper"]})
    first = by_map["raw"][0]
    low, high = first["accuracy"]
    columns = {"explainer": "explainer", "pair": "maps"}
    for map in by_map:
        columns |= {map: map, f"{map}, nets": "single nets"}
    columns |= _paper_column(rows)
    caption = (
        f"Table 1: mean r between maps ({INTERVALS} over {first['n']:,} images, of the mean over nets; "
        f"single nets: smallest and largest mean of one net). {_run_caption(run)}; nets: {first['nets']}, "
        f"accuracy {low:.3f} to {high:.3f}. Protocols: raw maps, and maps divided by their sum"
    )
    if any(row["paper"] is not None for row in rows):
        caption += ". paper: as the paper reports it, from another net of 85 % accuracy; its left is Q(KᵀV)"
    return table(rows, columns=columns, caption=caption)


TABLES = {
    "methods": (table2, ["method"], "Table 2, ", ""),
    "masks": (tableA3, ["path", "bypassed"], "Table A3, ", "layers bypassed: "),
}
"""Of the tables of a run on texts: the rows, what names them, the paper's number, and the title."""


def r_table(run: TextRun, name: str, *, statistic: str = "pearson") -> Table:
    """Agreement with LOO under the three protocols, next to the paper's Table 2 ("methods") or A3 ("masks").

    The paper's are Pearson's r; by rank there are no values of the paper's.
    """
    rows_of, keys, _, _ = TABLES[name]
    protocols = {of: replace(protocol, statistic=statistic) for of, protocol in PROTOCOLS.items()}
    by_protocol = {of: rows_of(run, protocol=protocol) for of, protocol in protocols.items()}
    rows = []
    for same in zip(*by_protocol.values(), strict=True):  # one row of every protocol
        row = {key: same[0][key] for key in keys} | {"paper": same[0]["r, paper"]}
        rows.append(row | {of: cells["r"] for of, cells in zip(by_protocol, same, strict=True)})
    columns = {key: key for key in (*keys, *by_protocol)} | _paper_column(rows)
    ranked = "" if statistic == "pearson" else " by rank"
    what = "agreement with LOO" + ranked if name == "methods" else ""
    title = f"{what}: mean r" if what else "mean r with LOO"
    caption = _caption(run, name, f"{title} ({INTERVALS}) under three protocols", paper=not ranked)
    return table(rows, columns=columns, caption=caption)


def curve_table(run: TextRun, name: str) -> Table:
    """Perturbation curves next to the paper's Table 2 ("methods") or A3 ("masks")."""
    rows_of, keys, _, _ = TABLES[name]
    rows = rows_of(run)
    columns = {key: key for key in keys}
    for curve, heading in CURVE_NAMES.items():
        columns[curve] = heading
        if any(row[f"{curve}, paper"] is not None for row in rows):
            columns[f"{curve}, paper"] = "paper"
    chunk = run.manifest["config"]["chunk"]
    step = "one token" if chunk == 1 else f"{chunk} contiguous tokens"
    note = f"Protocol: raw maps read at the words rank the tokens, special tokens stay, {step} a step"
    title = f"perturbation curves{',' if name == 'masks' else ':'} mean logit ({INTERVALS})"
    return table(rows, columns=columns, caption=_caption(run, name, title, note))


def _caption(run: TextRun, name: str, title: str, note: str = "", *, paper: bool = True) -> str:
    _, _, number, what = TABLES[name]
    last = "paper: the value before it as the paper reports it, from another model"
    if not dataset_of(run):
        last = "" if run.own else "Other data than the paper's: its values are left out"
    elif name == "masks" and run.layers != BASE_LAYERS:
        last = f"The paper's model has 12 layers, this one {run.layers}: the paper's values are left out"
    title = f"{'' if run.own else number}{what}{title}"
    parts = [title[:1].upper() + title[1:], _run_caption(run), note, last if paper else ""]
    return ". ".join(filter(None, parts))


def _run_caption(run: AnyRun) -> str:
    return f"{run.model} on {run.manifest['data']}; n = {run.n:,}, run {run.manifest['key']}"


def _paper_column(rows: Sequence[Row]) -> dict[str, str]:
    return {"paper": "paper"} if any(row["paper"] is not None for row in rows) else {}


def answer_table(run: AnswerRun) -> Table:
    """Agreement with LOO on the answers of a language model."""
    lengths = [len(logits) for logits in run.tables["answers"]["logits"].to_pylist()]
    caption = (
        f"Answers: mean r with LOO ({INTERVALS} over prompts), of the map of each token of an answer, and of "
        f"the sum of its maps. {_run_caption(run)}; {min(lengths)} to {max(lengths)} tokens an answer"
    )
    return table(answers(run), caption=caption)


def primary_tables(runs: Sequence[AnyRun]) -> list[Table]:
    """The primary analysis of the runs on each data set, and below it each training's mean difference."""
    out = []
    for data, of in leads_by_data(runs).items():
        found = summary(of)
        count = found.encoders.iloc[0]
        unit = f"over {count} encoders; one is a model's name without -seed-1" if count > 1 else "one encoder"
        caption = (
            f"Primary analysis, {data}: d, r of CP-LRP minus r of AttnLRP (mean and 95 % interval, {unit}); "
            f"level: within {MARGIN}. The first row is the primary one"
        )
        out.append(table(found, caption=caption, digits=3))
        caption = "Mean d of each training (95 % interval, examples)"
        out.append(table(by_training(of), caption=caption, digits=3))
    return out


# -- text ----------------------------------------------------------------------------------------------------


def report(runs: Sequence[AnyRun]) -> str:
    """The whole report as plain text for a terminal.

    Lines are at most 140 characters wide, as far as the names of runs allow.
    """
    runs = _some(runs)
    own = all(run.own for run in runs)
    protocols = "\n".join(f"  {name}: {protocol}" for name, protocol in PROTOCOLS.items())
    sections = [OWN_TITLE if own else PAPER_TITLE, *map(_run_summary, runs)]
    if not all(isinstance(run, AnswerRun) for run in runs):
        sections.append(f"Protocols of agreement with LOO{'' if own else UNSTATED}:\n{protocols}")
    sections += map(_terminal_text, primary_tables(runs))
    sections += (section for run in runs for section in _run_sections(run))
    sections += [] if own else _claims_sections(runs)
    lacking = "Not run here: {model} ({data}). To run it: {command}"
    return "\n\n".join([*sections, *(_wrap(lacking.format(**row)) for row in not_run(runs))]) + "\n"


def _some(runs: Sequence[AnyRun]) -> list[AnyRun]:
    if not runs:
        hint = "make one with lrp-companion run"
        raise SourceError("report", got="no runs", expected="at least one", hint=hint)
    return named(runs)


def _claims_sections(runs: Sequence[AnyRun]) -> list[str]:
    """The paper's claims, which are tested on its data and their stand-ins; readings of its tables apart."""
    judged = claims(runs)
    parts = {"Claims": False, "Readings of the paper's tables": True}
    of = {title: [claim for claim in judged if claim.reading == reading] for title, reading in parts.items()}
    sections = [part for title, every in of.items() for part in (f"== {title} ==", *map(_claim_text, every))]
    return [sections[0], _wrap(f"{VERDICTS}."), *sections[1:]]


def _run_sections(run: AnyRun) -> list[str]:
    """A run's heading and its tables as text."""
    heading = f"== {run.name} =="
    if isinstance(run, MnistRun):
        return [heading, _terminal_text(table1_beside(run))]
    if isinstance(run, AnswerRun):
        return [heading, _terminal_text(answer_table(run))]
    if not isinstance(run, TextRun):
        return [heading, f"{len(run.variants)} variants of the nets: see the chapter on the protocol."]
    shown = [r_table(run, "methods")]
    shown += [r_table(run, "methods", statistic="spearman")] if "spearman" in run.options["statistic"] else []
    shown.append(curve_table(run, "methods"))
    shown += [r_table(run, "masks"), curve_table(run, "masks")] if run.masks else []
    no_masks = [] if run.masks else [f"No {'' if run.own else 'Table A3: a run without '}masks"]
    return [heading, *map(_terminal_text, shown), *no_masks]


def _wrap(text: str, indent: str = "") -> str:
    whole: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(text, REPORT_WIDTH, subsequent_indent=indent, **whole)


def _terminal_text(shown: Table) -> str:
    """A table for a terminal: its caption wrapped."""
    return f"{_wrap(shown.caption or '')}\n{replace(shown, caption=None)!r}"


def _run_summary(run: AnyRun) -> str:
    """A run in a few lines, from its manifest: model, data, n, time, hardware, commit."""
    of, last, cut = run.manifest, run.manifest["sessions"][-1], 0
    if isinstance(run, TextRun):
        cut = int((run.example_column("whole") > run.example_column("tokens")).sum())
    known = all(each["seconds"] is not None and "stopped by" not in each for each in of["sessions"])
    minutes = f"{run.seconds / 60:.1f} minutes" if known else "unknown, as a session was killed or still runs"
    size = f"n = {run.n:,} of {of['examples']:,}" + ("" if of.get("finished") else ", not finished")
    size += f", {cut} texts cut at the model's length" if cut else ""
    machine = [f"{last['hardware']['cores']} cores of {last['hardware']['cpu']}"]
    machine += last["hardware"].get("gpus", [])
    heading = f"{run.name}: {run.model} on {of['data']}; {size}; key {of['key']}"
    return _wrap(f"{heading}; time: {minutes}; {', '.join(machine)}; commit {last['commit']}", "  ")


def _claim_text(claim: Claim) -> str:
    shown = f", n could show {claim.detectable:.2f}" if claim.verdict == UNDECIDED else ""
    heading = f"{claim.number:2}. {claim.verdict}{shown}: {claim.says} ({claim.where})"
    lines = [_wrap(f"{heading}. The paper's side: {claim.rule}.", "    ")]
    for run, verdict in claim.by_run().items():
        lines.append(f"    {run}: {verdict}")
        for effect in (effect for effect in claim.effects if effect.run == run):
            paper = "" if effect.paper is None else f"; the paper {effect.paper:.2f}"
            note = f"; {effect.note}" if effect.note else ""
            rank = f"; by rank {effect.rank.text(2)}: {effect.rank_verdict}" if effect.rank else ""
            value = f"{effect.value.text(2)}, n = {effect.value.n:,}: {effect.verdict}{rank}{paper}{note}"
            lines.append(_wrap(f"      {effect.protocol}: {effect.what} {value}", "        "))
    return "\n".join([*lines, *([_wrap(f"    {claim.why}", "    ")] if claim.why else [])])


def primary_rows(runs: Sequence[AnyRun]) -> list[Row]:
    """The primary analysis: by data and reading the summary, then the mean difference of each training."""
    rows = []
    for data, of in leads_by_data(runs).items():
        for key, each in {("all", "all"): summary(of).d, **dict(by_training(of).iterrows())}.items():
            of_one = {"data": data, "encoder": key[0], "training": key[1]}
            rows += [of_one | {"reading": name, "d": d, "ahead": ahead(d)} for name, d in each.items()]
    return rows


# -- files ---------------------------------------------------------------------------------------------------


FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How text begins that a spreadsheet runs, full-width signs among them."""


def write_report(runs: Sequence[AnyRun], folder: str | Path) -> list[Path]:
    """Write the whole report: `report.txt`, and of every run on texts its tables (CSV, LaTeX)."""
    known, place = _some(runs), as_path("report", "folder", folder)
    files, tables = {"report.txt": report(runs).encode()}, {"primary": primary_rows(known)}
    for run in known:
        stem, of = _stem(run), {"run": run.name, "model": run.model}
        if isinstance(run, AnswerRun):
            tables[f"answers-{stem}"] = [{**of, **row} for row in answers(run)]
        if not isinstance(run, TextRun):
            continue
        for name in ("methods", "masks")[: 2 if run.masks else 1]:
            tables[f"{name}-{stem}"] = list(_text_rows(run, name))
    for name, rows in tables.items():
        if rows:
            latex = table(rows, digits=3).to_latex()
            files |= {f"{name}.csv": _as_csv(rows), f"{name}.tex": latex.encode()}
    place.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (place / name).write_bytes(content)
    return [place / name for name in files]


def _stem(run: AnyRun) -> str:
    """A run's name as part of a file's."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", run.name).strip("-") or run.manifest["key"]


def _text_rows(run: TextRun, name: str) -> Iterator[Row]:
    """A table of a run on texts: a row per statistic, protocol and explanation."""
    for statistic in ("pearson", "spearman")[: 2 if name == "methods" else 1]:
        for protocol, choices in PROTOCOLS.items():
            of = {"run": run.name, "model": run.model, "data": run.data_name, "protocol": protocol}
            of |= {"statistic": statistic} if name == "methods" else {}
            for row in TABLES[name][0](run, protocol=replace(choices, statistic=statistic)):
                yield of | row


def _as_csv(rows: Sequence[Row]) -> bytes:
    """Rows as CSV: an interval is four columns; the paper's columns only where it has values.

    >>> row = {"method": "ig", "r": Interval(0.5, 0.25, 0.75, 8), "r, paper": None}
    >>> print(_as_csv([row]).decode().strip())
    method,r,r low,r high,r n
    ig,0.5,0.25,0.75,8
    """
    flat: list[Row] = [{} for _ in rows]
    for out, row in zip(flat, rows, strict=True):
        for name, value in row.items():
            if isinstance(value, Interval):
                out |= {name: value.mean, f"{name} low": value.low, f"{name} high": value.high}
                out[f"{name} n"] = value.n
            else:
                out[name] = harmless(" ".join(map(str, value)) if isinstance(value, list) else value)
    frame = pd.DataFrame(flat)
    empty = [name for name in frame if name.endswith(", paper") and frame[name].isna().all()]
    return frame.drop(columns=empty).to_csv(index=False, lineterminator="\n").encode()


def harmless(value: Any) -> Any:
    """A cell that no spreadsheet runs: text that begins like a formula gets an apostrophe.

    >>> [harmless(cell) for cell in ("=1+1", "@name", -0.5, "ig")]
    ["'=1+1", "'@name", -0.5, 'ig']
    """
    return f"'{value}" if isinstance(value, str) and value.lstrip(" ").startswith(FORMULA) else value
