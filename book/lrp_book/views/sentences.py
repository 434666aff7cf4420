"""Sentences whose numbers come from records: what a chapter found, on its first screen."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path

from lrp_book.analysis.findings import finding
from lrp_book.say import MissingRecord, Sentences

_NUMBER = re.compile(r"\{([^{}]+)\}")


def answers(sentences: Sequence[str], *, results: str | Path = "results") -> Sentences:
    """Fill each `{name of a finding}` in the sentences with its number, from the records in a folder.

    A sentence one of whose runs is not in the folder is left out, and counted.

    Parameters
    ----------
    sentences : Markdown; the names are those of `analysis.findings.finding`.
    results : the folder of runs.

    Raises
    ------
    InputError
        If there is no finding of such a name.

    >>> answers(["The paper reports {sst2-12, cp-lrp, paper}."])  # doctest: +SKIP
    - The paper reports 0.52.
    """
    kept: list[str] = []
    for sentence in sentences:
        with contextlib.suppress(MissingRecord):
            kept.append(_NUMBER.sub(lambda name: finding(name[1], results), sentence))
    return Sentences(tuple(kept), len(sentences) - len(kept))
