"""What is removed at once: a slow loop over the model, for LOO, the mask gradient and the hybrid."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_models import TEXTS

from lrp_companion.checks import InputError
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods import attribute
from lrp_companion.words import units_of

TEXT = TEXTS[3]  # "the actors laughed and the slow scene was never dull !"
SPANS = ["slow scene", (4, 10)]


def members(clf: Classifier, unit: object) -> list[np.ndarray]:
    (loo,) = attribute(clf, TEXT, method="loo")
    grouped = units_of(
        "test", unit, tokens=loo.tokens, text=loo.text, offsets=loo.offsets, special=loo.special
    )
    return list(grouped.members)


def removed(clf: Classifier, places: np.ndarray, target: int) -> float:
    """The logit of the `transformers` model under an attention mask."""
    (text,) = clf.encode(TEXT)
    mask = torch.ones(1, len(text), dtype=torch.long)
    mask[0, places] = 0
    with torch.no_grad():
        return clf.logits(torch.tensor([text.input_ids]), mask)[0, target].item()


@pytest.mark.parametrize("unit", ["word", "sentence", SPANS], ids=["word", "sentence", "spans"])
def test_loo_removes_all_tokens_of_a_unit(family_clf: Classifier, unit: object) -> None:
    (record,) = attribute(family_clf, TEXT, method="loo", unit=unit)
    groups = members(family_clf, unit)
    expected = [record.logit - removed(family_clf, places, record.target) for places in groups]
    assert np.allclose(record.scores, expected, atol=1e-10) and len(record.tokens) == len(groups)
    assert record.choices["unit"] == (unit if isinstance(unit, str) else "span")
    if unit == "word":
        (pieces,) = attribute(family_clf, TEXT, method="loo")
        summed = pieces.words()
        assert summed.tokens == record.tokens and not np.allclose(summed.scores, record.scores)
        assert "laughed" in record.tokens  # in two pieces


@pytest.mark.parametrize("unit", ["word", SPANS], ids=["word", "spans"])
def test_mask_gradient_integrates_to_loo_of_the_unit(clf: Classifier, unit: object) -> None:
    (exact,) = attribute(clf, TEXT, method="loo", unit=unit)
    (near,) = attribute(clf, TEXT, method="mask-gradient", unit=unit, groups="all", nodes=24)
    assert near.tokens == exact.tokens and near.offsets == exact.offsets
    assert np.allclose(near.scores, exact.scores, atol=1e-6)
    (slope,) = attribute(clf, TEXT, method="mask-gradient", unit=unit)
    (tokens,) = attribute(clf, TEXT, method="mask-gradient")
    assert np.allclose(slope.scores, [tokens.scores[places].sum() for places in members(clf, unit)])


@pytest.mark.parametrize("unit", ["word", "sentence", SPANS], ids=["word", "sentence", "spans"])
def test_hybrid_with_all_exact_is_loo_of_the_units(clf: Classifier, unit: object) -> None:
    (exact,) = attribute(clf, TEXT, method="loo", unit=unit)
    (mixed,) = attribute(clf, TEXT, method="hybrid", unit=unit, exact=99)
    assert np.allclose(mixed.scores, exact.scores, atol=1e-10) and mixed.tokens == exact.tokens
    (one,) = attribute(clf, TEXT, method="hybrid", unit=unit, exact=1)
    (place,) = one.details["exact tokens"]
    assert one.scores[place] == pytest.approx(exact.scores[place])


def test_a_cut_text_has_words_up_to_its_cut(clf: Classifier) -> None:
    (record,) = attribute(clf, "the film " * 40, method="loo", unit="word", truncate=True)
    assert len(record.tokens) == 32 and record.tokens[-2:] == ("film", "[SEP]")
    with pytest.raises(InputError, match="without a token"):
        attribute(clf, "the film " * 40, method="loo", unit=[(300, 304)], truncate=True)
