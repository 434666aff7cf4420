"""Numbers in text have a record: the accuracies of the embedded models."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RECORDS = sorted((ROOT / "results" / "training").glob("*/accuracy.json"))
SPLITS = {"SST-2 validation": "sst2/validation", "IMDB test": "imdb/test"}


def test_the_page_shows_the_recorded_accuracies():
    page = (ROOT / "book" / "data_and_models.md").read_text(encoding="utf-8")
    shown = re.findall(
        r"^\| `([\w-]+)` \| ([\w -]+) \| ([\d.]+) \| ([\d.]+) \| (all|[\d,]+ of) ([\d,]+) \|$",
        page,
        flags=re.M,
    )
    recorded = {(path.parent.name, split) for path in RECORDS for split in json.loads(path.read_text())}
    assert {(model, SPLITS[split]) for model, split, *_ in shown} == recorded and recorded
    for model, split, accuracy, error, part, whole in shown:
        row = json.loads((ROOT / "results" / "training" / model / "accuracy.json").read_text())[SPLITS[split]]
        assert float(accuracy) == round(row["accuracy"], 4)
        assert float(error) == round(row["standard_error"], 4)
        assert int(whole.replace(",", "")) == row["of"]
        assert row["n"] == row["of"] if part == "all" else int(part.split()[0].replace(",", "")) == row["n"]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.parent.name)
def test_recorded_accuracies_follow_from_their_counts(path):
    for row in json.loads(path.read_text()).values():
        p = row["right"] / row["n"]
        assert row["accuracy"] == round(p, 4)
        assert row["standard_error"] == round(math.sqrt(p * (1 - p) / row["n"]), 4)


def test_the_model_card_shows_the_recorded_accuracies():
    card = (ROOT / "lrp_companion" / "embedded" / "companion" / "README.md").read_text(encoding="utf-8")
    record = json.loads((ROOT / "results" / "training" / "companion" / "accuracy.json").read_text())
    for row in record.values():
        assert f"{row['accuracy']:.4f} (n = {row['n']:,}" in card
