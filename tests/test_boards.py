"""The switchboard's boards hold the cells of the records."""

from __future__ import annotations

import base64
import itertools
import json
from typing import Any

import numpy as np
import pytest
from test_digit_variants import digits, run  # noqa: F401 - fixtures
from test_protocol_grid import RECORD, WITH_POSITIONS, Plain, recorded, text, turned  # noqa: F401
from test_report import EXPLAINERS, level, mnist_run

from lrp_companion import ProtocolSwitchboard
from lrp_companion.checks import InputError
from lrp_companion.lab.boards import _steps, digit_board, switchboard
from lrp_companion.lab.load import load_run
from lrp_companion.lab.paper.digit_variants import digit_grid
from lrp_companion.lab.paper.protocol_grid import GRID_OPTIONS, PROTOCOL_AXES, grid
from lrp_companion.schema import Protocol

RESULTS = RECORD.parent

# -- the switchboard ---------------------------------------------------------------------------------------


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
    cells_of = grid(load_run(RECORD))
    board = switchboard([load_run(RECORD)])["boards"][0]
    cells, missing = unpacked(board["runs"][0])
    for where in np.random.default_rng(3).integers(0, cells_of.shape, size=(200, 6)):
        cell = cells_of.cell(cells_of.protocols[np.ravel_multi_index(where, cells_of.shape)])
        parts = itertools.product(("b", "a", "difference"), ("mean", "low", "high"))
        is_kept_as(cells[tuple(where)] / 1e4, [getattr(cell[part], name) for part, name in parts])
    assert missing.max() == 0 and len(json.dumps(board)) < 60_000
    assert board["runs"][0]["paper"] == {"a": 0.52, "b": 0.22} and board["start"]["run"] == "sst2-companion"


def test_a_cell_of_the_switchboard_prints_as_its_value():
    values = np.array([[-0.01503, -0.01497, 0.01497], [0.01503, -0.0049999, 0.33333], [np.nan, -1.0, 1.0]])
    steps = _steps(values)
    assert steps.tolist() == [[-151, -150, 150], [151, -49, 3333], [-32768, -10_000, 10_000]]


def test_switchboard_of_several_runs(turned, tmp_path):  # noqa: F811
    r = {"attnlrp": level(0.3, 0.4), "cp-lrp": level(0.5, 0.5)}
    imdb = text(tmp_path / "imdb-6", r, task="imdb", n=2, layers=6)
    maps = {(name, "left-right"): np.ones((2, 3)) for name in EXPLAINERS}
    board = switchboard([load_run(mnist_run(tmp_path / "digits", maps)), imdb, turned])["boards"][0]
    assert [one["label"] for one in board["runs"]] == ["IMDB, 6 layers", "SST-2, 12 layers"]
    assert [axis["key"] for axis in board["axes"]] == list(PROTOCOL_AXES)
    assert [len(axis["options"]) for axis in board["axes"]] == [3, 2, 2, 4, 3, 3]
    assert board["start"] == {"run": "turned", **vars(Protocol())}
    cells, missing = unpacked(board["runs"][0])
    assert (cells[:, :, :, 2:] == -32768).all() and (missing[:, :, :, 2:] == 2).all()
    assert (cells[:, :, :, :2, ..., 0] != -32768).all()
    assert cells[0, 0, 0, 0, 0, 0, ::3].tolist() == [3500, 5000, 1500]
    maps = [(option["key"], option.get("was")) for option in board["axes"][2]["options"]]
    assert maps == [("raw", "absolute-sum"), ("sum-to-one", None)], "addresses from before have three maps"
    names = ["words only (default)", "nearest to the paper's SST numbers", "largest flip"]
    assert [preset["label"] for preset in board["presets"]] == [f"{n} (SST-2, 12 layers)" for n in names]
    marked = [preset["state"] for preset in board["presets"][1:]]
    near, flip = ([state[name] for name in ("run", "site", "tokens", "map")] for state in marked)
    assert flip == ["turned", "word+position", "all", "sum-to-one"]
    assert near == ["turned", "word+position", "all", "raw"], "0.5 and 0.25 are near 0.52 and 0.22"
    json.dumps(board, allow_nan=False)
    holes = {"attnlrp": level(0.5, 0.25, float("nan")), "cp-lrp": level(0.75, 0.5, 0.25)}
    of_holes = switchboard([text(tmp_path / "holes", holes, n=3)])["boards"][0]["runs"][0]
    _, missing = unpacked(of_holes)
    assert missing[0, 0, 0, 0, 0, 0] == 1 and missing[2, 0, 0, 0, 0, 0] == 0


def test_the_board_of_digits_holds_their_grid(run, turned):  # noqa: F811
    data = switchboard([run, turned, run])
    assert [board["key"] for board in data["boards"]] == ["text", "digits"]
    board = data["boards"][1]
    assert board == digit_board(run) and "AttnLRP, Q(KᵀV)" in ProtocolSwitchboard(data).fallback()
    shape = [len(axis["options"]) for axis in board["axes"]]
    cells = np.frombuffer(base64.b64decode(board["runs"][0]["cells"]), "<i2").reshape(*shape, 9) / 10_000
    keys = {"run", *(axis["key"] for axis in board["axes"])}
    assert shape == [2, 2, 2, 2] and all(set(preset["state"]) == keys for preset in board["presets"])
    for place, row in zip(np.ndindex(*shape), digit_grid(run), strict=True):
        for k, name in enumerate(("AttnLRP, right with LOO", "AttnLRP, left with LOO", "difference")):
            wanted = [row[name].mean, row[name].low, row[name].high]
            is_kept_as(cells[place][3 * k : 3 * k + 3], wanted)
    with pytest.raises(InputError, match="no runs on reviews"):
        switchboard([run])
