"""The numbers behind the book's main findings, by name, each computed from the committed records. No torch.

The front page prints them by the role `finding` (`sphinx/findings.py`) and the chapters in their first
sentences (`views/sentences.py`), so no number there was typed in.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lrp_book.analysis.chapter_findings import chapter_catalogue
from lrp_book.analysis.r_scale import method_rows, training_rows
from lrp_book.analysis.training_findings import training_catalogue
from lrp_book.analysis.vision_findings import vision_catalogue
from lrp_book.analysis.wiring_findings import wiring_catalogue
from lrp_book.ch06_causes import interventions
from lrp_book.committed import SHORT, TEXT_RUNS, Records, records
from lrp_companion.checks import InputError
from lrp_companion.metrics import Interval, paired_difference
from lrp_companion.metrics.paired import compare_paired
from lrp_companion.paper.protocol_grid import DATA_NAMES, grid, stated_cells
from lrp_companion.paper.tables import table1, table2
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import PROTOCOLS, Protocol

PAPER_DIGITS = 2


def protocol_differences(kept: Records) -> list[dict[str, Any]]:
    """CP-LRP minus AttnLRP in mean r with LOO: a row per run and protocol, with the paper's difference.

    Returns
    -------
    list
        Rows `run` (short name), `data`, `layers`, `protocol`, `difference` (paired, an interval) and `paper`,
        the difference of the paper's two means, which has no protocol.
    """
    out = []
    for short in TEXT_RUNS:
        run = kept.text(short)
        head = {"run": short, "data": DATA_NAMES[run.task], "layers": run.layers, "paper": _papers(run)}
        for name, protocol in PROTOCOLS.items():
            effect = run.difference("cp-lrp", "attnlrp", protocol)
            out.append({**head, "protocol": name, "difference": effect})
    return out


def _papers(run: TextRun, *methods: str) -> float:
    """The paper's mean r of CP-LRP minus AttnLRP, or of one method, on this run's data."""
    rows = {row["method"]: row["r, paper"] for row in table2(run)}
    return float(rows[methods[0]] if methods else rows["cp-lrp"] - rows["attnlrp"])


def _protocol(short: str) -> Protocol:
    return PROTOCOLS[SHORT[short]]


def _digit_r(kept: Records, explainer: str, pair: str) -> Any:
    (row,) = [row for row in table1(kept.digits()) if row["explainer"] == explainer]
    return row[pair]


def _without_cls(kept: Records) -> Interval:
    r = interventions(kept.with_maps("sst2-12"))["without [CLS]'s position"]
    return paired_difference(r["cp-lrp"], r["attnlrp"])


def _by_removal(short: str, removal: str) -> Callable[[Records], Interval]:
    """r of the mask gradient minus r of AttnLRP with LOO by another removal, at the words."""

    def difference(kept: Records) -> Interval:
        compared = method_rows(kept.with_maps(short), methods=["attnlrp", "mask-gradient"])
        r = {(row["what"], row["reference"]): row["values"] for row in compared}
        return compare_paired(r["mask-gradient", removal], r["attnlrp", removal]).mean

    return difference


def _other_training(kept: Records) -> Interval:
    """r between the LOO maps of two trainings by one recipe, 6 layers, on the same sentences of SST-2."""
    return training_rows(kept.trainings("sst2-6"))[0]["r"]


def _stated(short: str, nearer: str) -> Callable[[Records], int]:
    """In how many of the protocols that the paper's statements leave a method is nearer to LOO."""
    return lambda kept: sum(row["nearer"] == nearer for row in stated_cells(grid(kept.text(short))))


def _catalogue() -> dict[str, Callable[[Records], Any]]:
    """What can be asked for, by name."""
    out: dict[str, Callable[[Records], Any]] = {
        "digits, AttnLRP left with right": lambda kept: _digit_r(kept, "AttnLRP", "left-right"),
        "digits, AttnLRP left with right, paper": lambda kept: _digit_r(kept, "AttnLRP", "left-right, paper"),
        "digits, AttnLRP left with LOO": lambda kept: _digit_r(kept, "AttnLRP", "left-LOO"),
        "digits, AttnLRP right with LOO": lambda kept: _digit_r(kept, "AttnLRP", "right-LOO"),
        "sst2-12, difference without [CLS]'s position": _without_cls,
        "sst2-12, mask gradient minus AttnLRP by [MASK]": _by_removal("sst2-12", "mask-token"),
        "sst2-12, mask gradient minus AttnLRP by deletion": _by_removal("sst2-12", "delete"),
        "imdb-12, mask gradient minus AttnLRP by [MASK]": _by_removal("imdb-12", "mask-token"),
        "sst2-6, LOO with LOO of another training": _other_training,
    }
    for short in TEXT_RUNS:
        for name in SHORT:
            out[f"{short}, CP-LRP minus AttnLRP, {name}"] = _difference(short, name)
            for method in ("attnlrp", "cp-lrp"):
                out[f"{short}, {method}, {name}"] = _mean(short, name, method)
            for method in ("mask-gradient", "mask-gradient:groups=8"):
                out[f"{short}, {method}, {name}"] = _mean(short, name, method, frontier=True)
            for what in ("median", "wins"):
                out[f"{short}, CP-LRP minus AttnLRP, {name}, {what}"] = _typical(short, name, what)
        for method in ("attnlrp", "cp-lrp"):
            out[f"{short}, {method}, paper"] = _of_paper(short, method)
        for nearer in ("AttnLRP", "CP-LRP", "open"):
            out[f"{short}, stated protocols, {nearer}"] = _stated(short, nearer)
    return out


def _difference(short: str, name: str) -> Callable[[Records], Interval]:
    return lambda kept: kept.text(short).difference("cp-lrp", "attnlrp", _protocol(name))


def _typical(short: str, name: str, what: str) -> Callable[[Records], Interval]:
    """The median difference, or the share of examples won."""

    def value(kept: Records) -> Interval:
        run, protocol = kept.text(short), _protocol(name)
        return getattr(compare_paired(run.r("cp-lrp", protocol), run.r("attnlrp", protocol)), what)

    return value


def _mean(short: str, name: str, method: str, *, frontier: bool = False) -> Callable[[Records], Interval]:
    return lambda kept: kept.text(short, frontier=frontier).agreement(method, _protocol(name))


def _of_paper(short: str, method: str) -> Callable[[Records], float]:
    return lambda kept: _papers(kept.text(short), method)


CATALOGUE = {
    **_catalogue(), **chapter_catalogue(), **training_catalogue(), **vision_catalogue(), **wiring_catalogue(),
}  # fmt: skip
"""What can be asked for, by name: on the front page, and in the chapters' first sentences."""


def value_of(name: str, results: str | Path = "results") -> Any:
    """Return one finding as it is computed: an interval, a number or a count.

    Raises
    ------
    InputError : there is no finding of this name; `MissingRecord` if its runs are not in the folder.
    """
    if name not in CATALOGUE:
        near = difflib.get_close_matches(name, CATALOGUE, n=4, cutoff=0)
        expected, hint = "a name of lrp_book.analysis.findings.CATALOGUE", f"perhaps: {'; '.join(near)}"
        raise InputError("finding", got=f"finding {name!r}", expected=expected, hint=hint)
    return CATALOGUE[name](records(results))


def finding(name: str, results: str | Path = "results") -> str:
    """Return one number as text: an interval as "mean [low, high]", the paper's numbers alone.

    A name with ", n" at its end asks for the number of examples, and one with ", mean" only for the mean.

    Raises
    ------
    InputError : as `value_of`.

    >>> finding("sst2-12, CP-LRP minus AttnLRP, words")  # doctest: +SKIP
    '−0.02 [−0.03, −0.02]'
    """
    stem, comma, part = name.rpartition(", ")
    asked = part if comma and part in ("n", "mean") and name not in CATALOGUE else ""
    value = value_of(stem if asked else name, results)
    if asked and not isinstance(value, Interval):
        raise InputError(
            "finding", got=name, expected="a number of this project", hint=f"leave out {asked!r}"
        )
    if asked == "n":
        return f"{value.n:,}"
    if asked == "mean":
        value = value.mean
    if isinstance(value, int):
        return str(value)
    text = value.text(PAPER_DIGITS) if isinstance(value, Interval) else f"{value:.{PAPER_DIGITS}f}"
    return text.replace("-", "\u2212")
