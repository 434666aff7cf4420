"""One attention read-out: closed forms against recomputation, differences, the rules, exact fractions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lrp_companion import rules
from lrp_companion.toys import SoftmaxStep

LOGITS = st.floats(-6, 6, allow_nan=False)
VALUES = st.floats(-5, 5, allow_nan=False)
STEPS = st.integers(2, 6).flatmap(
    lambda n: st.builds(
        SoftmaxStep, st.lists(LOGITS, min_size=n, max_size=n), st.lists(VALUES, min_size=n, max_size=n)
    )
)
TIGHT = {"rtol": 1e-9, "atol": 1e-10}


def read(z: np.ndarray, v: np.ndarray) -> float:
    """The step as it is defined, without any care for rounding."""
    weights = np.exp(z)
    return float((weights * v).sum() / weights.sum())


class TestAgainstRecomputation:
    @given(STEPS)
    def test_loo(self, step: SoftmaxStep) -> None:
        z, v = step.logits, step.values
        removed = [read(z, v) - read(np.delete(z, i), np.delete(v, i)) for i in range(len(z))]
        assert np.allclose(step.loo(), removed, **TIGHT)

    @given(STEPS)
    def test_mask_gradient_is_the_derivative(self, step: SoftmaxStep) -> None:
        for i, derivative in enumerate(step.mask_gradient()):
            h = 1e-5 * np.eye(len(step.logits))[i]
            numeric = (read(step.logits + h, step.values) - read(step.logits - h, step.values)) / 2e-5
            assert derivative == pytest.approx(numeric, abs=1e-8)
        assert step.mask_gradient().sum() == pytest.approx(0, abs=1e-12)


class TestAgainstTheRules:
    @given(STEPS)
    def test_rules_in_torch(self, step: SoftmaxStep) -> None:
        z, v = torch.tensor(step.logits), torch.tensor(step.values)
        a = z.softmax(-1)
        o = (a @ v).reshape(1, 1)
        g_o = torch.ones_like(o)
        g_a, g_v = rules.matmul(g_o, a[None], v[:, None], o)
        g_z = rules.softmax(g_a, a[None])
        assert np.allclose(step.value_relevance(), v * g_v[:, 0], **TIGHT)
        assert np.allclose(step.value_relevance(), a * g_a[0], **TIGHT)
        assert np.allclose(step.logit_relevance(), z * g_z[0], **TIGHT)
        assert np.allclose(step.attnlrp(), v * g_v[:, 0] + z * g_z[0], **TIGHT)
        assert np.allclose(step.cp_lrp(), v * rules.attention_values(g_o, a[None], o)[:, 0], **TIGHT)

    @given(STEPS)
    def test_moments(self, step: SoftmaxStep) -> None:
        """A mean goes into the softmax, a covariance comes out."""
        a, z, v = step.attention, step.logits, step.values
        covariance = (a * z * v).sum() - (a * z).sum() * (a * v).sum()
        assert step.cp_lrp().sum() == pytest.approx(float(step.output), abs=1e-10)
        assert step.logit_relevance().sum() == pytest.approx(covariance / 2, abs=1e-9)

    @given(STEPS)
    def test_rule_is_loo_times_a_factor(self, step: SoftmaxStep) -> None:
        assert np.allclose(
            step.logit_relevance(), step.logits * (1 - step.attention) / 2 * step.loo(), **TIGHT
        )


class TestInvariance:
    @given(STEPS, st.floats(-20, 20))
    def test_a_shift_changes_the_rule_only(self, step: SoftmaxStep, c: float) -> None:
        shifted = SoftmaxStep(step.logits + c, step.values)
        for name in ("loo", "mask_gradient", "cp_lrp", "value_relevance"):
            assert np.allclose(getattr(shifted, name)(), getattr(step, name)(), **TIGHT), name
        moved = shifted.logit_relevance() - step.logit_relevance()
        assert np.allclose(moved, c * step.mask_gradient() / 2, rtol=1e-8, atol=1e-9)

    @given(STEPS, st.floats(-20, 20))
    def test_a_shift_of_the_values_does_not_reach_loo(self, step: SoftmaxStep, c: float) -> None:
        shifted = SoftmaxStep(step.logits, step.values + c)
        assert np.allclose(shifted.loo(), step.loo(), **TIGHT)
        assert np.allclose(shifted.cp_lrp() - step.cp_lrp(), c * step.attention, **TIGHT)
        assert np.allclose(shifted.logit_relevance(), step.logit_relevance(), rtol=1e-8, atol=1e-9)


class TestThePapersTwoCases:
    @given(st.lists(LOGITS, min_size=2, max_size=6), VALUES)
    def test_equal_values_structural_bias(self, logits: list[float], value: float) -> None:
        step = SoftmaxStep(logits, [value] * len(logits))
        assert not step.loo().any() and not step.mask_gradient().any() and not step.logit_relevance().any()
        assert np.allclose(step.cp_lrp(), value * step.attention)
        assert np.allclose(step.attnlrp(), value * step.attention / 2)

    @given(st.lists(VALUES, min_size=2, max_size=6), st.floats(-6, 6))
    def test_equal_logits_level(self, values: list[float], level: float) -> None:
        n = len(values)
        step = SoftmaxStep([level] * n, values)
        assert np.allclose(step.logit_relevance(), level * (n - 1) / (2 * n) * step.loo(), **TIGHT)
        assert np.allclose(step.mask_gradient(), (n - 1) / n * step.loo(), **TIGHT)

    def test_a_token_with_all_the_attention(self) -> None:
        """The gradient fades, removal does not; rounding loses nothing although 1 - A is below 1e-200."""
        step = SoftmaxStep([250.0, -250.0, -250.0], [3.0, 1.0, 5.0])
        assert step.attention[0] == 1 and abs(step.mask_gradient()).max() < 1e-200
        assert step.loo()[0] == pytest.approx(3 - 3, abs=1e-12)
        step = SoftmaxStep([250.0, -250.0, -250.0], [3.0, 1.0, 1.0])
        assert step.loo()[0] == pytest.approx(2)


def test_many_queries_at_once() -> None:
    draw = np.random.default_rng(0)
    z, v = draw.normal(size=(2, 3, 2, 5))
    many = SoftmaxStep(z, v)
    for j in np.ndindex(3, 2):
        single = SoftmaxStep(z[j], v[j])
        for name in ("cp_lrp", "attnlrp", "loo"):
            assert np.allclose(getattr(many, name)()[j], getattr(single, name)(), **TIGHT), name
        assert np.allclose(many.output[j], single.output)
