"""The numbers in the first sentences of chapters 6 to 8 by name, for `views.sentences.answers`. No torch."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lrp_book.analysis.chapter_findings import chapter_catalogue
from lrp_book.analysis.first_token import interventions
from lrp_book.analysis.training_findings import training_catalogue
from lrp_book.committed import SHORT, TEXT_RUNS, Records, records
from lrp_companion.checks import InputError
from lrp_companion.metrics import Interval
from lrp_companion.metrics.paired import compare_paired
from lrp_companion.paper.protocol_grid import grid, stated_cells
from lrp_companion.schema import PROTOCOLS, Protocol

PAPER_DIGITS = 2


def _protocol(short: str) -> Protocol:
    return PROTOCOLS[SHORT[short]]


def _without_cls(kept: Records) -> Interval:
    rows = {row["kept"]: row["difference"].mean for row in interventions(kept.with_maps("sst2-12"))}
    return rows["without [CLS]'s position"]


def _by_removal(short: str, removal: str) -> Callable[[Records], Interval]:
    """r of the mask gradient minus r of AttnLRP with LOO by another removal, at the words."""
    protocol = Protocol(removal=removal)
    return lambda kept: kept.with_maps(short).difference("mask-gradient", "attnlrp", protocol)


def _stated(short: str, nearer: str) -> Callable[[Records], int]:
    """In how many of the protocols that the paper's statements leave a method is nearer to LOO."""
    return lambda kept: sum(row["nearer"] == nearer for row in stated_cells(grid(kept.text(short))))


def _catalogue() -> dict[str, Callable[[Records], Any]]:
    """What can be asked for, by name."""
    out: dict[str, Callable[[Records], Any]] = {
        "sst2-12, difference without [CLS]'s position": _without_cls,
        "sst2-12, mask gradient minus AttnLRP by [MASK]": _by_removal("sst2-12", "mask-token"),
        "sst2-12, mask gradient minus AttnLRP by deletion": _by_removal("sst2-12", "delete"),
        "imdb-12, mask gradient minus AttnLRP by [MASK]": _by_removal("imdb-12", "mask-token"),
    }
    for short in TEXT_RUNS:
        for name in SHORT:
            out[f"{short}, CP-LRP minus AttnLRP, {name}"] = _difference(short, name)
            out[f"{short}, CP-LRP minus AttnLRP, {name}, median"] = _typical(short, name)
        for nearer in ("AttnLRP", "CP-LRP", "open"):
            out[f"{short}, stated protocols, {nearer}"] = _stated(short, nearer)
    return out


def _difference(short: str, name: str) -> Callable[[Records], Interval]:
    return lambda kept: kept.text(short).difference("cp-lrp", "attnlrp", _protocol(name))


def _typical(short: str, name: str) -> Callable[[Records], Interval]:
    """The median difference."""

    def value(kept: Records) -> Interval:
        run, protocol = kept.text(short), _protocol(name)
        return compare_paired(run.r("cp-lrp", protocol), run.r("attnlrp", protocol)).median

    return value


CATALOGUE = {
    **_catalogue(), **chapter_catalogue(), **training_catalogue()
}  # fmt: skip
"""What can be asked for, by name."""


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
