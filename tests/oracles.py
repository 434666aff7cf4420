"""Slow second implementations, written from the papers' equations and not from the package: what the tests
compare with.

Two independent roads to the same relevance: Eq. (1), (3), (4), (5) of You et al. 2025 literally, on relevance
itself (rule by rule here, whole networks in `oracles_pre_norm.py`), and `modified_gradient`: automatic
differentiation of a forward pass with detached factors (Arras et al. 2025), epsilon 0. Weights are read where
the family's wiring says they are; no forward code is shared with the package.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tiny_models import ROBERTA_LIKE
from torch import Tensor

from lrp_companion.families import FAMILIES

# ------------------------------------------------------------------------------------------------------------
# (a) every rule on relevance itself, one contribution at a time
# ------------------------------------------------------------------------------------------------------------


def sign(value: float) -> float:
    """+1 or -1; the rules are undefined at an exact 0 with epsilon 0, and tests keep away from it."""
    return -1.0 if value < 0 else 1.0


def r_linear(
    relevance: np.ndarray, x: np.ndarray, weight: np.ndarray, bias: np.ndarray | float, eps: float
) -> np.ndarray:
    """Eq. (1) for z_j = sum_i x_i W_ji + b_j; x (in,), weight (out, in), relevance (out,)."""
    bias = np.broadcast_to(np.asarray(bias, dtype=float), weight.shape[:1])
    out = np.zeros_like(x)
    for j in range(weight.shape[0]):
        total = math.fsum([*(x[i] * weight[j, i] for i in range(len(x))), bias[j]])
        for i in range(len(x)):
            out[i] += x[i] * weight[j, i] / (total + eps * sign(total)) * relevance[j]
    return out


def r_add(relevance: np.ndarray, summands: Sequence[np.ndarray], eps: float) -> list[np.ndarray]:
    """Eq. (1) for a sum with unit weights."""
    total = np.sum(summands, axis=0)
    signs = np.vectorize(sign)(total)
    return [part / (total + eps * signs) * relevance for part in summands]


def r_matmul(
    relevance: np.ndarray, a: np.ndarray, b: np.ndarray, eps: float, bias: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Eq. (3a), (3b) for O = A V; Eq. (4a), (4b) for Z = Q K^T with b = K^T / sqrt(d), and a bias of Z."""
    bias = np.zeros((len(a), b.shape[1])) if bias is None else bias
    n, k = a.shape
    m = b.shape[1]
    r_a, r_b = np.zeros_like(a), np.zeros_like(b)
    for j, p in itertools.product(range(n), range(m)):
        total = math.fsum([bias[j, p], *(a[j, i] * b[i, p] for i in range(k))])
        for i in range(k):
            share = a[j, i] * b[i, p] / (2 * total + eps * sign(total)) * relevance[j, p]
            r_a[j, i] += share
            r_b[i, p] += share
    return r_a, r_b


def r_attention_values(relevance: np.ndarray, a: np.ndarray, v: np.ndarray, eps: float) -> np.ndarray:
    """CP-LRP (Ali et al. 2022): O = A V as a linear layer with weights A, Eq. (1); nothing reaches A."""
    columns = [r_linear(relevance[:, p], v[:, p], a, 0.0, eps) for p in range(v.shape[1])]
    return np.stack(columns, axis=1)


def r_softmax(relevance: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Eq. (5), row by row; relevance is that of A = softmax(Z). A key at -inf (padding) takes no part."""
    out = np.zeros_like(z)
    for j in range(z.shape[0]):
        seen = [i for i in range(z.shape[1]) if z[j, i] > -np.inf]
        top = max(z[j, i] for i in seen)
        norm = math.fsum(math.exp(z[j, i] - top) for i in seen)
        total = math.fsum(relevance[j, i] for i in seen)
        for i in seen:
            out[j, i] = z[j, i] * (relevance[j, i] - math.exp(z[j, i] - top) / norm * total)
    return out


def layer_norm_matrix(x: np.ndarray, gamma: np.ndarray, small: float) -> np.ndarray:
    """The matrix of LayerNorm without beta when its standard deviation is a constant: diag(gamma / sd) (I - 1
    1^T / n).
    """
    n = len(x)
    sd = math.sqrt(sum((value - x.mean()) ** 2 for value in x) / n + small)
    return np.diag(gamma / sd) @ (np.eye(n) - np.ones((n, n)) / n)


def r_layer_norm(
    relevance: np.ndarray, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, small: float, eps: float
) -> np.ndarray:
    """Eq. (1) on LayerNorm as a linear layer with bias beta; x (n,)."""
    return r_linear(relevance, x, layer_norm_matrix(x, gamma, small), beta, eps)


# ------------------------------------------------------------------------------------------------------------
# (a) once more, by rule: what test_rules.py walks. A new rule joins the tests of all rules here.
# ------------------------------------------------------------------------------------------------------------

Drawn = Callable[..., list[np.ndarray]]


@dataclass(frozen=True)
class Case:
    """One call of a rule and what it must give.

    `arguments` are those of the rule, in order; `expected` has, for each `g` that it returns, the activation
    and its relevance by the slow form. Where `g` is shared by several inputs, each is a pair of its own.
    """

    arguments: tuple[np.ndarray, ...]
    expected: tuple[tuple[tuple[np.ndarray, np.ndarray], ...], ...]


@dataclass(frozen=True)
class Replica:
    """The slow form of a rule: `case(draw, eps)`; `unbatched` counts the axes-free arguments by place."""

    case: Callable[[Drawn, float], Case]
    unbatched: tuple[int, ...]


REPLICAS: dict[str, Replica] = {}
"""The slow form of every rule, by the rule's name."""


def replicates(rule: str, *, unbatched: tuple[int, ...] = ()) -> Callable[[Any], Any]:
    """Register the slow form of a rule; arguments at the places `unbatched` have no axes in front."""

    def register(case: Callable[[Drawn, float], Case]) -> Callable[[Drawn, float], Case]:
        REPLICAS[rule] = Replica(case, unbatched)
        return case

    return register


@replicates("linear", unbatched=(1,))
def linear_case(draw: Drawn, eps: float) -> Case:
    x, w, b, g = draw((3,), (4, 3), (4,), (4,))
    z = w @ x + b
    return Case((g, w, z), (((x, r_linear(z * g, x, w, b, eps)),),))


@replicates("add")
def add_case(draw: Drawn, eps: float) -> Case:
    x, y, g = draw((4,), (4,), (4,))
    r_x, r_y = r_add((x + y) * g, (x, y), eps)
    return Case((g, x + y), (((x, r_x), (y, r_y)),))


@replicates("matmul")
def matmul_case(draw: Drawn, eps: float) -> Case:
    a, b, g = draw((3, 4), (4, 2), (3, 2))
    r_a, r_b = r_matmul(a @ b * g, a, b, eps)
    return Case((g, a, b, a @ b), (((a, r_a),), ((b, r_b),)))


@replicates("softmax")
def softmax_case(draw: Drawn, eps: float) -> Case:
    z, g = draw((3, 4), (3, 4))
    a = torch.softmax(torch.from_numpy(z), -1).numpy()
    return Case((g, a), (((z, r_softmax(a * g, z)),),))


@replicates("attention_values")
def attention_values_case(draw: Drawn, eps: float) -> Case:
    z, v, g = draw((3, 4), (4, 2), (3, 2))
    a = torch.softmax(torch.from_numpy(z), -1).numpy()
    return Case((g, a, a @ v), (((v, r_attention_values(a @ v * g, a, v, eps)),),))


@replicates("layer_norm", unbatched=(1,))
def layer_norm_case(draw: Drawn, eps: float) -> Case:
    small = 1e-5
    x, gamma, beta, g = draw((5,), (5,), (5,), (5,))
    sd = np.sqrt(x.var() + small)
    y = gamma * (x - x.mean()) / sd + beta
    return Case((g, gamma, np.array([sd]), y), (((x, r_layer_norm(y * g, x, gamma, beta, small, eps)),),))


@replicates("rms_norm", unbatched=(1,))
def rms_norm_case(draw: Drawn, eps: float) -> Case:
    x, gamma, g = draw((5,), (5,), (5,))
    rms = np.sqrt((x**2).mean() + 1e-5)
    y = gamma * x / rms
    r_x = r_linear(y * g, x, np.diag(gamma / rms), 0.0, eps)
    return Case((g, gamma, np.array([rms]), y), (((x, r_x),),))


@replicates("rotation")
def rotation_case(draw: Drawn, eps: float) -> Case:
    x, angle, g = draw((6,), (3,), (6,))
    cos, sin = np.tile(np.cos(angle), 2), np.tile(np.sin(angle), 2)
    matrix = np.zeros((6, 6))
    for k in range(3):  # the pair k, k + 3 is turned by its angle
        matrix[np.ix_((k, k + 3), (k, k + 3))] = [
            [np.cos(angle[k]), -np.sin(angle[k])],
            [np.sin(angle[k]), np.cos(angle[k])],
        ]
    y = matrix @ x
    return Case((g, cos, sin, y), (((x, r_linear(y * g, x, matrix, 0.0, eps)),),))


@replicates("rotation_factors")
def rotation_factors_case(draw: Drawn, eps: float) -> Case:
    x, cos, sin, g = draw((6,), (6,), (6,), (6,))
    turned = np.concatenate([-x[3:], x[:3]])
    y = x * cos + turned * sin
    r_straight, r_across = r_add(y * g, (x * cos, turned * sin), eps)

    def halves(relevance: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        pairs = [
            r_matmul(r.reshape(1, 1), p.reshape(1, 1), q.reshape(1, 1), eps)
            for r, p, q in zip(relevance, a, b, strict=True)
        ]
        first, second = (np.array([pair[side].item() for pair in pairs]) for side in (0, 1))
        return first, second

    r_x, r_cos = halves(r_straight, x, cos)
    r_turned, r_sin = halves(r_across, turned, sin)
    r_x = r_x + np.concatenate([r_turned[3:], r_turned[:3]])  # what stands at -x_k and at x_k is that of x_k
    return Case((g, x, cos, sin, y), (((x, r_x),), ((cos, r_cos),), ((sin, r_sin),)))


@replicates("gated")
def gated_case(draw: Drawn, eps: float) -> Case:
    a, u, g = draw((5,), (5,), (5,))
    h = a * u
    # Eq. (3) for a product of one row and one column each
    pairs = [r_matmul(np.array([[h[k] * g[k]]]), a[k, None, None], u[k, None, None], eps) for k in range(5)]
    r_a, r_u = (np.array([pair[side].item() for pair in pairs]) for side in (0, 1))
    return Case((g, a, u, h), (((a, r_a),), ((u, r_u),)))


@replicates("gated_from_the_right")
def gated_right_case(draw: Drawn, eps: float) -> Case:
    z, u, g = draw((5,), (5,), (5,))
    sigma = 1 / (1 + np.exp(-z))
    p = sigma * u
    h = z * p
    r_z, r_u = np.zeros(5), np.zeros(5)
    for k in range(5):  # Eq. (3) for z times p, then for sigma times u; sigma's part is z's
        outer = r_matmul(np.array([[h[k] * g[k]]]), z[k, None, None], p[k, None, None], eps)
        inner = r_matmul(outer[1], sigma[k, None, None], u[k, None, None], eps)
        r_z[k], r_u[k] = (outer[0] + inner[0]).item(), inner[1].item()
    return Case((g, z * sigma, u, h, p), (((z * sigma, r_z),), ((u, r_u),)))


@replicates("gated_flat")
def gated_flat_case(draw: Drawn, eps: float) -> Case:
    z, u, g = draw((5,), (5,), (5,))
    sigma = 1 / (1 + np.exp(-z))
    h = z * sigma * u
    each = h / (3 * h + eps * np.where(h < 0, -1.0, 1.0)) * h * g  # Eq. (3) for three factors
    return Case((g, z * sigma, u, h), (((z * sigma, 2 * each),), ((u, each),)))


@replicates("gated_values")
def gated_values_case(draw: Drawn, eps: float) -> Case:
    a, u, g = draw((5,), (5,), (5,))
    return Case((g, a, a * u), (((u, r_linear(a * u * g, u, np.diag(a), 0.0, eps)),),))


@replicates("elementwise")
def elementwise_case(draw: Drawn, eps: float) -> Case:
    z, g = draw((5,), (5,))
    y = np.tanh(z)
    return Case((g, y / z), (((z, y * g),),))


# ------------------------------------------------------------------------------------------------------------
# The weights of a BERT-family classifier, where its wiring says they are
# ------------------------------------------------------------------------------------------------------------

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Block:
    """One post-LayerNorm encoder layer: (weight, bias) of each step."""

    query: Pair
    key: Pair
    value: Pair
    output: Pair
    norm: Pair
    inner: Pair
    outer: Pair
    final_norm: Pair


@dataclass(frozen=True)
class Weights:
    """A whole classifier."""

    word: Tensor
    position: Tensor
    type: Tensor | None
    norm: Pair
    project: Pair | None
    blocks: tuple[Block, ...]
    pooler: Pair
    classifier: Pair
    heads: int
    small: float
    activation: str
    pooled_activation: str
    first_position: int
    by_distance: Tensor | None

    def bias(self, length: int) -> Tensor:
        return bias_by_distance(self.by_distance, self.heads, length)


def bias_by_distance(table: Tensor | None, heads: int, length: int) -> Tensor:
    """What is added to the scores, (H, T, T): by how far a key is before or after its query."""
    if table is None:
        return torch.zeros(heads, length, length, dtype=torch.float64)
    rows = [[_distance_class(i - j) for j in range(length)] for i in range(length)]
    return table[torch.tensor(rows)].permute(2, 0, 1)


def _distance_class(before: int) -> int:
    """MPNet's class of a key this far before its query: 16 for each side, of one distance each up to 7, then
    of ranges that grow to 128 in equal steps of the logarithm.
    """
    far = abs(before)
    late = far if far < 8 else min(15, 8 + int(8 * math.log(far / 8) / math.log(16)))
    return late + 16 * (before < 0)


def weights_of(model: torch.nn.Module) -> Weights:
    """Read a Hugging Face sequence classifier's weights in float64, where its family's wiring says they are.

    That the wiring names the right modules is tested apart, on the logits.
    """
    wiring = FAMILIES[model.config.model_type](model)  # type: ignore[union-attr]
    (pooler, pooled_activation), (classifier, _) = wiring.head

    def pair(module: Any) -> Pair:
        return module.weight.detach().double(), module.bias.detach().double()

    def table(module: Any) -> Tensor:
        return module.weight.detach().double()

    steps = {
        "query": "query",
        "key": "key",
        "value": "value",
        "output": "attention_out",
        "norm": "attention_norm",
        "inner": "up",
        "outer": "down",
        "final_norm": "output_norm",
    }
    return Weights(
        word=table(wiring.word),
        position=table(wiring.position),
        type=None if wiring.type is None else table(wiring.type),
        norm=pair(wiring.embedding_norm),
        project=None if wiring.projection is None else pair(wiring.projection),
        blocks=tuple(
            Block(**{step: pair(getattr(layer, name)) for step, name in steps.items()})
            for layer in wiring.layers
        ),
        pooler=pair(pooler),
        classifier=pair(classifier),
        heads=wiring.heads,
        small=wiring.embedding_norm.eps,
        activation=_name_of(wiring.layers[0].activation),
        pooled_activation=_name_of(pooled_activation),
        first_position=wiring.first_position,
        by_distance=None if wiring.score_bias is None else table(wiring.score_bias.table),
    )


def _name_of(activation: Callable[[Tensor], Tensor]) -> str:
    """The activation function of this file that gives the same values."""
    z = torch.linspace(-3, 3, 25, dtype=torch.float64)
    known = _TORCH_PHI.items()
    (name,) = (name for name, phi in known if torch.allclose(phi(z), activation(z), rtol=0, atol=1e-9))
    return name


# ------------------------------------------------------------------------------------------------------------
# (b) the whole encoder as the gradient of a modified network
# ------------------------------------------------------------------------------------------------------------

_TORCH_PHI: Mapping[str, Callable[[Tensor], Tensor]] = {
    "gelu": torch.nn.functional.gelu,
    "relu": torch.relu,
    "tanh": torch.tanh,
}


def _identity_rule(phi: str, z: Tensor) -> Tensor:
    """phi(z) as z times a constant; tests keep away from z = 0."""
    return z * (_TORCH_PHI[phi](z) / z).detach()


def embed(weights: Weights, input_ids: Sequence[int]) -> dict[str, Tensor]:
    """The summands of the embedding of one text, each (T, E)."""
    ids = torch.as_tensor(list(input_ids))
    parts = {
        "word": weights.word[ids],
        "position": weights.position[weights.first_position : weights.first_position + len(ids)],
    }
    if weights.type is not None:
        parts["type"] = weights.type[:1].expand(len(ids), -1)
    return parts


def forward(
    weights: Weights,
    parts: Mapping[str, Tensor],
    *,
    amounts: Sequence[float] | None = None,
    plain: bool = False,
    cut: Mapping[str, Sequence[bool]] | None = None,
    shares: Sequence[Sequence[float]] = ((0.5, 0.5), (0.5, 0.5)),
) -> tuple[Tensor, list[Tensor]]:
    """Logits (C,) and attention maps (H, T, T) by layer of one text, with the detached factors that make its
    gradient relevance.

    `amounts[l]` is 0 for AttnLRP's layer, 1 for CP-LRP's, or any number between (a half-open layer).
    `plain=True` leaves the network as it is, with its true gradient. Queries, keys or values of the tokens
    that are `cut` are constants. `shares`: of A and V in `A V`, then of Q and K in `Q K^T`.
    """
    ends = {name: torch.as_tensor(tokens)[:, None] for name, tokens in (cut or {}).items()}

    def held(name: str, x: Tensor) -> Tensor:
        return torch.where(ends[name], x.detach(), x) if name in ends else x

    amounts = [0.0] * len(weights.blocks) if amounts is None else list(amounts)

    def linear(x: Tensor, pair: Pair) -> Tensor:
        return x @ pair[0].T + pair[1]

    def norm(x: Tensor, pair: Pair) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        sd = (centred.square().mean(-1, keepdim=True) + weights.small).sqrt()
        return pair[0] * centred / (sd if plain else sd.detach()) + pair[1]

    def phi(name: str, z: Tensor) -> Tensor:
        return _TORCH_PHI[name](z) if plain else _identity_rule(name, z)

    def share(x: Tensor, amount: float) -> Tensor:
        """The same value with a share of the gradient."""
        return x if plain else amount * x + ((1 - amount) * x).detach()

    (to_a, to_v), (to_q, to_k) = shares
    x = norm(torch.stack(list(parts.values())).sum(0), weights.norm)
    if weights.project is not None:
        x = linear(x, weights.project)
    maps = []
    for block, amount in zip(weights.blocks, amounts, strict=True):
        q, k, v = (
            held(name, linear(x, getattr(block, name))).unflatten(-1, (weights.heads, -1)).transpose(0, 1)
            for name in ("query", "key", "value")
        )
        scores = share(q, to_q) @ share(k, to_k).mT / q.shape[-1] ** 0.5
        a = torch.softmax(scores + weights.bias(len(x)), -1)
        maps.append(a.detach())
        both = share(a, to_a) @ share(v, to_v)  # AttnLRP
        values = a.detach() @ v  # CP-LRP
        o = ((1 - amount) * both + amount * values).transpose(0, 1).flatten(1)
        x = norm(linear(o, block.output) + x, block.norm)
        x = norm(linear(phi(weights.activation, linear(x, block.inner)), block.outer) + x, block.final_norm)
    logits = linear(phi(weights.pooled_activation, linear(x[:1], weights.pooler)), weights.classifier)[0]
    return logits, maps


def modified_gradient(
    weights: Weights,
    input_ids: Sequence[int],
    start: Sequence[float],
    *,
    amounts: Sequence[float] | None = None,
    plain: bool = False,
    cut: Mapping[str, Sequence[bool]] | None = None,
    shares: Sequence[Sequence[float]] = ((0.5, 0.5), (0.5, 0.5)),
) -> tuple[Tensor, dict[str, Tensor]]:
    """Logits and relevance (T,) of each part of a text's embedding, epsilon 0. `plain`: input x gradient."""
    parts = {name: value.clone().requires_grad_() for name, value in embed(weights, input_ids).items()}
    logits, _ = forward(weights, parts, amounts=amounts, plain=plain, cut=cut, shares=shares)
    gradients = torch.autograd.grad(
        logits @ torch.as_tensor(start, dtype=torch.float64), list(parts.values())
    )
    return logits.detach(), {
        name: (value * gradient).sum(-1).detach()
        for (name, value), gradient in zip(parts.items(), gradients, strict=True)
    }


def integrated_gradients(
    weights: Weights, input_ids: Sequence[int], baseline: Tensor, target: int, steps: int
) -> np.ndarray:
    """Integrated gradients (Sundararajan et al. 2017) over the word embeddings by the midpoint rule; baseline
    (T, E) or broadcastable.
    """
    parts = embed(weights, input_ids)
    total = torch.zeros_like(parts["word"])
    for step in range(steps):
        point = (baseline + (step + 0.5) / steps * (parts["word"] - baseline)).requires_grad_()
        logits, _ = forward(weights, {**parts, "word": point}, plain=True)
        total += torch.autograd.grad(logits[target], point)[0]
    return ((parts["word"] - baseline) * total / steps).sum(-1).numpy()


# ------------------------------------------------------------------------------------------------------------
# (c) leave-one-out and (d) rollout, one forward pass at a time
# ------------------------------------------------------------------------------------------------------------


def leave_one_out(
    model: torch.nn.Module, input_ids: Sequence[int], target: int, removal: str, *, mask_id: int, pad_id: int
) -> np.ndarray:
    """f(x) - f(x without token i), one unpadded call of the Hugging Face model per token.

    Positions are given, since RoBERTa would renumber them around a [PAD] among the words: a replaced word
    keeps its place.
    """
    first = pad_id + 1 if model.config.model_type in ROBERTA_LIKE else 0  # type: ignore[union-attr]

    def logit(ids: Sequence[int], keep: Sequence[int]) -> float:
        places = torch.arange(first, first + len(ids))[None]
        with torch.no_grad():
            return float(
                model(
                    input_ids=torch.tensor([list(ids)]),
                    attention_mask=torch.tensor([list(keep)]),
                    position_ids=places,
                ).logits[0, target]
            )

    ids = list(input_ids)
    ones = [1] * len(ids)
    whole = logit(ids, ones)
    scores = []
    for i in range(len(ids)):
        if removal == "attention-mask":
            scores.append(whole - logit(ids, [*ones[:i], 0, *ones[i + 1 :]]))
        elif removal == "delete":
            scores.append(whole - logit([*ids[:i], *ids[i + 1 :]], ones[1:]))
        else:
            stand_in = {"mask-token": mask_id, "pad-token": pad_id}[removal]
            scores.append(whole - logit([*ids[:i], stand_in, *ids[i + 1 :]], ones))
    return np.array(scores)


def rollout(
    maps: Sequence[np.ndarray],
    *,
    residual: bool = False,
    row: int = 0,
    fusion: Callable[..., np.ndarray] = np.mean,
) -> np.ndarray:
    """Attention rollout (Abnar and Zuidema 2020): the product of the layers' maps (H, T, T), heads fused and
    rows summing to one.

    `residual` averages each map with the identity.
    """
    length = maps[0].shape[-1]
    product = np.eye(length)
    for attention in maps:
        fused = fusion(attention, axis=0)
        fused = fused / fused.sum(-1, keepdims=True)
        if residual:
            fused = (fused + np.eye(length)) / 2
        fresh = np.zeros((length, length))
        for i, j, k in itertools.product(range(length), repeat=3):
            fresh[i, j] += fused[i, k] * product[k, j]
        product = fresh
    return product[row]
