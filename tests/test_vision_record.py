"""A record of a model of images: r by hand, every reading and mask; pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lrp_book.records.vision_record import vision_record
from tiny_models import vision

import lrp_companion as lrp
from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import method_call
from lrp_companion.show import patch_grid, patch_maps
from lrp_companion.sources import Dataset

N = 5
ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"


@pytest.fixture(scope="module")
def clf() -> Classifier:
    return load_classifier(vision("vit", channels=1, size=(6, 9), layers=2))


@pytest.fixture(scope="module")
def digits() -> Dataset:
    pixels = np.random.default_rng(0).random((8, 6, 9))
    ids = tuple(map(str, range(8)))
    return Dataset("mnist", "test", "embedded", ids=ids, labels=np.zeros(8), images=pixels)


@pytest.fixture(scope="module")
def record(clf: Classifier, digits: Dataset) -> dict[str, Any]:
    made = vision_record(clf, digits, limit=N, seed=3, progress=False)
    return json.loads(json.dumps(made))  # as it is read again


def test_every_r_is_that_of_the_maps_by_hand(clf, digits, record):
    assert record["config"]["images"] == N and record["config"]["seed"] == 3
    assert record["example"] == digits.order(N, seed=3) and len(record["rows"]) == 2 * 2 + 1
    for k, row_of_data in enumerate(record["example"]):
        image = digits.images[row_of_data]  # type: ignore[index]
        (loo,) = lrp.attribute(clf, image, method="loo")
        assert record["target"][k] == loo.target
        for row in record["rows"]:
            method, options = method_call(row["method"])
            options |= {"bypass": row["bypass"]} if method == "lrp" else {}
            options |= {"site": row["site"]} if method == "lrp" else {}
            (explained,) = lrp.attribute(clf, image, method=method, target=loo.target, **options)
            r = np.corrcoef(explained.scores[1:], loo.scores[1:])[0, 1]
            assert row["r"][k] == pytest.approx(r, abs=2e-5)


def test_patches_stand_where_the_image_has_them(clf: Classifier, digits: Dataset) -> None:
    images = digits.images[:2]  # type: ignore[index]
    records = lrp.attribute(clf, images, method="cp-lrp")
    grid = patch_grid(records[0])
    assert grid.shape == (3, 3)
    np.testing.assert_array_equal(grid.flatten(), records[0].scores[1:])
    figure = patch_maps(images, {"CP-LRP": records, "again": records}, labels=["a", "b"], title="Two")
    drawn = [axes.get_images() for axes in figure.axes]
    assert [len(pictures) for pictures in drawn] == [1, 2, 2, 1, 2, 2]
    np.testing.assert_array_equal(drawn[1][0].get_array(), grid)
    assert drawn[1][0].get_extent() == [-0.5, 8.5, 5.5, -0.5]
    down, right = np.nonzero(grid < -0.08 * np.abs(grid).max())
    (dots,) = figure.axes[1].get_lines()
    np.testing.assert_allclose(dots.get_xdata(), 3 * right + 1)
    np.testing.assert_allclose(dots.get_ydata(), 2 * down + 0.5)
    with pytest.raises(ValueError, match="shorter"):
        patch_maps(images, {"CP-LRP": records[:1]})
    with pytest.raises(InputError, match="expected a record of an image, with patches"):
        patch_grid(Attribution(("a",), [1.0], 0, 1.0, [False], "loo"))


def every_training() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The records of the explanations and of the trainings, by seed."""
    explained, trained = (
        [json.loads(path.read_text(encoding="utf-8")) for path in sorted((RESULTS / folder).iterdir())]
        for folder in ("vit", "training/vit")
    )
    return explained, trained


def test_every_training_follows_one_recipe_and_explains_the_same_images() -> None:
    """So that they differ by chance alone: seeds, weights, explained classes."""
    kept, trained = every_training()
    recipes = [{**one["recipe"], "seed": None} for one in trained]
    assert all(recipe == recipes[0] for recipe in recipes)
    assert [one["recipe"]["seed"] for one in trained] == list(range(len(trained)))
    assert all(one["example"] == kept[0]["example"] for one in kept)
    configs = [{**one["config"], "model": None, "weights": None} for one in kept]
    assert all(config == configs[0] for config in configs)
    assert len({one["config"]["weights"] for one in kept}) == len(kept) == len(trained)


def test_the_kept_model_reads_digits() -> None:
    clf = load_classifier(ROOT / "training" / "vit")
    recipe = every_training()[1][0]["recipe"]
    sizes = (clf.card.layers, clf.card.hidden, clf.card.heads)
    assert sizes == (recipe["layers"], recipe["width"], recipe["heads"])
    test = lrp.load_dataset("mnist", source="embedded", side=28)
    assert test.images is not None
    raw = np.rint(test.images * 255).astype(np.uint8)
    ids, mask, _ = clf.batch(clf.encode(raw[:300]))
    assert (clf.logits(ids, mask).argmax(-1).numpy() == test.labels[:300]).mean() > 0.95
    assert clf.encode(raw[0])[0].details["pixels"] == "as ViTImageProcessorPil gives them"
