"""The audit: cells again from per-example rows by a second, plain protocol; answers known beforehand."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import xarray as xr
from plain_rows import counted, plain_loo
from test_report import level, mnist_run, text_run

from lrp_companion.checks import CompanionError, InputError
from lrp_companion.lab.load import TextRun, load_run
from lrp_companion.lab.paper import protocol_grid, specification
from lrp_companion.lab.paper.protocol_grid import PROTOCOL_AXES, grid
from lrp_companion.metrics import Interval, agreement, bootstrap_mean
from lrp_companion.metrics.statistics import resampled, side_of_zero
from lrp_companion.schema import PROTOCOLS, SITES, STATISTICS, TOKEN_CHOICES, Protocol

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "results" / "sst2-companion"
recorded = pytest.mark.skipif(not (RECORD / "manifest.json").is_file(), reason="the record is not here")
WITH_POSITIONS = PROTOCOLS["words + positions, all tokens"]


def text(path: Path, *arguments: Any, **options: Any) -> TextRun:
    run = load_run(text_run(path, *arguments, **options))
    assert isinstance(run, TextRun)
    return run


# -- the second protocol of the records ----------------------------------------------------------------------


class Plain:
    """A record read from its files by loops over rows: no loader, no grid of the package."""

    def __init__(self, folder: Path) -> None:
        self.axes = json.loads((folder / "manifest.json").read_text())["axes"]
        self.examples = {row["job"]: row for row in pq.read_table(folder / "examples.parquet").to_pylist()}
        self.methods = {
            (row["method"], row["job"]): row for row in pq.read_table(folder / "methods.parquet").to_pylist()
        }
        self.jobs = sorted(self.examples)

    def r(self, method: str, protocol: Protocol) -> np.ndarray:
        out = []
        names = ("site", "tokens", "removal", "target", "statistic")
        sizes = [len(self.axes[name]) for name in names]
        where = [self.axes[name].index(getattr(protocol, name)) for name in names]
        flat = 0
        for size, k in zip(sizes, where, strict=True):
            flat = flat * size + k
        at_sum = (where[0] * sizes[1] + where[1]) * sizes[3] + where[3]
        for job in self.jobs:
            row = self.methods[method, job]
            r = row["r"][flat]
            if protocol.map == "sum-to-one":
                loo = plain_loo(self.examples[job], sizes[2], where[2], protocol.target)
                total = sum(loo[k] for k in counted(self.examples[job], protocol.tokens))
                r *= math.copysign(1, row["sum"][at_sum]) * math.copysign(1, total)
            out.append(r)
        return np.array(out)


@recorded
def test_two_hundred_cells_are_what_the_rows_give():
    plain, run = Plain(RECORD), load_run(RECORD)
    run_grid = grid(run)
    generator = np.random.default_rng(7)
    cells = list(itertools.product(*run_grid.axes.values()))
    assert len(cells) == 432 and run_grid.n == len(plain.jobs)
    drawn = np.random.default_rng(0).integers(0, run_grid.n, size=(10_000, run_grid.n))
    for number, k in enumerate(generator.choice(len(cells), 200, replace=False)):
        protocol = Protocol(**dict(zip(PROTOCOL_AXES, cells[k], strict=True)))
        a, b = plain.r("cp-lrp", protocol), plain.r("attnlrp", protocol)
        cell = run_grid.cell(protocol)
        for part, values in (("a", a), ("b", b), ("difference", a - b)):
            assert cell[part].mean == pytest.approx(values.mean(), abs=1e-6), (part, protocol)
            assert (cell[part].n, cell[part].undefined) == (run_grid.n, 0)
        if number < 12:
            limits = np.quantile((a - b)[drawn].mean(1), [0.025, 0.975])
            assert (cell["difference"].low, cell["difference"].high) == pytest.approx(limits, abs=1e-6), (
                protocol
            )


@recorded
@pytest.mark.parametrize("name", ["sst2-companion", "imdb-companion"])
def test_maps_divided_by_their_absolute_sum_have_the_r_of_raw_maps(name):
    """Why a grid has two maps and not three: in the recorded maps, by every statistic, token by token."""
    run = load_run(ROOT / "results" / "maps" / name)
    assert isinstance(run, TextRun)
    asked = itertools.product(("cp-lrp", "attnlrp"), SITES, TOKEN_CHOICES, STATISTICS)
    for method, site, tokens, statistic in asked:
        raw = Protocol(site=site, tokens=tokens, statistic=statistic)
        pairs = zip(run.maps(method, site=site), run.loo(raw), run.specials(), strict=True)
        maps = [(ours, loo, np.isin(np.arange(len(loo)), special)) for ours, loo, special in pairs][::9]
        r = np.array([agreement(*three, raw) for three in maps])
        divided = replace(raw, map="absolute-sum")
        assert [agreement(*three, divided) for three in maps] == pytest.approx(r, abs=1e-9, nan_ok=True)
        assert np.array_equal(run.r(method, divided), run.r(method, raw), equal_nan=True)


# -- draws ---------------------------------------------------------------------------------------------------


def test_draws_are_those_of_bootstrap_mean_and_undefined_values_are_counted():
    values = np.random.default_rng(1).normal(size=(40, 3))
    values[:5, 1] = np.nan
    values[1:, 2] = np.nan
    mean, draws, defined = resampled(values)
    interval = bootstrap_mean(values[:, 0])
    assert mean[0] == pytest.approx(interval.mean)
    assert np.quantile(draws[:, 0], [0.025, 0.975]) == pytest.approx([interval.low, interval.high])
    assert defined.tolist() == [40, 35, 1] and mean[1] == pytest.approx(np.nanmean(values[:, 1]))
    drawn = np.random.default_rng(0).integers(0, 40, size=(10_000, 40))
    assert draws[:100, 1] == pytest.approx(np.nanmean(values[:, 1][drawn[:100]], axis=1))
    assert np.isnan(draws[:, 2]).all()
    with pytest.raises(InputError, match="a row per example"):
        resampled(np.zeros(3))


# -- runs made by hand ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> TextRun:
    """AttnLRP leads by 0.25 at the words, CP-LRP with positions, where two of four sums are negative."""
    r = {
        "attnlrp": [(0.75, 0.25, -0.25), (0.7, 0.3, -0.3), (0.8, 0.2, 0.2), (0.75, 0.25, 0.25)],
        "cp-lrp": [(0.5, 0.5, 0.5), (0.45, 0.55, 0.55), (0.55, 0.45, 0.45), (0.5, 0.5, 0.5)],
    }
    return text(tmp_path_factory.mktemp("runs") / "turned", r)


def test_a_grid_holds_what_was_put_in(turned):
    run_grid = grid(turned)
    assert run_grid.shape == (3, 2, 2, 4, 3, 3) == run_grid.effects.shape
    assert run_grid.title == "SST-2, 12 layers"
    assert run_grid.cell()["difference"].mean == pytest.approx(-0.25, abs=1e-6)
    assert run_grid.cell()["b"].mean == pytest.approx(0.75, abs=1e-6)
    assert run_grid.cell(WITH_POSITIONS)["difference"].mean == pytest.approx(0.25, abs=1e-6)
    divided = replace(WITH_POSITIONS, map="sum-to-one")
    assert run_grid.cell(divided)["b"].mean == pytest.approx((-0.25 - 0.3 + 0.2 + 0.25) / 4, abs=1e-6)
    assert run_grid.cell(replace(WITH_POSITIONS, map="absolute-sum")) == run_grid.cell(WITH_POSITIONS)
    assert run_grid.cell(replace(divided, removal="delete"))["difference"].mean == pytest.approx(
        0.125, abs=1e-6
    ), "all r are 0.125; those of AttnLRP are turned in two texts of four"
    assert grid(turned) is run_grid, "computed once"
    back = grid(turned, a="attnlrp", b="cp-lrp").cell()["difference"]
    assert (back.mean, back.low) == pytest.approx((0.25, -run_grid.cell()["difference"].high), abs=1e-6)


def test_the_curve_is_sorted_and_counted(turned):
    run_grid = grid(turned)
    rows = run_grid.curve()
    assert len(rows) == 432 and [row["rank"] for row in rows] == list(range(1, 433))
    means = [row["difference"].mean for row in rows]
    assert means == sorted(means) and rows[0]["site"] == "word" and rows[0]["map"] == "raw"
    counted = protocol_grid.counts(run_grid)
    sides = [row["side"] for row in rows]
    assert counted["cells"] == 432 and [counted[side] for side in ("above", "below", "across")] == [
        sides.count(side) for side in ("above", "below", "across")
    ]
    only = {
        "site": "word",
        "tokens": "no-special",
        "removal": "attention-mask",
        "target": "logit",
        "statistic": "pearson",
    }
    assert (
        protocol_grid.counts(run_grid, **only)["cells"],
        protocol_grid.counts(run_grid, **only)["below"],
    ) == (2, 2)
    assert protocol_grid.counts(run_grid, site="word+position", tokens="all")[
        "largest"
    ].mean == pytest.approx(0.525, abs=1e-6)
    for wrong in ({"sight": "word"}, {"site": "words"}, {"map": "absolute-sum"}):
        with pytest.raises(InputError, match="expected one of"):
            protocol_grid.counts(run_grid, **wrong)
    assert [
        side_of_zero(Interval(0, low, high, 5)) for low, high in ((0.1, 1), (-1, -0.1), (-1, 1), (0.0, 1))
    ] == ["above", "below", "across", "across"]


def test_undefined_maps_are_counted(tmp_path):
    r = {"attnlrp": level(0.5, 0.25, float("nan")), "cp-lrp": level(0.75, 0.5, 0.25)}
    run_grid = grid(text(tmp_path / "holes", r, n=3))
    cell = run_grid.cell()
    assert (cell["a"].n, cell["a"].undefined, cell["b"].n, cell["b"].undefined) == (3, 0, 2, 1)
    assert cell["difference"].n == 2 and cell["difference"].mean == pytest.approx(0.25)
    assert cell["difference"].low == pytest.approx(0.25) and cell["b"].low == 0.25 and cell["b"].high == 0.5
    alone = text(tmp_path / "one", {"attnlrp": level(0.5), "cp-lrp": level(float("nan"))}, n=1)
    whole = grid(alone)
    assert side_of_zero(whole.cell()["difference"]) == "undefined"
    assert protocol_grid.counts(whole)["undefined"] == 432


def test_presets_that_there_are_not(tmp_path):
    same = text(tmp_path / "same", {"attnlrp": level(0.5, 0.5), "cp-lrp": level(0.6, 0.6)}, task="imdb", n=2)
    assert protocol_grid.largest_flip(grid(same)) is None
    assert protocol_grid.nearest_to_paper([grid(same)]) is None
    assert [label for label, *_ in protocol_grid.presets([grid(same)])] == ["words only (default)"]


# -- bad input -----------------------------------------------------------------------------------------------


def test_bad_input_is_refused_by_name(turned, tmp_path):
    digits = load_run(mnist_run(tmp_path / "digits", {}))
    imdb = grid(text(tmp_path / "imdb", {}, task="imdb", n=2))
    cases = [
        (lambda: grid(digits), "no run on reviews"),
        (lambda: grid(turned, a="cp"), "method 'cp'; expected one of loo, ig"),
        (
            lambda: imdb.cell(Protocol(removal="delete")),
            "removal 'delete'; expected one of attention-mask, mask-token",
        ),
    ]
    for call, words in cases:
        with pytest.raises(CompanionError, match=words):
            call()


# -- the specification curve ---------------------------------------------------------------------------------


def made_up(seed: int, *, effect: float = 0.0) -> xr.DataArray:
    """Differences of 40 sentences in 12 cells that share most of what they are."""
    generator = np.random.default_rng(seed)
    values = generator.normal(effect, 1, (40, 1, 1)) + 0.3 * generator.normal(size=(40, 3, 4))
    return xr.DataArray(values, dims=["example", "site", "map"])


def test_without_an_effect_p_is_uniform_and_a_planted_one_is_found():
    made = [specification.specification(made_up(seed), flips=99) for seed in range(400)]
    for name in ("p", "p of the count"):
        p = np.array([row[name] for row in made])
        for size in (0.05, 0.2, 0.5):  # counts have ties, so the second test may reject less often
            low = 0 if name != "p" else size - 4 * math.sqrt(size * (1 - size) / 400)
            assert low <= (p <= size).mean() <= size + 4 * math.sqrt(size * (1 - size) / 400)
    assert np.mean([max(row["above"], row["below"]) > 6 for row in made]) > 0.02, "many at once, by chance"
    planted = specification.specification(made_up(0, effect=1.0), flips=99)
    assert planted["p"] == planted["p of the count"] == 0.01 and planted["above"] == 12
    assert planted == specification.specification(made_up(0, effect=1.0), flips=99)


def test_a_cell_without_values_is_no_cell_and_nan_is_left_out():
    d = made_up(1, effect=0.5)
    d[:10, 0, 0], d[:, 1, 1] = np.nan, np.nan
    row = specification.specification(d, flips=99)
    means = d.mean("example").values
    assert row["cells"] == 11 and row["median"] == pytest.approx(np.nanmedian(means))


@recorded
def test_the_curve_of_the_record_and_the_choices_that_hold_it():
    run = load_run(RECORD)
    d, cells = specification.leads(run), grid(run)
    row, counted_cells = specification.specification(d), protocol_grid.counts(cells)
    assert [row[name] for name in ("cells", "above", "below", "across")] == [
        counted_cells[name] for name in ("cells", "above", "below", "across")
    ]
    assert [round(row[name] / 432, 2) for name in ("above", "across", "below")] == [0.23, 0.14, 0.62]
    assert row["median"] == pytest.approx(np.median(cells.effects)) == pytest.approx(-0.023, abs=5e-4)
    assert row["p"] < 0.002 and row["p of the count"] < 0.002 and 40 < row["by chance"] < 130 < row["below"]
