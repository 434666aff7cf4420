"""Shifts between embeddings: one function to rounding, relevance that moves by c . g, and what stays."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lrp_book.records.embedding_shift import (
    METHODS,
    adversarial_shift,
    embedding_g,
    explain_all,
    logit_gaps,
    natural_shifts,
    r_after,
    shift_effects,
    shift_record,
    shifted,
)

import lrp_companion as lrp
from lrp_companion.checks import InputError

TEXTS = ["a fine film", "a dull film that never ends", "warm , wise and funny"]


@pytest.fixture(scope="module")
def companion():
    return lrp.load_classifier("companion", dtype="float64")


@pytest.fixture
def c(companion):
    width = companion.encoder.wiring.word.weight.shape[1]
    return np.random.default_rng(0).normal(size=width) * 0.05


@pytest.mark.parametrize("source", ["position", "type"])
def test_the_function_is_the_same_for_every_removal(companion, c, source):
    copied = shifted(companion, c, source=source)
    for removal in ("attention-mask", "mask-token", "pad-token", "delete"):
        before, after = (
            lrp.attribute(one, TEXTS, method="loo", removal=removal) for one in (companion, copied)
        )
        for one, other in zip(before, after, strict=True):
            assert other.logit == pytest.approx(one.logit, abs=1e-10)
            assert other.scores == pytest.approx(one.scores, abs=1e-10)


def test_the_original_is_left_alone(companion, c):
    before = companion.encoder.wiring.word.weight.detach().clone()
    shifted(companion, c)
    assert torch.equal(companion.encoder.wiring.word.weight, before)


@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp"])
def test_words_move_by_c_g_and_sums_do_not(companion, c, method):
    (text,) = companion.encode(TEXTS[1])
    (record,) = lrp.attribute(companion, TEXTS[1], method=method)
    (moved,) = lrp.attribute(shifted(companion, c), TEXTS[1], method=method)
    g = embedding_g(companion, text, method, target=record.target, loo_map=np.zeros(len(text))).g
    assert moved.scores - record.scores == pytest.approx(g @ c, abs=1e-10)
    assert np.abs(g @ c).max() > 1e-3
    for site in ("word+position", "embedding"):
        assert moved.scores_at(site) == pytest.approx(record.scores_at(site), abs=1e-10)


def test_a_type_shift_moves_words_and_positions_and_not_the_whole(companion, c):
    (record,) = lrp.attribute(companion, TEXTS[1], method="attnlrp")
    (moved,) = lrp.attribute(shifted(companion, c, source="type"), TEXTS[1], method="attnlrp")
    assert np.abs(moved.scores_at("word+position") - record.scores_at("word+position")).max() > 1e-3
    assert moved.scores_at("embedding") == pytest.approx(record.scores_at("embedding"), abs=1e-10)


@pytest.mark.parametrize("method", ["mask-gradient", "loo", "rollout"])
def test_methods_that_read_no_embedding_do_not_move(companion, c, method):
    before, after = (lrp.attribute(one, TEXTS, method=method) for one in (companion, shifted(companion, c)))
    for one, other in zip(before, after, strict=True):
        assert other.scores == pytest.approx(one.scores, abs=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_parts_and_g_are_those_of_the_methods(companion, method):
    (text,) = companion.encode(TEXTS[0])
    (record,) = lrp.attribute(companion, TEXTS[0], method=method)
    one = embedding_g(companion, text, method, target=record.target, loo_map=record.scores)
    assert set(one.parts) == set(record.parts)
    for part, values in record.parts.items():
        assert one.parts[part] == pytest.approx(values, abs=1e-10)


def test_an_adversarial_shift_lowers_and_raises_r(companion):
    texts = companion.encode(TEXTS)
    explained = explain_all(companion, texts, "attnlrp", progress=False)
    low, high = (adversarial_shift(explained, size=1.0, sign=sign) for sign in (-1, 1))
    assert np.linalg.norm(low) == pytest.approx(1.0, rel=1e-5)
    plain = np.nanmean(r_after(explained))
    assert np.nanmean(r_after(explained, low)) < plain < np.nanmean(r_after(explained, high)) + 1e-9
    (again,) = lrp.attribute(shifted(companion, low), TEXTS[1], method="attnlrp")
    assert again.scores == pytest.approx(explained[1].relevance(low), abs=1e-5)


def test_rows_hold_every_shift_and_the_sites_that_none_moves(companion):
    texts = companion.encode(TEXTS)
    explained = {"attnlrp": explain_all(companion, texts, "attnlrp", progress=False)}
    rows = shift_effects(companion, explained, explained, sizes=(0.5,))
    assert [row["shift"] for row in rows] == [
        "none", *natural_shifts(companion), "lowest r found", "highest r found", "any", "any",
    ]  # fmt: skip
    assert all(len(row["r"]) == len(TEXTS) for row in rows)


def test_logits_differ_by_rounding_only(companion):
    gaps = logit_gaps(companion, companion.encode(TEXTS))
    assert set(gaps) == set(natural_shifts(companion)) and max(gaps.values()) < 1e-12


def test_the_record_says_what_it_was_made_with(companion):
    data = lrp.load_dataset("sst2", source="embedded")
    record = shift_record(companion, data, data, limit=2, fit=2, checked=1, progress=False)
    assert record["config"]["model"] == "companion" and len(record["example"]) == 2
    assert {row["method"] for row in record["rows"]} == set(METHODS)


def test_bad_shifts_are_refused(companion, c):
    with pytest.raises(InputError, match="finite numbers"):
        shifted(companion, c[:-1])
    with pytest.raises(InputError, match="finite numbers"):
        shifted(companion, c * np.nan)
    with pytest.raises(InputError):
        shifted(companion, c, source="word")


def test_a_model_without_types_is_refused(model_folder, c):
    clf = lrp.load_classifier(model_folder("distilbert"), dtype="float64")
    width = clf.encoder.wiring.word.weight.shape[1]
    with pytest.raises(InputError, match="type embeddings"):
        shifted(clf, np.zeros(width), source="type")
    assert "type embedding" not in natural_shifts(clf)
