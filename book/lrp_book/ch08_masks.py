"""Chapter 8: wirings that went on under random attention masks, beside controls. No torch.

`python -m lrp_book.ch08_masks results/random-masks` judges `results/predictions/2026-11-28-random-masks.md`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lrp_book.ch08_wirings import STATISTIC, title_of
from lrp_book.predictions import FAILED, MET, OPEN, by_sides
from lrp_book.records.shapley import r_with, read
from lrp_companion.lab.load import TextRun, load_run, nearby
from lrp_companion.metrics import Interval, bootstrap_mean, paired_difference
from lrp_companion.metrics.faithfulness import CORRELATIONS
from lrp_companion.metrics.statistics import side_of_zero
from lrp_companion.schema import DEFAULT_PROTOCOL
from lrp_companion.show.tables import Table, table

TRAINED = ("post-ln-first", "llama")
KINDS = {"plain": "control", "masks": "with masks"}


@dataclass(frozen=True)
class Trained:
    """A training: its run on SST-2 and its record of Shapley values."""

    run: TextRun
    shapley: Sequence[Mapping[str, Any]]

    def r(self, method: str, statistic: str) -> np.ndarray:
        """r of a method with LOO by the attention mask, sentence by sentence."""
        return self.run.r(method, replace(DEFAULT_PROTOCOL, statistic=statistic))

    def between(self, removal: str, statistic: str) -> np.ndarray:
        """r of LOO by the attention mask with LOO by another removal."""
        first, other = (self._words(which) for which in ("attention-mask", removal))
        return np.array([CORRELATIONS[statistic](a, b) for a, b in zip(first, other, strict=True)])

    def first_over_others(self) -> np.ndarray:
        """|LOO at the first token| over the mean |LOO| of the words."""
        whole = self.run.loo(replace(DEFAULT_PROTOCOL, tokens="all"))
        words = [np.abs(loo).mean() for loo in self._words("attention-mask")]
        return np.array([abs(loo[0]) for loo in whole]) / np.array(words)

    def targets(self) -> np.ndarray:
        """The class that is explained, the predicted one, sentence by sentence."""
        return self.run.example_column("target").astype(int)

    def size(self) -> float:
        """The mean |LOO| of a word, by the attention mask."""
        return float(np.mean([np.abs(loo).mean() for loo in self._words("attention-mask")]))

    def logit(self) -> float:
        """The mean size of the predicted class's logit."""
        rows = np.abs(self.run.logits())
        return float(rows[np.arange(len(rows)), self.targets()].mean())

    def with_shapley(self, method: str, statistic: str) -> np.ndarray:
        """r of a map with Shapley values."""
        return r_with(self.shapley, statistic=statistic, maps=(method,))[method]

    def _words(self, removal: str) -> list[np.ndarray]:
        maps = self.run.loo(replace(DEFAULT_PROTOCOL, removal=removal))
        return [np.delete(loo, special) for loo, special in zip(maps, self.run.specials(), strict=True)]


def load_trained(folder: str | Path = "results/random-masks") -> dict[tuple[str, str], Trained]:
    """The trainings by wiring and kind.

    Raises
    ------
    SourceError : there is no such folder, or a run in it cannot be read.
    """
    at = nearby(folder)
    out = {}
    for wiring in TRAINED:
        for kind in KINDS:
            run = load_run(at / f"{wiring}-{kind}")
            assert isinstance(run, TextRun)
            out[wiring, kind] = Trained(run, read(at / f"shapley-{wiring}-{kind}.npz"))
    return out


MEASURES: Mapping[str, Callable[[Trained, str], np.ndarray]] = {
    "LOO by mask, with LOO by deletion": lambda one, by: one.between("delete", by),
    "LOO by mask, with LOO by [MASK]": lambda one, by: one.between("mask-token", by),
    "LOO, with Shapley values": lambda one, by: one.with_shapley("loo", by),
    "AttnLRP, with Shapley values": lambda one, by: one.with_shapley("attnlrp", by),
    "AttnLRP, with LOO": lambda one, by: one.r("attnlrp", by),
    "CP-LRP, with LOO": lambda one, by: one.r("cp-lrp", by),
    "mask gradient, with LOO": lambda one, by: one.r("mask-gradient", by),
}
"""What is measured sentence by sentence, by a statistic: r of the first map with the second."""
RISES = {1: tuple(MEASURES)[:2], 3: tuple(MEASURES)[2:3], 4: tuple(MEASURES)[4:5]}
"""The measures that points 1, 3 and 4 say rise."""
CHANGES = (*RISES[1][:1], *RISES[3], *tuple(MEASURES)[3:5])
"""The measures that the chapter shows first."""


def rows(trained: Mapping[tuple[str, str], Trained]) -> list[dict[str, Any]]:
    """`MEASURES` of each wiring: `KIND, STATISTIC` its mean, `rise, STATISTIC` the paired difference."""
    out = []
    for wiring in TRAINED:
        for name, measure in MEASURES.items():
            row: dict[str, Any] = {"wiring": title_of(wiring), "name": wiring, "r": name}
            for by in STATISTIC:
                values = {kind: measure(trained[wiring, kind], by) for kind in KINDS}
                row |= {f"{kind}, {by}": bootstrap_mean(values[kind]) for kind in KINDS}
                row[f"rise, {by}"] = paired_difference(values["masks"], values["plain"])
            out.append(row)
    return out


def outcomes(trained: Mapping[tuple[str, str], Trained]) -> list[dict[str, Any]]:
    """The prediction's six points: `point`, `predicted`, `outcome`, `figures` by name."""
    measured = rows(trained)

    def rise(point: int) -> dict[str, Interval]:
        return {
            f"{row['wiring']}, {row['r']}, {by}": row[f"rise, {by}"]
            for row in measured
            if row["r"] in RISES[point]
            for by in STATISTIC
        }

    bert = [trained[TRAINED[0], kind].first_over_others() for kind in ("plain", "masks")]
    gaps = {
        (wiring, by): [
            paired_difference(one.r("cp-lrp", by), one.r("attnlrp", by))
            for one in (trained[wiring, kind] for kind in KINDS)
        ]
        for wiring in TRAINED
        for by in STATISTIC
    }
    ahead = {
        title_of(wiring): paired_difference(
            *(trained[wiring, "masks"].with_shapley(name, "pearson") for name in ("attnlrp", "loo"))
        )
        for wiring in TRAINED
    }
    stays = [{side_of_zero(value) for value in pair} for pair in gaps.values()]
    order = MET if all(len(sides) == 1 and "across" not in sides for sides in stays) else OPEN
    if any(sides == {"above", "below"} for sides in stays):
        order = FAILED
    shown = {
        f"{title_of(wiring)}, {by}, {KINDS[kind]}": value
        for (wiring, by), pair in gaps.items()
        for kind, value in zip(KINDS, pair, strict=True)
    }
    points = (
        ("Removals agree more", rise(1), None),
        (
            "|LOO at [CLS]| over that of the words falls (BERT's)",
            {"control minus with masks": paired_difference(*bert)},
            None,
        ),
        ("LOO and Shapley values agree more", rise(3), None),
        ("AttnLRP agrees more with LOO", rise(4), None),
        ("The order of the two rule sets stays", shown, order),
        ("AttnLRP stays ahead of LOO by Shapley values", ahead, None),
    )
    return [
        {
            "point": k,
            "predicted": says,
            "figures": figures,
            "found": "in the tables above"
            if k in RISES
            else "; ".join(f"{name} {value.text(3)}" for name, value in figures.items()),
            "outcome": outcome or by_sides(figures.values(), ["above"] * len(figures)),
        }
        for k, (says, figures, outcome) in enumerate(points, 1)
    ]


def masked_table(rows: Sequence[Mapping[str, Any]], statistic: str, *, caption: str) -> Table:
    """`rows` by one statistic: the control, with masks, and the paired difference."""
    columns = {f"{kind}, {statistic}": label for kind, label in KINDS.items()}
    columns |= {f"rise, {statistic}": "difference"}
    return table(rows, columns={"wiring": "wiring", "r": "r of", **columns}, caption=caption)


def records(folder: str | Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The records of the trainings by wiring and kind."""
    made = {}
    for path in sorted(nearby(folder).glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        made[record["wiring"], path.stem.removeprefix(record["wiring"] + "-")] = record
    return made


def training_accuracy(folder: str | Path) -> dict[tuple[str, str], str]:
    """Accuracy on SST-2 validation by wiring and kind, as printed."""
    return {key: f"{one['sst2_validation']['accuracy']:.2f}" for key, one in records(folder).items()}


def trainings_table(folder: str | Path, *, caption: str) -> Table:
    """Rate, share of masked texts and accuracy of each training."""
    right = training_accuracy(folder)
    made = [
        {
            "wiring": title_of(wiring),
            "kind": KINDS.get(kind, "with masks, first try, set aside"),
            "masked": one["recipe"]["masked_share"],
            "rate": f"{one['recipe']['learning_rate']:g}",
            "accuracy": right[wiring, kind],
        }
        for (wiring, kind), one in records(folder).items()
    ]
    columns = {
        "wiring": "wiring",
        "kind": "training",
        "masked": "texts under masks",
        "rate": "highest learning rate",
    }
    return table(made, columns={**columns, "accuracy": "accuracy"}, caption=caption)


if __name__ == "__main__":
    of_folder = load_trained(*sys.argv[1:2])
    for line in rows(of_folder):
        print({name: str(value) for name, value in line.items()})
    for line in outcomes(of_folder):
        print(line["point"], line["predicted"], line["outcome"])
        for label, value in line["figures"].items():
            print("   ", label, value)
