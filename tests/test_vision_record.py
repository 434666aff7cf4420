"""A record of a model of images: r by hand, every reading and mask; outcomes by the rule; pictures."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lrp_book.analysis.findings import value_of
from lrp_book.analysis.vision import READINGS, column, difference, path_rows, vision_outcomes, vision_rows
from lrp_book.records.vision_record import vision_record
from lrp_book.views import vision_outcomes_table, vision_path_table, vision_table
from tiny_models import build, vision

import lrp_companion as lrp
from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import method_call
from lrp_companion.metrics.statistics import side_of_zero
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


def test_every_r_is_that_of_the_maps_by_hand(
    clf: Classifier, digits: Dataset, record: dict[str, Any]
) -> None:
    assert record["config"]["images"] == N and record["config"]["seed"] == 3
    assert record["example"] == digits.order(N, seed=3) and len(record["rows"]) == 4 * 4 + 2 * (2 + 1 + 1 + 1)
    for k, row_of_data in enumerate(record["example"]):
        image = digits.images[row_of_data]  # type: ignore[index]
        (loo,) = lrp.attribute(clf, image, method="loo")
        assert record["target"][k] == loo.target
        for row in record["rows"]:
            method, options = method_call(row["method"])
            options |= {"bypass": row["bypass"]} if method == "lrp" else {}
            if method in ("lrp", "gradient-x-input"):
                options = {**options, "site": row["site"]}
            (explained,) = lrp.attribute(clf, image, method=method, target=loo.target, **options)
            first = 1 if row["tokens"] == "patches" else 0
            r = np.corrcoef(explained.scores[first:], loo.scores[first:])[0, 1]
            assert row["r"][k] == pytest.approx(r, abs=2e-5)


def test_columns_and_rows_are_those_of_the_record(record: dict[str, Any]) -> None:
    by = {(row["method"], tuple(row["bypass"] or ()), row["site"], row["tokens"]): row["r"]
          for row in record["rows"]}  # fmt: skip
    for name, bypass in (
        ("attnlrp", ()),
        ("cp-lrp", (1, 2)),
        ("lrp:bypass=2", (2,)),
        ("lrp:bypass=1+2", (1, 2)),
    ):
        for reading, (site, tokens) in READINGS.items():
            np.testing.assert_array_equal(column(record, name, reading), by["lrp", bypass, site, tokens])
    rows = {row["reading"]: row for row in vision_rows([record])}
    for reading, row in rows.items():
        gap = column(record, "cp-lrp", reading) - column(record, "attnlrp", reading)
        assert row["d"].mean == pytest.approx(gap.mean()) and row["d"].n == N
        mean = column(record, "mask-gradient", reading).mean()
        assert row["mask-gradient"].mean == pytest.approx(mean)
    path = path_rows([record])
    assert [row["bypassed"] for row in path] == [0, 1, 2]
    for count, name in enumerate(("attnlrp", "lrp:bypass=2", "cp-lrp")):
        for reading in READINGS:
            assert path[count][reading].mean == pytest.approx(column(record, name, reading).mean())
    for wrong in (("ig", "patches"), ("attnlrp", "words")):
        with pytest.raises(InputError, match=r"expected one of lrp, .* at one of patches"):
            column(record, *wrong)


def made_up(gaps: dict[str, float], *, lead: float, last: float, position: float) -> dict[str, Any]:
    """A record whose differences are these, each with a little noise."""
    noise = np.linspace(-0.01, 0.01, 20)
    rows: list[dict[str, Any]] = []
    for reading, (site, tokens) in READINGS.items():
        base = 0.3 + noise + (position if site == "word+position" else 0.0)
        of = {(): base, (1, 2, 3, 4): base + gaps[reading] + 0.5 * noise, (4,): base + last - 0.5 * noise}
        rows += [{"method": "lrp", "bypass": list(bypass), "site": site, "tokens": tokens, "r": list(r)}
                 for bypass, r in of.items()]  # fmt: skip
        if site == "word":
            r = list(base + lead + noise)
            rows.append({"method": "mask-gradient", "bypass": None, "site": site, "tokens": tokens, "r": r})
    return {"config": {"layers": 4}, "rows": rows}


def test_outcomes_follow_the_rule_of_the_prediction() -> None:
    names = list(READINGS)
    as_said = made_up(dict(zip(names, (-0.1, -0.1, 0.1, 0.1), strict=True)), lead=0.3, last=0.1, position=0.1)
    assert [row["outcome"] for row in vision_outcomes(as_said)] == ["met"] * 5
    other = made_up(dict.fromkeys(names, -0.1), lead=-0.05, last=-0.1, position=-0.1)
    assert [row["outcome"] for row in vision_outcomes(other)] == ["failed"] * 5
    one_side = made_up(dict.fromkeys(names, 0.0), lead=0.3, last=0.0, position=0.1)
    assert [row["outcome"] for row in vision_outcomes(one_side)] == ["open", "open", "met", "met", "open"]
    half = made_up(dict(zip(names, (-0.1, 0, 0, 0), strict=True)), lead=0.3, last=0.1, position=0.1)
    assert vision_outcomes(half)[1]["outcome"] == "open"


def test_tables_say_what_the_rows_hold(record: dict[str, Any]) -> None:
    whole = vision_table(vision_rows([record]), caption="c")
    assert whole.header[0] == "what counts" and whole.header[3] == "CP-LRP − AttnLRP"
    assert [cells[0] for cells in whole.cells] == list(READINGS) and len(whole.header) == 8
    short = vision_table(
        vision_rows([record]), caption="c", methods=("mask-gradient", "mask-gradient:groups=8")
    )
    assert short.header[4:] == ("mask gradient", "mask gradient, 8 groups")
    assert [cells[4] for cells in short.cells] == [cells[6] for cells in whole.cells]
    assert len(vision_path_table(path_rows([record]), caption="c").cells) == 3
    names = list(READINGS)
    told = made_up(dict(zip(names, (-0.1, -0.1, 0.1, 0.1), strict=True)), lead=0.3, last=0.1, position=0.1)
    points = vision_outcomes(told)
    outcomes = vision_outcomes_table([points, points], caption="c")
    assert outcomes.header[2:] == ("training 1", "training 2")
    assert outcomes.cells[1][3].startswith("met: -0.100 [") and "; 0.100 [" in outcomes.cells[1][3]


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
    with pytest.raises(InputError, match=r"images of shape \(2, 6, 9\)"):
        patch_maps(images, {"CP-LRP": records[:1]})
    with pytest.raises(InputError, match="expected a record of an image, with patches"):
        patch_grid(Attribution(("a",), [1.0], 0, 1.0, [False], "loo"))


def test_other_models_and_data_are_refused(clf: Classifier, digits: Dataset) -> None:
    for model, data in (
        (load_classifier(*build("bert")), digits),
        (clf, lrp.load_dataset("sst2", source="embedded")),
    ):
        with pytest.raises(InputError, match="expected a model and data of images"):
            vision_record(model, data)


def every_training() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The records of the explanations and of the trainings, by seed."""
    explained, trained = (
        [json.loads(path.read_text(encoding="utf-8")) for path in sorted((RESULTS / folder).iterdir())]
        for folder in ("vit", "training/vit")
    )
    return explained, trained


@pytest.mark.skipif(not (RESULTS / "vit").is_dir(), reason="the records are not in this checkout")
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


@pytest.mark.skipif(not (RESULTS / "vit").is_dir(), reason="the records are not in this checkout")
def test_the_numbers_of_chapter_8_are_those_of_the_record() -> None:
    kept, trained = every_training()

    def r(bypass: list[int] | None, site: str, tokens: str, method: str = "lrp") -> np.ndarray:
        """r by training and image."""
        name = (method, bypass, site, tokens)
        keys = ("method", "bypass", "site", "tokens")
        rows = [row["r"] for one in kept for row in one["rows"] if tuple(row[key] for key in keys) == name]
        assert len(rows) == len(kept)
        return np.array(rows, dtype=float)

    assert value_of("vit, trainings", RESULTS) == len(kept) == len(trained)
    images = value_of("vit, images", RESULTS)
    assert images >= 500 and {len(one["example"]) for one in kept} == {images}
    tested = value_of("vit, tested", RESULTS)
    least, most = (value_of(f"vit, {which} right", RESULTS) for which in ("least", "most"))
    right = sorted(one["mnist_test"]["accuracy"] for one in trained)
    assert (least / tested, most / tested) == pytest.approx((right[0], right[-1]), abs=1e-9)
    assert right[0] >= 0.97
    for reading, (site, tokens) in READINGS.items():
        attnlrp, cp_lrp = r([], site, tokens), r([1, 2, 3, 4], site, tokens)
        gap = value_of(f"vit, CP-LRP minus AttnLRP, {reading}", RESULTS)
        assert gap.mean == pytest.approx((cp_lrp - attnlrp).mean()) and gap.n == attnlrp.shape[1]
        lead = value_of(f"vit, mask gradient minus attnlrp, {reading}", RESULTS)
        assert lead.mean == pytest.approx((r(None, "word", tokens, "mask-gradient") - attnlrp).mean())
        assert value_of(f"vit, attnlrp, {reading}", RESULTS).mean == pytest.approx(attnlrp.mean())
    raised = (r([], "word+position", "patches") - r([], "word", "patches")).mean()
    assert value_of("vit, PA-LRP minus AttnLRP, patches", RESULTS).mean == pytest.approx(raised)
    last = (r([4], "word", "patches") - r([], "word", "patches")).mean()
    assert value_of("vit, last layer bypassed minus AttnLRP, patches", RESULTS).mean == pytest.approx(last)
    counts = [value_of(f"vit, predictions {outcome}", RESULTS) for outcome in ("met", "failed", "open")]
    assert sum(counts) == value_of("vit, predictions", RESULTS) == 5


@pytest.mark.skipif(not (RESULTS / "vit").is_dir(), reason="the records are not in this checkout")
def test_what_chapter_8_says_of_the_trainings_holds() -> None:
    kept, _ = every_training()
    judged = [[row["outcome"] for row in vision_outcomes(one)] for one in kept]
    assert judged == [
        ["met", "met", "met", "met", "failed"],
        ["open", "open", "met", "met", "failed"],
        ["met", "met", "met", "met", "failed"],
    ]

    def sides(a: str, b: str, reading: str) -> list[str]:
        each = [side_of_zero(difference([one], a, b, reading)) for one in kept]
        return [*each, side_of_zero(difference(kept, a, b, reading))]

    assert sides("cp-lrp", "attnlrp", "patches") == ["below"] * 4
    assert sides("cp-lrp", "attnlrp", "all tokens + positions") == ["above", "across", "above", "across"]
    assert sides("mask-gradient", "attnlrp", "patches") == ["above"] * 4
    assert sides("mask-gradient", "attnlrp", "patches + positions") == ["below"] * 4


@pytest.mark.skipif(not (ROOT / "training" / "vit").is_dir(), reason="the weights are not in this checkout")
def test_the_weights_are_those_of_the_record() -> None:
    place = ROOT / "training" / "vit"
    clf = load_classifier(place)
    kept = json.loads((RESULTS / "vit" / "mnist-seed-0.json").read_text(encoding="utf-8"))
    training = json.loads((RESULTS / "training" / "vit" / "seed-0.json").read_text(encoding="utf-8"))
    digest = hashlib.sha256((place / "model.safetensors").read_bytes()).hexdigest()
    assert clf.card.fingerprint == kept["config"]["weights"] and digest == training["weights"]
    sizes = training["recipe"]
    assert (clf.card.layers, clf.card.hidden, clf.card.heads) == (
        sizes["layers"],
        sizes["width"],
        sizes["heads"],
    )
    test = lrp.load_dataset("mnist", source="embedded", side=28)
    assert test.images is not None
    raw = np.rint(test.images * 255).astype(np.uint8)
    ids, mask, _ = clf.batch(clf.encode(raw[:300]))
    assert (clf.logits(ids, mask).argmax(-1).numpy() == test.labels[:300]).mean() > 0.95
    assert clf.encode(raw[0])[0].pixels.startswith("scaled by 0.00392157 (preprocessor_config.json)")
