"""Weights that records depend on: those that are kept are those that were trained and explained."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import lrp_companion as lrp

RESULTS = Path(__file__).resolve().parent.parent / "results"
WIRINGS = ("post-ln-first", "post-ln-mean", "modernbert", "gpt2", "llama")
KEPT = {f"wirings/{of}": (f"wirings/{of}-seed-0", f"wirings/{of}-seed-0/manifest") for of in WIRINGS}
KEPT |= {f"planted/{of}": (f"planted/planted-{of}-seed-0",) * 2 for of in ("post-ln-first", "llama")}
KEPT["vit"] = ("vit/seed-0", "vit/mnist-seed-0")


@pytest.mark.parametrize("model", KEPT)
def test_the_weights_that_are_kept_are_those_of_the_records(model: str, kept):
    """The hash of the training, and the one that the record was made with."""
    trained, explained = KEPT[model]
    training = json.loads((RESULTS / "training" / f"{trained}.json").read_text(encoding="utf-8"))
    record = json.loads((RESULTS / f"{explained}.json").read_text(encoding="utf-8"))
    folder = kept(model)
    assert hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest() == training["weights"]
    clf = lrp.load_classifier(folder)
    assert clf.card.fingerprint == record["config"]["weights"]
    if model.startswith("wirings"):
        assert clf.labels == ("negative", "positive")
        checked = lrp.check(clf, ["a film of rare grace", "dull and far too long"])
        assert not checked.broken, checked
    elif model.startswith("planted"):
        assert record["weights"] == training["weights"] and training["followed"] == record["followed"]
        assert training["teacher"] is None


def test_every_run_has_the_record_of_its_training(kept):
    recorded = sorted((RESULTS / "training" / "wirings").glob("*.json"))
    runs = {path.parent.name for path in (RESULTS / "wirings").glob("*/manifest.json")}
    assert runs == {path.stem for path in recorded} and len(runs) == 15
    targets = kept("wirings/targets")
    for path in recorded:
        for name, digest in json.loads(path.read_text())["targets"].items():
            assert hashlib.sha256((targets / name).read_bytes()).hexdigest()[:16] == digest
