"""Shapley values: the definition over all orders, the axioms, captum, and standard errors that are honest."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import ShapleyValues, ShapleyValueSampling
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tiny_models import BERT_LIKE, IMAGE_FAMILIES, PRE_NORM, TEXTS, build, vision

import lrp_companion as lrp
from lrp_companion.loading.classifier import Classifier, load_classifier
from lrp_companion.methods import perturbation as module
from lrp_companion.methods import removal_evaluator
from lrp_companion.methods.perturbation import interactions_of, shapley_of, subsets
from lrp_companion.schema import REMOVALS

TEXT = "a film of rare grace"
Game = Callable[[frozenset[int]], float]


def over_orders(game: Game, players: int) -> np.ndarray:
    """What each player adds, averaged over all n! orders: the definition."""
    known = {
        frozenset(s): game(frozenset(s))
        for s in (np.flatnonzero(row).tolist() for row in product([0, 1], repeat=players))
    }
    gains = np.zeros(players)
    orders = list(permutations(range(players)))
    for order in orders:
        for k, player in enumerate(order):
            gains[player] += known[frozenset(order[: k + 1])] - known[frozenset(order[:k])]
    return gains / len(orders)


def check_definition(clf: Classifier, inputs: Any) -> None:
    """By the soft mask of the tape at 0 and 1: another path than the one that removals run."""
    (text,) = clf.encode(inputs)
    players = np.flatnonzero(~text.special)
    ids, real, further = clf.batch([text])

    def game(members: frozenset[int]) -> float:
        keep = torch.tensor(text.special, dtype=torch.float64)[None]
        keep[0, players[list(members)]] = 1.0
        with torch.no_grad():
            return float(clf.encoder.forward(ids, real, keep=keep, **further).logits[0, 1])

    (record,) = lrp.attribute(clf, inputs, method="shapley", target=1)
    expected = over_orders(game, len(players))
    np.testing.assert_allclose(record.scores[players], expected, rtol=0, atol=1e-10)
    assert not record.scores[text.special].any() and record.details["passes"] == (2 ** len(players), 0)
    assert record.scores.sum() == pytest.approx(record.details["value"] - record.details["empty"], abs=1e-10)


@pytest.mark.parametrize("family", [*BERT_LIKE, *PRE_NORM])
def test_the_definition_in_every_family(family: str) -> None:
    network, tokenizer = build(family)
    check_definition(load_classifier(network.double(), tokenizer, dtype="float64"), TEXT)


@pytest.mark.parametrize("family", IMAGE_FAMILIES)
def test_the_definition_on_patches(family: str) -> None:
    draw = torch.Generator().manual_seed(3)
    clf = load_classifier(vision(family, size=(4, 6)).double(), dtype="float64")
    check_definition(clf, torch.randn(1, 2, 4, 6, generator=draw, dtype=torch.float64))


@pytest.mark.parametrize("unit", ["token", "word", "sentence", [["rare grace", "film", "plot"]]], ids=str)
@pytest.mark.parametrize("removal", REMOVALS)
def test_every_removal_and_unit(clf: Classifier, removal: str, unit: Any) -> None:
    text = "films of rare grace . plot"
    (record,) = lrp.attribute(
        clf, [text], method="shapley", removal=removal, unit=unit, target=2, output="margin"
    )
    (loo,) = lrp.attribute(clf, [text], method="loo", removal=removal, unit=unit, target=2, output="margin")
    evaluate = removal_evaluator(clf, text, target=2, removal=removal, output="margin")
    (encoded,) = clf.encode(text)
    places = np.arange(len(encoded))
    units = [[k] for k in places[1:-1]]
    if unit == "word":  # films is film and ##s
        units = [[1, 2], *([k] for k in places[3:-1])]
    if unit == "sentence":
        units = [list(places[1:7]), list(places[7:-1])]
    if isinstance(unit, list):
        units = [[1], [4, 5], [7]]
        assert record.tokens == ("film", "rare grace", "plot")

    def game(members: frozenset[int]) -> float:
        gone = [place for k, unit in enumerate(units) if k not in members for place in unit]
        return float(evaluate(~np.isin(places, gone)[None])[0])

    scores = record.scores[~record.special]
    np.testing.assert_allclose(scores, over_orders(game, len(units)), rtol=0, atol=1e-9)
    assert record.tokens == loo.tokens and record.details["value"] == pytest.approx(game(frozenset(range(9))))
    assert record.choices["removal"] == removal and record.choices.get("unit") == loo.choices.get("unit")


def test_captum_agrees(clf: Classifier) -> None:
    (text,) = clf.encode(TEXT)
    ids = torch.tensor([text.input_ids])

    def model(players: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(len(players), len(text), dtype=torch.long)
        mask[:, 1:-1] = players
        with torch.no_grad():
            return clf.network(input_ids=ids.expand(len(players), -1), attention_mask=mask).logits

    there = torch.ones(1, len(text) - 2, dtype=torch.long)
    exact = ShapleyValues(model).attribute(there, target=1, perturbations_per_eval=64)[0].double().numpy()
    (record,) = lrp.attribute(clf, TEXT, method="shapley", target=1)
    np.testing.assert_allclose(record.scores[1:-1], exact, rtol=0, atol=1e-6)
    torch.manual_seed(0)
    drawn = ShapleyValueSampling(model).attribute(there, target=1, n_samples=400, perturbations_per_eval=64)
    (sampled,) = lrp.attribute(clf, TEXT, method="shapley", target=1, exact=0, permutations=400)
    spread = 4 * np.array(sampled.details["standard error"])[1:-1]  # antithetic ones are the smaller
    assert (np.abs(sampled.scores[1:-1] - exact) < spread).all()
    assert (np.abs(drawn[0].double().numpy() - exact) < 3 * spread).all()


values = arrays(np.float64, 16, elements=st.floats(-5, 5, width=32))


@given(values, values, st.floats(-3, 3))
def test_the_axioms(v: np.ndarray, w: np.ndarray, gain: float) -> None:
    phi = shapley_of(v)
    assert phi.sum() == pytest.approx(v[-1] - v[0], abs=1e-12)  # efficiency
    np.testing.assert_allclose(shapley_of(v + 2 * w), phi + 2 * shapley_of(w), atol=1e-12)  # linearity
    cube = v.reshape((2,) * 4)
    fair = (cube + np.swapaxes(cube, 1, 3)).ravel()
    assert shapley_of(fair)[1] == pytest.approx(shapley_of(fair)[3], abs=1e-12)  # symmetry
    dummy = np.stack([v, v + gain]).ravel()  # a player in front that always adds the same
    np.testing.assert_allclose(shapley_of(dummy), [gain, *phi], atol=1e-12)
    between = interactions_of(dummy)
    assert np.allclose(between[0], 0) and np.array_equal(between, between.T)
    np.testing.assert_allclose(between[1:, 1:], interactions_of(v), atol=1e-12)


@given(values)
def test_interactions_are_the_gain_of_a_pair_over_its_parts(v: np.ndarray) -> None:
    """`phi of the pair as one player` would differ; I_ij is phi_i with j there, minus phi_i without j."""
    between, cube = interactions_of(v), v.reshape((2,) * 4)
    for i, j in permutations(range(4), 2):
        others = [k for k in range(4) if k != j]
        without, given_j = np.moveaxis(cube, j, 0)
        difference = shapley_of(given_j.ravel()) - shapley_of(without.ravel())
        assert between[i, j] == pytest.approx(difference[others.index(i)], abs=1e-12)


def test_texts_of_several_lengths_and_their_interactions(model_folder: Any) -> None:
    assert subsets(3)[0b101].tolist() == [True, False, True] and subsets(0).shape == (1, 0)
    clf = load_classifier(model_folder("bert"), dtype="float64")
    one, five = lrp.attribute(clf, ["dull", "the plot is not dull"], method="shapley")
    assert one.scores[1] == pytest.approx(one.details["value"] - one.details["empty"])
    between = np.array(five.details["interactions"])
    assert between.shape == (7, 7) and not between[0].any() and not between[:, -1].any()
    evaluate = removal_evaluator(clf, "the plot is not dull", target=five.target)
    keep = np.ones((32, 7), dtype=bool)
    keep[:, 1:-1] = subsets(5)
    np.testing.assert_allclose(between[1:-1, 1:-1], interactions_of(evaluate(keep)), atol=1e-10)


def test_standard_errors_cover_what_they_promise() -> None:
    """Of 64 orders, 32 pairs: a normal interval of 95 % covers .941 by Student's t."""
    draw = np.random.default_rng(1)
    size = subsets(7).sum(1)
    game = draw.normal(size=2**7) + 3 * np.sqrt(size) + draw.normal(size=7) @ subsets(7).T
    exact, where = shapley_of(game), 2 ** np.arange(7)[::-1]
    met, ratios = [], []
    for seed in range(600):
        orders = module._orders(7, 64, [seed])
        rows, places = module._along(orders)
        scores, errors = module._sampled(game[rows @ where][places], orders)
        assert scores.sum() == pytest.approx(game[-1] - game[0])
        met.append(np.abs(scores - exact) < 1.96 * errors)
        ratios.append((scores - exact) ** 2 / errors**2)
    assert 0.925 < np.mean(met) < 0.96
    assert 0.95 < np.mean(ratios) < 1.2  # of a t with 31 degrees of freedom: 31 / 29


def test_sampled_scores_are_near_exact_ones_and_depend_on_seed_and_text(clf: Classifier) -> None:
    (exact,) = lrp.attribute(clf, TEXTS[1], method="shapley")
    ratios = []
    for seed in range(8):
        (record,) = lrp.attribute(clf, TEXTS[1], method="shapley", exact=0, permutations=64, seed=seed)
        errors = np.array(record.details["standard error"])
        assert errors[0] == errors[-1] == 0 and (errors[1:-1] > 0).all()
        assert record.scores.sum() == pytest.approx(exact.scores.sum(), abs=1e-10)
        ratios.append((record.scores - exact.scores)[1:-1] ** 2 / errors[1:-1] ** 2)
    assert 0.5 < np.mean(ratios) < 2
    together = lrp.attribute(clf, [TEXTS[0], TEXTS[1]], method="shapley", exact=0, permutations=64, seed=7)
    np.testing.assert_allclose(together[1].scores, record.scores, rtol=0, atol=1e-10)
    orders = [module._orders(5, 4, [0, *text.key]) for text in clf.encode([TEXT, "the plot is so dull"])]
    assert not np.array_equal(*orders)


@pytest.mark.parametrize("exact", [0, 12])
def test_no_subset_is_run_twice(clf: Classifier, monkeypatch: pytest.MonkeyPatch, exact: int) -> None:
    seen: list[tuple[int, bytes]] = []
    real = module.kept_logits

    def spy(model: Classifier, jobs: Any, **options: Any) -> torch.Tensor:
        seen.extend((id(text), np.asarray(keep).tobytes()) for text, keep in jobs)
        return real(model, jobs, **options)

    monkeypatch.setattr(module, "kept_logits", spy)
    monkeypatch.setattr(module, "ROWS", 50)
    records = lrp.attribute(clf, [TEXT, TEXTS[2], TEXTS[1]], method="shapley", exact=exact, permutations=40)
    assert len(seen) == len(set(seen)) == sum(record.details["passes"][0] for record in records)
    if exact:
        assert len(seen) == 2**5 + 2 + 2**10


def test_the_command(capsys: pytest.CaptureFixture[str], model_folder: Any, tmp_path: Path) -> None:
    from lrp_companion.cli import main

    out = tmp_path / "map.json"
    words = ["explain", TEXT, "--model", str(model_folder("bert")), "--method"]
    assert main([*words, "shapley:exact=3:permutations=8:seed=2", "--out", str(out)]) in (0, None)
    assert "shapley (removal attention-mask, exact 3, permutations 8, seed 2" in capsys.readouterr().out
    assert len(lrp.Attribution.from_json(out.read_text()).details["standard error"]) == 7
