"""Variants of the paper's MNIST nets: the run, its loader, and what the audit makes of it."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lrp_companion.checks import InputError
from lrp_companion.lab.base_run import points
from lrp_companion.lab.digit_invariance import EXPLAINERS, invariance_table, train_pair
from lrp_companion.lab.digit_jobs import VARIANT_AXES, MnistGridJobs
from lrp_companion.lab.execute import execute
from lrp_companion.lab.folder import read_folder
from lrp_companion.lab.load import MnistGridRun, load_run
from lrp_companion.lab.paper.digit_variants import (
    ACCURACY,
    MEASURES,
    digit_grid,
    digit_ig,
    digit_nearest,
    paper_values,
)
from lrp_companion.methods import attribute
from lrp_companion.sources import Dataset, load_dataset

FEW = {"bias": (False, True), "position_embedding": (False, True), "embedding": (False, True)}
KINDS = {"nets": 2, "limit": 3, "epochs": 1, "choices": FEW, "ig_steps": (1, 4)}


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


def test_variants_are_all_combinations_the_plainest_first() -> None:
    rows = points(VARIANT_AXES)
    assert len(rows) == 32 == len({tuple(row.values()) for row in rows})
    assert rows[0] == {name: options[0] for name, options in VARIANT_AXES.items()}


def test_rows_are_those_of_the_loop_called_by_hand(run, digits) -> None:
    train, test = digits
    sample = MnistGridJobs(train, test, **KINDS).sample
    assert run.variants == points(FEW) and run.seeds == [0, 1] and run.n == 3
    for variant, seed in ((0, 0), (7, 1), (2, 1)):
        net, _ = train_pair(train, seed=seed, epochs=1, **run.variants[variant])
        assert run.accuracy(variant)[seed] == pytest.approx(net.accuracy(test.images, test.labels))
        rows = invariance_table(
            net,
            test.images[sorted(sample)],
            explainers={n: EXPLAINERS[n] for n in ("IG", "AttnLRP")},
            progress=False,
        )
        for (explainer, pair), map in itertools.product(MEASURES.values(), ("raw", "sum-to-one")):
            expected = rows.values(f"r {pair}" + (" (sum-to-one)" if map != "raw" else ""), explainer)
            np.testing.assert_allclose(
                run.values(variant, explainer, pair, map=map)[seed], expected, atol=2e-5
            )
        assert (
            run.negative(variant, "AttnLRP", "left")[seed].tolist()
            == (rows.values("sum left", "AttnLRP") < 0).tolist()
        )


def test_a_resumed_run_and_one_without_its_weights_are_the_same(run, digits, tmp_path) -> None:
    jobs = MnistGridJobs(*digits, **KINDS)
    real, count = jobs.run, 0

    def stop(table, job, folder):
        nonlocal count
        count += 1
        if count == 20:
            raise KeyboardInterrupt
        return real(table, job, folder)

    jobs.run = stop  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        execute(jobs, tmp_path, progress=False)
    for file in (tmp_path / "nets").iterdir():
        file.unlink()
    execute(MnistGridJobs(*digits, **KINDS), tmp_path, progress=False)
    for name, table in read_folder(tmp_path)[1].items():
        assert table.equals(run.tables[name]), name


def test_grid_is_the_mean_over_images_of_the_mean_over_nets(run) -> None:
    rows = digit_grid(run)
    assert len(rows) == 16 and [row["map"] for row in rows[:2]] == ["raw", "sum-to-one"]
    for row in rows:
        for name, (explainer, pair) in MEASURES.items():
            values = run.values(row["variant"], explainer, pair, map=row["map"])
            assert row[name].mean == pytest.approx(values.mean(0).mean()) and row[name].n == 3
        assert row["difference"].mean == pytest.approx(
            row["AttnLRP, left with LOO"].mean - row["AttnLRP, right with LOO"].mean
        )
        assert row["accuracy"][1] <= row["accuracy"][0] <= row["accuracy"][2]


def test_nearest_has_the_smallest_distance_to_the_paper(run) -> None:
    nearest, printed = digit_nearest(run), paper_values()
    distances = [
        np.sqrt(np.mean([(row[name].mean - printed[name]) ** 2 for name in MEASURES]))
        for row in digit_grid(run)
    ]
    assert nearest["distance"] == pytest.approx(min(distances)) and nearest["variants"] == 8
    assert printed["AttnLRP, left with right"] == pytest.approx(0.787, abs=1e-3)


def test_ig_by_hand(run, digits) -> None:
    train, test = digits
    sample = MnistGridJobs(train, test, **KINDS).sample
    net = train_pair(train, seed=1, epochs=1, **run.variants[7])[0].with_association("right")
    assert {row["variant"] for row in run.ig()} == {0, 7}
    assert {row["n_steps"] for row in digit_ig(run)} == {1, 4}
    image = test.images[sample[0] : sample[0] + 1]
    loo = attribute(net, image, method="loo", progress=False)[0]
    maps = [
        attribute(net, image, method="ig", n_steps=4, baseline=start, target=loo.target)[0].scores
        for start in (np.zeros((14, 14)), np.ones((14, 14)))
    ]
    (row,) = [
        row
        for row in run.ig()
        if (row["variant"], row["seed"], row["image"], row["baseline"], row["n_steps"])
        == (7, 1, sample[0], "black and white", 4)
    ]
    assert row["r"] == pytest.approx(np.corrcoef((maps[0] + maps[1]) / 2, loo.scores)[0, 1], abs=1e-5)
    assert row["delta"] < 1e-5


def test_the_command(tmp_path, refused) -> None:
    call = ["run", "mnist-grid", "--out", str(tmp_path), "--source", "embedded", "--model", "plain"]
    assert "--model for mnist-grid" in refused(call)
    with pytest.raises(InputError, match="no run over variants"):
        digit_grid(SimpleNamespace(name="another"))


@pytest.mark.parametrize("nets", [0, True, 1.5])
def test_bad_counts(digits, nets) -> None:
    with pytest.raises(InputError, match="nets"):
        MnistGridJobs(*digits, **{**KINDS, "nets": nets})


def test_a_run_without_a_whole_seed_is_told(run) -> None:
    few = {
        name: table.filter(torch.tensor(table["job"].to_numpy() < 5).numpy())
        for name, table in run.tables.items()
    }
    with pytest.raises(InputError, match="no seed finished"):
        digit_grid(MnistGridRun(run.name, run.manifest, few))


def test_what_the_chapter_says_of_the_digits_holds_in_the_record() -> None:
    """The words of chapter 6 have no numbers; this is what they stand on."""
    record = load_run(Path(__file__).parent.parent / "results" / "mnist-grid")
    assert isinstance(record, MnistGridRun) and len(record.seeds) == 5 and record.n == 100
    grid = digit_grid(record)
    able = [row for row in grid if row["accuracy"][0] >= ACCURACY]
    assert len(able) == 40 and min(row["accuracy"][1] for row in able) > ACCURACY + 0.01
    assert max(row["accuracy"][2] for row in grid if row["accuracy"][0] < ACCURACY) < 0.5
    assert all(row["AttnLRP, left with right"].high < 1 for row in able)
    raw = [row for row in able if row["map"] == "raw"]
    assert (
        min(min(row["AttnLRP, left with LOO"].low, row["AttnLRP, right with LOO"].low) for row in raw) > 0.6
    )
    assert sum(row["difference"].high < 0 for row in raw) > len(raw) / 2
    ig = {(row["variant"], row["baseline"], row["n_steps"]): row["r"] for row in digit_ig(record)}
    readings_of_ig = {key[0] for key in ig}
    for variant, baseline in itertools.product(readings_of_ig, ("zero", "mean image", "black and white")):
        assert abs(ig[variant, baseline, 8].mean - ig[variant, baseline, 512].mean) < 0.002
    assert (
        ig[0, "black and white", 512].high < 0 < min(ig[0, name, 512].low for name in ("zero", "mean image"))
    )
    assert digit_nearest(record)["distance"] > 0.3
