"""Benchmarks run and agree on a tiny model, count what PyTorch counts; pages show the record alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import lengths, long_context, pages, tables  # noqa: E402
from benchmarks.__main__ import main  # noqa: E402
from benchmarks.cases import CASES, shape_of  # noqa: E402
from benchmarks.clock import interleaved, multiplier, ratio, slope  # noqa: E402


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


def test_sides_alternate_and_ratios_are_by_repeat():
    calls: list[str] = []
    times = interleaved(
        {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, repeats=4, minimum=0.0
    )
    assert calls == [*"ab", *"abbaabba"] and [len(seconds) for seconds in times.values()] == [4, 4]
    assert ratio([1.0, 8.0, 3.0], [1.0, 2.0, 1.0]) == {"median": 3.0, "low": 1.0, "high": 4.0}
    assert slope([1.0, 10.0], [2.0, 2000.0]) == pytest.approx(3.0)


def test_lengths_are_measured(model_folder, tmp_path):
    out = tmp_path / "lengths.json"
    folder = str(model_folder("bert", layers=3, hidden=16))
    short = ["--texts", "1", "--repeats", "1", "--minimum", "0", "--lengths", "6", "9"]
    assert lengths.main([*short, "--model", folder, "--out", str(out)]) == 0
    record = json.loads(out.read_text())
    assert [row["tokens"] for row in record["rows"]] == [6, 9] and record["config"]["repeats"] == 1
    for (kind, name), part in tables.PARTS.items():
        if kind == "lengths":
            assert part(record), name


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


def test_a_long_context_is_measured(monkeypatch):
    small = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2}
    monkeypatch.setattr(long_context, "SHAPE", {**small, "head_dim": 4})
    threads = torch.get_num_threads()
    for kind in long_context.KINDS:
        options = {"dtype": "bfloat16", "threads": 1, "recompute": True}
        row = long_context.once(kind, 2, 40, **options)
        assert row["finite"] and row["peak"] >= row["before"] > 0 and row["seconds"] > 0, kind
    torch.set_num_threads(threads)


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_pages_show_the_committed_record(page):
    text = page.read_text(encoding="utf-8")
    assert "<!-- benchmarks: " in text
    assert pages.filled(text, pages.load()) == text, "run: python -m benchmarks --pages"
