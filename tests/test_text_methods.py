"""Every method on text, through `attribute`, against plain loops, captum, and the oracles."""

from __future__ import annotations

import itertools

import numpy as np
import oracles
import pytest
import torch
from captum.attr import FeatureAblation
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import TEXTS

from lrp_companion.checks import SITES
from lrp_companion.loading.classifier import Classifier
from lrp_companion.methods import METHODS, attribute, layer_lattice, removal_evaluator
from lrp_companion.schema import REMOVALS

OPTIONS = {  # other than the defaults, which may take no part in a batch
    "hybrid": {"exact": 5, "groups": 4, "seed": 1},
    "ig": {"n_steps": 5},
    "lrp": {"bypass": [2]},
    "mask-gradient": {"groups": 3, "nodes": [0, 0.5, 1], "seed": 4},
    "sampled-loo": {"budget": 3, "seed": 8},
    "shapley": {"exact": 8, "permutations": 16},  # two of the texts exactly, the longer by random orders
}


def one_hot(index: int, classes: int) -> list[float]:
    return np.eye(classes)[index].tolist()


def logits_of(clf: Classifier, text: str) -> np.ndarray:
    (encoded,) = clf.encode(text)
    ids = torch.tensor([encoded.input_ids])
    with torch.no_grad():
        return clf.network(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0].double().numpy()


@pytest.mark.parametrize("removal", REMOVALS)
def test_loo_equals_one_call_of_the_model_per_token(family_clf: Classifier, removal: str) -> None:
    special = {"mask_id": family_clf.tokenizer.mask_token_id, "pad_id": family_clf.tokenizer.pad_token_id}
    for target in (0, 1):
        for text, record in zip(
            TEXTS,
            attribute(family_clf, list(TEXTS), method="loo", removal=removal, target=target),
            strict=True,
        ):
            expected = oracles.leave_one_out(
                family_clf.network, family_clf.tokenizer(text)["input_ids"], target, removal, **special
            )
            np.testing.assert_allclose(record.scores, expected, rtol=0, atol=1e-10)
            assert record.choices["removal"] == removal


def test_loo_equals_captums_feature_ablation_of_the_mask(family_clf: Classifier) -> None:
    """Oracle 7."""
    for text, record in zip(TEXTS, attribute(family_clf, list(TEXTS), method="loo", target=1), strict=True):
        (encoded,) = family_clf.encode(text)
        ids = torch.tensor([encoded.input_ids])

        def model(mask: torch.Tensor, ids: torch.Tensor = ids) -> torch.Tensor:
            with torch.no_grad():
                return family_clf.network(input_ids=ids.expand(len(mask), -1), attention_mask=mask).logits

        captum = FeatureAblation(model).attribute(torch.ones_like(ids), target=1)
        np.testing.assert_allclose(record.scores, captum[0].double().numpy(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("removal", REMOVALS)
def test_removal_evaluator_runs_any_set_of_kept_tokens(clf: Classifier, removal: str) -> None:
    (text,) = clf.encode(TEXTS[1])
    keep = np.ones((4, len(text)), dtype=bool)
    keep[1, 2] = keep[2, 1:-1] = keep[3, 2] = False  # the last repeats the second
    values = removal_evaluator(clf, TEXTS[1], target=1, removal=removal)(keep)
    whole = logits_of(clf, TEXTS[1])[1]
    loo = attribute(clf, TEXTS[1], method="loo", removal=removal, target=1)[0].scores
    assert values[0] == pytest.approx(whole, rel=1e-10)
    assert values[1] == values[3] == pytest.approx(whole - loo[2], rel=1e-10)
    ids = np.array(text.input_ids)
    stand_in = {"mask-token": clf.tokenizer.mask_token_id, "pad-token": clf.tokenizer.pad_token_id}.get(
        removal
    )
    kept = (
        ids[keep[2]] if removal == "delete" else ids if stand_in is None else np.where(keep[2], ids, stand_in)
    )
    mask = keep[2] if removal == "attention-mask" else np.ones(len(kept))
    with torch.no_grad():
        bare = clf.network(
            input_ids=torch.tensor([kept.tolist()]), attention_mask=torch.tensor([mask.astype(int).tolist()])
        ).logits[0, 1]
    assert values[2] == pytest.approx(float(bare), rel=1e-10)


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp"])
def test_lrp_equals_the_modified_gradient_at_every_site(clf: Classifier, method: str, site: str) -> None:
    weights = oracles.weights_of(clf.network)
    for record in attribute(clf, list(TEXTS), method=method, site=site, target=2):
        ids = clf.tokenizer.convert_tokens_to_ids(list(record.tokens))
        _, parts = oracles.modified_gradient(
            weights, ids, one_hot(2, 3), amounts=[float(method == "cp-lrp")] * 3
        )
        expected = sum(
            parts[name].numpy()
            for name in {
                "word": ["word"],
                "word+position": ["word", "position"],
                "embedding": ["word", "position", "type"],
            }[site]
        )
        np.testing.assert_allclose(record.scores, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
        assert set(record.parts) == {"word", "position", "type"}
        for name, value in record.parts.items():
            np.testing.assert_allclose(
                value, parts[name].numpy(), rtol=0, atol=1e-9 * max(parts[name].abs().max().item(), 1e-3)
            )
        assert record.choices["site"] == site


def test_methods_that_differ_by_entries(clf: Classifier) -> None:
    def scores(method: str, **options: object) -> np.ndarray:
        return attribute(clf, TEXTS[1], method=method, **options)[0].scores

    np.testing.assert_array_equal(scores("attnlrp"), scores("lrp"))
    np.testing.assert_array_equal(scores("attnlrp"), scores("lrp", bypass=[]))
    np.testing.assert_array_equal(scores("cp-lrp"), scores("lrp", bypass=[1, 2, 3]))
    np.testing.assert_array_equal(scores("cp-lrp"), scores("lrp", bypass=(3, 1, 2, 2)))
    np.testing.assert_array_equal(scores("pa-lrp"), scores("attnlrp", site="word+position"))
    assert np.abs(scores("lrp", bypass=[1]) - scores("lrp", bypass=[3])).max() > 1e-4
    record = attribute(clf, TEXTS[1], method="lrp", bypass=[3, 1])[0]
    assert record.choices["bypass"] == (1, 3)


def test_the_lattice_equals_single_runs(clf: Classifier) -> None:
    for site, eps, target in (("word", 0.0, None), ("embedding", 0.1, 1)):
        lattice = layer_lattice(clf, TEXTS[1], site=site, epsilon=eps, target=target)
        assert lattice.scores.shape == (8, len(lattice.tokens)) and lattice.layers == 3
        for k in range(8):
            bypass = [layer for layer in (1, 2, 3) if k >> (layer - 1) & 1]
            single = attribute(
                clf, TEXTS[1], method="lrp", bypass=bypass, site=site, epsilon=eps, target=target
            )[0]
            np.testing.assert_allclose(lattice.scores_for(bypass), single.scores, rtol=1e-9, atol=1e-12)
            assert (lattice.tokens, lattice.target, lattice.logit) == (
                single.tokens,
                single.target,
                pytest.approx(single.logit),
            )
        np.testing.assert_array_equal(lattice.special, single.special)
        for one, other in itertools.combinations(lattice.scores, 2):
            assert np.abs(one - other).max() > 1e-6, "two masks are one"


def test_a_margin_is_a_contrastive_start(family_clf: Classifier) -> None:
    """With two classes: the target's map minus the other's, by every method that is linear in the output."""
    for method in ("attnlrp", "cp-lrp", "gradient-x-input", "loo"):
        one, other, margin = (
            attribute(family_clf, TEXTS[1], method=method, target=t, output=o)[0].scores
            for t, o in ((0, "logit"), (1, "logit"), (0, "margin"))
        )
        np.testing.assert_allclose(margin, one - other, rtol=0, atol=1e-12)


def test_loo_of_a_probability(clf: Classifier) -> None:
    def probability(logits: np.ndarray) -> float:
        return float(np.exp(logits[1]) / np.exp(logits).sum())

    record = attribute(clf, TEXTS[0], method="loo", removal="delete", target=1, output="probability")[0]
    ids = clf.tokenizer(TEXTS[0])["input_ids"]
    whole = probability(logits_of(clf, TEXTS[0]))
    for i, score in enumerate(record.scores):
        rest = torch.tensor([[*ids[:i], *ids[i + 1 :]]])
        with torch.no_grad():
            assert score == pytest.approx(
                whole - probability(clf.network(input_ids=rest).logits[0].numpy()), abs=1e-10
            )


def test_gradient_x_input_equals_autograd_of_an_independent_forward(family_clf: Classifier) -> None:
    weights = oracles.weights_of(family_clf.network)
    records = attribute(family_clf, list(TEXTS), method="gradient-x-input", target=1)
    for text, record in zip(family_clf.encode(list(TEXTS)), records, strict=True):
        ids = list(text.input_ids)
        _, parts = oracles.modified_gradient(weights, ids, [0.0, 1.0], plain=True)
        for name, value in record.parts.items():
            np.testing.assert_allclose(value, parts[name].numpy(), rtol=0, atol=1e-9)
    for site in SITES:
        (at,) = attribute(family_clf, TEXTS[-1], method="gradient-x-input", target=1, site=site)
        np.testing.assert_allclose(at.scores, records[-1].scores_at(site), rtol=0, atol=1e-12)


@pytest.mark.parametrize("baseline", ["pad-token", "mask-token", "zero"])
def test_integrated_gradients(clf: Classifier, baseline: str) -> None:
    """Against a midpoint rule on an independent forward; complete up to the recorded delta."""
    record = attribute(clf, TEXTS[0], method="ig", baseline=baseline, n_steps=100, target=0)[0]
    ids = clf.tokenizer(TEXTS[0])["input_ids"]
    weights = oracles.weights_of(clf.network)
    word = oracles.embed(weights, ids)["word"]
    start = {
        "pad-token": weights.word[clf.tokenizer.pad_token_id],
        "mask-token": weights.word[clf.tokenizer.mask_token_id],
        "zero": torch.zeros(16, dtype=torch.float64),
    }[baseline]
    start = start.expand_as(word).clone()
    start[[0, -1]] = word[[0, -1]]
    expected = oracles.integrated_gradients(weights, ids, start, 0, 150)
    np.testing.assert_allclose(record.scores, expected, rtol=0, atol=2e-4 * np.abs(expected).max())
    assert record.scores[0] == record.scores[-1] == 0  # special tokens stay
    at_start, _ = oracles.forward(weights, {**oracles.embed(weights, ids), "word": start}, plain=True)
    delta = record.scores.sum() - (record.logit - float(at_start[0]))
    assert record.details["convergence_delta"] == pytest.approx(delta, abs=1e-9) and abs(delta) < 1e-3
    assert record.choices["baseline"] == baseline and record.choices["n_steps"] == 100


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("fusion", ["mean", "max", "min"])
def test_rollout_is_a_product_of_maps(family_clf: Classifier, fusion: str, residual: bool) -> None:
    weights = oracles.weights_of(family_clf.network)
    options = {"residual": residual, "head_fusion": fusion}
    rows = {
        row: attribute(family_clf, list(TEXTS), method="rollout", row=row, **options)
        for row in ("cls", "mean")
    }
    for k in range(len(TEXTS)):
        ids = family_clf.tokenizer(TEXTS[k])["input_ids"]
        _, maps = oracles.forward(weights, oracles.embed(weights, ids), plain=True)
        product = [
            oracles.rollout([m.numpy() for m in maps], residual=residual, row=i, fusion=getattr(np, fusion))
            for i in range(len(ids))
        ]
        np.testing.assert_allclose(rows["cls"][k].scores, product[0], atol=1e-12)
        np.testing.assert_allclose(rows["mean"][k].scores, np.mean(product, axis=0), atol=1e-12)
        assert rows["cls"][k].scores.sum() == pytest.approx(1)


@pytest.mark.parametrize("method", METHODS)
def test_batches_and_order_change_nothing(clf: Classifier, method: str) -> None:
    options = OPTIONS.get(method, {})
    alone = [attribute(clf, text, method=method, target=1, **options)[0] for text in TEXTS]

    @settings(max_examples=8)
    @given(st.permutations(range(len(TEXTS))), st.integers(1, 90))
    def check(order: list[int], batch_tokens: int) -> None:
        maps = attribute(
            clf, [TEXTS[i] for i in order], method=method, target=1, batch_tokens=batch_tokens, **options
        )
        for i, record in zip(order, maps, strict=True):
            np.testing.assert_allclose(record.scores, alone[i].scores, rtol=0, atol=1e-10)
            assert record.choices == alone[i].choices

    check()


def test_explaining_leaves_the_model_as_it_was(clf: Classifier) -> None:
    before = {name: value.clone() for name, value in clf.network.state_dict().items()}
    for method in METHODS:
        attribute(clf, TEXTS[0], method=method)
    assert all(torch.equal(value, before[name]) for name, value in clf.network.state_dict().items())
    assert all(p.grad is None and not p.requires_grad for p in clf.network.parameters())
    assert not clf.network.training
    assert all(
        not m._forward_hooks and not m._forward_pre_hooks and not m._backward_hooks
        for m in clf.network.modules()
    )
