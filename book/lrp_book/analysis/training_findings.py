"""The numbers over five trainings that sentences of chapters 5 and 7 name. No torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from lrp_book.analysis.training_worth import METHODS, removal_leads, worth_over_trainings
from lrp_book.committed import SHORT_RECIPE, Records, records
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import REMOVALS

Value = Callable[[Records], Any]
WORTH = ("own", "other", "beyond", "partial", "ceiling", "lead")
TOKENS = {"words": "no-special", "all tokens": "all"}


def training_catalogue() -> dict[str, Value]:
    """What a sentence can ask of the five trainings, by name."""
    out: dict[str, Value] = {
        "trainings": lambda kept: len(_five(kept)),
        "trainings, n": lambda kept: _five(kept)[0].n,
    }
    for tokens in TOKENS:
        for method in METHODS:
            for what in WORTH:
                out[f"trainings, worth of {method}, {what}, {tokens}"] = _worth(method, what, tokens)
        for removal in REMOVALS:
            out[f"trainings, mask gradient minus AttnLRP by {removal}, {tokens}"] = _lead(removal, tokens)
    return out


def _five(kept: Records) -> Sequence[TextRun]:
    return kept.trained_again(SHORT_RECIPE)


@lru_cache(maxsize=4)
def _worths(results: str, tokens: str) -> dict[str, dict[str, Any]]:
    rows = worth_over_trainings(_five(records(results)), tokens=tokens)
    return {row["method"]: row for row in rows}


@lru_cache(maxsize=4)
def _leads(results: str, tokens: str) -> dict[str, Any]:
    rows = removal_leads(_five(records(results)), tokens=tokens)
    return {row["removal"]: row["difference"] for row in rows}


def _worth(method: str, what: str, tokens: str) -> Value:
    return lambda kept: _worths(kept.folder, TOKENS[tokens])[method][what]


def _lead(removal: str, tokens: str) -> Value:
    return lambda kept: _leads(kept.folder, TOKENS[tokens])[removal]
