"""Slow second implementations: two independent roads to the same relevance.

* `modified_gradient`: the `transformers` network itself, its own order and its own modules, with detached
  factors (attention through transformers' registry of attention functions, norms and activations replaced on
  a copy): epsilon 0;
* `relevance_r_form`: Eq. (1), (3), (4), (5) literally on relevance, contribution by contribution, in NumPy,
  any epsilon and family.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from oracles import (
    bias_by_distance,
    r_add,
    r_attention_values,
    r_layer_norm,
    r_linear,
    r_matmul,
    r_softmax,
    sign,
)
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.activations import ACT2FN
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask

from lrp_companion.families.wiring import LayerWiring, Wiring
from lrp_companion.loading.classifier import Classifier

# ------------------------------------------------------------------------------------------------------------
# (a) the transformers network with detached factors
# ------------------------------------------------------------------------------------------------------------


def _share(x: Tensor, share: float) -> Tensor:
    """The same numbers, of whose gradient this share is left."""
    return share * x + ((1 - share) * x).detach()


def _half(x: Tensor) -> Tensor:
    return _share(x, 0.5)


VALUE_SHARES = {"uniform": 1 / 2, "right": 1 / 4, "flat": 1 / 3, "constant": 1.0}
"""What of a gated product's relevance goes to the factor that is no gate: z sigma u, grouped."""


def _attention(bypass: Collection[int]) -> Any:
    """An attention function for transformers' registry, as AttnLRP or (in these layers) CP-LRP treat it."""

    def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **options: Any) -> Any:
        repeat = query.shape[1] // key.shape[1]
        key, value = (x.repeat_interleave(repeat, dim=1) for x in (key, value))
        scores = _half(query) @ _half(key).mT * options.get("scaling", query.shape[-1] ** -0.5)
        if options.get("softcap") is not None:
            cap = options["softcap"]
            scores = scores * (cap * (scores / cap).tanh() / scores).detach()
        if mask is not None:
            scores = scores + mask
        a = scores.softmax(-1)
        bypassed = module.layer_idx + 1 in bypass
        read = a.detach() @ value if bypassed else _half(a) @ _half(value)
        return read.transpose(1, 2).contiguous(), a

    return attend


def _disentangled(module: Any, *, bypassed: bool, cut: Tensor | None) -> Any:
    """DeBERTa's attention on the content alone; positions are constants, and keys of the tokens `cut`."""

    def heads(y: Tensor) -> Tensor:
        return y.unflatten(-1, (module.num_attention_heads, -1)).transpose(-2, -3)

    def forward(x: Tensor, mask: Tensor, _: Any = False, **given: Any) -> Any:
        q, k, v = (heads(part(x)) for part in (module.query_proj, module.key_proj, module.value_proj))
        k = k if cut is None else torch.where(cut[:, None], k.detach(), k)
        before = "" if module.share_att_key else "pos_"
        table, span = given["rel_embeddings"], module.pos_ebd_size
        d = (given["relative_pos"][0] + span).clamp(0, 2 * span - 1)
        scores, kinds = _half(q) @ _half(k).mT, 1 + len(module.pos_att_type)
        if "c2p" in module.pos_att_type:
            there = heads(getattr(module, f"{before}key_proj")(table)).detach()[:, d]
            scores = scores + torch.einsum("bhjx,hjix->bhji", _half(q), there)
        if "p2c" in module.pos_att_type:
            there = heads(getattr(module, f"{before}query_proj")(table)).detach()[:, d]
            scores = scores + torch.einsum("bhix,hjix->bhji", _half(k), there)
        a = (scores / float(torch.sqrt(torch.tensor(q.shape[-1]).float() * kinds))).softmax(-1)
        read = a.detach() @ v if bypassed else _half(a) @ _half(v)
        return read.transpose(1, 2).flatten(2), None

    return forward


def _sloped(phi: Any) -> Any:
    return lambda z: z * (phi(z) / z).detach()


def _convolution(module: Any) -> Any:
    def forward(x: Tensor, residual: Tensor, mask: Tensor) -> Tensor:
        out = module.conv(x.transpose(1, 2)).transpose(1, 2)
        return module.LayerNorm(residual + _sloped(ACT2FN[module.conv_act])(out))

    return forward


def _replaced(
    network: nn.Module, *, gate: str, bypass: Collection[int] = (), cut: Tensor | None = None
) -> nn.Module:
    """A copy whose norms divide by constants, whose activations are multiples of their input, and whose gated
    MLPs give each factor half, or all to the one that is no gate.
    """
    out = copy.deepcopy(network)
    for name, module in out.named_modules():
        kind = type(module).__name__
        if kind == "DisentangledSelfAttention":
            module.forward = _disentangled(module, bypassed=int(name.split(".")[3]) + 1 in bypass, cut=cut)
        elif kind == "ConvLayer":
            module.forward = _convolution(module)
        elif kind == "ContextPooler":
            phi = _sloped(ACT2FN[module.config.pooler_hidden_act])
            module.forward = lambda x, dense=module.dense, phi=phi: phi(dense(x[:, 0]))
        elif isinstance(module, nn.LayerNorm):
            module.forward = _layer_norm(module)
        elif kind.endswith("RMSNorm"):
            module.forward = _rms_norm(module, 1.0 if kind.startswith("Gemma") else 0.0)
        elif name.endswith((".act", "act_fn", ".activation_fn", ".pooler.activation")):
            parent: Any = out.get_submodule(name.rpartition(".")[0])
            joint = getattr(parent, "Wi", None) or getattr(parent, "gate_up_proj", None)
            gated = hasattr(parent, "gate_proj") or joint is not None
            module.forward = _activation(module.forward, gate if gated else "none")
            if gated and gate != "constant":
                hook = _thinned(VALUE_SHARES[gate], second_half=joint is not None)
                (parent.up_proj if joint is None else joint).register_forward_hook(hook)
    return out


def _thinned(share: float, *, second_half: bool) -> Any:
    def hook(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        if not second_half:
            return _share(output, share)
        first, second = output.chunk(2, dim=-1)
        return torch.cat([first, _share(second, share)], dim=-1)

    return hook


def _activation(phi: Any, gate: str) -> Any:
    def forward(z: Tensor) -> Tensor:
        sigma = (phi(z) / z).detach()
        if gate == "none":
            return z * sigma
        return _share(z * sigma, 1 - VALUE_SHARES[gate])

    return forward


def _layer_norm(module: nn.LayerNorm) -> Any:
    def forward(x: Tensor) -> Tensor:
        sd = (x.var(-1, unbiased=False, keepdim=True) + module.eps).sqrt().detach()
        y = (x - x.mean(-1, keepdim=True)) / sd * module.weight
        return y if module.bias is None else y + module.bias

    return forward


def _rms_norm(module: Any, offset: float) -> Any:
    small = getattr(module, "variance_epsilon", None) or module.eps

    def forward(x: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + small).sqrt().detach() * (module.weight + offset)

    return forward


def modified_gradient(
    network: Any,
    ids: list[int],
    target: int,
    *,
    bypass: Collection[int] = (),
    gate: str = "uniform",
    cut: Tensor | None = None,
    linear: Any = None,
) -> tuple[float, np.ndarray]:
    """The target's logit and the relevance (T,) of the word embeddings, epsilon 0; `linear(x, weight, bias)`
    in place of every linear map.
    """
    AttentionInterface.register("modified", _attention(bypass))
    ALL_MASK_ATTENTION_FUNCTIONS.register("modified", eager_mask)
    twin = _replaced(network, gate=gate, bypass=bypass, cut=cut)
    for module in twin.modules() if linear else ():
        if isinstance(module, nn.Linear):
            module.forward = lambda x, module=module: linear(x, module.weight, module.bias)
    twin.set_attn_implementation("modified")
    batch = torch.tensor([ids])
    word = twin.get_input_embeddings()(batch).detach().requires_grad_(True)
    logits = twin(inputs_embeds=word, attention_mask=torch.ones_like(batch)).logits
    logit = logits[0, target] if logits.ndim == 2 else logits[0, -1, target]
    (g,) = torch.autograd.grad(logit, word)
    return float(logit.detach()), (word * g).sum(-1)[0].detach().numpy()


def modified_gradient_of_image(
    network: Any, pixels: Tensor, target: int, *, bypass: Collection[int] = ()
) -> tuple[float, dict[str, np.ndarray]]:
    """The target's logit and the relevance (T,) of patches and positions of one image (C, H, W), epsilon 0.

    The leaf is the sum of the embeddings, as the network's own module makes it.
    """
    AttentionInterface.register("modified", _attention(bypass))
    ALL_MASK_ATTENTION_FUNCTIONS.register("modified", eager_mask)
    twin = _replaced(network, gate="uniform")
    twin.set_attn_implementation("modified")
    base: Any = twin.base_model
    for k, layer in enumerate(base.layers):
        layer.attention.layer_idx = k
    sums: list[Tensor] = []

    def as_leaf(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        sums.append(output.detach().requires_grad_(True))
        return sums[-1]

    base.embeddings.register_forward_hook(as_leaf)
    logit = twin(pixel_values=pixels[None]).logits[0, target]
    (g,) = torch.autograd.grad(logit, sums)
    position = base.embeddings.position_embeddings.detach()
    parts = {"word": sums[0].detach() - position, "position": position}
    return float(logit.detach()), {name: (part * g).sum(-1)[0].numpy() for name, part in parts.items()}


def mask_slopes(clf: Classifier, given: Any, target: int) -> np.ndarray:
    """Central differences of the target's logit in the weight of each token, at the whole input."""
    ids, ones, _ = clf.batch(clf.encode(given))
    around = [1 + sign * 1e-5 * torch.eye(ones.shape[1], dtype=torch.float64) for sign in (1, -1)]
    with torch.no_grad():
        up, down = (
            [clf.encoder.forward(ids, ones, keep=w[None]).logits[0, target].item() for w in keeps]
            for keeps in around
        )
    return np.subtract(up, down) / 2e-5


def positions_as_leaves(
    network: Any, ids: list[int], target: int, *, absolute: bool
) -> tuple[np.ndarray, np.ndarray]:
    """PA-LRP where positions are rotations, epsilon 0: relevance (T,) of words and of positions.

    Every layer gets cosines and sines of its own, as leaves; of each product half goes to the query or key.
    """
    AttentionInterface.register("modified", _attention(()))
    ALL_MASK_ATTENTION_FUNCTIONS.register("modified", eager_mask)
    twin = _replaced(network, gate="uniform")
    twin.set_attn_implementation("modified")
    leaves: list[Tensor] = []

    def own_positions(module: nn.Module, inputs: Any, options: dict[str, Any]) -> Any:
        tables = [table.detach().clone().requires_grad_(True) for table in options["position_embeddings"]]
        leaves.extend(tables)
        return inputs, options | {"position_embeddings": tuple(_half(table) for table in tables)}

    for name, module in twin.named_modules():
        if name.endswith((".self_attn", ".attn", "s.0.attention", "s.1.attention", "s.2.attention")):
            module.register_forward_pre_hook(own_positions, with_kwargs=True)
        if name.endswith((".q_proj", ".k_proj")):
            module.register_forward_hook(_thinned(0.5, second_half=False))
        if name.endswith(".Wqkv"):
            module.register_forward_hook(_halved_but_values)
        if name.endswith((".query_key_value", ".qkv_proj")):
            module.register_forward_hook(_halved_where_turned(network.config))
    batch = torch.tensor([ids])
    word = twin.get_input_embeddings()(batch).detach().requires_grad_(True)
    logits = twin(inputs_embeds=word, attention_mask=torch.ones_like(batch)).logits
    g, *of_leaves = torch.autograd.grad(logits[0, target], [word, *leaves])
    tables = [(leaf * g_leaf).sum((0, -1)) for leaf, g_leaf in zip(leaves, of_leaves, strict=True)]
    position = torch.stack([table.abs() if absolute else table for table in tables]).sum(0)
    return (word * g).sum(-1)[0].detach().numpy(), position.detach().numpy()


def _halved_but_values(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    query, key, value = output.chunk(3, dim=-1)
    return torch.cat([_half(query), _half(key), value], dim=-1)


def _halved_where_turned(config: Any) -> Any:
    """Of one map for all: GPT-NeoX's has query, key and value head by head, Phi-3's all queries first."""
    heads = config.num_attention_heads
    width = config.hidden_size // heads
    turned = torch.arange(width) < int(width * config.rope_parameters["partial_rotary_factor"])
    shared = getattr(config, "num_key_value_heads", None)
    values = torch.arange(3 * heads) % 3 == 2
    if shared is not None:
        values = torch.arange(heads + 2 * shared) >= heads + shared

    def hook(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        y = output.unflatten(-1, (-1, width))
        return torch.where(~values[:, None] & turned, _half(y), y).flatten(-2)

    return hook


# ------------------------------------------------------------------------------------------------------------
# (b) Eq. (1) to (5) on relevance, one text
# ------------------------------------------------------------------------------------------------------------


def _array(x: Tensor | None) -> np.ndarray:
    return np.zeros(()) if x is None else x.detach().double().numpy()


class _Linear:
    """`z = x W^T + b`, tokens in rows."""

    def __init__(self, module: Any, x: np.ndarray) -> None:
        self.x, self.weight, self.bias = x, _array(module.weight), _array(module.bias)
        self.y = x @ self.weight.T + self.bias

    def back(self, relevance: np.ndarray, eps: float) -> np.ndarray:
        pairs = zip(relevance, self.x, strict=True)
        return np.stack([r_linear(r, x, self.weight, self.bias, eps) for r, x in pairs])


class _Norm:
    """LayerNorm or RMSNorm over the last axis, or nothing."""

    def __init__(self, module: Any, x: np.ndarray) -> None:
        self.module, self.x = module, x
        self.y = x if module is None else module(torch.from_numpy(x)).detach().numpy()

    def back(self, relevance: np.ndarray, eps: float) -> np.ndarray:
        if self.module is None:
            return relevance
        rows = zip(relevance.reshape(-1, self.x.shape[-1]), self.x.reshape(-1, self.x.shape[-1]), strict=True)
        gamma = _array(self.module.weight)
        if isinstance(self.module, nn.LayerNorm):
            beta = np.broadcast_to(_array(self.module.bias), gamma.shape)
            out = [r_layer_norm(r, x, gamma, beta, self.module.eps, eps) for r, x in rows]
        else:
            out = []
            for r, x in rows:
                rms = np.sqrt((x**2).mean() + self.module.eps)
                out.append(r_linear(r, x, np.diag(gamma / rms), 0.0, eps))
        return np.stack(out).reshape(self.x.shape)


def _through(phi: Any, z: np.ndarray) -> np.ndarray:
    return phi(torch.from_numpy(z)).detach().numpy()


def _turning(cos: np.ndarray, sin: np.ndarray, width: int) -> np.ndarray:
    """The matrix of a rotation of one position, which leaves what is beyond the angles."""
    half = len(cos) // 2
    turn = np.zeros((len(cos), len(cos)))
    turn[np.arange(half), np.arange(half) + half] = -1
    turn[np.arange(half) + half, np.arange(half)] = 1
    out = np.eye(width)
    out[: 2 * half, : 2 * half] = np.diag(cos) + np.diag(sin) @ turn
    return out


class _Side:
    """Queries or keys of one head."""

    def __init__(self, norm: Any, x: np.ndarray, angles: Any) -> None:
        self.norm = _Norm(norm, x)
        y = self.norm.y
        self.matrices = None
        if angles is not None:
            self.turned = angles[0].shape[-1]
            self.matrices = [_turning(c, s, y.shape[1]) for c, s in zip(*angles, strict=True)]
        if self.matrices is not None:
            y = np.stack([m @ row for m, row in zip(self.matrices, y, strict=True)])
        self.y = y

    def back(self, relevance: np.ndarray, eps: float) -> np.ndarray:
        if self.matrices is not None:
            rows, k = zip(relevance, self.norm.y, self.matrices, strict=True), self.turned
            back = [np.append(r_linear(r[:k], x[:k], m[:k, :k], 0.0, eps), r[k:]) for r, x, m in rows]
            relevance = np.stack(back)
        return self.norm.back(relevance, eps)


def _row_of(distance: int, config: Any) -> int:
    """DeBERTa's row for a distance: each up to half the buckets has one, further ones share by logarithm."""
    most = (
        config.max_relative_positions if config.max_relative_positions > 0 else config.max_position_embeddings
    )
    buckets = getattr(config, "position_buckets", -1)
    middle, far, span = buckets // 2, abs(distance), buckets if buckets > 0 else most
    if buckets > 0 and far > middle:
        steps = math.ceil(math.log(far / middle) / math.log((most - 1) / middle) * (middle - 1)) + middle
        distance = steps if distance > 0 else -steps
    return min(max(distance + span, 0), 2 * span - 1)


class _Positions:
    """One head's products of content with positions, scaled: contributions (T, T, d) to each score."""

    def __init__(self, w: LayerWiring, s: slice, query: np.ndarray, key: np.ndarray, config: Any) -> None:
        assert w.relative is not None
        r, none = w.relative, np.zeros((1, 1, query.shape[1]))
        table, places = _Norm(r.norm, _array(r.table.weight)).y, range(len(query))
        rows = [[_row_of(j - i, config) for i in places] for j in places]
        scale = w.scale_of(query.shape[1])
        as_key, as_query = (
            none if part is None else _Linear(part, table).y[:, s][rows] for part in (r.key, r.query)
        )
        self.to_position = scale * query[:, None] * as_key
        self.to_content = scale * key[None] * as_query
        self.scores = (self.to_position + self.to_content).sum(-1)

    def back(self, relevance: np.ndarray, z: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
        """Eq. (4) for each product: half of it is the content's; relevance of queries and of keys."""
        half = (relevance / (2 * z + eps * np.vectorize(sign)(z)))[:, :, None]
        return (half * self.to_position).sum(1), (half * self.to_content).sum(0)


class _Convolved:
    """DeBERTa's convolution of a layer's input e, added to its output x."""

    def __init__(self, convolution: Any, e: np.ndarray, x: np.ndarray) -> None:
        weight, side = _array(convolution.module.weight), convolution.module.kernel_size[0] // 2
        self.e, self.x, tokens = e, x, len(e)
        self.weight = np.zeros((tokens, weight.shape[0], tokens, e.shape[1]))
        for t, k in np.ndindex(tokens, 2 * side + 1):
            if 0 <= t + k - side < tokens:
                self.weight[t, :, t + k - side] = weight[:, :, k]
        self.weight = self.weight.reshape(x.size, e.size)
        self.bias = np.tile(_array(convolution.module.bias), tokens)
        self.active = _through(convolution.activation, self.weight @ e.ravel() + self.bias).reshape(x.shape)
        self.after = _Norm(convolution.norm, x + self.active)
        self.y = self.after.y

    def back(self, relevance: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
        """Relevance of x and of e; the identity at the activation."""
        at_x, branch = r_add(self.after.back(relevance, eps), (self.x, self.active), eps)
        return at_x, r_linear(branch.ravel(), self.e.ravel(), self.weight, self.bias, eps).reshape(
            self.e.shape
        )


class _Layer:
    """One layer of one text: forward in the order of its wiring, and relevance back."""

    def __init__(
        self,
        w: LayerWiring,
        x: np.ndarray,
        angles: Any,
        closed: np.ndarray,
        biases: np.ndarray,
        config: Any = None,
    ) -> None:
        self.w, self.x, heads = w, x, len(biases)
        self.before = _Norm(w.attention_input_norm, x)
        self.q, self.k, self.v = (_Linear(m, self.before.y) for m in (w.query, w.key, w.value))
        width, shared = self.q.y.shape[1] // heads, heads // (w.key_heads or heads)
        self.heads = []
        for h in range(heads):
            s, t = (slice(k * width, (k + 1) * width) for k in (h, h // shared))
            query, key = (
                _Side(w.query_norm, self.q.y[:, s], angles),
                _Side(w.key_norm, self.k.y[:, t], angles),
            )
            raw = query.y @ key.y.T * w.scale_of(width)
            positions = None if w.relative is None else _Positions(w, s, query.y, key.y, config)
            bias = biases[h] if positions is None else positions.scores
            raw = raw + bias
            z = raw if w.cap is None else w.cap * np.tanh(raw / w.cap)
            z = np.where(closed, -np.inf, z)
            a = np.exp(z - z.max(1, keepdims=True))
            self.heads.append((s, t, query, key, positions, bias, raw, z, a / a.sum(1, keepdims=True)))
        self.read = np.concatenate([a @ self.v.y[:, t] for _, t, *_, a in self.heads], axis=1)
        self.out = _Linear(w.attention_out, self.read)
        self.first_branch = _Norm(w.attention_branch_norm, self.out.y)
        self.middle = _Norm(w.attention_norm, x + self.first_branch.y)
        self.into = _Norm(w.mlp_input_norm, x if w.parallel else self.middle.y)
        self.up = _Linear(w.up, self.into.y)
        self.gate = None if w.gate is None else _Linear(w.gate, self.into.y)
        self.active = _through(w.activation, self.up.y if self.gate is None else self.gate.y)
        self.inner = self.active if self.gate is None else self.active * self.up.y
        self.down = _Linear(w.down, self.inner)
        self.second_branch = _Norm(w.mlp_branch_norm, self.down.y)
        self.after = _Norm(w.output_norm, self.middle.y + self.second_branch.y)
        self.beside = None if w.convolution is None else _Convolved(w.convolution, x, self.after.y)
        self.y = self.after.y if self.beside is None else self.beside.y

    def back(self, relevance: np.ndarray, *, bypass: bool, gate: str, eps: float, cut: Any) -> np.ndarray:
        self.cut, beside = cut, 0.0
        if self.beside is not None:
            relevance, beside = self.beside.back(relevance, eps)
        relevance = self.after.back(relevance, eps)
        if self.w.parallel:  # one sum of three
            branch, other, around = r_add(relevance, (self.second_branch.y, self.first_branch.y, self.x), eps)
            around = around + self.into.back(self._mlp(self.down.back(branch, eps), gate, eps), eps)
            return around + self.before.back(self._attention(self.out.back(other, eps), bypass, eps), eps)
        branch, around = r_add(relevance, (self.second_branch.y, self.middle.y), eps)
        branch = self.down.back(self.second_branch.back(branch, eps), eps)
        middle = around + self.into.back(self._mlp(branch, gate, eps), eps)
        middle = self.middle.back(middle, eps)
        branch, around = r_add(middle, (self.first_branch.y, self.x), eps)
        branch = self.out.back(self.first_branch.back(branch, eps), eps)
        return beside + around + self.before.back(self._attention(branch, bypass, eps), eps)

    def _mlp(self, relevance: np.ndarray, gate: str, eps: float) -> np.ndarray:
        if self.gate is None:
            return self.up.back(relevance, eps)  # the identity at the activation
        signs = np.vectorize(sign)(self.inner)
        if gate == "constant":
            return self.up.back(self.inner / (self.inner + eps * signs) * relevance, eps)
        if gate == "flat":
            third = self.inner / (3 * self.inner + eps * signs) * relevance
            return self.up.back(third, eps) + self.gate.back(2 * third, eps)
        half = self.inner / (2 * self.inner + eps * signs) * relevance
        if gate == "uniform":
            return self.up.back(half, eps) + self.gate.back(half, eps)
        product = self.active / self.gate.y * self.up.y  # sigma u
        quarter = product / (2 * product + eps * np.vectorize(sign)(product)) * half
        return self.up.back(quarter, eps) + self.gate.back(half + quarter, eps)

    def _attention(self, relevance: np.ndarray, bypass: bool, eps: float) -> np.ndarray:
        r_q, r_k, r_v = (np.zeros_like(x.y) for x in (self.q, self.k, self.v))
        for s, t, query, key, positions, bias, raw, z, a in self.heads:
            value = self.v.y[:, t]
            if bypass:
                r_v[:, t] += r_attention_values(relevance[:, s], a, value, eps)
                continue
            r_a, r_value = r_matmul(relevance[:, s], a, value, eps)
            r_v[:, t] += r_value
            r_z = np.where(np.isfinite(z), r_softmax(r_a, z), 0.0)  # the identity at a cap
            scaled = key.y.T * self.w.scale_of(query.y.shape[1])
            r_query, r_key = r_matmul(r_z, query.y, scaled, eps, bias)
            if positions is not None:
                of_query, of_key = positions.back(r_z, raw, eps)
                r_query, r_key = r_query + of_query, r_key + of_key.T
            r_q[:, s] += query.back(r_query, eps)
            r_k[:, t] += key.back(r_key.T, eps)
        for name, r in (("query", r_q), ("key", r_k), ("value", r_v)):
            r[self.cut.get(name, [])] = 0.0
        out = self.v.back(r_v, eps)
        return out if bypass else out + self.q.back(r_q, eps) + self.k.back(r_k, eps)


def _read(wiring: Wiring, y: np.ndarray, target: int, eps: float) -> tuple[float, np.ndarray]:
    """The target's logit, and the relevance of the last states y (T, D)."""
    weights: dict[str, Any] = {
        "two": np.eye(len(y))[:2],
        "first": np.eye(len(y))[0],
        "last": np.eye(len(y))[-1],
        "mean": np.full(len(y), 1 / len(y)),
    }
    weight = weights[wiring.readout]
    pooled = (weight @ y).flatten()
    steps: list[Any] = []
    x = pooled[None]
    for module, activation in wiring.head:
        norm = isinstance(module, nn.LayerNorm)
        steps.append(_Norm(module, x) if norm else _Linear(module, x))
        x = steps[-1].y if activation is None else _through(activation, steps[-1].y)
    logit, relevance = float(x[0, target]), np.zeros_like(x)
    relevance[0, target] = logit
    for step in reversed(steps):
        relevance = step.back(relevance, eps)
    small = eps * np.vectorize(sign)(pooled) if wiring.readout == "mean" else 0.0
    if wiring.readout == "two":  # each of the two tokens has its half
        whole = np.zeros_like(y)
        whole[:2] = relevance[0].reshape(2, -1)
        return logit, whole
    return logit, weight[:, None] * y / (pooled + small) * relevance[0]


def relevance_r_form(
    wiring: Wiring,
    ids: Any,
    target: int,
    *,
    bypass: Collection[int] = (),
    gate: str = "uniform",
    eps: float = 0.0,
    config: Any = None,
    cut: Mapping[str, Sequence[bool]] | None = None,
    end: Callable[[np.ndarray], tuple[float, np.ndarray]] | None = None,
) -> tuple[float, dict[str, np.ndarray]]:
    """One text: the target's logit, and the relevance (T,) of each part of the embedding sum.

    Of an image `ids` are the embeddings (T, E) of its tokens. Relevance of queries, keys or values ends at
    the tokens that are `cut`. `end` stands for the head: from the last states (T, D) to the output and their
    relevance.
    """
    batch, places = torch.as_tensor(ids), torch.arange(len(ids))
    cut = {name: np.asarray(tokens) for name, tokens in (cut or {}).items()}
    parts = {"word": _array(batch if batch.ndim == 2 else wiring.word(batch))}
    if wiring.position is not None:
        parts["position"] = _array(wiring.position(places + wiring.first_position))
    if wiring.type is not None:
        parts["type"] = _array(wiring.type(torch.zeros_like(batch)))
    start = _Norm(wiring.embedding_norm, np.sum(list(parts.values()), axis=0))
    wide = None if wiring.projection is None else _Linear(wiring.projection, start.y)
    ahead = np.arange(len(ids))[None] - np.arange(len(ids))[:, None]
    x, layers = start.y if wide is None else wide.y, []
    table = None if wiring.score_bias is None else wiring.score_bias.table.weight.double()
    biases = _array(bias_by_distance(table, wiring.heads, len(ids)))
    for w in wiring.layers:
        closed = (ahead > 0) & wiring.causal
        if w.window is not None:
            closed |= np.abs(ahead) > w.window
        angles = None
        if wiring.rotary is not None:
            pair = wiring.rotary(torch.from_numpy(x)[None], places[None], w.kind)
            angles = tuple(_array(side[0]) for side in pair)
        layers.append(_Layer(w, x, angles, closed, biases, config))
        x = layers[-1].y
    final = _Norm(wiring.final_norm, x)
    logit, relevance = _read(wiring, final.y, target, eps) if end is None else end(final.y)
    relevance = final.back(relevance, eps)
    for number in range(len(layers), 0, -1):
        relevance = layers[number - 1].back(relevance, bypass=number in bypass, gate=gate, eps=eps, cut=cut)
    relevance = start.back(relevance if wide is None else wide.back(relevance, eps), eps)
    shares = r_add(relevance, tuple(parts.values()), eps) if len(parts) > 1 else [relevance]
    return logit, {name: share.sum(1) for name, share in zip(parts, shares, strict=True)}
