"""Every relevance rule against the paper's equation, contribution by contribution, in float64."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence

import numpy as np
import oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lrp_companion import rules

EPSILONS = (0.0, 1e-6, 0.1, 1.0)
sizes = st.integers(1, 5)
epsilons = st.sampled_from(EPSILONS)
seeds = st.integers(0, 10_000)


def draw(seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for shape in shapes]


def tensors(*arrays: np.ndarray) -> list[torch.Tensor]:
    return [torch.from_numpy(np.ascontiguousarray(a)) for a in arrays]


def close(actual: torch.Tensor | np.ndarray, expected: np.ndarray) -> None:
    """Equal to 1e-9 of the largest entry; z near 0 makes the R-form itself lose digits."""
    np.testing.assert_allclose(
        np.asarray(actual),
        expected,
        rtol=1e-9,
        atol=1e-9 * max(1.0, float(np.abs(expected).max(initial=0.0))),
    )


@given(sizes, sizes, st.floats(0, 1), seeds)
def test_matmul_shares_scale_each_factor(rows: int, inner: int, share: float, seed: int) -> None:
    a, b, g = draw(seed, (rows, inner), (inner, 2), (rows, 2))
    o = a @ b
    r_a, r_b = oracles.r_matmul(o * g, a, b, 0.0)
    g_a, g_b = rules.matmul(*tensors(g, a, b, o), shares=(share, 1 - share))
    close(a * g_a.numpy(), 2 * share * r_a)
    close(b * g_b.numpy(), 2 * (1 - share) * r_b)


@given(sizes, seeds)
def test_softmax_leaves_masked_keys_out(keys: int, seed: int) -> None:
    z, g = draw(seed, (2, keys + 1), (2, keys + 1))
    z[:, -1] = -np.inf
    a = torch.softmax(torch.from_numpy(z), -1).numpy()
    back = rules.softmax(*tensors(g, a)).numpy()
    assert (back[:, -1] == 0).all() and np.isfinite(back).all()
    close(z[:, :-1] * back[:, :-1], oracles.r_softmax(a * g, z)[:, :-1])


@pytest.mark.parametrize(
    ("phi", "slope"),
    [(torch.nn.functional.gelu, 0.5), (torch.tanh, 1.0), (torch.relu, 0.0), (torch.nn.functional.silu, 0.5)],
    ids=["gelu", "tanh", "relu", "silu"],
)
def test_elementwise_keeps_relevance_and_takes_the_limit_at_zero(phi, slope: float) -> None:
    z = torch.tensor([-3.0, -0.5, 0.7, 2.0], dtype=torch.float64)
    g = torch.tensor([1.0, -2.0, 0.3, 4.0], dtype=torch.float64)
    torch.testing.assert_close(
        z * rules.elementwise(g, rules.slope(z, phi(z), at_zero=slope)), phi(z) * g, rtol=1e-14, atol=0
    )
    zero = torch.zeros(1, dtype=torch.float64)
    assert (
        rules.elementwise(
            torch.full((1,), 3.0, dtype=torch.float64), rules.slope(zero, phi(zero), at_zero=slope)
        ).item()
        == 3 * slope
    )
    near = torch.full((1,), 1e-9, dtype=torch.float64)  # the limit joins what is beside it
    assert rules.elementwise(
        torch.ones(1, dtype=torch.float64), rules.slope(near, phi(near), at_zero=slope)
    ).item() == pytest.approx(slope if slope else 1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("z", "y"), [(math.nan, math.nan), (1.0, math.nan), (math.inf, math.inf), (-1.0, -math.inf)]
)
def test_a_slope_that_is_not_finite_is_not_taken_for_the_limit(z: float, y: float) -> None:
    assert not rules.slope(torch.tensor([z]), torch.tensor([y]), at_zero=0.5).isfinite().any()


def call(name: str, arguments: Sequence[torch.Tensor], eps: float) -> tuple[torch.Tensor, ...]:
    """What a registered rule returns, as a tuple; epsilon where the rule has one."""
    function = rules.RULES[name].function
    options = {"eps": eps} if "eps" in inspect.signature(function).parameters else {}
    back = function(*arguments, **options)
    return back if isinstance(back, tuple) else (back,)


def case_of(name: str, seed: int, eps: float) -> oracles.Case:
    return oracles.REPLICAS[name].case(lambda *shapes: draw(seed, *shapes), eps)


def test_every_registered_rule_has_a_slow_form() -> None:
    """`stabiliser` is the factor inside them and takes no `g`; it has a test to itself."""
    assert set(oracles.REPLICAS) == set(rules.RULES) - {"stabiliser"}


@pytest.mark.parametrize("name", oracles.REPLICAS)
@given(epsilons, seeds)
def test_every_rule_is_its_slow_form(name: str, eps: float, seed: int) -> None:
    """Eq. (1) for linear maps, sums and norms, (3) and (4) for products, (5) for the softmax."""
    case = case_of(name, seed, eps)
    for g, pairs in zip(call(name, tensors(*case.arguments), eps), case.expected, strict=True):
        for activation, expected in pairs:
            close(activation * g.numpy(), expected)


@pytest.mark.parametrize("name", oracles.REPLICAS)
def test_batched_axes_are_the_same_rule_many_times(name: str) -> None:
    several = np.empty((2, 3), dtype=object)
    unbatched = oracles.REPLICAS[name].unbatched
    for i in np.ndindex(2, 3):
        several[i] = list(tensors(*case_of(name, sum(i), 0.1).arguments))
        for place in unbatched:
            several[i][place] = several[0, 0][place]
    batch = [
        several[0, 0][place]
        if place in unbatched
        else torch.stack([torch.stack([single[place] for single in row]) for row in several])
        for place in range(len(several[0, 0]))
    ]
    together = call(name, batch, 0.1)
    for i in np.ndindex(2, 3):
        for whole, single in zip(together, call(name, several[i], 0.1), strict=True):
            torch.testing.assert_close(whole[i], single, rtol=1e-13, atol=1e-13)


def test_stabiliser_is_exactly_one_without_epsilon_and_damps_with_it() -> None:
    z = torch.tensor([-2.0, 0.0, 3.0], dtype=torch.float64)
    assert torch.equal(
        rules.stabiliser(z, 0.0) * torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    )
    torch.testing.assert_close(rules.stabiliser(z, 0.5), z / (z + 0.5 * z.sign().where(z != 0, 1.0)))


@pytest.mark.parametrize("eps", EPSILONS)
def test_a_sum_that_cancels_stays_finite_in_float32(eps: float) -> None:
    """1 + -1: an unsigned or absent stabiliser on relevance itself gives 1e8 or infinity here."""
    total = torch.tensor([1.0]) + torch.tensor([-1.0 + 2**-24])
    back = rules.add(torch.ones(1), total, eps=eps)
    assert 0 <= back.item() <= 1
    assert rules.linear(torch.ones(1), torch.ones(1, 2), torch.zeros(1), eps=eps).abs().max() <= 1


@given(sizes, sizes, seeds)
def test_where_relevance_is_kept_and_where_it_is_not(rows: int, inner: int, seed: int) -> None:
    """Linear maps and sums without bias keep relevance, products halve it, Eq. (5) does not keep it."""
    a, b, g = draw(seed, (rows, inner), (inner, 3), (rows, 3))
    o = a @ b
    g_a, g_b = rules.matmul(*tensors(g, a, b, o))
    assert (a * g_a.numpy()).sum() == pytest.approx((o * g).sum() / 2, abs=1e-9)
    assert (b * g_b.numpy()).sum() == pytest.approx((o * g).sum() / 2, abs=1e-9)
    assert (b * rules.attention_values(*tensors(g, a, o)).numpy()).sum() == pytest.approx(
        (o * g).sum(), abs=1e-9
    )
    assert (a * rules.linear(*tensors(g, b.T, o)).numpy()).sum() == pytest.approx((o * g).sum(), abs=1e-9)
    torch.testing.assert_close(rules.attention_values(*tensors(g, a, o)), 2 * g_b)  # CP-LRP does not halve


def test_the_softmax_rule_does_not_conserve() -> None:
    z = torch.tensor([1.0, 0.0, -2.0], dtype=torch.float64)
    a = z.softmax(-1)
    g = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    assert abs(float((z * rules.softmax(g, a)).sum() - (a * g).sum())) > 0.1
    torch.testing.assert_close(
        rules.softmax(g, a).sum(), torch.zeros((), dtype=torch.float64), atol=1e-15, rtol=0
    )


@given(sizes, sizes, sizes, seeds)
def test_a_purely_linear_net_equals_loo_with_zeroing(inputs, hidden, outputs, seed):
    """Section 2.3: R_i = x_i W_i = f(x) - f(x with x_i = 0), biases or not, at any depth, with a residual."""
    x, w1, b1, w2, b2, w3 = draw(
        seed, (inputs,), (hidden, inputs), (hidden,), (hidden, hidden), (hidden,), (outputs, hidden)
    )

    def run(x: np.ndarray) -> tuple[np.ndarray, ...]:
        h = w1 @ x + b1
        inner = w2 @ h + b2
        return h, inner, inner + h, w3 @ (inner + h)

    h, inner, total, out = run(x)
    start = np.eye(outputs)[0]
    g = rules.add(rules.linear(*tensors(start, w3, out)), torch.from_numpy(total))
    g = g + rules.linear(g, *tensors(w2, inner))
    relevance = x * rules.linear(g, *tensors(w1, h)).numpy()
    loo = [out[0] - run(np.where(np.arange(inputs) == i, 0.0, x))[-1][0] for i in range(inputs)]
    close(relevance, np.array(loo))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", oracles.REPLICAS)
def test_rules_stay_in_their_dtype_and_near_float64(name: str, dtype: torch.dtype) -> None:
    narrow = [argument.to(dtype) for argument in tensors(*case_of(name, 3, 0.1).arguments)]
    for low, high in zip(
        call(name, narrow, 0.1), call(name, [argument.double() for argument in narrow], 0.1), strict=True
    ):
        assert low.dtype == dtype
        largest = float(high.abs().max())
        torch.testing.assert_close(
            low.double(), high, rtol=0, atol=largest * (1e-5 if dtype == torch.float32 else 0.05)
        )
