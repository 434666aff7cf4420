"""The MNIST loops against the methods called by hand."""

from __future__ import annotations

import numpy as np
import pytest

import lrp_companion as lrp
from lrp_companion.lab.digit_invariance import Invariance, invariance_table, train_pair
from lrp_companion.sources.dataset import Dataset

TINY = {"tokens": 4, "dim": 3, "classes": 3}


def pictures(count: int, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    images = rng.random((count, 2, 2)) + 2 * np.eye(4)[labels].reshape(-1, 2, 2)
    return Dataset(
        "mnist", "test", "embedded", ids=tuple(map(str, range(count))), labels=labels, images=images
    )


@pytest.fixture(scope="module")
def pair() -> tuple[lrp.LinearAttention, lrp.LinearAttention]:
    return train_pair(pictures(60), epochs=3, lr=0.01, bias=True, **TINY)


@pytest.fixture(scope="module")
def result(pair) -> Invariance:
    return invariance_table(pair[0], pictures(8, seed=1).images)


class TestExperiments:
    def test_table_is_the_mean_of_correlations_made_by_hand(self, pair, result) -> None:
        images = pictures(8, seed=1).images
        maps = [lrp.attribute(net, images, method="attnlrp") for net in pair]
        loo = lrp.attribute(pair[0], images, method="loo")
        raw = {row["explainer"]: row for row in result.table()}["AttnLRP"]
        attnlrp = {row["explainer"]: row for row in result.table("sum-to-one")}["AttnLRP"]
        r = np.array([np.corrcoef(a.scores, b.scores)[0, 1] for a, b in zip(maps[0], loo, strict=True)])
        assert raw["left-LOO"].mean == pytest.approx(r.mean())
        turned = [
            np.corrcoef(a.scores / a.scores.sum(), b.scores / b.scores.sum())[0, 1]
            for a, b in zip(maps[0], loo, strict=True)
        ]
        assert attnlrp["left-LOO"].mean == pytest.approx(np.mean(turned))
        between = [np.corrcoef(a.scores, b.scores)[0, 1] for a, b in zip(*maps, strict=True)]
        assert raw["left-right"].mean == pytest.approx(np.mean(between))
        assert raw["negative left"] == np.mean([a.scores.sum() < 0 for a in maps[0]])
        assert raw["left-LOO"].n == 8 and result.values("gap", "AttnLRP").mean() > 0.01

    def test_sum_to_one_changes_r_by_the_signs_of_the_sums_only(self, result) -> None:
        for row in result.rows:
            sign = np.sign(row["sum left"]) * np.sign(row["sum right"])
            assert row["r left-right (sum-to-one)"] == pytest.approx(sign * row["r left-right"])

    def test_what_knows_the_function_only_does_not_see_the_graph(self, result) -> None:
        for row in result.table():
            if row["explainer"] in ("LOO", "IG", "gradient x input", "equal shares", "values only"):
                assert row["left-right"].mean == pytest.approx(1)
                assert result.values("gap", row["explainer"]).mean() < 1e-6
        assert np.allclose(result.values("r left-LOO", "LOO"), 1)
