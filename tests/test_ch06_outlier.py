"""One token decides: the leverage of one entry in r, and r with and without `[CLS]`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from lrp_book.ch06_outlier import COUNTED, lead, places, taken_out, under_whole_sums, with_and_without

from lrp_companion.checks import InputError
from lrp_companion.lab.load import load_run
from lrp_companion.metrics import leverage, pearson
from lrp_companion.schema import Protocol

RESULTS = Path(__file__).parents[1] / "results"


@pytest.fixture(scope="module")
def run():
    return load_run(RESULTS / "maps" / "imdb-companion")


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=4, max_size=12), st.integers(0, 3)
)
def test_the_formula_is_pearson_s_r(pairs, place) -> None:
    a, b = np.array(pairs, dtype=float).T
    others = np.arange(len(a)) != place
    assume(np.ptp(a[others]) and np.ptp(b[others]))
    assert leverage(a, b, place).r == pytest.approx(pearson(a, b), abs=1e-9)


def test_far_out_only_the_other_distance_is_left() -> None:
    b = [3.0, 2, 1, 0]
    for others in ([1.0, 2, 3], [3.0, 2, 1]):
        far = leverage([1e9, *others], b, 0)
        assert far.r == pytest.approx(far.v / np.sqrt(1 + far.v**2), abs=1e-6)


def test_bad_entries_are_refused() -> None:
    for call in (lambda: leverage([1, 2], [1, 2], 0), lambda: leverage([1, 2, 3], [1, 2, 3], 3)):
        with pytest.raises(InputError):
            call()


def test_r_is_that_of_the_record_where_it_has_it(run) -> None:
    r = with_and_without(run)
    for site in ("word", "word+position"):
        for counted, tokens in (("words", "no-special"), ("all", "all")):
            for statistic in ("pearson", "spearman"):
                protocol = Protocol(site=site, tokens=tokens, statistic=statistic)
                made = r.sel(explainer="attnlrp", site=site, counted=counted, statistic=statistic)
                assert made.values == pytest.approx(run.r("attnlrp", protocol), abs=1e-3), (
                    "maps are kept rounded"
                )


def test_without_cls_is_the_rest_of_the_leverage(run) -> None:
    at = {"site": "word+position", "counted": "no [CLS]", "statistic": "pearson"}
    r = with_and_without(run).sel(explainer="cp-lrp", **at)
    assert r.values == pytest.approx(places(run, "cp-lrp").sel(of="rest").values, abs=1e-9)
    assert lead(with_and_without(run)).sel(**at).shape == (run.n,)


def test_a_token_out_of_r_alone_still_sets_signs(run) -> None:
    at = {"explainer": "attnlrp", "site": "word+position", "statistic": "pearson"}
    raw, divided = with_and_without(run), with_and_without(run, divided=True, whole_sums=True)
    maps = run.maps("attnlrp", site="word+position")
    signs = [np.sign(one.sum() * loo.sum()) for one, loo in zip(maps, run.loo(), strict=True)]
    for counted in COUNTED:
        made, plain = (one.sel(**at, counted=counted).values for one in (divided, raw))
        assert made == pytest.approx(plain * signs, abs=1e-9)
    own = with_and_without(run, divided=True)
    assert own.sel(counted="all").equals(divided.sel(counted="all"))
    assert not own.sel(counted="no [CLS]").equals(divided.sel(counted="no [CLS]"))


def test_sums_over_all_tokens_give_the_words_their_signs(run) -> None:
    """From the maps that are kept, which are rounded."""
    at = {"site": "word+position", "counted": "words", "statistic": "pearson"}
    gaps = lead(with_and_without(run, divided=True, whole_sums=True)).sel(**at)
    made = under_whole_sums(run).sel(site="word+position").item()
    assert made.mean == pytest.approx(np.nanmean(gaps), abs=2e-3)


def test_what_the_chapter_says_of_a_tenth_and_of_the_sign_at_the_first_token() -> None:
    """SST-2, 12 layers, by Pearson."""
    r = taken_out(load_run(RESULTS / "maps" / "sst2-companion"))
    gains = np.sort(lead(r.sel(out="as it is")).values)
    assert gains.mean() > 0.05 and gains[: -(len(gains) // 10)].mean() < 0.005
    moved = r.sel(explainer="attnlrp", out="as it is") - r.sel(explainer="attnlrp", out="position of [CLS] 0")
    above = np.array([loo[0] > 0 for loo in load_run(RESULTS / "maps" / "sst2-companion").loo()])
    assert moved.values[above].mean() < -0.3 and abs(moved.values[~above].mean()) < 0.01
