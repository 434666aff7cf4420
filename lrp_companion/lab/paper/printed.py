"""Numbers of this project next to the paper's: the tables of a report, for pages and for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lrp_companion.checks import InputError
from lrp_companion.lab.load import AnswerRun, AnyRun, MnistRun, TextRun
from lrp_companion.lab.paper.claims import Claim, claims
from lrp_companion.lab.paper.primary import MARGIN, UNDECIDED, by_training, leads_by_data, summary
from lrp_companion.lab.paper.tables import (
    MAP_SUFFIXES,
    PAIR_NAMES,
    answers,
    dataset_of,
    named,
    not_run,
    ran,
    table1,
    table2,
    tableA3,
)
from lrp_companion.metrics import Interval
from lrp_companion.schema import DEFAULT_PROTOCOL, PROTOCOLS
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
PAPER_NOTE = "paper: the value before it as the paper reports it, from another model"
NO_MASKS = "No Table A3: a run without masks"
UNSTATED = " (the paper does not say which it uses)"
OWN_TITLE = "Agreement with Leave-One-Out (LOO), and perturbation curves"


def table1_beside(run: MnistRun, *, digits: int = 2) -> Table:
    """Table 1 of a run, raw maps and maps that sum to one, next to the paper's: a row per explainer and pair.

    >>> table1_beside(load_run("results/mnist-plain"))  # doctest: +SKIP
    """
    by_map = {map: table1(run, map=map) for map in MAP_SUFFIXES}
    rows = []
    for k, raw in enumerate(by_map["raw"]):
        for pair, name in PAIR_NAMES.items():
            row: dict[str, Any] = {"explainer": raw["explainer"], "pair": name}
            for map, explainers in by_map.items():
                row |= _interval_cells(map, explainers[k][pair])
                low, high = explainers[k][f"{pair}, nets"]
                row[f"{map}, nets"] = f"{cell(low, digits)} to {cell(high, digits)}"
            rows.append({**row, "paper": raw[f"{pair}, paper"]})
    first = by_map["raw"][0]
    low, high = first["accuracy"]
    columns = {"explainer": "explainer", "pair": "maps"}
    for map in by_map:
        columns |= {**_filled_columns(rows, [map, f"{map}, undefined"]), f"{map}, nets": "single nets"}
    columns |= _filled_columns(rows, ["paper"])
    caption = (
        f"Table 1: mean r between maps ({INTERVALS} over {first['n']:,} images, of the mean over nets; "
        f"single nets: smallest and largest mean of one net). {_run_caption(run)}; nets: {first['nets']}, "
        f"accuracy {low:.3f} to {high:.3f}. Protocols: raw maps, and maps divided by their sum"
    )
    if any(row["paper"] is not None for row in rows):
        caption += ". paper: as the paper reports it, from another net of 85 % accuracy; its left is Q(KᵀV)"
    return table(rows, columns=columns, caption=caption, digits=digits)


def table2_beside(run: TextRun, *, statistic: str = "pearson", digits: int = 2) -> Table:
    """Agreement with LOO of every method under the three protocols, next to the paper's Table 2.

    The paper's are Pearson's r; with `statistic` "spearman" there are ranks, and no values of the paper's.
    """
    by_protocol = {
        name: table2(run, protocol=replace(protocol, statistic=statistic))
        for name, protocol in PROTOCOLS.items()
    }
    by = "" if statistic == "pearson" else " by rank"
    title = f"{_numbered(run, 'Table 2')}agreement with LOO{by}: mean r ({INTERVALS}) under three protocols"
    caption = _sentences(title, _run_caption(run), "" if by else _paper_note(run))
    return _agreement_table(by_protocol, ["method"], caption, digits)


def table2_dots(run: TextRun) -> Any:
    """A matplotlib figure of every method's agreement with LOO, a panel per protocol; the paper's values are
    open squares.
    """
    from lrp_companion.show.figures import dots

    groups, paper = {}, {}
    for name, protocol in PROTOCOLS.items():
        rows = [row for row in table2(run, protocol=protocol) if row["method"] != "loo"]
        groups[name] = {row["method"]: row["r"] for row in rows if row["r"].n}
        if protocol == DEFAULT_PROTOCOL:
            paper = {row["method"]: row["r, paper"] for row in rows if row["r, paper"] is not None}
    return dots(groups, paper=paper, title=f"Which method is closest to LOO? {run.name}, n = {run.n:,}")


def table2_curves(run: TextRun, *, digits: int = 2) -> Table:
    """Perturbation curves of every method next to the paper's Table 2."""
    title = f"{_numbered(run, 'Table 2')}perturbation curves: mean logit ({INTERVALS})"
    caption = _sentences(title, _run_caption(run), _curve_protocol(run), _paper_note(run))
    return _curves_table(table2(run), ["method"], caption, digits)


def tableA3_beside(run: TextRun, *, digits: int = 2) -> Table:
    """Agreement with LOO along the three paths under the three protocols, next to the paper's Table A3."""
    by_protocol = {name: tableA3(run, protocol=protocol) for name, protocol in PROTOCOLS.items()}
    title = (
        f"{_numbered(run, 'Table A3')}layers bypassed: mean r with LOO ({INTERVALS}) under three protocols"
    )
    caption = _sentences(title, _run_caption(run), _depth_note(run))
    return _agreement_table(by_protocol, ["path", "bypassed"], caption, digits)


def tableA3_curves(run: TextRun, *, digits: int = 2) -> Table:
    """Perturbation curves along the three paths next to the paper's Table A3."""
    title = f"{_numbered(run, 'Table A3')}layers bypassed: perturbation curves, mean logit ({INTERVALS})"
    caption = _sentences(title, _run_caption(run), _curve_protocol(run), _depth_note(run))
    return _curves_table(tableA3(run), ["path", "bypassed"], caption, digits)


def answer_table(run: AnswerRun, *, digits: int = 2) -> Table:
    """Agreement with LOO on the answers of a language model."""
    lengths = [len(logits) for logits in run.tables["answers"]["logits"].to_pylist()]
    caption = _sentences(
        f"Answers: mean r with LOO ({INTERVALS} over prompts), of the map of each token of an answer, and of "
        f"the sum of its maps. {_run_caption(run)}; {min(lengths)} to {max(lengths)} tokens an answer"
    )
    return table(answers(run), caption=caption, digits=digits)


def primary_tables(runs: Sequence[AnyRun]) -> list[Table]:
    """The primary analysis of the runs on each data set, and below it each training's mean difference."""
    out = []
    for data, of in leads_by_data(runs).items():
        found, each = summary(of), by_training(of)
        count = found.encoders.iloc[0]
        unit = f"over {count} encoders; one is a model's name without -seed-1" if count > 1 else "one encoder"
        rows = [{"reading": name, **row} for name, row in found.iterrows()]
        caption = (
            f"Primary analysis, {data}: d, r of CP-LRP minus r of AttnLRP (mean and 95 % interval, {unit}); "
            f"level: within {MARGIN}. The first row is the primary one"
        )
        out.append(table(rows, caption=caption, digits=3))
        rows = [{"encoder": key[0], "training": key[1], **row} for key, row in each.iterrows()]
        out.append(table(rows, caption="Mean d of each training (95 % interval, examples)", digits=3))
    return out


def report(runs: Sequence[AnyRun], *, out: str | Path | None = None) -> str:
    """The whole report as plain text for a terminal, and written to `out` where one is given.

    Lines are at most 140 characters wide, as far as the names of runs allow.

    Raises
    ------
    InputError : no runs, or `out` cannot be written.
    """
    if not runs:
        hint = "make one with lrp-companion run"
        raise InputError("report", got="no runs", expected="at least one", hint=hint)
    runs = named(runs)
    own_only, only_answers = all(run.own for run in runs), all(isinstance(run, AnswerRun) for run in runs)
    protocols = "\n".join(f"  {name}: {protocol}" for name, protocol in PROTOCOLS.items())
    missing = [
        f"Not run here: {row['model']} ({row['data']}). To run it: {row['command']}" for row in not_run(runs)
    ]
    sections = [
        OWN_TITLE if own_only else "This project next to the paper (You et al. 2025, arXiv 2510.18810)",
        *map(_run_summary, ran(runs)),
        *(
            []
            if only_answers
            else [f"Protocols of agreement with LOO{'' if own_only else UNSTATED}:\n{protocols}"]
        ),
        *map(_terminal_text, primary_tables(runs)),
        *(section for run in runs for section in _run_sections(run)),
        *([] if own_only else _claims_sections(runs)),
        *map(_wrap, missing),
    ]
    text = "\n\n".join(sections) + "\n"
    if out is not None:
        write(Path(out), text.encode())
    return text


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
    ranks = [table2_beside(run, statistic="spearman")] if "spearman" in run.options["statistic"] else []
    shown = [table2_beside(run), *ranks, table2_curves(run)]
    if run.masks:
        shown += [tableA3_beside(run), tableA3_curves(run)]
    sections = [heading, *map(_terminal_text, shown)]
    if run.masks:
        return sections
    return [*sections, "No masks of bypassed layers were run" if run.own else NO_MASKS]


def write(file: Path, content: bytes) -> None:
    """Write a file of a report and make its folder; raise `InputError` where that fails."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except (OSError, ValueError) as error:  # ValueError: a name that no system can hold
        got = f"{file}, which cannot be written ({getattr(error, 'strerror', None) or error})"
        raise InputError(
            "report", got=got, expected="a place that can be written", hint="name another one"
        ) from None


def _interval_cells(name: str, value: Interval) -> dict[str, Any]:
    """An interval, and how many examples had no value in a column after it."""
    return {name: replace(value, undefined=0), f"{name}, undefined": value.undefined or None}


def _filled_columns(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, str]:
    """Columns that are not empty, under their headings."""
    return {
        name: "undefined" if name.endswith(", undefined") else name
        for name in names
        if any(row[name] is not None for row in rows)
    }


def _agreement_table(
    by_protocol: dict[str, list[dict[str, Any]]], keys: list[str], caption: str, digits: int
) -> Table:
    """A row per key, a column per protocol (and for undefined examples, if any), then the paper."""
    rows = []
    for same in zip(*by_protocol.values(), strict=True):  # one row of every protocol
        row = {key: same[0][key] for key in keys} | {"paper": same[0]["r, paper"]}
        for name, cells in zip(by_protocol, same, strict=True):
            row |= _interval_cells(name, cells["r"])
        rows.append(row)
    names = [column for name in by_protocol for column in (name, f"{name}, undefined")]
    columns = {key: key for key in keys} | _filled_columns(rows, [*names, "paper"])
    return table(rows, columns=columns, caption=caption, digits=digits)


def _curves_table(rows: Sequence[dict[str, Any]], keys: list[str], caption: str, digits: int) -> Table:
    columns = {key: key for key in keys}
    for name, heading in CURVE_NAMES.items():
        columns[name] = heading
        if _filled_columns(rows, [f"{name}, paper"]):
            columns[f"{name}, paper"] = "paper"
    return table(rows, columns=columns, caption=caption, digits=digits)


def _run_caption(run: AnyRun) -> str:
    return f"{run.model} on {run.manifest['data']}; n = {run.n:,}, run {run.manifest['key']}"


def _curve_protocol(run: TextRun) -> str:
    chunk = run.manifest["config"]["chunk"]
    step = "one token" if chunk == 1 else f"{chunk} contiguous tokens"
    return f"Protocol: raw maps read at the words rank the tokens, special tokens stay, {step} a step"


def _paper_note(run: TextRun) -> str:
    """The note on the paper's columns; where the data are not the paper's, there are none."""
    if dataset_of(run):
        return PAPER_NOTE
    return "" if run.own else "Other data than the paper's: its values are left out"


def _numbered(run: TextRun, number: str) -> str:
    """The paper's number of a table before its title; own data are no table of the paper."""
    return "" if run.own else f"{number}, "


def _sentences(*parts: str) -> str:
    """The parts that are not empty as sentences, the first letter a capital."""
    text = ". ".join(part for part in parts if part)
    return text[:1].upper() + text[1:]


def _depth_note(run: TextRun) -> str:
    """The note on the paper's column, or why there is none."""
    if not dataset_of(run) or run.layers == 12:
        return _paper_note(run)
    return f"The paper's model has 12 layers, this one {run.layers}: the paper's values are left out"


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, REPORT_WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _terminal_text(shown: Table) -> str:
    """A table for a terminal: its caption wrapped."""
    return f"{_wrap(shown.caption or '')}\n{replace(shown, caption=None)!r}"


def _run_summary(row: dict[str, Any]) -> str:
    """A run of `ran` in a few lines: model, data, n, time, hardware, commit."""
    minutes = "unknown, as a session was killed or still runs"
    if row["minutes"] is not None:
        minutes = f"{row['minutes']:.1f} minutes"
    size = f"n = {row['n']:,} of {row['of']:,}" + ("" if row["finished"] else ", not finished")
    cut = f", {row['cut']} texts cut at the model's length" if row["cut"] else ""
    heading = f"{row['run']}: {row['model']} on {row['data']}; {size}{cut}; key {row['key']}"
    return _wrap(f"{heading}; time: {minutes}; {row['hardware']}; commit {row['commit']}", "  ")


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
