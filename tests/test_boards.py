"""The switchboard: cells from per-example rows by a second, plain protocol; answers known beforehand."""

from __future__ import annotations

import base64
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from plain_rows import counted, plain_loo
from test_digit_variants import digits, run  # noqa: F401 - fixtures
from test_report import level, text_run

from lrp_companion import ProtocolSwitchboard
from lrp_companion.checks import InputError
from lrp_companion.lab.boards import GRID_OPTIONS, _steps, digit_board, digit_means, grid, switchboard
from lrp_companion.lab.load import TextRun, load_run
from lrp_companion.metrics import bootstrap_mean
from lrp_companion.metrics.statistics import resampled
from lrp_companion.schema import PROTOCOLS, Protocol

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "results" / "sst2-companion"
recorded = pytest.mark.skipif(not (RECORD / "manifest.json").is_file(), reason="the record is not here")
WITH_POSITIONS = vars(PROTOCOLS["words + positions, all tokens"])


def text(path: Path, *arguments: Any, **options: Any) -> TextRun:
    made = load_run(text_run(path, *arguments, **options))
    assert isinstance(made, TextRun)
    return made


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
    plain, cells = Plain(RECORD), grid(load_run(RECORD))
    generator = np.random.default_rng(7)
    options = list(itertools.product(*GRID_OPTIONS.values()))
    assert len(options) == 432
    drawn = np.random.default_rng(0).integers(0, len(plain.jobs), size=(10_000, len(plain.jobs)))
    for number, k in enumerate(generator.choice(len(options), 200, replace=False)):
        at = dict(zip(GRID_OPTIONS, options[k], strict=True))
        a, b = plain.r("cp-lrp", Protocol(**at)), plain.r("attnlrp", Protocol(**at))
        cell = cells.sel(at)
        assert (cell.n == len(plain.jobs)).all()
        for estimate, values in (("a", a), ("b", b), ("difference", a - b)):
            value = cell.value.sel(estimate=estimate)
            assert value.sel(part="mean").item() == pytest.approx(values.mean(), abs=1e-6), (estimate, at)
        if number < 12:
            limits = np.quantile((a - b)[drawn].mean(1), [0.025, 0.975])
            assert value.values[1:] == pytest.approx(limits, abs=1e-6), at


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


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> TextRun:
    """AttnLRP leads by 0.25 at the words, CP-LRP with positions, where two of four sums are negative."""
    r = {
        "attnlrp": [(0.75, 0.25, -0.25), (0.7, 0.3, -0.3), (0.8, 0.2, 0.2), (0.75, 0.25, 0.25)],
        "cp-lrp": [(0.5, 0.5, 0.5), (0.45, 0.55, 0.55), (0.55, 0.45, 0.45), (0.5, 0.5, 0.5)],
    }
    return text(tmp_path_factory.mktemp("runs") / "turned", r)


def test_a_grid_holds_what_was_put_in(turned):
    means = grid(turned).value.sel(part="mean")
    words, positions = (means.sel(at) for at in (vars(Protocol()), WITH_POSITIONS))
    assert words.sel(estimate=["b", "difference"]).values == pytest.approx([0.75, -0.25], abs=1e-6)
    assert positions.sel(estimate="difference").item() == pytest.approx(0.25, abs=1e-6)
    divided = means.sel(WITH_POSITIONS | {"map": "sum-to-one"})
    assert divided.sel(estimate="b").item() == pytest.approx((-0.25 - 0.3 + 0.2 + 0.25) / 4, abs=1e-6)
    # all other r are 0.125; those of AttnLRP are turned in two texts of four
    deleted = means.sel(WITH_POSITIONS | {"map": "sum-to-one", "removal": "delete"})
    assert deleted.sel(estimate="difference").item() == pytest.approx(0.125, abs=1e-6)


def test_undefined_maps_are_counted(tmp_path):
    r = {"attnlrp": level(0.5, 0.25, float("nan")), "cp-lrp": level(0.75, 0.5, 0.25)}
    cell = grid(text(tmp_path / "holes", r, n=3)).sel(vars(Protocol()))
    assert cell.n.sel(estimate=["a", "b", "difference"]).values.tolist() == [3, 2, 2]
    assert cell.value.sel(estimate="difference").values == pytest.approx([0.25, 0.25, 0.25])
    assert cell.value.sel(estimate="b").values[1:].tolist() == [0.25, 0.5]


def unpacked(of_run: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    shape = tuple(map(len, GRID_OPTIONS.values()))
    cells = np.frombuffer(base64.b64decode(of_run["cells"]), "<i2").reshape(*shape, 9)
    return cells, np.frombuffer(base64.b64decode(of_run["undefined"]), "<u2").reshape(shape)


def is_kept_as(cells, values) -> None:
    """A cell has four decimals: the nearest, or its neighbour where that prints as the value does."""
    as_nearest = np.array([f"{round(value, 4):.2f}" == f"{value:.2f}" for value in values])
    assert (np.abs(np.asarray(cells) - values) <= np.where(as_nearest, 5.1e-5, 1.01e-4)).all()
    assert [f"{cell:.2f}" for cell in cells] == [f"{value:.2f}" for value in values]


@recorded
def test_the_switchboard_shows_the_cells_of_the_grid():
    run = load_run(RECORD)  # noqa: F811
    values = grid(run).value.transpose(*GRID_OPTIONS, "estimate", "part").values
    board = switchboard([run])["boards"][0]
    cells, missing = unpacked(board["runs"][0])
    for where in np.random.default_rng(3).integers(0, cells.shape[:6], size=(200, 6)):
        is_kept_as(cells[tuple(where)] / 1e4, values[tuple(where)].ravel())
    assert missing.max() == 0 and len(json.dumps(board)) < 60_000
    assert board["runs"][0]["paper"] == {"a": 0.52, "b": 0.22} and board["start"]["run"] == "sst2-companion"


def test_a_cell_of_the_switchboard_prints_as_its_value():
    values = np.array([[-0.01503, -0.01497, 0.01497], [0.01503, -0.0049999, 0.33333], [np.nan, -1.0, 1.0]])
    steps = _steps(values)
    assert steps.tolist() == [[-151, -150, 150], [151, -49, 3333], [-32768, -10_000, 10_000]]


def test_the_board_of_digits_holds_their_grid(run, turned):  # noqa: F811
    data = switchboard([run, turned, run])
    assert [board["key"] for board in data["boards"]] == ["text", "digits"]
    board = data["boards"][1]
    assert board == digit_board(run) and "AttnLRP, Q(KᵀV)" in ProtocolSwitchboard(data).fallback()
    shape = [len(axis["options"]) for axis in board["axes"]]
    cells = np.frombuffer(base64.b64decode(board["runs"][0]["cells"]), "<i2").reshape(*shape, 9) / 10_000
    keys = {"run", *(axis["key"] for axis in board["axes"])}
    assert shape == [2, 2, 2, 2] and all(set(preset["state"]) == keys for preset in board["presets"])
    for place, (right, left, *_) in zip(np.ndindex(*shape), digit_means(run), strict=True):
        for k, values in enumerate((right, left, left - right)):
            wanted = bootstrap_mean(values)
            is_kept_as(cells[place][3 * k : 3 * k + 3], [wanted.mean, wanted.low, wanted.high])
    with pytest.raises(InputError, match="no runs on reviews"):
        switchboard([run])
