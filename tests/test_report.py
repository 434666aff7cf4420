"""The report: tables that a hand can check, verdicts by their rule, a page of numbers from records."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lrp_companion.checks import SITES, SourceError
from lrp_companion.cli import main
from lrp_companion.lab.folder import FORMAT, key_of, open_folder
from lrp_companion.lab.load import TextRun, load_run, load_runs
from lrp_companion.lab.paper import claims as paper_claims
from lrp_companion.lab.paper import report
from lrp_companion.lab.paper import tables as paper_tables
from lrp_companion.lab.paper.claims import Effect, claims, independent_difference, verdict
from lrp_companion.lab.paper.primary import (
    CONTRADICTED,
    LEVEL,
    REPRODUCED,
    UNDECIDED,
    UNTESTED,
    VERDICTS,
    ahead,
    by_training,
    judge,
    leads_by_data,
    summary,
)
from lrp_companion.lab.paper.published import FINGERPRINTS, SINGLE, SLOPE, SPECS, paper_table, weights
from lrp_companion.metrics import Interval, bootstrap_mean
from lrp_companion.metrics.statistics import bootstrap_columns
from lrp_companion.schema import PROTOCOLS, STATISTICS, TARGET_CHOICES, TOKEN_CHOICES, mask_label, path_masks

ROOT = Path(__file__).resolve().parent.parent
METHODS = ("loo", "ig", "rollout", "gradient-x-input", "attnlrp", "cp-lrp")
SURROUNDINGS = {
    "versions": {"python": "3.11"},
    "commit": "0123456789ab",
    "hardware": {"cpu": "made up", "cores": 2, "threads": 1},
}


def fixed(values: np.ndarray) -> pa.Array:
    values = np.asarray(values, dtype=np.float32)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), int(np.prod(values.shape[1:])))


def explained(
    r: Sequence[tuple[float, float, float]],
    *,
    removals: int,
    statistics: int,
    curves: Sequence[tuple[float, float]],
    ranked: bool = False,
) -> dict:
    """Columns of explanations whose r under the three protocols is given; the third by the sign of its map's
    sum. If `ranked`, it is Spearman's r, too.
    """
    n = len(r)
    grid = np.full((n, len(SITES), len(TOKEN_CHOICES), removals, len(TARGET_CHOICES), statistics), 0.125)
    sums = np.ones((n, len(SITES), len(TOKEN_CHOICES), len(TARGET_CHOICES)))
    for k, (ours, positions, sum_to_one) in enumerate(r):
        given = slice(2 if ranked else 1)
        grid[k, 0, 0, 0, 0, given], grid[k, 1, 1, 0, 0, given] = ours, positions
        assert abs(positions) == abs(sum_to_one) or math.isnan(positions)
        sums[k, 1, 1, 0] = -1.0 if positions == -sum_to_one else 1.0
    lerf, morf = zip(*curves, strict=True)
    zeros = fixed(np.zeros((n, 3)))
    return {
        "r": fixed(grid),
        "sum": fixed(sums),
        "size": fixed(np.full(sums.shape, 2.0)),
        "first": zeros,
        "last": zeros,
        "lerf": pa.array(lerf, pa.float32()),
        "morf": pa.array(morf, pa.float32()),
    }


def write(
    path: Path, config: dict[str, Any], entries: dict[str, Any], tables: Mapping[str, Mapping[int, pa.Table]]
) -> Path:
    with open_folder(path, config) as folder:
        session = {
            "start": "2026-11-21T00:00:00+00:00",
            "end": None,
            "seconds": 60.0,
            "processes": 1,
            **SURROUNDINGS,
        }
        manifest = {
            "format": FORMAT,
            "key": key_of(config),
            "config": config,
            **entries,
            "sessions": [session],
            "finished": True,
        }
        folder.write_manifest(manifest)
        for name, jobs in tables.items():
            for job, table in jobs.items():
                folder.add(name, job, table)
        folder.gather()
    return path


def text_run(
    path: Path,
    r: Mapping[Any, Sequence[Any]],
    *,
    task: str = "sst2",
    layers: int = 12,
    model: str = "made-up",
    curves: Mapping[Any, Sequence[Any]] | None = None,
    n: int = 4,
    methods: Sequence[str] = METHODS,
    weights: str = "1" * 16,
    removals: Sequence[str] | None = None,
    ranked: bool = False,
) -> Path:
    """Write a run on n texts. `r` and `curves` map a method or a set of layers to one entry per text; all
    else has r = 0.5.

    An entry of `r` is (ours, with positions, sum to one), an entry of `curves` (LeRF, MoRF).
    """
    if removals is None:
        removals = (
            ("attention-mask", "mask-token", "pad-token", "delete")
            if task == "sst2"
            else ("attention-mask", "mask-token")
        )
    config = {
        "task": task,
        "split": "validation",
        "source": "folder",
        "data": FINGERPRINTS[task],
        "seed": 0,
        "model": model,
        "weights": weights,
        "dtype": "float32",
        "methods": list(methods),
        "chunk": 1 if task == "sst2" else 16,
        "removals": list(removals),
        "n_steps": 50,
    }
    axes = {
        "site": SITES,
        "tokens": TOKEN_CHOICES,
        "removal": removals,
        "target": TARGET_CHOICES,
        "statistic": STATISTICS,
    }
    manifest = {
        "model": {
            "name": model,
            "family": "bert",
            "layers": layers,
            "heads": 2,
            "hidden": 384,
            "labels": ["a", "b"],
        },
        "data": f"{task} made up",
        "axes": {name: list(values) for name, values in axes.items()},
        "examples": n,
    }
    masks = list(dict.fromkeys([frozenset(), *itertools.chain(*path_masks(layers).values())]))
    tables: dict[str, dict[int, pa.Table]] = {"examples": {}, "methods": {}, "masks": {}}
    for k in range(n):
        after = np.array([[0.0, 4.0], [0.0, 3.5], [0.0, 3.0], [0.0, 2.0], [0.0, 3.75]])  # LOO 0.5, 1, 2, 0.25
        tables["examples"][k] = pa.table(
            {
                "label": pa.array([1], pa.int8()),
                "target": pa.array([1], pa.int8()),
                "tokens": pa.array([4], pa.int32()),
                "whole": pa.array([4 + (k == 0)], pa.int32()),
                "special": pa.array([[0, 3]], pa.list_(pa.int32())),
                "after": pa.array([np.stack([after] * len(removals)).ravel()], pa.list_(pa.float32())),
                "seconds": pa.array([[0.1] * len(removals)], pa.list_(pa.float32())),
            }
        )
        for name, which, keys, statistics in (("methods", "method", methods, 3), ("masks", "mask", masks, 1)):
            alias = {frozenset(): "attnlrp", frozenset(range(1, layers + 1)): "cp-lrp"}
            row = [r.get(key, r.get(alias.get(key))) for key in keys]
            values = [
                (1.0,) * 3 if key == "loo" else (0.5,) * 3 if mine is None else mine[k]
                for key, mine in zip(keys, row, strict=True)
            ]
            walks = [(curves or {}).get(key, [(1.0, 0.25)] * n)[k] for key in keys]
            columns = explained(
                values, removals=len(removals), statistics=statistics, curves=walks, ranked=ranked
            )
            names = (
                [sum(1 << (layer - 1) for layer in key) for key in keys] if which == "mask" else list(keys)
            )
            tables[name][k] = pa.table(
                {which: pa.array(names, pa.int32() if which == "mask" else pa.string()), **columns}
            )
    return write(path, config, manifest, tables)


EXPLAINERS = ("LOO", "IG", "AttnLRP", "gradient x input")


def mnist_run(path: Path, r: Mapping[tuple[str, str], np.ndarray], *, nets: int = 2, n: int = 3) -> Path:
    """Write a run on n images under so many nets; `r`: (explainer, pair) to (nets, n), else 0.5."""
    config = {
        "task": "mnist",
        "split": "test",
        "source": "folder",
        "data": FINGERPRINTS["mnist"],
        "train": "3" * 12,
        "seed": 0,
        "model": "plain",
        "options": {},
        "explainers": {name: {} for name in EXPLAINERS},
    }
    manifest = {
        "model": {"name": "plain", "family": "linear attention"},
        "data": "mnist made up",
        "examples": n,
        "nets": nets,
    }
    tables: dict[str, dict[int, pa.Table]] = {"nets": {}, "images": {}}
    for seed in range(nets):
        accuracy = {
            "seed": pa.array([seed], pa.int32()),
            "accuracy": [0.8 + 0.05 * seed],
            "tested": pa.array([n], pa.int32()),
            "logit_gap": [0.0],
        }
        tables["nets"][seed] = pa.table(accuracy)
        for image in range(n):
            columns: dict[str, Any] = {
                "image": pa.array([image] * len(EXPLAINERS), pa.int32()),
                "explainer": list(EXPLAINERS),
            }
            for pair in paper_tables.PAIRS:
                values = [r[name, pair][seed][image] if (name, pair) in r else 0.5 for name in EXPLAINERS]
                columns[f"r {pair}"] = pa.array(values, pa.float32())
                columns[f"r {pair} (sum-to-one)"] = pa.array([-value for value in values], pa.float32())
            tables["images"][seed * 1_000_000 + image] = pa.table(columns)
    return write(path, config, manifest, tables)


def by_hand(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and percentile bootstrap limits, as PROTOCOL says: 10,000 draws, seed 0."""
    given = np.array(values, dtype=np.float32).astype(np.float64)
    means = given[np.random.default_rng(0).integers(0, len(given), size=(10_000, len(given)))].mean(1)
    return given.mean(), *np.quantile(means, [0.025, 0.975])


def parts(interval: Interval) -> tuple[float, float, float]:
    return interval.mean, interval.low, interval.high


def level(*values: float) -> list[tuple[float, float, float]]:
    """The same r under all three protocols, a value per text."""
    return [(value,) * 3 for value in values]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each kind, with numbers made up so that some claims hold, some in part, and some do not."""
    top = tmp_path_factory.mktemp("results")
    walk = {
        frozenset(range(1, k + 1)): level(*(0.3 + 0.01 * k + 0.01 * i for i in range(4)))
        for k in range(1, 12)
    }
    r = {
        "ig": level(-0.1, 0.0, 0.05, 0.1),
        "rollout": level(0.25, 0.125, 0.25, 0.125),
        "attnlrp": [(0.6, 0.2, 0.2), (0.7, 0.3, -0.3), (0.8, 0.1, 0.1), (0.6, 0.3, 0.3)],
        "cp-lrp": [(0.5, 0.4, 0.4), (0.6, 0.5, 0.5), (0.7, 0.45, 0.45), (0.55, 0.5, 0.5)],
    }
    curves = {
        "attnlrp": [(2.0, -1.0), (3.0, 0.0), (1.5, -0.5), (2.5, -0.5)],
        "cp-lrp": [(1.75, -0.5), (2.5, 0.0), (1.0, -0.5), (2.0, -0.25)],
    }
    six = {
        "attnlrp": level(0.6, 0.7, 0.8),
        "cp-lrp": level(0.2, 0.3, 0.1),
        "ig": level(0.5, 0.6, float("nan")),
    }
    ones = np.ones((2, 3))
    digits = {
        ("LOO", "left-right"): ones,
        ("IG", "left-right"): ones,
        ("AttnLRP", "left-right"): np.array([[0.7, 0.8, 0.9], [0.75, 0.85, 0.8]]),
    }
    return {
        "sst2": text_run(top / "sst2-made-up", {**r, **walk}, curves=curves, ranked=True),
        "six": text_run(top / "sst2-six", six, layers=6, n=3, model="six", ranked=True),
        "imdb": text_run(
            top / "imdb-made-up",
            {"attnlrp": level(0.3, 0.35), "cp-lrp": level(0.4, 0.55)},
            task="imdb",
            n=2,
            ranked=True,
        ),
        "mnist": mnist_run(top / "mnist-made-up", digits),
        "top": top,
    }


@pytest.fixture(scope="module")
def sst2(folders: dict[str, Path]) -> TextRun:
    run = load_run(folders["sst2"])
    assert isinstance(run, TextRun)
    return run


def test_table_2_is_what_a_hand_computes(sst2):
    for column, protocol in enumerate(PROTOCOLS.values()):
        table = {row["method"]: row for row in paper_tables.table2(sst2, protocol=protocol)}
        given = [(0.6, 0.2, 0.2), (0.7, 0.3, -0.3), (0.8, 0.1, 0.1), (0.6, 0.3, 0.3)]
        assert parts(table["attnlrp"]["r"]) == pytest.approx(
            by_hand([given_r[column] for given_r in given]), abs=1e-6
        )
        assert parts(table["attnlrp"]["delta"]) == pytest.approx(by_hand([3.0, 3.0, 2.0, 3.0]), abs=1e-6)
        assert table["loo"]["r"].mean == 1 and list(table) == list(METHODS) and table["cp-lrp"]["n"] == 4


def test_table_A3_walks_the_paths_and_ends_at_the_methods(sst2):
    table = paper_tables.tableA3(sst2)
    assert [row["bypassed"] for row in table[:3]] == ["1", "1 to 2", "1 to 3"] and len(table) == 36
    assert parts(table[4]["r"]) == pytest.approx(by_hand([0.35, 0.36, 0.37, 0.38]), abs=1e-6)
    ends = [row["r"] for row in table if len(row["layers"]) == 12]
    assert len(ends) == 2 and ends[0] == ends[1] == next(
        row["r"] for row in paper_tables.table2(sst2) if row["method"] == "cp-lrp"
    )
    assert mask_label(frozenset([1, 3])) == "1, 3"


def test_table_1_is_what_a_hand_computes(folders):
    run = load_run(folders["mnist"])
    table = {row["explainer"]: row for row in paper_tables.table1(run)}
    assert parts(table["AttnLRP"]["left-right"]) == pytest.approx(by_hand([0.725, 0.825, 0.85]), abs=1e-6)
    assert table["AttnLRP"]["left-right, nets"] == pytest.approx((0.8, 0.8), abs=1e-6)
    assert table["AttnLRP"]["accuracy"] == pytest.approx((0.8, 0.85)) and table["AttnLRP"]["n"] == 3
    assert table["AttnLRP"]["nets"] == 2
    turned = {row["explainer"]: row for row in paper_tables.table1(run, map="sum-to-one")}
    assert turned["AttnLRP"]["left-right"].mean == pytest.approx(-0.8, abs=1e-6)


def test_the_papers_columns_are_the_papers(sst2, folders):
    paper = {(row["dataset"], row["method"]): row for row in paper_table("table2")}
    for row in paper_tables.table2(sst2):
        printed = paper.get(("SST", paper_tables.PAPER_METHODS.get(row["method"], "")))
        for ours, theirs in (("r", "loo_r"), ("lerf", "lerf"), ("morf", "morf"), ("delta", "delta")):
            assert row[f"{ours}, paper"] == (printed[theirs] if printed else None)
    paths = [row for row in paper_table("tableA3") if row["dataset"] == "SST"]
    shown = [
        (row["path"].replace("-", "_"), row["layers"], row["r, paper"], row["delta, paper"])
        for row in paper_tables.tableA3(sst2)
    ]
    assert sorted(shown) == sorted((row["path"], row["bypass"], row["loo_r"], row["delta"]) for row in paths)
    six = load_run(folders["six"])
    assert all(row["r, paper"] is None for row in paper_tables.tableA3(six))
    table = {row["explainer"]: row for row in paper_tables.table1(load_run(folders["mnist"]))}
    assert [table["AttnLRP"][f"{pair}, paper"] for pair in paper_tables.PAIRS] == [0.7865, -0.0698, 0.073]
    assert table["gradient x input"]["left-right, paper"] is None


def test_columns_are_drawn_as_one_column_is():
    generator = np.random.default_rng(5)
    columns = [
        generator.normal(size=700),
        generator.random(700),
        np.where(np.arange(700) == 3, np.nan, 1.0),
        np.full(700, 0.25),
    ]
    for column, interval in zip(columns, bootstrap_columns(columns), strict=True):
        alone = bootstrap_mean(column)
        assert parts(interval) == pytest.approx(parts(alone), abs=1e-12)
        assert (interval.n, interval.undefined) == (alone.n, alone.undefined)
    assert bootstrap_columns([np.array([1.0])])[0].n == 1


def test_undefined_values_are_counted_and_shown(folders):
    shown = repr(report.r_table(load_run(folders["six"]), "methods"))
    ig = next(line for line in shown.splitlines() if line.startswith("ig"))
    assert " ".join(ig.split()).startswith("ig 0.55 [0.50, 0.60] (1 undefined)")


def effect(mean: float, half: float = 0.02, **others: Any) -> Effect:
    return Effect("a run", "words only (default)", "an effect", interval(mean, half), **others)


def interval(mean: float, half: float) -> Interval:
    return Interval(mean, mean - half, mean + half, 9)


@pytest.mark.parametrize(
    ("mean", "half", "band", "expected"),
    [
        (0.1, 0.02, (0, math.inf), REPRODUCED),
        (0.1, 0.11, (0, math.inf), UNDECIDED),
        (-0.1, 0.02, (0, math.inf), CONTRADICTED),
        (-0.1, 0.02, (-math.inf, 0), REPRODUCED),
        (0.02, 0.02, (0, math.inf), LEVEL),
        (-0.04, 0.005, (0, math.inf), LEVEL),
        (0.04, 0.02, (0, math.inf), UNDECIDED),
        (0.05, 0.01, (0, math.inf), REPRODUCED),
        (-0.03, 0.02, (0, math.inf), UNDECIDED),  # touches the margin
        (0.0, 0.1, (-0.2, 0.2), REPRODUCED),
        (0.2, 0.1, (-0.2, 0.2), UNDECIDED),
        (0.35, 0.05, (-0.2, 0.2), CONTRADICTED),
        (0.95, 0.04, (-math.inf, 0.99995), REPRODUCED),
        (1.0, 0.0, (-math.inf, 0.99995), CONTRADICTED),
        (0.1, math.nan, (0, math.inf), UNTESTED),
    ],
)
def test_an_interval_is_compared_with_the_margin(mean, half, band, expected):
    assert judge(interval(mean, half), *band) == expected
    opposite = {REPRODUCED: CONTRADICTED, CONTRADICTED: REPRODUCED}
    if band == (0, math.inf):
        assert judge(interval(-mean, half)) == opposite.get(expected, expected)
    words = {REPRODUCED: "CP-LRP", CONTRADICTED: "AttnLRP", LEVEL: "level"}
    assert ahead(interval(mean, half)) == words.get(judge(interval(mean, half)), "open")


def test_a_claim_is_as_good_as_its_weakest_effect():
    gain, little, open_, loss = effect(0.1), effect(0.0), effect(0.0, 0.2), effect(-0.1)
    for weaker, stronger in itertools.pairwise((loss, little, open_, gain)):
        assert verdict([stronger, weaker]) == weaker.verdict != stronger.verdict
    assert verdict([]) == verdict([effect(0.1, math.nan)]) == UNTESTED
    ranked = replace(gain, rank=loss.value)
    assert (verdict([ranked]), verdict([ranked], rank=True)) == (REPRODUCED, CONTRADICTED)
    every = [replace(loss, run=paper_claims.EVERY), gain, replace(gain, run="another")]
    claim = paper_claims.Claim(1, "", "", "", (*every, replace(little, protocol="curves")))
    assert claim.verdict == CONTRADICTED and claim.verdict_at("curves") == LEVEL
    assert claim.by_run() == {"all models": CONTRADICTED, "a run": REPRODUCED, "another": REPRODUCED}
    assert paper_claims.Claim(1, "", "", "", (open_,)).detectable == pytest.approx(0.2 * 2.801585 / 1.959964)


def test_the_mean_over_runs_has_one_weight_for_each_and_draws_shared_examples_together():
    generator = np.random.default_rng(3)
    first, second = generator.normal(size=(2, 40))
    both = paper_claims.pooled([first, second])
    assert parts(both) == pytest.approx(parts(bootstrap_mean((first + second) / 2)), abs=1e-9)
    short = paper_claims.pooled([first, np.array([2.0, np.nan, 4.0])])
    assert short.mean == pytest.approx((first.mean() + 3) / 2) and (short.n, short.undefined) == (42, 1)
    assert paper_claims.pooled([first]) == bootstrap_mean(first)


def test_the_papers_own_numbers_lie_on_the_papers_side_but_where_its_text_and_table_disagree():
    for spec in SPECS:
        printed = paper_claims._paper_value(spec)
        for what in spec.effects:
            value = sum(weight * printed(each) for each, weight in weights(what, 12).items())
            disagree = spec.says.startswith("on IMDB, AttnLRP separates better")
            assert (spec.low < value < spec.high) != disagree, (spec.says, what, value)


def find(judged: Sequence[paper_claims.Claim], says: str) -> paper_claims.Claim:
    return next(claim for claim in judged if claim.says.startswith(says))


HEADLINE = "on SST, CP-LRP agrees better with LOO"


@pytest.mark.parametrize(
    ("attnlrp", "cp_lrp", "expected"),
    [
        (level(0.2, 0.3, 0.2), level(0.5, 0.5, 0.6), REPRODUCED),
        ([(0.6, 0.2, 0.2)] * 3, [(0.5, 0.4, 0.4)] * 3, CONTRADICTED),
        ([(0.5, 0.2, 0.2)] * 3, [(0.52, 0.4, -0.4)] * 3, LEVEL),
        (level(0.5, 0.6, 0.6), level(0.2, 0.3, 0.2), CONTRADICTED),
        (level(0.2, 0.6, 0.4), level(0.3, 0.4, 0.5), UNDECIDED),
    ],
)
def test_each_verdict_follows_from_records(tmp_path, attnlrp, cp_lrp, expected):
    path = text_run(tmp_path / "run", {"attnlrp": attnlrp, "cp-lrp": cp_lrp}, n=3, ranked=True)
    claim = find(claims([load_run(path)]), HEADLINE)
    assert claim.verdict == expected and claim.by_run() == {"run": expected}
    assert [e.protocol for e in claim.effects] == list(PROTOCOLS)
    for k, effect in enumerate(claim.effects):
        assert parts(effect.value) == pytest.approx(
            by_hand([c[k] - a[k] for a, c in zip(attnlrp, cp_lrp, strict=True)]), abs=1e-6
        )
        assert effect.paper == pytest.approx(0.30) and effect.value.n == 3


def test_the_left_of_table_1_is_the_product_that_begins_right():
    """Section 4.3 calls Q(KᵀV) left-associative; a run's left is (QKᵀ)V."""
    run = load_run(ROOT / "results" / "mnist-plain")
    claim = find(claims([run]), "AttnLRP agrees better with LOO from the left")
    (raw, _) = claim.effects
    gap = run.values("AttnLRP", "r right-LOO") - run.values("AttnLRP", "r left-LOO")
    assert raw.what == "AttnLRP, Q(KᵀV) - (QKᵀ)V" and raw.value.mean == pytest.approx(np.nanmean(gap))
    assert raw.paper == pytest.approx(0.073 + 0.0698) and claim.reading


def test_what_a_run_lacks_is_not_testable(tmp_path, folders):
    run = load_run(text_run(tmp_path / "few", {"attnlrp": level(0.2, 0.3)}, n=2, methods=("loo", "attnlrp")))
    claim = find(claims([run]), HEADLINE)
    assert claim.verdict == UNTESTED and claim.why == "few has no method cp-lrp"
    assert {claim.verdict for claim in claims([])} == {UNTESTED}
    assert all(claim.why for claim in claims([]))
    assert find(claims([run]), "on IMDB, IG").why == "no run of imdb here"


def test_claims_are_numbered_and_every_verdict_is_met(folders):
    judged = claims(load_runs([folders["top"]]))
    assert [claim.number for claim in judged] == list(range(1, len(judged) + 1)) and len(judged) >= 10
    assert {claim.verdict for claim in judged} == set(VERDICTS) - {UNDECIDED}
    both = {"sst2-made-up": CONTRADICTED, "sst2-six": CONTRADICTED, "all models": CONTRADICTED}
    assert find(judged, HEADLINE).by_run() == both
    assert [claim.number for claim in judged if claim.reading] == [4, 8, 9, 14, 15, 18, 23, 25, 26]


def test_thirds_and_the_line_over_depth(sst2):
    claim = find(claims([sst2]), "on SST, bypassing the last third raises r more")
    later = [0.5] * 4  # what a mask has that was not given
    first = [0.34, 0.35, 0.36, 0.37]
    assert claim.effects[0].value.mean == pytest.approx(np.mean(later) - np.mean(first), abs=1e-6)
    assert claim.effects[0].paper == pytest.approx(0.47 - 0.24)

    def total(what: str, layers: int) -> float:
        """The effect where a layer's own number is its gain."""
        return sum(weight * sum(layer) for layer, weight in weights(what, layers).items())

    assert weights(SINGLE, 1) == weights(SLOPE, 1) == {}
    assert [*weights("last third - first third", 1).values()] == [0.0]  # of one layer both are the same
    for layers, third in ((12, 4), (6, 2), (5, 2), (2, 1)):
        middle = (np.mean(range(third + 1, layers + 1)) - np.mean(range(1, third + 1))) * third
        assert total(SINGLE, layers) == pytest.approx(middle)
        assert total(SLOPE, layers) == pytest.approx((layers - third) * third)


def test_a_smaller_gain_is_a_difference_of_two_means(folders):
    claim = find(claims(load_runs([folders["top"]])), "CP-LRP's gain in r")
    assert [e.run for e in claim.effects] == ["sst2-made-up, imdb-made-up"] * 3
    assert claim.effects[0].value.mean == pytest.approx(
        (-0.1 - 0.1 - 0.1 - 0.05) / 4 - (0.1 + 0.2) / 2, abs=1e-6
    )
    top = load_runs([folders["top"]])
    on_imdb, on_sst = ([run for run in top if run.task == task] for task in ("imdb", "sst2"))
    apart = claims(on_imdb, trained_again=on_sst)
    assert find(apart, "CP-LRP's gain in r").effects == claim.effects
    assert find(apart, HEADLINE).verdict == UNTESTED
    a, b = Interval(0.5, 0.4, 0.7, 30), Interval(0.1, 0.0, 0.4, 20)
    assert parts(independent_difference(a, b)) == pytest.approx(
        (0.4, 0.4 - math.hypot(0.1, 0.3), 0.4 + math.hypot(0.2, 0.1))
    )


def test_the_papers_own_classifier_is_held_to_the_papers_values(tmp_path):
    r = {
        "ig": level(-0.05, -0.05),
        "rollout": level(0.08, 0.08),
        "attnlrp": level(0.2, 0.24),
        "cp-lrp": level(0.52, 0.52),
    }
    run = load_run(text_run(tmp_path / "hub", r, n=2, model=paper_tables.HUB["sst2"]))
    claim = find(claims([run]), "on SST, the paper's own classifier")
    assert claim.verdict == REPRODUCED and len(claim.effects) == 12
    far = load_run(text_run(tmp_path / "far", {"ig": level(0.2, 0.2)}, n=2, model=paper_tables.HUB["sst2"]))
    assert find(claims([far]), "on SST, the paper's own classifier").verdict == CONTRADICTED
    assert [row["model"] for row in paper_tables.not_run([run])] == [paper_tables.HUB["imdb"]]


@pytest.fixture
def three(tmp_path) -> Path:
    """Two trainings of one model and one of another; d by Pearson and by rank as given."""
    for name, ours in (("a-seed-0", (0.5, 0.6, 0.7)), ("a-seed-1", (0.7, 0.8, 0.9)), ("b", (0.4, 0.5, 0.6))):
        r = {"attnlrp": level(0.5, 0.5, 0.5), "cp-lrp": level(*ours)}
        text_run(tmp_path / "runs" / name, r, n=3, model=name, ranked=True)
    return tmp_path / "runs"


def test_trainings_are_nested_in_encoders_which_have_one_weight_each(three):
    (of,) = leads_by_data(load_runs([three])).values()
    assert list(of) == [("a", "a-seed-0"), ("a", "a-seed-1"), ("b", "b")]
    row, each = summary(of).iloc[0], by_training(of)
    half = 12.7062047 * abs(0.2 - 0.0) / 2  # Student's 0.975 quantile, 1 degree of freedom, times the error
    assert parts(row.d) == pytest.approx((0.1, 0.1 - half, 0.1 + half), abs=1e-6)
    assert (row.encoders, row.trainings, row.below, row.ahead) == (2, 3, 0, "open")
    assert (row.smallest, row.largest) == pytest.approx((0.0, 0.3), abs=1e-6)
    assert parts(each.loc[("a", "a-seed-1"), "words, rank"]) == pytest.approx(
        by_hand([0.2, 0.3, 0.4]), abs=1e-6
    )
    (alone,) = leads_by_data(load_runs([three / "b"])).values()
    assert parts(summary(alone).iloc[0].d) == pytest.approx(by_hand([-0.1, 0.0, 0.1]), abs=1e-6)


def test_the_report_has_the_primary_analysis_in_every_form(three, tmp_path, capsys):
    assert main(["report", str(three), "--out", str(tmp_path / "out")]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Primary analysis" in told and "by rank: mean r" in told and "name without -seed-1" in told
    rows = list(csv.DictReader((tmp_path / "out" / "primary.csv").open()))
    assert len(rows) == 4 * (1 + 3) and float(rows[0]["d"]) == pytest.approx(0.1, abs=1e-6)
    latex = (tmp_path / "out" / "primary.tex").read_text()
    assert latex.startswith("\\begin{tabular}") and "0.100 [" in latex
    assert "cp-lrp" in (tmp_path / "out" / "methods-b.tex").read_text()
    methods = list(csv.DictReader((tmp_path / "out" / "methods-b.csv").open()))
    assert {row["statistic"] for row in methods} == {"pearson", "spearman"}


def test_runs_of_one_name_are_told_apart_and_each_counts_once(folders, tmp_path):
    other = text_run(tmp_path / "sst2-made-up", {}, n=2, model="other")
    runs = paper_tables.named(load_runs([folders["sst2"], other, folders["sst2"]]))
    assert len(runs) == 2
    assert [run.name for run in runs] == [f"sst2-made-up ({run.manifest['key']})" for run in runs]


def test_command_prints_the_claims(folders, capsys):
    assert main(["report", str(folders["sst2"]), str(folders["mnist"])]) == 0
    printed = capsys.readouterr()
    assert printed.err == "" and "contradicted: on SST, CP-LRP agrees better" in " ".join(printed.out.split())


def test_no_runs_and_cells_that_a_spreadsheet_would_run():
    with pytest.raises(SourceError, match="no runs"):
        report.report([])
    cells = report._as_csv([{"name": "=1+1", "r": Interval(-0.5, -1.0, float("nan"), 3)}])
    assert cells.splitlines()[1] == b"'=1+1,-0.5,-1.0,,3"  # no spreadsheet runs a name
