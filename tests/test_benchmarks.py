"""Benchmarks run and agree on a tiny model, count what PyTorch counts; pages show the record alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import pages, tables  # noqa: E402
from benchmarks.__main__ import main  # noqa: E402
from benchmarks.cases import CASES, shape_of  # noqa: E402
from benchmarks.clock import multiplier  # noqa: E402


@pytest.fixture(scope="module")
def record(model_folder, tmp_path_factory):
    """A quick run on a tiny model."""
    out = tmp_path_factory.mktemp("bench") / "record.json"
    folder = model_folder("bert", layers=3, hidden=16)
    assert main(["--quick", "--model", str(folder), "--out", str(out)]) == 0
    return json.loads(out.read_text())


def test_a_quick_run_measures_every_case(record):
    assert {row["case"] for row in record["rows"]} == set(CASES)
    assert {row["what"] for row in record["rows"] if row["goal"]} >= {
        "LOO",
        "LOO, bfloat16",
        "AttnLRP",
        "IG, 50 steps",
    }
    for row in record["rows"]:
        r = row["ratio"]
        assert 0 < r["low"] <= r["median"] <= r["high"]
        assert all(s > 0 for seconds in row["seconds"].values() for s in seconds)
        assert row.get("equal", 0) <= row.get("tolerance", 0) or "equal" not in row
    assert record["config"]["quick"] is True and record["hardware"]["threads"] >= 1
    assert set(record["versions"]) >= {"torch", "captum"}
    assert [curve["along"] for curve in record["growth"]].count("tokens") == 2


@pytest.mark.parametrize("tokens", [4, 9])
def test_the_arithmetic_is_what_pytorch_counts(tokens, clf):
    """A forward of the tape: its matrix products, less the head's and the last bits."""
    from torch.utils.flop_counter import FlopCounterMode

    shape = shape_of(clf)
    ids = torch.arange(5, 5 + tokens)[None]
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        clf.encoder.forward(ids, torch.ones_like(ids))
    head = 2 * sum(linear.weight.numel() for linear, _ in clf.encoder.wiring.head)
    assert counter.get_total_flops() == shape.forward(tokens) + head
    multiply, operations = multiplier(shape)
    with FlopCounterMode(display=False) as counter:
        multiply()
    assert counter.get_total_flops() == operations


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_pages_show_the_records_of_lengths_and_peers(page):
    text = page.read_text(encoding="utf-8")
    assert "<!-- peers: " in text or "<!-- lengths: " in text
    assert tables.filled(text, tables.load()) == text, "run: python -m benchmarks.tables"


def test_peers_agree_in_the_committed_record():
    record = tables.load()["peers"]
    for row in record["rows"]:
        assert row["difference"] < (1e-6 if row["method"] == "AttnLRP" else 1e-12), row
    assert record["config"]["dtype"] == "float64" and {row["model"] for row in record["rows"]} > {"companion"}


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_pages_show_the_committed_record(page):
    text = page.read_text(encoding="utf-8")
    assert "<!-- benchmarks: " in text
    assert pages.filled(text, pages.load()) == text, "run: python -m benchmarks --pages"
