"""The five wirings: the kept weights are those of the records."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import lrp_companion as lrp

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"


WIRINGS = ("post-ln-first", "post-ln-mean", "modernbert", "gpt2", "llama")


@pytest.mark.parametrize("wiring", WIRINGS)
def test_the_weights_that_are_kept_are_those_of_the_records(wiring: str):
    """The hash of the training, and the one that the run was made with."""
    record = json.loads((RESULTS / "training/wirings" / f"{wiring}-seed-0.json").read_text())
    run = json.loads((RESULTS / "wirings" / f"{wiring}-seed-0" / "manifest.json").read_text())
    folder = ROOT / "training" / "wirings" / wiring
    assert hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest() == record["weights"]
    clf = lrp.load_classifier(str(folder))
    assert run["config"]["weights"] == clf.card.fingerprint and clf.labels == ("negative", "positive")
    checked = lrp.check(clf, ["a film of rare grace", "dull and far too long"])
    assert not checked.broken, checked


def test_every_run_has_the_record_of_its_training():
    recorded = sorted((RESULTS / "training" / "wirings").glob("*.json"))
    runs = {path.parent.name for path in (RESULTS / "wirings").glob("*/manifest.json")}
    assert runs == {path.stem for path in recorded} and len(runs) == 15
    targets = ROOT / "training" / "wirings" / "targets"
    for path in recorded:
        for name, digest in json.loads(path.read_text())["targets"].items():
            assert hashlib.sha256((targets / name).read_bytes()).hexdigest()[:16] == digest
