"""Linear attention: same outputs and other relevance from left and right, and what the shares are worth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import r_add, r_attention_values, r_linear, r_matmul
from torch import Tensor

from lrp_companion.methods.image import attribute_images
from lrp_companion.toys.linear_attention import ASSOCIATIONS, READOUTS, SHARES, LinearAttention

VARIANTS = [
    (bias, position, readout) for bias in (False, True) for position in (False, True) for readout in READOUTS
]


def tiny(
    association: str = "left", *, seed: int = 3, tokens: int = 4, dim: int = 3, **options: object
) -> LinearAttention:
    net = LinearAttention(
        association=association, tokens=tokens, dim=dim, classes=3, seed=seed, dtype=torch.float64, **options
    )
    if net.position is not None:
        net.position.data *= 25  # a size that matters
    return net


def pictures(count: int = 2, *, tokens: int = 4, seed: int = 0) -> Tensor:
    return torch.randn(count, tokens, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def r_form(
    net: LinearAttention,
    x: np.ndarray,
    target: int,
    *,
    eps: float,
    values_only: bool = False,
    scaled: bool = True,
) -> dict[str, np.ndarray]:
    """Eq. (1), (3), (4) literally on the relevance of one image; left grouping for CP-LRP."""
    state = {name: value.detach().numpy() for name, value in net.state_dict().items()}

    def weights(name: str) -> tuple[np.ndarray, np.ndarray | float]:
        return state[f"{name}.weight"], state.get(f"{name}.bias", 0.0)

    pixel = x[:, None]
    position = state.get("position")
    embedded = pixel @ state["embed.weight"].T if "embed.weight" in state else pixel
    token = embedded if position is None else embedded + position
    q, k, v = (token @ w.T + b for w, b in map(weights, ("query", "key", "value")))
    small = k / np.sqrt(net.dim) if scaled else k
    inner = q @ small.T if net.association == "left" else small.T @ v
    o = inner @ v if net.association == "left" else q @ inner
    rows = o.reshape(-1) if net.readout == "all" else o.mean(0)
    w, b = weights("read")
    logits = rows @ w.T + b

    relevance = r_linear(np.eye(net.classes)[target] * logits, rows, w, b, eps)
    if net.readout == "all":
        r_o = relevance.reshape(o.shape)
    else:
        r_o = np.stack(
            [
                r_linear(relevance[p : p + 1], o[:, p], np.full((1, net.tokens), 1 / net.tokens), 0.0, eps)
                for p in range(net.dim)
            ],
            1,
        )
    r_q, r_k = np.zeros_like(q), np.zeros_like(k)
    if values_only:
        r_v = r_attention_values(r_o, inner, v, eps)
    elif net.association == "left":
        r_inner, r_v = r_matmul(r_o, inner, v, eps)
        r_q, r_kt = r_matmul(r_inner, q, small.T, eps)
        r_k = r_kt.T
    else:
        r_q, r_inner = r_matmul(r_o, q, inner, eps)
        r_kt, r_v = r_matmul(r_inner, small.T, v, eps)
        r_k = r_kt.T
    r_token = np.zeros_like(token)
    for r, name in ((r_q, "query"), (r_k, "key"), (r_v, "value")):
        w, b = weights(name)
        r_token += np.stack([r_linear(r[t], token[t], w, b, eps) for t in range(net.tokens)])
    r_embedded, r_position = (
        (r_token, None) if position is None else r_add(r_token, [embedded, position], eps)
    )
    if "embed.weight" in state:
        r_embedded = np.stack(
            [r_linear(r_embedded[t], pixel[t], state["embed.weight"], 0.0, eps) for t in range(net.tokens)]
        )
    return {"pixel": r_embedded[:, 0]} | ({} if r_position is None else {"position": r_position.sum(1)})


def by_gradient(net: LinearAttention, x: Tensor, target: int, shares: Sequence[float]) -> Tensor:
    """Input x gradient with two of three projections detached, mixed by the shares; epsilon 0."""
    total = torch.zeros_like(x)
    for kept, share in enumerate(shares):
        leaf = x.clone().requires_grad_(True)
        token = leaf[..., None] if net.embed is None else net.embed(leaf[..., None]) + net.position
        q, k, v = (
            p if n == kept else p.detach()
            for n, p in enumerate((net.query(token), net.key(token), net.value(token)))
        )
        o = torch.einsum("bid,bjd,bje->bie", q, k, v) / net.dim**0.5
        logits = net.read(o.flatten(1) if net.readout == "all" else o.mean(1))
        total += share * x * torch.autograd.grad(logits[:, target].sum(), leaf)[0]
    return total


class TestTheFunction:
    @pytest.mark.parametrize(("bias", "position", "readout"), VARIANTS)
    def test_left_and_right_agree_in_output_and_differ_in_relevance(self, bias, position, readout):
        net, x = tiny(bias=bias, position_embedding=position, readout=readout), pictures(5)
        sibling = net.sibling()
        assert torch.allclose(net(x), sibling(x), rtol=1e-12, atol=1e-12)
        assert sibling.query.weight is net.query.weight and sibling.association == "right"
        assert net.association == "left"
        apart = (net.relevance(x, 1) - sibling.relevance(x, 1)).abs().max() / net.relevance(x, 1).abs().max()
        assert apart > 1e-2

    def test_what_the_default_net_computes(self) -> None:
        """Without bias and position, f(x) = |x|^2 (m . x): a linear score times the brightness."""
        net, x = tiny(), pictures()
        w_q, w_k, w_v = (layer.weight[:, 0] for layer in (net.query, net.key, net.value))
        m = (w_q @ w_k) / net.dim**0.5 * (net.read.weight.view(net.classes, net.tokens, net.dim) @ w_v)
        assert torch.allclose(net(x), x.square().sum(1, keepdim=True) * (x @ m.T))


class TestTraining:
    @pytest.mark.parametrize("options", [{}, {"embedding": True}, {"scaled": False}])
    @pytest.mark.parametrize(("bias", "position", "readout"), VARIANTS)
    def test_trains_the_function_of_the_forward_pass(self, bias, position, readout, options):
        """Logits and every gradient, to rounding: the factored form is another order of the same sums."""
        net, x = tiny(bias=bias, position_embedding=position, readout=readout, **options), pictures(5)
        weight = pictures(5, tokens=net.classes, seed=1)

        def gradients(logits: Tensor) -> list[Tensor]:
            return list(torch.autograd.grad((logits * weight).sum(), list(net.parameters())))

        plain, factored = net(x), net.factored(x)
        assert torch.allclose(factored, plain, rtol=1e-12, atol=1e-13)
        for gradient, wanted in zip(gradients(factored), gradients(plain), strict=True):
            assert torch.allclose(gradient, wanted, rtol=1e-10, atol=1e-12) and wanted.abs().max() > 1e-6


class TestRelevance:
    @pytest.mark.parametrize("eps", [0.0, 0.05])
    @pytest.mark.parametrize("association", ASSOCIATIONS)
    @pytest.mark.parametrize(
        ("embedding", "scaled"), [(False, True), (True, True), (True, False), (False, False)]
    )
    @pytest.mark.parametrize(("bias", "position", "readout"), VARIANTS)
    def test_equals_the_literal_equations(self, bias, position, readout, embedding, scaled, association, eps):
        shape = {"position_embedding": position, "embedding": embedding, "scaled": scaled}
        net, x = tiny(association, bias=bias, readout=readout, **shape), pictures()
        assert (net.embed is not None, net.position is not None) == (embedding, position)
        ours = net.relevance_parts(x, [2, 0], epsilon=eps)
        for k, target in enumerate((2, 0)):
            slow = r_form(net, x[k].numpy(), target, eps=eps, scaled=scaled)
            assert set(slow) == set(ours)
            for name, values in slow.items():
                np.testing.assert_allclose(ours[name][k].numpy(), values, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(net(x), net.sibling()(x), rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("eps", [0.0, 0.05])
    def test_values_only_is_cp_lrp(self, eps: float) -> None:
        net, x = tiny(bias=True), pictures()
        slow = r_form(net, x[0].numpy(), 1, eps=eps, values_only=True)["pixel"]
        np.testing.assert_allclose(
            net.relevance(x, 1, shares=SHARES["values"], epsilon=eps)[0].numpy(), slow, rtol=1e-9, atol=1e-12
        )

    @pytest.mark.parametrize("association", ASSOCIATIONS)
    @pytest.mark.parametrize(("bias", "position", "readout"), VARIANTS)
    def test_shares_are_a_modified_gradient(self, bias, position, readout, association):
        net, x = tiny(association, bias=bias, position_embedding=position, readout=readout), pictures()
        for shares in [
            SHARES[association],
            SHARES["flat"],
            SHARES["values"],
            (0.7, 0.1, 0.2),
            (0.0, 0.4, 0.6),
            (0.5, 0.5, 0.0),
        ]:
            torch.testing.assert_close(
                net.relevance(x, 0, shares=shares), by_gradient(net, x, 0, shares), rtol=1e-10, atol=1e-12
            )
        torch.testing.assert_close(
            net.relevance(x, 0), by_gradient(net, x, 0, SHARES[association]), rtol=1e-10, atol=1e-12
        )

    @given(
        st.tuples(*[st.floats(0.0, 1.0)] * 3).filter(lambda a: sum(a) > 0.1),
        st.integers(0, 50),
        st.sampled_from(VARIANTS),
    )
    def test_every_point_of_the_simplex_is_a_mixture_and_ignores_the_grouping(self, amounts, seed, variant):
        shares = [a / sum(amounts) for a in amounts]
        bias, position, readout = variant
        net, x = tiny(seed=seed, bias=bias, position_embedding=position, readout=readout), pictures(seed=seed)
        maps = net.share_maps(x, 1)
        mixed = shares[0] * maps["query"] + shares[1] * maps["key"] + shares[2] * maps["value"]
        for grouped in (net, net.sibling()):
            torch.testing.assert_close(grouped.relevance(x, 1, shares=shares), mixed, rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize("readout", READOUTS)
    @pytest.mark.parametrize("association", ASSOCIATIONS)
    def test_relevance_sums_to_the_logit_where_nothing_absorbs_it(self, association, readout):
        x = pictures()
        net = tiny(association, readout=readout)
        torch.testing.assert_close(net.relevance(x, 1).sum(1), net(x)[:, 1], rtol=1e-10, atol=1e-12)
        parts = (placed := tiny(association, readout=readout, position_embedding=True)).relevance_parts(x, 1)
        torch.testing.assert_close(
            parts["pixel"].sum(1) + parts["position"].sum(1), placed(x)[:, 1], rtol=1e-10, atol=1e-12
        )


class TestMethods:
    def scores(self, net: LinearAttention, x: Tensor, method: str, **options: object) -> np.ndarray:
        return np.stack([record.scores for record in attribute_images(net, x, method=method, **options)])

    @pytest.mark.parametrize("association", ASSOCIATIONS)
    @pytest.mark.parametrize("readout", READOUTS)
    def test_oracle_2_integrated_gradients_are_equal_shares(self, association: str, readout: str) -> None:
        net, x = tiny(association, readout=readout), pictures(5)
        flat = self.scores(net, x, "lrp", shares="flat")
        nodes, weights = np.polynomial.legendre.leggauss(2)  # exact: the integrand is a square
        slow = sum(
            w / 2 * self.scores(net, (t + 1) / 2 * x, "gradient-x-input", target=1) / ((t + 1) / 2)
            for t, w in zip(nodes, weights, strict=True)
        )
        np.testing.assert_allclose(
            slow, self.scores(net, x, "lrp", shares="flat", target=1), rtol=1e-12, atol=1e-13
        )
        np.testing.assert_allclose(self.scores(net, x, "gradient-x-input") / 3, flat, rtol=1e-12, atol=1e-13)
        # captum's weights are float32
        np.testing.assert_allclose(self.scores(net, x, "ig", n_steps=4), flat, rtol=1e-6, atol=1e-8)

    def test_loo_is_one_zeroed_pixel(self) -> None:
        net, x = tiny(bias=True), pictures(2)
        slow = np.zeros((2, 4))
        for k in range(2):
            for i in range(4):
                less = x[k : k + 1].clone()
                less[0, i] = 0
                slow[k, i] = (net(x[k : k + 1]) - net(less))[0, 2].item()
        np.testing.assert_allclose(self.scores(net, x, "loo", target=2, batch_images=3), slow, rtol=1e-12)

    def test_oracle_6_relevance_equals_loo_when_the_function_is_linear(self) -> None:
        """Query and key weights are 0: attention is constant, the logit linear in the pixels."""
        net, x = tiny(bias=True), pictures(3)
        for layer in (net.query, net.key):
            layer.weight.data.zero_()
        np.testing.assert_allclose(
            self.scores(net, x, "cp-lrp"), self.scores(net, x, "loo"), rtol=1e-9, atol=1e-12
        )
        np.testing.assert_allclose(
            self.scores(net, x, "gradient-x-input"), self.scores(net, x, "loo"), rtol=1e-9, atol=1e-12
        )
