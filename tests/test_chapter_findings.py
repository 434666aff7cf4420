"""The numbers in the chapters' first sentences, recomputed from rows and files by other means."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from lrp_book.analysis.chapter_findings import chapter_catalogue, judged_claims
from lrp_book.analysis.findings import finding, value_of
from lrp_book.committed import SHORT, TEXT_RUNS, records

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
        won = (d > 0).mean() + (d == 0).mean() / 2
        assert value_of(f"{stem}, wins", RESULTS).mean == pytest.approx(won, abs=1e-12)


def test_over_trainings_is_the_mean_of_three_means() -> None:
    runs = list(records(RESULTS).trainings("sst2-6"))
    assert len(runs) == 3
    for name, protocol in SHORT.items():
        r_of = [[run.r(method, PROTOCOLS[protocol]) for method in ("cp-lrp", "attnlrp")] for run in runs]
        means = [np.nanmean(a - b) for a, b in r_of]
        value = value_of(f"sst2-6, over trainings, {name}", RESULTS)
        assert value.mean == pytest.approx(np.mean(means), abs=1e-9)
        assert value.low < min(means) + 0.02 and value.high > max(means) - 0.02


def test_errors_are_those_of_the_files() -> None:
    for short, file in (("sst2-12", "companion-sst2"), ("imdb-12", "companion-imdb")):
        rows = json.loads((RESULTS / "mask-gradient-error" / f"{file}.json").read_text())["rows"]
        shares = [row["share"]["across layers"] for row in rows]
        assert value_of(f"{short}, error across layers", RESULTS).mean == pytest.approx(np.mean(shares))


def test_counts_of_claims_add_up() -> None:
    words = ("reproduced", "partly", "contradicted", "inconclusive", "not testable here")
    counts = [int(finding(f"claims, {word}", RESULTS)) for word in words]
    assert sum(counts) == int(finding("claims", RESULTS)) == len(judged_claims(str(RESULTS)))


def test_every_name_has_a_number() -> None:
    """Names that no chapter uses are checked, too: a sentence may take them up."""
    for name in chapter_catalogue():
        assert finding(name, RESULTS)
