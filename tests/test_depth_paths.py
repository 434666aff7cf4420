"""Layer paths of runs beside the paper's: each number by a slow way, from the run's own columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lrp_book.analysis.depth_paths import KEYS, LABELS, depth_paths, ends_of
from lrp_book.analysis.findings import value_of
from lrp_book.committed import records

from lrp_companion.checks import InputError
from lrp_companion.metrics import bootstrap_mean
from lrp_companion.paper.published import paper_table
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import PROTOCOLS

RESULTS = str(Path(__file__).resolve().parent.parent / "results")


@pytest.fixture(scope="module")
def runs() -> list[Any]:
    return list(records(RESULTS).runs.values())


@pytest.fixture(scope="module")
def data(runs: list[Any]) -> dict[str, Any]:
    return depth_paths(runs)


def slow_masks(path: str, layers: int) -> list[set[int]]:
    """The layers that are bypassed at layer k of a path, k = 1..L."""
    every = range(1, layers + 1)
    if path == "single":
        return [{k} for k in every]
    return [{m for m in every if (m <= k if path == "front-to-back" else m >= k)} for k in every]


def test_every_number_is_that_of_the_record(runs: list[Any], data: dict[str, Any]) -> None:
    texts = {run.name: run for run in runs if isinstance(run, TextRun)}
    assert [row["key"] for row in data["runs"]] == list(texts) and len(texts) == 4
    for row in data["runs"]:
        run = texts[row["key"]]
        assert row["n"] == run.n and row["layers"] == run.layers
        for key, name in KEYS.items():
            for path in LABELS:
                masks = slow_masks(path, run.layers)
                values = [run.r(frozenset(mask), PROTOCOLS[name]) for mask in masks]
                cells = row["cells"][key][path]
                np.testing.assert_allclose(cells["mean"], [np.nanmean(r) for r in values], rtol=1e-6)
                first = bootstrap_mean(values[0])
                assert (cells["low"][0], cells["high"][0]) == pytest.approx((first.low, first.high), abs=2e-3)
                last, none = (values[-1], values[0]) if path == "single" else (None, None)
                if last is None:
                    last = run.r(frozenset(range(1, run.layers + 1)), PROTOCOLS[name])
                    none = run.r(frozenset(), PROTOCOLS[name])
                ends = row["ends"][key][path]
                assert ends["mean"] == pytest.approx(np.nanmean(last - none), rel=1e-6)
                above, below = ends["low"] > 0, ends["high"] < 0
                assert ends["side"] == ("above" if above else "below" if below else "across")


def test_the_ends_are_what_the_chapter_says(data: dict[str, Any]) -> None:
    (row,) = [row for row in data["runs"] if row["key"] == "sst2-companion"]
    for key in ("words", "positions"):
        said, value = (
            value_of(f"sst2-12, CP-LRP minus AttnLRP, {key}", RESULTS),
            row["ends"][key]["back-to-front"],
        )
        assert (value["mean"], value["low"], value["high"]) == pytest.approx(
            (said.mean, said.low, said.high), abs=1e-6
        )


def test_the_papers_values_are_by_layer_and_for_its_depth_only(data: dict[str, Any]) -> None:
    printed = paper_table("tableA3")
    for row in data["runs"]:
        if row["layers"] != 12:
            assert row["paper"] is None and row["paper ends"]["single"] is None
            continue
        name = "SST" if row["label"].startswith("SST") else "IMDB"
        for path, values in row["paper"].items():
            for mask, value in zip(slow_masks(path, 12), values, strict=True):
                (cell,) = [
                    line["loo_r"]
                    for line in printed
                    if line["dataset"] == name
                    and line["path"] == path.replace("-", "_")
                    and set(line["bypass"]) == mask
                ]
                assert value == cell
        r = {line["method"]: line["loo_r"] for line in paper_table("table2") if line["dataset"] == name}
        assert row["paper ends"]["back-to-front"] == pytest.approx(r["CP-LRP"] - r["AttnLRP"])


def test_ends_and_what_is_refused(runs: list[Any]) -> None:
    assert ends_of("back-to-front", 4) == (frozenset({1, 2, 3, 4}), frozenset())
    assert ends_of("single", 4) == (frozenset({4}), frozenset({1}))
    with pytest.raises(InputError, match="no run with masks"):
        depth_paths([run for run in runs if not isinstance(run, TextRun)])
