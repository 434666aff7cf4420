"""Metrics against scipy, plain loops, and the properties that define them."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError
from lrp_companion.metrics import (
    agreement,
    bootstrap_mean,
    conservation_gap,
    invariance_gap,
    kendall,
    normalise,
    paired_difference,
    pearson,
    perturbation_curve,
    removal_order,
    spearman,
)
from lrp_companion.schema import MAP_CHOICES, STATISTICS, Protocol

CORRELATIONS = {"pearson": pearson, "spearman": spearman, "kendall": kendall}
SCIPY = {
    "pearson": scipy.stats.pearsonr,
    "spearman": scipy.stats.spearmanr,
    "kendall": scipy.stats.kendalltau,
}
NAN = float("nan")


def by_definition(a: np.ndarray, b: np.ndarray) -> dict[str, float]:
    """Spearman's r and Kendall's tau-b by counting, without SciPy; neither map constant."""
    ranks = [[1 + (v < x).sum() + ((v == x).sum() - 1) / 2 for x in v] for v in (a, b)]
    signs = [[np.sign(v[i] - v[j]) for i in range(len(v)) for j in range(i)] for v in (a, b)]
    untied = np.count_nonzero(signs[0]) * np.count_nonzero(signs[1])
    return {"spearman": pearson(*ranks), "kendall": np.dot(*signs) / math.sqrt(untied)}


# halves, so that ties occur and sums are exact
scores = st.lists(st.integers(-8, 8).map(lambda k: k / 2), min_size=2, max_size=12).map(np.array)
pairs = st.integers(2, 12).flatmap(
    lambda n: st.tuples(
        *[st.lists(st.integers(-6, 6), min_size=n, max_size=n).map(lambda v: np.array(v) / 2)] * 2
    )
)


@pytest.mark.parametrize("name", STATISTICS)
@given(pair=pairs)
def test_correlations_equal_scipy(name, pair):
    a, b = pair
    r = CORRELATIONS[name](a, b)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        assert math.isnan(r)
    else:
        assert r == pytest.approx(SCIPY[name](a, b).statistic, abs=1e-12)
        assert r == pytest.approx({"pearson": r, **by_definition(a, b)}[name], abs=1e-12)


@pytest.mark.parametrize("name", STATISTICS)
@given(pair=pairs, factor=st.floats(0.1, 10), shift=st.floats(-5, 5))
def test_correlations_ignore_scale_and_shift_and_turn_with_the_sign(name, pair, factor, shift):
    a, b = pair
    statistic = CORRELATIONS[name]
    r = statistic(a, b)
    assert statistic(b, a) == pytest.approx(r, abs=1e-12, nan_ok=True)
    assert statistic(a * 4 + 1, b) == pytest.approx(r, abs=1e-12, nan_ok=True)
    assert statistic(-a, b) == pytest.approx(-r, abs=1e-12, nan_ok=True)
    if name == "pearson":
        assert statistic(factor * a + shift, b) == pytest.approx(r, abs=1e-9, nan_ok=True)
    elif not math.isnan(r):
        assert statistic(np.exp(a), b) == pytest.approx(r, abs=1e-12)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_pearson_of_tiny_and_huge_scores(size):
    a, b = np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0])
    assert pearson(size * a, b) == pytest.approx(pearson(a, b), abs=1e-12)


@pytest.mark.parametrize("constant", [[0.1] * 10, [0.0] * 10, [1e300] * 10])
def test_a_constant_map_has_no_correlation(constant):
    for statistic in CORRELATIONS.values():
        assert math.isnan(statistic(constant, np.arange(10)))
        assert math.isnan(statistic(np.arange(10), constant))


@given(values=scores)
def test_normalised_maps_have_the_sum_they_promise(values):
    by_sum, absolute = normalise(values, "sum-to-one"), normalise(values, "absolute-sum")
    assert np.array_equal(normalise(values, "raw"), values)
    assert np.isnan(by_sum).all() if values.sum() == 0 else by_sum.sum() == pytest.approx(1)
    assert np.isnan(absolute).all() if not values.any() else np.abs(absolute).sum() == pytest.approx(1)


def test_a_sum_lost_to_rounding_gives_no_map():
    values = np.float32([0.1, 0.2, -0.3]).astype(float)
    assert values.sum() != 0
    assert np.isnan(normalise(values, "sum-to-one")).all()
    with pytest.raises(InputError, match="map 'sum to one'; expected one of raw, sum-to-one, absolute-sum"):
        normalise(values, "sum to one")


@given(pair=pairs, special=st.lists(st.booleans(), min_size=12, max_size=12))
def test_agreement_is_the_statistic_of_the_chosen_tokens_and_maps(pair, special):
    a, b = pair
    special = np.array(special[: len(a)])
    for tokens, choice, statistic in itertools.product(("all", "no-special"), MAP_CHOICES, STATISTICS):
        kept = [k for k in range(len(a)) if tokens == "all" or not special[k]]
        divide = {"raw": lambda v: 1.0, "sum-to-one": sum, "absolute-sum": lambda v: sum(map(abs, v))}[choice]
        one, two = ([v[k] for k in kept] for v in (a, b))
        by = divide(one), divide(two)
        if len(kept) < 2 or min(np.ptp(one), np.ptp(two)) == 0 or 0 in by:
            expected = NAN
        else:
            expected = SCIPY[statistic](np.divide(one, by[0]), np.divide(two, by[1])).statistic
        r = agreement(a, b, special, Protocol(tokens=tokens, map=choice, statistic=statistic))
        assert r == pytest.approx(expected, abs=1e-12, nan_ok=True)


def slow_order(values, order, chunk, removable):
    """Chunks one by one, each time the best of what is left; the earlier one where two are equal."""
    places = [k for k in range(len(values)) if removable[k]]
    left = [places[k : k + chunk] for k in range(0, len(places), chunk)]
    out = []
    while left:
        best = left[0]
        for part in left[1:]:
            gain = sum(values[k] for k in part) - sum(values[k] for k in best)
            if gain > 0 if order == "morf" else gain < 0:
                best = part
        left.remove(best)
        out.append(best)
    return out


@given(
    values=scores,
    order=st.sampled_from(["morf", "lerf"]),
    chunk=st.integers(1, 5),
    removable=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_removal_order_equals_a_plain_search(values, order, chunk, removable):
    removable = np.array(removable[: len(values)])
    if not removable.any():
        with pytest.raises(InputError, match="no removable token"):
            removal_order(values, removable=removable)
        return
    steps = [part.tolist() for part in removal_order(values, order=order, chunk=chunk, removable=removable)]
    assert steps == slow_order(values, order, chunk, removable)
    assert sorted(itertools.chain(*steps)) == np.flatnonzero(removable).tolist()


def test_ties_leave_in_reading_order_both_ways():
    for order in ("morf", "lerf"):
        assert np.concatenate(removal_order([0.5] * 300, order=order)).tolist() == list(range(300))
    halves = [1.0, 2.0] * 100
    assert np.concatenate(removal_order(halves, order="lerf")).tolist() == [
        *range(0, 200, 2),
        *range(1, 200, 2),
    ]


@given(values=scores, weights=scores, chunk=st.integers(1, 4))
def test_curves_start_at_the_whole_input_and_lerf_is_morf_of_the_opposite(values, weights, chunk):
    weights = np.resize(weights, len(values))

    def evaluate(keep):
        return np.tanh(keep @ weights)

    morf = perturbation_curve(evaluate, values, order="morf", chunk=chunk)
    mirrored = perturbation_curve(evaluate, -values, order="lerf", chunk=chunk)
    assert morf.logits[0] == np.tanh(weights.sum()) and morf.removed[0] == 0
    assert morf.removed[-1] == len(values) and morf.logits[-1] == 0
    assert np.array_equal(morf.logits, mirrored.logits) and np.array_equal(morf.removed, mirrored.removed)
    steps = len(morf.logits) - 1
    assert morf.mean_logit == pytest.approx(sum(morf.logits[1:]) / steps)
    assert morf.aopc == pytest.approx(sum(morf.logits[0] - f for f in morf.logits) / (steps + 1))
    assert morf.aopc == pytest.approx(steps / (steps + 1) * (morf.logits[0] - morf.mean_logit))


@given(weights=st.lists(st.integers(-5, 5), min_size=2, max_size=5), guess=st.permutations(range(5)))
def test_no_order_beats_the_true_one_on_a_linear_output(weights, guess):
    weights = np.array(weights, dtype=float)

    def gap(values):
        curves = {
            order: perturbation_curve(lambda keep: keep @ weights, values, order=order)
            for order in ("lerf", "morf")
        }
        return curves["lerf"].mean_logit - curves["morf"].mean_logit

    assert gap(weights) >= gap(np.array(guess[: len(weights)], dtype=float)) - 1e-12


def test_special_tokens_stay_and_one_call_evaluates_all():
    calls = []

    def evaluate(keep):
        calls.append(keep)
        return keep.sum(axis=1)

    curve = perturbation_curve(
        evaluate,
        np.array([9.0, 1.0, 2.0, 3.0, 9.0]),
        chunk=2,
        removable=np.array([False, True, True, True, False]),
    )
    (keep,) = calls
    assert keep[:, 0].all() and keep[:, 4].all() and keep[0].all()
    assert curve.removed.tolist() == [0, 2, 3]  # chunk (1, 2) and (3): equal sums, so the first leaves first
    assert curve.chunk == 2 and not curve.logits.flags.writeable


def test_bootstrap_equals_a_plain_loop():
    values = np.random.default_rng(1).normal(size=9)
    draws = np.random.default_rng(7).integers(0, 9, size=(200, 9))
    means = sorted(sum(values[k] for k in draw) / 9 for draw in draws)
    interval = bootstrap_mean(values, resamples=200, seed=7)
    assert (interval.low, interval.high) == pytest.approx(tuple(np.percentile(means, [2.5, 97.5])), abs=1e-12)
    assert interval.mean == pytest.approx(values.mean()) and (interval.n, interval.undefined) == (9, 0)


def test_blocks_change_nothing(monkeypatch):
    values = np.random.default_rng(3).normal(size=40)
    whole = bootstrap_mean(values, resamples=500)
    monkeypatch.setattr("lrp_companion.metrics.statistics.BLOCK", 41)
    assert bootstrap_mean(values, resamples=500) == whole


@given(values=st.lists(st.one_of(st.floats(-5, 5), st.just(NAN)), min_size=1, max_size=20))
def test_undefined_examples_are_counted(values):
    interval = bootstrap_mean(values, resamples=50)
    defined = [v for v in values if not math.isnan(v)]
    assert (interval.n, interval.undefined) == (len(defined), len(values) - len(defined))
    assert interval.mean == pytest.approx(np.mean(defined) if defined else NAN, nan_ok=True, abs=1e-12)
    if interval.n > 1:
        assert min(defined) - 1e-12 <= interval.low <= interval.high <= max(defined) + 1e-12
    else:
        assert math.isnan(interval.low) and math.isnan(interval.high)


def test_a_paired_difference_is_undefined_where_either_is():
    interval = paired_difference([0.5, NAN, 0.9, 0.1], [0.4, 0.6, NAN, 0.3])
    assert (interval.n, interval.undefined) == (2, 2)
    assert interval.mean == pytest.approx(-0.05)
    a, b = np.random.default_rng(4).normal(size=(2, 30))
    assert paired_difference(a, b, resamples=100) == bootstrap_mean(a - b, resamples=100)


def test_conservation_gap_has_the_sign_of_what_is_too_much():
    assert conservation_gap([1.0, 1.0], -4.0) == (1.5, 6.0)
    assert conservation_gap(3.0, 4.0) == (-0.25, -1.0)
    assert math.isnan(conservation_gap([0.5], 0.0).relative) and conservation_gap([0.5], 0.0).absolute == 0.5


@given(pair=pairs)
def test_invariance_gap_is_a_symmetric_relative_distance(pair):
    a, b = pair
    gap = invariance_gap(a, b)
    assert gap.relative == pytest.approx(invariance_gap(b, a).relative)
    assert gap.relative == pytest.approx(invariance_gap(4 * a, 4 * b).relative)
    assert 0 <= gap.relative <= 2 + 1e-12 and (gap.relative == 0) == np.array_equal(a, b)
    assert gap.r == pytest.approx(pearson(a, b), nan_ok=True)
    if a.any():
        assert invariance_gap(a, -a).relative == pytest.approx(2)


def test_two_records_agree_under_the_default_protocol():
    tokens, special = ("[CLS]", "a", "b", "c"), [True, False, False, False]
    loo = Attribution(tokens, [9.0, 1.0, 2.0, 4.0], 1, 1.0, special, "loo")
    scores = np.array([-5.0, 2.0, 1.0, 3.0])
    record = Attribution(tokens, scores + 1, 1, 1.0, special, "lrp", parts={"word": scores})
    assert agreement(record, loo) == agreement(scores, loo.scores, special, Protocol())
    moved = replace(record, parts={"word": scores, "position": np.ones(4) * [0, 0, 5, 0]})
    protocol = Protocol(site="word+position", tokens="all")
    expected = agreement(moved.scores_at("word+position"), loo.scores, special, protocol)
    assert agreement(moved, loo, protocol=protocol) == expected
    for other in (replace(loo, target=0), replace(loo, tokens=("[CLS]", "a", "b", "d")), loo.scores):
        with pytest.raises(InputError, match="agreement"):
            agreement(record, other)
    with pytest.raises(InputError, match="agreement"):
        agreement(record, loo, special)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"target": 0}, "class (1 and 0)"),
        ({"logit": 1.5}, "logit (1 and 1.5)"),
        ({"choices": {"output": "probability"}}, "output (logit and probability)"),
        ({"choices": {"output": "logit", "contrast": "other"}}, "contrast (None and other)"),
        ({"details": {"model": "other"}}, "model (mine and other)"),
    ],
)
def test_records_that_explain_other_numbers_are_compared_only_where_asked(changes, words):
    known = {"choices": {"output": "logit"}, "details": {"model": "mine"}}
    loo = Attribution(("a", "b"), [1.0, 2.0], 1, 1.0, [False, False], "loo", **known)
    other = replace(loo, **changes)
    with pytest.raises(InputError, match=re.escape(words)):
        agreement(loo, other)
    assert agreement(loo, other, unlike=True) == pytest.approx(1)
    assert agreement(loo, replace(loo, method="rollout", choices={})) == pytest.approx(1)


def test_chunks_that_only_rounding_tells_apart_leave_in_reading_order():
    scores = np.array([0.5, 2.0, 0.5 * (1 + 1e-8), 2.0 * (1 + 1e-8)])
    for order, places in (("morf", [1, 3, 0, 2]), ("lerf", [0, 2, 1, 3])):
        assert [int(step[0]) for step in removal_order(scores, order=order)] == places
