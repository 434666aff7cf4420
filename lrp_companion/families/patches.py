"""Images cut into patches, as ViT reads them: every patch is a token, mapped by one linear map."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear, pad


@dataclass(frozen=True)
class PatchEmbedding:
    """Embeddings of special tokens and patches, in place of a text's word embeddings.

    A convolution whose stride is its width is one linear map of each patch, `W p + b`, with the pixels p of a
    patch in a row: channels, then rows, then columns.

    Attributes
    ----------
    projection : the convolution.
    special : what stands before the patches, (1, 1, E) each: `[CLS]`, and in DeiT a second one.
    size : height and width of an image in pixels.
    """

    projection: nn.Conv2d
    special: tuple[Tensor, ...]
    size: tuple[int, int]

    @property
    def channels(self) -> int:
        return self.projection.in_channels

    @property
    def patch(self) -> tuple[int, int]:
        """Height and width of a patch in pixels."""
        down, right = self.projection.kernel_size
        return down, right

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches; pixels beyond the last whole patch are not read."""
        return self.size[0] // self.patch[0], self.size[1] // self.patch[1]

    @property
    def tokens(self) -> int:
        """Special tokens and patches of an image."""
        return len(self.special) + self.grid[0] * self.grid[1]

    @property
    def weight(self) -> Tensor:
        """The map of a patch, (E, P)."""
        return self.projection.weight.flatten(1)

    def cut(self, pixels: Tensor) -> Tensor:
        """Images (B, C, H, W) as rows of pixels (B, T, P), one for each token; those of special ones are 0.

        >>> embed = PatchEmbedding(nn.Conv2d(1, 3, 2, stride=2), (torch.zeros(1, 1, 3),), (4, 4))
        >>> embed.cut(torch.arange(16.0).reshape(1, 1, 4, 4))[0, 1:3].tolist()
        [[0.0, 1.0, 4.0, 5.0], [2.0, 3.0, 6.0, 7.0]]
        """
        (rows, columns), (down, right) = self.grid, self.patch
        x = pixels[..., : rows * down, : columns * right]
        x = x.unflatten(-2, (rows, down)).unflatten(-1, (columns, right))
        patches = x.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
        return pad(patches, (0, 0, len(self.special), 0))

    def joined(self, patches: Tensor) -> Tensor:
        """The way back from `cut`: images (B, C, H, W), black where no patch reads."""
        (rows, columns), (down, right) = self.grid, self.patch
        x = patches[:, len(self.special) :].unflatten(1, (rows, columns))
        x = x.unflatten(-1, (self.channels, down, right)).permute(0, 3, 1, 4, 2, 5)
        x = x.flatten(4).flatten(2, 3)
        return pad(x, (0, self.size[1] - columns * right, 0, self.size[0] - rows * down))

    def __call__(self, patches: Tensor) -> Tensor:
        """Embeddings (B, T, E) of rows of pixels (B, T, P)."""
        of_patches = linear(patches[:, len(self.special) :], self.weight, self.projection.bias)
        before = [token.expand(len(patches), -1, -1) for token in self.special]
        return torch.cat([*before, of_patches], dim=1)


@dataclass(frozen=True)
class PositionTable:
    """Learned positions that a network keeps as one parameter, (1, T, E)."""

    table: Tensor

    @property
    def num_embeddings(self) -> int:
        return self.table.shape[1]

    @property
    def weight(self) -> Tensor:
        """The table (T, E), as a module of embeddings has it."""
        return self.table[0]

    def __call__(self, places: Tensor) -> Tensor:
        return embedding(places, self.weight)
