"""Variants of the paper's MNIST nets: the run, its reader, and what the committed record holds."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from lrp_book.records.mnist_grid import EXPLAINED, MnistGridJobs

from lrp_companion.lab.boards import digit_means
from lrp_companion.lab.digit_invariance import EXPLAINERS, invariance_table, train_pair
from lrp_companion.lab.execute import execute
from lrp_companion.lab.folder import points
from lrp_companion.lab.load import MnistGridRun, load_run
from lrp_companion.lab.paper.tables import ACCURACY, PAIRS, accurate_variants
from lrp_companion.metrics import bootstrap_mean
from lrp_companion.sources import Dataset, load_dataset

FEW = {"bias": (False, True), "position_embedding": (False, True), "embedding": (False, True)}
KINDS = {"nets": 2, "limit": 3, "epochs": 1, "choices": FEW}


@pytest.fixture(scope="module")
def digits() -> tuple[Dataset, Dataset]:
    return load_dataset("mnist", split="train", source="embedded", limit=96), load_dataset(
        "mnist", split="test", source="embedded", limit=6
    )


@pytest.fixture(scope="module")
def run(digits, tmp_path_factory) -> MnistGridRun:
    place = tmp_path_factory.mktemp("grid") / "grid"
    execute(MnistGridJobs(*digits, **KINDS), place, progress=False)
    loaded = load_run(place)
    assert isinstance(loaded, MnistGridRun)
    return loaded


def test_rows_are_those_of_the_loop_called_by_hand(run, digits) -> None:
    train, test = digits
    sample = MnistGridJobs(train, test, **KINDS).sample
    assert run.variants == points(FEW) and run.seeds == [0, 1] and run.n == 3
    for variant, seed in ((0, 0), (7, 1), (2, 1)):
        net, _ = train_pair(train, seed=seed, epochs=1, **run.variants[variant])
        assert run.accuracy(variant)[seed] == pytest.approx(net.accuracy(test.images, test.labels))
        rows = invariance_table(
            net, test.images[sorted(sample)], explainers={n: EXPLAINERS[n] for n in EXPLAINED}, progress=False
        )
        for explainer, pair, map in itertools.product(EXPLAINED, PAIRS, ("raw", "sum-to-one")):
            expected = rows.values(f"r {pair}" + (" (sum-to-one)" if map != "raw" else ""), explainer)
            found = run.values(variant, explainer, pair, map=map)[seed]
            np.testing.assert_allclose(found, expected, atol=2e-5)
        negative = rows.values("sum left", "AttnLRP") < 0
        assert run.negative(variant, "AttnLRP", "left")[seed].tolist() == negative.tolist()


def test_what_the_chapter_says_of_the_digits_holds_in_the_record() -> None:
    """The words of chapter 6 have no numbers; this is what they stand on."""
    record = load_run(Path(__file__).parent.parent / "results" / "mnist-grid")
    assert isinstance(record, MnistGridRun) and len(record.seeds) == 5 and record.n == 100
    accurate = accurate_variants(record)
    assert len(accurate) == 20 and min(record.accuracy(k).min() for k in accurate) > ACCURACY + 0.01
    assert max(record.accuracy(k).max() for k in range(32) if k not in accurate) < 0.5
    raw = digit_means(record)[::2][accurate]
    right, left = ([bootstrap_mean(of) for of in raw[:, k]] for k in (0, 1))
    assert min(one.low for one in (*right, *left)) > 0.6
    ahead = [bootstrap_mean(of) for of in raw[:, 1] - raw[:, 0]]
    assert sum(one.high < 0 for one in ahead) > len(accurate) / 2
    for k in accurate:
        for map in ("raw", "sum-to-one"):
            between = np.nanmean(record.values(k, "AttnLRP", "left-right", map=map), 0)
            assert bootstrap_mean(between).high < 1
