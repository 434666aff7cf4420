"""Chapter 6: cells, signs, [CLS], other trainings and digits against rows of the records and slow forms."""

from __future__ import annotations

import base64
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from lrp_book import ch06_causes, ch06_protocol, ch06_trainings
from lrp_book.ch06_protocol import variance_shares
from lrp_book.significance import features, group_differences, holm, rank_correlations
from test_digit_variants import digits, run  # noqa: F401 - fixtures
from test_protocol_grid import RECORD, WITH_POSITIONS, Plain, recorded, text, turned  # noqa: F401
from test_report import EXPLAINERS, level, mnist_run

from lrp_companion import ProtocolSwitchboard
from lrp_companion.checks import CompanionError, InputError, SourceError
from lrp_companion.lab.base_run import points
from lrp_companion.lab.boards import _steps, digit_board, switchboard
from lrp_companion.lab.digit_jobs import VARIANT_AXES
from lrp_companion.lab.load import MnistGridRun, TextRun, load_run
from lrp_companion.lab.paper.digit_variants import digit_grid, digit_ig, paper_values
from lrp_companion.lab.paper.protocol_grid import GRID_OPTIONS, PROTOCOL_AXES, counts, grid
from lrp_companion.lab.paper.report import find_trainings
from lrp_companion.metrics import Interval
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


# -- signs and [CLS] ---------------------------------------------------------------------------------------


def test_signs_split_the_examples(turned):  # noqa: F811
    split = ch06_causes.signs(turned, "attnlrp")
    expected = {
        "negative map": 0.5,
        "negative LOO": 0.0,
        "turned": 0.5,
        "r": 0.25,
        "r, sum to one": -0.025,
        "r, both positive": 0.225,
        "r, otherwise": 0.275,
        "r, otherwise, sum to one": -0.275,
    }
    assert {name: value.mean for name, value in split.items()} == pytest.approx(expected, abs=1e-6)
    assert split["r, both positive"].n == 2
    whole = ch06_causes.signs(turned, "cp-lrp")
    assert whole["turned"].mean == 0 and whole["r, otherwise"] is None
    shown = ch06_causes.signs_table([turned]).cells
    assert [row[1] for row in shown] == ["AttnLRP", "CP-LRP"] and [row[8] for row in shown] == ["2", "4"]


@recorded
def test_the_sign_turns_where_exactly_one_sum_is_negative():
    record = load_run(RECORD)
    divided = record.r("attnlrp", replace(WITH_POSITIONS, map="sum-to-one"))
    raw = record.r("attnlrp", WITH_POSITIONS)
    share = (np.isclose(divided, -raw) & (raw != 0)).mean()
    assert ch06_causes.signs(record, "attnlrp")["turned"].mean == pytest.approx(share, abs=1e-9)


@recorded
def test_shares_on_special_tokens_are_what_the_rows_give():
    rows = ch06_causes.special_shares(load_run(RECORD))
    assert [row["bypassed"] for row in rows][:4] == ["none", "12", "11 to 12", "10 to 12"] and len(rows) == 13
    masks = pq.read_table(RECORD / "masks.parquet").to_pylist()
    of_mask = [row for row in masks if row["mask"] == 0b111000000000]
    sizes = np.array([row["size"] for row in of_mask]).reshape(-1, 3, 2, 3)[:, 1, 1, 0]
    sums = np.array([row["sum"] for row in of_mask]).reshape(-1, 3, 2, 3)[:, :, 1, 0]
    first, last = (np.array([row[place] for row in of_mask]) for place in ("first", "last"))
    expected = {
        "[CLS]": np.abs(first[:, 0] + first[:, 1]) / sizes,
        "[SEP]": np.abs(last[:, 0] + last[:, 1]) / sizes,
        "position of [CLS]": first[:, 1] / sizes,
        "words": sums[:, 0] < 0,
        "words + positions": sums[:, 1] < 0,
    }
    for name, values in expected.items():
        assert rows[3][name].mean == pytest.approx(values.mean(), abs=1e-6), name


@recorded
def test_shifted_r_is_that_of_the_file():
    record = json.loads((RESULTS / "embedding-shift" / "companion.json").read_text())
    made = ch06_causes.shifted_r(record)
    for method in ("attnlrp", "cp-lrp"):
        for sign, end in ((-1, "lowest"), (1, "highest")):
            (row,) = (
                x for x in record["rows"] if (x["method"], x["size"], x.get("sign")) == (method, 1, sign)
            )
            assert made[f"{end} r found", 1.0][method].mean() == pytest.approx(np.mean(row["r"]))
    assert {len(columns) for columns in made.values()} == {3}
    assert "AttnLRP from -0.38" in ch06_causes.shift_band(record).alt


def test_sentences_name_a_side_only_where_the_whole_interval_lies(turned):  # noqa: F811
    said = list(ch06_causes.statements(turned))
    assert said[0][:2] == ("AttnLRP is nearer to LOO", "words only (default)")
    tally = counts(grid(turned))
    assert f"in {tally['below']} of 432 combinations AttnLRP is nearer to LOO" in [row[0] for row in said]
    assert all(isinstance(row[3], Interval) for row in said)
    assert len(ch06_causes.statements_table(turned).cells) == len(said)


# -- on which examples -------------------------------------------------------------------------------------


def test_rank_correlation_and_its_p_are_those_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    generator = np.random.default_rng(2)
    x = generator.integers(0, 9, 150).astype(float)
    y = np.stack([x + generator.normal(0, 12, 150), generator.normal(size=150)], 1)
    for k, (effect, p) in enumerate(rank_correlations(x, y)):
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


def test_tags_are_compared_group_by_group():
    generator = np.random.default_rng(6)
    tags = [["a"] if k % 3 == 0 else ["a", "b"] if k % 3 == 1 else [] for k in range(90)] + [["rare"]]
    values = {
        "one": generator.normal(size=91),
        "two": generator.normal(size=91) + 3 * np.array(["b" in of_text for of_text in tags]),
    }
    values["one"][5] = np.nan
    rows = ch06_causes.tag_effects(values, tags)
    assert [(row["protocol"], row["feature"]) for row in rows] == [*itertools.product(values, "ab")]
    for row in rows:
        column = values[row["protocol"]]
        known, inside = ~np.isnan(column), np.array([row["feature"] in text for text in tags])
        assert row["effect"].mean == pytest.approx(np.nanmean(column[inside]) - np.nanmean(column[~inside]))
        assert row["groups"] == ((~inside & known).sum(), (inside & known).sum())
        assert row["with tag"].mean == pytest.approx(np.nanmean(column[inside]))
        assert row["effect"].undefined == (~known).sum()
    assert [row["p, Holm"] for row in rows] == holm([row["p"] for row in rows])
    assert rows[3]["p"] < 0.001 < rows[0]["p"] and rows[3]["effect"].low > 2
    shown = ch06_causes.tag_table(rows, title="t").cells
    assert [cells[-1] for cells in shown] == ["yes" if row["p, Holm"] < 0.05 else "no" for row in rows]
    assert shown[-1][-2:] == ("30 + 61", "yes")
    with pytest.raises(InputError, match="2 differences for 91 texts"):
        ch06_causes.tag_effects({"one": np.zeros(2)}, tags)


@recorded
def test_features_and_subgroups_of_the_record():
    record, plain = load_run(RECORD), Plain(RECORD)
    known = features(record)
    for k, job in list(enumerate(plain.jobs))[::100]:
        example = plain.examples[job]
        p = np.exp(np.array(example["after"][:2], dtype=np.float64))
        assert known["confidence"][k] == pytest.approx(p.max() / p.sum(), rel=1e-6)
        right = example["label"] == example["target"]
        assert (known["length"][k], known["correct"][k]) == (example["tokens"], right)
    rows = [row for row in ch06_causes.subgroups([record]) if row["protocol"] == "words only (default)"]
    assert [row["feature"] for row in rows] == ["length", "confidence", "label", "correct"]
    d = plain.r("cp-lrp", Protocol()) - plain.r("attnlrp", Protocol())
    label = np.array([plain.examples[job]["label"] for job in plain.jobs])
    assert rows[2]["effect"].mean == pytest.approx(d[label == 1].mean() - d[label == 0].mean(), abs=1e-6)
    assert rows[2]["groups"] == ((label == 0).sum(), (label == 1).sum())
    assert all(row["p"] <= row["p, Holm"] for row in rows)
    shown = ch06_causes.subgroup_table(rows, run="sst2-companion").cells
    assert shown[2][3] == f"{(label == 1).sum()} + {(label == 0).sum()}" and shown[0][3] == "872"


def test_a_feature_that_is_the_same_everywhere_has_no_row(turned):  # noqa: F811
    assert ch06_causes.subgroups([turned]) == [], "made-up texts are all alike"


# -- several trainings -------------------------------------------------------------------------------------

MODELS = ("small", "small-seed-1", "small-seed-2")
EFFECTS = ((-0.25, 0.25), (-0.125, 0.25), (0.125, 0.125))
"""CP-LRP minus AttnLRP at the words and with positions, training by training."""
AT = dict.fromkeys(("removal", "target", "statistic"), 0) | {"of": 0}


def made(folder: Path, effects: tuple[float, float], k: int, **options: object) -> TextRun:
    ours, positions = effects
    r = {"attnlrp": [(0.5, 0.5, 0.5)] * 4, "cp-lrp": [(0.5 + ours, 0.5 + positions, 0.5 + positions)] * 4}
    return text(folder / MODELS[k], r, layers=6, model=MODELS[k], weights=str(k) * 16, **options)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> list[TextRun]:
    folder = tmp_path_factory.mktemp("trainings")
    return [made(folder, of, k, removals=("attention-mask",) if k else None) for k, of in enumerate(EFFECTS)]


def test_runs_are_compared_in_the_cells_that_all_have(three):
    compared = ch06_trainings.trainings(three)
    assert compared.shape == (3, 3, 2, 2, 1, 3, 3, 3)
    assert compared.removal.values.tolist() == ["attention-mask"]
    assert tuple(compared.training.values) == MODELS and compared.title == "SST-2, 6 layers, n = 4"
    for place, wanted in ((0, [-0.25, -0.125, 0.125]), (1, [0.25, 0.25, 0.125])):
        cell = compared.isel({**AT, "site": place, "tokens": place, "map": 0})
        assert cell.values == pytest.approx(wanted, abs=1e-6)
    low, mean, high = (compared.sel(of=name) for name in ("low", "mean", "high"))
    assert bool(((low <= mean) & (mean <= high)).all())
    assert (ch06_trainings.trainings(three[::-1]).values == compared.values[::-1]).all()
    config = {**three[1].manifest["config"], "targets": ["logit"]}
    fewer = [three[0], replace(three[1], manifest={**three[1].manifest, "config": config})]
    held = ch06_trainings.trainings(fewer)
    assert ch06_trainings.training_counts(held)["cells"] == 36
    assert held.isel({**AT, "site": 0, "tokens": 0, "map": 0}).values[1] == pytest.approx(-0.125, abs=1e-6)
    shown = repr(ch06_trainings.training_shares_table(held))
    assert "2 trainings; LOO removes by attention mask; output logit: fractions" in shown


def test_trainings_are_found_beside_their_first_run(tmp_path, monkeypatch):
    results = tmp_path / "results"
    for k, effects in ((0, (0.0, 0.25)), (2, (0.25, 0.25)), (1, (0.125, 0.0))):
        made(results / "trainings" if k else results, effects, k)
    assert [[one.name for one in group] for group in find_trainings(results)] == [list(MODELS)]
    monkeypatch.chdir(results / "trainings")
    text(results / "reviews", {}, layers=6, model=MODELS[0], weights="0" * 16, task="imdb")
    text(results / "trainings" / "other", {}, layers=6, model="smaller", weights="6" * 16)
    mnist_run(results / "trainings" / "digits", {})
    groups = [[one.name for one in group] for group in find_trainings()]
    assert groups == [list(MODELS)], "another task or another model is none of these"
    (results / "trainings").rename(results / "elsewhere")
    monkeypatch.chdir(results)
    assert find_trainings(results) == []
    with pytest.raises(SourceError, match="no-such"):
        find_trainings("no-such")


def test_cells_are_counted_by_side(three):
    compared = ch06_trainings.trainings(three)
    expected = {"cells": 108, "above": 2, "below": 0, "against": 2, "open": 104, "one sign": 2}
    assert ch06_trainings.training_counts(compared) == expected, (
        "above: positions, all tokens, raw and divided by a positive sum; effects of 0 have no sign"
    )
    for tokens, name in (("all", "against"), ("no-special", "above")):
        assert ch06_trainings.training_counts(compared, tokens=tokens)[name] == 0
    assert ch06_trainings.training_counts(ch06_trainings.trainings(three[:2]))["below"] == 2
    rows = ch06_trainings.training_counts_table(compared).cells
    assert rows[0][1:] == ("108", "2", "0", "2", "104", "2") and len(rows) == 5
    for wrong in ({"sight": "word"}, {"removal": "delete"}, {"map": "absolute-sum"}):
        with pytest.raises(InputError, match="expected one of|expected attention-mask"):
            ch06_trainings.training_counts(compared, **wrong)


def test_cells_that_turn_are_named_the_most_contrary_first(three, tmp_path):
    compared = ch06_trainings.trainings(three)
    rows = ch06_trainings.training_turns(compared)
    assert [row["against"] for row in rows] == [True] * 2 + [False] * 104
    assert [{row[name] for row in rows[:2]} for name in PROTOCOL_AXES] == [
        {"word"},
        {"no-special"},
        {"raw", "sum-to-one"},
        {"attention-mask"},
        {"logit"},
        {"pearson"},
    ]
    assert [rows[0][name].mean for name in MODELS] == pytest.approx([-0.25, -0.125, 0.125], abs=1e-6)
    below = ch06_trainings.training_turns(ch06_trainings.trainings(three[:2]))
    assert len(below) == 108 - 4, "two are above in both, two below"
    pair = [made(tmp_path, effects, k) for k, effects in enumerate([(0.25, -0.25), (-0.125, 0.375)])]
    turns = ch06_trainings.training_turns(ch06_trainings.trainings(pair))
    apart = [abs(row["small"].mean - row["small-seed-1"].mean) for row in turns]
    assert apart[:3] == pytest.approx([0.625, 0.625, 0.375], abs=1e-6)
    assert apart == pytest.approx(sorted(apart, reverse=True))


def test_parts_of_the_variance_are_those_of_two_factors(three):
    compared = ch06_trainings.trainings(three)
    noise = compared.copy(data=np.random.default_rng(0).normal(size=compared.shape))
    flat = noise.sel(of="mean").values.reshape(3, -1)
    rows = {row["choices"]: row["share"] for row in variance_shares(flat, ["training", "cell"])}
    assert ch06_trainings.training_shares(noise) == pytest.approx(
        {"choices": rows["cell",], "training": rows["training",], "together": rows["training", "cell"]}
    )
    pairs = [np.corrcoef(a, b)[0, 1] for a, b in itertools.combinations(flat, 2)]
    assert ch06_trainings.training_likeness(noise) == pytest.approx(min(pairs))
    first = compared.values[0]
    alike = ch06_trainings.training_shares(compared.copy(data=np.stack([first] * 3)))
    assert alike == pytest.approx({"choices": 1, "training": 0, "together": 0}, abs=1e-9)
    moved = compared.copy(data=np.stack([first + shift for shift in (0, 1, 2)]))
    assert ch06_trainings.training_shares(moved)["together"] == pytest.approx(0, abs=1e-9)
    assert ch06_trainings.training_shares(moved)["training"] > 0.5
    assert ch06_trainings.training_likeness(moved) == pytest.approx(1)
    undefined = noise.copy(deep=True)
    undefined[1, 0, 0, 0, 0, 0, 0, 0] = np.nan
    shares = ch06_trainings.training_shares(undefined)
    assert shares != ch06_trainings.training_shares(noise) and sum(shares.values()) == pytest.approx(1)


def test_what_cannot_be_compared_is_refused_by_name(three, tmp_path):
    digits = load_run(mnist_run(tmp_path / "digits", {}))  # noqa: F811
    deep = text(tmp_path / "deep", {}, layers=12, weights="9" * 16)
    few = text(tmp_path / "few", {}, layers=6, weights="8" * 16, n=3)
    reviews = text(tmp_path / "reviews", {}, layers=6, weights="7" * 16, task="imdb")
    cases = [
        ([three[0]], "got 1 runs; expected at least two"),
        ([three[0], digits], "no run on reviews"),
        ([three[0], deep], "layers 12 in deep; expected 6"),
        ([three[0], few], "examples 3 in few; expected 4"),
        ([three[0], reviews], "task imdb in reviews; expected sst2"),
        ([three[0], three[0]], "the same weights twice"),
    ]
    for runs, words in cases:
        with pytest.raises(InputError, match=words):
            ch06_trainings.trainings(runs)
    bare = replace(three[0], tables={name: t for name, t in three[0].tables.items() if name != "masks"})
    for call, words in (
        (lambda: ch06_causes.special_shares(bare), "a run without masks"),
        (lambda: ch06_causes.subgroups([digits]), "no run on reviews"),
        (lambda: ch06_protocol.option_dots([]), "no grids"),
        (lambda: ch06_trainings.ig_steps([], title="IG"), "expected at least one"),
    ):
        with pytest.raises(CompanionError, match=words):
            call()


# -- figures -----------------------------------------------------------------------------------------------


def test_figures_say_what_they_draw(turned, three, run):  # noqa: F811
    tally = counts(grid(turned))
    sides = f"below 0: {tally['below']}, across: {tally['across']}, above: {tally['above']}"
    rows = digit_grid(run)
    means = sorted(row["AttnLRP, left with LOO"].mean for row in rows)
    of = {(row["variant"], row["baseline"], row["n_steps"]): row["r"].mean for row in digit_ig(run)}
    figures = {
        f"n = 4: mean difference of r, CP-LRP − AttnLRP, in 432 combinations, from -0.25 to 0.53. "
        f"Interval {sides}": ch06_protocol.specification_curve(grid(turned)),
        "SST-2, 12 layers: ": ch06_protocol.option_dots([grid(turned)]),
        "Share of the position of [CLS] in sum |R| from ": ch06_causes.share_lines(turned),
        "108 combinations and 3 trainings. One sign in all trainings: 2": ch06_trainings.training_curve(
            ch06_trainings.trainings(three)
        ),
        f"from {means[0]:.2f} to {means[-1]:.2f} over 16 combinations": ch06_trainings.variant_curve(run),
        f"biases, positions, embedding: zero {of[7, 'zero', 4]:.2f}": ch06_trainings.ig_steps(
            digit_ig(run), title="IG"
        ),
    }
    for words, figure in figures.items():
        assert words in figure.alt and figure._repr_png_().startswith(b"\x89PNG"), (words, figure.alt)
    *_, curve, _ = figures.values()
    lines = curve.axes[0].get_lines()
    assert np.allclose(lines[2].get_ydata(), means)
    assert [line.get_ydata()[0] for line in lines[1:6:2]] == list(paper_values().values())[:3]


def test_every_variant_has_its_words(run: MnistGridRun):  # noqa: F811
    assert ch06_trainings.variant_label(run.variants[0]) == "the plainest"
    assert ch06_trainings.variant_label(run.variants[7]) == "biases, positions, embedding"
    assert len({ch06_trainings.variant_label(variant) for variant in points(VARIANT_AXES)}) == 32
