"""The training script of the five wirings, and that the kept weights are those of the records."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lrp_companion as lrp

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
TEXTS = (
    "a film of rare grace",
    "the plot is slow and the jokes are old",
    "warm , funny and true",
    "not a good film",
)
WIRINGS = {
    "post-ln-first": ("learned", False, False, 2),
    "post-ln-mean": ("learned", False, False, 2),
    "modernbert": ("rotations", True, False, 2),
    "gpt2": ("learned", False, True, 0),
    "llama": ("rotations", True, True, 1),
}
"""Positions, whether the MLP is gated, whether attention looks back only, special tokens."""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_wirings", ROOT / "training" / "train_wirings.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_wirings"] = module
    spec.loader.exec_module(module)
    return module


def save(script: ModuleType, wiring: str, seed: int, folder: Path) -> Path:
    """A small network of the script with random weights large enough that tokens matter."""
    import torch

    torch.manual_seed(seed)
    letters = [chr(k) for k in range(97, 123)] + [",", "!"]
    words = sorted({word for text in TEXTS for word in text.split()} - set(letters))
    pieces = [*script.SPECIAL, *letters, *(f"##{letter}" for letter in letters), *words]
    recipe = script.Recipe(layers=4, width=16, heads=2, inner=24, gated_inner=20, initial_scale=0.4)
    place = folder / f"{wiring}-seed-{seed}"
    script.network_of(wiring, recipe, len(pieces)).eval().save_pretrained(place)
    script.tokenizer_of(wiring, pieces, recipe.positions).save_pretrained(place)
    return place


@pytest.mark.parametrize("wiring", list(WIRINGS))
def test_the_script_builds_what_the_table_of_wirings_says(script, wiring: str, tmp_path: Path):
    """Positions, MLP, readout and special tokens, as the package finds them in the network."""
    clf = lrp.load_classifier(save(script, wiring, 0, tmp_path), dtype="float64")
    positions, gated, causal, special = WIRINGS[wiring]
    assert (clf.encoder.wiring.gated, clf.encoder.wiring.causal) == (gated, causal)
    weights = clf.network.state_dict()
    learned = any(name.endswith(("position_embeddings.weight", "wpe.weight")) for name in weights)
    assert learned == (positions == "learned")
    ids = clf.tokenizer(TEXTS[0])["input_ids"]
    specials = sum(k in clf.tokenizer.all_special_ids for k in ids)
    assert specials == special


def test_the_script_takes_lots_in_order(script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Sentences of reviews: as long as asked, the same in every run, the first lot first."""
    (tmp_path / "imdb").mkdir()
    reviews = [f"Good film number {k} , really. Bad. Another sentence of film {k} here!" for k in range(9)]
    labels = [k % 2 for k in range(9)]
    pq.write_table(pa.table({"text": reviews, "label": labels}), tmp_path / "imdb" / "train.parquet")
    monkeypatch.setattr(script, "LOTS", (5, 6))
    sentences, of_reviews = script.imdb_sentences(tmp_path)
    assert len(sentences) == 11 == len(set(sentences)) and "Bad." not in sentences
    assert of_reviews == [int(re.search(r"\d", text)[0]) % 2 for text in sentences]
    assert (sentences, of_reviews) == script.imdb_sentences(tmp_path)
    monkeypatch.setattr(script, "LOTS", (5, 0))
    assert script.imdb_sentences(tmp_path)[0] == sentences[:5]


def test_batches_keep_the_shares(script):
    recipe, other = (script.Recipe(seed=seed, batch=8, steps=64, imdb_share=0.625) for seed in (3, 4))
    lengths = list(range(1000))
    batches = script.plan(recipe, lengths, 400)
    assert len(batches) == 64 and {len(rows) for rows in batches} == {8}
    assert (np.concatenate(batches) >= 400).mean() == pytest.approx(0.625)
    assert batches == script.plan(recipe, lengths, 400) != script.plan(other, lengths, 400)


@pytest.mark.parametrize("wiring", list(WIRINGS))
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
