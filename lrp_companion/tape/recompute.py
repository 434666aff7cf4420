"""A tape that keeps one layer at a time and recomputes a layer from its input in the backward pass.

Memory falls from the tape of all layers to that of one layer and the inputs of the others, T x D numbers
each. The attention of that one layer, T x T numbers for each head, is held for a few heads at a time
(`attention.HeadsInTurn`). The cost is one more forward pass of every layer that is walked, and yet another
one of its attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from lrp_companion.tape.attention import AtAngles, AttentionStep
from lrp_companion.tape.layer import LayerBlock

Run = Callable[[Tensor], LayerBlock]


@dataclass(frozen=True)
class RecomputedLayer:
    """A layer that keeps only its input and output, and runs again whenever its inside is needed."""

    run: Run
    input: Tensor
    output: Tensor
    working: int

    @classmethod
    def of(cls, run: Run, x: Tensor) -> RecomputedLayer:
        """Run a layer without keeping its inside, not even for autograd, which also runs it again."""
        sizes: list[int] = []

        def output_of(x: Tensor) -> Tensor:
            block = run(x)
            sizes.append(block.working)
            return block.output

        graded = torch.is_grad_enabled()
        output = checkpoint(output_of, x, use_reentrant=False) if graded else output_of(x)
        return cls(run, x, output, sizes[0])

    @property
    def block(self) -> LayerBlock:
        """The layer's tape, recomputed."""
        return self.run(self.input)

    @property
    def attend(self) -> AttentionStep:
        """The layer's attention, recomputed."""
        return self.block.attend

    @property
    def attention(self) -> Tensor:
        """Attention weights (B, H, T, T), recomputed."""
        return self.block.attention

    def backward(self, g: Tensor, *, bypass: bool, eps: float = 0.0) -> Tensor:
        """As `LayerBlock.backward`."""
        return self.block.backward(g, bypass=bypass, eps=eps)

    def backward_and_angles(self, g: Tensor, *, bypass: bool, eps: float = 0.0) -> tuple[Tensor, AtAngles]:
        """As `LayerBlock.backward_and_angles`."""
        return self.block.backward_and_angles(g, bypass=bypass, eps=eps)

    def children(self, g: Tensor, *, eps: float = 0.0) -> tuple[Tensor, Tensor]:
        """As `LayerBlock.children`."""
        return self.block.children(g, eps=eps)
