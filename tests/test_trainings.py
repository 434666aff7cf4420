"""Several trainings of one model: cells in which they agree, parts of the variance, against runs made by hand
and slow forms.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lrp_book import views
from lrp_book.analysis import effect_causes, trainings
from test_protocol_grid import text
from test_report import mnist_run

from lrp_companion.checks import InputError, SourceError
from lrp_companion.metrics.variance import variance_shares
from lrp_companion.paper.report import find_trainings
from lrp_companion.runs.load import TextRun, load_run

MODELS = ("small", "small-seed-1", "small-seed-2")
EFFECTS = ((-0.25, 0.25), (-0.125, 0.25), (0.125, 0.125))
"""CP-LRP minus AttnLRP at the words and with positions, training by training."""


def made(folder: Path, effects: tuple[float, float], k: int, **options: object) -> TextRun:
    ours, positions = effects
    r = {"attnlrp": [(0.5, 0.5, 0.5)] * 4, "cp-lrp": [(0.5 + ours, 0.5 + positions, 0.5 + positions)] * 4}
    return text(folder / MODELS[k], r, layers=6, model=MODELS[k], weights=str(k) * 16, **options)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> list[TextRun]:
    folder = tmp_path_factory.mktemp("trainings")
    return [
        made(folder, effects, k, removals=("attention-mask",) if k else None)
        for k, effects in enumerate(EFFECTS)
    ]


def test_runs_are_compared_in_the_cells_that_all_have(three):
    compared = trainings.trainings(three)
    assert compared.axes["removal"] == ("attention-mask",) and compared.effects.shape == (3, 3, 2, 2, 1, 3, 3)
    assert compared.names == MODELS and compared.title == "SST-2, 6 layers" and compared.n == 4
    assert compared.effects[:, 0, 0, 0, 0, 0, 0] == pytest.approx([-0.25, -0.125, 0.125], abs=1e-6)
    assert compared.effects[:, 1, 1, 0, 0, 0, 0] == pytest.approx([0.25, 0.25, 0.125], abs=1e-6)
    assert (compared.low <= compared.effects).all() and (compared.effects <= compared.high).all()
    assert (trainings.trainings(three[::-1]).effects == compared.effects[::-1]).all()


def test_outputs_that_a_run_was_not_made_with_are_not_compared(three):
    config = {**three[1].manifest["config"], "targets": ["logit"]}
    compared = trainings.trainings(
        [three[0], replace(three[1], manifest={**three[1].manifest, "config": config})]
    )
    assert compared.held == {"removal": "attention-mask", "target": "logit"}
    shown = repr(views.training_shares_table(compared))
    assert "LOO removes by attention mask; output logit: fractions" in shown
    assert compared.axes["target"] == ("logit",) and trainings.training_counts(compared)["cells"] == 36
    assert compared.grids[1].axes["target"] == ("logit",) and compared.grids[0].axes["target"] == (
        "logit",
        "margin",
        "probability",
    )
    assert compared.effects[1, 0, 0, 0, 0, 0, 0] == pytest.approx(-0.125, abs=1e-6)
    assert {row["target"] for row in effect_causes.layer_gains(compared.runs[1])} == {"logit"}


def test_trainings_are_found_beside_their_first_run(tmp_path, monkeypatch):
    results = tmp_path / "results"
    for k, effects in ((0, (0.0, 0.25)), (2, (0.25, 0.25)), (1, (0.125, 0.0))):
        made(results / "trainings" if k else results, effects, k)
    assert [[run.name for run in group] for group in find_trainings(results)] == [list(MODELS)]
    monkeypatch.chdir(results / "trainings")
    (group,) = find_trainings()
    assert trainings.trainings(group).names == MODELS
    text(results / "reviews", {}, layers=6, model=MODELS[0], weights="0" * 16, task="imdb")
    text(results / "trainings" / "other", {}, layers=6, model="smaller", weights="6" * 16)
    mnist_run(results / "trainings" / "digits", {})
    assert [[run.name for run in group] for group in find_trainings()] == [list(MODELS)], (
        "another task or another model is none of these"
    )
    (results / "trainings").rename(results / "elsewhere")
    monkeypatch.chdir(results)
    assert find_trainings(results) == []
    with pytest.raises(SourceError, match="no-such"):
        find_trainings("no-such")


def test_protocols_training_by_training(three):
    ours = trainings.training_effects(trainings.trainings(three))[0]
    assert [effect.mean for effect in ours["effects"]] == pytest.approx([-0.25, -0.125, 0.125], abs=1e-6)
    assert ours["mean"] == pytest.approx(-0.25 / 3, abs=1e-6) and ours["sd"] == pytest.approx(
        np.std([-0.25, -0.125, 0.125], ddof=1), abs=1e-6
    )


def test_cells_are_counted_by_side(three):
    compared = trainings.trainings(three)
    counted = trainings.training_counts(compared)
    assert counted["cells"] == 108 and counted["above"] == 2, (
        "with positions and all tokens, raw and divided by a positive sum"
    )
    assert counted["against"] == 2 and counted["below"] == 0 and counted["open"] == 104
    assert counted["one sign"] == 2, "where all effects are 0 they have no sign"
    assert (
        trainings.training_counts(compared, tokens="all")["against"] == 0
        and trainings.training_counts(compared, tokens="no-special")["above"] == 0
    )
    assert trainings.training_counts(trainings.trainings(three[:2]))["below"] == 2
    for wrong in ({"sight": "word"}, {"removal": "delete"}, {"map": "absolute-sum"}):
        with pytest.raises(InputError, match="expected one of|expected attention-mask"):
            trainings.training_counts(compared, **wrong)


def cut(compared: trainings.Trainings, axes: dict[str, tuple[str, ...]]) -> trainings.Trainings:
    """The same trainings with fewer options."""
    places = np.ix_(
        range(len(compared.runs)),
        *([compared.axes[name].index(option) for option in options] for name, options in axes.items()),
    )
    return replace(
        compared,
        axes=axes,
        effects=compared.effects[places],
        low=compared.low[places],
        high=compared.high[places],
    )


def test_cells_that_turn_are_named_the_most_contrary_first(three, tmp_path):
    compared = trainings.trainings(three)
    rows = trainings.training_turns(compared)
    counted = trainings.training_counts(compared)
    assert (
        len(rows) == counted["against"] + counted["open"]
        and [row["against"] for row in rows] == [True] * 2 + [False] * 104
    )
    assert {
        (row["site"], row["tokens"], row["map"], row["target"], row["statistic"]) for row in rows[:2]
    } == {("word", "no-special", map, "logit", "pearson") for map in ("raw", "sum-to-one")}
    assert [effect.mean for effect in rows[0]["effects"]] == pytest.approx([-0.25, -0.125, 0.125], abs=1e-6)
    assert not any(
        (row["site"], row["tokens"], row["statistic"]) == ("word+position", "all", "pearson")
        for row in rows
        if row["against"]
    )
    below = trainings.trainings(three[:2])
    assert len(trainings.training_turns(below)) == 108 - 4 == trainings.training_counts(below)["open"], (
        "two are above in both, two below"
    )
    contrary = trainings.trainings(
        [made(tmp_path, effects, k) for k, effects in enumerate([(0.25, -0.25), (-0.125, 0.375)])]
    )
    apart = [np.ptp([effect.mean for effect in row["effects"]]) for row in trainings.training_turns(contrary)]
    assert apart[:3] == pytest.approx([0.625, 0.625, 0.375], abs=1e-6) and apart == sorted(
        apart, reverse=True
    )
    shown = repr(views.training_turns_table(compared))
    assert (
        "the first 12 of 106" in shown
        and shown.count("\n") == 13
        and "LOO removes by attention mask: cells" in shown
    )
    assert "removes by" not in shown.split("\n")[1] and "small-seed-2" in shown.split("\n")[1]
    assert "common to all" not in shown
    few = {**compared.axes, "site": ("word",), "tokens": ("no-special",), "target": ("logit",)}
    shown = repr(views.training_turns_table(cut(compared, few))).splitlines()
    assert "common to all" not in shown[0] and "; relevance read at words; tokens" in shown[0], (
        "what is held is said as such"
    )
    assert shown[1].split()[:2] == ["map", "correlation"] and len(shown) == 2 + 6
    two = {**few, "site": ("word+position", "embedding"), "tokens": ("all",), "statistic": ("pearson",)}
    shown = repr(views.training_turns_table(cut(compared, two))).splitlines()
    assert shown[0].endswith("in all trainings; common to all: relevance read at whole embedding")
    assert shown[1].split()[:2] == ["map", "small"] and len(shown) == 2 + 2
    single = {**few, "site": ("word+position",), "tokens": ("all",), "statistic": ("pearson",)}
    assert repr(views.training_turns_table(cut(compared, single))).splitlines()[1:] == ["cell", "none"], (
        "above in all"
    )
    alike = trainings.trainings([three[1], replace(three[1], manifest=three[2].manifest)])
    assert "the first" not in repr(views.training_turns_table(alike, limit=200))
    assert not any(row["against"] for row in trainings.training_turns(alike))


def test_parts_of_the_variance_are_those_of_two_factors(three):
    generator = np.random.default_rng(0)
    compared = trainings.trainings(three)
    noise = replace(compared, effects=generator.normal(size=compared.effects.shape))
    flat = noise.effects.reshape(3, -1)
    rows = {row["choices"]: row["share"] for row in variance_shares(flat, ["training", "cell"])}
    assert trainings.training_shares(noise) == pytest.approx(
        {"choices": rows["cell",], "training": rows["training",], "together": rows["training", "cell"]}
    )
    assert trainings.training_likeness(noise) == pytest.approx(
        min(np.corrcoef(a, b)[0, 1] for a, b in itertools.combinations(flat, 2))
    )
    alike = replace(compared, effects=np.stack([compared.effects[0]] * 3))
    assert trainings.training_shares(alike) == pytest.approx(
        {"choices": 1, "training": 0, "together": 0}, abs=1e-9
    )
    moved = replace(compared, effects=np.stack([compared.effects[0] + shift for shift in (0, 1, 2)]))
    assert trainings.training_shares(moved)["together"] == pytest.approx(0, abs=1e-9)
    assert trainings.training_shares(moved)["training"] > 0.5
    assert trainings.training_likeness(moved) == pytest.approx(1)
    undefined = noise.effects.copy()
    undefined[1, 0, 0, 0, 0, 0, 0] = np.nan
    assert trainings.training_shares(replace(noise, effects=undefined)) != trainings.training_shares(noise)
    assert sum(trainings.training_shares(replace(noise, effects=undefined)).values()) == pytest.approx(1)


def test_layers_training_by_training(three):
    compared = trainings.trainings(three)
    rows = trainings.training_gains(compared)
    assert [row["model"] for row in rows] == [*MODELS] * 3
    assert [row["total"].mean for row in rows[:3]] == pytest.approx([-0.25, -0.125, 0.125], abs=1e-6)
    plain = next(
        row
        for row in effect_causes.layer_gains(three[1])
        if (row["site"], row["tokens"], row["map"], row["target"]) == ("word", "no-special", "raw", "logit")
    )
    assert rows[1]["later - first"] == plain["later - first"] and rows[1]["largest"] == plain["largest"]


def test_what_cannot_be_compared_is_refused_by_name(three, tmp_path):
    digits = load_run(mnist_run(tmp_path / "digits", {}))
    deep = text(tmp_path / "deep", {}, layers=12, weights="9" * 16)
    few = text(tmp_path / "few", {}, layers=6, weights="8" * 16, n=3)
    reviews = text(tmp_path / "reviews", {}, layers=6, weights="7" * 16, task="imdb")
    cases = [
        ([three[0]], "got 1 runs; expected at least two"),
        ([three[0], digits], "no run on reviews"),
        ([three[0], deep], "layers 12 in deep; expected 6"),
        ([three[0], few], "examples 3 in few; expected 4"),
        ([three[0], reviews], "task imdb in reviews; expected sst2"),
        ([three[0], three[0]], "the same weights twice"),
    ]
    for runs, words in cases:
        with pytest.raises(InputError, match=words):
            trainings.trainings(runs)


def test_views_say_what_they_show(three):
    compared = trainings.trainings(three)
    figure = views.training_curve(compared)
    assert "108 combinations and 3 trainings" in figure.alt and "One sign in all trainings: 2" in figure.alt
    assert figure._repr_png_().startswith(b"\x89PNG")
    effects = repr(views.trainings_table(compared))
    assert "-0.25 [" in effects and "small-seed-2" in effects and "standard deviation" in effects
    counts = repr(views.training_counts_table(compared))
    assert counts.count("\n") == 6 and "above in one, below in another" in counts
    assert "%" in repr(views.training_shares_table(compared)) and "3 trainings" in repr(
        views.training_shares_table(compared)
    )
    assert "small-seed-1" in repr(
        views.training_gains_table(trainings.training_gains(compared), title="layers")
    )
