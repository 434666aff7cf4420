"""Batches of token sequences under a budget of tokens, padding included."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lrp_companion.schema import whole

BUSY = {"cpu": 512, "cuda": 8_192}
"""Tokens per batch for work that keeps a tape, by device.

On a CPU more tokens only add padding (measured from 128 to 4,096). The number for a GPU is a guess: about 10
GiB of tape at BERT-base width and 512 tokens.
"""


def budget(batch_tokens: int | None, device: torch.device) -> int:
    """The given number, checked, or by default what keeps this device busy.

    >>> budget(64, torch.device("cpu")), budget(None, torch.device("cpu"))
    (64, 512)
    """
    return BUSY.get(device.type, BUSY["cpu"]) if batch_tokens is None else check_budget(batch_tokens)


def check_budget(batch_tokens: int) -> int:
    """The budget if it is a whole number of tokens, at least 1; else raise `InputError`."""
    return whole("batches", "batch_tokens", batch_tokens, hint="try batch_tokens=4096")


def token_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Indices of sequences in batches of at most `batch_tokens` tokens, padding included.

    Sequences of similar length share a batch, and one that is longer than the budget is alone in its batch.
    The longest come first, so that memory peaks at once.

    >>> token_batches([3, 9, 4], 10)
    [[1], [2, 0]]
    """
    check_budget(batch_tokens)
    batches: list[list[int]] = []
    left = 0
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if left < 1:
            batches.append([])
            left = max(1, batch_tokens // max(1, lengths[index]))
        batches[-1].append(index)
        left -= 1
    return batches


def pad(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids (B, T) padded on the right, and the mask that is 1 on real tokens."""
    width = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows], device=device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return ids, (torch.arange(width, device=device) < lengths[:, None]).long()
