"""The attention of one layer: forward with its tape, and both treatments in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from lrp_companion import rules
from lrp_companion.families.wiring import LayerWiring, SoftCap
from lrp_companion.tape.steps import MapStep, Step, exchanged, keeps, metering, run_steps, through

Sides = tuple[Tensor, ...]
"""Queries, keys and values of some heads, (B, h, T, d) each. Then, if the family adds a bias to its scores,
the bias (1, h, T, T); if it has relative positions, these as N keys and as N queries, (1, h, N, d) each.
"""
AtAngles = tuple[Tensor, ...]
"""Relevance of positions at a layer's cosines and at its sines, (..., B, T) each; () where the angles of its
rotations are constants, or there are none.
"""


class Movable:
    """A data class that follows its tensors to another device."""

    def to(self, device: torch.device) -> Any:
        """The same on another device."""
        return replace(self, **{name: _on(one, device) for name, one in vars(self).items()})  # type: ignore[type-var]


def _on(one: Any, device: torch.device) -> Any:
    if isinstance(one, tuple):
        return tuple(_on(part, device) for part in one)
    return one.to(device) if isinstance(one, (Tensor, Movable)) else one


@dataclass(frozen=True)
class Angles(Movable):
    """Cosines and sines of the rotations of queries and keys, (1, 1, T, d).

    In the backward pass they are constants, or with `factors` they get half of each product (PA-LRP).
    """

    cos: Tensor
    sin: Tensor
    factors: bool = False

    def at(self, rows: Callable[[Tensor], Tensor]) -> Angles:
        """Those of some rows."""
        return Angles(rows(self.cos), rows(self.sin), self.factors)

    def rotate(self, x: Tensor) -> Tensor:
        """Queries or keys (B, H, T, d), each rotated by its position's angles."""
        # a rotation by an angle for each pair of the halves of d, as `rules.turn` pairs them
        x, rest = self.parts(x)
        x = x * self.cos + rules.turn(x) * self.sin
        return torch.cat([x, rest], -1) if rest.shape[-1] else x

    def parts(self, x: Tensor) -> Sequence[Tensor]:
        """The first of the d numbers, which are rotated, and the others, which may be none."""
        width = self.cos.shape[-1]
        return x[..., :width], x[..., width:]


Shares = tuple[tuple[float, float], tuple[float, float]]
HALVES: Shares = ((0.5, 0.5), (0.5, 0.5))
"""AttnLRP's shares, Eq. (3) and (4): half to each factor."""
PATHS = ("query", "key", "value")


@dataclass(frozen=True)
class PathCut(Movable):
    """Queries, keys or values of some tokens, held constant on the way back.

    Attributes
    ----------
    path : one of `PATHS`.
    attended : the tokens of the texts, (B, T) bool; the rest is padding.
    tokens : which of them are cut, (B, T) bool; None: those that draw more attention than `drawn`.
    drawn : of a token, its attention weight, a mean over heads and queries.
    layers : in which layers, from 1; None: in all.
    """

    path: str
    attended: Tensor
    tokens: Tensor | None = None
    drawn: float = 1.0
    layers: frozenset[int] | None = None

    def of(self, attention: Tensor) -> Tensor:
        """The tokens (B, T) that are cut in a layer with this attention (B, H, T, T)."""
        if self.tokens is not None:
            return self.tokens
        queries = self.attended.to(attention)
        mean = (attention.mean(1) * queries[..., None]).sum(1) / queries.sum(1, keepdim=True)
        return mean > self.drawn


@dataclass(frozen=True)
class Context(Movable):
    """What a layer gets in a forward pass besides its input.

    Attributes
    ----------
    heads : how many heads queries have.
    masked : which keys are closed to which queries, (B or 1, 1, T or 1, T); None: none.
    keep : a soft mask of keys (B, T); None: all ones.
    angles : the rotations of queries and keys; None: none.
    bias : what is added to the scores, one tensor (1, H, T, T), or none.
    gate : how a gated MLP is treated on the way back, one of `steps.GATES`.
    asking : the places (B, k) of the tokens whose outputs are needed, as queries; None: all of them.
    in_turn : whether a few heads at a time are held, as in `HeadsInTurn`.
    added : what is added to what the heads read, (B, H, k, d); None: nothing.
    shares : what the factors of `O = A V` and of `Z = Q K^T` receive on the way back, each pair summing to 1.
    cuts : paths that carry nothing back.
    classes : the distances that occur, (N,), and for each query and key the index of theirs, (1, 1, T, T).
    heard : where a masked token is closed as a query, too: the mask (B, T, 1), and the weights (B, 1, 1, T)
        of the mean of all values that such a token reads.
    home : the device of all of these; None: they may lie on several.
    """

    heads: int
    masked: Tensor | None = None
    keep: Tensor | None = None
    angles: Angles | None = None
    bias: tuple[Tensor, ...] = ()
    gate: str = "uniform"
    asking: Tensor | None = None
    in_turn: bool = False
    added: Tensor | None = None
    shares: Shares = HALVES
    cuts: tuple[PathCut, ...] = ()
    classes: tuple[Tensor, Tensor] | None = None
    heard: tuple[Tensor, Tensor] | None = None
    home: torch.device | None = None

    def rows(self, x: Tensor) -> Tensor:
        """Of tensors (B or 1, ..., T, d) what is `asking`, (B, ..., k, d)."""
        return x if self.asking is None else x.take_along_dim(_rows_of(self.asking, x.ndim), -2)

    def add(self, total: Tensor, g: Tensor) -> Tensor:
        """Add g (..., B, k, d) of `rows` where they are in a total (..., B, T, d)."""
        if self.asking is None:
            return total.add_(g)
        return total.scatter_add_(-2, _rows_of(self.asking, 3).expand_as(g), g)

    def to(self, device: torch.device) -> Context:
        return replace(super().to(device), home=device)


def _rows_of(places: Tensor, axes: int) -> Tensor:
    """Places (B, k) as an index of the rows of a tensor of so many axes, (B, 1, ..., k, 1)."""
    return places.view(len(places), *[1] * (axes - 3), -1, 1)


@dataclass(frozen=True)
class Side:
    """Queries or keys: their map, a norm of each head, and their rotation; `y` (B, H, T, d) is the result."""

    map: MapStep
    norm: Sequence[Step]
    angles: Angles | None
    x: Tensor
    y: Tensor

    @classmethod
    def run(cls, step: MapStep, norm: Any, angles: Angles | None, heads: int) -> Side:
        # (B, T, H d) to (B, H, T, d), so that norm and rotation see one head at a time
        x, steps = step.y.unflatten(-1, (heads, -1)).transpose(-2, -3), list[Step]()
        if norm is not None:
            x, steps = run_steps(x, (norm, None))
        return cls(step, steps, angles, x, x if angles is None else angles.rotate(x))

    def backward(self, g: Tensor, *, eps: float) -> tuple[Tensor, AtAngles]:
        """Carry g from (..., B, H, T, d) to the attention's input (..., B, T, D); return also what positions
        get.
        """
        at_angles: AtAngles = ()
        if self.angles is not None:
            cos, sin = self.angles.cos, self.angles.sin
            (g, rest), (x, _), (y, _) = (self.angles.parts(one) for one in (g, self.x, self.y))
            # PA-LRP: half of each product to the angle, Eq. (3); else the angles are weights, Eq. (1)
            if self.angles.factors:
                g, g_cos, g_sin = rules.rotation_factors(g, x, cos, sin, y, eps=eps)
                # R = a g, summed over heads and width: (..., B, H, T, d) to (..., B, T)
                at_angles = (cos * g_cos).sum((-1, -3)), (sin * g_sin).sum((-1, -3))
            else:
                g = rules.rotation(g, cos, sin, y, eps=eps)
            g = torch.cat([g, rest], -1) if rest.shape[-1] else g
        # back through the norm of each head, (..., B, H, T, d) to (..., B, T, H d), and the map of all heads
        g = through(self.norm, g, eps) if self.norm else g
        return self.map.backward(g.transpose(-2, -3).flatten(-2), eps=eps), at_angles


@dataclass(frozen=True)
class Relative:
    """Scores by relative positions, `q_j . P_d + k_i . S_d`: P and S (1, h, N, d), S with the scale of the
    scores, and the place of d in them for each query and key, (B or 1, 1, T, T').
    """

    keys: Tensor
    queries: Tensor
    places: Tensor

    @classmethod
    def of(cls, wiring: LayerWiring, sides: Sequence[Tensor], places: Tensor) -> Relative:
        keys, queries = sides
        return cls(keys, queries * wiring.scale_of(queries.shape[-1]), places)

    def scores(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Content to position, and position to content, (B, h, T, T') each."""
        at = self.places.expand(*queries.shape[:2], -1, -1)
        to_content = (keys @ self.queries.mT).gather(-1, at.mT).mT
        return (queries @ self.keys.mT).gather(-1, at), to_content

    def backward(
        self, g: Tensor, queries: Tensor, keys: Tensor, shares: tuple[float, float]
    ) -> tuple[Tensor, Tensor]:
        """Carry g (..., B, h, T, T') from the scores to queries and keys."""

        def summed(g: Tensor, places: Tensor) -> Tensor:
            # of each class the sum over its pairs, (..., B, h, T, N)
            out = g.new_zeros(*g.shape[:-1], self.keys.shape[-2])
            return out.scatter_add_(-1, places.expand_as(g), g)

        of_query, of_key = summed(g, self.places), summed(g.mT, self.places.mT)
        to_query, to_key = shares
        if "matmul" in (own := exchanged()):  # two products; epsilon has acted on Z, their sum
            rows = (of_query, queries, self.keys, shares), (of_key, keys, self.queries, shares[::-1])
            classes = ((g, a, b.mT.expand(len(a), -1, -1, -1), share) for g, a, b, share in rows)
            at = [own("matmul", g, a, b, a @ b, eps=0.0, shares=share)[0] for g, a, b, share in classes]
            return at[0], at[1]
        return of_query @ (to_query * self.keys), of_key @ (to_key * self.queries)


@dataclass(frozen=True)
class Heads:
    """Some heads at work: queries, keys and values (B, h, T, d), those of shared heads repeated; queries with
    the scale of the scores.

    `attention` (B, h, T, T), `read` (B, h, T, d); `bias` is what is added to the scores, if anything: that of
    `relative`, if there is one.
    """

    wiring: LayerWiring
    queries: Tensor
    keys: Tensor
    values: Tensor
    attention: Tensor
    read: Tensor
    bias: tuple[Tensor, ...]
    scale: float
    shares: Shares = HALVES
    relative: Relative | None = None

    @classmethod
    def run(cls, wiring: LayerWiring, sides: Sides, context: Context) -> Heads:
        queries, keys, values, *bias = sides
        # s is 1 / sqrt(d) in most families
        scale = wiring.scale_of(queries.shape[-1])
        queries = scale * queries
        relative = None
        if context.classes is not None:
            relative, bias = Relative.of(wiring, bias, context.rows(context.classes[1])), []
            bias = list(relative.scores(queries, keys))
        scores = open_scores(wiring, queries, keys, tuple(bias), context)
        keep = context.keep
        # A = softmax(Z), and O = A V is what the heads read
        attention = scores.softmax(-1) if keep is None else KeptSoftmax.apply(scores, keep)
        read = attention @ values
        known = tuple(bias), scale, context.shares, relative
        return cls(wiring, queries, keys, values, attention, read, *known)

    @property
    def held(self) -> int:
        """Attention weights that are there at once."""
        return self.attention.numel()

    def groups(self) -> Iterator[Heads]:
        """All heads, some at a time."""
        yield self

    def without_largest(self, context: Context) -> tuple[Tensor, Tensor]:
        """For each query the key with the largest weight, (B, h, k, 1), and what is read without it,
        (B, h, k, d): 0 where no other key is open.
        """
        largest = self.attention.argmax(-1, keepdim=True)
        scores = open_scores(self.wiring, self.queries, self.keys, self.bias, context)
        lowest = torch.finfo(scores.dtype).min / 2
        scores = scores.scatter(-1, largest, lowest)
        some_open = scores.amax(-1, keepdim=True) > lowest / 2
        return largest, (scores.softmax(-1) * some_open) @ self.values

    def _scores(self) -> Tensor:
        """The input of the softmax, or of the soft cap before it, with keys that are closed."""
        return sum(self.bias, self.queries @ self.keys.mT)

    def _capped(self) -> tuple[Tensor, Tensor]:
        """The scores before a soft cap, and after it."""
        raw = self._scores()
        return raw, raw if self.wiring.cap is None else SoftCap(self.wiring.cap)(raw)

    @cached_property
    def _cap_slope(self) -> Tensor:
        return rules.slope(*self._capped(), at_zero=1.0)

    def values_only(self, g_read: Tensor, eps: float) -> Tensor:
        """CP-LRP: g at the values, with the attention held constant."""
        # A is a constant: Eq. (1), all to V and nothing to Q and K
        if "attention_values" in (own := exchanged()):
            return own("attention_values", g_read, self.attention, self.read, eps=eps, v=self.values)
        return rules.attention_values(g_read, self.attention, self.read, eps=eps)

    def all_factors(self, g_read: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        """AttnLRP: g at values, queries and keys."""
        of_read, of_scores = self.shares
        own = exchanged()
        matmul = partial(own, "matmul") if "matmul" in own else rules.matmul
        # O = A V, Eq. (3): half to A (..., T, T), half to V (..., T, d)
        factors = self.attention, self.values, self.read
        g_attention, g_value = matmul(g_read, *factors, eps=eps, shares=of_read)
        # A = softmax(Z), Eq. (5)
        if "softmax" in own:
            closed = self.attention == 0
            z = self._capped()[1].masked_fill(closed, -torch.inf)
            g_scores = own("softmax", g_attention, self.attention, z=z, closed=closed)
        else:
            g_scores = rules.softmax(g_attention, self.attention)
        # cap tanh(z / cap) is an activation function: R passes as it is
        if self.wiring.cap is not None and "elementwise" in own:
            raw, capped = self._capped()
            known: dict[str, Any] = {"z": raw, "y": capped, "activation": SoftCap(self.wiring.cap)}
            g_scores = own("elementwise", g_scores, self._cap_slope, **known)
        elif self.wiring.cap is not None:
            g_scores = rules.elementwise(g_scores, self._cap_slope)
        if metering():  # the softmax does not conserve: sum A g_A - sum Z g_Z
            keeps("softmax", self.attention * g_attention - self._scores() * g_scores)
            for bias in () if self.relative else self.bias:
                keeps("biases", bias * g_scores)
        # the scores themselves matter to the stabiliser only
        scores = self._scores() if eps or "matmul" in own else g_scores
        # Z = (s Q) K^T + B, Eq. (4): half to s Q (..., T, d), half to K, which comes out as K^T (..., d, T)
        factors = self.queries, self.keys.mT, scores
        g_query, g_key = matmul(g_scores, *factors, eps=eps, shares=of_scores)
        if self.relative is not None:  # a sum of three products: Eq. (4) for each, with Z as the output
            g_scores = rules.stabiliser(scores, eps / 2) * g_scores
            for share, bias in zip(reversed(of_scores), self.bias, strict=True) if metering() else ():
                keeps("positions", share * bias * g_scores)
            at_query, at_key = self.relative.backward(g_scores, self.queries, self.keys, of_scores)
            g_query, g_key = g_query.add_(at_query), g_key.add_(at_key.mT)
        return g_value, g_query.mul_(self.scale), g_key.mT


def open_scores(
    wiring: LayerWiring, queries: Tensor, keys: Tensor, bias: tuple[Tensor, ...], context: Context
) -> Tensor:
    """Z = (s Q) K^T + B, (B, h, T, T), of queries that have the scale; rows are queries, columns keys."""
    scores = sum(bias, queries @ keys.mT)
    if wiring.cap is not None:
        scores = SoftCap(wiring.cap)(scores)
    # half of the least number and not -inf: a query that is padding may have no open key
    if (masked := context.masked) is not None:
        masked = masked if masked.shape[-2] == 1 else context.rows(masked)
        scores.add_(masked * scores.new_tensor(torch.finfo(scores.dtype).min / 2))
    return scores


AT_ONCE = 1 << 26
"""Attention weights that `HeadsInTurn` makes at once, of one head at least."""


@dataclass(frozen=True)
class HeadsInTurn:
    """All heads, a few at a time: only what they read is kept, and the way back runs each of them again.

    The heads of a layer do not see each other, so the numbers are those of `Heads`. Autograd runs them again,
    too.
    """

    wiring: LayerWiring
    sides: Sides
    context: Context
    at_once: int
    read: Tensor

    @classmethod
    def run(cls, wiring: LayerWiring, sides: Sides, context: Context) -> HeadsInTurn:
        def read_of(*group: Tensor) -> Tensor:
            return Heads.run(wiring, group, context).read

        batch, heads, tokens = sides[1].shape[:3]
        # (B, h, T, T) of as many heads as fit, of one at least
        at_once = min(heads, max(1, AT_ONCE // (batch * tokens**2)))
        groups = zip(*(side.split(at_once, 1) for side in sides), strict=True)
        again = partial(checkpoint, read_of, use_reentrant=False)  # on the way back
        run = again if torch.is_grad_enabled() else read_of
        read = [run(*group) for group in groups]
        return cls(wiring, sides, context, at_once, torch.cat(read, 1))

    @property
    def held(self) -> int:
        """Attention weights that are there at once."""
        batch, _, tokens = self.read.shape[:3]
        return batch * self.at_once * tokens**2

    def groups(self) -> Iterator[Heads]:
        """As `Heads.groups`, made anew."""
        for group in zip(*(side.split(self.at_once, 1) for side in self.sides), strict=True):
            yield Heads.run(self.wiring, group, self.context)

    @property
    def attention(self) -> Tensor:
        """All attention weights (B, H, T, T), recomputed."""
        return torch.cat([heads.attention for heads in self.groups()], 1)

    def values_only(self, g_read: Tensor, eps: float) -> Tensor:
        """As `Heads.values_only`."""
        pairs = zip(self.groups(), g_read.split(self.at_once, -3), strict=True)
        return torch.cat([heads.values_only(g, eps) for heads, g in pairs], -3)

    def all_factors(self, g_read: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        """As `Heads.all_factors`."""
        pairs = zip(self.groups(), g_read.split(self.at_once, -3), strict=True)
        g_value, g_query, g_key = zip(*(heads.all_factors(g, eps) for heads, g in pairs), strict=True)
        return torch.cat(g_value, -3), torch.cat(g_query, -3), torch.cat(g_key, -3)


@dataclass(frozen=True)
class AttentionStep:
    """Attention on the tape, from its input to what the heads read."""

    wiring: LayerWiring
    context: Context
    queries: Side
    keys: Side
    value: MapStep
    key_heads: int
    at_work: Heads | HeadsInTurn

    @classmethod
    def run(cls, wiring: LayerWiring, x: Tensor, context: Context) -> AttentionStep:
        heads, angles = context.heads, context.angles
        query = MapStep.run(wiring.query, None, context.rows(x))
        key, value = (MapStep.run(m, None, x) for m in (wiring.key, wiring.value))
        of_keys = wiring.key_heads or heads
        queries = Side.run(query, wiring.query_norm, angles and angles.at(context.rows), heads)
        keys = Side.run(key, wiring.key_norm, angles, of_keys)
        shared = keys.y, split(value.y, of_keys)
        if of_keys != heads:  # heads that share keys and values read copies of them
            shared = repeated(shared[0], heads), repeated(shared[1], heads)
        work = HeadsInTurn if context.in_turn else Heads
        more = [context.rows(bias) for bias in context.bias]
        if wiring.relative is not None and context.classes is not None:
            more = wiring.relative.sides(context.classes[0], heads, queries.y.shape[-1])
        at_work = work.run(wiring, (queries.y, *shared, *more), context)
        return cls(wiring, context, queries, keys, value, of_keys, at_work)

    @property
    def query(self) -> MapStep:
        return self.queries.map

    @property
    def key(self) -> MapStep:
        return self.keys.map

    @property
    def attention(self) -> Tensor:
        """Attention weights (B, H, T, T)."""
        return self.at_work.attention

    @property
    def read(self) -> Tensor:
        """What the heads read, (B, H, T, d)."""
        read, added = self.at_work.read, self.context.added
        if self.context.heard is not None:
            heard, weights = self.context.heard
            heard = self.context.rows(heard)[:, None]
            values = repeated(split(self.value.y, self.key_heads), self.context.heads)
            read = heard * read + (1 - heard) * (weights @ values)
        return read if added is None else read + added

    def values_only(self, g_read: Tensor, eps: float) -> Tensor:
        """CP-LRP: what the attention's input gets through the values, with the attention held constant."""
        return self._through_values(self.at_work.values_only(g_read, eps), eps)

    def all_factors(self, g_read: Tensor, eps: float) -> tuple[Tensor, Tensor, AtAngles]:
        """AttnLRP: what the attention's input gets through the values, and through queries and keys; and what
        positions get.
        """
        g_value, g_query, g_key = self.at_work.all_factors(g_read, eps)
        values = self._through_values(g_value, eps)
        # S: through softmax, queries and keys; keys of several query heads get the sum of their g
        if self.key_heads != self.context.heads:
            g_key = gathered(g_key, self.key_heads)
        if self.context.cuts:
            g_query = self._uncut("query", g_query, self.queries.y)
            g_key = self._uncut("key", g_key, self.keys.y)
        at_query, of_queries = self.queries.backward(g_query, eps=eps)
        at_key, of_keys = self.keys.backward(g_key, eps=eps)
        pairs = zip(of_keys, of_queries, strict=True)
        at_angles = tuple(self.context.add(one[..., None], other[..., None])[..., 0] for one, other in pairs)
        return values, self.context.add(at_key, at_query), at_angles

    def _through_values(self, g: Tensor, eps: float) -> Tensor:
        if self.key_heads != self.context.heads:
            g = gathered(g, self.key_heads)
        if self.context.cuts:
            g = self._uncut("value", g, split(self.value.y, self.key_heads))
        return self.value.backward(merge(g), eps=eps)

    def _uncut(self, path: str, g: Tensor, y: Tensor) -> Tensor:
        """g (..., B, H, T, d) at queries, keys or values y, with 0 at the tokens of which these are cut."""
        left = g
        for cut in self.context.cuts:
            if cut.path == path:
                tokens = cut.of(self.attention)[:, None, :, None]
                left = left.masked_fill(self.context.rows(tokens) if path == "query" else tokens, 0)
        if metering():
            keeps("cuts", y * (g - left))
        return left


class KeptSoftmax(torch.autograd.Function):
    """`A_ji = w_i u_ji`, `u_ji = exp(Z_ji) / sum_k w_k exp(Z_jk)`: attention under a soft mask.

    Scores Z are (B, H, T, T), the mask w is (B, T).

    Written out because separate operations keep and move several more arrays of T x T numbers. `u` keeps
    `dA_ji/dw_i` finite where w_i is 0. With g at A and `h_ji = u_ji (g_ji - sum_k A_jk g_jk)` the gradient is
    `w_i h_ji` at Z_ji and the sum of `h_ji` over heads and queries at w_i. A query that may attend only to
    tokens of weight 0 reads nothing, such as the removed first token of a causal model.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, keep: Tensor) -> Tensor:
        column = keep[:, None, :, None]
        u = scores.softmax(-1)
        total = u @ column
        # softmax(Z) / (softmax(Z) @ w): its own denominator cancels; 0 / inf where nothing is kept
        u = u.div_(total.masked_fill_(total == 0, torch.inf))
        ctx.save_for_backward(u, column)
        return u * column.mT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        u, column = ctx.saved_tensors
        # h_ji = u_ji (g_ji - sum_k A_jk g_jk); the sum is (g u) @ w, as A = u w
        h = g * u
        h.addcmul_(h @ column, u, value=-1)
        to_keep = h.sum((1, 2)) if ctx.needs_input_grad[1] else None
        return h.mul_(column.mT) if ctx.needs_input_grad[0] else None, to_keep


def split(x: Tensor, heads: int) -> Tensor:
    """(..., T, D) to (..., H, T, D/H)."""
    return x.unflatten(-1, (heads, -1)).transpose(-2, -3)


def merge(x: Tensor) -> Tensor:
    """(..., H, T, D/H) to (..., T, D)."""
    return x.transpose(-2, -3).flatten(-2)


def repeated(x: Tensor, heads: int) -> Tensor:
    """Keys or values (B, H', T, d) for H query heads: each serves H / H' neighbours."""
    return x if x.shape[-3] == heads else x.repeat_interleave(heads // x.shape[-3], dim=-3)


def gathered(g: Tensor, heads: int) -> Tensor:
    """The backward pass of `repeated`: the sum of g over the query heads that share a key or value."""
    return g.unflatten(-3, (heads, -1)).sum(-3)
