"""LOO for some tokens, a gradient or a mean for the others: against plain recomputation."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import TEXTS, pre_norm

import lrp_companion as lrp
from lrp_companion import Classifier
from lrp_companion.methods.gradient import CORRECTIONS, corrected
from lrp_companion.methods.perturbation import kept_logits

METHODS = {"hybrid": "exact", "sampled-loo": "budget"}


@pytest.mark.parametrize("method", METHODS)
def test_with_every_token_exact_it_is_loo(family_clf: Classifier, method: str) -> None:
    for record, loo in zip(
        lrp.attribute(family_clf, list(TEXTS), method=method, **{METHODS[method]: 99}),
        lrp.attribute(family_clf, list(TEXTS), method="loo"),
        strict=True,
    ):
        assert np.allclose(record.scores, loo.scores, rtol=0, atol=1e-11) and record.target == loo.target
        assert record.logit == pytest.approx(loo.logit, rel=1e-12)


def line_through(x: np.ndarray, y: np.ndarray, correct: str) -> tuple[float, float]:
    """Slope and intercept of a correction, by NumPy's own fits."""
    if correct == "scale":
        return float(np.linalg.lstsq(x[:, None], y, rcond=None)[0][0]), 0.0
    if correct == "line":
        slope, intercept = np.polyfit(x, y, 1)
        return float(slope), float(intercept)
    return 1.0, float(np.mean(y - x)) if correct == "shift" else 0.0


@pytest.mark.parametrize("correct", CORRECTIONS)
@pytest.mark.parametrize(
    "options", [{}, {"groups": 3, "nodes": 2}, {"groups": 3, "nodes": [0, 0.5, 1], "seed": 2}], ids=str
)
@pytest.mark.parametrize("output", ["logit", "probability"])
def test_the_largest_are_exact_and_the_rest_is_corrected(clf, correct, options, output):
    for text, record in zip(
        TEXTS,
        lrp.attribute(clf, list(TEXTS), method="hybrid", exact=3, correct=correct, output=output, **options),
        strict=True,
    ):
        (g,), (loo,) = (
            lrp.attribute(clf, text, method=name, output=output, **extra)
            for name, extra in (("mask-gradient", options), ("loo", {}))
        )
        top = sorted(range(len(g.scores)), key=lambda i: -abs(g.scores[i]))[:3]
        x, y = g.scores[top], loo.scores[top]
        slope, intercept = line_through(x, y, correct)
        wanted = [
            loo.scores[i] if i in top else slope * g.scores[i] + intercept for i in range(len(g.scores))
        ]
        np.testing.assert_allclose(record.scores, wanted, rtol=0, atol=1e-9)
        forwards, backwards = g.details["passes"]
        assert record.details["exact tokens"] == tuple(sorted(top))
        assert record.details["passes"] == (forwards + 3, backwards)
        assert record.choices == {"exact": 3, "correct": correct, **g.choices}


def test_sampled_tokens_are_exact_and_the_others_have_their_mean(clf: Classifier) -> None:
    drawn = []
    for text in TEXTS:
        (loo,) = lrp.attribute(clf, text, method="loo", output="margin")
        (record,) = lrp.attribute(clf, text, method="sampled-loo", budget=2, seed=3, output="margin")
        sampled = list(record.details["exact tokens"])
        assert len(set(sampled)) == 2
        rest = np.delete(np.arange(len(loo.scores)), sampled)
        np.testing.assert_allclose(record.scores[sampled], loo.scores[sampled], rtol=0, atol=1e-11)
        np.testing.assert_allclose(record.scores[rest], loo.scores[sampled].mean(), rtol=0, atol=1e-11)
        drawn.append(tuple(sampled))
        (again,), (other,) = (
            lrp.attribute(clf, text, method="sampled-loo", budget=2, seed=seed) for seed in (3, 4)
        )
        assert again.details["exact tokens"] == tuple(sampled)
        drawn.append(other.details["exact tokens"])
    assert len(set(drawn)) > 3


def test_cost_is_what_is_said(clf: Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    (encoded,), rows, kept = clf.encode(TEXTS[1]), 0, kept_logits
    forward = clf.encoder.forward

    def counted(ids: Any, *args: Any, **options: Any) -> Any:
        nonlocal rows
        rows += len(ids)
        return forward(ids, *args, **options)

    def removed(model: Any, jobs: Any, **options: Any) -> Any:
        nonlocal rows
        rows += len(jobs)
        return kept(model, jobs, **options)

    monkeypatch.setattr(clf.encoder, "forward", counted)
    monkeypatch.setattr(import_module("lrp_companion.methods.perturbation"), "kept_logits", removed)
    tokens = len(encoded)
    for method, options, passes in (
        ("hybrid", {}, (5, 1)),
        ("hybrid", {"exact": 2, "groups": 3, "nodes": 3}, (9, 7)),
        ("hybrid", {"exact": 99}, (1 + tokens, 1)),
        ("sampled-loo", {"budget": 4}, (5, 0)),
        ("sampled-loo", {"budget": 99}, (1 + tokens, 0)),
    ):
        rows = 0
        (record,) = lrp.attribute(clf, TEXTS[1], method=method, **options)
        assert record.details["passes"] == passes and rows == passes[0], (method, options)


pairs = st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=2, max_size=6)


@given(pairs, st.sampled_from(CORRECTIONS))
def test_a_correction_is_exact_where_it_can_be(values: list[tuple[float, float]], correct: str) -> None:
    """LOO that is what the correction assumes is met on every token; the chosen ones are always exact."""
    gradient = np.round([g for g, _ in values], 2)
    slope, intercept = {"none": (1, 0), "scale": (-2, 0), "shift": (1, 3), "line": (-2, 3)}[correct]
    places = np.array([0, len(values) - 1])
    loo = slope * gradient + intercept
    if np.ptp(gradient[places]) > 0:
        assert np.allclose(corrected(gradient, places, loo[places], correct), loo, atol=1e-6)
    exact = np.array([v for _, v in values])[places]
    scores = corrected(gradient, places, exact, correct)
    assert np.array_equal(scores[places], exact) and np.isfinite(scores).all()


def test_of_two_equal_gradients_the_first_is_exact_in_any_company() -> None:
    clf = lrp.load_classifier(*pre_norm("llama", seed=3))
    texts = ["dull", "a film of rare grace", *TEXTS[1:], "a"]
    for record, text in zip(lrp.attribute(clf, texts, method="hybrid", exact=1), texts, strict=True):
        (alone,) = lrp.attribute(clf, text, method="hybrid", exact=1)
        assert record.details["exact tokens"] == alone.details["exact tokens"]
        if len(record.tokens) == 2:
            assert record.details["exact tokens"] == (0,)


def test_pairs_that_fix_no_slope() -> None:
    places, exact = np.array([0, 1]), np.array([1.0, 5.0])
    assert corrected(np.array([0.0, 0.0, 2.0]), places, exact, "scale").tolist() == [1, 5, 2]
    assert corrected(np.array([1.0, 1.0, 2.0]), places, exact, "line").tolist() == [1, 5, 4]
    assert corrected(np.array([1.0, 2.0]), np.array([1]), np.array([4.0]), "line").tolist() == [3, 4]
