"""What the sentences of chapter 8 say of the wirings, against their records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lrp_book.analysis import findings, wiring_steps, wirings
from lrp_book.committed import Records

from lrp_companion.metrics.statistics import bootstrap_mean, side_of_zero

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def chapter() -> dict[str, tuple]:
    """The runs that chapter 8 reads."""
    return wirings.load_wirings(ROOT / "results" / "wirings")


@pytest.fixture(scope="module")
def rows(chapter) -> dict[tuple[str, str], dict[str, Any]]:
    """CP-LRP minus AttnLRP and the mean r of each method, by wiring and reading."""
    return {(row["wiring"], row["reading"]): row for row in wirings.effect_rows(chapter)}


def test_what_the_chapter_says_of_sides_holds(chapter, rows):
    for name in wirings.WIRINGS:
        assert side_of_zero(rows[name, "words"]["d"]) == ("across" if name == "llama" else "below")
    assert side_of_zero(rows["llama", "all tokens"]["d"]) == "across"
    assert side_of_zero(rows["gpt2", "words + positions"]["d"]) == "across"
    one_by_one = [
        side_of_zero(bootstrap_mean(run.r("cp-lrp") - run.r("attnlrp"))) for run in chapter["llama"]
    ]
    assert sorted(one_by_one) == ["above", "across", "across"]
    held = {(row["point"], row["wiring"]): row["held"] for row in wirings.outcomes(chapter)}
    assert {name: held[6, name] for name in wirings.WIRINGS} == {
        **dict.fromkeys(wirings.WIRINGS, 0),
        "llama": 2,
    }
    for name in ("post-ln-first", "gpt2"):
        for later, first in map(wirings.later_and_first, chapter[name]):
            assert later > 0 > first and -first > later
    gains = {
        name: [row["gain"].mean.mean for row in wirings.gate_rows(chapter) if row["wiring"] == name]
        for name in ("modernbert", "llama")
    }
    assert (
        max(gains["modernbert"]) < 0 < min(gains["llama"]) and max(map(abs, sum(gains.values(), []))) < 0.005
    )


def test_what_the_chapter_says_of_the_mask_gradient_holds(chapter, rows):
    def lead(rival: str, run: Any) -> str:
        return side_of_zero(bootstrap_mean(run.r("mask-gradient") - run.r(rival)))

    for name, runs in chapter.items():
        over = wirings.over_runs(runs, [run.r("mask-gradient") - run.r("attnlrp") for run in runs])
        assert over.mean > 0 and side_of_zero(over) == ("across" if name == "modernbert" else "above")
        assert {lead("attnlrp", runs[0]), lead("cp-lrp", runs[0])} == {"above"}
    others = [run for runs in chapter.values() for run in runs[1:]]
    assert [lead("cp-lrp", run) for run in others] == ["above"] * 10
    open_ones = [run.name for run in others if lead("attnlrp", run) == "across"]
    assert len(open_ones) == 5 and sum(name.startswith("modernbert") for name in open_ones) == 2
    assert [lead("attnlrp", run) for run in others].count("above") == 5
    counted = rows["llama", "all tokens"]
    assert counted["mask-gradient"].mean < counted["attnlrp"].mean


def test_what_the_chapter_says_of_ranks_holds(chapter):
    rows = {
        (row["wiring"], row["reading"]): row for row in wirings.effect_rows(chapter, statistic="spearman")
    }
    sides = {name: side_of_zero(rows[name, "words"]["d"]) for name in wirings.WIRINGS}
    behind = dict.fromkeys(("post-ln-mean", "modernbert", "llama"), "below")
    assert sides == {"post-ln-first": "across", "gpt2": "across", **behind}
    counted = rows["post-ln-first", "all tokens + positions"]["d"]
    assert side_of_zero(counted) == "across" and counted.mean < 0.02
    kept = Records({}, {}, {}, [], [], str(ROOT / "results"))
    leads = {}
    for name in wirings.WIRINGS:
        row = rows[name, "words"]
        lead = findings.CATALOGUE[f"{name}, mask gradient minus AttnLRP, Spearman"](kept)
        assert lead.mean == pytest.approx(row["mask-gradient"].mean - row["attnlrp"].mean, abs=1e-9)
        pearson = findings.CATALOGUE[f"{name}, mask gradient minus AttnLRP"](kept)
        assert lead.low > pearson.high
        leads[name] = lead.mean
    assert (min(leads, key=leads.__getitem__), max(leads, key=leads.__getitem__)) == ("llama", "modernbert")
    for (name, reading), row in rows.items():
        named = findings.CATALOGUE[f"{name}, CP-LRP minus AttnLRP, {reading}, Spearman"](kept)
        assert named == row["d"]


def test_what_the_chapter_says_of_steps_holds(chapter):
    trained = wirings.training_records(ROOT / "results" / "training" / "wirings")
    made = {(row["steps"], row["numbers"]) for rows in trained.values() for row in rows}
    assert made == {(5000, "bfloat16")} and set(trained) == set(wirings.WIRINGS)
    right = {name: [row["accuracy"] for row in rows] for name, rows in trained.items()}
    assert min(min(values) for values in right.values()) >= 0.8495
    best = max(max(right[name]) for name in ("post-ln-first", "post-ln-mean", "gpt2"))
    assert min(right["modernbert"]) > best and sum(value > best for value in right["llama"]) == 2
    files = (wiring_steps.FILE, "wirings-2000-steps-bfloat16.json")
    records = [wiring_steps.load_effects(ROOT / "results" / file) for file in files]
    assert {run["wiring"] for run in records[0]["runs"]} == set(wirings.WIRINGS)
    recipes = [{(run["steps"], run["numbers"]) for run in record["runs"]} for record in records]
    assert recipes == [{(2000, "float32")}, {(2000, "bfloat16")}]
    rows = [row for row in wiring_steps.steps_rows(chapter, trained, *records) if row["reading"] == "words"]
    of = {name: [row for row in rows if row["wiring"] == name] for name in wirings.WIRINGS}
    assert {name: len(lengths) for name, lengths in of.items()} == {**dict.fromkeys(of, 2), "gpt2": 3}
    for name, lengths in of.items():
        before, after = lengths[0], lengths[-1]
        assert after["d"].mean < before["d"].mean
        assert after["mask-gradient"].mean < before["mask-gradient"].mean
        assert (after["attnlrp"].mean < before["attnlrp"].mean) == (name != "modernbert")
    short, short_in_bfloat16, long = of["gpt2"]
    assert min(*short["trainings"], *short_in_bfloat16["trainings"]) > 0 > max(long["trainings"])
    short, long = of["llama"]
    assert min(short["trainings"]) > 0 and sum(value < 0 for value in long["trainings"]) == 1
