"""The audit: cells again from per-example rows by a second, plain protocol; answers known beforehand."""

from __future__ import annotations

import base64
import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from lrp_book.analysis import effect_causes, subgroups
from lrp_book.analysis.significance import group_differences, holm
from lrp_book.views.boards import switchboard
from test_report import EXPLAINERS, level, mnist_run, text_run

from lrp_companion.checks import CompanionError, InputError
from lrp_companion.metrics import Interval, bootstrap_mean
from lrp_companion.metrics.statistics import resampled, side_of_zero
from lrp_companion.paper import protocol_grid
from lrp_companion.paper.protocol_grid import AXIS_OPTIONS, PROTOCOL_AXES, grid
from lrp_companion.runs.load import TextRun, load_run
from lrp_companion.schema import PROTOCOLS, Protocol

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
    """A record read from its files by loops over rows: no loader, no grid, no map arithmetic of the
    package.
    """

    def __init__(self, folder: Path) -> None:
        self.axes = json.loads((folder / "manifest.json").read_text())["axes"]
        self.examples = {row["job"]: row for row in pq.read_table(folder / "examples.parquet").to_pylist()}
        self.methods = {
            (row["method"], row["job"]): row for row in pq.read_table(folder / "methods.parquet").to_pylist()
        }
        self.jobs = sorted(self.examples)

    def loo_sum(self, job: int, removal: str, target: str, tokens: str) -> float:
        """Sum of the LOO map, a token at a time."""
        example = self.examples[job]
        count, chosen = example["tokens"], example["target"]
        after = np.array(example["after"]).reshape(len(self.axes["removal"]), count + 1, -1)[
            self.axes["removal"].index(removal)
        ]

        def output(logits: np.ndarray) -> float:
            others = [value for k, value in enumerate(logits) if k != chosen]
            if target == "probability":
                return math.exp(logits[chosen]) / sum(math.exp(value) for value in logits)
            return logits[chosen] - (max(others) if target == "margin" else 0.0)

        total = 0.0
        for token in range(count):
            if tokens == "all" or token not in example["special"]:
                total += output(after[0]) - output(after[token + 1])
        return total

    def r(self, method: str, protocol: Protocol) -> np.ndarray:
        out = []
        sizes = [len(self.axes[name]) for name in ("site", "tokens", "removal", "target", "statistic")]
        where = [
            self.axes[name].index(getattr(protocol, name))
            for name in ("site", "tokens", "removal", "target", "statistic")
        ]
        flat = 0
        for size, k in zip(sizes, where, strict=True):
            flat = flat * size + k
        at_sum = (where[0] * sizes[1] + where[1]) * sizes[3] + where[3]
        for job in self.jobs:
            row = self.methods[method, job]
            r = row["r"][flat]
            if protocol.map == "sum-to-one":
                loo = self.loo_sum(job, protocol.removal, protocol.target, protocol.tokens)
                r *= math.copysign(1, row["sum"][at_sum]) * math.copysign(1, loo)
            out.append(r)
        return np.array(out)


@recorded
def test_two_hundred_cells_are_what_the_rows_give():
    plain, run = Plain(RECORD), load_run(RECORD)
    run_grid = grid(run)
    generator = np.random.default_rng(7)
    cells = list(itertools.product(*run_grid.axes.values()))
    assert len(cells) == 648 and run_grid.n == len(plain.jobs)
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


def is_kept_as(cells, values) -> None:
    """A cell has four decimals: the nearest, or, where that would print otherwise than the value, its
    neighbour.
    """
    as_nearest = np.array([f"{round(value, 4):.2f}" == f"{value:.2f}" for value in values])
    assert (np.abs(np.asarray(cells) - values) <= np.where(as_nearest, 5.1e-5, 1.01e-4)).all()
    assert [f"{cell:.2f}" for cell in cells] == [f"{value:.2f}" for value in values]


@recorded
def test_the_switchboard_shows_these_cells():
    run_grid = grid(load_run(RECORD))
    board = switchboard([load_run(RECORD)])["boards"][0]
    cells, missing = unpacked(board["runs"][0])
    for where in np.random.default_rng(3).integers(0, run_grid.shape, size=(200, 6)):
        cell = run_grid.cell(run_grid.protocol(where))
        shown = [
            getattr(cell[part], name) for part in ("b", "a", "difference") for name in ("mean", "low", "high")
        ]
        is_kept_as(cells[tuple(where)] / 1e4, shown)
    assert missing.max() == 0 and len(json.dumps(board)) < 60_000
    assert board["runs"][0]["paper"] == {"a": 0.52, "b": 0.22} and board["start"]["run"] == "sst2-companion"


@recorded
def test_shares_on_special_tokens_are_what_the_rows_give():
    run = load_run(RECORD)
    rows = effect_causes.special_shares(run)
    assert [row["bypassed"] for row in rows][:3] == ["none", "12", "11 to 12"] and len(rows) == 13
    masks = pq.read_table(RECORD / "masks.parquet").to_pylist()
    of_mask = [row for row in masks if row["mask"] == 0b111000000000]
    sizes = np.array([row["size"] for row in of_mask]).reshape(-1, 3, 2, 3)[:, :, 1, 0]
    first = np.array([row["first"] for row in of_mask])
    last_three = rows[3]
    assert last_three["layers"] == [10, 11, 12]
    assert last_three["[CLS]"].mean == pytest.approx(np.mean(np.abs(first[:, 0]) / sizes[:, 0]), abs=1e-6)
    assert last_three["[CLS], with positions"].mean == pytest.approx(
        np.mean(np.abs(first[:, 0] + first[:, 1]) / sizes[:, 1]), abs=1e-6
    )
    assert last_three["position of [CLS]"].mean == pytest.approx(np.mean(first[:, 1] / sizes[:, 1]), abs=1e-6)
    last = np.array([row["last"] for row in of_mask])
    assert last_three["position of [SEP]"].mean == pytest.approx(np.mean(last[:, 1] / sizes[:, 1]), abs=1e-6)
    sums = np.array([row["sum"] for row in of_mask]).reshape(-1, 3, 2, 3)[:, 1, 1, 0]
    assert last_three["negative sum, with positions"].mean == np.mean(sums < 0)


# -- draws ---------------------------------------------------------------------------------------------------


def test_draws_are_those_of_bootstrap_mean_and_undefined_values_are_counted():
    values = np.random.default_rng(1).normal(size=(40, 3))
    values[:5, 1] = np.nan
    values[1:, 2] = np.nan
    mean, draws, defined = resampled(values)
    interval = bootstrap_mean(values[:, 0])
    assert mean[0] == pytest.approx(interval.mean) and np.quantile(
        draws[:, 0], [0.025, 0.975]
    ) == pytest.approx([interval.low, interval.high])
    assert defined.tolist() == [40, 35, 1] and mean[1] == pytest.approx(np.nanmean(values[:, 1]))
    drawn = np.random.default_rng(0).integers(0, 40, size=(10_000, 40))
    assert draws[:100, 1] == pytest.approx(np.nanmean(values[:, 1][drawn[:100]], axis=1))
    assert np.isnan(draws[:, 2]).all()
    with pytest.raises(InputError, match="a row per example"):
        resampled(np.zeros(3))


# -- runs made by hand ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> TextRun:
    """AttnLRP is ahead by 0.25 at the words, behind by 0.25 with positions; there its sum is negative in two
    of four texts.
    """
    r = {
        "attnlrp": [(0.75, 0.25, -0.25), (0.7, 0.3, -0.3), (0.8, 0.2, 0.2), (0.75, 0.25, 0.25)],
        "cp-lrp": [(0.5, 0.5, 0.5), (0.45, 0.55, 0.55), (0.55, 0.45, 0.45), (0.5, 0.5, 0.5)],
    }
    return text(tmp_path_factory.mktemp("runs") / "turned", r)


def test_a_grid_holds_what_was_put_in(turned):
    run_grid = grid(turned)
    assert (
        run_grid.shape == (3, 2, 3, 4, 3, 3)
        and run_grid.effects.shape == (3, 2, 2, 4, 3, 3)
        and run_grid.title == "SST-2, 12 layers"
    )
    assert run_grid.cell()["difference"].mean == pytest.approx(-0.25, abs=1e-6) and run_grid.cell()[
        "b"
    ].mean == pytest.approx(0.75, abs=1e-6)
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
    ) == (
        2,
        2,
    )
    assert protocol_grid.counts(run_grid, site="word+position", tokens="all")[
        "largest"
    ].mean == pytest.approx(0.525, abs=1e-6)
    for wrong in ({"sight": "word"}, {"site": "words"}, {"map": "absolute-sum"}):
        with pytest.raises(InputError, match="expected one of"):
            protocol_grid.counts(run_grid, **wrong)
    assert [side_of_zero(Interval(0, low, high, 5)) for low,
        high in ((0.1, 1), (-1, -0.1), (-1, 1), (0.0, 1))] == [
        "above", "below", "across", "across",
    ]  # fmt: skip


def test_main_effects_are_means_over_cells(turned):
    run_grid = grid(turned)
    rows = {(row["choice"], row["option"]): row for row in protocol_grid.choice_effects(run_grid)}
    assert {row["cells"] for (name, _), row in rows.items() if name == "site"} == {144}
    by_site = run_grid.effects.reshape(3, -1).mean(1)
    assert [rows["site", site]["mean"].mean for site in AXIS_OPTIONS["site"]] == pytest.approx(by_site)
    assert rows["site", "word"]["moves by"].mean == pytest.approx(by_site[0] - run_grid.effects.mean())
    for name, options in run_grid.distinct.items():
        assert sum(rows[name, option]["moves by"].mean for option in options) == pytest.approx(0, abs=1e-12)
    assert (
        rows["tokens", "all"]["mean"].low
        <= rows["tokens", "all"]["mean"].mean
        <= rows["tokens", "all"]["mean"].high
    )


def test_undefined_maps_are_counted(tmp_path):
    r = {"attnlrp": level(0.5, 0.25, float("nan")), "cp-lrp": level(0.75, 0.5, 0.25)}
    run_grid = grid(text(tmp_path / "holes", r, n=3))
    cell = run_grid.cell()
    assert (cell["a"].n, cell["a"].undefined, cell["b"].n, cell["b"].undefined) == (3, 0, 2, 1)
    assert cell["difference"].n == 2 and cell["difference"].mean == pytest.approx(0.25)
    assert cell["difference"].low == pytest.approx(0.25) and cell["b"].low == 0.25 and cell["b"].high == 0.5
    _, missing = unpacked(switchboard([text(tmp_path / "holes", r, n=3)])["boards"][0]["runs"][0])
    assert missing[0, 0, 0, 0, 0, 0] == 1 and missing[2, 0, 0, 0, 0, 0] == 0
    alone = text(tmp_path / "one", {"attnlrp": level(0.5), "cp-lrp": level(float("nan"))}, n=1)
    whole = grid(alone)
    assert (
        side_of_zero(whole.cell()["difference"]) == "undefined"
        and protocol_grid.counts(whole)["undefined"] == 432
    )
    with pytest.raises(InputError, match="every cell defined"):
        protocol_grid.anova(whole)


def test_signs_split_the_examples(turned):
    split = effect_causes.signs(turned, "attnlrp", protocol=WITH_POSITIONS)
    assert (split["negative map"].mean, split["negative LOO"].mean, split["turned"].mean) == (0.5, 0.0, 0.5)
    assert split["r"].mean == pytest.approx(0.25, abs=1e-6) and split["r, sum to one"].mean == pytest.approx(
        -0.025, abs=1e-6
    )
    assert (
        split["r, both positive"].mean == pytest.approx(0.225, abs=1e-6) and split["r, both positive"].n == 2
    )
    assert split["r, otherwise"].mean == pytest.approx(0.275, abs=1e-6)
    assert split["r, otherwise, sum to one"].mean == pytest.approx(-0.275, abs=1e-6)
    whole = effect_causes.signs(turned, "cp-lrp", protocol=WITH_POSITIONS)
    assert whole["turned"].mean == 0 and whole["r, otherwise"] is None


# -- layers --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> TextRun:
    """Four layers. From the back r goes 0.1, 0.2 (layer 4), 0.5 (3), 0.6 (2), 0.5 (1); alone layer 2 adds
    most.
    """
    noise = (0.0, 0.01, -0.01, 0.02)

    def around(value: float) -> list[tuple[float, float, float]]:
        return level(*(value + eps for eps in noise))

    r: dict[Any, Any] = {
        "attnlrp": around(0.1),
        "cp-lrp": around(0.5),
        frozenset([4]): around(0.2),
        frozenset([3, 4]): around(0.5),
    }
    r |= {
        frozenset([2, 3, 4]): around(0.6),
        frozenset([1]): around(0.1),
        frozenset([2]): around(0.4),
        frozenset([3]): around(0.1),
    }
    return text(tmp_path_factory.mktemp("runs") / "stepped", r, layers=4)


def test_gains_of_layers_are_steps_of_the_path(stepped):
    rows = effect_causes.layer_gains(stepped)
    assert len(rows) == 3 * 2 * 2 * 4 * 3
    first = rows[0]
    assert [gain.mean for gain in first["gains"]] == pytest.approx([-0.1, 0.1, 0.3, 0.1], abs=1e-6)
    assert (first["largest"], first["largest in draws"]) == (3, 1.0)
    assert first["total"].mean == pytest.approx(0.4, abs=1e-6) and first[
        "later - first"
    ].mean == pytest.approx(0.4, abs=1e-6)
    assert first["share"].mean == pytest.approx(1.0, abs=1e-5) and first["later - first"].low > 0
    flat = next(row for row in rows if row["site"] == "embedding")
    assert flat["share"] is None and flat["total"].mean == 0, "without a total there is no part of it"
    alone = effect_causes.layer_gains(stepped, path="single")[0]
    assert [gain.mean for gain in alone["gains"]] == pytest.approx([0.0, 0.3, 0.0, 0.1], abs=1e-6) and alone[
        "largest"
    ] == 2
    assert alone["later - first"].mean == pytest.approx(-0.2, abs=1e-6)
    counted = effect_causes.late_counts(rows)
    assert (
        counted["cells"] == 144
        and counted["later"] == counted["total above"] == counted["later, total above"]
        and counted["across"] + counted["later"] == 144
    )
    front = effect_causes.layer_gains(stepped, path="front-to-back")[0]
    assert front["gains"][0].mean == pytest.approx(0.0, abs=1e-6) and front["total"].mean == pytest.approx(
        0.4, abs=1e-6
    )


# -- on what examples ----------------------------------------------------------------------------------------


def test_rank_correlation_and_its_p_are_those_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    generator = np.random.default_rng(2)
    x = generator.integers(0, 9, 150).astype(float)
    y = np.stack([x + generator.normal(0, 12, 150), generator.normal(size=150)], 1)
    for k, (effect, p) in enumerate(subgroups.rank_correlations(x, y)):
        theirs = stats.spearmanr(x, y[:, k])
        assert effect.mean == pytest.approx(theirs.statistic) and effect.low < effect.mean < effect.high
        assert p == pytest.approx(theirs.pvalue, abs=0.02)


def test_group_difference_and_its_p():
    stats = pytest.importorskip("scipy.stats")
    generator = np.random.default_rng(4)
    x = (np.arange(120) % 3 == 0).astype(float)
    y = generator.normal(size=(120, 2)) + np.array([0.5, 0.0]) * x[:, None]
    for k, (effect, p) in enumerate(group_differences(x, y)):
        assert effect.mean == pytest.approx(y[x == 1, k].mean() - y[x == 0, k].mean())
        assert p == pytest.approx(stats.ttest_ind(y[x == 1, k], y[x == 0, k]).pvalue, abs=0.02)
    same = group_differences(x, np.stack([x, -x], 1))
    assert [p for _, p in same] == [1 / 10_001] * 2, "no permutation reaches a perfect split"


def test_holm_by_hand_and_against_its_definition():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    p = np.random.default_rng(0).uniform(0, 0.2, 12).tolist()
    ordered = sorted(p)
    for value, corrected in zip(p, holm(p), strict=True):
        k = ordered.index(value)
        assert corrected == pytest.approx(min(1, max((12 - j) * ordered[j] for j in range(k + 1))))
    assert holm([]) == []


@recorded
def test_tags_are_compared_group_by_group():
    from lrp_book import views

    generator = np.random.default_rng(6)
    tags = [["a"] if k % 3 == 0 else ["a", "b"] if k % 3 == 1 else [] for k in range(90)] + [["rare"]]
    values = {
        "one": generator.normal(size=91),
        "two": generator.normal(size=91) + 3 * np.array(["b" in of_text for of_text in tags]),
    }
    values["one"][5] = np.nan
    rows = subgroups.tag_effects(values, tags)
    assert [(row["protocol"], row["tag"]) for row in rows] == [
        (protocol, tag) for protocol in values for tag in "ab"
    ]  # one text is no group
    for row in rows:
        column = values[row["protocol"]]
        inside = np.array([row["tag"] in text for text in tags])
        assert row["effect"].mean == pytest.approx(np.nanmean(column[inside]) - np.nanmean(column[~inside]))
        assert row["groups"] == (
            int((~inside & ~np.isnan(column)).sum()),
            int((inside & ~np.isnan(column)).sum()),
        )
        assert row["with tag"].mean == pytest.approx(np.nanmean(column[inside])) and row[
            "effect"
        ].undefined == int(np.isnan(column).sum())
    assert [row["p, Holm"] for row in rows] == holm([row["p"] for row in rows])
    assert rows[3]["p"] < 0.001 < rows[0]["p"] and rows[3]["effect"].low > 2
    shown = repr(views.tag_table(rows, title="t")).splitlines()
    assert "30 + 61" in shown[-1] and [line.split()[-1] for line in shown[2:]] == [
        "yes" if row["p, Holm"] < 0.05 else "no" for row in rows
    ]
    assert shown[-1].endswith("yes")
    with pytest.raises(InputError, match="2 differences for 91 texts"):
        subgroups.tag_effects({"one": np.zeros(2)}, tags)


def test_features_and_subgroups_of_the_record():
    run, plain = load_run(RECORD), Plain(RECORD)
    known = subgroups.features(run)
    for k, job in list(enumerate(plain.jobs))[::100]:
        example = plain.examples[job]
        logits = np.array(example["after"][:2], dtype=np.float64)
        assert known["confidence"][k] == pytest.approx(np.exp(logits).max() / np.exp(logits).sum(), rel=1e-6)
        assert (known["length"][k], known["correct"][k]) == (
            example["tokens"],
            example["label"] == example["target"],
        )
    rows = subgroups.subgroups([run], protocols={"words only (default)": Protocol()})
    assert [row["feature"] for row in rows] == ["length", "confidence", "label", "correct"]
    d = plain.r("cp-lrp", Protocol()) - plain.r("attnlrp", Protocol())
    label = np.array([plain.examples[job]["label"] for job in plain.jobs])
    assert rows[2]["effect"].mean == pytest.approx(d[label == 1].mean() - d[label == 0].mean(), abs=1e-6)
    assert rows[2]["groups"] == ((label == 0).sum(), (label == 1).sum()) and all(
        row["p"] <= row["p, Holm"] for row in rows
    )


def test_a_feature_that_is_the_same_everywhere_has_no_row(turned):
    assert [row["feature"] for row in subgroups.subgroups([turned])] == [], "made-up texts are all alike"


# -- the switchboard -----------------------------------------------------------------------------------------


def unpacked(run: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    shape = tuple(map(len, AXIS_OPTIONS.values()))
    return (
        np.frombuffer(base64.b64decode(run["cells"]), "<i2").reshape(*shape, 9),
        np.frombuffer(base64.b64decode(run["undefined"]), "<u2").reshape(shape),
    )


def test_a_cell_of_the_switchboard_prints_as_its_value():
    from lrp_book.views.boards import _steps

    values = np.array([[-0.01503, -0.01497, 0.01497], [0.01503, -0.0049999, 0.33333], [np.nan, -1.0, 1.0]])
    steps = _steps(values)
    assert steps.tolist() == [[-151, -150, 150], [151, -49, 3333], [-32768, -10_000, 10_000]]


def test_switchboard_of_several_runs(turned, tmp_path):
    imdb = text(
        tmp_path / "imdb-6",
        {"attnlrp": level(0.3, 0.4), "cp-lrp": level(0.5, 0.5)},
        task="imdb",
        n=2,
        layers=6,
    )
    digits = load_run(
        mnist_run(tmp_path / "digits", {(name, "left-right"): np.ones((2, 3)) for name in EXPLAINERS})
    )
    board = switchboard([digits, imdb, turned])["boards"][0]
    assert [run["label"] for run in board["runs"]] == ["IMDB, 6 layers", "SST-2, 12 layers"]
    assert [axis["key"] for axis in board["axes"]] == list(PROTOCOL_AXES)
    assert [len(axis["options"]) for axis in board["axes"]] == [3, 2, 3, 4, 3, 3]
    assert board["start"] == {"run": "turned", **{name: getattr(Protocol(), name) for name in PROTOCOL_AXES}}
    cells, missing = unpacked(board["runs"][0])
    assert (
        (cells[:, :, :, 2:] == -32768).all()
        and (cells[:, :, :, :2, ..., 0] != -32768).all()
        and (missing[:, :, :, 2:] == 2).all()
    )
    assert cells[0, 0, 0, 0, 0, 0, ::3].tolist() == [3500, 5000, 1500]
    labels = [preset["label"] for preset in board["presets"]]
    names = ["words only (default)", "nearest to the paper's SST numbers", "largest flip"]
    assert labels == [f"{name} (SST-2, 12 layers)" for name in names]
    flip = board["presets"][2]["state"]
    assert (flip["site"], flip["tokens"], flip["map"]) == ("word+position", "all", "sum-to-one") and flip[
        "run"
    ] == "turned"
    near = board["presets"][1]["state"]
    assert (near["site"], near["tokens"], near["map"]) == ("word+position", "all", "raw"), (
        "0.5 and 0.25 are near 0.52 and 0.22"
    )
    json.dumps(board, allow_nan=False)


def test_presets_that_there_are_not(tmp_path):
    same = text(tmp_path / "same", {"attnlrp": level(0.5, 0.5), "cp-lrp": level(0.6, 0.6)}, task="imdb", n=2)
    assert (
        protocol_grid.largest_flip(grid(same)) is None
        and protocol_grid.nearest_to_paper([grid(same)]) is None
    )
    assert [label for label, *_ in protocol_grid.presets([grid(same)])] == ["words only (default)"]


# -- bad input -----------------------------------------------------------------------------------------------


def test_bad_input_is_refused_by_name(turned, tmp_path):
    digits = load_run(mnist_run(tmp_path / "digits", {}))
    imdb = grid(text(tmp_path / "imdb", {}, task="imdb", n=2))
    bare = replace(turned, tables={name: table for name, table in turned.tables.items() if name != "masks"})
    cases = [
        (lambda: grid(digits), "no run on reviews"),
        (lambda: grid(turned, a="cp"), "method 'cp'; expected one of loo, ig"),
        (
            lambda: imdb.cell(Protocol(removal="delete")),
            "removal 'delete'; expected one of attention-mask, mask-token",
        ),
        (lambda: effect_causes.layer_gains(bare), "a run without masks"),
        (lambda: effect_causes.special_shares(bare), "a run without masks"),
        (lambda: effect_causes.layer_gains(turned, path="sideways"), "path 'sideways'"),
        (lambda: subgroups.subgroups([digits]), "no run on reviews"),
        (lambda: switchboard([digits]), "no runs on reviews"),
    ]
    for call, words in cases:
        with pytest.raises(CompanionError, match=words):
            call()


# -- shown ---------------------------------------------------------------------------------------------------


def test_figures_say_what_they_draw(turned, stepped, tmp_path):
    from lrp_book import views

    imdb = text(
        tmp_path / "imdb", {"attnlrp": level(0.3, 0.4), "cp-lrp": level(0.5, 0.5)}, task="imdb", n=2, layers=6
    )
    grids = [grid(turned), grid(imdb)]
    counted = protocol_grid.counts(grids[0])
    curve = views.specification_curve(grids[0])
    assert (
        f"below 0: {counted['below']}, across: {counted['across']}, above: {counted['above']}" in curve.alt
        and "n = 4" in curve.alt
    )
    figures = [
        curve,
        views.specification_curve(grids[1]),
        views.option_dots(grids),
        views.share_lines(effect_causes.special_shares(turned), title="shares"),
        views.gain_map(effect_causes.layer_gains(stepped), title="gains"),
    ]
    for figure in figures:
        assert figure._repr_png_().startswith(b"\x89PNG") and len(figure.alt) > 40
    assert "words, no special, raw: layer 3" in figures[-1].alt
    with pytest.raises(CompanionError, match="no rows with this removal"):
        views.gain_map(effect_causes.layer_gains(stepped), title="gains", removal="none")


def test_tables_hold_effect_interval_and_n(turned, stepped):
    from lrp_book import views

    run_grid = grid(turned)
    assert "-0.25 [" in repr(views.protocols_table([run_grid])) and "CP-LRP − AttnLRP" in repr(
        views.protocols_table([run_grid])
    )
    assert (
        "n = 4" in repr(views.counts_table(run_grid)) and repr(views.counts_table(run_grid)).count("\n") == 6
    )
    shares = repr(views.anova_table([run_grid]))
    assert "tokens that count" in shares and "%" in shares and "all else together" in shares
    assert "largest flip (SST-2, 12 layers)" in repr(views.presets_table([run_grid]))
    gains = {path: effect_causes.layer_gains(stepped, path=path) for path in ("back-to-front", "single")}
    assert "single; all" in repr(views.late_table(gains, title="a run"))
    assert "1.00 [" in repr(views.gains_table(gains["back-to-front"], title="a run"))
    said = effect_causes.audit_statements(stepped)
    assert (
        said[0]["says"] == "CP-LRP is nearer to LOO"
        and said[0]["n"] == 4
        and all(isinstance(row["effect"], Interval) for row in said)
    )
    assert effect_causes.audit_statements(turned)[0]["says"] == "AttnLRP is nearer to LOO"
    later = [row["says"] for row in said if row["choices"] == "words only (default); back-to-front"]
    assert later == ["the later half of the layers gains more"]
    assert "CP-LRP is nearer to LOO" in repr(views.findings_table(said))
    signs = [
        {
            "run": "a run",
            "method": "AttnLRP",
            **effect_causes.signs(turned, "attnlrp", protocol=WITH_POSITIONS),
        }
    ]
    assert "a run" in repr(views.signs_table(signs, caption="signs"))


@recorded
def test_the_committed_page_shows_what_the_committed_records_give():
    from lrp_book import views

    from lrp_companion.runs.load import load_runs

    path = ROOT / "notebooks" / "06_protocol_audit.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", []) if "data" in output]
    shown = {"".join(output["data"]["text/plain"]) for output in outputs}
    runs = [run for run in load_runs([ROOT / "results"]) if isinstance(run, TextRun)]
    grids = [grid(run) for run in runs]
    fresh = [
        views.protocols_table(grids),
        views.anova_table(grids),
        views.option_dots(grids),
        views.presets_table(grids),
    ]
    fresh += [
        view(run_grid) for run_grid in grids for view in (views.specification_curve, views.counts_table)
    ]
    assert not {repr(printed) for printed in fresh} - shown
