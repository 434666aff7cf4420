"""Paired comparisons: against plain loops, against SciPy, and on columns whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lrp_book.paired import bootstrap_median, compare_paired, fisher_z, win_rate
from scipy import stats

from lrp_companion.checks import InputError
from lrp_companion.metrics.statistics import (
    Interval,
    bootstrap_mean,
    detectable,
    mean_over,
    over_trainings,
    paired_difference,
)

RNG = np.random.default_rng(3)
A, B = RNG.uniform(-1, 1, 60), RNG.uniform(-1, 1, 60)


def test_every_measure_equals_its_plain_form():
    a, b = A.copy(), B.copy()
    a[3], b[7] = np.nan, np.nan
    result = compare_paired(a, b)
    difference = [x - y for x, y in zip(a, b, strict=True) if not np.isnan(x + y)]
    assert result.n == 58 and result.mean.undefined == 2
    assert result.mean == paired_difference(a, b)
    assert result.median.mean == sorted(difference)[28] / 2 + sorted(difference)[29] / 2
    assert result.wins.mean == sum(d > 0 for d in difference) / 58
    z = [np.arctanh(x) - np.arctanh(y) for x, y in zip(a, b, strict=True) if not np.isnan(x + y)]
    assert result.z.mean == pytest.approx(np.mean(z))


def test_a_minority_that_carries_the_mean_is_named():
    a = np.concatenate([np.full(70, -0.01), np.full(30, 0.5)])
    result = compare_paired(a, np.zeros(100))
    assert result.sides["mean"] == "above" and result.sides["wins"] == "below"
    assert result.disagree == ("median", "wins")


def test_ties_count_as_a_half():
    assert win_rate([1.0, 0.0, 0.0], [0.0, 0.0, 1.0]).mean == 0.5


def test_fisher_z_is_artanh_and_finite_at_one():
    r = np.linspace(-0.99, 0.99, 9)
    assert fisher_z(r) == pytest.approx(np.arctanh(r))
    assert np.isfinite(fisher_z([1.0, -1.0])).all() and fisher_z([1.0])[0] == -fisher_z([-1.0])[0]
    assert np.isnan(fisher_z([np.nan])).all()


def test_the_median_interval_holds_scipy_s():
    ours = bootstrap_median(A)
    theirs = stats.bootstrap((A,), np.median, method="percentile", random_state=0, n_resamples=5000)
    low, high = theirs.confidence_interval
    assert ours.low == pytest.approx(low, abs=0.06) and ours.high == pytest.approx(high, abs=0.06)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=30))
def test_the_median_lies_in_its_interval(values):
    result = bootstrap_median(values)
    assert result.low <= result.mean <= result.high


def test_detectable_is_the_effect_of_power_0_8():
    generator = np.random.default_rng(0)
    n, sd = 200, 1.0
    half = 1.959964 * sd / np.sqrt(n)
    effect = detectable(Interval(0.0, -half, half, n))
    seen = np.abs(generator.normal(effect, sd / np.sqrt(n), 20_000)) > half
    assert seen.mean() == pytest.approx(0.8, abs=0.01)


def test_over_trainings_is_wider_than_over_examples_and_has_the_mean_of_means():
    columns = {seed: A + shift for seed, shift in enumerate((-0.2, 0.0, 0.2))}
    result = over_trainings(columns)
    alone = bootstrap_mean(A)
    assert result.mean == pytest.approx(A.mean()) and result.n == 60
    assert result.low < alone.low and result.high > alone.high


def test_over_trainings_of_equal_columns_is_student_s_interval_over_examples():
    result = over_trainings({1: A, 2: A})
    assert (result.low, result.high) == pytest.approx(stats.t.interval(0.95, 59, A.mean(), stats.sem(A)))


def test_over_trainings_without_examples_that_differ_is_student_s_over_the_trainings():
    means = [0.1, 0.4, 0.2, 0.25]
    result = over_trainings({k: np.full(50, mean) for k, mean in enumerate(means)})
    expected = stats.t.interval(0.95, 3, np.mean(means), stats.sem(means))
    assert (result.low, result.high) == pytest.approx(expected)


@pytest.mark.parametrize("trainings", [2, 3, 5])
@pytest.mark.parametrize("spread", [(0.0, 0.3, 0.1), (0.02, 0.3, 0.1), (0.1, 0.3, 0.1), (0.1, 0.02, 0.05)])
def test_intervals_over_trainings_cover_what_they_say(trainings: int, spread: tuple[float, float, float]):
    """Of 1,500 made-up studies with trainings, examples and their interplay that vary by `spread`."""
    generator = np.random.default_rng(trainings)
    between, examples, both = spread
    covered = 0
    for _ in range(1_500):
        columns = generator.normal(0, between, (trainings, 1)) + generator.normal(0, examples, 100)
        columns = columns + generator.normal(0, both, (trainings, 100))
        made = over_trainings(dict(enumerate(columns)))
        covered += made.low <= 0 <= made.high
    assert covered / 1_500 > 0.93


def test_bootstrap_intervals_of_skewed_r_cover_what_they_say():
    """1 - r is gamma distributed, as skewed as r over sentences; 50 examples, the fewest in a record."""
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(600):
        made = bootstrap_mean(1 - generator.gamma(0.8, 0.3, 50), resamples=1_000)
        covered += made.low <= 1 - 0.8 * 0.3 <= made.high
    assert covered / 600 > 0.91  # 0.93 but for the chance of 600 studies


def test_undefined_examples_are_counted():
    a = A.copy()
    a[0] = np.nan
    assert over_trainings({1: a, 2: A}).undefined == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda: over_trainings({1: [0.1, 0.2]}),
        lambda: over_trainings({1: [0.1, 0.2], 2: [0.1]}),
        lambda: compare_paired([0.1], [0.1, 0.2]),
        lambda: bootstrap_median([]),
    ],
)
def test_bad_columns_are_refused(call):
    with pytest.raises(InputError):
        call()


def test_mean_over_one_training_is_the_interval_over_examples():
    assert mean_over({1: A}) == bootstrap_mean(A)
    two = {1: A, 2: [2 * a for a in A]}
    assert mean_over(two) == over_trainings(two)
    with pytest.raises(InputError, match="0 columns"):
        mean_over({})
