"""Sentences whose numbers come from records: what a chapter found, on its first screen."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lrp_book.analysis.finding_records import MissingRecord
from lrp_book.analysis.findings import finding

_NUMBER = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True)
class Answers:
    """Sentences that show themselves as a list, and how many were left out for want of their records."""

    sentences: tuple[str, ...]
    left_out: int = 0

    def _repr_markdown_(self) -> str:
        lines = [f"- {sentence}" for sentence in self.sentences]
        if self.left_out:
            lines.append(f"- *{self._note()}*")
        return "\n".join(lines)

    def __repr__(self) -> str:
        shown = [*self.sentences, *([self._note()] if self.left_out else [])]
        return "\n".join(f"- {sentence}" for sentence in shown)

    def _note(self) -> str:
        return f"Left out: {self.left_out} more, whose records are not in this folder."


def answers(sentences: Sequence[str], *, results: str | Path = "results") -> Answers:
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
    return Answers(tuple(kept), len(sentences) - len(kept))
