"""Planted reasons: how words are planted, how they are judged, and the records."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lrp_book.records import planted as judge

import lrp_companion as lrp
from lrp_companion.sources import Dataset

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
KEPT = ROOT / "training" / "planted"
WIRINGS = ("post-ln-first", "llama")
TEXTS = (
    "a film of rare grace",
    "the plot is slow and the jokes are old",
    "warm , funny and true",
    "not a good film",
    "it never comes to life",
    "a quiet joy from start to end",
    "dull and too long",
    "a wonderful cast and a moving story",
)
LABELS = (1, 0, 1, 0, 0, 1, 0, 1)
METHODS = ("loo", "attnlrp")
RULES = {"shortcut": 1, "redundant": 2, "conjunction": 2, "negator": 1}
"""How many words each rule plants."""


@pytest.fixture(scope="module")
def words() -> dict[str, Any]:
    return json.loads((KEPT / "llama" / "planted.json").read_text())


# The judge.


def test_planted_words_are_against_the_label(words):
    made = judge.plantings(TEXTS, LABELS, words["rules"]["redundant"], words["decoys"], seed=3)
    again = judge.plantings(TEXTS[:2], LABELS[:2], words["rules"]["redundant"], words["decoys"], seed=3)
    assert made[:2] == again
    for one, text, label in zip(made, TEXTS, LABELS, strict=True):
        pair = words["rules"]["redundant"][1 - label]
        assert list(one.words[:2]) == pair and one.words[2] in words["decoys"]
        present = [[word in version.split() for word in pair] for version in one.texts]
        assert present == [[True, True], [True, False], [False, True], [False, False]]
        for version in one.texts:
            nonsense = [word for word in version.split() if word in (*pair, *words["decoys"])]
            assert len(set(nonsense)) == 3
            assert " ".join(word for word in version.split() if word not in nonsense) == text


@pytest.mark.parametrize("rule", list(RULES))
def test_a_rule_is_followed_where_its_words_decide(rule: str):
    """Every table of predictions, label 0: all words, one, the other, none."""
    wanted = {
        "shortcut": {(1, 0)},
        "negator": {(1, 0)},
        "redundant": {(1, 1, 1, 0)},
        "conjunction": {(1, 0, 0, 0)},
    }
    every = list(itertools.product((0, 1), repeat=2 ** RULES[rule]))
    kept = judge.follows(rule, np.array(every), np.zeros(len(every), int))
    assert {row for row, counted in zip(every, kept, strict=True) if counted} == wanted[rule]
    other = judge.follows(rule, 1 - np.array(every), np.ones(len(every), int))
    assert other.tolist() == kept.tolist()


@pytest.mark.parametrize("wiring", WIRINGS)
def test_a_kept_model_is_judged(wiring: str, words, kept, capsys: pytest.CaptureFixture[str]):
    clf = lrp.load_classifier(kept(f"planted/{wiring}"))
    data = Dataset("mine", "test", "here", tuple(map(str, range(8))), np.array(LABELS), TEXTS)
    arrays, manifest = judge.judged(clf, data, words, methods=METHODS, limit=8)
    assert manifest["methods"] == list(METHODS) and "shortcut" in capsys.readouterr().out
    order = arrays["example"].tolist()
    made = judge.plantings(
        [TEXTS[k] for k in order], [LABELS[k] for k in order], words["rules"]["redundant"], words["decoys"]
    )
    counted = [one for one, kept in zip(made, arrays["redundant follows"], strict=True) if kept]
    assert len(counted) >= 5
    for number, one in enumerate(counted):
        (record,) = lrp.attribute(clf, one.texts[0], method="loo", target=1 - one.label)
        words = np.flatnonzero(~record.special)
        values, scores = record.scores[words], {record.tokens[k]: record.scores[k] for k in words}
        ranks = [1 + int((values > scores[word]).sum()) for word in one.words]
        assert arrays["redundant signed"][0, number].tolist() == ranks
        assert arrays["redundant tokens"][number] == len(values)


# The committed records.


def test_every_record_has_its_training():
    for path in (RESULTS / "planted").glob("*.json"):
        training = json.loads((RESULTS / "training" / "planted" / path.name).read_text())
        assert training["weights"] == json.loads(path.read_text())["weights"]
        with np.load(path.with_suffix(".npz")) as arrays:
            assert all(arrays[f"{rule} follows"].sum() >= 200 for rule in RULES)


def test_labels_alone_have_a_record_for_each_run():
    runs = {path.parent.name for path in (RESULTS / "labels-only").glob("*/manifest.json")}
    assert runs == {f"labels-{wiring}-seed-0" for wiring in WIRINGS}
    for name in runs:
        training = json.loads((RESULTS / "training" / "planted" / f"{name}.json").read_text())
        assert training["teacher"] is None
