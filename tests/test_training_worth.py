"""The lead by each removal over trainings, and both read-outs: again from the rows of the records."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from lrp_book import paired as training_worth
from lrp_book.ch06_trainings import both_read_outs, pooling_outcomes, pooling_rows
from lrp_book.committed import POSITIONS, SHORT_RECIPE, WORDS, Records, records
from lrp_book.predictions import FAILED, MET, MIXED
from lrp_book.say import MissingRecord
from plain_rows import counted, plain_loo, r_of

from lrp_companion.lab.load import TextRun, load_run
from lrp_companion.lab.paper.claims import gains_on_both
from lrp_companion.schema import PROTOCOLS

RESULTS = Path(__file__).parents[1] / "results"
FIVE = [f"sst2-{SHORT_RECIPE}-seed-{seed}" for seed in range(5)]
SMALL_FIRST = [f"post-ln-first-seed-{seed}" for seed in range(3)]
SMALL_MEAN = [f"post-ln-mean-seed-{seed}" for seed in range(3)]
MEAN = [f"sst2-companion-6-mean-seed-{seed}" for seed in range(3)]
FOLDERS = {
    "post": "wirings",
    "sst2-companion-6-mean": "mean-pooling",
    "sst2-companion-6-short": "trainings",
    "imdb-companion-6-short": "trainings",
}
REMOVALS = ("attention-mask", "mask-token", "pad-token", "delete")


def folder(name: str) -> Path:
    (place,) = (place for start, place in FOLDERS.items() if name.startswith(start))
    return RESULTS / place / name


@cache
def run(name: str) -> TextRun:
    return load_run(folder(name))


@cache
def examples(name: str) -> dict[int, dict]:
    return {row["job"]: row for row in pq.read_table(folder(name) / "examples.parquet").to_pylist()}


@cache
def maps(name: str) -> dict[tuple[str, int], list[float]]:
    table = pq.read_table(folder(name) / "methods.parquet").to_pylist()
    return {(row["method"], row["job"]): row["map"] for row in table}


@cache
def removals(name: str) -> tuple[str, ...]:
    return tuple(json.loads((folder(name) / "manifest.json").read_text())["axes"]["removal"])


def scores(name: str, method: str, job: int) -> list[float]:
    """A map: word relevance, or the scores of a method without parts."""
    return maps(name)[method, job][: examples(name)[job]["tokens"]]


def mean_of_means(columns: dict[str, list[float]]) -> float:
    return float(np.mean([np.nanmean(column) for column in columns.values()]))


@cache
def leads() -> list[dict[str, Any]]:
    return training_worth.removal_leads([run(name) for name in FIVE])


@pytest.mark.parametrize("removal", REMOVALS)
def test_the_lead_of_the_mask_gradient_by_each_removal(removal: str):
    rows = leads()
    assert [row["removal"] for row in rows] == list(removals(FIVE[0]))
    (row,) = (row for row in rows if row["removal"] == removal)
    gaps: dict[str, list[float]] = {}
    for name in FIVE:
        place = removals(name).index(removal)
        gaps[name] = []
        for job, example in examples(name).items():
            kept, loo = counted(example, "no-special"), plain_loo(example, 4, place)
            a, b = (r_of(scores(name, method, job), loo, kept) for method in ("mask-gradient", "attnlrp"))
            gaps[name].append(a - b)
    assert row["difference"].mean == pytest.approx(mean_of_means(gaps), abs=3e-5)
    assert row["trainings"] == pytest.approx([np.nanmean(gap) for gap in gaps.values()], abs=3e-5)
    pooled = np.concatenate(list(gaps.values()))
    assert row["median"].mean == pytest.approx(np.nanmedian(pooled), abs=3e-5)


@cache
def stored(name: str) -> dict[tuple[str, int], dict]:
    table = pq.read_table(folder(name) / "methods.parquet").to_pylist()
    return {(row["method"], row["job"]): row for row in table}


def read_out(name: str) -> dict[str, Any]:
    """By hand, from flat columns: share of [CLS], effects at the words and everywhere, gap between signs.

    An entry of `r` is found at ((site x 2 + tokens) x 3 targets) x removals x 3 statistics.
    """
    step, share, words, everywhere, above = len(removals(name)) * 3, [], [], [], []
    for job, example in examples(name).items():
        lrp, cp = stored(name)["attnlrp", job], stored(name)["cp-lrp", job]
        words.append(cp["r"][0] - lrp["r"][0])
        everywhere.append(cp["r"][9 * step] - lrp["r"][9 * step])
        share.append(abs(lrp["first"][0] + lrp["first"][1]) / lrp["size"][9])
        above.append(plain_loo(example, len(removals(name)))[0] > 0)
    up, effects = np.array(above), np.array(everywhere)
    gap = np.nanmean(effects[up]) - np.nanmean(effects[~up])
    means = {"share": np.nanmean(share), "words": np.nanmean(words), "all": np.nanmean(effects)}
    return {**means, "gap": gap, "above": up.mean()}


@pytest.mark.parametrize(("firsts", "means"), [(FIVE, MEAN), (SMALL_FIRST, SMALL_MEAN)])
def test_both_read_outs_and_what_was_predicted(firsts: list[str], means: list[str]):
    first, mean = ([run(name) for name in names] for names in (firsts, means))
    rows = {row["reads"]: row for row in pooling_rows(first, mean)}
    by_hand = {"[CLS]": [read_out(name) for name in firsts], "mean": [read_out(name) for name in means]}
    for reads, of_runs in by_hand.items():
        for what in ("share", "words", "all", "above"):
            expected = np.mean([one[what] for one in of_runs])
            assert rows[reads][what].mean == pytest.approx(expected, abs=3e-5), (reads, what)
        assert rows[reads]["gaps"] == pytest.approx([one["gap"] for one in of_runs], abs=1e-4)
    half = np.mean([one["share"] for one in by_hand["[CLS]"]]) / 2
    held = {
        1: [one["share"] < half for one in by_hand["mean"]],
        2: [(one["words"] > 0) == (one["all"] > 0) for one in by_hand["mean"]],
        3: [abs(one["gap"]) < 0.1 for one in by_hand["mean"]],
    }
    outcomes = pooling_outcomes(first, mean)
    for row in outcomes:
        expected = held[row["point"]]
        assert row["outcome"] == (MET if all(expected) else MIXED if any(expected) else FAILED)
        assert row["held"] == sum(expected) and row["of"] == len(means)


@pytest.mark.parametrize("seed", range(2))
def test_both_data_sets_rest_on_one_training(seed: int):
    name = f"imdb-{SHORT_RECIPE}-seed-{seed}"
    on_imdb, on_sst = run(name), run(FIVE[seed])
    assert on_imdb.manifest["config"]["weights"] == on_sst.manifest["config"]["weights"]
    assert on_imdb.n == 100 and on_sst.n == 872
    plain = read_out(name)
    for what, protocol in (("words", PROTOCOLS[WORDS]), ("all", PROTOCOLS[POSITIONS])):
        made = on_imdb.difference("cp-lrp", "attnlrp", protocol).mean
        assert made == pytest.approx(plain[what], abs=3e-5)
    kept = records(RESULTS)
    assert [one.task for one in kept.recipe(SHORT_RECIPE, task="imdb")] == ["imdb"] * 2
    assert [one.task for one in kept.recipe(SHORT_RECIPE)] == ["sst2"] * 5
    rows = gains_on_both([*kept.runs.values(), *kept.beside])
    assert len(rows) == 4 * len(PROTOCOLS)
    of_seed = [row for row in rows if (row["sst2 run"].name, row["imdb run"].name) == (FIVE[seed], name)]
    assert [row["protocol"] for row in of_seed] == list(PROTOCOLS)
    gap = read_out(FIVE[seed])["words"] - plain["words"]
    assert of_seed[0]["difference"].mean == pytest.approx(gap, abs=5e-5)


def test_a_folder_without_models_that_read_the_mean(tmp_path: Path):
    with pytest.raises(MissingRecord, match="no folder mean-pooling"):
        both_read_outs(Records({}, {}, {}, [], [], str(tmp_path)))
