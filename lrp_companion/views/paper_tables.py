"""Numbers of this project beside the paper's: the tables of a report, for pages and for a terminal."""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lrp_companion.analysis.paper_claims import Claim, claims
from lrp_companion.analysis.paper_tables import (
    MAP_SUFFIXES,
    RATE,
    figure2,
    named,
    not_run,
    ran,
    table1,
    table2,
    tableA3,
)
from lrp_companion.metrics import Interval
from lrp_companion.runs.load import AnyRun, MnistRun, TextRun
from lrp_companion.schema import DEFAULT_PROTOCOL, PROTOCOLS, InputError
from lrp_companion.views.tables import Table, cell, table

WIDTH = 140
NAMES = {"left-right": "left with right", "left-LOO": "left with LOO", "right-LOO": "right with LOO"}
CURVE_NAMES = {"lerf": "LeRF", "morf": "MoRF", "delta": "Δ"}
OTHER = "paper: the value before it as the paper reports it, from another model"
INTERVALS = "mean and 95 % interval"


def table1_beside(run: MnistRun, *, digits: int = 2) -> Table:
    """Table 1 of a run, raw maps and maps that sum to one, beside the paper's: a row per explainer and pair
    of maps.

    >>> table1_beside(load_run("results/mnist-plain"))  # doctest: +SKIP
    """
    by_map = {map: table1(run, map=map) for map in MAP_SUFFIXES}
    rows = []
    for k, first in enumerate(by_map["raw"]):
        for pair, name in NAMES.items():
            row: dict[str, Any] = {"explainer": first["explainer"], "pair": name}
            for map, own in by_map.items():
                row |= _defined(map, own[k][pair])
                low, high = own[k][f"{pair}, nets"]
                row[f"{map}, nets"] = f"{cell(low, digits)} to {cell(high, digits)}"
            rows.append({**row, "paper": first[f"{pair}, paper"]})
    plain = by_map["raw"][0]
    low, high = plain["accuracy"]
    columns = {"explainer": "explainer", "pair": "maps"}
    for map in by_map:
        columns |= {**_filled(rows, [map, f"{map}, undefined"]), f"{map}, nets": "single nets"}
    columns["paper"] = "paper"
    caption = (
        f"Table 1: mean r between maps ({INTERVALS} over {plain['n']:,} images, of the mean over nets; single nets: smallest and "
        f"largest mean of one net). {_run_caption(run)}; nets: {plain['nets']}, accuracy {low:.3f} to {high:.3f}. Protocols: raw maps, "
        "and maps divided by their sum. paper: as the paper reports it, from another net of 85 % accuracy"
    )
    return table(rows, columns=columns, caption=caption, digits=digits)


def table2_beside(run: TextRun, *, digits: int = 2) -> Table:
    """Agreement with LOO of every method under the three protocols, beside the paper's Table 2."""
    by_protocol = {name: table2(run, protocol=protocol) for name, protocol in PROTOCOLS.items()}
    title = "Table 2, agreement with LOO: mean r"
    return _agreement(
        by_protocol,
        ["method"],
        f"{title} ({INTERVALS}) under three protocols. {_run_caption(run)}. {OTHER}",
        digits,
    )


def table2_dots(run: TextRun) -> Any:
    """Agreement with LOO of every method, a panel per protocol, the paper's values as open squares: a
    matplotlib figure.
    """
    from lrp_companion.views.curves import method_dots

    by_protocol = {
        name: [row for row in table2(run, protocol=own) if row["method"] != "loo"]
        for name, own in PROTOCOLS.items()
    }
    groups = {
        name: {row["method"]: row["r"] for row in own if row["r"].n} for name, own in by_protocol.items()
    }
    paper = {
        row["method"]: row["r, paper"]
        for row in by_protocol["words only (default)"]
        if row["r, paper"] is not None
    }
    return method_dots(groups, paper=paper, title=f"{run.name}, n = {run.n:,}")


def table2_curves(run: TextRun, *, digits: int = 2) -> Table:
    """Perturbation curves of every method beside the paper's Table 2."""
    caption = f"Table 2, perturbation curves: mean logit ({INTERVALS}). {_run_caption(run)}. {_curve_protocol(run)}. {OTHER}"
    return _curves(table2(run), ["method"], caption, digits)


def tableA3_beside(run: TextRun, *, digits: int = 2) -> Table:
    """Agreement with LOO along the three paths under the three protocols, beside the paper's Table A3."""
    by_protocol = {name: tableA3(run, protocol=protocol) for name, protocol in PROTOCOLS.items()}
    title = "Table A3, layers bypassed: mean r with LOO"
    return _agreement(
        by_protocol,
        ["path", "bypassed"],
        f"{title} ({INTERVALS}) under three protocols. {_run_caption(run)}. {_depth(run)}",
        digits,
    )


def tableA3_curves(run: TextRun, *, digits: int = 2) -> Table:
    """Perturbation curves along the three paths beside the paper's Table A3."""
    caption = f"Table A3, layers bypassed: perturbation curves, mean logit ({INTERVALS}). {_run_caption(run)}. {_curve_protocol(run)}. {_depth(run)}"
    return _curves(tableA3(run), ["path", "bypassed"], caption, digits)


def claims_table(found: Sequence[Claim]) -> Table:
    """The claims with their verdicts, over all runs and for each run alone."""
    rows = [
        {
            "claim": f"{claim.number}",
            "says": claim.says,
            "where": claim.where,
            "rule": claim.rule,
            "verdict": claim.verdict,
            "runs": ", ".join(f"{run}: {own}" for run, own in claim.by_run().items()) or claim.why,
        }
        for claim in found
    ]
    columns = {
        "claim": "no.",
        "says": "the paper's claim, in our words",
        "where": "where",
        "rule": "the paper's side",
        "verdict": "verdict",
        "runs": "by run",
    }
    return table(rows, columns=columns, caption=f"Claims and verdicts. {HOW}")


def effects_table(found: Sequence[Claim], *, digits: int = 3) -> Table:
    """What the verdicts rest on: a row per claim, run, protocol and effect."""
    rows = [
        {
            "claim": f"{claim.number}", "run": effect.run, "protocol": effect.protocol, "effect": effect.what,
            "value": replace(effect.value, undefined=0), "n": effect.value.n, "paper": effect.paper,
            "side": effect.side, "note": effect.note or None,
        }
        for claim in found
        for effect in claim.effects
    ]  # fmt: skip
    columns = {
        "claim": "no.",
        "run": "run",
        "protocol": "protocol",
        "effect": "effect",
        "value": "words only (default)",
        "n": "n",
        "paper": "paper",
    }
    columns |= {"side": "interval on side", **({"note": "note"} if any(row["note"] for row in rows) else {})}
    return table(
        rows,
        columns=columns,
        caption=f"Effects behind the verdicts: {INTERVALS}; paper: from its tables",
        digits=digits,
    )


HOW = (
    "reproduced: the 95 % interval of every effect lies wholly on the paper's side, under every protocol; partly: some do; not: none does "
    "(an interval that reaches across is open and does not count as reproduced); not testable here: no run for it"
)


def runs_table(runs: Sequence[AnyRun]) -> Table:
    """What was run, from the manifests."""
    rows = [
        {**row, "examples": f"{row['n']:,} of {row['of']:,}" + ("" if row["finished"] else ", not finished")}
        for row in ran(runs)
    ]
    columns = {
        "run": "run",
        "model": "model",
        "layers": "layers",
        "examples": "n",
        "cut": "texts cut",
        "key": "key",
        "minutes": "minutes",
    }
    return table(
        rows,
        columns={**columns, "hardware": "hardware", "commit": "commit"},
        caption="What was run",
        digits=1,
    )


def not_run_table(runs: Sequence[AnyRun]) -> Table | None:
    """The paper's classifiers that were not run, with the command and an estimate of the time; None where all
    were.
    """
    rows, caption = not_run(runs), "Not run: the paper's own two classifiers"
    if not rows:
        return None
    columns = {"model": "not run", "command": "command", "texts": "texts"}
    if any(row["operations"] for row in rows):
        rate = f"10{str(round(math.log10(RATE))).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
        columns |= {
            "from run": "as long as those of",
            "peta": "10¹⁵ operations, all texts",
            "hours": f"hours at {rate} a second",
        }
        rows = [
            {**row, "peta": None if row["operations"] is None else row["operations"] * row["texts"] / 1e15}
            for row in rows
        ]
        caption += (
            f". The time is an estimate from arithmetic for one GPU that does {rate} operations a second, which is assumed and was "
            "not measured; short texts do not fill a GPU and take longer. A sample (--limit) takes its part of it"
        )
    return table(rows, columns=columns, caption=caption, digits=1)


def report(runs: Sequence[AnyRun], *, out: str | Path | None = None) -> str:
    """The whole report as plain text for a terminal, and written to `out` where one is given.

    Lines are at most 140 characters wide, as far as the names of runs allow.

    Raises
    ------
    InputError : no runs, or `out` cannot be written.
    """
    if not runs:
        raise InputError(
            "report", got="no runs", expected="at least one", hint="make one with lrp-companion run"
        )
    runs = named(runs)
    protocols = "\n".join(f"  {name}: {protocol}" for name, protocol in PROTOCOLS.items())
    parts = [
        "This project beside the paper (You et al. 2025, arXiv 2510.18810)",
        *map(_about_text, ran(runs)),
    ]
    parts.append(f"Protocols of agreement with LOO (the paper does not say which is its own):\n{protocols}")
    for run in runs:
        parts.append(f"== {run.name} ==")
        if isinstance(run, MnistRun):
            parts.append(_text(table1_beside(run)))
        elif not isinstance(run, TextRun):
            parts.append(f"{len(run.variants)} variants of the nets: see the chapter on the protocol.")
        else:
            parts += [_text(table2_beside(run)), _text(table2_curves(run))]
            parts += (
                [_text(tableA3_beside(run)), _text(tableA3_curves(run))]
                if run.masks
                else ["No Table A3: a run without masks"]
            )
    parts += ["== Claims ==", _wrap(HOW[0].upper() + HOW[1:] + "."), *map(_claim_text, claims(runs))]
    parts += [
        _wrap(f"Not run here: {row['model']} ({row['data']}). To run it: {row['command']}")
        for row in not_run(runs)
    ]
    text = "\n\n".join(parts) + "\n"
    if out is not None:
        write(Path(out), text.encode())
    return text


def write_figures(runs: Sequence[AnyRun], folder: str | Path) -> list[Path]:
    """Draw Figure 2 of every run with masks, r under each protocol and Δ, as PNG and PDF; return the files.

    Raises
    ------
    InputError : no run has masks, or the folder cannot be written.
    """
    import matplotlib as mpl

    from lrp_companion.views.canvas import LOOK
    from lrp_companion.views.curves import layer_curves

    able = [run for run in named(runs) if isinstance(run, TextRun) and run.masks]
    if not able:
        raise InputError(
            "report",
            got="no run with masks",
            expected="a run of texts with --masks paths",
            hint="leave out --figures",
        )
    files = []
    for run in able:
        asked = [("r", name, protocol) for name, protocol in PROTOCOLS.items()] + [
            ("delta", "curves", DEFAULT_PROTOCOL)
        ]
        for column, name, protocol in asked:
            shown = figure2(run, protocol=protocol, column=column)
            title = f"{run.name}, n = {run.n:,}: {name}"
            drawn = layer_curves(
                **shown, quantity="mean r with LOO" if column == "r" else "Δ = LeRF − MoRF", title=title
            )
            for kind in ("png", "pdf"):
                out = io.BytesIO()
                with mpl.rc_context(LOOK):
                    drawn.savefig(
                        out, format=kind, metadata={"CreationDate": None} if kind == "pdf" else None
                    )
                protocol_name = re.sub(r"[^a-z]+", "-", name.lower()).strip("-")
                files.append(Path(folder) / f"figure2-{run.name}-{protocol_name}.{kind}")
                write(files[-1], out.getvalue())
    return files


def write(file: Path, content: bytes) -> None:
    """Write a file of a report, its folder too; raise `InputError` where that cannot be."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except OSError as error:
        got = f"{file}, which cannot be written ({error.strerror or error})"
        raise InputError(
            "report", got=got, expected="a place that can be written", hint="name another one"
        ) from None


def _defined(name: str, value: Interval) -> dict[str, Any]:
    """An interval, and beside it how many examples had no value."""
    return {name: replace(value, undefined=0), f"{name}, undefined": value.undefined or None}


def _filled(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, str]:
    """Columns that are not empty, under their headings."""
    return {
        name: "undefined" if name.endswith(", undefined") else name
        for name in names
        if any(row[name] is not None for row in rows)
    }


def _agreement(
    by_protocol: dict[str, list[dict[str, Any]]], first: list[str], caption: str, digits: int
) -> Table:
    rows = []
    for own in zip(*by_protocol.values(), strict=True):
        row = {name: own[0][name] for name in first} | {"paper": own[0]["r, paper"]}
        for name, cells in zip(by_protocol, own, strict=True):
            row |= _defined(name, cells["r"])
        rows.append(row)
    columns = {name: name for name in first} | _filled(
        rows, [part for name in by_protocol for part in (name, f"{name}, undefined")]
    )
    return table(
        rows,
        columns={**columns, **({"paper": "paper"} if _filled(rows, ["paper"]) else {})},
        caption=caption,
        digits=digits,
    )


def _curves(rows: Sequence[dict[str, Any]], first: list[str], caption: str, digits: int) -> Table:
    columns = {name: name for name in first}
    for name, heading in CURVE_NAMES.items():
        columns |= {name: heading} | (
            {f"{name}, paper": "paper"} if _filled(rows, [f"{name}, paper"]) else {}
        )
    return table(rows, columns=columns, caption=caption, digits=digits)


def _run_caption(run: AnyRun) -> str:
    return f"{run.model} on {run.manifest['data']}; n = {run.n:,}, run {run.manifest['key']}"


def _curve_protocol(run: TextRun) -> str:
    chunk = run.manifest["config"]["chunk"]
    step = "one token" if chunk == 1 else f"{chunk} contiguous tokens"
    return f"Reading: raw maps read at the words rank the tokens, special tokens stay, {step} a step"


def _depth(run: TextRun) -> str:
    return (
        OTHER
        if run.layers == 12
        else f"The paper's model has 12 layers, this one {run.layers}: no column of the paper stands beside"
    )


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _text(shown: Table) -> str:
    """A table for a terminal: its caption wrapped."""
    return f"{_wrap(shown.caption or '')}\n{replace(shown, caption=None)!r}"


def _about_text(row: dict[str, Any]) -> str:
    minutes = (
        "unknown, as a session was killed or still runs"
        if row["minutes"] is None
        else f"{row['minutes']:.1f} minutes"
    )
    state = "" if row["finished"] else ", not finished"
    cut = f", {row['cut']} texts cut at the model's length" if row["cut"] else ""
    heading = f"{row['run']}: {row['model']} on {row['data']}; n = {row['n']:,} of {row['of']:,}{state}{cut}; key {row['key']}"
    return _wrap(f"{heading}; time: {minutes}; {row['hardware']}; commit {row['commit']}", "  ")


def _claim_text(claim: Claim) -> str:
    lines = [
        _wrap(
            f"{claim.number:2}. {claim.verdict}: {claim.says} ({claim.where}). The paper's side: {claim.rule}.",
            "    ",
        )
    ]
    for run, own in claim.by_run().items():
        lines.append(f"    {run}: {own}")
        for effect in (effect for effect in claim.effects if effect.run == run):
            paper = "" if effect.paper is None else f"; the paper {effect.paper:.2f}"
            note = f"; {effect.note}" if effect.note else ""
            value = f"{effect.value.text(2)}, n = {effect.value.n:,}: {_side(effect.side)}{paper}{note}"
            lines.append(_wrap(f"      {effect.protocol}: {effect.what} {value}", "        "))
    return "\n".join([*lines, *([_wrap(f"    {claim.why}", "    ")] if claim.why else [])])


def _side(side: str) -> str:
    return "open" if side == "open" else f"on {side} side"
