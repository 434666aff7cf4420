"""Chapter 8, trainings under random masks: cells recomputed from the tables, the rule of the prediction."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from lrp_book import ch08_masks as ch
from lrp_book.predictions import by_sides
from scipy import stats

from lrp_companion.lab.load import nearby
from lrp_companion.metrics import Interval


@pytest.fixture(scope="module")
def trained() -> dict[tuple[str, str], ch.Trained]:
    return ch.load_trained()


@pytest.fixture(scope="module")
def measured(trained: dict[tuple[str, str], ch.Trained]) -> list[dict[str, Any]]:
    return ch.rows(trained)


def by_hand(name: str, removal: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """LOO of the words by the mask and by another removal, from the logits of the table alone."""
    folder = nearby("results/random-masks") / name
    removals = json.loads((folder / "manifest.json").read_text())["axes"]["removal"]
    out = []
    for row in pq.read_table(folder / "examples.parquet").sort_by("job").to_pylist():
        after = np.reshape(row["after"], (len(removals), row["tokens"] + 1, -1))[..., row["target"]]
        loo = np.delete(after[:, :1] - after[:, 1:], row["special"], axis=1)
        out.append((loo[removals.index("attention-mask")], loo[removals.index(removal)]))
    return out


@pytest.mark.parametrize("wiring", ch.TRAINED)
@pytest.mark.parametrize("removal", ["delete", "mask-token"])
def test_removals_by_hand(wiring: str, removal: str, measured: list[dict[str, Any]]) -> None:
    r = {
        kind: np.array([stats.pearsonr(*pair)[0] for pair in by_hand(f"{wiring}-{kind}", removal)])
        for kind in ch.KINDS
    }
    names = {"delete": "LOO by mask, with LOO by deletion", "mask-token": "LOO by mask, with LOO by [MASK]"}
    (row,) = (row for row in measured if (row["name"], row["r"]) == (wiring, names[removal]))
    for kind, values in r.items():
        assert row[f"{kind}, pearson"].mean == pytest.approx(np.nanmean(values), abs=1e-6)
    assert row["rise, pearson"].mean == pytest.approx(np.nanmean(r["masks"] - r["plain"]), abs=1e-6)


def test_every_training_has_its_record(trained: dict[tuple[str, str], ch.Trained]) -> None:
    for (wiring, kind), one in trained.items():
        assert one.run.n == 872
        assert len(one.shapley) == 150
        path = nearby("results/training/random-masks") / f"{wiring}-{kind}.json"
        recipe = json.loads(path.read_text())["recipe"]
        assert recipe["masked_share"] == {"plain": 0.0, "masks": 0.5}[kind]
        assert recipe["steps"] == 2000


def test_the_rule_of_the_prediction(trained: dict[tuple[str, str], ch.Trained]) -> None:
    rows = ch.outcomes(trained)
    assert [row["point"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [len(row["figures"]) for row in rows] == [8, 1, 4, 4, 8, 2]
    assert [row["outcome"] for row in rows] == ["failed"] * 5 + ["open"]


def test_a_point_is_judged_by_its_intervals() -> None:
    above, below, across = (Interval(low + 1, low, low + 2, 9) for low in (1.0, -3.0, -1.0))
    assert by_sides([above, below], ["above", "below"]) == "met"
    assert by_sides([above, across], ["above", "above"]) == "open"
    assert by_sides([across, below], ["below", "above"]) == "failed"
    assert by_sides([across, above], ["above", "below"]) == "failed"
