"""The records of pre-trained models: makers on tiny models, and what is committed."""

from __future__ import annotations

import copy
import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
import torch
from lrp_book.records import real
from tiny_models import TEXTS, build

import lrp_companion as lrp
from lrp_companion.metrics.faithfulness import perturbation_curve
from lrp_companion.schema import masks_on_paths

RESULTS = str(Path(__file__).parents[1] / "results")
LM = f"{RESULTS}/smollm2"

REVIEWS = "sst2-imdb-seed-0-imdb"


@pytest.fixture(scope="module")
def clf():
    return lrp.load_classifier(*build("mpnet"))


@pytest.fixture(scope="module")
def texts(clf):
    encoded = clf.encode(list(TEXTS))
    words = [~text.special for text in encoded]
    return real.Texts(encoded, [0, 1, 0, 1], words, [3, 1, 2, 0], [True] * len(encoded))


# The makers.


def test_maps_and_curves_are_those_of_the_package(clf, texts):
    made = real.explained(clf, texts, removals=("attention-mask",), methods=("attnlrp",), curve_chunk=1)
    maps = np.split(made["attnlrp"], np.cumsum([len(t) for t in texts.encoded])[:-1])
    for k, text in enumerate(TEXTS):
        (record,) = lrp.attribute(clf, text, method="attnlrp", target=texts.targets[k])
        assert maps[k] == pytest.approx(record.scores, abs=1e-6)
    everything, removable = texts.encoded[1], ~texts.encoded[1].special

    def one_by_one(keep):
        return np.array([real.kept_logits(clf, [(everything, row)], progress=False)[0, 1] for row in keep])

    for order in ("morf", "lerf"):
        slow = perturbation_curve(one_by_one, maps[1], order=order, chunk=1, removable=removable).mean_logit
        assert made[f"{order} attnlrp"][1] == pytest.approx(slow, abs=1e-5)


def test_paths_are_rows_of_all_masks(clf, texts):
    paths, readings = real.paths_of(clf, texts)["r"], real.readings_of(clf)
    on_paths = [real_number(mask) for mask in masks_on_paths(clf.card.layers)]
    for k, (text, target, words) in enumerate(zip(TEXTS, texts.targets, texts.words, strict=True)):
        lattice = lrp.layer_lattice(clf, text, target=target)
        (loo,) = lrp.attribute(clf, text, method="loo", target=target)
        every = real.agreements(lattice.parts, loo.scores, words, readings)
        np.testing.assert_allclose(paths[k], every[:, on_paths], atol=1e-4)


def real_number(mask: frozenset[int]) -> int:
    return sum(1 << (layer - 1) for layer in mask)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_code_that_shares_nothing_gives_the_same_maps(clf, seed):
    place = Path(RESULTS) / "base/recompute.py"
    again = module_from_spec(spec := spec_from_file_location("recompute", place))
    spec.loader.exec_module(again)
    net = again.with_rules(copy.deepcopy(clf.network))
    methods = ("loo attention-mask", "attnlrp", "cp-lrp", "gradient-x-input", "mask-gradient", "ig")
    (text,) = clf.encode([TEXTS[seed]])
    found = again.maps(net, clf.tokenizer, torch.tensor(text.input_ids), seed, methods)
    for name, scores in found.items():
        method, _, position = name.partition("+")
        options = {"removal": "attention-mask"} if method.startswith("loo") else {}
        (record,) = lrp.attribute(clf, TEXTS[seed], method=method.split()[0], target=seed, **options)
        wanted = record.scores_at("word+position") if position else record.scores
        assert scores == pytest.approx(wanted, abs=2e-5 * np.abs(wanted).max()), name


def test_what_the_page_on_own_models_prints_is_the_records() -> None:
    page = (Path(__file__).parents[1] / "book/your_model.md").read_text(encoding="utf-8")
    (prompt, *_) = json.loads((Path(LM) / "touch.json").read_text(encoding="utf-8"))["prompts"]
    (loo,) = [row for row in prompt["rows"] if row["method"] == "loo"]
    shown = [
        f"{token.strip():10} {score:+.3f} " for token, score in zip(loo["tokens"], loo["scores"], strict=True)
    ]
    assert all(line in page for line in shown) and f"logit {loo['logit']:.3f}" in page


def test_the_reviews_are_in_one_of_two_parts_by_their_length() -> None:
    long, short = (dict(np.load(f"{RESULTS}/base/{REVIEWS}{end}.npz")) for end in ("", "-rest"))
    assert not set(long["example"]) & set(short["example"])
    assert short["tokens"].max() <= long["tokens"].min() and len(long["tokens"]) == 25
    drawn = np.random.default_rng(0).permutation(25_000)[:200]
    assert {*long["example"], *short["example"]} == {*drawn}


def test_reviews_as_drawn_are_the_first_and_agree_with_the_other_parts() -> None:
    base = Path(RESULTS) / "base"
    maps, paths = (dict(np.load(base / f"{REVIEWS}-{kind}.npz")) for kind in ("maps", "paths"))
    drawn = np.random.default_rng(0).permutation(25_000)
    for kept in (maps, paths):
        assert kept["example"].tolist() == drawn[: len(kept["example"])].tolist()
    for k, example in enumerate(maps["example"].tolist()):
        parts = [real.of_example(base / f"{REVIEWS}{end}.npz", example) for end in ("", "-rest")]
        (known,) = [one for one in parts if one]
        for name in ("loo attention-mask", "cp-lrp+position"):
            assert real.by_text(maps, name)[k].tolist() == known[name].tolist()
