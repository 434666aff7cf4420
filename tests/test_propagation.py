"""Relevance through whole encoders: a modified gradient, Eq. (1)-(5) on relevance itself, properties."""

from __future__ import annotations

import functools

import numpy as np
import oracles
import oracles_pre_norm
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import BERT_LIKE, TEXTS, build, without_constants

from lrp_companion.schema import Lattice
from lrp_companion.tape.encoder import Encoder, all_masks, pad, some_masks

CPU = torch.device("cpu")
MASKS = [(), (1,), (2,), (1, 2)]


@functools.cache
def network(family: str = "bert", **shape: int | str) -> tuple[torch.nn.Module, list[list[int]]]:
    """A random float64 classifier without any folder, and the token ids of `TEXTS`."""
    model, tokenizer = build(family, **shape)
    return model.double(), tokenizer(list(TEXTS))["input_ids"]


def explain(
    model: torch.nn.Module,
    rows: list[list[int]],
    start: list[float],
    *,
    bypass: tuple[int, ...] = (),
    eps: float = 0.0,
) -> dict[str, np.ndarray]:
    """Relevance parts, each (B, T), by the package."""
    with torch.no_grad():
        tape = Encoder(model).forward(*pad(rows, model.config.pad_token_id, CPU))
        mask = frozenset(bypass)
        parts = some_masks(
            tape, torch.tensor(start, dtype=torch.float64).expand(len(rows), -1), [mask], epsilon=eps
        )[mask]
        return {name: value.numpy() for name, value in parts.items()}


def assert_near(actual: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * float(np.abs(expected).max()))


@pytest.mark.parametrize("bypass", MASKS, ids=str)
@pytest.mark.parametrize("family", BERT_LIKE)
def test_equals_the_modified_gradient(family: str, bypass: tuple[int, ...]) -> None:
    """Oracle 2, every part of the embedding sum, each text of a padded batch, 1e-9 relative."""
    model, rows = network(family)
    weights = oracles.weights_of(model)
    parts = explain(model, rows, [0.0, 1.0], bypass=bypass)
    for k, ids in enumerate(rows):
        _, expected = oracles.modified_gradient(
            weights, ids, [0.0, 1.0], amounts=[float(layer in bypass) for layer in (1, 2)]
        )
        assert set(parts) == set(expected)
        for name, value in expected.items():
            assert_near(parts[name][k, : len(ids)], value.numpy(), 1e-9)


@pytest.mark.parametrize("eps", [0.0, 1e-6, 0.1, 1.0])
@pytest.mark.parametrize(
    ("family", "bypass", "activation"),
    [
        ("bert", (), "gelu"),
        ("bert", (2,), "gelu"),
        ("bert", (1,), "relu"),
        ("electra", (1, 2), "gelu"),
        ("distilbert", (1,), "gelu"),
        ("roberta", (), "gelu"),
        ("xlm-roberta", (2,), "gelu"),
        ("camembert", (1, 2), "gelu"),
        ("albert", (1,), "gelu"),
        ("mpnet", (), "gelu"),
        ("mpnet", (2,), "gelu"),
    ],
    ids=str,
)
def test_equals_the_equations_on_relevance_itself(family, bypass, activation, eps):
    """Oracle 3: no gradient, no g; Eq. (1), (3), (4), (5) with the stabiliser wherever the paper puts it."""
    model, rows = network(family, activation=activation)
    ids = rows[0]
    wiring = Encoder(model).wiring
    _, expected = oracles_pre_norm.relevance_r_form(wiring, ids, 0, bypass=bypass, eps=eps)
    parts = explain(model, [ids], [1.0, 0.0], bypass=bypass, eps=eps)
    for name, value in expected.items():
        assert_near(parts[name][0], value, 1e-9)


@pytest.mark.parametrize("family", BERT_LIKE)
def test_without_constants_cp_lrp_sums_to_the_logit_and_attnlrp_does_not(family: str) -> None:
    """Oracle 1. Eq. (5) does not conserve, so AttnLRP's sum is another number."""
    model, tokenizer = build(family, seed=3)
    model = without_constants(model.double())
    rows = tokenizer(list(TEXTS))["input_ids"]
    with torch.no_grad():
        logits = Encoder(model).forward(*pad(rows, model.config.pad_token_id, CPU)).logits.numpy()
    for target in (0, 1):
        start = np.eye(2)[target].tolist()
        cp = explain(model, rows, start, bypass=(1, 2))
        np.testing.assert_allclose(cp["word"].sum(1), logits[:, target], rtol=1e-9)
        assert all(np.abs(cp[name]).max() == 0 for name in cp if name != "word")
        attn = explain(model, rows, start)["word"].sum(1)
        assert (np.abs(attn - logits[:, target]) > 1e-3 * np.abs(logits[:, target])).all()


@given(
    st.permutations(range(len(TEXTS))),
    st.integers(1, len(TEXTS)),
    st.sampled_from(MASKS),
    st.sampled_from([0.0, 0.1]),
    st.sampled_from(BERT_LIKE),
)
def test_padding_and_order_change_nothing(order, count, bypass, eps, family):
    """Oracle 4: alone or beside longer texts, in any order; padded positions score exactly 0."""
    model, rows = network(family)
    chosen = [rows[i] for i in order[:count]]
    together = explain(model, chosen, [1.0, -1.0], bypass=bypass, eps=eps)
    for k, ids in enumerate(chosen):
        alone = explain(model, [ids], [1.0, -1.0], bypass=bypass, eps=eps)
        for name, value in together.items():
            np.testing.assert_allclose(value[k, : len(ids)], alone[name][0], rtol=0, atol=1e-10)
            assert (value[k, len(ids) :] == 0).all()


@pytest.mark.parametrize("eps", [0.0, 0.1])
@pytest.mark.parametrize("rows_at_once", [1, 4, 64])
def test_the_tree_equals_one_run_per_mask(eps: float, rows_at_once: int) -> None:
    """Oracle 5, all 32 masks of 5 layers, two padded texts; however many masks are carried at once."""
    model, rows = network("bert", layers=5)
    rows = rows[:2]
    start = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    with torch.no_grad():
        tape = Encoder(model).forward(*pad(rows, 0, CPU))
        tree = all_masks(tape, start, epsilon=eps, rows=rows_at_once)
        assert all(value.shape == (32, 2, max(map(len, rows))) for value in tree.values())
        for k in range(32):
            mask = frozenset(layer for layer in range(1, 6) if k >> (layer - 1) & 1)
            for name, value in some_masks(tape, start, [mask], epsilon=eps)[mask].items():
                torch.testing.assert_close(tree[name][k], value, rtol=1e-10, atol=1e-12)


@given(st.lists(st.frozensets(st.integers(1, 3)), max_size=6), st.sampled_from([0.0, 0.1]))
def test_masks_that_share_a_walk_equal_masks_walked_alone(masks: list[frozenset[int]], eps: float) -> None:
    model, rows = network("bert", layers=3)
    start = torch.tensor([[0.0, 1.0]] * 2, dtype=torch.float64)
    with torch.no_grad():
        tape = Encoder(model).forward(*pad(rows[:2], 0, CPU))
        shared = some_masks(tape, start, masks, epsilon=eps)
        assert set(shared) == set(masks)
        for mask in masks:
            for name, value in some_masks(tape, start, [mask], epsilon=eps)[mask].items():
                torch.testing.assert_close(shared[mask][name], value, rtol=1e-10, atol=1e-12)


def test_the_tree_costs_one_layer_backward_per_pair_of_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """2**L - 1 layer-backwards in total, counted in masks carried: 1 + 2 + ... + 2**(L-1)."""
    from lrp_companion.tape.layer import LayerBlock

    carried = []
    children = LayerBlock.children

    def counted(self: LayerBlock, g: torch.Tensor, *, eps: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
        carried.append(len(g))
        return children(self, g, eps=eps)

    monkeypatch.setattr(LayerBlock, "children", counted)
    model, rows = network("bert", layers=5)
    with torch.no_grad():
        tape = Encoder(model).forward(*pad(rows[:1], 0, CPU))
        all_masks(tape, torch.ones(1, 2, dtype=torch.float64), rows=4)
    assert sum(carried) == 2**5 - 1
    assert max(carried) <= 4


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_relevance_is_multilinear_in_the_mask(amounts: list[float]) -> None:
    """A half-open layer, run as such by the modified gradient, is the mixture of the corners."""
    model, rows = network("bert", layers=3)
    lattice = lattice_of(model, rows[0])
    _, expected = oracles.modified_gradient(oracles.weights_of(model), rows[0], [0.0, 1.0], amounts=amounts)
    assert_near(lattice.mix(amounts), expected["word"].numpy(), 1e-9)


@functools.cache
def _corners(layers: int) -> np.ndarray:
    model, rows = network("bert", layers=layers)
    with torch.no_grad():
        tape = Encoder(model).forward(*pad(rows[:1], 0, CPU))
        return all_masks(tape, torch.tensor([[0.0, 1.0]], dtype=torch.float64))["word"][:, 0].numpy()


def lattice_of(model: torch.nn.Module, ids: list[int]) -> Lattice:
    layers = model.config.num_hidden_layers
    return Lattice(
        tokens=tuple(map(str, ids)),
        scores=_corners(layers),
        target=1,
        logit=0.0,
        special=np.zeros(len(ids), bool),
    )


def test_an_activation_exactly_at_zero_takes_the_limit() -> None:
    """A GELU whose input is exactly 0 at one token: no NaN, and the map is that of z -> 0."""
    model, tokenizer = build("bert", seed=5)
    model = model.double()
    rows = tokenizer(list(TEXTS[:1]))["input_ids"]
    inner = model.bert.encoder.layer[0].intermediate.dense
    with torch.no_grad():
        hidden = Encoder(model).forward(*pad(rows, 0, CPU)).layers[0].attention_norm[0].y[0, 2]
        # z = x_0 + bias: exact whatever the order of summing
        inner.weight[0] = torch.eye(len(hidden), dtype=torch.float64)[0]
        maps = []
        for distance in (0.0, 1e-9):
            inner.bias[0] = distance - hidden[0]
            assert (Encoder(model).forward(*pad(rows, 0, CPU)).layers[0].inner.z[0, 2, 0] == 0) == (
                distance == 0
            )
            maps.append(explain(model, rows, [0.0, 1.0])["word"])
    assert np.isfinite(maps[0]).all()
    assert_near(maps[0], maps[1], 1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.2)])
@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_lower_precision_stays_near_float64(dtype: torch.dtype, tolerance: float, eps: float) -> None:
    model, rows = network()
    exact = explain(model, rows, [0.0, 1.0], bypass=(2,), eps=eps)["word"]
    low, _ = build("bert")
    low = low.to(dtype)
    with torch.no_grad():
        tape = Encoder(low).forward(*pad(rows, 0, CPU))
        mask = frozenset({2})
        word = some_masks(
            tape, torch.tensor([[0.0, 1.0]], dtype=dtype).expand(len(rows), -1), [mask], epsilon=eps
        )[mask]["word"]
    assert word.dtype == dtype and torch.isfinite(word).all()
    assert_near(word.double().numpy(), exact, tolerance)
