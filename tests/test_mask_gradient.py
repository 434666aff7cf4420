"""The gradient of the mask against finite differences, LOO and other graphs of the same function."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import TEXTS

import lrp_companion as lrp
from lrp_companion import Classifier, LinearAttention
from lrp_companion.checks import InputError
from lrp_companion.methods.gradient import integrate, plan, quadrature, quadrature_rows
from lrp_companion.tape import attention


def soft_logits(clf: Classifier, text: str, w: np.ndarray) -> np.ndarray:
    """Logits of transformers' own model with log w added to every attention score."""
    (encoded,) = clf.encode(text)
    mask = torch.as_tensor(np.log(w), dtype=clf.dtype).expand(1, 1, len(w), len(w))
    with torch.no_grad():
        return clf.logits(torch.tensor([encoded.input_ids]), mask)[0].numpy()


def images(count: int = 3) -> np.ndarray:
    return np.random.default_rng(0).random((count, 4, 4))


@pytest.fixture(params=["plain", "positions"])
def net(request: pytest.FixtureRequest) -> LinearAttention:
    extra: dict[str, Any] = {"bias": True, "position_embedding": True} if request.param == "positions" else {}
    return LinearAttention(tokens=16, dim=3, classes=4, seed=1, dtype=torch.float64, **extra)


def test_it_is_the_derivative_of_the_function_of_the_mask(family_clf: Classifier) -> None:
    text, h = TEXTS[0], 1e-5
    (record,) = lrp.attribute(family_clf, text, method="mask-gradient")
    ones = np.ones(len(record.tokens))
    assert soft_logits(family_clf, text, ones)[record.target] == pytest.approx(record.logit, abs=1e-10)
    for i in range(len(ones)):
        up, down = (
            soft_logits(family_clf, text, ones + sign * h * np.eye(len(ones))[i])[record.target]
            for sign in (1, -1)
        )
        assert record.scores[i] == pytest.approx((up - down) / (2 * h), abs=1e-8)


def test_it_sums_to_zero_because_a_scale_of_the_mask_changes_nothing(family_clf: Classifier) -> None:
    for record in lrp.attribute(family_clf, list(TEXTS), method="mask-gradient"):
        assert abs(record.scores.sum()) < 1e-10 * np.abs(record.scores).sum()


@pytest.mark.parametrize("constant", [False, True])
def test_the_kept_softmax_is_its_plain_form_also_where_a_token_is_gone(constant: bool) -> None:
    draw = np.random.default_rng(1)
    scores, g = (torch.tensor(draw.normal(size=(2, 3, 4, 4))) for _ in range(2))
    scores[1, ..., 3] = torch.finfo(scores.dtype).min  # padding
    keep = torch.tensor([[1.0, 0.0, 0.3, 0.7], [0.0, 1.0, 2.0, 1.0]], dtype=torch.float64, requires_grad=True)
    scores.requires_grad_(not constant)
    sides = []
    for kept in (
        attention.KeptSoftmax.apply,
        lambda z, w: (u := z.softmax(-1) * w[:, None, None]) / u.sum(-1, keepdim=True),
    ):
        out = kept(scores, keep)
        sides.append([out, *torch.autograd.grad((g * out).sum(), [keep] if constant else [keep, scores])])
    for ours, plain in zip(*sides, strict=True):
        assert torch.isfinite(ours).all() and torch.allclose(ours, plain, rtol=1e-12, atol=1e-14)
    if not constant:
        whole = keep.detach().clamp(0.1).requires_grad_(True)
        assert torch.autograd.gradcheck(
            attention.KeptSoftmax.apply, (scores[:1].detach().requires_grad_(True), whole[:1])
        )


def test_a_group_for_each_token_and_many_nodes_give_loo(family_clf: Classifier) -> None:
    texts = list(TEXTS[:2])
    loo = lrp.attribute(family_clf, texts, method="loo")
    errors = []
    for nodes in (1, 3, 12, 32):
        records = lrp.attribute(family_clf, texts, method="mask-gradient", groups="all", nodes=nodes)
        errors.append(max(np.abs(a.scores - b.scores).max() for a, b in zip(records, loo, strict=True)))
    assert min(errors[:2]) > errors[2] > errors[3]
    # its classifier has a ReLU: no quadrature is fast across a kink
    kinked = family_clf.encoder.family == "distilbert"
    assert errors[3] < (1e-2 if kinked else 1e-8) * max(np.abs(b.scores).max() for b in loo)


@pytest.mark.parametrize("output", ["margin", "probability"])
def test_other_outputs_give_their_own_loo(clf: Classifier, output: str) -> None:
    (loo,) = lrp.attribute(clf, TEXTS[1], method="loo", output=output)
    (record,) = lrp.attribute(clf, TEXTS[1], method="mask-gradient", output=output, groups="all", nodes=12)
    assert np.allclose(record.scores, loo.scores, atol=1e-8)


def test_cost_is_what_is_said(clf: Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    (encoded,), rows = clf.encode(TEXTS[1]), 0
    forward = clf.encoder.forward

    def counted(ids: Any, *args: Any, **options: Any) -> Any:
        nonlocal rows
        rows += len(ids)
        return forward(ids, *args, **options)

    monkeypatch.setattr(clf.encoder, "forward", counted)
    for options, passes in (
        ({}, 1),
        ({"groups": 3, "nodes": 2}, 4),
        ({"groups": 3, "nodes": 3}, 7),
        ({"groups": "all", "nodes": 2}, 1 + len(encoded)),
        ({"groups": 999, "nodes": 2}, 1 + len(encoded)),
    ):
        rows = 0
        (record,) = lrp.attribute(clf, TEXTS[1], method="mask-gradient", **options)
        assert rows == passes and record.details["passes"] == (passes, passes)


@pytest.mark.parametrize(
    ("groups", "nodes"),
    [(1, [1]), (2, [1 / 3, 1]), (7, [1 / 3, 1]), (8, [0.2, 1]), (30, [0.2, 1]), ("all", [0.2, 1])],
)
def test_nodes_that_nobody_named(clf: Classifier, groups: Any, nodes: list[float]) -> None:
    (unnamed,), (named,) = (
        lrp.attribute(clf, TEXTS[1], method="mask-gradient", groups=groups, **options)
        for options in ({}, {"nodes": nodes})
    )
    assert unnamed.choices["nodes"] == pytest.approx(tuple(nodes))
    assert set(unnamed.details) - {"computed as"} <= set(named.details)
    if "computed as" not in unnamed.details:
        assert np.allclose(unnamed.scores, named.scores, atol=1e-12)


@pytest.mark.parametrize("unit", ["token", "word"])
def test_where_groups_cost_more_than_loo_it_is_loo(clf: Classifier, unit: str) -> None:
    texts = [TEXTS[0], "a film of rare grace and a slow plot , dull and never warm"]
    for output in ("logit", "probability"):
        options = {"unit": unit, "output": output}
        loo = lrp.attribute(clf, texts, method="loo", **options)
        records = lrp.attribute(clf, texts, method="mask-gradient", groups=2, **options)
        alike = [np.array_equal(a.scores, b.scores) for a, b in zip(records, loo, strict=True)]
        forwards = [1 + len(record.scores) for record in loo]
        assert alike == [forward < 9 for forward in forwards] and len(set(alike)) == 2
        for record, exact, forward in zip(records, alike, forwards, strict=True):
            assert record.details.get("computed as") == ("leave-one-out" if exact else None)
            assert record.details["passes"] == ((forward, 0) if exact else (3, 3))
            assert record.method == "mask-gradient" and record.choices["groups"] == 2


def test_a_fused_projection_of_queries_keys_and_values_changes_nothing(clf: Classifier) -> None:
    class Part(torch.nn.Module):
        def __init__(self, fused: torch.nn.Linear, place: int) -> None:
            super().__init__()
            self.fused, self.place = fused, place

        weight = property(lambda self: self.fused.weight.chunk(3)[self.place])
        bias = property(lambda self: self.fused.bias.chunk(3)[self.place])
        in_features, out_features = 16, 16

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fused(x).chunk(3, -1)[self.place]

    network = copy.deepcopy(clf.network)
    for layer in network.bert.encoder.layer:
        attention = layer.attention.self
        parts = attention.query, attention.key, attention.value
        fused = torch.nn.Linear(
            attention.query.in_features, 3 * attention.query.out_features, dtype=torch.float64
        )
        with torch.no_grad():
            fused.weight.copy_(torch.cat([part.weight for part in parts]))
            fused.bias.copy_(torch.cat([part.bias for part in parts]))
        attention.query, attention.key, attention.value = (Part(fused, place) for place in range(3))
    rewritten = Classifier(network, clf.tokenizer, card=clf.card)
    for options in ({}, {"groups": 4}):
        a, b = (
            lrp.attribute(model, TEXTS[1], method="mask-gradient", **options)[0].scores
            for model in (clf, rewritten)
        )
        assert np.allclose(a, b, atol=1e-12)


def test_on_images_one_group_is_gradient_times_input(net: LinearAttention) -> None:
    for a, b in zip(
        lrp.attribute(net, images(), method="mask-gradient"),
        lrp.attribute(net, images(), method="gradient-x-input"),
        strict=True,
    ):
        assert np.allclose(a.scores, b.scores, atol=1e-13)


def test_on_images_two_nodes_are_exact_because_the_logit_has_degree_three(net: LinearAttention) -> None:
    loo = lrp.attribute(net, images(), method="loo")
    records = lrp.attribute(net, images(), method="mask-gradient", groups="all")
    assert all(np.allclose(a.scores, b.scores, atol=1e-12) for a, b in zip(records, loo, strict=True))


@given(st.integers(1, 32), st.integers(0, 62))
def test_radau_is_exact_to_degree_2n_minus_2(n: int, degree: int) -> None:
    points, weights = quadrature(n)
    assert points[-1] == 1 and np.all((points > 0) & (points <= 1)) and np.all(weights > 0)
    if degree <= 2 * n - 2:
        assert weights @ points**degree == pytest.approx(1 / (degree + 1), abs=1e-9)


@given(st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.8]), unique=True), st.integers(0, 5))
def test_named_nodes_are_exact_to_their_number(others: list[float], degree: int) -> None:
    points, weights = quadrature([1.0, *others])
    if degree <= len(others):
        assert weights @ points**degree == pytest.approx(1 / (degree + 1), abs=1e-9)


def test_every_token_is_read_on_its_own_path() -> None:
    token_group, points, weights = plan(5, 2, 3, None)
    rows = quadrature_rows(token_group, points)
    assert rows.shape == (5, 5) and np.array_equal(rows[0], np.ones(5))
    gradients = 3 * rows**2  # of sum w_i^3, whose LOO is 1 for each token
    assert np.allclose(integrate(gradients, token_group, points, weights), 1)


@pytest.mark.parametrize("nodes", [np.linspace(0, 1, 200), [0.5, 0.5 + 1e-15, 1.0], [0.3, 0.3 + 1e-9, 1.0]])
def test_nodes_whose_weights_multiply_rounding_are_refused(nodes: Any) -> None:
    with pytest.raises(InputError, match="weights sum to|1e-06 apart"):
        quadrature(nodes)
    assert np.abs(quadrature(32)[1]).sum() == pytest.approx(1)
