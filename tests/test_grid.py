"""Agreement under every choice at once, against one correlation at a time."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrp_companion.checks import SITES, InputError
from lrp_companion.metrics import agreement, kendall, normalise, pearson, spearman
from lrp_companion.metrics.faithfulness import AXES, agreement_grid, at_map, cross_correlation
from lrp_companion.schema import MAP_CHOICES, REMOVALS, STATISTICS, TARGET_CHOICES, TOKEN_CHOICES, Protocol

CORRELATIONS = {"pearson": pearson, "spearman": spearman, "kendall": kendall}
NAN = float("nan")
TINY = 2.0**-60  # beside numbers of size 1 it cancels to less than the rounding of single precision


def place(protocol: Protocol) -> tuple[int, ...]:
    """The index of a protocol's r on the axes of a grid."""
    return tuple(options.index(getattr(protocol, name)) for name, options in AXES.items())


# halves, so that ties, constant maps and sums that cancel occur, and numbers of every size
values = st.one_of(st.integers(-3, 3).map(lambda k: k / 2), st.sampled_from([0.0, TINY, -TINY, 1e30, -1e-30]))


def rows(tokens: int, least: int = 1, most: int = 4) -> st.SearchStrategy[np.ndarray]:
    row = st.lists(values, min_size=tokens, max_size=tokens)
    return st.lists(row, min_size=least, max_size=most).map(
        lambda drawn: np.array(drawn, dtype=np.float64).reshape(len(drawn), tokens)
    )


def same(a: float, b: float) -> bool:
    return math.isnan(a) == math.isnan(b) and (math.isnan(a) or abs(a - b) < 1e-12)


@pytest.mark.parametrize("statistic", STATISTICS)
@given(drawn=st.integers(2, 9).flatmap(lambda tokens: st.tuples(rows(tokens), rows(tokens))))
def test_every_row_with_every_row_is_one_correlation_at_a_time(statistic, drawn):
    a, b = drawn
    correlations = cross_correlation(a, b, statistic)
    assert correlations.shape == (len(a), len(b))
    for i, j in itertools.product(range(len(a)), range(len(b))):
        assert same(correlations[i, j], CORRELATIONS[statistic](a[i], b[j]))


@pytest.mark.parametrize("statistic", STATISTICS)
def test_rows_with_nan_or_infinity_are_undefined_and_leave_the_others_alone(statistic):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(5, 7)), rng.normal(size=(4, 7))
    whole = cross_correlation(a, b, statistic)
    a[1, 3], b[2, 0], a[4] = NAN, np.inf, 2.5
    correlations = cross_correlation(a, b, statistic)
    assert np.isnan(correlations[[1, 4]]).all() and np.isnan(correlations[:, 2]).all()
    two_texts = cross_correlation(np.stack([a, 2 * a[::-1]]), np.stack([b, b]), statistic)
    np.testing.assert_allclose(two_texts, [correlations, correlations[::-1]], rtol=0, atol=1e-12)
    rest = np.ix_([0, 2, 3], [0, 1, 3])
    assert np.array_equal(correlations[rest], whole[rest]) or np.allclose(
        correlations[rest], whole[rest], atol=1e-14, rtol=0
    )
    assert cross_correlation(np.full((2, 7), NAN), b, statistic).shape == (2, 4)


@st.composite
def texts(draw) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Maps (2, site, target, T), LOO (removal, target, T), special tokens; one to seven tokens."""
    tokens = draw(st.integers(1, 7))
    maps = draw(rows(tokens, 18, 18)).reshape(2, len(SITES), len(TARGET_CHOICES), tokens)
    loo = draw(rows(tokens, 12, 12)).reshape(len(REMOVALS), len(TARGET_CHOICES), tokens)
    return maps, loo, np.array(draw(st.lists(st.booleans(), min_size=tokens, max_size=tokens)))


def by_hand(scores: np.ndarray, loo: np.ndarray, special: np.ndarray, protocol: Protocol) -> float:
    return agreement(scores, loo, special, protocol)


@given(text=texts())
def test_grid_is_agreement_under_every_choice(text):
    maps, loo, special = text
    grid = agreement_grid(maps, loo, special)
    assert grid.shape == (2, *map(len, AXES.values()))
    for site, tokens, removal, target, statistic in itertools.product(*AXES.values()):
        protocol = Protocol(site=site, tokens=tokens, removal=removal, target=target, statistic=statistic)
        s, _, r, o, _ = place(protocol)
        for k in range(2):
            assert same(grid[(k, *place(protocol))], by_hand(maps[k, s, o], loo[r, o], special, protocol))


@given(text=texts())
def test_every_map_choice_follows_from_the_sums(text):
    maps, loo, special = text
    grid = agreement_grid(maps[0], loo, special)
    for tokens, map, statistic in itertools.product(TOKEN_CHOICES, MAP_CHOICES, STATISTICS):
        protocol = Protocol(tokens=tokens, map=map, statistic=statistic)
        kept = ~special if tokens == "no-special" else np.ones(len(special), dtype=bool)
        raw = np.array([grid[place(protocol)]])
        sums = tuple(np.array([scores[0, 0, kept].sum()]) for scores in (maps[0], loo))
        sizes = tuple(np.array([np.abs(scores[0, 0, kept]).sum()]) for scores in (maps[0], loo))
        assert same(
            at_map(raw, map, sums=sums, sizes=sizes)[0], by_hand(maps[0, 0, 0], loo[0, 0], special, protocol)
        )


def test_a_negative_sum_turns_r_and_a_cancelled_one_ends_it():
    loo = np.array([1.0, 2.0, 4.0])
    for scores, wanted in (
        ([1.0, 2, 4], 1),
        ([-1.0, -2, -4], 1),
        ([-4.0, -2, -1], -1),
        ([1.0, -3, 2], NAN),
        ([1.0, -3, 2 + 1e-9], NAN),
    ):
        values = np.array(scores)
        r = np.array([pearson(values, loo)])
        r_of_shares = at_map(
            r,
            "sum-to-one",
            sums=(values.sum(None, keepdims=True), loo.sum(None, keepdims=True)),
            sizes=(np.abs(values).sum(None, keepdims=True), np.array([7.0])),
        )[0]
        map_shares = normalise(values, "sum-to-one")
        assert same(r_of_shares, NAN if np.isnan(map_shares).any() else pearson(map_shares, loo / loo.sum()))
        assert math.isnan(wanted) == math.isnan(r_of_shares)
        assert math.isnan(wanted) or np.sign(r_of_shares) == wanted
        for map in ("raw", "absolute-sum"):
            assert at_map(r, map, sums=(values[:1], loo[:1]), sizes=(values[:1], loo[:1]))[0] == r[0]
    with pytest.raises(InputError, match="map 'square'"):
        at_map(np.zeros(1), "square", sums=(loo, loo), sizes=(loo, loo))
