"""Linear attention on small images: one function, two orders of multiplication, any shares of relevance.

The MNIST nets of You et al. 2025 (section 4.3, appendix B.1.1): three projections, two matrix products
without a softmax, a linear read-out. A token is one pixel.

    t_i = x_i                          (or x_i u + p_i with a position embedding)
    q_i = W_Q t_i, k_i = W_K t_i / sqrt(d), v_i = W_V t_i      (or without the sqrt(d))
    left:  O = (Q K^T) V               right:  O = Q (K^T V)
    logits = W_O O  over all positions (or over their mean)

The paper gives T = 196, d = 32 and ten classes, and leaves open biases, positions, pooling and scale. The
default is the plainest net with these sizes: no bias, no position, read-out over all positions. It is
homogeneous of degree 3 in the pixels, `f(c x) = c^3 f(x)`. The scale 1/sqrt(d) of Eq. (2) sits on the keys,
so that both orders share it. The paper's text calls the two orders left and right once this way (section 3.1)
and once the other way (section 4.3).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrp_companion import rules
from lrp_companion.checks import InputError, check_epsilon, choose, real_array, shown

ASSOCIATIONS = ("left", "right")
READOUTS = ("all", "mean")
SHARES: dict[str, tuple[float, float, float]] = {
    "left": (0.25, 0.25, 0.5),
    "right": (0.5, 0.25, 0.25),
    "flat": (1 / 3, 1 / 3, 1 / 3),
    "values": (0.0, 0.0, 1.0),
}
"""Shares of relevance that Q, K and V receive: by grouping, equal, or as in CP-LRP."""


class LinearAttention(torch.nn.Module):
    """A linear-attention classifier of images whose products are taken from the left or from the right.

    Parameters
    ----------
    association : "left" for `(Q K^T) V`, "right" for `Q (K^T V)`.
    tokens, dim, classes : T pixels, width d, number of classes.
    bias : biases in the projections and the read-out.
    position_embedding : a trained `p_i` is added to every token before the projections.
    embedding : whether a pixel first becomes `x_i u` (width d) or is only its value. None: if there are
        positions.
    scaled : keys are divided by sqrt(d), as in Eq. (2).
    readout : "all" reads every position with separate weights, "mean" reads the mean over positions. Without
        positions the mean does not know where a pixel is.
    seed : of the initial weights; the global random state is left alone.
    dtype : float32 or float64.

    Raises
    ------
    InputError : unknown association or read-out, sizes below 1.

    >>> net = LinearAttention(association="left", seed=1, dtype=torch.float64)
    >>> images = torch.rand(2, 14, 14, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> torch.allclose(net(images), net.sibling()(images))
    True
    >>> torch.allclose(net.relevance(images, 0), net.sibling().relevance(images, 0))
    False
    """

    def __init__(
        self,
        *,
        association: str = "left",
        tokens: int = 196,
        dim: int = 32,
        classes: int = 10,
        bias: bool = False,
        position_embedding: bool = False,
        embedding: bool | None = None,
        scaled: bool = True,
        readout: str = "all",
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        choose("LinearAttention", "association", association, ASSOCIATIONS)
        choose("LinearAttention", "readout", readout, READOUTS)
        super().__init__()
        self.association, self.readout, self.scale = association, readout, dim**-0.5 if scaled else 1.0
        self.tokens, self.dim, self.classes, side = tokens, dim, classes, round(tokens**0.5)
        self.shapes = [(tokens,), (side, side)] if side * side == tokens else [(tokens,)]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            wide = position_embedding if embedding is None else embedding
            width = dim if wide else 1
            self.embed = torch.nn.Linear(1, dim, bias=False) if wide else None
            self.position = (
                torch.nn.Parameter(0.02 * torch.randn(tokens, width)) if position_embedding else None
            )
            self.query, self.key, self.value = (torch.nn.Linear(width, dim, bias=bias) for _ in range(3))
            self.read = torch.nn.Linear(tokens * dim if readout == "all" else dim, classes, bias=bias)
        self.to(dtype)

    # -- the function --------------------------------------------------------------------------------

    def forward(self, images: Tensor | np.ndarray) -> Tensor:
        """Logits (B, classes) of images (B, T) or (B, side, side), in the order of `association`."""
        return self._forward(self.check_images(images), self.association)["logits"]

    def _forward(self, x: Tensor, association: str) -> dict[str, Any]:
        """All activations; the last two axes are (T, d) unless stated otherwise."""
        pixel = x[..., None]
        embedded = pixel if self.embed is None else self.embed(pixel)
        token = embedded if self.position is None else embedded + self.position
        query, key, value = self.query(token), self.key(token), self.value(token)
        scaled = key * self.scale
        inner = query @ scaled.mT if association == "left" else scaled.mT @ value  # (T, T) or (d, d)
        output = inner @ value if association == "left" else query @ inner
        pooled = output.flatten(1) if self.readout == "all" else output.mean(1)
        return {
            "embedded": embedded,
            "token": token,
            "query": query,
            "key": key,
            "scaled": scaled,
            "value": value,
            "inner": inner,
            "output": output,
            "pooled": pooled,
            "logits": self.read(pooled),
        }

    def factored(self, images: Tensor | np.ndarray) -> Tensor:
        """Logits (B, classes) to rounding, without an array of T x d or d x d per image: what training uses.

        A token differs between images only by its pixel, `t_i = x_i u + p_i`. With `a = W u` and
        `c_i = W p_i + b`

            K^T V = a_K m^T + n a_V^T + c_K^T c_V,
            m = sum_i x_i v_i = sum_i x_i^2 a_V + sum_i x_i c_V,i,    n = sum_i x_i c_K,i

        and the read-out takes its sums over positions once for a batch. The scale multiplies a_K and c_K.
        """
        x = self.check_images(images, "LinearAttention.factored")
        direction = x.new_ones(1) if self.embed is None else self.embed.weight[:, 0]
        offset = x.new_zeros(self.tokens, len(direction)) if self.position is None else self.position
        (a_q, c_q), (a_k, c_k), (a_v, c_v) = (
            (layer.weight @ direction, layer(offset)) for layer in (self.query, self.key, self.value)
        )
        a_k, c_k = a_k * self.scale, c_k * self.scale
        m, n, constant = (x * x).sum(1, keepdim=True) * a_v + x @ c_v, x @ c_k, c_k.T @ c_v
        if self.readout == "mean":
            query = x.mean(1, keepdim=True) * a_q + c_q.mean(0)
            pooled = (query @ a_k)[:, None] * m + (query * n).sum(1, keepdim=True) * a_v + query @ constant
            return self.read(pooled)
        read = self.read.weight.view(self.classes, self.tokens, self.dim).transpose(0, 1)  # (T, classes, d)
        pixels = (x @ read.flatten(1)).view(len(x), self.classes, self.dim)
        # What does not depend on the query's pixel, (d, classes, d).
        others = (c_q.T @ read.flatten(1)).view(self.dim, self.classes, self.dim)
        output = (a_q @ a_k) * m + (n @ a_q)[:, None] * a_v + a_q @ constant  # what a query a_q reads
        logits = (pixels @ output[..., None])[..., 0] + (constant[:, None] * others).sum((0, 2))
        logits = logits + m @ torch.tensordot(a_k, others, 1).T + n @ (others @ a_v)
        return logits if self.read.bias is None else logits + self.read.bias

    def with_association(self, association: str) -> LinearAttention:
        """The same function with the products in the named order; the weights are shared, not copied."""
        choose("LinearAttention.with_association", "association", association, ASSOCIATIONS)
        twin = copy.copy(self)
        twin.association = association
        return twin

    def sibling(self) -> LinearAttention:
        """The same function in the other order; the weights are shared, not copied."""
        return self.with_association("right" if self.association == "left" else "left")

    # -- training ------------------------------------------------------------------------------------

    def train_on(
        self,
        images: Tensor | np.ndarray,
        labels: Sequence[int] | np.ndarray | Tensor,
        *,
        epochs: int = 5,
        lr: float = 1e-3,
        batch_size: int = 64,
        seed: int = 0,
    ) -> list[float]:
        """Train with Adam and cross-entropy; return the mean loss of each epoch.

        The settings are those of the paper's appendix B.1.1, except the batch size, which it does not give.
        The same `seed` gives the same order of batches. Logits come from `factored` for both associations:
        the function is the same, and its arrays are the smallest.
        """
        x = self.check_images(images, "LinearAttention.train_on")
        y = self.classes_of(labels, len(x), "LinearAttention.train_on", "labels")
        order = torch.Generator().manual_seed(seed)
        adam = torch.optim.Adam(self.parameters(), lr=lr)
        losses = []
        for _ in range(epochs):
            total = 0.0
            for rows in torch.randperm(len(x), generator=order).to(x.device).split(batch_size):
                adam.zero_grad()
                loss = torch.nn.functional.cross_entropy(self.factored(x[rows]), y[rows])
                loss.backward()
                adam.step()
                total += loss.item() * len(rows)
            losses.append(total / len(x))
        adam.zero_grad()
        return losses

    @torch.no_grad()
    def accuracy(self, images: Tensor | np.ndarray, labels: Sequence[int] | np.ndarray | Tensor) -> float:
        """Fraction of the images whose predicted class is the label, in [0, 1]."""
        x = self.check_images(images, "LinearAttention.accuracy")
        y = self.classes_of(labels, len(x), "LinearAttention.accuracy", "labels")
        predicted = torch.cat([self(batch).argmax(-1) for batch in x.split(256)])
        return float((predicted == y).double().mean())

    # -- relevance -----------------------------------------------------------------------------------

    def relevance(
        self,
        images: Tensor | np.ndarray,
        target: int | Sequence[int] | Tensor,
        *,
        shares: Sequence[float] | None = None,
        epsilon: float = 0.0,
    ) -> Tensor:
        """Relevance of every pixel, (B, T), for the logit of class `target`; that of positions is left out.

        Each matrix product passes relevance back by Eq. (3) and (4) of the paper, in the order in which it
        was computed; projections and read-out do so by Eq. (1). With `shares=None` a product gives each
        factor half, so that Q, K and V receive (1/4, 1/4, 1/2) from the left and (1/2, 1/4, 1/4) from the
        right. `shares` names any other point `(a_Q, a_K, a_V)` of the simplex; a factor with share 0 counts
        as a constant, so (0, 0, 1) is CP-LRP.
        """
        return self.relevance_parts(images, target, shares=shares, epsilon=epsilon)["pixel"]

    @torch.no_grad()
    def relevance_parts(
        self,
        images: Tensor | np.ndarray,
        target: int | Sequence[int] | Tensor,
        *,
        shares: Sequence[float] | None = None,
        epsilon: float = 0.0,
    ) -> dict[str, Tensor]:
        """As `relevance`, by part: `pixel` and, with a position embedding, `position`."""
        x = self.check_images(images, "LinearAttention.relevance")
        chosen = self.classes_of(target, len(x), "LinearAttention.relevance")
        a_q, a_k, a_v = check_shares(SHARES[self.association] if shares is None else shares)
        epsilon = check_epsilon("LinearAttention.relevance", epsilon)
        tape = self._forward(x, self.association)

        start = torch.nn.functional.one_hot(chosen, self.classes).to(x)
        g_output = self._through_readout(start, tape, epsilon)
        query, scaled, value, inner = tape["query"], tape["scaled"], tape["value"], tape["inner"]
        if self.association == "left":
            g_inner, g_value = _split(g_output, inner, value, tape["output"], (a_q + a_k, a_v), epsilon)
            g_query, g_scaled = _split(g_inner, query, scaled.mT, inner, _within(a_q, a_k), epsilon)
            g_scaled = g_scaled.mT
        else:
            g_query, g_inner = _split(g_output, query, inner, tape["output"], (a_q, a_k + a_v), epsilon)
            g_scaled, g_value = _split(g_inner, scaled.mT, value, inner, _within(a_k, a_v), epsilon)
            g_scaled = g_scaled.mT

        g_token = (
            rules.linear(g_query, self.query.weight, tape["query"], eps=epsilon)
            + rules.linear(g_scaled * self.scale, self.key.weight, tape["key"], eps=epsilon)
            + rules.linear(g_value, self.value.weight, tape["value"], eps=epsilon)
        )
        g_sum = g_token if self.position is None else rules.add(g_token, tape["token"], eps=epsilon)
        g_pixel = g_sum
        if self.embed is not None:
            g_pixel = rules.linear(g_sum, self.embed.weight, tape["embedded"], eps=epsilon)
        parts = {"pixel": x * g_pixel[..., 0]}
        return parts if self.position is None else parts | {"position": (self.position * g_sum).sum(-1)}

    def _through_readout(self, start: Tensor, tape: dict[str, Tensor], epsilon: float) -> Tensor:
        """From g at the logits (B, classes) to g at the attention's output (B, T, d)."""
        g = rules.linear(start, self.read.weight, tape["logits"], eps=epsilon)
        if self.readout == "all":
            return g.view_as(tape["output"])
        # a mean over T positions is a linear layer with weights 1/T
        g_mean = rules.add(g, tape["pooled"], eps=epsilon) / self.tokens
        return g_mean[:, None].expand_as(tape["output"])

    def share_maps(
        self, images: Tensor | np.ndarray, target: int | Sequence[int] | Tensor
    ) -> dict[str, Tensor]:
        """Three maps (B, T), epsilon 0: as if all relevance went through Q, through K, or through V.

        Relevance is linear in the shares, so `a_Q R_Q + a_K R_K + a_V R_V` is the map of every other point of
        the simplex. The three maps do not depend on the association; only the shares do.
        """
        corners = {"query": (1.0, 0.0, 0.0), "key": (0.0, 1.0, 0.0), "value": (0.0, 0.0, 1.0)}
        return {name: self.relevance(images, target, shares=corner) for name, corner in corners.items()}

    # -- input ---------------------------------------------------------------------------------------

    def check_images(self, images: Tensor | np.ndarray, operation: str = "LinearAttention") -> Tensor:
        """Images as a tensor (B, T) of the net's type and device."""
        weight = self.query.weight
        given = images if isinstance(images, Tensor) else np.array(real_array(operation, "images", images))
        x = torch.as_tensor(given)
        if x.shape[1:] not in self.shapes or len(x) == 0:
            got, expected = f"images of shape {tuple(x.shape)}", f"(B, ...) of {self.shapes}, B at least 1"
            hint = "a single image needs a first axis: images[None]"
            raise InputError(operation, got=got, expected=expected, hint=hint)
        x = x.to(device=weight.device, dtype=weight.dtype).reshape(len(x), self.tokens)
        if not torch.isfinite(x).all():
            got, hint = "images with NaN or infinity", "check how the images were read"
            raise InputError(operation, got=got, expected="finite pixels", hint=hint)
        return x

    def classes_of(self, given: Any, count: int, operation: str, name: str = "target") -> Tensor:
        """Classes as a tensor (B,): one for each image, or as a `target` one for all."""
        y = given if isinstance(given, Tensor) else torch.as_tensor(np.array(given))
        y = y.expand(count) if y.ndim == 0 and name == "target" else y
        if y.is_floating_point() or y.shape != (count,) or not bool(y.min() >= 0 and y.max() < self.classes):
            got, expected = f"{name} {shown(given)}", f"a class from 0 to {self.classes - 1} for each image"
            raise InputError(operation, got=got, expected=expected, hint=f"there are {count} images")
        return y.to(device=self.query.weight.device, dtype=torch.long)


def check_shares(shares: Sequence[float]) -> tuple[float, float, float]:
    """Shares of Q, K and V as floats; `InputError` unless there are three, none negative, with the sum 1."""
    values = tuple(map(float, shares))
    if len(values) != 3 or min(values) < 0 or abs(sum(values) - 1) > 1e-9:
        expected, hint = "three numbers of at least 0 with the sum 1", "such as (0.25, 0.25, 0.5)"
        raise InputError("relevance", got=f"shares {shares!r}", expected=expected, hint=hint)
    return values


def _within(first: float, second: float) -> tuple[float, float]:
    """Two shares relative to their sum; if both are 0 nothing arrives, and any shares are valid."""
    total = first + second
    return (first / total, second / total) if total else (0.5, 0.5)


def _split(
    g_o: Tensor, a: Tensor, b: Tensor, o: Tensor, shares: tuple[float, float], eps: float
) -> tuple[Tensor, Tensor]:
    """From g at a product to g at its factors, by `shares`.

    A factor with share 0 is a constant, and the product is linear in the other one.
    """
    if shares[0] == 0:
        return torch.zeros_like(a), shares[1] * rules.attention_values(g_o, a, o, eps=eps)
    if shares[1] == 0:
        return shares[0] * rules.attention_values(g_o.mT, b.mT, o.mT, eps=eps).mT, torch.zeros_like(b)
    return rules.matmul(g_o, a, b, o, eps=eps, shares=shares)
