"""A tape of one layer at a time gives the same scores, and holds less."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from tiny_models import TEXTS, build

import lrp_companion as lrp
from lrp_companion.loading.classifier import load_classifier
from lrp_companion.methods import layer_lattice, layer_relevance
from lrp_companion.tape import attention, layer

METHODS = ("attnlrp", "cp-lrp", "gradient-x-input", "mask-gradient", "rollout", "loo", "hybrid")


@pytest.fixture(scope="module", params=["bert", "llama", "modernbert", "deberta-v2"])
def both(request: pytest.FixtureRequest) -> tuple[lrp.Classifier, lrp.Classifier]:
    network, tokenizer = build(request.param, layers=3)
    return tuple(
        load_classifier(network, tokenizer, dtype="float64", recompute=again) for again in (False, True)
    )  # type: ignore[return-value]


@pytest.mark.parametrize("method", METHODS)
def test_scores_are_the_same(both: tuple, method: str) -> None:
    for text in (TEXTS[1], TEXTS[3]):
        one, other = (lrp.attribute(clf, text, method=method, target=1)[0] for clf in both)
        np.testing.assert_allclose(one.scores, other.scores, rtol=0, atol=1e-12)
        assert one.logit == pytest.approx(other.logit, abs=1e-12)


def test_all_masks_and_levels_are_the_same(both: tuple) -> None:
    one, other = (layer_lattice(clf, TEXTS[1]).scores for clf in both)
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
    one, other = (layer_relevance(clf, TEXTS[1]) for clf in both)
    np.testing.assert_allclose(one.scores, other.scores, rtol=0, atol=1e-12)
    for cause, lost in one.lost.items():
        np.testing.assert_allclose(other.lost[cause], lost, rtol=0, atol=1e-11)


def test_one_layers_inside_is_held_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clf = load_classifier(*build("bert", layers=6), recompute=True)
    lrp.attribute(clf, TEXTS[1], method="attnlrp")  # so that its logits are compared before
    alive: list[weakref.ref] = []
    monkeypatch.setattr(attention, "AT_ONCE", 1)  # one head at a time
    most = [0]
    whole = layer.LayerBlock.run.__func__

    def watched(cls: type, *given: object, **options: object) -> layer.LayerBlock:
        block = whole(cls, *given, **options)
        gc.collect()
        alive.append(weakref.ref(block.attend.query.y))
        most[0] = max(most[0], sum(ref() is not None for ref in alive))
        return block

    monkeypatch.setattr(layer.LayerBlock, "run", classmethod(watched))
    gc.freeze()  # what other tests have left is not searched twelve times
    try:
        lrp.attribute(clf, TEXTS[1], method="attnlrp")
    finally:
        gc.unfreeze()
    assert len(alive) == 12 and most[0] <= 2  # the one before goes when the next is there


@pytest.mark.parametrize("family", ["bert", "llama", "gemma2", "gemma3_text", "modernbert"])
def test_heads_in_turn_are_all_heads_at_once(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One head, or three of four, at a time: every method, both treatments and epsilon."""
    network, tokenizer = build(family, layers=2)
    made: list[int] = []
    whole = attention.Heads.run.__func__

    def watched(cls: type, wiring: object, qkv: tuple, *given: object) -> attention.Heads:
        made.append(qkv[0].shape[1])
        return whole(cls, wiring, qkv, *given)

    plain = load_classifier(network, tokenizer, dtype="float64")
    calls = [(name, {}) for name in METHODS] + [(name, {"epsilon": 0.01}) for name in ("attnlrp", "cp-lrp")]
    expected = [lrp.attribute(plain, TEXTS[1], method=name, target=1, **more)[0] for name, more in calls]
    monkeypatch.setattr(attention.Heads, "run", classmethod(watched))
    spared = load_classifier(network, tokenizer, dtype="float64", recompute=True)
    for heads in (1, 3):
        made.clear()
        monkeypatch.setattr(attention, "AT_ONCE", heads * len(plain.encode(TEXTS[1])[0]) ** 2)
        for (name, more), one in zip(calls, expected, strict=True):
            (other,) = lrp.attribute(spared, TEXTS[1], method=name, target=1, **more)
            np.testing.assert_allclose(other.scores, one.scores, rtol=0, atol=1e-12)
        assert max(made) == min(heads, plain.card.heads)
