"""Chapter 8's planted reasons: how words are planted and judged, what is computed from it, the records."""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from lrp_book import ch08_planted as ch
from lrp_book.records import planted as judge

import lrp_companion as lrp
from lrp_companion.checks import InputError, SourceError
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


@pytest.fixture(scope="module")
def script() -> ModuleType:
    sys.path.insert(0, str(ROOT / "training"))
    try:
        return importlib.import_module("train_planted")
    finally:
        sys.path.remove(str(ROOT / "training"))


@pytest.fixture(scope="module")
def planter(script: ModuleType) -> Any:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "fine", "film", "##s", *script.words()]
    return script.Planter(script.wirings.tokenizer_of("post-ln-first", pieces, 32), pieces, 0)


@pytest.fixture(scope="module")
def words() -> dict[str, Any]:
    return json.loads((KEPT / "llama" / "planted.json").read_text())


# The training script.


def test_all_planted_words_and_decoys_are_equally_frequent(script, planter):
    """By the shares of the cases exactly; here in 36,000 planted sentences, up to chance."""
    counts: Counter[int] = Counter()
    for name, share in script.CASES.items():
        for _ in range(2000 * share):
            chosen, _ = planter.case(name, 0)
            assert len(set(chosen)) == script.SLOTS
            counts.update(chosen)
    assert len(counts) == 27
    assert [counts[k] / 4000 for k in counts] == pytest.approx([1] * 27, abs=0.1)


def test_labels_follow_the_cases(script, planter):
    by_class = {rule: [set(words) for words in classes] for rule, classes in planter.rules.items()}
    for name, label in itertools.product(script.CASES, (0, 1)):
        for _ in range(40):
            chosen, came = planter.case(name, label)
            here, decided = set(chosen), set()
            for rule, classes in by_class.items():
                for number, pair in enumerate(classes):
                    enough = pair <= here if rule == "conjunction" else bool(pair & here)
                    if enough:
                        decided.add(1 - label if rule == "negator" else number)
            assert {came} == (decided or {label})


def test_words_stand_between_words(planter):
    ids = [2, 5, 6, 7, 3]  # [CLS] fine film ##s [SEP]
    places = set()
    for _ in range(200):
        out = planter.insert(ids, planter.decoys[:3])
        assert [k for k in out if k not in planter.decoys] == ids and out[0] == 2 and out[-1] == 3
        assert out[out.index(7) - 1] == 6
        places.add(out.index(planter.decoys[0]))
    assert places == {1, 2, 3, 4, 5, 6}
    assert planter.sentence(ids, 1, 0.0) == (ids, 1, "nothing")


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


@pytest.mark.parametrize("rule", list(ch.RULES))
def test_a_rule_is_followed_where_its_words_decide(rule: str):
    """Every table of predictions, label 0: all words, one, the other, none."""
    wanted = {
        "shortcut": {(1, 0)},
        "negator": {(1, 0)},
        "redundant": {(1, 1, 1, 0)},
        "conjunction": {(1, 0, 0, 0)},
    }
    every = list(itertools.product((0, 1), repeat=2 ** ch.RULES[rule]))
    kept = judge.follows(rule, np.array(every), np.zeros(len(every), int))
    assert {row for row, counted in zip(every, kept, strict=True) if counted} == wanted[rule]
    other = judge.follows(rule, 1 - np.array(every), np.ones(len(every), int))
    assert other.tolist() == kept.tolist()


def test_ranks_put_ties_last():
    zero = judge.measured(np.zeros(4), np.array([True, False, False, False]), np.array([1, 2, 3]))
    assert zero["share"] == [0, 0, 0] and zero["signed"] == zero["size"] == [3, 3, 3] and zero["special"] == 0


@pytest.mark.parametrize("wiring", WIRINGS)
def test_a_kept_model_is_judged(wiring: str, words, capsys: pytest.CaptureFixture[str]):
    clf = lrp.load_classifier(KEPT / wiring)
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
        scores = {
            t: s for t, s, out in zip(record.tokens, record.scores, record.special, strict=True) if not out
        }
        values = np.array([record.scores[k] for k in np.flatnonzero(~record.special)])
        share = [scores[word] / np.abs(values).sum() for word in one.words]
        assert arrays["redundant share"][0, number] == pytest.approx(share, abs=1e-3)
        ranks = [1 + int((values > scores[word]).sum()) for word in one.words]
        assert arrays["redundant signed"][0, number].tolist() == ranks
        assert arrays["redundant tokens"][number] == len(values)


def test_words_in_pieces_are_refused():
    clf = lrp.load_classifier(KEPT / "llama")
    with pytest.raises(InputError, match="'qwzx' 0 times"):
        judge.places(clf, ["a qwzx film"], [["qwzx", "a", "film"]])


def test_methods_that_are_not_there_are_left_out(monkeypatch: pytest.MonkeyPatch):
    assert "no-such-method" not in judge.usable([*judge.METHODS, "no-such-method"])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "ig:n_steps=20" not in judge.usable(judge.METHODS) and "loo" in judge.usable(judge.METHODS)


# What is computed from records.


def made_up(good: bool = True, wiring: str = "llama") -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A record of 4 sentences, of which 3 follow; if `good`, as was predicted, else the other way round."""
    methods = list(judge.METHODS)
    followed = dict.fromkeys(
        ("decoys", "shortcut", "redundant, one copy", "redundant", "half", "conjunction", "negator")
    )
    manifest = {"wiring": wiring, "methods": methods}
    manifest["followed"] = {name: {"label": 1.0 * good, "as alone": 1.0 * good} for name in followed}
    arrays: dict[str, np.ndarray] = {"example": np.array([5, 2, 9, 4]), "label": np.array([1, 0, 1, 0])}
    kept = np.array([True, False, True, True])
    for rule, planted in ch.RULES.items():
        bad = ["gradient-x-input", "rollout", *(m for m in methods if "loo" in m and rule == "redundant")]
        bad += [m for m in methods if m.startswith(("mask", "hybrid")) and rule == "redundant"]
        bad += ["attnlrp", "cp-lrp"] if rule in ("conjunction", "negator") else []
        ranks = np.tile(np.arange(1, 4), (len(methods), 3, 1))
        share = np.full((len(methods), 3, 3), 0.3)
        for number, name in enumerate(methods):
            if (name in bad) == good:
                ranks[number] += 4
                share[number] = 0.02
        share[methods.index("loo")] *= 1.5 if rule == "conjunction" else 1
        share[methods.index("attnlrp")] *= 0.5 if rule == "conjunction" else 1
        logits = np.zeros((4, 2**planted, 2))
        logits[np.arange(4), :, 1 - arrays["label"]] = [2.0, *[1.9 if good else 1.0] * (2**planted - 2), -1.0]
        arrays |= {f"{rule} follows": kept, f"{rule} logits": logits, f"{rule} share": share}
        arrays |= {f"{rule} signed": ranks, f"{rule} size": ranks, f"{rule} tokens": np.array([8, 8, 8])}
    return manifest, arrays


@pytest.fixture(scope="module")
def groups() -> dict[str, list[ch.Judged]]:
    return {
        "post-ln-first": [ch.judged_of(*made_up(wiring="post-ln-first"), seed=0)],
        "llama": [ch.judged_of(*made_up(), seed=0), ch.judged_of(*made_up(good=False), seed=1)],
    }


def test_values_are_read_from_ranks(groups):
    one = groups["llama"][0]
    assert one.values.dims == ("rule", "explainer", "number", "example")
    assert one.values.sel(example=2).isnull().all() and one.values.sel(example=5).notnull().all()
    assert one.mean("shortcut", "loo", "first") == 1 == one.mean("conjunction", "loo", "top")
    assert one.mean("redundant", "loo", "first") == 0 and one.mean("redundant", "attnlrp", "top") == 1
    assert one.mean("redundant", "loo", "share") == pytest.approx(0.02)
    assert one.mean("shortcut", "loo", "decoy first") == 0
    assert one.logits["redundant"].tolist() == [[2.0, 1.9, 1.9, -1.0]] * 3
    assert ch.of_one("redundant", one) == pytest.approx(2.9 / 3)


def test_tables_show_ranges_over_trainings(groups):
    told = ch.followed_table(groups, caption="c")
    assert told.cells[4] == ("Llama", "shortcut", "0.000 to 1.000", "0.000 to 1.000", "3", "")
    with pytest.raises(InputError, match="number 'best'"):
        ch.planted_table(groups, "best", caption="c")


def test_a_share_of_sentences_has_limits_that_a_share_can_have():
    for group in ch.load_planted().values():
        found = ch.means(group, "top").values.ravel()
        assert all(0 <= one.low <= one.mean <= one.high <= 1 for one in found)


def test_what_the_chapter_says_of_the_planted_words_holds():
    groups = ch.load_planted()
    others = [name for name in groups["llama"][0].values.explainer.values if not name.startswith("rollout")]
    blind = ch.on_top_by_rule(groups["post-ln-first"], "rollout:residual=true")
    assert min(blind) > max(min(ch.on_top_by_rule(groups["post-ln-first"], name)) for name in others)
    ig = {name: ch.on_top_by_rule(group, "ig:n_steps=20") for name, group in groups.items()}
    assert max(ig["llama"]) < 0.7 and min(ig["post-ln-first"]) > 0.85
    rules = ("loo", "attnlrp", "cp-lrp")
    loo, attnlrp, cp_lrp = ([one.mean("negator", name, "top") for one in groups["llama"]] for name in rules)
    assert max(attnlrp[2], cp_lrp[2]) < 0.1 and abs(cp_lrp[1] - loo[1]) < 0.02
    assert [ch.counted(one, "negator") for one in groups["llama"]] == [
        int(one.values.sel(rule="negator", number="top", explainer="loo").notnull().sum())
        for one in groups["llama"]
    ]


def test_points_are_met_mixed_or_failed(groups):
    rows = {(row["point"], row["wiring"]): row for row in ch.outcomes(groups)}
    assert len(rows) == 24 and {rows[point, "post-ln-first"]["outcome"] for point in range(1, 10)} == {"met"}
    for point in (1, 2, 3, 4, 5, 6, 7, 8, 9, 12):
        assert (rows[point, "llama"]["outcome"], rows[point, "llama"]["held"]) == ("mixed", 1), point
    assert rows[10, "llama"]["outcome"] == "failed" and rows[10, "post-ln-first"]["outcome"] == "met"
    only = ch.outcomes({"llama": groups["llama"][1:]})
    assert {row["outcome"] for row in only if row["point"] <= 9} == {"failed"}


def test_records_that_lack_something_are_refused(tmp_path: Path):
    manifest, arrays = made_up()
    del arrays["negator share"]
    with pytest.raises(InputError, match="without negator"):
        ch.judged_of(manifest, arrays, seed=0)
    with pytest.raises(SourceError):
        ch.load_planted(tmp_path)


# The committed records.


@pytest.mark.parametrize("wiring", WIRINGS)
def test_the_kept_weights_are_those_that_were_judged(wiring: str):
    record = json.loads((RESULTS / "planted" / f"planted-{wiring}-seed-0.json").read_text())
    training = json.loads((RESULTS / "training" / "planted" / f"planted-{wiring}-seed-0.json").read_text())
    weights = hashlib.sha256((KEPT / wiring / "model.safetensors").read_bytes()).hexdigest()
    assert weights == record["weights"] == training["weights"]
    assert record["config"]["weights"] == lrp.load_classifier(KEPT / wiring).card.fingerprint
    assert training["teacher"] is None and training["followed"] == record["followed"]


def test_every_record_has_its_training():
    for path in (RESULTS / "planted").glob("*.json"):
        training = json.loads((RESULTS / "training" / "planted" / path.name).read_text())
        assert training["weights"] == json.loads(path.read_text())["weights"]
    groups = ch.load_planted()
    assert list(groups) == ["post-ln-first", "llama"]
    for one in itertools.chain(*groups.values()):
        assert (one.values.sel(number="first").notnull().sum("example") >= 200).all()


def test_labels_alone_have_a_record_for_each_run():
    rows = ch.without_teacher()
    assert {row["wiring"] for row in rows} == set(WIRINGS)
    for row in rows:
        assert (
            json.loads((RESULTS / "training" / "planted" / f"{row['run']}.json").read_text())["teacher"]
            is None
        )
