"""The numbers in the first sentences of chapters 6 and 7: names that `findings.finding` knows. No torch.

Each is computed by the function that makes the chapter's tables, so a sentence and its table agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from lrp_book.analysis.effect_causes import signs, stated_with_whole_sums
from lrp_book.analysis.first_token import by_first_sign
from lrp_book.analysis.layer_game import standing
from lrp_book.committed import SHORT, TEXT_RUNS, Records
from lrp_companion.metrics import Interval, bootstrap_mean, paired_difference
from lrp_companion.paper.protocol_grid import counts, grid
from lrp_companion.schema import PROTOCOLS, Protocol

Value = Callable[[Records], Any]
EMBEDDING = Protocol(site="embedding")
"""The one site that depends on the function alone, without special tokens."""
PARTS = ("across layers", "within one softmax")


def chapter_catalogue() -> dict[str, Value]:
    """What the chapters can ask for besides `findings.CATALOGUE`, by name."""
    out: dict[str, Value] = {}
    for short in TEXT_RUNS:
        out[f"{short}, n"] = _size(short)
        out[f"{short}, CP-LRP minus AttnLRP, embedding"] = _at_embedding(short)
        out[f"{short}, CP-LRP minus AttnLRP, embedding, all tokens"] = _at_embedding(short, tokens="all")
        out[f"{short}, mask-gradient minus AttnLRP at words and positions, all"] = _lead_at_positions(short)
        for nearer in ("CP-LRP", "AttnLRP"):
            out[f"{short}, stated protocols with sums over all tokens, {nearer}"] = _whole_sums(short, nearer)
        out[f"{short}, sign turned, AttnLRP"] = _turned(short)
        for side in ("below", "above"):
            out[f"{short}, cells {side}"] = _cells(short, side)
            out[f"{short}, CP-LRP minus AttnLRP, LOO at [CLS] {side} 0"] = _by_sign(short, side)
        out[f"{short}, cells"] = _cells(short, "cells")
        for tokens in ("no-special", "all"):
            for method in ("mask-gradient", "mask-gradient:groups=8", "attnlrp", "cp-lrp"):
                out[f"{short}, frontier, {method}, {tokens}"] = _frontier(short, method, tokens)
            for method in ("mask-gradient", "mask-gradient:groups=8"):
                out[f"{short}, {method} minus AttnLRP, {tokens}"] = _lead(short, method, tokens)
        for method in ("attnlrp", "mask-gradient:groups=8"):
            out[f"{short}, delta of {method} minus LOO's"] = _delta(short, method)
    for short in ("sst2-12", "sst2-6"):
        for name in ("words", "positions"):
            for what in ("later", "attnlrp", "cp-lrp", "masks"):
                out[f"{short}, all masks, {what}, {name}"] = _standing(short, name, what)
    for method in ("attnlrp", "cp-lrp"):
        for end in ("lowest", "highest"):
            out[f"shift, {method}, {end}"] = _shifted(method, end)
    for short in ("sst2-12", "imdb-12"):
        for part in PARTS:
            out[f"{short}, error {part}"] = _error_share(short, part)
    return out


def _size(short: str) -> Value:
    return lambda kept: kept.text(short).n


def _at_embedding(short: str, *, tokens: str = "no-special") -> Value:
    protocol = replace(EMBEDDING, tokens=tokens)
    return lambda kept: kept.text(short).difference("cp-lrp", "attnlrp", protocol)


def _lead_at_positions(short: str) -> Value:
    """r of the mask gradient, which has no site, minus r of AttnLRP at words and positions; all tokens."""

    def lead(kept: Records) -> Interval:
        run = kept.text(short, frontier=True)
        theirs = run.r("attnlrp", PROTOCOLS[SHORT["positions"]])
        return paired_difference(run.r("mask-gradient", Protocol(tokens="all")), theirs)

    return lead


def _whole_sums(short: str, nearer: str) -> Value:
    return lambda kept: [row["nearer"] for row in stated_with_whole_sums(kept.text(short))].count(nearer)


def _turned(short: str) -> Value:
    """The share of examples in which dividing AttnLRP's map and LOO by their sums reverses the sign of r."""
    positions = PROTOCOLS[SHORT["positions"]]
    return lambda kept: signs(kept.text(short), "attnlrp", protocol=positions)["turned"]


def _cells(short: str, side: str) -> Value:
    """In how many cells of the grid the whole interval of CP-LRP minus AttnLRP lies on a side of 0."""
    return lambda kept: counts(grid(kept.text(short)))[side]


def _by_sign(short: str, side: str) -> Value:
    def difference(kept: Records) -> Interval:
        comparison = by_first_sign(kept.text(short))[side]
        return comparison.mean if comparison else bootstrap_mean([np.nan])

    return difference


def _frontier(short: str, method: str, tokens: str) -> Value:
    return lambda kept: kept.text(short, frontier=True).agreement(method, Protocol(tokens=tokens))


def _lead(short: str, method: str, tokens: str) -> Value:
    return lambda kept: kept.text(short, frontier=True).difference(method, "attnlrp", Protocol(tokens=tokens))


def _delta(short: str, method: str) -> Value:
    """LeRF - MoRF of a method minus that of LOO, on the same texts."""

    def difference(kept: Records) -> Interval:
        run = kept.text(short, frontier=True)
        return paired_difference(run.column(method, "delta"), run.column("loo", "delta"))

    return difference


def _standing(short: str, name: str, what: str) -> Value:
    """The later half's fraction of the gain by Shapley values, or a rank among all masks."""
    protocol = PROTOCOLS[SHORT[name]]
    return lambda kept: standing(kept.text(short), site=protocol.site, tokens=protocol.tokens)[what]


def _shifted(method: str, end: str) -> Value:
    """Mean r at the words for the worst or best shift in a search, with the norm of one word embedding."""

    def mean(kept: Records) -> Interval:
        (record,) = kept.sheets("embedding-shift")
        (row,) = (
            row
            for row in record["rows"]
            if row["method"] == method and row["size"] == 1 and row["shift"].startswith(f"{end} r found")
        )
        return _column(row["r"])

    return mean


def _error_share(short: str, part: str) -> Value:
    """The share of LOO minus the mask gradient that a step removes, mean over texts."""
    task = short.split("-")[0]

    def share(kept: Records) -> Interval:
        (record,) = (
            sheet for sheet in kept.sheets("mask-gradient-error") if sheet["config"]["data"].startswith(task)
        )
        return _column([row["share"][part] for row in record["rows"]])

    return share


def _column(values: Any) -> Interval:
    return bootstrap_mean([np.nan if value is None else value for value in values])
