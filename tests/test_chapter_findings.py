"""The numbers in the chapters' first sentences, recomputed from rows and files by other means."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from lrp_book.analysis.chapter_findings import chapter_catalogue
from lrp_book.analysis.effect_causes import stated_with_whole_sums
from lrp_book.analysis.findings import finding, value_of
from lrp_book.committed import SHORT, TEXT_RUNS

from lrp_companion.paper.protocol_grid import grid, stated_cells
from lrp_companion.runs.load import load_run
from lrp_companion.schema import PROTOCOLS, Protocol

RESULTS = Path(__file__).resolve().parents[1] / "results"
POSITIONS = Protocol(site="word+position", tokens="all")


def r(run: str, method: object, protocol: Protocol) -> np.ndarray:
    return load_run(RESULTS / run).r(method, protocol)


def gap(run: str, protocol: Protocol) -> np.ndarray:
    return r(run, "cp-lrp", protocol) - r(run, "attnlrp", protocol)


@pytest.mark.parametrize("short", TEXT_RUNS)
def test_the_typical_example(short: str) -> None:
    for name, protocol in SHORT.items():
        d = gap(TEXT_RUNS[short], PROTOCOLS[protocol])
        d = d[np.isfinite(d)]
        stem = f"{short}, CP-LRP minus AttnLRP, {name}"
        assert value_of(f"{stem}, median", RESULTS).mean == pytest.approx(np.median(d), abs=1e-12)


@pytest.mark.parametrize("short", TEXT_RUNS)
def test_the_split_by_loo_at_cls(short: str) -> None:
    run = load_run(RESULTS / TEXT_RUNS[short])
    first = np.array([scores[0] for scores in run.loo(POSITIONS)])
    d = gap(TEXT_RUNS[short], POSITIONS)
    for side, keep in (("below", first < 0), ("above", first > 0)):
        value = value_of(f"{short}, CP-LRP minus AttnLRP, LOO at [CLS] {side} 0", RESULTS)
        assert value.n == np.isfinite(d[keep]).sum()
        assert value.mean == pytest.approx(np.nanmean(d[keep]), abs=1e-12)


def test_shifts_and_errors_are_those_of_the_files() -> None:
    shifts = json.loads((RESULTS / "embedding-shift" / "companion.json").read_text())["rows"]
    for method in ("attnlrp", "cp-lrp"):
        row = [x for x in shifts if x["method"] == method and x["size"] == 1 and x.get("sign") == -1]
        assert value_of(f"shift, {method}, lowest", RESULTS).mean == pytest.approx(np.mean(row[0]["r"]))
    for short, file in (("sst2-12", "companion-sst2"), ("imdb-12", "companion-imdb")):
        rows = json.loads((RESULTS / "mask-gradient-error" / f"{file}.json").read_text())["rows"]
        shares = [row["share"]["across layers"] for row in rows]
        assert value_of(f"{short}, error across layers", RESULTS).mean == pytest.approx(np.mean(shares))


def test_the_sign_turns_where_exactly_one_sum_is_negative() -> None:
    run = load_run(RESULTS / TEXT_RUNS["sst2-12"])
    divided = run.r("attnlrp", Protocol(site="word+position", tokens="all", map="sum-to-one"))
    raw = run.r("attnlrp", POSITIONS)
    turned = np.isclose(divided, -raw) & (raw != 0)
    assert value_of("sst2-12, sign turned, AttnLRP", RESULTS).mean == pytest.approx(turned.mean(), abs=1e-9)


def test_sums_over_all_tokens_give_words_the_signs_of_all() -> None:
    run = load_run(RESULTS / TEXT_RUNS["sst2-12"])
    rows = {(row["site"], row["tokens"]): row for row in stated_with_whole_sums(run)}
    at = {"target": "logit", "removal": "attention-mask"}
    loo = np.array([scores.sum() for scores in run.loo()])
    columns = []
    for method in ("cp-lrp", "attnlrp"):
        negative = run.negative_sum(method, site="word+position", tokens="all")
        r = run.r(method, Protocol(site="word+position", **at))
        columns.append(r * np.where(negative == 1, -1, 1) * np.sign(loo))
    expected = np.nanmean(columns[0] - columns[1])
    assert rows["word+position", "no-special"]["difference"].mean == pytest.approx(expected, abs=2e-3)
    plain = {(row["site"], row["tokens"]): row for row in stated_cells(grid(run))}
    for site in ("word", "word+position", "embedding"):
        here, there = rows[site, "all"], plain[site, "all"]
        assert here["difference"].mean == pytest.approx(there["difference"].mean, abs=1e-6)
        assert here["nearer"] == there["nearer"]


def test_every_name_has_a_number() -> None:
    """Names that no chapter uses are checked, too: a sentence may take them up."""
    for name in chapter_catalogue():
        assert finding(name, RESULTS)
