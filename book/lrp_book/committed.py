"""The committed runs by short names. No torch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from lrp_book.say import MissingRecord
from lrp_companion.checks import SourceError
from lrp_companion.lab.load import AnyRun, MnistRun, TextRun, load_runs, nearby
from lrp_companion.lab.paper.report import find_runs, find_trainings
from lrp_companion.schema import PROTOCOLS

WORDS, POSITIONS, SUMS = PROTOCOLS
"""The protocols by name: words only, words and positions with all tokens, maps divided by their sums."""
SHORT = {"words": WORDS, "positions": POSITIONS, "sums": SUMS}
TEXT_RUNS = {
    "sst2-12": "sst2-companion",
    "sst2-6": "sst2-companion-6",
    "imdb-12": "imdb-companion",
    "imdb-6": "imdb-companion-6-seed-1",
}
"""Short names of the runs of whole data sets: data and layers."""
SHORT_RECIPE = "companion-6-short"
"""The 6-layer model of the shorter recipe, of which there are five trainings."""
Kept = TypeVar("Kept")


def load_sheets(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The records in a folder, one JSON file each, by name, made as `results/README.md` says.

    The folder may be here or in a folder above.
    """
    place = nearby(folder)
    files = sorted(place.glob("*.json"), key=lambda file: file.stem)
    if not files:
        got, expected = f"{place}, without records", "one file for each model"
        raise SourceError("load_sheets", got=got, expected=expected, hint="see results/README.md")
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


@dataclass(frozen=True)
class Records:
    """The committed runs, by folder and by name; a missing one raises `MissingRecord`."""

    runs: Mapping[str, Any]
    frontier: Mapping[str, Any]
    maps: Mapping[str, Any]
    groups: Sequence[Sequence[TextRun]]
    reading_mean: Sequence[TextRun]
    folder: str

    def text(self, short: str, *, frontier: bool = False) -> TextRun:
        """A run on texts by its short name."""
        return _kept(self.frontier if frontier else self.runs, TEXT_RUNS[short], TextRun)

    def with_maps(self, short: str) -> TextRun:
        """A run on texts that kept its maps."""
        return _kept(self.maps, TEXT_RUNS[short], TextRun)

    def digits(self) -> MnistRun:
        """The run on digits whose nets are as plain as the paper's."""
        return _kept(self.runs, "mnist-plain", MnistRun)

    def trainings(self, short: str) -> Sequence[TextRun]:
        """All trainings by the recipe of a run, this run first."""
        groups = {runs[0].name: runs for runs in self.groups}
        if TEXT_RUNS[short] not in groups:
            raise _missing(f"trainings of {TEXT_RUNS[short]}", list(groups))
        return groups[TEXT_RUNS[short]]

    def recipe(self, model: str, *, task: str = "sst2") -> Sequence[TextRun]:
        """The trainings `model-seed-0`, `model-seed-1`, ... by one recipe, on the same texts; () if none."""
        groups = {runs[0].model.rpartition("-seed-")[0]: runs for runs in self.groups if runs[0].task == task}
        return groups.get(model, ())

    def trained_again(self, model: str) -> Sequence[TextRun]:
        """The same, and `MissingRecord` if there are none."""
        runs = self.recipe(model)
        if not runs:
            raise _missing(f"trainings of {model}", [group[0].model for group in self.groups])
        return runs

    @property
    def beside(self) -> list[TextRun]:
        """The runs of all trainings that are not among `runs`."""
        return [run for group in self.groups for run in group if run.name not in self.runs]

    def sheets(self, name: str) -> list[dict[str, Any]]:
        """The records of a kind that are not runs."""
        try:
            return load_sheets(f"{self.folder}/{name}")
        except SourceError:
            raise _missing(f"records {name}", []) from None


def _kept(runs: Mapping[str, Any], name: str, kind: type[Kept]) -> Kept:
    if not isinstance(runs.get(name), kind):
        raise _missing(f"run {name}", list(runs))
    return runs[name]


def _missing(what: str, there: Sequence[str]) -> MissingRecord:
    expected = f"one of {', '.join(there)}" if there else "such records"
    return MissingRecord("finding", got=f"no {what}", expected=expected, hint="name the folder of the runs")


def _beside(results: str | Path, name: str) -> list[AnyRun]:
    """The runs in a folder of `results`, such as "maps" or "frontier"; none if it does not exist."""
    folder = nearby(results) / name
    return load_runs([folder]) if folder.is_dir() else []


@lru_cache(maxsize=2)
def records(results: str | Path = "results") -> Records:
    """Read all runs behind the findings."""
    kinds = (find_runs(results), _beside(results, "frontier"), _beside(results, "maps"))
    runs, frontier, maps = ({run.name: run for run in kind} for kind in kinds)
    means = [run for run in _beside(results, "mean-pooling") if isinstance(run, TextRun)]
    return Records(runs, frontier, maps, find_trainings(results), means, str(results))
